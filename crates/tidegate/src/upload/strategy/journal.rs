//! `Journal`: to a journal first, durably, and from there to the store while the producer continues.

use super::{Policy, ScheduleError, Strategy, StrategyFacts};

/// Size of a part where none is set, in bytes. A part that is not acknowledged when its process ends is sent
/// again, so parts are small: at 5 MB/s one takes less than two seconds.
const PART: u64 = 8 << 20;

/// Where the store has sessions that are appended to, a single stream goes to such a session, which knows how
/// many bytes it has and keeps the store's own condition. Where several parts in flight are asked for, parts
/// are sent. Bytes that are streamed from a journal are bounded neither by memory nor by a spool.
pub(super) fn policy(target: &StrategyFacts<'_>) -> Result<Policy, ScheduleError> {
    if !target.journal {
        return Err(ScheduleError::NoJournal);
    }
    let target = StrategyFacts { memory: None, spool: false, ..*target };
    let (cut, in_flight) = match target.capabilities.append {
        Some(grain) if !target.parallel => target.appended(grain)?,
        _ => small_parts(&target).in_parts()?,
    };
    Ok(Policy { strategy: Strategy::Journal, cut, in_flight, spool_first: false, least: None })
}

/// The same target with small parts, where the caller has set no part size. Not where all parts must be
/// equal: small parts would make the largest object smaller.
fn small_parts<'a>(target: &StrategyFacts<'a>) -> StrategyFacts<'a> {
    let capabilities = target.capabilities;
    let small = PART.clamp(capabilities.min_part, capabilities.max_part);
    let part_size = target.part_size.or((!capabilities.equal_parts).then_some(small));
    StrategyFacts { part_size, ..*target }
}
