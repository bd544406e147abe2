//! Measures how long requests to one endpoint take, to set the time that a request may stand still.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// A request of at most this many bytes measures the latency, a larger one the rate.
const SMALL: u64 = 64 << 10;

/// An upload of at least this many bytes measures a connection's rate, even if the latency estimate is off.
const LARGE: u64 = 1 << 20;

/// The measured latency and rate of one endpoint.
#[derive(Debug, Default)]
pub(crate) struct Latency {
    shown: Mutex<LatencyEstimates>,
}

#[derive(Debug, Default)]
struct LatencyEstimates {
    /// Seconds that a small request takes.
    small: Option<Estimate>,
    /// Seconds that each byte of a larger request takes, its latency included.
    byte: Option<Estimate>,
    best: Best,
    /// Requests in flight, and how many have ever begun.
    in_flight: usize,
    begun: u64,
}

/// The shortest recent times, of requests that shared the link with no other request.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Best {
    /// Seconds that a small request takes.
    pub(crate) small: Option<f64>,
    /// Seconds that each byte of a large upload takes, its latency subtracted.
    pub(crate) byte: Option<f64>,
}

impl Best {
    fn take_in(&mut self, bytes: u64, took: Duration, is_upload: bool) {
        let took = took.as_secs_f64();
        let (best, value) = if bytes <= SMALL {
            (&mut self.small, took)
        } else if is_upload && bytes >= LARGE {
            (&mut self.byte, (took - self.small.unwrap_or(0.0)).max(0.0) / bytes as f64)
        } else {
            return;
        };
        // Old minima fade slowly, because the store or the route to it may change.
        *best = Some(best.map_or(value, |best| value.min(best + (value - best) / 64.0)));
    }
}

/// A request in flight.
#[derive(Debug)]
pub(crate) struct Flight<'a> {
    latency: &'a Latency,
    began: Instant,
    /// The request's number, if no other was in flight when it began.
    alone: Option<u64>,
}

impl Flight<'_> {
    /// The request succeeded and carried `bytes`.
    pub(crate) fn went_well(self, bytes: u64, is_upload: bool) {
        let took = self.began.elapsed();
        self.latency.took(bytes, took);
        let mut shown = self.latency.lock();
        // If another request began meanwhile, `begun` is larger.
        if self.alone == Some(shown.begun) {
            shown.best.take_in(bytes, took, is_upload);
        }
    }
}

impl Drop for Flight<'_> {
    fn drop(&mut self) {
        self.latency.lock().in_flight -= 1;
    }
}

impl Latency {
    fn lock(&self) -> MutexGuard<'_, LatencyEstimates> {
        self.shown.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A request begins.
    pub(crate) fn begin(&self) -> Flight<'_> {
        let mut shown = self.lock();
        shown.in_flight += 1;
        shown.begun += 1;
        let alone = (shown.in_flight == 1).then_some(shown.begun);
        Flight { latency: self, began: Instant::now(), alone }
    }

    /// A request that carried `bytes` succeeded after `took`.
    fn took(&self, bytes: u64, took: Duration) {
        let mut shown = self.lock();
        if bytes <= SMALL {
            Estimate::take_in(&mut shown.small, took.as_secs_f64());
        } else {
            Estimate::take_in(&mut shown.byte, took.as_secs_f64() / bytes as f64);
        }
    }

    /// The shortest recent times.
    pub(crate) fn best(&self) -> Best {
        self.lock().best
    }

    /// The longest that a request with `bytes` should take in total; `None` where no such request was measured.
    pub(crate) fn expected(&self, bytes: u64) -> Option<Duration> {
        let shown = self.lock();
        let seconds = if bytes <= SMALL {
            shown.small?.bound()
        } else {
            shown.byte?.bound() * bytes as f64 + shown.small.map_or(0.0, |small| small.bound())
        };
        Duration::try_from_secs_f64(seconds).ok()
    }
}

/// A smoothed mean and deviation, with the gains and the bound of TCP's retransmission timer (RFC 6298, section 2):
/// decades of measurements show that the bound is rarely exceeded and adapts quickly.
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
        let latency = Latency::default();
        assert_eq!((latency.expected(0), latency.expected(16 << 20)), (None, None));
        latency.took(0, Duration::from_millis(20));
        // A small request does not predict a large one.
        assert_eq!(latency.expected(16 << 20), None);
        assert_eq!(latency.expected(10), Some(Duration::from_millis(60)));
        for _ in 0..50 {
            latency.took(16 << 20, Duration::from_millis(400));
        }
        let expected = latency.expected(16 << 20).unwrap();
        assert!(expected >= Duration::from_millis(400) && expected < Duration::from_millis(500));
        let twice = latency.expected(32 << 20).unwrap();
        assert!(twice >= Duration::from_millis(800), "{twice:?}");
    }

    const MIB: u64 = 1 << 20;

    async fn request(latency: &Latency, bytes: u64, is_upload: bool, milliseconds: u64) {
        let flight = latency.begin();
        tokio::time::sleep(Duration::from_millis(milliseconds)).await;
        flight.went_well(bytes, is_upload);
    }

    fn milliseconds(seconds: Option<f64>) -> Option<f64> {
        seconds.map(|seconds| (seconds * 1000.0).round())
    }

    #[tokio::test(start_paused = true)]
    async fn the_best_is_what_was_least_of_late() {
        let latency = Latency::default();
        for took in [30, 20, 90, 40] {
            request(&latency, 0, true, took).await;
        }
        assert_eq!((milliseconds(latency.best().small), latency.best().byte), (Some(21.0), None));
        request(&latency, 4 * MIB, true, 421).await;
        assert_eq!(milliseconds(latency.best().byte.map(|byte| byte * MIB as f64)), Some(100.0));
        for _ in 0..500 {
            request(&latency, 0, true, 60).await;
        }
        assert_eq!(milliseconds(latency.best().small), Some(60.0));
    }

    #[tokio::test(start_paused = true)]
    async fn only_large_uploads_that_were_alone_tell_what_a_connection_carries() {
        let latency = Latency::default();
        request(&latency, 4 * MIB, false, 100).await;
        request(&latency, MIB / 2, true, 100).await;
        assert_eq!(latency.best().byte, None);
        tokio::join!(request(&latency, 4 * MIB, true, 100), request(&latency, 0, true, 50));
        assert_eq!((latency.best().byte, latency.best().small), (None, None));
        // A failed request counts as well.
        let failed = latency.begin();
        let beside = latency.begin();
        drop(failed);
        beside.went_well(4 * MIB, true);
        assert_eq!(latency.best().byte, None);
        request(&latency, 4 * MIB, true, 100).await;
        assert!(latency.best().byte.is_some());
    }

    #[test]
    fn it_follows_a_store_that_becomes_slow() {
        let latency = Latency::default();
        for _ in 0..100 {
            latency.took(1 << 20, Duration::from_millis(10));
        }
        for _ in 0..5 {
            latency.took(1 << 20, Duration::from_secs(5));
        }
        assert!(latency.expected(1 << 20).unwrap() > Duration::from_secs(5));
    }
}
