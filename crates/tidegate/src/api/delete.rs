//! Removals of many objects at a time.

use std::fmt;
use std::future::IntoFuture;
use std::pin::Pin;
use std::task::{self, Poll};

use futures::future::BoxFuture;
use futures::stream::BoxStream;
use futures::{Stream, StreamExt};
use tokio::task::{JoinError, JoinSet};

use super::Store;
use crate::types::error::{Error, ErrorKind, Operation, Result};

/// Most removals of one [`DeleteStream`] that are in flight or wait for the endpoint's limiter.
const IN_FLIGHT: usize = 64;

/// Removes the objects of many keys.
///
/// Awaited, it removes all of them and says which failed ([`DeleteReport`]). As a [`Stream`] it gives each key with its
/// outcome, in the order in which the removals end; it takes keys only as it is polled, so there may be any number of
/// them. One failure does not stop the others.
///
/// Dropping it stops: the objects of removals in flight may or may not be there.
///
/// ```
/// # tokio::runtime::Runtime::new()?.block_on(async {
/// let store = tidegate::Tidegate::builder().build()?.open("memory://demo").await?;
/// store.put("a", "1").await?;
/// let report = store.delete_many(["a", "b"]).await;
/// assert_eq!(report.into_result()?, 2);
/// # Ok::<(), tidegate::Error>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "nothing is removed before it is awaited or polled"]
pub struct DeleteStream {
    store: Store,
    keys: futures::stream::Fuse<BoxStream<'static, Result<String>>>,
    /// Removals run in tasks: a future that is not polled would hold a limiter permit that others wait for.
    removals: JoinSet<Deletion>,
}

/// A key whose object was to be removed, and whether it was.
#[derive(Debug)]
#[non_exhaustive]
pub struct Deletion {
    /// The key; `None` where the stream of keys failed ([`Store::delete_stream`]), or the runtime of a removal was shut
    /// down.
    pub key: Option<String>,
    /// Why the object was not removed, or may not have been.
    pub result: Result<()>,
}

/// What became of the keys of a [`DeleteStream`].
#[derive(Debug, Default)]
#[must_use = "objects may not have been removed: look at `failed`, or use `into_result`"]
#[non_exhaustive]
pub struct DeleteReport {
    /// How many keys have no object any more.
    pub deleted: u64,
    /// The other keys, each with the reason; the key is `None` as in [`Deletion::key`].
    pub failed: Vec<(Option<String>, Error)>,
}

impl DeleteReport {
    /// How many keys were removed, if all were; otherwise the first error, which then says how many failed.
    pub fn into_result(self) -> Result<u64> {
        let others = self.failed.len().saturating_sub(1);
        match self.failed.into_iter().next() {
            None => Ok(self.deleted),
            Some((_, error)) if others == 0 => Err(error),
            Some((_, error)) => Err(error.and(&format!("{others} more of the keys were not removed"))),
        }
    }
}

impl DeleteStream {
    pub(super) fn new(store: Store, keys: BoxStream<'static, Result<String>>) -> Self {
        Self { store, keys: keys.fuse(), removals: JoinSet::new() }
    }

    fn cut_off(&self, ended: JoinError) -> Error {
        let message = "the runtime was shut down during a removal: its object may or may not be there";
        Error::new(ErrorKind::Closed, Operation::Delete, self.store.location(), message).with_source(ended)
    }

    fn begin(&mut self, key: String) {
        let store = self.store.clone();
        self.removals.spawn(async move {
            let result = store.delete(&key).await;
            Deletion { key: Some(key), result }
        });
    }
}

impl fmt::Debug for DeleteStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DeleteStream").field("in_flight", &self.removals.len()).finish_non_exhaustive()
    }
}

impl Stream for DeleteStream {
    type Item = Deletion;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut task::Context<'_>) -> Poll<Option<Deletion>> {
        while self.removals.len() < IN_FLIGHT
            && let Poll::Ready(Some(key)) = self.keys.poll_next_unpin(cx)
        {
            match key {
                Ok(key) => self.begin(key),
                Err(error) => return Poll::Ready(Some(Deletion { key: None, result: Err(error) })),
            }
        }
        match self.removals.poll_join_next(cx) {
            Poll::Ready(None) if !self.keys.is_done() => Poll::Pending,
            Poll::Ready(None) => Poll::Ready(None),
            Poll::Ready(Some(Ok(deletion))) => Poll::Ready(Some(deletion)),
            Poll::Ready(Some(Err(ended))) => match ended.try_into_panic() {
                Ok(panic) => std::panic::resume_unwind(panic),
                Err(ended) => Poll::Ready(Some(Deletion { key: None, result: Err(self.cut_off(ended)) })),
            },
            Poll::Pending => Poll::Pending,
        }
    }
}

impl IntoFuture for DeleteStream {
    type Output = DeleteReport;
    type IntoFuture = BoxFuture<'static, DeleteReport>;

    fn into_future(mut self) -> Self::IntoFuture {
        Box::pin(async move {
            let mut report = DeleteReport::default();
            while let Some(Deletion { key, result }) = self.next().await {
                match result {
                    Ok(()) => report.deleted += 1,
                    Err(error) => report.failed.push((key, error)),
                }
            }
            report
        })
    }
}
