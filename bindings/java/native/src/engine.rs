//! Engines. A JVM has one for each set of options.

use std::io;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use jni_sys::{JNIEnv, jbyteArray, jclass};
use tidegate::options::Options;
use tidegate::{ErrorKind, Tidegate};
use tokio::runtime::{Builder, Handle as Runtimes, Runtime};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::border::{self, Array};
use crate::call::{Reply, start};
use crate::error::{Failure, Outcome};
use crate::handle::Handle;
use crate::jvm;
use crate::wire;

/// The engine and the runtime of its calls, shared by all that came from it.
pub(crate) struct Running {
    pub(crate) tide: Tidegate,
    pub(crate) runtime: Runtimes,
    /// Writers that were discarded during a call, and that the call has not dropped yet.
    pub(crate) ending: TaskTracker,
    _owned: OwnedRuntime,
}

/// A runtime that ends without waiting for its tasks.
struct OwnedRuntime(Option<Runtime>);

impl Drop for OwnedRuntime {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

pub(crate) type Shared = Arc<Running>;

static ENGINES: Mutex<Vec<(Options, Weak<Running>)>> = Mutex::new(Vec::new());

impl Running {
    fn start(options: &Options) -> Outcome<Self> {
        let system = |what: &str, error: io::Error| {
            Failure::of(ErrorKind::Unavailable, "", &format!("{what}: {error}"))
        };
        tidegate::fork::release_inherited_locks()
            .map_err(|error| system("the locks of the parent process can't be given up", error))?;
        let tide = options.engine()?.build()?;
        let mut builder = Builder::new_multi_thread();
        builder.worker_threads(2).thread_name("tidegate").enable_all();
        builder.on_thread_stop(jvm::detach);
        let runtime = builder.build().map_err(|error| system("the system gives no threads", error))?;
        let ending = TaskTracker::new();
        // Only a closed tracker tells when it is empty. It takes tasks all the same.
        ending.close();
        Ok(Self { tide, runtime: runtime.handle().clone(), ending, _owned: OwnedRuntime(Some(runtime)) })
    }
}

/// The engine with these options: the one that there is, or a new one.
fn shared(options: Options) -> Outcome<Shared> {
    let mut engines = ENGINES.lock().unwrap_or_else(PoisonError::into_inner);
    engines.retain(|(_, engine)| engine.strong_count() > 0);
    let found = engines.iter().find(|(of, _)| *of == options).and_then(|(_, engine)| engine.upgrade());
    if let Some(engine) = found {
        return Ok(engine);
    }
    let engine = Arc::new(Running::start(&options)?);
    engines.push((options, Arc::downgrade(&engine)));
    Ok(engine)
}

/// `Native.engine`: the engine with these options.
#[unsafe(no_mangle)]
pub unsafe extern "system" fn Java_io_tidegate_Native_engine(
    env: *mut JNIEnv,
    _: jclass,
    options: jbyteArray,
) -> i64 {
    // SAFETY: the JVM calls this, with a reference to a byte array.
    unsafe {
        border::call(env, |env| {
            let options = border::options(env, options)?;
            Ok(Handle::Engine(shared(options)?).into_java())
        })
    }
}

/// `Native.usage`: the figures of `Usage`, in its order.
#[unsafe(no_mangle)]
pub unsafe extern "system" fn Java_io_tidegate_Native_usage(
    env: *mut JNIEnv,
    _: jclass,
    engine: i64,
) -> Array {
    // SAFETY: the JVM calls this, with a handle whose Java object is reachable.
    unsafe {
        border::call(env, |env| {
            let usage = Handle::engine(engine)?.tide.usage();
            let figures =
                [usage.total, usage.held, usage.half_filled, usage.peak, usage.waiting as u64, usage.spooled];
            let figures = wire::encoded(|to| figures.into_iter().for_each(|figure| to.count(figure)));
            Ok(Array::new(env, &figures))
        })
    }
}

/// `Native.waitForAborts`: fails if sessions are not known to be aborted after so many milliseconds.
#[unsafe(no_mangle)]
pub unsafe extern "system" fn Java_io_tidegate_Native_waitForAborts(
    env: *mut JNIEnv,
    _: jclass,
    engine: i64,
    token: i64,
    limit: i64,
) {
    // SAFETY: the JVM calls this, with a handle whose Java object is reachable.
    unsafe {
        border::call(env, |_| {
            let shared = Handle::engine(engine)?;
            let (tide, ending) = (shared.tide.clone(), shared.ending.clone());
            let limit = Duration::from_millis(u64::try_from(limit).unwrap_or(0));
            start(shared, token, &CancellationToken::new(), async move {
                let aborted = async {
                    ending.wait().await;
                    tide.settled().await
                };
                let failed = tokio::time::timeout(limit, aborted).await.map_err(|_| {
                    let count = tide.unsettled().len();
                    let message = format!(
                        "the time is up; uploads that may still have a session at the store: {count}"
                    );
                    Failure::of(ErrorKind::Timeout, "", &message)
                })?;
                failed.into_iter().next().map_or(Ok(Reply::default()), |error| Err(error.into()))
            });
            Ok(())
        })
    }
}
