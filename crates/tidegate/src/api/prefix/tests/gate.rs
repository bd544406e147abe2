//! A backend that lets through as many requests as it is told to: a migration is stopped anywhere.

use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use async_trait::async_trait;
use tokio::sync::Semaphore;

use super::*;
use crate::backend::Body;

#[derive(Clone, Debug)]
pub(super) struct Gate {
    below: Memory,
    turns: Arc<Semaphore>,
    waiting: Arc<AtomicUsize>,
}

impl Gate {
    pub(super) fn new(below: Memory) -> Self {
        Self { below, turns: Arc::new(Semaphore::new(0)), waiting: Arc::default() }
    }

    /// Lets through as many requests more.
    pub(super) fn open(&self, requests: usize) {
        self.turns.add_permits(requests);
    }

    /// Whether somebody stands before it.
    pub(super) fn is_closed(&self) -> bool {
        self.turns.available_permits() == 0 && self.waiting.load(Relaxed) > 0
    }

    async fn pass(&self) {
        self.waiting.fetch_add(1, Relaxed);
        let _here = scopeguard(&self.waiting);
        self.turns.acquire().await.unwrap().forget();
    }
}

fn scopeguard(waiting: &AtomicUsize) -> impl Drop {
    struct Here<'a>(&'a AtomicUsize);
    impl Drop for Here<'_> {
        fn drop(&mut self) {
            self.0.fetch_sub(1, Relaxed);
        }
    }
    Here(waiting)
}

/// Writes pass, and copies that the store makes: a migration looks at the older object just before it publishes the
/// copy, and what happens between these two is what it can't know of. (Of a copy that the store makes it could: that
/// is of the object that was looked at, and of no other.)
#[async_trait]
impl Layer for Gate {
    fn below(&self) -> &dyn Backend {
        &self.below
    }

    async fn head(&self, key: &str) -> Result<Object, Fault> {
        self.pass().await;
        self.below.head(key).await
    }

    async fn get(&self, key: &str, range: Option<Range<u64>>, same: Option<&Object>) -> Result<Body, Fault> {
        self.pass().await;
        self.below.get(key, range, same).await
    }

    async fn delete(&self, key: &str) -> Result<(), Fault> {
        self.pass().await;
        self.below.delete(key).await
    }

    fn list(&self, prefix: &str, recursive: bool) -> crate::backend::Listing<crate::backend::Entry> {
        use futures::StreamExt;
        let (gate, prefix) = (self.clone(), prefix.to_owned());
        let listed = async move {
            gate.pass().await;
            gate.below.list(&prefix, recursive)
        };
        futures::stream::once(listed).flatten().boxed().into()
    }
}
