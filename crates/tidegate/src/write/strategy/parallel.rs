//! `Parallel`: parts in flight together while the producer goes on.

use super::{Policy, ScheduleError, Strategy, Target};

/// Where the store has no parts that do what is asked, they go one behind the other.
pub(super) fn policy(target: &Target<'_>) -> Result<Policy, ScheduleError> {
    let (cut, in_flight) = target.in_parts()?;
    let strategy = if cut.appends() { Strategy::Chunked } else { Strategy::Parallel };
    Ok(Policy { strategy, cut, in_flight, deferred: false })
}
