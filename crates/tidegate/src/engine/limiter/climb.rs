//! Finds the limit of requests in flight by hill climbing on throughput.
//!
//! It begins with a few requests, and stays there if one of them shows that a single connection carries about as much
//! as a machine can. It allows many where the store is far or some time has passed. Then a quick start raises the
//! limit for as long as requests do not slow each other down, and large ones together become faster. After that it
//! climbs both ways: down to the fewest requests that keep the rate, up where more raise it. It steps back on overload.

use std::time::Duration;

use tokio::time::Instant;

use super::Outcome;

/// Adjusts a limit by the requests that end.
#[derive(Debug)]
pub(super) struct Climb {
    limit: usize,
    phase: Phase,
    /// When requests began to be in flight; used while only a few are allowed.
    busy_since: Option<Instant>,
    /// Requests that began under an earlier limit, whose ends do not measure this one.
    stale: usize,
    window: Option<RateWindow>,
    calm_until: Option<Instant>,
    /// How long to rest after a step that was taken back; doubles each time.
    rest: Duration,
    /// The direction of the next step.
    direction: Direction,
    /// How far the next step down goes.
    stride: Stride,
    /// The limit that was too high last, and until when steps up stay below.
    overloaded: Option<(usize, Instant)>,
    /// The mean work of the requests that the limit was found with.
    found_with: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stride {
    /// Half of the limit: the quick start went past what the rate needs.
    Long,
    /// A quarter, at least one request.
    Short,
}

#[derive(Clone, Copy, Debug)]
enum Phase {
    /// The limit grows by two for each small request that ends, while requests do not slow each other down. With large
    /// ones it doubles (while few, triples) after each round, while they are faster together.
    Start(Start),
    /// Trying more or less than `back`. `before` is the rate there; on the way down, the best since that began, so that
    /// small losses do not add up.
    Try { back: usize, before: f64, since: Instant },
    /// Resting for a while.
    Hold { until: Instant },
}

impl Phase {
    /// Whether `rate` is so much less than before the step that no more requests are needed to see it.
    fn is_clearly_less(self, rate: f64) -> bool {
        matches!(self, Self::Try { before, .. } if rate < before * Climb::CLEARLY_LESS)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Direction {
    Up,
    /// A limit that is too high costs memory, and the quick start may have been misled.
    Down,
}

impl Direction {
    /// The share of the rate that a step must leave to be kept: a step up has to gain something, a step down may cost
    /// no more than the chance difference between windows.
    fn least(self) -> f64 {
        match self {
            Self::Up => 1.07,
            Self::Down => 0.97,
        }
    }

    fn turned(self) -> Self {
        match self {
            Self::Up => Self::Down,
            Self::Down => Self::Up,
        }
    }

    fn step(self, limit: usize, stride: Stride) -> usize {
        match (self, stride) {
            (Self::Up, _) if limit < Climb::WIDE => limit + (limit / 2).max(1),
            (Self::Up, _) => limit + limit / 4,
            (Self::Down, Stride::Long) => (limit / 2).max(Climb::AT_FIRST).min(limit),
            (Self::Down, Stride::Short) => (limit - (limit / 4).max(1)).max(Climb::AT_FIRST).min(limit),
        }
    }
}

/// The speeds of the requests that ended in the quick start, of about one size: a small request's time does not
/// predict how fast a large one moves.
#[derive(Clone, Copy, Debug, Default)]
struct Start {
    /// The work of the first of these requests.
    size: u64,
    ended: usize,
    first: f64,
    recent: f64,
    /// The least time of a small request, and when the limit reached `FEW_SMALL`: requests that began before that may
    /// all have waited for their connections to open.
    least: Option<Duration>,
    many_since: Option<Instant>,
    /// How many requests in a row moved nothing, once the limit is `FEW`.
    empty: usize,
    /// The large requests that ended under the present limit, and what those under the limit before have shown.
    round: Option<Round>,
    before: Option<MeasuredRate>,
}

/// As many large requests as the limit is.
#[derive(Clone, Copy, Debug)]
struct Round {
    began: Instant,
    ended: usize,
    work: u64,
}

/// The rate of as many requests as `limit`, in bytes a second.
#[derive(Clone, Copy, Debug)]
struct MeasuredRate {
    limit: usize,
    rate: f64,
}

/// What a round of the quick start shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Gain {
    Unknown,
    /// The requests together are faster than under the limit before.
    Some,
    /// They are as fast as with this limit.
    None {
        with: usize,
    },
}

impl Start {
    /// Updates the least time of a small request with this one.
    fn take_least(&mut self, took: Duration) -> Duration {
        *self.least.insert(self.least.map_or(took, |least| least.min(took)))
    }

