//! Credentials that the caller's own code provides, whatever a store calls them.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use futures::FutureExt;
use futures::future::BoxFuture;
use tokio::time::{Instant, timeout};

use tidegate_core::backend::{Fault, FaultKind};

/// Time limit of a provider. It is less than the shortest deadline of a request, so that a provider that hangs shows as
/// missing credentials, and not as a store that does not answer.
const PATIENCE: Duration = Duration::from_secs(8);
/// Credentials are renewed this long before they expire.
const EARLY: Duration = Duration::from_secs(5 * 60);
/// How long nothing is asked early after a failure, while the present credentials are still good.
const PAUSE: Duration = Duration::from_secs(10);

/// The error of a caller's provider; its message is shown to users.
pub type ProviderError = Box<dyn std::error::Error + Send + Sync>;

type Provide<T> = dyn Fn() -> BoxFuture<'static, Result<T, ProviderError>> + Send + Sync;

/// The caller's provider of credentials `T`. Equal to its clones only.
pub struct Provider<T>(Arc<Provide<T>>);

impl<T> Provider<T> {
    /// A provider that calls `provide` for each new credential.
    pub fn new<F>(provide: impl Fn() -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Result<T, ProviderError>> + Send + 'static,
    {
        Self(Arc::new(move || provide().boxed()))
    }

    /// Asks the caller's code, for eight seconds at most. Its panic is an error, so that a request without credentials
    /// counts as not sent.
    pub async fn ask(&self) -> Result<T, ProviderError> {
        let asked = AssertUnwindSafe(async { (self.0)().await }).catch_unwind();
        match timeout(PATIENCE, asked).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(panic)) => {
                let texts = (panic.downcast_ref::<&str>().copied(), panic.downcast_ref::<String>());
                let said = texts.0.or(texts.1.map(String::as_str)).unwrap_or("it said nothing");
                Err(format!("the provider panicked: {said}").into())
            }
            Err(_late) => Err(format!("no answer within {} s", PATIENCE.as_secs()).into()),
        }
    }

    fn address(&self) -> *const () {
        Arc::as_ptr(&self.0).cast()
    }
}

impl<T> Clone for Provider<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T> PartialEq for Provider<T> {
    fn eq(&self, other: &Self) -> bool {
        self.address() == other.address()
    }
}

impl<T> Eq for Provider<T> {}

impl<T> Hash for Provider<T> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.address().hash(state);
    }
}

impl<T> fmt::Debug for Provider<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Provider")
    }
}

/// When credentials that came at `now` are to be renewed: five minutes before they expire, or in the last quarter of a
/// short life.
pub fn renewal(now: SystemTime, expires: SystemTime) -> SystemTime {
    let left = expires.duration_since(now).unwrap_or_default();
    now + left.saturating_sub(EARLY).max(left / 4 * 3)
}

/// Lets one request at a time ask for credentials. Requests that waited meanwhile share its failure, so a provider that
/// is down is asked once for all of them.
#[derive(Debug, Default)]
pub struct RenewalTurn(tokio::sync::Mutex<Option<FailedRenewal>>);

#[derive(Debug)]
struct FailedRenewal {
    at: Instant,
    kind: FaultKind,
    message: String,
}

impl RenewalTurn {
    /// Waits for the turn, then asks, unless another request has got or failed to get credentials meanwhile.
    pub async fn ask<T>(
        &self,
        current: impl FnOnce() -> Option<T>,
        asking: impl Future<Output = Result<T, Fault>>,
    ) -> Result<T, Fault> {
        let queued = Instant::now();
        let mut failed = self.0.lock().await;
        if let Some(current) = current() {
            return Ok(current);
        }
        if let Some(failed) = failed.as_ref().filter(|failed| failed.at >= queued) {
            return Err(Fault::new(failed.kind, failed.message.clone()));
        }
        let asked = asking.await;
        *failed = asked.as_ref().err().map(FailedRenewal::of);
        asked
    }

    /// Asks while the present credentials are still good. `None` if another request asks, or asking failed a moment
    /// ago.
    pub async fn ask_early<T>(
        &self,
        asking: impl Future<Output = Result<T, Fault>>,
    ) -> Option<Result<T, Fault>> {
        let mut failed = self.0.try_lock().ok()?;
        if failed.as_ref().is_some_and(|failed| failed.at.elapsed() < PAUSE) {
            return None;
        }
        let asked = asking.await;
        *failed = asked.as_ref().err().map(FailedRenewal::of);
        Some(asked)
    }

    /// Waits until no request asks, and keeps others from asking until the guard is dropped.
    pub async fn wait(&self) -> impl Drop + '_ {
        self.0.lock().await
    }
}

impl FailedRenewal {
    fn of(fault: &Fault) -> Self {
        Self { at: Instant::now(), kind: fault.kind, message: fault.message.clone() }
    }
}
