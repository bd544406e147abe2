//! `Chunked`: one part at a time, each acknowledged before the next byte is taken.

use super::{Policy, ScheduleError, Strategy, StrategyFacts};

pub(super) fn policy(target: &StrategyFacts<'_>) -> Result<Policy, ScheduleError> {
    Ok(Policy {
        strategy: Strategy::Chunked,
        cut: target.in_order()?,
        in_flight: 1,
        spool_first: false,
        least: None,
    })
}
