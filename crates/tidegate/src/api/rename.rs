//! Renames: one step on a local disk, a copy and a removal elsewhere.

use std::future::IntoFuture;

use futures::future::BoxFuture;

use super::Store;
use crate::backend::{FaultKind, WriteOptions};
use crate::types::error::{Error, ErrorKind, Operation, Result};
use crate::types::object::Object;
use crate::upload::CopyBuilder;

/// Sets up a rename of an object within a store. Awaiting the builder makes the rename.
///
/// On a local disk it is one step: at every moment the object has one of the two keys. The file keeps its mode and its
/// owner, whatever file it replaces. Links, and files of another file system below the root, are copied as below.
///
/// Object stores have no rename. There the store copies the object (see [`Store::copy`]; the bytes do not pass through
/// this machine), and then the source is removed, if it is still the object that was copied. This is not atomic: in
/// between, readers see the object at both keys. Once the target is complete it stays, whatever happens to the source.
/// The source is looked at before each attempt to remove it, and the removal has the store's own condition. A source
/// written between that look and the removal is removed where the store has no conditional removal: in a local
/// directory, and on S3-compatible servers that do not heed `If-Match` of a DELETE (S3 itself does).
///
/// If both keys are one place, also by a link, nothing changes: the result is the object's description.
///
/// After the future is dropped, the object may have either key, or both.
///
/// # Errors
/// [`ErrorKind::Replaced`] if the source key got another object meanwhile: that one stays, and the target has the
/// object that was copied. [`ErrorKind::Unsupported`] if the store makes no copies. [`ErrorKind::InvalidInput`] if the
/// server has one object for both keys because it drops empty names in keys (`a//b`); such keys are asked about as by
/// [`Store::kept_elsewhere`].
///
/// ```
/// # tokio::runtime::Runtime::new()?.block_on(async {
/// let store = tidegate::Tidegate::builder().build()?.open("memory://demo").await?;
/// store.put("draft", "text").await?;
/// let object = store.rename("draft", "final").create_only().await?;
/// assert_eq!((object.key.as_str(), store.exists("draft").await?), ("final", false));
/// # Ok::<(), tidegate::Error>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
#[must_use = "nothing is renamed before the builder is awaited"]
pub struct RenameBuilder {
    store: Store,
    from: String,
    to: String,
    create_only: bool,
}

impl RenameBuilder {
    pub(super) fn new(store: Store, from: String, to: String) -> Self {
        Self { store, from, to, create_only: false }
    }

    /// Fail with [`ErrorKind::AlreadyExists`] where the target has an object, by the store's own condition; also where
    /// that is the source itself.
    pub fn create_only(mut self) -> Self {
        self.create_only = true;
        self
    }

    async fn run(self) -> Result<Object> {
        let context = self.store.context();
        let (from, to) = (context.full_key(&self.from), context.full_key(&self.to));
        context.check(Operation::Rename, &self.from, None)?;
        context.check(Operation::Rename, &self.to, Some(&WriteOptions::default()))?;
        if context.is_one_place(&self.from, context, &self.to).await {
            let object = context.head(&self.to).await?;
            return match self.create_only {
                true => Err(self.error(ErrorKind::AlreadyExists, "the target is the source itself")),
                false => Ok(object),
            };
        }
        if self.store.keeps_as_one(&self.from, &self.store, &self.to).await? {
            let message = "the store keeps the source and the target as one object: it drops empty names in keys: choose a key without";
            return Err(self.error(ErrorKind::InvalidInput, message));
        }
        let Some(renames) = context.backend().renames() else { return Box::pin(self.by_copy()).await };
        let requests = context.requests(&self.from, context.engine().progress.clone());
        let rename = |attempt| renames.rename(&from, &to, self.create_only, attempt);
        match requests.send(Operation::Rename, None, None, rename).await {
            Ok(object) => Ok(context.relative(object)),
            Err(failure) if failure.fault.kind == FaultKind::Unsupported => Box::pin(self.by_copy()).await,
            Err(failure) => Err(failure.into_error(Operation::Rename, &requests.object)),
        }
    }

    /// Copies the object, then removes the source if it is still that object.
    async fn by_copy(self) -> Result<Object> {
        let (store, context) = (&self.store, self.store.context().clone());
        let source = store.head(&self.from).await?;
        let copy = CopyBuilder::new(context.clone(), self.from.clone(), context, self.to.clone());
        let copy = if self.create_only { copy.create_only() } else { copy };
        let object = copy.described(source.clone()).run().await?;
        match store.delete_if_unchanged(&self.from, &source).await {
            Ok(()) => Ok(object),
            Err(error) if error.kind() == ErrorKind::Replaced => {
                let target = store.context().url(&self.to);
                let message = format!(
                    "the object was copied to {target}, and meanwhile the source got another object, which stays"
                );
                Err(self.error(ErrorKind::Replaced, message))
            }
            Err(error) => Err(error.and("the object may have both keys now")),
        }
    }

    fn error(&self, kind: ErrorKind, message: impl Into<String>) -> Error {
        Error::new(kind, Operation::Rename, self.store.context().url(&self.from), message)
    }
}

impl IntoFuture for RenameBuilder {
    type Output = Result<Object>;
    type IntoFuture = BoxFuture<'static, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.run())
    }
}
