//! A store that measures the time of each part.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use async_trait::async_trait;
use tidegate::backend::s3::S3;
use tidegate::backend::{Attempt, Backend, Fault, Layer, PartSource, Parts, Receipt, Session};

/// An S3 store with a stopwatch.
#[derive(Debug)]
pub(super) struct Timed {
    store: S3,
    /// By number: when the part was first sent, and the seconds until its first good answer.
    parts: Mutex<BTreeMap<u32, (Instant, Option<f64>)>>,
}

impl Timed {
    pub(super) fn new(store: S3) -> Self {
        Self { store, parts: Mutex::default() }
    }

    /// The seconds of each part, by number.
    pub(super) fn parts(&self) -> Vec<f64> {
        let parts = self.parts.lock().unwrap_or_else(PoisonError::into_inner);
        parts.values().filter_map(|(_, took)| *took).collect()
    }
}

#[async_trait]
impl Layer for Timed {
    fn below(&self) -> &dyn Backend {
        &self.store
    }

    async fn part(
        &self,
        session: &Session,
        number: u32,
        offset: u64,
        source: PartSource<'_>,
        attempt: Attempt,
    ) -> Result<Receipt, Fault> {
        {
            let mut parts = self.parts.lock().unwrap_or_else(PoisonError::into_inner);
            parts.entry(number).or_insert_with(|| (Instant::now(), None));
        }
        let receipt = self.store.part(session, number, offset, source, attempt).await?;
        let mut parts = self.parts.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((sent, took)) = parts.get_mut(&number) {
            took.get_or_insert(sent.elapsed().as_secs_f64());
        }
        Ok(receipt)
    }
}
