//! A backend that lets through a given number of requests, so that a migration can be stopped anywhere.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use async_trait::async_trait;
use tokio::sync::Semaphore;

use super::*;

#[derive(Clone, Debug)]
pub(super) struct Gate {
    turns: Arc<Semaphore>,
    waiting: Arc<AtomicUsize>,
}

impl Gate {
    pub(super) fn new() -> Self {
        Self { turns: Arc::new(Semaphore::new(0)), waiting: Arc::default() }
    }

    /// The store behind this gate.
    pub(super) fn before(&self, store: Memory) -> Arc<dyn Backend> {
        Scripted::new(store, self.clone())
    }

    /// Lets `requests` more requests through.
    pub(super) fn open(&self, requests: usize) {
        self.turns.add_permits(requests);
    }

    /// True if a request waits at the gate.
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

/// Writes, and copies that the store makes, always pass. A migration checks the older object just before it publishes
/// the copy, and can't notice changes between these two requests. (With a copy that the store makes it could: such
/// a copy is of exactly the object that was checked.)
#[async_trait]
impl Script for Gate {
    async fn answer(&self, call: Call<'_>, below: Below<'_>) -> Result<Answer, Fault> {
        if let Call::Head { .. } | Call::Get { .. } | Call::Delete { .. } = &call {
            self.pass().await;
        }
        below.send(call).await
    }

    fn list(
        &self,
        below: &Arc<dyn Backend>,
        prefix: &str,
        recursive: bool,
    ) -> crate::backend::Listing<crate::backend::Entry> {
        use futures::StreamExt;
        let (gate, below, prefix) = (self.clone(), below.clone(), prefix.to_owned());
        let listed = async move {
            gate.pass().await;
            below.list(&prefix, recursive)
        };
        futures::stream::once(listed).flatten().boxed().into()
    }
}
