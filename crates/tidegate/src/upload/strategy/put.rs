//! `Put`: all bytes in one request.

use super::{Cut, Policy, ScheduleError, Strategy, StrategyFacts};

pub(super) fn policy(target: &StrategyFacts<'_>) -> Result<Policy, ScheduleError> {
    let (store, memory) = (target.capabilities.max_put, target.bound().unwrap_or(u64::MAX));
    let most = store.min(memory);
    if let Some(size) = target.size_hint.filter(|size| *size > most) {
        return Err(match size > store {
            true => ScheduleError::PastRequest { size, limit: store },
            false => ScheduleError::PastMemory { size, limit: memory },
        });
    }
    // An object of an unknown size leaves half of the memory to other writers; one of a known size holds no
    // more of the budget than it needs.
    let limit = target
        .size_hint
        .map_or(target.bound().map_or(most, |memory| most.min(memory / 2)), |size| size.max(1));
    Ok(Policy {
        strategy: Strategy::Put,
        cut: Cut::Whole { limit },
        in_flight: 1,
        spool_first: false,
        least: None,
    })
}