    /// Takes in a request that moved `work` in `took`; returns whether it counts.
    fn take_in(&mut self, work: u64, took: Duration) -> bool {
        if work < self.size / 2 {
            return false;
        }
        if work / 2 > self.size {
            *self = Self { size: work, ended: 0, first: 0.0, recent: 0.0, ..*self };
        }
        let speed = work as f64 / seconds(took);
        self.ended += 1;
        if self.ended <= Climb::WIDE {
            self.first += (speed - self.first) / self.ended as f64;
            self.recent = self.first;
        } else {
            self.recent += (speed - self.recent) / Climb::WIDE as f64;
        }
        true
    }

    /// Takes in that a large request ended; `waiting` says whether others wait for a permit, as only then the rate is
    /// that of the limit.
    fn round(&mut self, work: u64, limit: usize, waiting: bool, now: Instant) -> Gain {
        let Some(round) = self.round.as_mut().filter(|_| waiting) else {
            self.round = waiting.then_some(Round { began: now, ended: 0, work: 0 });
            return Gain::Unknown;
        };
        round.ended += 1;
        round.work += work;
        let took = now - round.began;
        if round.ended < limit || took < Climb::LEAST_ROUND {
            return Gain::Unknown;
        }
        let rate = round.work as f64 / seconds(took);
        let before = self.before.replace(MeasuredRate { limit, rate });
        self.round = Some(Round { began: now, ended: 0, work: 0 });
        match before {
            Some(before) if rate < before.rate * Climb::least_gain(before.limit, limit) => {
                Gain::None { with: before.limit }
            }
            _ => Gain::Some,
        }
    }
}

fn seconds(took: Duration) -> f64 {
    took.as_secs_f64().max(1e-6)
}

/// The requests that ended since `began`, an earlier end that is not counted itself: requests that began together end
/// together, and would all count for no time.
#[derive(Debug)]
struct RateWindow {
    began: Instant,
    ended: usize,
    work: u64,
    full: bool,
}

impl From<Instant> for RateWindow {
    fn from(began: Instant) -> Self {
        Self { began, ended: 0, work: 0, full: true }
    }
}

impl Climb {
    /// The limit before anything is known. More connections cost processor time and memory ("download" in
    /// crates/tidegate-bench/results/BENCHMARKS.md), which a nearby store does not repay.
    pub(super) const AT_FIRST: usize = 3;
    /// The limit once requests have been in flight for `WIDENS_AFTER`, if all were slower than `VERY_FAST`.
    pub(super) const WIDE: usize = 16;
    pub(super) const WIDENS_AFTER: Duration = Duration::from_millis(50);
    /// If one of the first few connections moves this many bytes a second, they come close to what one machine moves.
    const VERY_FAST: f64 = (256 << 20) as f64;
    pub(super) const MOST: usize = 512;
    /// The work of a request itself, in bytes; added to the bytes that it moves.
    const REQUEST_WORK: u64 = 16 << 10;
    const LEAST_WINDOW: Duration = Duration::from_millis(100);
    /// How many requests must end before two rates that differ by a few percent can be told apart.
    const PRECISE: usize = 48;
    /// The same for rates that differ by a quarter.
    const ROUGH: usize = 8;
    /// A step down is taken back after `ROUGH` requests if it leaves less than this share of the rate.
    const CLEARLY_LESS: f64 = 0.85;
    /// A step down that is taken back costs throughput. The climb then rests at least this many times as long as the
    /// step took.
    const REPAYS: u32 = 8;
    /// Where requests became smaller by this factor, the limit that was found with the larger ones is too low.
    const MUCH_LARGER: u64 = 16;
    const LEAST_ROUND: Duration = Duration::from_millis(40);
    /// The share of the gain of a rate that is in proportion to the limit, for which the quick start goes on.
    const LEAST_GAIN: f64 = 0.15;
    /// The quick start ends at this limit, or when requests slow down to `CROWDED` of the first ones' speed: until
    /// then more requests hide latency.
    const FEW: usize = 64;
    /// The same for small requests to a far store, which take little memory. If latency keeps that many requests
    /// below the rate that S3 grants a prefix, the limit is the number that reaches that rate, up to `MOST_SMALL`.
    const FEW_SMALL: usize = 128;
    const MOST_SMALL: usize = 256;
    /// The rates that S3 grants a prefix ("Best practices design patterns: optimizing Amazon S3 performance").
    const READS_A_SECOND: f64 = 5500.0;
    const WRITES_A_SECOND: f64 = 3500.0;
    const CROWDED: f64 = 0.35;
    /// If a connection moves this many bytes a second, `WIDE` of them come close to what one machine moves, and each
    /// more costs memory: from there only steps that show a gain are kept.
    const FAST: f64 = (64 << 20) as f64;
    /// A small request that takes this long shows that the store is far: its answer crosses a network or waits in a
    /// queue.
    const FAR: Duration = Duration::from_millis(10);
    const SMALL: u64 = 64 << 10;
    const FIRST_REST: Duration = Duration::from_secs(2);
    const LONGEST_REST: Duration = Duration::from_secs(60);

