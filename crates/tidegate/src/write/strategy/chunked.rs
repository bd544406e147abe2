//! `Chunked`: one part at a time, each acknowledged before the next byte is taken.

use super::{Cut, Policy, ScheduleError, Strategy, Target};

pub(super) fn policy(target: &Target<'_>) -> Result<Policy, ScheduleError> {
    Ok(Policy {
        strategy: Strategy::Chunked,
        cut: Cut::Parts(target.schedule()?),
        in_flight: 1,
        deferred: false,
    })
}
