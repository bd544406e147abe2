//! `Journal`: to a journal first, durably, and from there to the store while the producer goes on.

use super::{Policy, ScheduleError, Strategy, Target};

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
        _ => target.in_parts()?,
    };
    Ok(Policy { strategy: Strategy::Journal, cut, in_flight, deferred: false, least: None })
}
