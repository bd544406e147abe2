//! Removals of many objects, with their outcomes in the order in which they were asked for.

use std::collections::{HashMap, VecDeque};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};

use ::object_store::Result;
use ::object_store::path::Path;
use futures::stream::BoxStream;
use futures::{Stream, StreamExt};

use super::error::convert;
use crate::store::{DeleteStream, Deletion};
use crate::{ErrorKind, Operation, Store};

/// Most locations that are taken before the outcome of the first of them was given: what a [`DeleteStream`] holds, and
/// as many outcomes that wait for an earlier one.
pub(super) const TAKEN: usize = 12_000;

/// The outcomes of one `delete_stream`.
pub(super) struct Removals {
    removals: DeleteStream,
    taken: Arc<Mutex<VecDeque<Result<Path>>>>,
    /// Outcomes that are not given yet, by key. A key may be asked for several times.
    ended: HashMap<String, VecDeque<crate::Result<()>>>,
}

impl Removals {
    pub(super) fn new(store: &Store, mut locations: BoxStream<'static, Result<Path>>) -> Self {
        let taken = Arc::new(Mutex::new(VecDeque::new()));
        let (line, location) = (taken.clone(), store.location());
        let keys = futures::stream::poll_fn(move |cx| {
            if locked(&line).len() >= TAKEN {
                // The keys are asked for again when a removal has ended, and some are under way.
                return Poll::Pending;
            }
            let Some(asked) = ready!(locations.poll_next_unpin(cx)) else { return Poll::Ready(None) };
            let key = match &asked {
                Ok(path) => Ok(path.as_ref().to_owned()),
                Err(error) => {
                    let message = error.to_string();
                    Err(crate::Error::new(ErrorKind::Source, Operation::Delete, location.clone(), message))
                }
            };
            locked(&line).push_back(asked);
            Poll::Ready(Some(key))
        });
        Self { removals: store.delete_stream(keys), taken, ended: HashMap::new() }
    }

    /// The outcome of the first location that has none yet, if it is known.
    fn first(&mut self) -> Option<Result<Path>> {
        let mut taken = locked(&self.taken);
        let Ok(path) = taken.front()? else { return taken.pop_front() };
        let key = path.as_ref();
        let outcomes = self.ended.get_mut(key)?;
        let outcome = outcomes.pop_front()?;
        if outcomes.is_empty() {
            self.ended.remove(key);
        }
        let path = taken.pop_front()?;
        Some(path.and_then(|path| match outcome {
            Ok(()) => Ok(path),
            Err(error) => Err(convert(error, &path)),
        }))
    }
}

impl Stream for Removals {
    type Item = Result<Path>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            if let Some(outcome) = self.first() {
                return Poll::Ready(Some(outcome));
            }
            match ready!(self.removals.poll_next_unpin(cx)) {
                Some(Deletion { key: Some(key), result }) => {
                    self.ended.entry(key).or_default().push_back(result);
                }
                // An error among the locations is given in its turn.
                Some(Deletion { key: None, .. }) => {}
                None => {
                    return Poll::Ready(locked(&self.taken).pop_front().map(|path| without_outcome(path?)));
                }
            }
        }
    }
}

/// The error for a removal that ended without saying how.
fn without_outcome(path: Path) -> Result<Path> {
    let message = "the outcome of the removal is not known";
    let error = crate::Error::new(ErrorKind::Uncertain, Operation::Delete, path.to_string(), message);
    Err(convert(error, &path))
}

fn locked<T>(taken: &Mutex<T>) -> MutexGuard<'_, T> {
    taken.lock().unwrap_or_else(PoisonError::into_inner)
}
