//! Removals of many objects at a time.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::future::IntoFuture;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{self, Poll};

use futures::future::BoxFuture;
use futures::stream::BoxStream;
use futures::{Stream, StreamExt};
use tokio::task::{Id, JoinError, JoinSet};

use super::Store;
use crate::backend::BulkDelete;
use crate::types::error::{Error, ErrorKind, Operation, Result};

mod bulk;

/// Most removals of single keys of one [`DeleteStream`] that are in flight or wait for the endpoint's limiter.
const IN_FLIGHT: usize = 64;
/// Most requests for many keys of one [`DeleteStream`] that are in flight or wait for the endpoint's limiter.
const BATCHES: usize = 4;

/// Removes the objects of many keys.
///
/// Where the store can remove many objects in one request, as S3 can, keys are sent in batches of up to 1,000. A batch
/// goes out when it is full, when there are no more keys, or when no further key is ready and at most one removal is in
/// flight.
/// One key alone is a request of its own, and so is each key where the server has no such requests.
///
/// Awaited, it removes all of them and says which failed ([`DeleteReport`]). As a [`Stream`] it gives each key with its
/// outcome, in the order in which the removals end; it takes keys only as it is polled, so there may be any number of
/// them: it holds about 6,000 at most. One failure does not stop the others.
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
    /// The keys of the next request for many.
    batch: Vec<String>,
    /// Removals run in tasks: a future that is not polled would hold a limiter permit that others wait for.
    removals: JoinSet<Vec<Deletion>>,
    /// The keys of each of these tasks.
    in_flight: HashMap<Id, Arc<[String]>>,
    /// How many of these tasks have several keys.
    batches: usize,
    /// Outcomes that were not given yet.
    ended: VecDeque<Deletion>,
}

/// A key whose object was to be removed, and whether it was.
#[derive(Debug)]
#[non_exhaustive]
pub struct Deletion {
    /// The key; `None` where the stream of keys failed ([`Store::delete_stream`]).
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
        Self {
            store,
            keys: keys.fuse(),
            batch: Vec::new(),
            removals: JoinSet::new(),
            in_flight: HashMap::new(),
            batches: 0,
            ended: VecDeque::new(),
        }
    }

    /// Starts removals of the keys that are ready. Returns the error of the stream of keys, if it gives one.
    fn begin_ready(&mut self, cx: &mut task::Context<'_>) -> Option<Error> {
        loop {
            let most = self.store.context().bulk_delete().map_or(1, BulkDelete::max_keys).max(1);
            if self.batch.len() >= most && self.batches < BATCHES {
                self.begin_batch();
            }
            // Whether the next key goes into the batch is not known yet: there has to be room for either case.
            let singles = self.in_flight.len() - self.batches;
            if singles >= IN_FLIGHT || self.batch.len() >= most {
                return None;
            }
            match self.keys.poll_next_unpin(cx) {
                Poll::Ready(Some(Ok(key))) if self.is_for_batch(&key) => self.batch.push(key),
                Poll::Ready(Some(Ok(key))) => self.begin(vec![key]),
                Poll::Ready(Some(Err(error))) => return Some(error),
                // Keys that come one by one collect while two removals are in flight: a request for each would cost more. Two,
                // because one of them may be a long retry.
                more => {
                    let is_due = self.in_flight.len() < 2 || more.is_ready() && self.batches < BATCHES;
                    if is_due && !self.batch.is_empty() {
                        self.begin_batch();
                    }
                    return None;
                }
            }
        }
    }

    /// Whether a request for many keys can remove the object.
    fn is_for_batch(&self, key: &str) -> bool {
        let context = self.store.context();
        context.bulk_delete().is_some_and(|bulk| bulk.takes(&context.full_key(key)))
            // A key that no request can express fails by itself, at once.
            && context.check(Operation::Delete, key, None).is_ok()
    }

    fn begin_batch(&mut self) {
        let keys = std::mem::take(&mut self.batch);
        self.begin(keys);
    }

    /// Starts the task that removes `keys`, which must not be empty.
    fn begin(&mut self, keys: Vec<String>) {
        let (store, keys) = (self.store.clone(), Arc::<[String]>::from(keys));
        self.batches += usize::from(keys.len() > 1);
        let of_task = keys.clone();
        let task = self.removals.spawn(async move {
            match &*of_task {
                [key] => {
                    let result = store.delete(key).await;
                    vec![Deletion { key: Some(key.clone()), result }]
                }
                keys => bulk::remove(&store, keys).await,
            }
        });
        self.in_flight.insert(task.id(), keys);
    }

    /// Records the outcomes of a task that has ended.
    fn end(&mut self, ended: Result<(Id, Vec<Deletion>), JoinError>) {
        let id = ended.as_ref().map_or_else(JoinError::id, |(id, _)| *id);
        let keys = self.in_flight.remove(&id).unwrap_or_default();
        self.batches -= usize::from(keys.len() > 1);
        match ended.map_err(JoinError::try_into_panic) {
            Ok((_, deletions)) => self.ended.extend(deletions),
            Err(Ok(panic)) => std::panic::resume_unwind(panic),
            Err(Err(ended)) => {
                let message =
                    "the runtime was shut down during a removal: its object may or may not be there";
                let location = self.store.location();
                let error =
                    Error::new(ErrorKind::Closed, Operation::Delete, location, message).with_source(ended);
                let context = self.store.context();
                self.ended.extend(keys.iter().map(|key| {
                    let error = error.of_object(context.url(key));
                    Deletion { key: Some(key.clone()), result: Err(error) }
                }));
            }
        }
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
        let this = &mut *self;
        loop {
            if let Some(error) = this.begin_ready(cx) {
                return Poll::Ready(Some(Deletion { key: None, result: Err(error) }));
            }
            if let Some(deletion) = this.ended.pop_front() {
                return Poll::Ready(Some(deletion));
            }
            match task::ready!(this.removals.poll_join_next_with_id(cx)) {
                Some(ended) => this.end(ended),
                None if this.keys.is_done() => return Poll::Ready(None),
                None => return Poll::Pending,
            }
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
