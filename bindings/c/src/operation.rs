//! One call of the library: a future that a thread waits for, or that a task carries out and then tells the caller. To
//! cancel a call is to drop its future.

use std::any::Any;
use std::ffi::c_void;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use std::task::{Context, Poll, Waker};

use futures::FutureExt;
use tokio_util::sync::CancellationToken;

use crate::border::{free, handle, needed};
use crate::engine::Shared;
use crate::error::{
    Failure, Outcome, TG_KIND_CANCELLED, TG_KIND_CLOSED, failure, invalid, panicked, tg_error,
};
use crate::memory::Slot;
use crate::process::OfProcess;
use crate::thread::is_of_engine;

/// Tells that an asynchronous call has ended: with NULL, or with an error that it then owns. It runs exactly once, on a
/// thread of the engine, and may call every function that does not block; one that blocks fails there.
pub type tg_done = Option<unsafe extern "C" fn(user: *mut c_void, error: Option<Box<tg_error>>)>;

/// An asynchronous call that is under way. Its owner frees it, at any time.
#[derive(Debug)]
pub struct tg_op {
    cancel: OfProcess<CancellationToken>,
}

/// Cancels the call, unless it has ended. Its `done` still runs, soon, with TG_KIND_CANCELLED or with what the call came
/// to. A writer whose call was cancelled has failed. What the store was carrying out at that moment may still be done:
/// tg_head tells. Any thread.
#[unsafe(no_mangle)]
pub extern "C" fn tg_op_cancel(op: Option<&tg_op>) {
    free(|| {
        if let Some(cancel) = op.and_then(|op| op.cancel.own()) {
            cancel.cancel();
        }
    });
}

/// Frees the handle. The call goes on.
#[unsafe(no_mangle)]
pub extern "C" fn tg_op_free(op: Option<Box<tg_op>>) {
    free(|| drop(op));
}

/// Fails on a thread of an engine, whose calls must not wait for each other.
pub(crate) fn may_block() -> Outcome {
    if is_of_engine() {
        return Err(invalid("this call blocks, and this is a thread of an engine: use an asynchronous form"));
    }
    Ok(())
}

/// Fails if `done` is null.
pub(crate) fn check_done(done: tg_done) -> Outcome {
    needed(done, "done").map(|_| ())
}

/// The callback of an asynchronous call. Dropped without a result, it tells that the engine has ended.
pub(crate) struct Done {
    done: tg_done,
    user: *mut c_void,
}

// SAFETY: the pointer is the caller's own, and only handed back. The header says that `done` runs on another thread, so
// the caller makes `user` fit for that.
unsafe impl Send for Done {}

impl Done {
    /// # Errors
    /// If `done` is null.
    pub(crate) fn new(done: tg_done, user: *mut c_void) -> Outcome<Self> {
        check_done(done)?;
        Ok(Self { done, user })
    }

    fn tell(&mut self, error: Option<Failure>) {
        if let Some(done) = self.done.take() {
            // SAFETY: the header demands a function of this type, which takes `user` on any thread and does not unwind.
            unsafe { done(self.user, error) }
        }
    }
}

impl Drop for Done {
    fn drop(&mut self) {
        self.tell(Some(failure(TG_KIND_CLOSED, "", "the engine has ended")));
    }
}

type Work<T> = Pin<Box<dyn Future<Output = Outcome<T>> + Send>>;

/// A call that was not begun.
pub(crate) struct Operation<T> {
    shared: Shared,
    cancel: CancellationToken,
    work: Work<T>,
    /// The URL that an error of a cancel or a panic names; empty if the call is about no object and no store.
    url: Arc<str>,
    /// What the result points into.
    kept: Option<Arc<dyn Any + Send + Sync>>,
}

impl<T: Send + 'static> Operation<T> {
    /// `cancel` ends it, and all other calls of the same handle.
    pub(crate) fn new(
        shared: &Shared,
        cancel: CancellationToken,
        work: impl Future<Output = Outcome<T>> + Send + 'static,
    ) -> Self {
        Self { shared: shared.clone(), cancel, work: Box::pin(work), url: Arc::default(), kept: None }
    }

    /// The same for a call about the object or the store of this URL, which its error then names.
    pub(crate) fn about(self, url: Arc<str>) -> Self {
        Self { url, ..self }
    }

    /// Keeps what the result points into until the caller was told.
    pub(crate) fn keeping(self, kept: Arc<dyn Any + Send + Sync>) -> Self {
        Self { kept: Some(kept), ..self }
    }

    /// Waits for the end. When this returns, the future is dropped.
    pub(crate) fn wait(self) -> Outcome<T> {
        self.wait_after(false)
    }

    /// The same for a call that is most often ready at once: tries it on this thread first.
    pub(crate) fn wait_briefly(self) -> Outcome<T> {
        self.wait_after(true)
    }

    fn wait_after(self, try_first: bool) -> Outcome<T> {
        may_block()?;
        let running = self.shared.get()?;
        let mut work = Box::pin(guarded(self.cancel, self.work, self.url));
        if try_first {
            let _entered = running.runtime.enter();
            if let Poll::Ready(ended) = work.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
                return ended;
            }
        }
        let (sender, ended) = sync_channel(1);
        running.runtime.spawn(async move {
            // Fails never: this thread waits until the channel is used or closed.
            let _ = sender.send(work.await);
        });
        ended.recv().unwrap_or_else(|_| Err(failure(TG_KIND_CLOSED, "", "the engine has ended")))
    }

    /// Spawns a task for the call. At its end `deliver` gets the result, and then `done` runs.
    pub(crate) fn start(
        self,
        deliver: impl FnOnce(T) + Send + 'static,
        mut done: Done,
        op: Option<Slot<*mut tg_op>>,
    ) -> Outcome {
        let Self { shared, cancel, work, url, kept } = self;
        let runtime = shared.get().inspect_err(|_| done.done = None)?.runtime.clone();
        let cancel = cancel.child_token();
        if let Some(op) = op {
            op.write(handle(tg_op { cancel: OfProcess::new(cancel.clone()) }));
        }
        runtime.spawn(async move {
            let ended = guarded(cancel, work, url).await;
            done.tell(ended.map(deliver).err());
            // The engine lasts until its callbacks have returned, and so does what they were given.
            drop((kept, shared));
        });
        Ok(())
    }
}

/// The future of a call, which ends if it is cancelled or panics. When it ends, `work` is dropped.
async fn guarded<T>(cancel: CancellationToken, work: Work<T>, url: Arc<str>) -> Outcome<T> {
    let cancelled = || failure(TG_KIND_CANCELLED, &url, "the call was cancelled");
    if cancel.is_cancelled() {
        return Err(cancelled());
    }
    let carried_out = async move {
        #[cfg(feature = "panic_for_tests")]
        crate::panic_for_tests::at(crate::panic_for_tests::Place::Task);
        tokio::select! {
            biased;
            ended = work => ended,
            () = cancel.cancelled() => Err(cancelled()),
        }
    };
    // Around the drop of `work` too.
    AssertUnwindSafe(carried_out).catch_unwind().await.unwrap_or_else(|panic| Err(panicked(&url, &*panic)))
}
