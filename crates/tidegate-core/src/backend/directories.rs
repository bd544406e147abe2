//! Directories that have names of their own, for stores that have such directories beside objects.

use std::fmt::Debug;

use async_trait::async_trait;

use super::{Attempt, Fault};

/// A store in which a name may be that of a directory, which is no object, and which a write of that key replaces.
#[async_trait]
pub trait Directories: Debug + Send + Sync {
    /// Asks the store whether it has a directory of the name `key`.
    async fn is_directory(&self, key: &str, attempt: Attempt) -> Result<bool, Fault>;
}
