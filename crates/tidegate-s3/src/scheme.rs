//! `s3://`: buckets of one endpoint, which share a client.

use std::sync::Arc;

use futures::future::BoxFuture;
use tokio::sync::OnceCell;

use super::{S3Client, S3Settings};
use tidegate_core::backend::{Backend, Buckets, Fault, KnownFacts, Scheme};

/// Opens buckets of an S3 store. The client is made when the first bucket is opened.
#[derive(Debug)]
pub struct S3Scheme {
    settings: S3Settings,
    client: OnceCell<S3Client>,
}

impl S3Scheme {
    /// Buckets of the store that `settings` reach.
    pub fn new(settings: S3Settings) -> Self {
        Self { settings, client: OnceCell::new() }
    }

    /// The settings that the store is reached by.
    pub fn settings(&self) -> &S3Settings {
        &self.settings
    }
}

impl Scheme for S3Scheme {
    fn open<'a>(
        &'a self,
        bucket: &'a str,
        facts: &'a KnownFacts,
    ) -> BoxFuture<'a, Result<Arc<dyn Backend>, Fault>> {
        Box::pin(async move {
            let connect = || S3Client::connect_with(&self.settings, facts);
            let bucket = self.client.get_or_try_init(connect).await?.bucket(bucket)?;
            Ok(Arc::new(bucket) as Arc<dyn Backend>)
        })
    }

    fn buckets<'a>(&'a self, facts: &'a KnownFacts) -> BoxFuture<'a, Result<Arc<dyn Buckets>, Fault>> {
        Box::pin(async move {
            let connect = || S3Client::connect_with(&self.settings, facts);
            Ok(Arc::new(self.client.get_or_try_init(connect).await?.buckets()) as Arc<dyn Buckets>)
        })
    }
}
