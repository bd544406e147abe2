//! `Parallel`: parts in flight together while the producer goes on.

use super::{Cut, Policy, ScheduleError, Strategy, Target};

/// Parts are made no smaller for want of memory, whatever the store takes: S3's least.
const LEAST: u64 = 5 << 20;

/// Where the store has no parts that do what is asked, they go one behind the other.
pub(super) fn policy(target: &Target<'_>) -> Result<Policy, ScheduleError> {
    let (cut, in_flight) = target.in_parts()?;
    let strategy = if cut.appends() { Strategy::Chunked } else { Strategy::Parallel };
    Ok(Policy { strategy, cut, in_flight, deferred: false, least: least(target, cut) })
}

/// Where memory bounds how many parts fly, nobody has said how large they are, and as much fits in smaller ones.
fn least(target: &Target<'_>, cut: Cut) -> Option<u64> {
    let (Cut::Parts(schedule), Some(_), None) = (cut, target.bound(), target.part_size) else { return None };
    let least = target.capabilities.min_part.max(LEAST);
    let may_differ = !target.capabilities.equal_parts && least < schedule.part_at(0);
    // Where all of them end takes a while to find out: that is only asked of what may not fit in the least of each.
    let surely = least.saturating_mul(u64::from(schedule.max_parts()));
    let reaches = |size| size <= surely || size <= schedule.narrowed(least).reach();
    (may_differ && target.size_hint.is_none_or(reaches)).then_some(least)
}
