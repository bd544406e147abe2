//! Turns the system's errors into faults, and runs work on the blocking pool.

use std::io;
use std::path::Path;

use tidegate_core::backend::{Fault, FaultKind};
use tidegate_core::types::amount::Rounded;

/// Runs `work` on the runtime's blocking pool. It runs to its end even if nobody waits for it any more.
pub(super) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Fault> + Send + 'static,
) -> Result<T, Fault> {
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => result,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            Err(error) => Err(shut_down().with_source(error)),
        },
    }
}

/// The fault for work that never ran.
pub(super) fn shut_down() -> Fault {
    Fault::new(FaultKind::Transient, "the runtime is shutting down")
}

/// The fault for a request that a retry would not cure.
pub(super) fn invalid(message: impl Into<String>) -> Fault {
    Fault::new(FaultKind::Invalid, message)
}

/// The fault for `error`, which occurred in `directory`.
pub(super) fn fault(error: io::Error, directory: &Path) -> Fault {
    use io::ErrorKind as Kind;
    let place = directory.display();
    let (kind, message) = match error.kind() {
        Kind::NotFound => (FaultKind::NotFound, "no such file".to_owned()),
        Kind::AlreadyExists => (FaultKind::Exists, "there is a file already".to_owned()),
        Kind::PermissionDenied => (FaultKind::Denied, format!("permission denied in {place}")),
        Kind::ReadOnlyFilesystem => (FaultKind::Denied, format!("the file system of {place} is read-only")),
        Kind::StorageFull => (FaultKind::NoSpace, format!("the disk of {place} is full{}", room(directory))),
        Kind::QuotaExceeded => {
            let room = room(directory);
            (FaultKind::NoSpace, format!("the disk quota in {place} is used up{room}"))
        }
        Kind::FileTooLarge => {
            let room = room(directory);
            (FaultKind::NoSpace, format!("the file is larger than a file in {place} may be{room}"))
        }
        Kind::IsADirectory => (FaultKind::Invalid, "it is a directory".to_owned()),
        Kind::NotADirectory => {
            let parent = file_in_the_way(directory);
            (FaultKind::Invalid, format!("a file is in the way of a directory: {}", parent.display()))
        }
        Kind::InvalidFilename => {
            (FaultKind::Invalid, "the name is too long, or not one that files have".to_owned())
        }
        _ if error.raw_os_error() == Some(rustix::io::Errno::LOOP.raw_os_error()) => {
            (FaultKind::Invalid, "symbolic links go round in a circle".to_owned())
        }
        _ => (FaultKind::Undone, format!("{error}, in {place}")),
    };
    // The system has reported the outcome: nothing happens later.
    Fault::new(kind, message).with_source(error).with_answered(true)
}

/// The free space of the disk: `: 0 bytes of 3.2 GiB are free`; empty if the system cannot say.
fn room(directory: &Path) -> String {
    let Some(found) = directory.ancestors().find_map(|directory| rustix::fs::statvfs(directory).ok()) else {
        return String::new();
    };
    let unit = found.f_frsize.max(1);
    let free = Rounded(found.f_bavail.saturating_mul(unit));
    let mut room = format!(": {free} of {} are free", Rounded(found.f_blocks.saturating_mul(unit)));
    if found.f_files > 0 && found.f_favail == 0 {
        room.push_str(", and no more files can be made");
    }
    room
}

fn file_in_the_way(directory: &Path) -> &Path {
    directory.ancestors().find(|ancestor| ancestor.is_file()).unwrap_or(directory)
}
