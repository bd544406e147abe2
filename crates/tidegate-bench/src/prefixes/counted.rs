//! A store that counts what it refuses.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use async_trait::async_trait;
use tidegate::backend::s3::S3;
use tidegate::backend::{Backend, Body, Fault, FaultKind, Layer, WriteOptions};
use tidegate::payload::Payload;
use tidegate::{Object, Store, Tidegate};

use crate::Result;
use crate::embedded::Embedded;

/// An S3 store, and how many requests it refused for there were too many.
#[derive(Debug)]
pub(super) struct Counted {
    store: S3,
    tide: Tidegate,
    refused: AtomicU64,
}

impl Counted {
    /// The root of this name on the server, reached by `tide`.
    pub(super) async fn open(server: &Embedded, root: &str, tide: &Tidegate) -> Result<(Arc<Self>, Store)> {
        let (store, refused) = (server.endpoint().connect().await?, AtomicU64::new(0));
        let counted = Arc::new(Self { store, tide: tide.clone(), refused });
        let root = tide.store(counted.clone()).within(root);
        Ok((counted, root))
    }

    pub(super) fn engine(&self) -> &Tidegate {
        &self.tide
    }

    pub(super) fn refused(&self) -> u64 {
        self.refused.load(Relaxed)
    }

    fn count<T>(&self, answer: Result<T, Fault>) -> Result<T, Fault> {
        if let Err(fault) = &answer
            && fault.kind == FaultKind::Throttled
        {
            self.refused.fetch_add(1, Relaxed);
        }
        answer
    }
}

#[async_trait]
impl Layer for Counted {
    fn below(&self) -> &dyn Backend {
        &self.store
    }

    async fn put(&self, key: &str, payload: Payload, options: &WriteOptions) -> Result<Object, Fault> {
        self.count(self.store.put(key, payload, options).await)
    }

    async fn get(&self, key: &str, range: Option<Range<u64>>, same: Option<&Object>) -> Result<Body, Fault> {
        self.count(self.store.get(key, range, same).await)
    }
}
