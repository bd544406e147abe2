//! Engines. One process has one for each set of options.

use std::mem::MaybeUninit;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Arc, Mutex, Once, PoisonError, Weak};
use std::time::Duration;

use rustix::process::{Pid, getpid};
use tidegate::Tidegate;
use tidegate::options::Options;
use tokio::runtime::{Builder, Handle, Runtime};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::border::{call, free, handle, needed};
use crate::error::{Failure, Outcome, TG_KIND_TIMEOUT, TG_KIND_UNAVAILABLE, failure, of, tg_error};
use crate::operation::Operation;
use crate::options::{given, tg_options};
use crate::process::OfProcess;
use crate::{sigpipe, thread};

/// The engine and the runtime of its calls, shared by all that came from it.
#[derive(Debug)]
pub(crate) struct Running {
    pub(crate) tide: Tidegate,
    pub(crate) runtime: Handle,
    /// Writers that were freed during a call, and that the call has not dropped yet.
    pub(crate) ending: TaskTracker,
    _owned: OwnedRuntime,
}

/// A runtime that ends without waiting for its tasks.
#[derive(Debug)]
struct OwnedRuntime(Option<Runtime>);

impl Drop for OwnedRuntime {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

/// A share of the engine, inert in a forked child.
pub(crate) type Shared = Arc<OfProcess<Running>>;

/// An engine: a memory budget, limits, and the threads that carry out calls. Any thread may use it.
#[derive(Debug)]
pub struct tg_engine {
    pub(crate) shared: Shared,
}

/// The engines of one process. A forked child finds those of its parent, behind a lock that one of the parent's threads
/// may have held, and begins anew.
struct Registry {
    process: Pid,
    engines: Mutex<Vec<(Options, Weak<OfProcess<Running>>)>>,
}

static REGISTRY: AtomicPtr<Registry> = AtomicPtr::new(ptr::null_mut());

fn registry() -> &'static Registry {
    loop {
        let found = REGISTRY.load(Ordering::Acquire);
        // SAFETY: the pointer is null, or from a box that was published below, whole, and that nobody frees afterwards.
        if let Some(registry) = unsafe { found.as_ref() }
            && registry.process == getpid()
        {
            return registry;
        }
        let new = handle(Registry { process: getpid(), engines: Mutex::default() });
        if REGISTRY.compare_exchange(found, new, Ordering::AcqRel, Ordering::Acquire).is_err() {
            // SAFETY: `new` is from a box of just now, and nobody else has seen it.
            drop(unsafe { Box::from_raw(new) });
        }
    }
}

/// Has every child that is forked from now on give up the locks of its parent's journals: otherwise a child that outlives
/// its parent keeps the journals from being resumed.
fn release_locks_in_children() {
    extern "C" fn in_child() {
        // An engine of the child tries again, and reports the error.
        let _ = tidegate::fork::release_inherited_locks();
    }
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // SAFETY: the function stays, because the library is never unloaded (`-z nodelete`), or is part of the program. It
        // allocates nothing and takes no lock, so it may run in the child of a process with threads.
        let _ = unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
    });
}

impl Running {
    fn start(options: &Options) -> Outcome<Self> {
        let system =
            |what: &str, error: std::io::Error| failure(TG_KIND_UNAVAILABLE, "", &format!("{what}: {error}"));
        tidegate::fork::release_inherited_locks()
            .map_err(|error| system("the locks of the parent process can't be given up", error))?;
        release_locks_in_children();
        let tide = options.engine()?.build()?;
        let mut builder = Builder::new_multi_thread();
        builder.worker_threads(2).thread_name("tidegate").enable_all().on_thread_start(|| {
            sigpipe::block();
            thread::belongs_to_engine();
        });
        let runtime = builder.build().map_err(|error| system("the system gives no threads", error))?;
        let ending = TaskTracker::new();
        // Only a closed tracker tells when it is empty. It takes tasks all the same.
        ending.close();
        Ok(Self { tide, runtime: runtime.handle().clone(), ending, _owned: OwnedRuntime(Some(runtime)) })
    }
}

/// The engine of this process with these options: the one that there is, or a new one.
fn shared(options: Options) -> Outcome<Shared> {
    let mut engines = registry().engines.lock().unwrap_or_else(PoisonError::into_inner);
    engines.retain(|(_, engine)| engine.strong_count() > 0);
    let found = engines.iter().find(|(of, _)| *of == options).and_then(|(_, engine)| engine.upgrade());
    if let Some(engine) = found {
        return Ok(engine);
    }
    let engine = Arc::new(OfProcess::new(Running::start(&options)?));
    engines.push((options, Arc::downgrade(&engine)));
    Ok(engine)
}

