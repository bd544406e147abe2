//! `Auto`: picks from what is known of the object, the store and the memory.

use super::{Cut, Policy, ScheduleError, Strategy, StrategyFacts, parallel, put};
use crate::engine::latency::Best;

const MIB: u64 = 1 << 20;

/// Fewest parts of an object of a known size, where cutting is worth it and as many requests may be in
/// flight: one connection carries only so much.
const FEWEST: usize = 4;

/// Assumed of a store that was not measured yet: seconds for a small request, and seconds for a byte of an
/// object that has to go in parts anyway.
const LATENCY: f64 = 0.025;
const BYTE: f64 = 1.0 / (64 * MIB) as f64;

/// An object that fits in one request is cut where one connection takes this many times longer for it than
/// for opening and completing a session. Where several connections are no faster than one, about an eighth is
/// lost.
const WORTH: f64 = 8.0;

/// An object is not cut smaller where one connection carries it in less than this many seconds.
const SHORT: f64 = 0.1;

/// An object that should fit in one part uses `Put`: it goes as one request, unless its size hint is too
/// small. Every other object uses `Parallel`, which is one request as well where the object turns out to be
/// small.
pub(super) fn policy(target: &StrategyFacts<'_>) -> Result<Policy, ScheduleError> {
    let least = target.capabilities.min_part;
    if target.part_size.is_none() && target.bound().is_some_and(|memory| memory < least) {
        return put::policy(target); // memory too small for a part still holds small objects
    }
    let parallel = parallel::policy(target)?;
    let Some(schedule) = parallel.cut.schedule() else { return Ok(parallel) };
    let (Some(size), part) = (target.size_hint, schedule.part_at(0)) else { return Ok(parallel) };
    let fits = size <= part.min(target.capabilities.max_put);
    let at_once = FEWEST.min(target.concurrency).min(target.most).max(1) as u64;
    let smaller = size.div_ceil(at_once).next_multiple_of(MIB).max(least);
    // A producer's size may be a guess, and equal parts do not grow where the guess is too low.
    let reaches = !target.capabilities.equal_parts || target.memory.is_none();
    let is_cut = target.part_size.is_none()
        && reaches
        && matches!(parallel.cut, Cut::Parts(_))
        && smaller < part.min(size)
        && is_worth_it(size, fits, target.best);
    if is_cut {
        return parallel::policy(&StrategyFacts { part_size: Some(smaller), ..*target });
    }
    Ok(if fits { Policy { strategy: Strategy::Put, ..parallel } } else { parallel })
}

fn is_worth_it(size: u64, fits: bool, best: Best) -> bool {
    let Some(byte) = best.byte.or((!fits).then_some(BYTE)) else { return false };
    let alone = size as f64 * byte;
    let requests = if fits { 2.0 * best.small.unwrap_or(LATENCY) } else { 0.0 };
    alone >= (WORTH * requests).max(SHORT)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::Capabilities;

    fn target(size: u64, best: Best, capabilities: &Capabilities) -> StrategyFacts<'_> {
        StrategyFacts {
            capabilities,
            may_have_parts: true,
            part_size: None,
            size_hint: Some(size * MIB),
            memory: Some(256 * MIB),
            spool: false,
            journal: false,
            create_only: false,
            concurrency: 16,
            parallel: false,
            most: usize::MAX,
            best,
        }
    }

    /// The strategy that it comes to, and the MiB of its parts.
    fn picked(size: u64, best: Best, with: impl FnOnce(&mut StrategyFacts<'_>)) -> (Strategy, u64) {
        let capabilities = Capabilities::default();
        let mut target = target(size, best, &capabilities);
        with(&mut target);
        let policy = policy(&target).unwrap();
        (policy.strategy, policy.cut.schedule().unwrap().part_at(0) / MIB)
    }

    const UNSEEN: Best = Best { small: None, byte: None };
    const NEAR: Best = Best { small: Some(0.001), byte: None };
    const SLOW: Best = Best { small: Some(0.075), byte: Some(1.0 / 4.5e6) };
    const FAST: Best = Best { small: Some(0.001), byte: Some(1.0 / 1e9) };

    #[test]
    fn a_known_size_is_cut_where_that_is_worth_it() {
        use Strategy::{Parallel, Put};
        for (size, best, expected) in [
            (4, UNSEEN, (Put, 16)),
            (16, UNSEEN, (Put, 16)),
            (17, UNSEEN, (Parallel, 5)),
            (32, UNSEEN, (Parallel, 8)),
            (61, UNSEEN, (Parallel, 16)),
            (150, UNSEEN, (Parallel, 16)),
            // A known latency alone says nothing about the speed of a connection.
            (10, NEAR, (Put, 16)),
            // No part may be smaller.
            (5, SLOW, (Put, 16)),
            (10, SLOW, (Parallel, 5)),
            (50, SLOW, (Parallel, 13)),
            (16, FAST, (Put, 16)),
            (32, FAST, (Parallel, 16)),
        ] {
            assert_eq!(picked(size, best, |_| {}), expected, "{size} MiB, {best:?}");
        }
    }

    #[test]
    fn what_the_caller_and_the_memory_say_stays() {
        assert_eq!(picked(10, SLOW, |target| target.part_size = Some(16 * MIB)), (Strategy::Put, 16));
        assert_eq!(picked(10, SLOW, |target| target.concurrency = 1), (Strategy::Put, 16));
        assert_eq!(picked(32, SLOW, |target| target.most = 1), (Strategy::Parallel, 16));
        assert_eq!(picked(24, SLOW, |target| target.most = 2), (Strategy::Parallel, 12));
        let equal = Capabilities { equal_parts: true, ..Capabilities::default() };
        let with_equal = |memory| {
            let mut target = target(20, SLOW, &equal);
            target.memory = memory;
            policy(&target).unwrap().cut.schedule().unwrap().part_at(0) / MIB
        };
        assert_eq!([Some(256 * MIB), None].map(with_equal), [16, 5]);
        assert_eq!(picked(60, SLOW, |target| target.memory = Some(48 * MIB)), (Strategy::Parallel, 6));
        assert_eq!(picked(32, UNSEEN, |target| target.size_hint = None), (Strategy::Parallel, 16));
    }

    #[test]
    fn parts_become_smaller_only_where_memory_bounds_them_and_nobody_has_said_their_size() {
        let least = |with: fn(&mut StrategyFacts<'_>)| {
            let capabilities = Capabilities::default();
            let mut target = target(0, UNSEEN, &capabilities);
            target.size_hint = None;
            with(&mut target);
            policy(&target).unwrap().least
        };
        assert_eq!(least(|_| {}), Some(5 * MIB));
        assert_eq!(least(|target| target.size_hint = Some(500 << 30)), Some(5 * MIB));
        assert_eq!(least(|target| target.size_hint = Some(900 << 30)), None, "so small they reach 757 GiB");
        assert_eq!(least(|target| target.part_size = Some(16 * MIB)), None);
        assert_eq!(least(|target| target.spool = true), None);
        assert_eq!(least(|target| target.memory = None), None);
        assert_eq!(least(|target| target.memory = Some(32 * MIB)), None, "parts of 5 MiB are the least");
        let equal = Capabilities { equal_parts: true, ..Capabilities::default() };
        let target = StrategyFacts { size_hint: None, ..target(0, UNSEEN, &equal) };
        assert_eq!(policy(&target).unwrap().least, None);
    }
}