    pub(super) fn new() -> Self {
        Self {
            limit: Self::AT_FIRST,
            phase: Phase::Start(Start::default()),
            busy_since: None,
            stale: 0,
            window: None,
            calm_until: None,
            rest: Self::FIRST_REST,
            direction: Direction::Up,
            stride: Stride::Short,
            overloaded: None,
            found_with: None,
        }
    }

    /// A request begins while no other is in flight.
    pub(super) fn begins(&mut self, now: Instant) {
        self.busy_since = Some(now);
    }

    /// When the limit rises above the first few, unless an answer decides otherwise before.
    pub(super) fn widens_at(&self) -> Option<Instant> {
        let may_widen = matches!(self.phase, Phase::Start(_)) && self.limit < Self::WIDE;
        self.busy_since.filter(|_| may_widen).map(|since| since + Self::WIDENS_AFTER)
    }

    /// The limit once [`widens_at`](Self::widens_at) has come.
    pub(super) fn widen(&mut self) -> usize {
        self.limit = Self::WIDE;
        self.limit
    }

    /// A request ended, one of `in_flight`; `waiting` says whether others wait for a permit. Returns the new limit.
    pub(super) fn ended(
        &mut self,
        outcome: Outcome,
        in_flight: usize,
        waiting: bool,
        began: Instant,
        now: Instant,
    ) -> usize {
        match (outcome, self.phase) {
            (Outcome::Moved(bytes), Phase::Start(_)) => {
                self.start(bytes, Self::WRITES_A_SECOND, waiting, in_flight, began, now);
            }
            (Outcome::Brought(bytes), Phase::Start(_)) => {
                self.start(bytes, Self::READS_A_SECOND, waiting, in_flight, began, now);
            }
            _ => self.climb(outcome, in_flight, waiting, now),
        }
        self.limit
    }

    fn climb(&mut self, outcome: Outcome, in_flight: usize, waiting: bool, now: Instant) {
        match outcome {
            Outcome::Overload => self.step_back(in_flight, now),
            _ if self.stale > 0 => {
                self.stale -= 1;
                if self.stale == 0 {
                    self.window = Some(RateWindow::from(now));
                }
            }
            Outcome::Moved(bytes) | Outcome::Brought(bytes) => self.count(bytes, waiting, in_flight, now),
            _ => {}
        }
    }

