//! `Parallel`: parts in flight together while the producer continues.

use super::{Cut, Policy, ScheduleError, Strategy, StrategyFacts};

/// Parts are made no smaller than this for want of memory, even where the store takes smaller ones: S3's
/// least, in bytes.
const LEAST: u64 = 5 << 20;

/// Where the store's parts can't keep the condition of the commit, chunks are sent one after the other.
pub(super) fn policy(target: &StrategyFacts<'_>) -> Result<Policy, ScheduleError> {
    let (cut, in_flight) = target.in_parts()?;
    let strategy = if cut.appends() { Strategy::Chunked } else { Strategy::Parallel };
    Ok(Policy { strategy, cut, in_flight, spool_first: false, least: least(target, cut) })
}

/// The smallest size that parts may shrink to: set where memory bounds how many parts are in flight, the
/// caller has set no part size, and the object also fits in smaller parts.
fn least(target: &StrategyFacts<'_>, cut: Cut) -> Option<u64> {
    let (Cut::Parts(schedule), Some(_), None) = (cut, target.bound(), target.part_size) else { return None };
    let least = target.capabilities.min_part.max(LEAST);
    let may_differ = !target.capabilities.equal_parts && least < schedule.part_at(0);
    // `reach` takes a while to compute, so it is called only for a size that may not fit in parts of the
    // smallest size.
    let surely = least.saturating_mul(u64::from(schedule.max_parts()));
    let reaches = |size| size <= surely || size <= schedule.narrowed(least).reach();
    (may_differ && target.size_hint.is_none_or(reaches)).then_some(least)
}
