//! URL schemes: what opens the buckets that `scheme://bucket/key` names.

use std::fmt::Debug;
use std::sync::Arc;

use futures::future::BoxFuture;

use super::{Backend, Buckets, Fault, FaultKind, KnownFacts};

/// Opens the buckets of one URL scheme, for `TidegateBuilder::scheme`.
///
/// ```
/// use std::sync::Arc;
///
/// use futures::future::BoxFuture;
/// use tidegate::backend::memory::Memory;
/// use tidegate::backend::{Backend, Fault, KnownFacts, Scheme};
///
/// /// Buckets that are empty whenever they are opened.
/// #[derive(Debug)]
/// struct Scratch;
///
/// impl Scheme for Scratch {
///     fn open<'a>(
///         &'a self,
///         bucket: &'a str,
///         _facts: &'a KnownFacts,
///     ) -> BoxFuture<'a, Result<Arc<dyn Backend>, Fault>> {
///         Box::pin(async move { Ok(Arc::new(Memory::new(bucket)) as Arc<dyn Backend>) })
///     }
/// }
///
/// # tokio::runtime::Runtime::new()?.block_on(async {
/// let tide = tidegate::Tidegate::builder().scheme("scratch", Scratch).build()?;
/// tide.open("scratch://bucket/prefix").await?;
/// # Ok::<(), tidegate::Error>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait Scheme: Debug + Send + Sync + 'static {
    /// Opens a bucket. Sends nothing to it. `facts` are those that the engine has of the endpoints it reaches.
    fn open<'a>(
        &'a self,
        bucket: &'a str,
        facts: &'a KnownFacts,
    ) -> BoxFuture<'a, Result<Arc<dyn Backend>, Fault>>;

    /// The buckets that exist, for listing, creating and removing them; [`FaultKind::Unsupported`] if the scheme has
    /// no such. Sends nothing.
    fn buckets<'a>(&'a self, facts: &'a KnownFacts) -> BoxFuture<'a, Result<Arc<dyn Buckets>, Fault>> {
        let _ = facts;
        let message = "stores of this scheme have no buckets to list, create or remove";
        Box::pin(async move { Err(Fault::new(FaultKind::Unsupported, message)) })
    }
}
