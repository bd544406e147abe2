//! The store that the example works on.

use std::sync::Arc;

use tidegate::{Store, Tidegate};

use crate::Result;
use crate::embedded::Embedded;

/// Where tables are.
#[derive(Debug)]
pub struct Place {
    /// What every location in it begins with.
    root: String,
    /// Whose it is; a real store is reached as the environment says.
    server: Option<Embedded>,
}

impl Place {
    /// The embedded server.
    #[must_use]
    pub fn embedded(server: Embedded) -> Self {
        Self { root: format!("s3://{}", server.endpoint().bucket), server: Some(server) }
    }

    /// In the real store below `url`, where nothing else is.
    #[must_use]
    pub fn within(url: &str) -> Self {
        let root = format!("{}/tidegate-bench-{:016x}", url.trim_end_matches('/'), fastrand::u64(..));
        Self { root, server: None }
    }

    /// Whether what is left there stays.
    pub(super) fn is_real(&self) -> bool {
        self.server.is_none()
    }

    /// The address of what is below `prefix`.
    #[must_use]
    pub fn location(&self, prefix: &str) -> String {
        format!("{}/{prefix}", self.root)
    }

    /// The variables that a program needs to reach it, beside ours where it is a real store.
    pub(super) fn variables(&self) -> Vec<(&'static str, String)> {
        self.server.as_ref().map_or_else(Vec::new, |server| server.endpoint().variables())
    }

    /// All of it, as the library reaches it.
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
        let (one, other) = (Place::within("s3://bucket/prefix/"), Place::within("s3://bucket/prefix"));
        let [one, other] = [one, other].map(|place| place.location("in/"));
        assert_ne!(one, other);
        for location in [one, other] {
            let rest = location.strip_prefix("s3://bucket/prefix/tidegate-bench-").unwrap();
            assert!(rest.ends_with("/in/") && rest.matches('/').count() == 2, "{location}");
        }
    }
}
