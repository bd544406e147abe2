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
}

impl Pace {
    /// A request that carried `bytes` was answered well after `took`.
    pub(crate) fn took(&self, bytes: u64, took: Duration) {
        let mut shown = self.shown.lock().unwrap_or_else(PoisonError::into_inner);
        if bytes <= SMALL {
            Estimate::take_in(&mut shown.small, took.as_secs_f64());
        } else {
            Estimate::take_in(&mut shown.byte, took.as_secs_f64() / bytes as f64);
        }
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
