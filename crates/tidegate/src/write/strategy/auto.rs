//! `Auto`: picks from what is known of the object, the store and the memory.

use super::{Policy, ScheduleError, Strategy, Target, parallel, put};

/// An object that should fit in one part is a put: it goes as one request, unless its size hint is
/// too small. Everything else goes in parallel, which is one request as well where the object turns
/// out to be small.
pub(super) fn policy(target: &Target<'_>) -> Result<Policy, ScheduleError> {
    let least = target.capabilities.min_part;
    if target.part_size.is_none() && target.bound().is_some_and(|memory| memory < least) {
        return put::policy(target); // memory that holds no part holds small objects all the same
    }
    let parallel = parallel::policy(target)?;
    let Some(schedule) = parallel.cut.schedule() else { return Ok(parallel) };
    match target.size_hint {
        Some(size) if size <= schedule.part_at(0).min(target.capabilities.max_put) => {
            Ok(Policy { strategy: Strategy::Put, ..parallel })
        }
        _ => Ok(parallel),
    }
}
