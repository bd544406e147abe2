//! Standard input and output as the caller has set them up.
//!
//! Rust's runtime opens `/dev/null` in place of a standard descriptor that is closed, before `main`. A closed standard
//! input would then be an empty object, and what goes to a closed standard output would be lost without an error. So a
//! constructor looks at the descriptors before the runtime does. The runtime's replacement stays: with it no file that
//! this program opens gets descriptor 2, where messages would be written into it.

use std::fs::File;
use std::io;
use std::os::fd::BorrowedFd;
use std::path::Path;
use std::sync::atomic::{AtomicU8, Ordering::Relaxed};

use rustix::fs::OFlags;

use crate::exit::{Failure, Outcome};

/// Which of the descriptors 0 and 1 were closed when the process began: one bit each.
static CLOSED: AtomicU8 = AtomicU8::new(0);

const INPUT: u8 = 1;
const OUTPUT: u8 = 1 << 1;

/// Looks at the descriptors. It allocates nothing, opens nothing and calls the system only, as nothing of Rust's
/// standard library is set up yet.
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
/// Where it was closed when the process began, or is open for writing only. Rust's own [`io::stdin`] takes both for an
/// empty input.
pub(crate) fn input() -> Outcome<File> {
    let descriptor = rustix::stdio::stdin();
    if CLOSED.load(Relaxed) & INPUT != 0 || is_open_for(descriptor, OFlags::WRONLY) {
        let message = "-: standard input is closed: redirect a file or a pipe to it (`< /dev/null` for none)";
        return Err(Failure::Usage(message.to_owned()));
    }
    let copied = descriptor.try_clone_to_owned();
    copied.map(File::from).map_err(|error| Failure::Failed(format!("standard input: {error}")))
}

/// Standard output, as a file of its own.
///
/// # Errors
/// Where it was closed when the process began, or is open for reading only.
pub(crate) fn output() -> Outcome<File> {
    let descriptor = rustix::stdio::stdout();
    if CLOSED.load(Relaxed) & OUTPUT != 0 || is_open_for(descriptor, OFlags::RDONLY) {
        return Err(Failure::from(io::Error::from(rustix::io::Errno::BADF)));
    }
    Ok(File::from(descriptor.try_clone_to_owned()?))
}

/// Refuses the path of standard input where that was closed: it would lead to the runtime's `/dev/null`.
pub(crate) fn refuse_closed_input(path: &Path) -> Outcome {
    match path.to_str() {
        Some("/dev/stdin" | "/dev/fd/0" | "/proc/self/fd/0") => input().map(drop),
        _ => Ok(()),
    }
}

/// Whether a path names standard output. It is a link, often to a file; a file in its place would replace the link.
pub(crate) fn is_output(path: &Path) -> bool {
    matches!(path.to_str(), Some("/dev/stdout" | "/dev/fd/1" | "/proc/self/fd/1"))
}

/// Whether a descriptor is open for this only: `WRONLY` or `RDONLY`.
fn is_open_for(descriptor: BorrowedFd<'_>, only: OFlags) -> bool {
    rustix::fs::fcntl_getfl(descriptor).is_ok_and(|flags| flags & OFlags::RWMODE == only)
}
