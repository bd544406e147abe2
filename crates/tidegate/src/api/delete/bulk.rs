//! Removes several keys in one request, and one by one where that request decides nothing.

use std::sync::{Mutex, MutexGuard, PoisonError};

use futures::{StreamExt, stream};
use tokio::time::Instant;

use super::Deletion;
use crate::Store;
use crate::backend::{Attempt, BulkDelete, Fault, FaultKind, Feature};
use crate::types::error::{Error, Operation};

/// Most removals one by one of one batch that are in flight or wait for the endpoint's limiter.
const ONE_BY_ONE: usize = 16;

/// The keys of one request, over all its attempts.
struct BulkRemoval {
    /// The keys without an outcome.
    left: Vec<String>,
    /// The other keys, each with the attempt that settled it.
    ended: Vec<(String, u32, Result<(), Fault>)>,
}

/// Removes the objects of `keys`; gives one outcome for each.
pub(super) async fn remove(store: &Store, keys: &[String]) -> Vec<Deletion> {
    let (context, began) = (store.context(), Instant::now());
    let Some(bulk) = context.bulk_delete() else { return one_by_one(store, keys.to_vec()).await };
    let left = keys.iter().map(|key| context.full_key(key)).collect();
    let batch = Mutex::new(BulkRemoval { left, ended: Vec::with_capacity(keys.len()) });
    let request = |attempt| send(bulk, &batch, attempt);
    let sent = context.bulk_requests().send(Operation::DeleteMany, None, None, request).await;
    let BulkRemoval { left, ended } = batch.into_inner().unwrap_or_else(PoisonError::into_inner);
    let (mut deletions, mut undecided) = (Vec::with_capacity(keys.len()), Vec::new());
    for (key, attempts, outcome) in ended {
        let key = context.relative_key(&key);
        let result = match outcome {
            Err(fault) if is_undecided(fault.kind) => {
                undecided.push(key);
                continue;
            }
            outcome => outcome.map_err(|fault| {
                let url = context.url(&key);
                Error::from_fault(fault, Operation::Delete, url, attempts, began.elapsed())
            }),
        };
        deletions.push(Deletion { key: Some(key), result });
    }
    let left = left.into_iter().map(|key| context.relative_key(&key));
    let mut is_refused = false;
    match sent {
        Ok(()) => {}
        Err(failure) if is_undecided(failure.fault.kind) || is_unknown_request(&failure.fault) => {
            is_refused = true;
            undecided.extend(left);
        }
        Err(failure) => {
            let error = failure.into_error(Operation::Delete, &context.location());
            deletions.extend(left.map(|key| {
                let error = error.of_object(context.url(&key));
                Deletion { key: Some(key), result: Err(error) }
            }));
        }
    }
    let singles = one_by_one(store, undecided).await;
    if is_refused && singles.iter().any(|deletion| deletion.result.is_ok()) {
        context.facts().learn_lack(Feature::BulkDelete);
    }
    deletions.extend(singles);
    deletions
}

/// Makes one attempt for the keys that are left. Fails with the first fault that a retry can help, if there is one; the
/// next attempt is then for the keys with such faults.
async fn send(bulk: &dyn BulkDelete, batch: &Mutex<BulkRemoval>, attempt: Attempt) -> Result<(), Fault> {
    let keys = locked(batch).left.clone();
    let outcomes = bulk.delete_many(&keys, attempt).await?;
    if outcomes.len() != keys.len() {
        let message = format!("{} outcomes came for {} keys", outcomes.len(), keys.len());
        return Err(Fault::new(FaultKind::NotAStore, message));
    }
    let mut batch = locked(batch);
    batch.left.clear();
    let mut first = None;
    for (key, outcome) in keys.into_iter().zip(outcomes) {
        match outcome {
            Err(fault) if fault.kind.is_retriable() => {
                first.get_or_insert(fault);
                batch.left.push(key);
            }
            outcome => batch.ended.push((key, attempt.number, outcome)),
        }
    }
    first.map_or(Ok(()), Err)
}

fn locked(batch: &Mutex<BulkRemoval>) -> MutexGuard<'_, BulkRemoval> {
    batch.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether the fault leaves open if the object was removed, so that the key needs a DELETE of its own.
fn is_undecided(kind: FaultKind) -> bool {
    matches!(kind, FaultKind::Unsupported | FaultKind::Invalid | FaultKind::NotAStore)
}

/// Whether a server that does not know the request may answer like this: not found, or denied by a gateway in front of
/// it.
fn is_unknown_request(fault: &Fault) -> bool {
    fault.kind == FaultKind::NotFound || (fault.kind == FaultKind::Denied && !fault.answered)
}

async fn one_by_one(store: &Store, keys: Vec<String>) -> Vec<Deletion> {
    let removals = keys.into_iter().map(|key| {
        let store = store.clone();
        async move {
            let result = store.delete(&key).await;
            Deletion { key: Some(key), result }
        }
    });
    stream::iter(removals).buffer_unordered(ONE_BY_ONE).collect().await
}

#[cfg(test)]
mod tests {
    use async_trait::async_trait;

    use super::*;

    /// Leaves out the outcome of the last key.
    #[derive(Debug)]
    struct OneShort;

    #[async_trait]
    impl BulkDelete for OneShort {
        fn max_keys(&self) -> usize {
            1_000
        }

        fn takes(&self, _key: &str) -> bool {
            true
        }

        async fn delete_many(&self, keys: &[String], _: Attempt) -> Result<Vec<Result<(), Fault>>, Fault> {
            Ok(keys.iter().skip(1).map(|_| Ok(())).collect())
        }
    }

    #[tokio::test]
    async fn an_answer_without_an_outcome_for_each_key_settles_none() {
        let left = vec!["a".to_owned(), "b".to_owned()];
        let batch = Mutex::new(BulkRemoval { left, ended: Vec::new() });
        let fault = send(&OneShort, &batch, Attempt::FIRST).await.unwrap_err();
        assert!(is_undecided(fault.kind), "{fault}");
        let batch = batch.into_inner().unwrap();
        assert_eq!((batch.left.len(), batch.ended.len()), (2, 0));
    }
}
