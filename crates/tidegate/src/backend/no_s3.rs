//! Stands in for `s3.rs` in a build without the feature `s3`: the settings are empty, and no bucket can be opened.

use std::future::ready;
use std::sync::Arc;

use futures::future::BoxFuture;

use super::{Backend, Buckets, Fault, FaultKind, KnownFacts, Scheme};

/// Stands in for the settings of `s3.rs`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct S3Settings {}

/// Refuses to open `s3://`.
#[derive(Debug)]
pub(crate) struct S3Scheme {
    settings: S3Settings,
}

impl S3Scheme {
    pub(crate) fn new(settings: S3Settings) -> Self {
        Self { settings }
    }

    pub(crate) fn settings(&self) -> &S3Settings {
        &self.settings
    }
}

impl Scheme for S3Scheme {
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
    Fault::new(FaultKind::Unsupported, "this build of Tidegate has no s3: enable the feature `s3`")
}
