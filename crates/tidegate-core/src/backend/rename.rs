//! Renames that the store makes itself.

use std::fmt::Debug;

use async_trait::async_trait;

use super::{Attempt, Fault};
use crate::types::object::Object;

/// Renames that a store makes itself, each in one step.
#[async_trait]
pub trait Rename: Debug + Send + Sync {
    /// Gives an object another key in one atomic step. With `create_only`, fails with
    /// [`FaultKind::Exists`](super::FaultKind::Exists) if `to` has an object.
    ///
    /// [`FaultKind::Unsupported`](super::FaultKind::Unsupported), with nothing changed, if the store has no such
    /// operation for this object.
    async fn rename(
        &self,
        from: &str,
        to: &str,
        create_only: bool,
        attempt: Attempt,
    ) -> Result<Object, Fault>;
}
