//! The one tokio runtime of the process.

use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::time::Duration;
use std::{io, thread};

use tokio::runtime::{Builder, Runtime};
use tokio::signal::unix::{SignalKind, signal};

use crate::exit::{Failure, Outcome};
use crate::interrupt;

/// What sends and receives is a few connections: more threads cost more than they carry.
const WORKERS: usize = 2;
/// Files that are read from a disk that is slow, each in a thread, at once.
const BLOCKING: usize = 64;
/// Without so many threads for files beside the workers a command could not go on.
const LEAST_BLOCKING: usize = 4;
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
    let no_threads = |error: io::Error| Failure::Failed(format!("the system gives no threads: {error}"));
    find_threads().map_err(no_threads)?;
    let runtime = Builder::new_multi_thread()
        .worker_threads(WORKERS)
        .max_blocking_threads(BLOCKING)
        .thread_stack_size(STACK)
        .enable_all()
        .build()
        .map_err(no_threads)?;
    survive_file_size_limit(&runtime);
    let outcome = runtime.block_on(command);
    match outcome {
        // A thread that waits for a pipe, a disk or a name server would wait for ever.
        Err(Failure::Interrupted(_)) => runtime.shutdown_background(),
        _ => runtime.shutdown_timeout(GRACE),
    }
    outcome
}

/// Fails where the system does not give the threads that a command needs at once; the runtime would panic.
fn find_threads() -> io::Result<()> {
    let (done, waits) = mpsc::channel::<()>();
    let waits = Arc::new(Mutex::new(waits));
    let mut threads = Vec::new();
    let found = (0..WORKERS + LEAST_BLOCKING).try_for_each(|_| {
        let waits = waits.clone();
        // Until the channel is closed.
        let wait = move || {
            let _ = waits.lock().unwrap_or_else(PoisonError::into_inner).recv();
        };
        threads.push(thread::Builder::new().stack_size(STACK).spawn(wait)?);
        Ok(())
    });
    drop(done);
    threads.into_iter().for_each(|thread| drop(thread.join()));
    found
}

/// A file that grows past `ulimit -f` is an error like a full disk, and does not end the process.
fn survive_file_size_limit(runtime: &Runtime) {
    let _entered = runtime.enter();
    let limit = SignalKind::from_raw(rustix::process::Signal::XFSZ.as_raw());
    if let Err(error) = signal(limit) {
        tracing::warn!(%error, "the signal of a file that is too large can't be taken");
    }
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
