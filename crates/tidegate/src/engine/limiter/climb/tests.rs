//! The limit that is found at model stores, whose rate depends on how many requests are in flight.

use super::*;

const PART: f64 = (8 << 20) as f64;
const MB: f64 = 1e6;

/// Bytes a second that so many requests reach together.
type Rate = fn(usize) -> f64;

/// A store, by the bytes a second that it moves for so many requests together.
struct Model {
    rate: Rate,
    /// With more than this many requests in flight, those that end are refused.
    refuses_above: usize,
    /// The best rate that it gives for long.
    best: f64,
    /// By how much the connections differ, as a share of their mean speed.
    uneven: f64,
}

impl Model {
    const fn of(rate: Rate, best: f64) -> Self {
        Self { rate, refuses_above: 512, best, uneven: 0.3 }
    }
}

/// What a long run shows: the mean limit and the share of the best rate in its second half, the share in the whole run,
/// and the most requests that were in flight.
#[derive(Clone, Copy, Debug)]
struct Settled {
    limit: f64,
    share: f64,
    whole: f64,
    most: usize,
}

struct Flight {
    began: f64,
    left: f64,
    /// Its share of the rate, beside that of the others: connections are not equally fast.
    weight: f64,
}

/// Sends parts to `model` for some `seconds`, with others always waiting.
fn run(model: &Model, seconds: f64, seed: u64) -> Settled {
    run_from(Climb::new(), model, seconds, seed)
}

fn run_from(mut climb: Climb, model: &Model, seconds: f64, seed: u64) -> Settled {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut noise = |share: f64| 1.0 + share * (random.f64() * 2.0 - 1.0);
    let start = Instant::now();
    let at = |second: f64| start + Duration::from_secs_f64(second);
    let (mut now, mut limit, mut flights) = (0.0, climb.limit, Vec::<Flight>::new());
    let (mut moved, mut whole, mut limits, mut most) = (0.0, 0.0, 0.0, 0);
    climb.begins(start);
    while now < seconds {
        while flights.len() < limit {
            flights.push(Flight { began: now, left: PART, weight: noise(model.uneven) });
        }
        let in_flight = flights.len();
        most = most.max(in_flight);
        let weights: f64 = flights.iter().map(|flight| flight.weight).sum();
        let unit = (model.rate)(in_flight) * noise(model.uneven / 10.0) / weights;
        let ends = |flight: &Flight| flight.left / (flight.weight * unit);
        let (next, first) =
            flights.iter().map(ends).enumerate().min_by(|a, b| a.1.total_cmp(&b.1)).expect("one in flight");
        let widens =
            climb.widens_at().map(|at| (at - start).as_secs_f64() - now).filter(|after| *after < first);
        let step = widens.map_or(first, |after| after.max(0.0));
        now += step;
        whole += unit * weights * step;
        if now > seconds / 2.0 {
            moved += unit * weights * step;
            limits += in_flight as f64 * step;
        }
        flights.iter_mut().for_each(|flight| flight.left -= flight.weight * unit * step);
        if widens.is_some() {
            limit = climb.widen();
            continue;
        }
        let ended = flights.swap_remove(next);
        let is_refused = in_flight > model.refuses_above;
        let outcome = if is_refused { Outcome::Overload } else { Outcome::Moved(PART as u64) };
        limit = climb.ended(outcome, in_flight, true, at(ended.began), at(now));
    }
    let half = seconds / 2.0;
    Settled { limit: limits / half, share: moved / half / model.best, whole: whole / now / model.best, most }
}

const SEEDS: std::ops::Range<u64> = 0..10;

#[test]
fn a_store_that_a_few_requests_fill_is_met_with_a_few() {
    let fast = Model::of(|n| 1000.0 * MB * (n as f64 / 4.0).min(1.0), 1000.0 * MB);
    let slower = Model::of(|n| 300.0 * MB * (n as f64 / 4.0).min(1.0), 300.0 * MB);
    // Each connection costs a little.
    let falls = Model::of(|n| 300.0 * MB * (1.0 - 0.001 * n as f64), 300.0 * MB);
    for (name, model) in [("fast", fast), ("slower", slower), ("falls", falls)] {
        let runs: Vec<Settled> = SEEDS.map(|seed| run(&model, 60.0, seed)).collect();
        for settled in &runs {
            assert!(settled.share >= 0.95, "{name}: {settled:?}");
            assert!(settled.most <= 2 * Climb::WIDE, "{name}: {settled:?}");
        }
        let mean = runs.iter().map(|settled| settled.limit).sum::<f64>() / runs.len() as f64;
        assert!(mean <= 8.0, "{name}: {mean}");
    }
}

#[test]
fn a_network_of_slow_connections_keeps_as_many_as_it_takes() {
    let rates: [(usize, Rate); 3] = [
        (16, |n| 20.0 * MB * n.min(16) as f64),
        (64, |n| 20.0 * MB * n.min(64) as f64),
        (200, |n| 20.0 * MB * n.min(200) as f64),
    ];
    for (streams, rate) in rates {
        let model = Model::of(rate, rate(streams));
        let runs: Vec<Settled> = SEEDS.map(|seed| run(&model, 120.0, seed)).collect();
        let mean = |of: fn(&Settled) -> f64| runs.iter().map(of).sum::<f64>() / runs.len() as f64;
        assert!(mean(|settled| settled.share) >= 0.95, "{streams}: {runs:?}");
        assert!(runs.iter().all(|settled| settled.share >= 0.9), "{streams}: {runs:?}");
        assert!(mean(|settled| settled.limit) <= 1.5 * streams as f64, "{streams}: {runs:?}");
    }
}

