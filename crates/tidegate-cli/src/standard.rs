//! Standard input and output, and whether the caller closed them.
//!
//! Rust's runtime opens `/dev/null` in place of a standard descriptor that is closed, before `main`. A closed
//! standard input would then be an empty object, and bytes written to a closed standard output would be lost without
//! an error. So a constructor checks the descriptors before the runtime does. The runtime's replacement stays:
//! without it, a file that this program opens could get descriptor 2, and messages would be written into that file.

use std::fs::File;
use std::io::{self, Seek};
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU8, Ordering::Relaxed};

use rustix::fs::OFlags;

use crate::exit::{CommandFailure, Outcome};

/// Which of the descriptors 0 and 1 were closed when the process began: one bit each.
static CLOSED: AtomicU8 = AtomicU8::new(0);

const INPUT: u8 = 1;
const OUTPUT: u8 = 1 << 1;

/// Records which descriptors are closed. Allocates nothing, opens nothing and makes system calls only, because Rust's
/// standard library is not set up yet.
extern "C" fn look() {
    for (descriptor, bit) in [(rustix::stdio::stdin(), INPUT), (rustix::stdio::stdout(), OUTPUT)] {
        if rustix::io::fcntl_getfd(descriptor) == Err(rustix::io::Errno::BADF) {
            CLOSED.fetch_or(bit, Relaxed);
        }
    }
}

// SAFETY: the dynamic linker (or the C library of a static program) calls each pointer in `.init_array` once, before
// `main`, while there is one thread. It passes arguments that a C function may ignore. `look` has the C calling
// convention, cannot unwind, and needs no part of Rust's runtime.
#[expect(unsafe_code, reason = "the only place that runs before the runtime replaces closed descriptors")]
#[used]
#[unsafe(link_section = ".init_array")]
static LOOK: extern "C" fn() = look;

/// Standard input, as a file of its own.
///
/// # Errors
/// If standard input was closed when the process began, or is open for writing only. Rust's own [`io::stdin`] reads
/// both as an empty input.
pub(crate) fn input() -> Outcome<File> {
    let descriptor = rustix::stdio::stdin();
    if CLOSED.load(Relaxed) & INPUT != 0 || is_open_for(descriptor, OFlags::WRONLY) {
        let message = "-: standard input is closed: redirect a file or a pipe to it (`< /dev/null` for none)";
        return Err(CommandFailure::Usage(message.to_owned()));
    }
    let copied = descriptor.try_clone_to_owned();
    copied.map(File::from).map_err(|error| CommandFailure::Failed(format!("standard input: {error}")))
}

/// A path to standard input, if standard input is a regular file and nobody has read from it yet: then it is uploaded as a
/// file.
///
/// # Errors
/// As [`input`].
pub(crate) fn input_file() -> Outcome<Option<PathBuf>> {
    let path = PathBuf::from("/proc/self/fd/0");
    let mut file = input()?;
    let is_whole = file.metadata().is_ok_and(|found| found.is_file())
        && file.stream_position().is_ok_and(|position| position == 0);
    // The user may not be allowed to open the file again.
    Ok((is_whole && File::open(&path).is_ok()).then_some(path))
}

/// Standard output, as a file of its own.
///
/// # Errors
/// If standard output was closed when the process began, or is open for reading only.
pub(crate) fn output() -> Outcome<File> {
    let descriptor = rustix::stdio::stdout();
    if CLOSED.load(Relaxed) & OUTPUT != 0 || is_open_for(descriptor, OFlags::RDONLY) {
        return Err(CommandFailure::from(io::Error::from(rustix::io::Errno::BADF)));
    }
    Ok(File::from(descriptor.try_clone_to_owned()?))
}

/// Refuses a path that leads to a closed standard input: the path would lead to the runtime's `/dev/null`.
pub(crate) fn refuse_closed_input(path: &Path) -> Outcome {
    match descriptor_at(path) {
        Some(0) => input().map(drop),
        _ => Ok(()),
    }
}

/// Whether a path leads to standard output. Such a path is a link, often to a file; publishing a file at the path
/// would replace the link.
pub(crate) fn is_output(path: &Path) -> bool {
    descriptor_at(path) == Some(1)
}

/// The descriptor of this process that a path leads to: `/dev/stdin`, `/dev/fd/0`, `/proc/thread-self/fd/0`, or a
/// link to one of these. A path to the file that the descriptor is open on does not count: `/dev/null` is not
/// descriptor 0.
fn descriptor_at(path: &Path) -> Option<u32> {
    const LINKS: usize = 40;
    let mut path = std::path::absolute(path).ok()?;
    for _ in 0..LINKS {
        let (directory, name) = (path.parent()?.canonicalize().ok()?, path.file_name()?);
        if is_of_descriptors(&directory) {
            return name.to_str()?.parse().ok();
        }
        let entry = directory.join(name);
        // `read_link` fails, and the search ends, if the entry is not a link.
        path = directory.join(std::fs::read_link(&entry).ok()?);
    }
    None
}

/// Whether a directory lists this process's descriptors: `/proc/PID/fd`, `/proc/PID/task/TID/fd`, or `/dev/fd` on
/// systems where that is not a link.
fn is_of_descriptors(directory: &Path) -> bool {
    if directory == Path::new("/dev/fd") {
        return true;
    }
    let own = Path::new("/proc/self").canonicalize();
    let below = own.as_ref().ok().and_then(|own| directory.strip_prefix(own).ok());
    let Some(below) = below else { return false };
    match below.iter().collect::<Vec<_>>()[..] {
        [fd] => fd == "fd",
        [task, _, fd] => task == "task" && fd == "fd",
        _ => false,
    }
}

/// Whether a descriptor is open only for the given access mode: `WRONLY` or `RDONLY`.
fn is_open_for(descriptor: BorrowedFd<'_>, only: OFlags) -> bool {
    rustix::fs::fcntl_getfl(descriptor).is_ok_and(|flags| flags & OFlags::RWMODE == only)
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn a_descriptor_is_found_by_each_of_its_paths() {
        let directory = tempfile::tempdir().unwrap();
        let link = directory.path().join("link");
        std::os::unix::fs::symlink("/dev/stdin", &link).unwrap();
        let link = link.to_str().unwrap();
        let process = std::process::id();
        let thread = std::fs::read_link("/proc/thread-self").unwrap();
        for (path, descriptor) in [
            ("/dev/stdin", Some(0)),
            ("/dev/stdout", Some(1)),
            ("/dev/fd/0", Some(0)),
            ("/dev/./fd//1", Some(1)),
            ("/dev/../dev/fd/0", Some(0)),
            ("/proc/self/fd/0", Some(0)),
            ("/proc/thread-self/fd/0", Some(0)),
            (&format!("/proc/{process}/fd/0"), Some(0)),
            (&format!("/proc/{}/fd/1", thread.display()), Some(1)),
            ("/proc/self/root/dev/stdin", Some(0)),
            (link, Some(0)),
            ("/dev/null", None),
            ("/proc/1/fd/0", None),
            ("/proc/self/fdinfo/0", None),
            ("/proc/self/fd", None),
            ("/nowhere/0", None),
            ("/", None),
        ] {
            assert_eq!(descriptor_at(Path::new(path)), descriptor, "{path}");
        }
    }
}
