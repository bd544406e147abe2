//! `memory://`: stores in memory, by name.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use futures::future::BoxFuture;

use super::Memory;
use crate::backend::{Backend, Buckets, Fault, FaultKind, KnownFacts, Scheme};

/// Opens stores in memory. All stores of one name share their objects.
#[derive(Debug, Default)]
pub struct MemoryScheme(Mutex<BTreeMap<String, Memory>>);

impl Scheme for MemoryScheme {
    fn open<'a>(
        &'a self,
        bucket: &'a str,
        _facts: &'a KnownFacts,
    ) -> BoxFuture<'a, Result<Arc<dyn Backend>, Fault>> {
        Box::pin(async move {
            let mut stores = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            let store = stores.entry(bucket.to_owned()).or_insert_with(|| Memory::new(bucket));
            Ok(Arc::new(store.clone()) as Arc<dyn Backend>)
        })
    }

    fn buckets<'a>(&'a self, _facts: &'a KnownFacts) -> BoxFuture<'a, Result<Arc<dyn Buckets>, Fault>> {
        let message = "a store in memory needs no bucket: it is there from the moment that it is opened";
        Box::pin(async move { Err(Fault::new(FaultKind::Unsupported, message)) })
    }
}
