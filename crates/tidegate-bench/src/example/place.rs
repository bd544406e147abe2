//! The store in which the example keeps its tables.

use std::sync::Arc;

use tidegate::{Store, Tidegate};

use crate::Result;
use crate::embedded::Embedded;

/// The place of the tables.
#[derive(Debug)]
pub struct ExampleStore {
    /// The prefix of every location.
    root: String,
    /// The embedded server; `None` for a real store, which the environment describes.
    server: Option<Embedded>,
}

impl ExampleStore {
    /// A place in the embedded server.
    #[must_use]
    pub fn embedded(server: Embedded) -> Self {
        Self { root: format!("s3://{}", server.endpoint().bucket), server: Some(server) }
    }

    /// An unused place in the real store, below `url`.
    #[must_use]
    pub fn within(url: &str) -> Self {
        let root = format!("{}/tidegate-bench-{:016x}", url.trim_end_matches('/'), fastrand::u64(..));
        Self { root, server: None }
    }

    /// Whether objects stay in the store when this process ends.
    pub(super) fn is_real(&self) -> bool {
        self.server.is_none()
    }

    /// The address of `prefix` in this place.
    #[must_use]
    pub fn location(&self, prefix: &str) -> String {
        format!("{}/{prefix}", self.root)
    }

    /// The variables that a program needs to reach the store; for a real store it inherits our environment
    /// instead.
    pub(super) fn variables(&self) -> Vec<(&'static str, String)> {
        self.server.as_ref().map_or_else(Vec::new, |server| server.endpoint().variables())
    }

    /// Opens the whole place with the library.
    pub(super) async fn open(&self, tide: &Tidegate) -> Result<Store> {
        Ok(match &self.server {
            Some(server) => tide.store(Arc::new(server.endpoint().connect().await?)),
            None => tide.open(&self.root).await?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_in_a_real_store_are_new_each_time() {
        let (one, other) =
            (ExampleStore::within("s3://bucket/prefix/"), ExampleStore::within("s3://bucket/prefix"));
        let [one, other] = [one, other].map(|place| place.location("in/"));
        assert_ne!(one, other);
        for location in [one, other] {
            let rest = location.strip_prefix("s3://bucket/prefix/tidegate-bench-").unwrap();
            assert!(rest.ends_with("/in/") && rest.matches('/').count() == 2, "{location}");
        }
    }
}
