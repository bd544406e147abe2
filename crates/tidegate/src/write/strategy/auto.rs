//! `Auto`: picks from what is known of the object, the store and the memory.

use super::{Policy, ScheduleError, Strategy, Target, parallel, put};

/// An object that is known to fit in one part goes as one request, and takes no more of the budget
/// than its size; everything else goes in parallel, which is one request as well where the object
/// turns out to be small.
pub(super) fn policy(target: &Target<'_>) -> Result<Policy, ScheduleError> {
    let parallel = parallel::policy(target)?;
    let super::Cut::Parts(schedule) = parallel.cut else { return Ok(parallel) };
    match target.size_hint {
        Some(size) if size <= schedule.part_at(0).min(target.capabilities.max_put) => put::policy(target),
        _ => Ok(Policy { strategy: Strategy::Parallel, ..parallel }),
    }
}
