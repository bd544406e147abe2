//! How long requests take at one endpoint, and from that how long one may stand still.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// A request of at most this many bytes tells of latency, a larger one of the rate.
const SMALL: u64 = 64 << 10;

/// What one endpoint has shown.
#[derive(Debug, Default)]
pub(crate) struct Pace {
    shown: Mutex<Shown>,
}

#[derive(Debug, Default)]
struct Shown {
    /// Seconds of a small request.
    small: Option<Estimate>,
    /// Seconds of a byte of a large one, its latency included.
    byte: Option<Estimate>,
    best: Best,
}

/// The least that requests have taken of late: what one takes that shares the way with no others.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Best {
    /// Seconds of a small request.
    pub(crate) small: Option<f64>,
    /// Seconds of a byte of a large one, its latency included.
    pub(crate) byte: Option<f64>,
}

impl Pace {
    /// A request that carried `bytes` was answered well after `took`.
    pub(crate) fn took(&self, bytes: u64, took: Duration) {
        let mut shown = self.shown.lock().unwrap_or_else(PoisonError::into_inner);
        let shown = &mut *shown;
        let (estimate, best, value) = if bytes <= SMALL {
            (&mut shown.small, &mut shown.best.small, took.as_secs_f64())
        } else {
            (&mut shown.byte, &mut shown.best.byte, took.as_secs_f64() / bytes as f64)
        };
        Estimate::take_in(estimate, value);
        // Slowly forgotten, for a store or the way to it may become another.
        *best = Some(best.map_or(value, |best| value.min(best + (value - best) / 64.0)));
    }

    /// The least that requests have taken of late.
    pub(crate) fn best(&self) -> Best {
        self.shown.lock().unwrap_or_else(PoisonError::into_inner).best
    }

    /// The longest that a request with `bytes` should take in all; `None` where nothing like it was seen.
    pub(crate) fn expected(&self, bytes: u64) -> Option<Duration> {
        let shown = self.shown.lock().unwrap_or_else(PoisonError::into_inner);
        let seconds = if bytes <= SMALL {
            shown.small?.bound()
        } else {
            shown.byte?.bound() * bytes as f64 + shown.small.map_or(0.0, |small| small.bound())
        };
        Duration::try_from_secs_f64(seconds).ok()
    }
}

/// A smoothed mean and deviation, with the gains and the bound of TCP's retransmission timer (RFC 6298,
/// section 2): measured for decades to be rarely exceeded, and quick to follow.
#[derive(Clone, Copy, Debug)]
struct Estimate {
    mean: f64,
    deviation: f64,
}

impl Estimate {
    fn take_in(this: &mut Option<Self>, value: f64) {
        *this = Some(match *this {
            None => Self { mean: value, deviation: value / 2.0 },
            Some(Self { mean, deviation }) => Self {
                mean: mean + (value - mean) / 8.0,
                deviation: deviation + ((value - mean).abs() - deviation) / 4.0,
            },
        });
    }

    fn bound(&self) -> f64 {
        self.mean + 4.0 * self.deviation
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_knows_what_it_has_seen() {
        let pace = Pace::default();
        assert_eq!((pace.expected(0), pace.expected(16 << 20)), (None, None));
        pace.took(0, Duration::from_millis(20));
        // A small request tells nothing of a large one.
        assert_eq!(pace.expected(16 << 20), None);
        assert_eq!(pace.expected(10), Some(Duration::from_millis(60)));
        for _ in 0..50 {
            pace.took(16 << 20, Duration::from_millis(400));
        }
        let expected = pace.expected(16 << 20).unwrap();
        assert!(expected >= Duration::from_millis(400) && expected < Duration::from_millis(500));
        let twice = pace.expected(32 << 20).unwrap();
        assert!(twice >= Duration::from_millis(800), "{twice:?}");
    }

    #[test]
    fn the_best_is_what_was_least_of_late() {
        let pace = Pace::default();
        let milliseconds = |seconds: Option<f64>| seconds.map(|seconds| (seconds * 1000.0).round());
        assert_eq!(pace.best().small, None);
        for took in [30, 20, 90, 40] {
            pace.took(0, Duration::from_millis(took));
        }
        assert_eq!((milliseconds(pace.best().small), pace.best().byte), (Some(21.0), None));
        for _ in 0..500 {
            pace.took(0, Duration::from_millis(60));
        }
        assert_eq!(milliseconds(pace.best().small), Some(60.0));
    }

    #[test]
    fn it_follows_a_store_that_becomes_slow() {
        let pace = Pace::default();
        for _ in 0..100 {
            pace.took(1 << 20, Duration::from_millis(10));
        }
        for _ in 0..5 {
            pace.took(1 << 20, Duration::from_secs(5));
        }
        assert!(pace.expected(1 << 20).unwrap() > Duration::from_secs(5));
    }
}
