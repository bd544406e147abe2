//! `Journal`: to a journal first, durably, and from there to the store while the producer goes on.

use super::{Policy, ScheduleError, Strategy, Target};

/// A part that is not acknowledged when its process ends is sent again, so they are small: at 5 MB/s one takes less than
/// two seconds.
const PART: u64 = 8 << 20;

/// Where the store has sessions that are appended to, a single stream goes to one of those, which knows where
/// it stands and has the store's own condition; parts where several at once are asked for. What is
/// streamed from a journal is bounded neither by memory nor by a spool.
pub(super) fn policy(target: &Target<'_>) -> Result<Policy, ScheduleError> {
    if !target.journal {
        return Err(ScheduleError::NoJournal);
    }
    let target = Target { memory: None, spool: false, ..*target };
    let (cut, in_flight) = match target.capabilities.append {
        Some(grain) if !target.parallel => target.appended(grain)?,
        _ => small_parts(&target).in_parts()?,
    };
    Ok(Policy { strategy: Strategy::Journal, cut, in_flight, deferred: false, least: None })
}

/// The same with small parts, where the caller has not said how large they are to be. Where all parts are equal, small
/// ones would make the largest object smaller.
fn small_parts<'a>(target: &Target<'a>) -> Target<'a> {
    let capabilities = target.capabilities;
    let small = PART.clamp(capabilities.min_part, capabilities.max_part);
    let part_size = target.part_size.or((!capabilities.equal_parts).then_some(small));
    Target { part_size, ..*target }
}
