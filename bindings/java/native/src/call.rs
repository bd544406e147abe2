//! One call of the library: a future that the engine carries out, and then tells Java. To cancel a call is to drop its
//! future.

use std::collections::HashMap;
use std::panic::AssertUnwindSafe;
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use futures::FutureExt;
use futures::future::BoxFuture;
use jni_sys::{JNIEnv, jclass};
use tokio_util::sync::CancellationToken;

use crate::border;
use crate::engine::Shared;
use crate::error::{Failure, Outcome};
use crate::jvm;

/// What a call gives: a number, and bytes.
#[derive(Default)]
pub(crate) struct Reply {
    pub(crate) value: i64,
    pub(crate) payload: Option<Bytes>,
}

impl Reply {
    pub(crate) fn number(value: i64) -> Self {
        Self { value, payload: None }
    }

    pub(crate) fn bytes(payload: impl Into<Bytes>) -> Self {
        Self { value: 0, payload: Some(payload.into()) }
    }
}

/// The calls that are under way, by the tokens that Java gave them.
static CALLS: LazyLock<Mutex<HashMap<i64, CancellationToken>>> = LazyLock::new(Mutex::default);

fn calls() -> MutexGuard<'static, HashMap<i64, CancellationToken>> {
    CALLS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Tells Java how a call has ended. Dropped without having told, it tells that the engine has ended.
struct Caller {
    token: i64,
    is_told: bool,
}

impl Caller {
    fn tell(&mut self, ended: Outcome<Reply>) {
        self.is_told = true;
        calls().remove(&self.token);
        jvm::on_this_thread(|env| match &ended {
            Ok(reply) => env.complete(self.token, true, reply.value, reply.payload.as_deref()),
            Err(failure) => env.complete(self.token, false, 0, Some(&failure.encoded())),
        });
    }
}

impl Drop for Caller {
    fn drop(&mut self) {
        if !self.is_told {
            self.tell(Err(Failure::closed("", "the engine has ended")));
        }
    }
}

/// Has the engine carry out `work`. Java learns of the end, once, when `work` was dropped. `cancel` ends it, and all other
/// calls of the same handle.
pub(crate) fn start(
    shared: &Shared,
    token: i64,
    cancel: &CancellationToken,
    work: impl Future<Output = Outcome<Reply>> + Send + 'static,
) {
    let cancel = cancel.child_token();
    calls().insert(token, cancel.clone());
    let mut caller = Caller { token, is_told: false };
    let (work, kept) = (work.boxed(), shared.clone());
    shared.runtime.spawn(async move {
        caller.tell(guarded(cancel, work).await);
        // The engine lasts until its calls have ended.
        drop(kept);
    });
}

/// The future of a call, which ends if it is cancelled or panics. When it ends, `work` is dropped.
async fn guarded(cancel: CancellationToken, work: BoxFuture<'static, Outcome<Reply>>) -> Outcome<Reply> {
    if cancel.is_cancelled() {
        return Err(Failure::cancelled());
    }
    let carried_out = async move {
        #[cfg(feature = "for_tests")]
        crate::tests_only::panic_at(crate::tests_only::Place::Task);
        tokio::select! {
            biased;
            ended = work => ended,
            () = cancel.cancelled() => Err(Failure::cancelled()),
        }
    };
    // Around the drop of `work` too.
    AssertUnwindSafe(carried_out).catch_unwind().await.unwrap_or_else(|panic| Err(Failure::panicked(&*panic)))
}

/// `Native.cancel`: ends a call, unless it has ended. Java is told all the same.
#[unsafe(no_mangle)]
pub unsafe extern "system" fn Java_io_tidegate_Native_cancel(env: *mut JNIEnv, _: jclass, token: i64) {
    // SAFETY: the JVM calls this.
    unsafe {
        border::call(env, |_| {
            let call = calls().get(&token).cloned();
            if let Some(call) = call {
                call.cancel();
            }
            Ok(())
        })
    }
}
