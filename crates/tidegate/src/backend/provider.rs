//! Credentials that the caller's own code provides, whatever a store calls them.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use futures::FutureExt;
use futures::future::BoxFuture;

/// The error of a caller's provider; its message is shown to users.
pub(super) type ProviderError = Box<dyn std::error::Error + Send + Sync>;

type Provide<T> = dyn Fn() -> BoxFuture<'static, Result<T, ProviderError>> + Send + Sync;

/// The caller's provider of credentials `T`. Equal to its clones only.
pub(super) struct Provider<T>(Arc<Provide<T>>);

impl<T> Provider<T> {
    pub(super) fn new<F>(provide: impl Fn() -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Result<T, ProviderError>> + Send + 'static,
    {
        Self(Arc::new(move || provide().boxed()))
    }

    /// Asks the caller's code.
    pub(super) fn ask(&self) -> BoxFuture<'static, Result<T, ProviderError>> {
        (self.0)()
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
