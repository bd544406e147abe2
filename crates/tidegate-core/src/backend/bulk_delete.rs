//! Removals of many objects in one request.

use std::fmt::Debug;

use async_trait::async_trait;

use super::{Attempt, Fault};

/// Removals of many objects in one request.
#[async_trait]
pub trait BulkDelete: Debug + Send + Sync {
    /// The most keys of one request.
    fn max_keys(&self) -> usize;

    /// Whether a bulk removal can name `key`. The object of any other key is removed by
    /// [`Backend::delete`](super::Backend::delete).
    fn takes(&self, key: &str) -> bool {
        let _ = key;
        true
    }

    /// Removes the objects of at most [`max_keys`](Self::max_keys) keys in one request. Returns the outcome of each
    /// key, in the order of `keys`. A key without an object counts as removed; [`FaultKind::NotAStore`] for a key that
    /// the answer does not mention.
    ///
    /// [`FaultKind::Unsupported`] for the whole request if the server has no such request. A backend remembers this,
    /// and [`Backend::bulk_delete`](super::Backend::bulk_delete) is `None` from then on.
    ///
    /// [`FaultKind::NotAStore`]: super::FaultKind::NotAStore
    /// [`FaultKind::Unsupported`]: super::FaultKind::Unsupported
    async fn delete_many(&self, keys: &[String], attempt: Attempt) -> Result<Vec<Result<(), Fault>>, Fault>;
}
