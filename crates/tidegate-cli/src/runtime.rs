//! The one tokio runtime of the process.

use std::future::Future;
use std::time::Duration;

use tokio::runtime::Builder;

use crate::exit::{Failure, Outcome};
use crate::interrupt;

/// What sends and receives is a few connections: more threads cost more than they carry.
const WORKERS: usize = 2;
/// Files that are read from a disk that is slow, each in a thread, at once.
const BLOCKING: usize = 64;
/// Nothing here recurses deeply.
const STACK: usize = 512 << 10;
/// How long work on local files may go on after the command has ended: what it began to remove,
/// it removes. A thread that waits for a terminal's input would wait for ever.
const GRACE: Duration = Duration::from_millis(500);

/// Open files that many small objects take: a file and a connection each. Systems that begin with 256 or 1024 allow more.
const OPEN_FILES: u64 = 4096;

/// Runs a command to its end.
pub(crate) fn run(command: impl Future<Output = Outcome>) -> Outcome {
    interrupt::listen()?;
    allow_open_files();
    let runtime = Builder::new_multi_thread()
        .worker_threads(WORKERS)
        .max_blocking_threads(BLOCKING)
        .thread_stack_size(STACK)
        .enable_all()
        .build()
        .map_err(|error| Failure::Failed(format!("the system gives no threads: {error}")))?;
    let outcome = runtime.block_on(command);
    match outcome {
        // A thread that waits for a pipe, a disk or a name server would wait for ever.
        Err(Failure::Interrupted(_)) => runtime.shutdown_background(),
        _ => runtime.shutdown_timeout(GRACE),
    }
    outcome
}

/// How many files may be open.
pub(crate) fn open_files() -> usize {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    limit.current.and_then(|limit| limit.try_into().ok()).unwrap_or(usize::MAX)
}

/// Raises the limit of open files as far as the user may.
fn allow_open_files() {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    let most = limit.maximum.map_or(OPEN_FILES, |most| most.min(OPEN_FILES));
    if limit.current.is_some_and(|current| current < most) {
        limit.current = Some(most);
        // Where it is refused, what is too many fails with an error that says so.
        let _ = setrlimit(Resource::Nofile, limit);
    }
}
