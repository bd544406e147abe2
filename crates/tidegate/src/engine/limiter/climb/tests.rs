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
}

/// What a long run shows: the mean limit and the share of the best rate in its second half, and the most requests that
/// were in flight.
#[derive(Clone, Copy, Debug)]
struct Settled {
    limit: f64,
    share: f64,
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
    let mut random = fastrand::Rng::with_seed(seed);
    let mut noise = |share: f64| 1.0 + share * (random.f64() * 2.0 - 1.0);
    let (mut climb, start) = (Climb::new(), Instant::now());
    let at = |second: f64| start + Duration::from_secs_f64(second);
    let (mut now, mut limit, mut flights) = (0.0, Climb::AT_FIRST, Vec::<Flight>::new());
    let (mut moved, mut limits, mut most) = (0.0, 0.0, 0);
    climb.begins(start);
    while now < seconds {
        while flights.len() < limit {
            flights.push(Flight { began: now, left: PART, weight: noise(0.3) });
        }
        let in_flight = flights.len();
        most = most.max(in_flight);
        let weights: f64 = flights.iter().map(|flight| flight.weight).sum();
        let unit = (model.rate)(in_flight) * noise(0.03) / weights;
        let ends = |flight: &Flight| flight.left / (flight.weight * unit);
        let (next, first) =
            flights.iter().map(ends).enumerate().min_by(|a, b| a.1.total_cmp(&b.1)).expect("one in flight");
        let widens =
            climb.widens_at().map(|at| (at - start).as_secs_f64() - now).filter(|after| *after < first);
        let step = widens.map_or(first, |after| after.max(0.0));
        now += step;
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
    Settled { limit: limits / half, share: moved / half / model.best, most }
}

const SEEDS: std::ops::Range<u64> = 0..10;

#[test]
fn a_store_that_a_few_requests_fill_is_met_with_a_few() {
    let fast =
        Model { rate: |n| 1000.0 * MB * (n as f64 / 4.0).min(1.0), refuses_above: 512, best: 1000.0 * MB };
    let slower =
        Model { rate: |n| 300.0 * MB * (n as f64 / 4.0).min(1.0), refuses_above: 512, best: 300.0 * MB };
    // Each connection costs a little.
    let falls =
        Model { rate: |n| 300.0 * MB * (1.0 - 0.001 * n as f64), refuses_above: 512, best: 300.0 * MB };
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
        let model = Model { rate, refuses_above: 512, best: rate(streams) };
        let runs: Vec<Settled> = SEEDS.map(|seed| run(&model, 120.0, seed)).collect();
        let mean = |of: fn(&Settled) -> f64| runs.iter().map(of).sum::<f64>() / runs.len() as f64;
        assert!(mean(|settled| settled.share) >= 0.95, "{streams}: {runs:?}");
        assert!(runs.iter().all(|settled| settled.share >= 0.9), "{streams}: {runs:?}");
        assert!(mean(|settled| settled.limit) <= 1.5 * streams as f64, "{streams}: {runs:?}");
    }
}

#[test]
fn a_store_that_refuses_too_many_is_met_with_nearly_as_many_as_it_takes() {
    let model = Model { rate: |n| 20.0 * MB * n.min(40) as f64, refuses_above: 40, best: 800.0 * MB };
    let runs: Vec<Settled> = SEEDS.map(|seed| run(&model, 120.0, seed)).collect();
    let limit = runs.iter().map(|settled| settled.limit).sum::<f64>() / runs.len() as f64;
    assert!((36.0..=40.0).contains(&limit), "{limit}: {runs:?}");
    let share = runs.iter().map(|settled| settled.share).sum::<f64>() / runs.len() as f64;
    assert!(share >= 0.9, "{share}: {runs:?}");
}

#[test]
fn a_slow_link_ends_with_a_few() {
    let model = Model { rate: |_| 10.0 * MB, refuses_above: 512, best: 10.0 * MB };
    for seed in SEEDS {
        let settled = run(&model, 600.0, seed);
        assert!(settled.limit <= 16.0 && settled.share >= 0.95, "{settled:?}");
    }
}