    /// A request ended in the quick start; S3 grants a prefix `a_second` requests like it each second.
    fn start(
        &mut self,
        bytes: u64,
        a_second: f64,
        waiting: bool,
        in_flight: usize,
        began: Instant,
        now: Instant,
    ) {
        let Phase::Start(start) = &mut self.phase else { return };
        let took = now - began;
        let is_far = bytes <= Self::SMALL && took >= Self::FAR;
        if is_far && self.limit < Self::FEW {
            // Requests to a far store wait more than they move, so many can be in flight.
            self.limit = Self::FEW;
            return;
        }
        let is_small = is_far && bytes > 0;
        let mut few = Self::FEW;
        if is_small {
            few = Self::FEW_SMALL;
            let least = start.take_least(took);
            if self.limit >= few {
                if began < *start.many_since.get_or_insert(now) {
                    return;
                }
                few = ((a_second * seconds(least)) as usize).clamp(few, Self::MOST_SMALL);
            }
        }
        // A request that moves no bytes may begin something large or list small objects: only `WIDE` of them in a row
        // count.
        start.empty = if bytes == 0 && self.limit >= Self::FEW { start.empty + 1 } else { 0 };
        if (1..Self::WIDE).contains(&start.empty) {
            return;
        }
        let is_large = bytes > Self::SMALL;
        let mut gain = Gain::Unknown;
        if is_large {
            gain = start.round(bytes, self.limit, waiting, now);
        }
        if let Gain::None { with } = gain {
            return self.descend(with, Stride::Long, in_flight, now);
        }
        // A small request's time is mostly latency, whatever its size.
        let size = if is_small { Self::SMALL } else { bytes };
        let counts = start.take_in(size + Self::REQUEST_WORK, took);
        let is_few = self.limit < Self::WIDE;
        let is_enough = is_few && is_large && bytes as f64 / seconds(took) >= Self::VERY_FAST;
        let fast = start.first >= Self::FAST;
        let crowded = start.recent < start.first * Self::CROWDED;
        // Requests of another size than the first, fast ones do not count, so `WIDE` might never be reached: stop
        // here too.
        let is_judged = fast && !is_few && (start.ended == Self::WIDE || !counts);
        if crowded || is_judged {
            return self.descend(self.limit, Stride::Long, in_flight, now);
        }
        // A store that only seemed far has been met with many before any round; it may be far, though.
        if is_large && self.limit >= few && start.before.is_none() {
            return self.descend(self.limit, Stride::Short, in_flight, now);
        }
        if is_enough || self.limit >= few {
            self.phase = Phase::Hold { until: now + self.rest };
            return;
        }
        if !is_few && fast {
            return;
        }
        if gain == Gain::Some {
            let factor = if is_few { 3 } else { 2 };
            self.limit = self.limit.max(few.min(self.limit * factor));
        } else if counts && waiting && !is_large {
            self.limit += 2;
        }
    }

    /// The least gain of `more` requests over `few`, as a factor of the rate.
    fn least_gain(few: usize, more: usize) -> f64 {
        1.0 + Self::LEAST_GAIN * (more as f64 / few as f64 - 1.0)
    }

    /// Ends the quick start with `limit`, and goes down from there.
    fn descend(&mut self, limit: usize, stride: Stride, in_flight: usize, now: Instant) {
        let is_least = limit <= Self::AT_FIRST;
        self.direction = if is_least { Direction::Up } else { Direction::Down };
        self.stride = stride;
        self.phase = Phase::Hold { until: now };
        self.move_to(limit, in_flight);
    }

    /// Steps down by a third, once for all requests that were in flight together.
    fn step_back(&mut self, in_flight: usize, now: Instant) {
        if self.calm_until.is_some_and(|until| now < until) {
            return;
        }
        self.calm_until = Some(now + Duration::from_secs(1));
        if in_flight >= self.limit {
            // With fewer in flight the store shows nothing about this limit.
            self.overloaded = Some((self.limit, now + Self::LONGEST_REST));
        }
        self.rest = Self::FIRST_REST;
        self.direction = Direction::Up;
        self.phase = Phase::Hold { until: now + self.rest };
        self.move_to((self.limit.min(in_flight) * 2 / 3).max(1), in_flight);
    }

