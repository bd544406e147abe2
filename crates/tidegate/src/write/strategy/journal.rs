//! `Journal`: to a journal first, durably, and from there to the store while the producer goes on.

use super::{Cut, Policy, ScheduleError, Strategy, Target};

pub(super) fn policy(target: &Target<'_>) -> Result<Policy, ScheduleError> {
    if !target.journal {
        return Err(ScheduleError::NoJournal);
    }
    // Parts are streamed from the journal: neither memory nor a spool bounds them.
    let cut = Cut::Parts(Target { memory: None, spool: false, ..*target }.schedule()?);
    Ok(Policy { strategy: Strategy::Journal, cut, in_flight: target.concurrency.max(1), deferred: false })
}
