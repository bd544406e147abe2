//! The one tokio runtime of the process.

use std::future::Future;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::time::Duration;
use std::{io, thread};

use tokio::runtime::{Builder, Runtime};
use tokio::signal::unix::{SignalKind, signal};

use crate::exit::{CommandFailure, Outcome};
use crate::interrupt;

/// Worker threads. A few connections carry all traffic, so more threads cost more than they gain.
const WORKERS: usize = 2;
/// The most threads for blocking calls, each of which may wait for one file on a slow disk.
const BLOCKING: usize = 64;
/// The fewest threads for blocking calls with which every command can make progress.
const LEAST_BLOCKING: usize = 4;
/// Stack size of each thread: no code here recurses deeply. Frames of a debug build are several times as large.
const STACK: usize = if cfg!(debug_assertions) { 2 << 20 } else { 512 << 10 };
/// How long work on local files may continue after the command has ended, so that removals in progress finish. There
/// is a limit because a thread that waits for input from a terminal may wait for ever.
const GRACE: Duration = Duration::from_millis(500);

/// The limit of open files to ask for: many small objects need a file and a connection each. Systems with a default
/// of 256 or 1024 allow more.
const OPEN_FILES: u64 = 4096;

/// Runs a command to its end.
pub(crate) fn run(command: impl Future<Output = Outcome>) -> Outcome {
    interrupt::listen()?;
    allow_open_files();
    let no_threads =
        |error: io::Error| CommandFailure::Failed(format!("the system gives no threads: {error}"));
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
        // Do not wait: a thread may be blocked for ever on a pipe, a disk or a name server.
        Err(CommandFailure::Interrupted(_)) => runtime.shutdown_background(),
        _ => runtime.shutdown_timeout(GRACE),
    }
    outcome
}

/// Fails if the system does not give the threads that a command needs at once. The runtime would panic instead.
fn find_threads() -> io::Result<()> {
    let (done, waits) = mpsc::channel::<()>();
    let waits = Arc::new(Mutex::new(waits));
    let mut threads = Vec::new();
    let found = (0..WORKERS + LEAST_BLOCKING).try_for_each(|_| {
        let waits = waits.clone();
        // `recv` blocks until the channel is closed.
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

/// Takes SIGXFSZ, so that writing past `ulimit -f` becomes an error, like a full disk, and does not end the process.
fn survive_file_size_limit(runtime: &Runtime) {
    let _entered = runtime.enter();
    let limit = SignalKind::from_raw(rustix::process::Signal::XFSZ.as_raw());
    if let Err(error) = signal(limit) {
        tracing::warn!(%error, "the signal of a file that is too large can't be taken");
    }
}

/// How many commands run now, where many share this process.
static COMMANDS: AtomicUsize = AtomicUsize::new(1);

/// How many files a command may have open: its share of the limit.
pub(crate) fn open_files() -> usize {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    let limit = limit.current.and_then(|limit| limit.try_into().ok()).unwrap_or(usize::MAX);
    limit / COMMANDS.load(Relaxed).max(1)
}

/// Divides the limit of open files among this many commands, which run at the same time.
pub(crate) fn share_open_files(commands: usize) {
    COMMANDS.store(commands, Relaxed);
}

/// Raises the limit of open files to `OPEN_FILES`, or as far as the user may.
fn allow_open_files() {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    let most = limit.maximum.map_or(OPEN_FILES, |most| most.min(OPEN_FILES));
    if limit.current.is_some_and(|current| current < most) {
        limit.current = Some(most);
        // If the system refuses, opening too many files fails later, with an error that says so.
        let _ = setrlimit(Resource::Nofile, limit);
    }
}