/// Gives an engine. Calls with equal options in one process give the same engine, and with it one memory budget. Starts
/// threads, and sends nothing.
#[unsafe(no_mangle)]
pub extern "C" fn tg_engine_new(
    options: Option<&tg_options>,
    engine: Option<&mut MaybeUninit<*mut tg_engine>>,
) -> Option<Box<tg_error>> {
    call(|| {
        let engine = needed(engine, "engine")?;
        engine.write(handle(tg_engine { shared: shared(given(options))? }));
        Ok(())
    })
}

/// Frees this handle. The engine goes on for stores, readers and writers that came from it. The last of all of them to
/// be freed waits until the sessions of discarded writers are aborted, for two seconds at most.
#[unsafe(no_mangle)]
pub extern "C" fn tg_engine_free(engine: Option<Box<tg_engine>>) {
    free(|| drop(engine));
}

/// Waits until the sessions of all writers that failed or were discarded so far are aborted, for so many milliseconds at
/// most: TG_KIND_TIMEOUT says that some are not. An error of another kind is that of a session that could not be
/// aborted, and says how many more could not: their parts stay at the store until a sweep. Blocks.
#[unsafe(no_mangle)]
pub extern "C" fn tg_engine_wait_for_aborts(
    engine: Option<&tg_engine>,
    timeout_ms: u64,
) -> Option<Box<tg_error>> {
    call(|| {
        let shared = &needed(engine, "engine")?.shared;
        let running = shared.get()?;
        let (tide, ending) = (running.tide.clone(), running.ending.clone());
        let wait = async move {
            let aborted = async {
                ending.wait().await;
                tide.settled().await
            };
            let ended = tokio::time::timeout(Duration::from_millis(timeout_ms), aborted).await;
            let failed = ended.map_err(|_| timed_out(tide.unsettled().len()))?;
            not_aborted(&failed)
        };
        Operation::new(shared, CancellationToken::new(), wait).wait()
    })
}

/// The first of these errors, which says how many more there are.
fn not_aborted(failed: &[tidegate::Error]) -> Outcome {
    let [first, others @ ..] = failed else { return Ok(()) };
    let mut failure = of(first);
    if !others.is_empty() {
        failure.add(&format!("; sessions that could not be aborted besides: {}", others.len()));
    }
    Err(failure)
}

fn timed_out(count: usize) -> Failure {
    failure(
        TG_KIND_TIMEOUT,
        "",
        &format!("the time is up; uploads that may still have a session at the store: {count}"),
    )
}

/// The memory budget in bytes: all of it, what is used now, and the most that was used at one moment. Each pointer may be
/// NULL.
#[unsafe(no_mangle)]
pub extern "C" fn tg_engine_memory(
    engine: Option<&tg_engine>,
    total: Option<&mut MaybeUninit<u64>>,
    held: Option<&mut MaybeUninit<u64>>,
    peak: Option<&mut MaybeUninit<u64>>,
) -> Option<Box<tg_error>> {
    call(|| {
        let usage = needed(engine, "engine")?.shared.get()?.tide.usage();
        for (figure, out) in [(usage.total, total), (usage.held, held), (usage.peak, peak)] {
            if let Some(out) = out {
                out.write(figure);
            }
        }
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::tg_error_message;

    #[tokio::test]
    async fn the_error_of_one_session_counts_the_others() {
        let store = Tidegate::builder().build().unwrap().open("memory://aborts").await.unwrap();
        let mut failed = Vec::new();
        assert!(not_aborted(&failed).is_ok());
        for (key, besides) in [("a", None), ("b", Some("besides: 1")), ("c", Some("besides: 2"))] {
            failed.push(store.head(key).await.unwrap_err());
            let failure = not_aborted(&failed).unwrap_err();
            // SAFETY: the message lives as long as the failure.
            let said =
                unsafe { std::ffi::CStr::from_ptr(tg_error_message(Some(&failure))) }.to_str().unwrap();
            assert!(said.contains("memory://aborts/a") && !said.contains("memory://aborts/b"), "{said}");
            assert_eq!(
                said.contains("besides"),
                besides.is_some_and(|besides| said.ends_with(besides)),
                "{said}"
            );
        }
    }
}