    /// The limit of the next try.
    fn next(&self, now: Instant) -> usize {
        let next = self.direction.step(self.limit, self.stride);
        match self.overloaded {
            Some((limit, until)) if limit > Self::WIDE && now < until && next >= limit => {
                (self.limit + limit) / 2
            }
            _ => next,
        }
    }

    fn count(&mut self, bytes: u64, waiting: bool, in_flight: usize, now: Instant) {
        if let Phase::Try { back, .. } = self.phase
            && self.direction == Direction::Down
            && !waiting
        {
            // The demand ends, so the step cannot be judged: it would stay in force for all that come later.
            self.phase = Phase::Hold { until: now + self.rest };
            return self.move_to(back, in_flight);
        }
        let rough = self.limit.max(Self::ROUGH).next_multiple_of(self.limit);
        // Requests that began together end together: only whole rounds of them show a rate.
        let enough = match self.direction {
            Direction::Up => rough,
            Direction::Down => (self.limit + self.limit / 2).max(Self::PRECISE).next_multiple_of(self.limit),
        };
        let Some(window) = &mut self.window else {
            self.window = Some(RateWindow::from(now));
            return;
        };
        window.ended += 1;
        window.work += bytes + Self::REQUEST_WORK;
        window.full &= waiting;
        let took = now - window.began;
        if window.ended < rough || took < Self::LEAST_WINDOW {
            return;
        }
        let (rate, full) = (window.work as f64 / took.as_secs_f64(), window.full);
        let is_round = window.ended.is_multiple_of(self.limit);
        let is_clear = is_round && self.direction == Direction::Down && self.phase.is_clearly_less(rate);
        if window.ended < enough && !is_clear {
            return;
        }
        let mean = window.work / window.ended as u64;
        *window = RateWindow::from(now);
        if full {
            self.compare(mean, now);
            self.judge(rate, in_flight, now);
        }
    }

    /// Goes up from here if requests became much smaller: their rates do not compare, and they need more in flight.
    fn compare(&mut self, mean: u64, now: Instant) {
        let rests = matches!(self.phase, Phase::Hold { until } if now < until);
        let found_with = *self.found_with.get_or_insert(mean);
        let is_smaller = mean < found_with / Self::MUCH_LARGER;
        if is_smaller {
            self.direction = Direction::Up;
            self.phase = Phase::Hold { until: now };
        }
        if is_smaller || !rests {
            self.found_with = Some(mean);
        }
    }

    /// A whole window at this limit, with requests waiting all the time, gave `rate`.
    fn judge(&mut self, rate: f64, in_flight: usize, now: Instant) {
        match self.phase {
            Phase::Start(_) => {}
            Phase::Try { back, before, since } if rate < before * self.direction.least() => {
                if self.direction == Direction::Down && self.stride == Stride::Long {
                    self.stride = Stride::Short;
                    self.phase = Phase::Hold { until: now };
                } else {
                    let cost = if self.direction == Direction::Down { now - since } else { Duration::ZERO };
                    self.direction = self.direction.turned();
                    self.phase = Phase::Hold { until: now + self.rest.max(cost * Self::REPAYS) };
                    self.rest = (self.rest * 2).min(Self::LONGEST_REST);
                }
                self.move_to(back, in_flight);
            }
            Phase::Hold { until } if now < until => {}
            Phase::Try { .. } | Phase::Hold { .. } => {
                let before = match self.phase {
                    Phase::Try { before, .. } if self.direction == Direction::Down => rate.max(before),
                    _ => rate,
                };
                if self.next(now) == self.limit {
                    self.direction = self.direction.turned();
                }
                let next = self.next(now);
                if next == self.limit {
                    self.phase = Phase::Hold { until: now + self.rest };
                    return;
                }
                self.phase = Phase::Try { back: self.limit, before, since: now };
                self.move_to(next, in_flight);
            }
        }
    }

    fn move_to(&mut self, limit: usize, in_flight: usize) {
        self.limit = limit.clamp(1, Self::MOST);
        self.stale = in_flight.saturating_sub(1);
        self.window = None;
    }
}

#[cfg(test)]
mod tests;
