//! How many ranges of one download are in flight: the fewest that keep its rate.
//!
//! At a high rate the ranges in flight arrive in a moment, and the endpoint's limiter alone decides. On a slow link
//! more ranges bring nothing: each is slower, all are unfinished for longer, and more bytes are on the way when the
//! download is cut off. So a download begins with a few ranges and may have as many as arrive within [`AHEAD`].
//! Beyond that it tries whether more ranges raise the rate: they do where there are many connections that are each
//! slow.

use std::time::Duration;

use tokio::time::Instant;

/// How many ranges there are at first and at least.
const FEWEST: usize = 3;
/// How many seconds the ranges in flight may take to arrive, at the recent rate.
const AHEAD: f64 = 4.0;
/// Bytes that must have arrived for each range in flight, so that a burst at the beginning is not taken for a rate.
const SHOWN: u64 = 64 << 10;
/// Twice the ranges must raise the rate by this factor to be kept.
const PAYS: f64 = 1.3;
/// Half the ranges must keep this share of the rate to be kept.
const COSTS: f64 = 0.95;
/// How long each number of ranges is measured.
const LOOK: Duration = Duration::from_millis(500);
const SHORTEST: Duration = Duration::from_millis(100);
const FIRST_REST: Duration = Duration::from_secs(4);
const LONGEST_REST: Duration = Duration::from_secs(60);

/// Decides how many ranges may be in flight, by the bytes that arrive.
#[derive(Debug)]
pub(super) struct Width {
    most: usize,
    chunk: u64,
    began: Instant,
    /// The number of ranges that has been shown to pay.
    paying: usize,
    phase: WidthPhase,
    rest: Duration,
    /// When the measurement of the present number began, and how many bytes had arrived by then.
    look: (Instant, u64),
    /// The number of ranges that the rate alone allows.
    by_rate: usize,
}

#[derive(Clone, Copy, Debug)]
enum WidthPhase {
    /// Measuring the rate of the present number.
    Measure {
        up: bool,
    },
    /// Trying twice or half as many; `back` had the rate `before`.
    Try {
        back: usize,
        before: f64,
    },
    Rest {
        until: Instant,
        up: bool,
    },
}

impl Width {
    /// At most `most` ranges, of chunks of this size.
    pub(super) fn new(most: usize, chunk: u64, now: Instant) -> Self {
        Self {
            most,
            chunk,
            began: now,
            paying: FEWEST.min(most),
            phase: WidthPhase::Measure { up: true },
            rest: FIRST_REST,
            look: (now, 0),
            by_rate: 0,
        }
    }

    /// How many ranges may be in flight.
    pub(super) fn now(&self) -> usize {
        self.paying.max(self.by_rate).min(self.most)
    }

    /// When to measure again: often at the beginning, because on a fast link each moment without a request is lost.
    pub(super) fn next_look(&self, now: Instant) -> Duration {
        match now - self.began {
            age if age < Duration::from_millis(100) => Duration::from_millis(10),
            age if age < Duration::from_secs(1) => Duration::from_millis(50),
            _ => LOOK,
        }
    }

    /// Takes in that `received` bytes have arrived since the beginning, with `in_flight` ranges now.
    pub(super) fn look(&mut self, received: u64, in_flight: usize, now: Instant) {
        let (since, before) = self.look;
        let took = (now - since).as_secs_f64();
        if took <= 0.0 {
            return;
        }
        // Intervals shorter than 100 ms are too noisy to measure, except for the first one.
        if now - since < SHORTEST && since != self.began {
            return;
        }
        let rate = (received - before) as f64 / took;
        let by_rate = (rate * AHEAD / self.chunk as f64) as usize;
        self.by_rate = by_rate.min(usize::try_from(received / SHOWN).unwrap_or(usize::MAX)).min(self.most);
        if now - since < LOOK {
            return;
        }
        self.look = (now, received);
        // Numbers that the rate allows need no trial, and a number that is not in flight can't be judged.
        if self.by_rate > self.paying || in_flight < self.paying {
            self.phase = WidthPhase::Measure { up: true };
            return;
        }
        match self.phase {
            WidthPhase::Measure { up } => self.attempt(up, rate),
            // The ranges beyond the smaller number are still in flight.
            WidthPhase::Try { back, .. } if self.paying < back && in_flight > self.paying => {}
            WidthPhase::Try { back, before } => {
                let up = self.paying > back;
                if rate >= before * if up { PAYS } else { COSTS } {
                    self.rest = FIRST_REST;
                    self.attempt(up, rate);
                } else {
                    self.paying = back;
                    self.phase = WidthPhase::Rest { until: now + self.rest, up: !up };
                    self.rest = (self.rest * 2).min(LONGEST_REST);
                }
            }
            WidthPhase::Rest { until, up } if now >= until => self.phase = WidthPhase::Measure { up },
            WidthPhase::Rest { .. } => {}
        }
    }

