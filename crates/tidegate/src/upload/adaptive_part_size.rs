//! Makes parts smaller where memory, and not the store, limits how many requests are in flight.
//!
//! A part holds its memory until the store has it. Where a network carries more connections than there are
//! parts in memory, smaller parts let more of them be in flight: as many as the limiter has found to pay.

use crate::engine::limiter::{Flow, Wanting};

/// Part sizes are multiples of this.
const STEP: u64 = 1 << 20;

/// Chooses the size of one writer's next part.
#[derive(Debug)]
pub(super) struct AdaptivePartSize {
    flow: Flow,
    /// Bytes of the whole budget.
    memory: u64,
    /// Most parts that the writer may have in flight.
    in_flight: usize,
    /// Size of the parts where there is enough memory, and the smallest size that the plan gives a part.
    whole: u64,
    least: u64,
    /// Size of the last part.
    part: u64,
    /// Tells the limiter that the writer wants more requests in flight, while it waits for memory.
    wanting: Option<Wanting>,
    /// Whether the writer waited for memory while it filled this part.
    waited: bool,
    /// Bytes of the parts since the writer last waited for memory, or parts last grew.
    calm: u64,
}

impl AdaptivePartSize {
    pub(super) fn new(flow: Flow, memory: u64, in_flight: usize, whole: u64, least: u64) -> Self {
        Self { flow, memory, in_flight, whole, least, part: whole, wanting: None, waited: false, calm: 0 }
    }

    /// Takes in whether the writer waits for memory.
    pub(super) fn waits(&mut self, is_waiting: bool) {
        if is_waiting {
            self.waited = true;
            self.wanting.get_or_insert_with(|| self.flow.wanting()).asks();
        } else {
            self.wanting = None;
        }
    }

    /// Most bytes of the part that begins now.
    pub(super) fn next(&mut self) -> u64 {
        let at_once = self.flow.limit().min(self.in_flight) as u64;
        if std::mem::take(&mut self.waited) {
            self.calm = 0;
            let is_enough = self.memory / at_once.max(1) >= self.whole;
            // One part more than those in flight is being filled.
            let fits = self.memory / (at_once + 1) / STEP * STEP;
            self.part = if is_enough { self.whole } else { fits.max(self.least) };
        } else if self.part < self.whole {
            self.calm = self.calm.saturating_add(self.part);
            // Parts that ended together leave room for many. A writer that has filled the whole budget once
            // without a wait does not need smaller parts, and each request costs.
            if self.calm >= self.memory {
                self.calm = 0;
                self.part = self.whole.min(self.part.saturating_mul(2));
            }
        }
        self.part
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::limiter::{Concurrency, Limiter, Outcome};

    const MIB: u64 = 1 << 20;

    #[test]
    fn parts_become_smaller_where_memory_is_waited_for_and_more_of_them_may_fly() {
        let next = |concurrency, in_flight, waits: &[bool]| {
            let limiter = Limiter::new(Concurrency::Fixed(concurrency));
            let mut adaptive_part_size =
                AdaptivePartSize::new(limiter.flow(), 256 * MIB, in_flight, 16 * MIB, 5 * MIB);
            let next = waits.iter().map(|waits| {
                adaptive_part_size.waits(*waits);
                adaptive_part_size.waits(false);
                adaptive_part_size.next() / MIB
            });
            next.collect::<Vec<_>>()
        };
        assert_eq!(next(16, 64, &[true, true]), [16, 16]);
        assert_eq!(next(32, 64, &[false, true, true]), [16, 7, 7]);
        // As much as there is of memory comes in 52 parts of 5 MiB, and 26 of 10.
        let calm = next(63, 64, &[[true].as_slice(), &[false; 52 + 26]].concat());
        assert_eq!([0, 51, 52, 77, 78].map(|at| calm[at]), [5, 5, 10, 10, 16]);
        assert_eq!(next(64, 16, &[true]), [16]);
        assert_eq!(next(10_000, 10_000, &[true]), [5]);
    }

    #[tokio::test(start_paused = true)]
    async fn who_waits_for_memory_counts_as_one_who_waits_for_a_turn() {
        // As many requests as show whether more of them pay, and the limit after these.
        let moved = async |limiter: &Limiter| {
            for _ in 0..4 {
                let permit = limiter.flow().permit().await;
                tokio::time::sleep(std::time::Duration::from_millis(100)).await;
                permit.end(Outcome::Moved(MIB));
            }
            limiter.limit()
        };
        let new = || {
            let limiter = Limiter::new(Concurrency::Auto);
            let adaptive_part_size = AdaptivePartSize::new(limiter.flow(), 256 * MIB, 64, 16 * MIB, 5 * MIB);
            (limiter, adaptive_part_size)
        };
        let (limiter, mut adaptive_part_size) = new();
        let first = limiter.limit();
        assert_eq!(moved(&limiter).await, first, "nobody would make more");
        adaptive_part_size.waits(true);
        let grown = moved(&limiter).await;
        assert!(grown > first);
        adaptive_part_size.waits(false);
        assert_eq!(moved(&limiter).await, grown);

        let (limiter, mut adaptive_part_size) = new();
        adaptive_part_size.waits(true);
        tokio::time::sleep(std::time::Duration::from_secs(60)).await;
        assert_eq!(moved(&limiter).await, first, "who has not asked for a minute went away");
        adaptive_part_size.waits(true);
        assert!(moved(&limiter).await > first);
    }
}
