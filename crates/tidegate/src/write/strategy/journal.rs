//! `Journal`: to a journal first, durably, and from there to the store while the producer goes on.

use super::{Policy, ScheduleError, Strategy, Target};

pub(super) fn policy(target: &Target<'_>) -> Result<Policy, ScheduleError> {
    if !target.journal {
        return Err(ScheduleError::NoJournal);
    }
    // Parts are streamed from the journal: neither memory nor a spool bounds them.
    let (cut, in_flight) = Target { memory: None, spool: false, ..*target }.in_parts()?;
    if cut.appends() {
        return Err(ScheduleError::JournalCreates);
    }
    Ok(Policy { strategy: Strategy::Journal, cut, in_flight, deferred: false })
}
