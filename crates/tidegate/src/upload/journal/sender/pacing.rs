//! Limits how many parts of a journaled upload are in flight at once.
//!
//! Parts that share a slow link all end late, and a process that ends before that has sent them for nothing:
//! sixteen parts of 8 MiB take 27 seconds at 5 MB/s. So an upload begins with 8 MiB in flight, mostly one
//! part, then tries one more, then three times as many, while parts do not slow each other down. Once they
//! do, as many are in flight as the link carries in a few seconds, and the store acknowledges one after the
//! other, in order. A fast connection ends this at once: then the limiter alone decides.

use std::time::Duration;

use tokio::time::Instant;

/// With a connection this fast, in bytes a second, all the parts that the limiter allows end soon.
const FAST: f64 = (32 << 20) as f64;
/// How long the link may take for the bytes in flight.
const AHEAD: Duration = Duration::from_secs(3);
/// Parts that slow each other down each have less than this share of the speed of a single part.
const ALONE: f64 = 0.7;
/// Bytes that may always be in flight.
const FREE: u64 = 8 << 20;
/// Least parts in flight once one has ended: while one is being acknowledged, another moves.
const LEAST: usize = 2;
const MORE: usize = 3;
/// After this long without an acknowledgement more parts are tried: the first request may hang.
const STUCK: Duration = Duration::from_secs(5);
/// How long a link that was found slow counts as slow.
const REMEMBERED: Duration = Duration::from_secs(30);

/// The pace of one upload's parts.
#[derive(Debug)]
pub(super) struct Pacing {
    /// How many parts may always be in flight.
    free: usize,
    limit: usize,
    /// The highest speed of one part, in bytes a second.
    best: f64,
    /// Since when parts are known to slow each other down.
    crowded: Option<Instant>,
    round: PacingRound,
}

/// One round: as many parts as may be in flight.
#[derive(Debug, Default)]
struct PacingRound {
    began: Option<Instant>,
    ended: usize,
    bytes: u64,
    /// Whether as many parts were in flight as allowed, with more to send.
    is_full: bool,
}

impl Pacing {
    /// For parts of `part` bytes, at first.
    pub(super) fn new(part: u64) -> Self {
        let free = usize::try_from(FREE / part.max(1)).unwrap_or(usize::MAX).max(1);
        Self { free, limit: free, best: 0.0, crowded: None, round: PacingRound::default() }
    }

    /// Whether another part may be sent beside `outstanding` ones. Call only where there is a part to send.
    pub(super) fn lets(&mut self, outstanding: usize, now: Instant) -> bool {
        if outstanding == 0 {
            self.round = PacingRound { began: Some(now), ..PacingRound::default() };
        }
        let has_room = outstanding < self.limit;
        self.round.is_full |= !has_room;
        has_room
    }

    /// When to call [`is_stuck`](Self::is_stuck), if nothing was acknowledged until then.
    pub(super) fn asks_at(&self) -> Option<Instant> {
        let is_first = self.limit == self.free && self.round.is_full && self.round.ended == 0;
        self.round.began.filter(|_| is_first).map(|began| began + STUCK)
    }

    /// Allows more parts, because the first one takes long.
    pub(super) fn is_stuck(&mut self) {
        self.limit = self.free.saturating_mul(MORE);
    }

    /// Takes in that the store has acknowledged a part of `bytes` bytes, whose request took `took`.
    pub(super) fn stored(&mut self, bytes: u64, took: Duration, now: Instant) {
        self.best = self.best.max(speed(bytes, took));
        if self.best >= FAST {
            self.limit = usize::MAX;
            return;
        }
        self.round.ended += 1;
        self.round.bytes += bytes;
        if self.round.ended < self.limit {
            return;
        }
        let round = std::mem::take(&mut self.round);
        self.round.began = Some(now);
        // Where the producer is slow, the round says nothing about the link.
        let Some(began) = round.began.filter(|_| round.is_full) else { return };
        let rate = speed(round.bytes, now - began);
        if self.crowded.is_some_and(|since| now - since >= REMEMBERED) {
            self.crowded = None;
            self.best = rate / self.limit as f64;
        }
        if self.crowded.is_none() && rate >= self.best * self.limit as f64 * ALONE {
            self.limit =
                if self.limit == self.free { self.free + 1 } else { self.limit.saturating_mul(MORE) };
            return;
        }
        self.crowded.get_or_insert(now);
        let part = (round.bytes / round.ended.max(1) as u64).max(1);
        let parts = rate * AHEAD.as_secs_f64() / part as f64;
        self.limit = (parts as usize).max(LEAST).max(self.free);
    }
}

/// Bytes a second.
fn speed(bytes: u64, took: Duration) -> f64 {
    bytes as f64 / took.as_secs_f64().max(1e-6)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PART: u64 = 8 << 20;

    /// Sends for `span` over a link that carries `total` bytes a second, of which one connection gets at most
    /// `each`. Returns how many parts are acknowledged, and the most that were in flight at the end of the
    /// first ten seconds or later.
    fn send(total: f64, each: f64, most: usize, span: Duration) -> (usize, usize) {
        let (mut pacing, began) = (Pacing::new(PART), Instant::now());
        let step = Duration::from_millis(10);
        let mut in_flight: Vec<(Instant, f64)> = Vec::new();
        let (mut now, mut stored, mut late) = (began, 0, 0);
        while now - began < span {
            while in_flight.len() < most && pacing.lets(in_flight.len(), now) {
                in_flight.push((now, PART as f64));
            }
            if pacing.asks_at().is_some_and(|at| now >= at) {
                pacing.is_stuck();
            }
            now += step;
            let share = (total / in_flight.len().max(1) as f64).min(each) * step.as_secs_f64();
            in_flight.iter_mut().for_each(|(_, rest)| *rest -= share);
            let ended = in_flight.extract_if(.., |(_, rest)| *rest <= 0.0).collect::<Vec<_>>();
            for (since, _) in ended {
                stored += 1;
                pacing.stored(PART, now - since, now);
            }
            if now - began >= Duration::from_secs(10) {
                late = late.max(in_flight.len());
            }
        }
        (stored, late)
    }

    #[test]
    fn on_a_slow_link_few_parts_are_in_flight_and_each_run_ends_some() {
        for rate in [2e6, 5e6, 10e6] {
            let seconds = 25;
            let (stored, late) = send(rate, rate, 64, Duration::from_secs(seconds));
            let carried = (rate * seconds as f64) as usize / PART as usize;
            assert!(stored + 4 >= carried && stored > 0, "{rate}: {stored} of {carried} parts");
            assert!(late <= 4, "{rate}: {late} in flight");
        }
        let (stored, _) = send(5e6, 5e6, 64, Duration::from_secs(12));
        assert!(stored >= 4, "{stored} in twelve seconds");
    }

    #[test]
    fn slow_connections_of_a_fast_link_become_many() {
        let (stored, late) = send(1e9, 2e6, 64, Duration::from_secs(60));
        assert!(late == 64 && stored > 600, "{stored} parts, {late} in flight");
        let (_, late) = send(1e9, 90e6, 16, Duration::from_secs(11));
        assert_eq!(late, 16);
    }
}
