//! The URL schemes that an engine knows.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::backend::gcs::{GcsScheme, GcsSettings};
use crate::backend::memory::MemoryScheme;
use crate::backend::s3::{S3Scheme, S3Settings};
use crate::backend::{Backend, Fault, FaultKind, KnownFacts, Scheme};

/// Schemes by name. `file://` is not among them: a local path has no bucket, and need not be text.
#[derive(Clone, Debug, Default)]
pub(super) struct Schemes(BTreeMap<String, Arc<dyn Scheme>>);

impl Schemes {
    /// The schemes that every engine knows: one line for each cloud.
    pub(super) fn built_in(s3: S3Settings, gcs: GcsSettings) -> Self {
        let mut schemes = Self::default();
        schemes.add("s3", Arc::new(S3Scheme::new(s3)));
        schemes.add("gs", Arc::new(GcsScheme::new(gcs)));
        schemes.add("memory", Arc::new(MemoryScheme::default()));
        schemes
    }

    /// Adds a scheme, or replaces the one of this name.
    pub(super) fn add(&mut self, name: &str, scheme: Arc<dyn Scheme>) {
        self.0.insert(name.to_ascii_lowercase(), scheme);
    }

    /// Adds the schemes of `others`, which replace those of the same names.
    pub(super) fn extend(&mut self, others: Self) {
        self.0.extend(others.0);
    }

    /// Opens a bucket; a fault names the known schemes if `scheme` is none.
    pub(super) async fn open(
        &self,
        scheme: &str,
        bucket: &str,
        facts: &KnownFacts,
    ) -> Result<Arc<dyn Backend>, Fault> {
        match self.0.get(&scheme.to_ascii_lowercase()) {
            Some(known) => known.open(bucket, facts).await,
            None => {
                let mut names: Vec<&str> = self.0.keys().map(String::as_str).chain(["file"]).collect();
                names.sort_unstable();
                let known: Vec<String> = names.into_iter().map(|name| format!("{name}://")).collect();
                let message = format!("unknown scheme `{scheme}`: the known ones are {}", known.join(", "));
                Err(Fault::new(FaultKind::Invalid, message))
            }
        }
    }
}