    /// Tries twice or half as many ranges.
    fn attempt(&mut self, up: bool, rate: f64) {
        let back = self.paying;
        let next = if up { (back * 2).min(self.most) } else { (back / 2).max(FEWEST.min(self.most)) };
        self.phase = match next == back {
            true => WidthPhase::Measure { up: !up },
            false => WidthPhase::Try { back, before: rate },
        };
        self.paying = next;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MB: f64 = 1e6;

    /// The numbers in flight over time, for a rate that depends on them.
    fn run(seconds: f64, rate: impl Fn(usize, f64) -> f64) -> Vec<(f64, usize)> {
        let began = Instant::now();
        let mut width = Width::new(64, 8 << 20, began);
        let (mut at, mut received, mut seen) = (0.0, 0.0, Vec::new());
        while at < seconds {
            let step = width.next_look(began + Duration::from_secs_f64(at)).as_secs_f64();
            // A range in flight is not cancelled; in this test those beyond the number end within one measurement.
            received += rate(width.now(), at) * step;
            at += step;
            let in_flight = width.now();
            width.look(received as u64, in_flight, began + Duration::from_secs_f64(at));
            seen.push((at, width.now()));
        }
        seen
    }

    #[test]
    fn a_slow_link_has_few_and_hardly_ever_tries_more() {
        let seen = run(60.0, |_, _| 5.0 * MB);
        assert!(seen.iter().all(|(_, width)| *width <= 6), "{seen:?}");
        let few = seen.iter().filter(|(_, width)| *width == 3).count();
        assert!(few * 10 > seen.len() * 8, "{few} of {}: {seen:?}", seen.len());
    }

    #[test]
    fn a_burst_at_the_beginning_is_no_rate() {
        // A twentieth of a second's bytes arrive at once.
        let seen = run(5.0, |_, at| if at < 0.01 { 25.0 * MB } else { 5.0 * MB });
        assert!(seen.iter().all(|(_, width)| *width <= 6), "{seen:?}");
    }

    #[test]
    fn a_piece_that_has_just_come_is_no_rate() {
        let began = Instant::now();
        let mut width = Width::new(64, 8 << 20, began);
        width.look(5_000_000, 3, began + Duration::from_secs(1));
        width.look(5_100_000, 3, began + Duration::from_millis(1001));
        assert!(width.now() <= 6, "{width:?}");
    }

    #[test]
    fn a_fast_link_has_all_at_once() {
        // With one connection, and with as many as there are.
        for rate in [|_: usize, _: f64| 1000.0 * MB, |width: usize, _: f64| 40.0 * MB * width as f64] {
            let seen = run(0.5, rate);
            assert!(seen.iter().any(|(at, width)| *width >= 16 && *at < 0.05), "{seen:?}");
            assert!(seen.iter().any(|(at, width)| *width == 64 && *at < 0.15), "{seen:?}");
            assert!(seen.iter().all(|(at, width)| *width == 64 || *at < 0.15), "{seen:?}");
        }
    }

    #[test]
    fn many_slow_connections_are_found_to_bring_more() {
        let seen = run(10.0, |width, _| 0.5 * MB * width as f64);
        assert!(seen.iter().any(|(at, width)| *width >= 48 && *at < 4.0), "{seen:?}");
    }

    #[test]
    fn it_comes_down_where_fewer_keep_the_rate() {
        // In the first seconds more ranges seem to raise the rate.
        let seen = run(60.0, |width, at| if at < 2.0 { MB * width as f64 } else { 5.0 * MB });
        assert!(seen.iter().any(|(_, width)| *width >= 12), "{seen:?}");
        assert!(seen.iter().rev().take(20).all(|(_, width)| *width <= 6), "{seen:?}");
    }
}
