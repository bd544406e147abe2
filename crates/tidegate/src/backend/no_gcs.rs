//! Stands in for `gcs.rs` in a build without the feature `gcs`: the settings are empty, and no bucket can be opened.

use std::future::ready;
use std::sync::Arc;

use futures::future::BoxFuture;

use super::{Backend, Buckets, Fault, FaultKind, KnownFacts, Scheme};

/// Stands in for the settings of `gcs.rs`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct GcsSettings {}

/// Refuses to open `gs://`.
#[derive(Debug)]
pub(crate) struct GcsScheme {
    settings: GcsSettings,
}

impl GcsScheme {
    pub(crate) fn new(settings: GcsSettings) -> Self {
        Self { settings }
    }

    pub(crate) fn settings(&self) -> &GcsSettings {
        &self.settings
    }
}

impl Scheme for GcsScheme {
    fn open<'a>(
        &'a self,
        _bucket: &'a str,
        _facts: &'a KnownFacts,
    ) -> BoxFuture<'a, Result<Arc<dyn Backend>, Fault>> {
        Box::pin(ready(Err(missing())))
    }

    fn buckets<'a>(&'a self, _facts: &'a KnownFacts) -> BoxFuture<'a, Result<Arc<dyn Buckets>, Fault>> {
        Box::pin(ready(Err(missing())))
    }
}

fn missing() -> Fault {
    Fault::new(FaultKind::Unsupported, "this build of Tidegate has no gcs: enable the feature `gcs`")
}
