//! `Parallel`: parts in flight together while the producer goes on.

use super::{Cut, Policy, ScheduleError, Strategy, Target};

pub(super) fn policy(target: &Target<'_>) -> Result<Policy, ScheduleError> {
    let cut = Cut::Parts(target.schedule()?);
    Ok(Policy { strategy: Strategy::Parallel, cut, in_flight: target.concurrency.max(1), deferred: false })
}