#[test]
fn a_store_that_refuses_too_many_is_met_with_nearly_as_many_as_it_takes() {
    let model = Model { refuses_above: 40, ..Model::of(|n| 20.0 * MB * n.min(40) as f64, 800.0 * MB) };
    let runs: Vec<Settled> = SEEDS.map(|seed| run(&model, 120.0, seed)).collect();
    let limit = runs.iter().map(|settled| settled.limit).sum::<f64>() / runs.len() as f64;
    assert!((36.0..=40.0).contains(&limit), "{limit}: {runs:?}");
    let share = runs.iter().map(|settled| settled.share).sum::<f64>() / runs.len() as f64;
    assert!(share >= 0.9, "{share}: {runs:?}");
}

#[test]
fn a_slow_link_ends_with_a_few() {
    for uneven in [0.3, 0.0] {
        let model = Model { uneven, ..Model::of(|_| 10.0 * MB, 10.0 * MB) };
        let runs: Vec<Settled> = SEEDS.map(|seed| run(&model, 600.0, seed)).collect();
        assert!(runs.iter().all(|settled| settled.share >= 0.95), "{runs:?}");
        let mean = runs.iter().map(|settled| settled.limit).sum::<f64>() / runs.len() as f64;
        assert!(mean <= 5.0, "{uneven}: {mean}");
    }
}

#[test]
fn steps_down_cost_little_where_requests_are_long() {
    // A request takes 8 s.
    let model = Model::of(|n| MB * n.min(4) as f64, 4.0 * MB);
    let runs: Vec<Settled> = SEEDS.map(|seed| run(&model, 3600.0, seed)).collect();
    let whole = runs.iter().map(|settled| settled.whole).sum::<f64>() / runs.len() as f64;
    assert!(whole >= 0.97, "{whole}: {runs:?}");
}

#[test]
fn a_far_store_is_not_met_with_few_before_it_has_shown_its_rate() {
    let model = Model::of(|n| 20.0 * MB * n.min(64) as f64, 64.0 * 20.0 * MB);
    // The first request is small, and shows that the store is far.
    let mut far = Climb::new();
    let began = Instant::now();
    far.begins(began);
    far.ended(Outcome::Moved(0), 1, true, began, began + Climb::FAR * 4);
    assert_eq!(far.limit, Climb::FEW);
    let ten = 10.0 * PART / (20.0 * MB);
    let shares = SEEDS.map(|seed| {
        run_from(Climb { phase: far.phase, limit: far.limit, ..Climb::new() }, &model, ten, seed).whole
    });
    let shares: Vec<f64> = shares.collect();
    let mean = shares.iter().sum::<f64>() / shares.len() as f64;
    assert!(mean >= 0.95, "{mean}: {shares:?}");
}

#[test]
fn a_step_down_that_cannot_be_judged_is_taken_back() {
    let now = Instant::now();
    let phase = Phase::Try { back: 16, before: 1.0, since: now };
    let mut climb = Climb { limit: 12, phase, direction: Direction::Down, ..Climb::new() };
    climb.ended(Outcome::Moved(PART as u64), 12, true, now, now);
    assert_eq!(climb.limit, 12);
    assert_eq!(climb.ended(Outcome::Moved(PART as u64), 12, false, now, now), 16);
    assert!(matches!(climb.phase, Phase::Hold { .. }));
}

#[test]
fn an_overload_below_the_limit_says_nothing_about_it() {
    let now = Instant::now();
    for (in_flight, ceiling) in [(20, None), (64, Some(64))] {
        let mut climb = Climb { limit: 64, phase: Phase::Hold { until: now }, ..Climb::new() };
        climb.ended(Outcome::Overload, in_flight, false, now, now);
        assert_eq!(climb.limit, in_flight * 2 / 3);
        assert_eq!(climb.overloaded.map(|(limit, _)| limit), ceiling);
    }
}

/// Small requests for `time`: as many as the limit allows begin together, and each takes `each`.
fn small(climb: &mut Climb, mut now: Instant, time: Duration, each: Duration) {
    let until = now + time;
    while now < until {
        let (began, in_flight) = (now, climb.limit);
        now += each;
        for _ in 0..in_flight {
            climb.ended(Outcome::Brought(4 << 10), in_flight, true, began, now);
        }
    }
}

#[test]
fn a_limit_found_with_large_parts_does_not_hold_small_requests_back() {
    let now = Instant::now();
    let rests = Phase::Hold { until: now + Climb::LONGEST_REST };
    for phase in [rests, Phase::Try { back: 6, before: 300.0 * MB, since: now }] {
        let mut climb =
            Climb { limit: 4, phase, direction: Direction::Down, found_with: Some(8 << 20), ..Climb::new() };
        small(&mut climb, now, Duration::from_secs(10), Duration::from_millis(20));
        assert!(climb.limit >= 64, "{climb:?}");
    }
}

#[test]
fn requests_of_one_size_let_a_rest_last() {
    let now = Instant::now();
    let until = now + Climb::LONGEST_REST;
    let mut climb = Climb { limit: 4, phase: Phase::Hold { until }, ..Climb::new() };
    small(&mut climb, now, Duration::from_secs(10), Duration::from_millis(20));
    assert_eq!(climb.limit, 4, "they are as large as those before");
}
