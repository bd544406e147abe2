//! `Spool`: to a spool directory first, sent from there by `finish`.

use super::{Policy, ScheduleError, Strategy, StrategyFacts};

pub(super) fn policy(target: &StrategyFacts<'_>) -> Result<Policy, ScheduleError> {
    if !target.spool && target.memory.is_some() {
        return Err(ScheduleError::NoSpool);
    }
    let (cut, in_flight) = target.in_parts()?;
    // A file is on a disk already, and is sent from there.
    let spool_first = target.memory.is_some();
    Ok(Policy { strategy: Strategy::Spool, cut, in_flight, spool_first, least: None })
}
