//! Removes many objects of one store, as `rm -r` and `sync --delete` do.

use std::future::ready;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use futures::stream::FuturesUnordered;
use futures::{Stream, StreamExt};
use tidegate::store::Deletion;
use tidegate::{ErrorKind, Result, Store, Tidegate};

use crate::common_cause::CommonCause;
use crate::exit::CommandFailure;
use crate::output;

/// The result of removing many objects.
#[derive(Debug, Default)]
pub(crate) struct Removal {
    pub(crate) removed: u64,
    /// How many failures there were. Each is printed, unless it is `stopped`.
    pub(crate) failed: u64,
    /// Why the rest was not tried: every other removal would have failed for the same cause, or the listing failed.
    pub(crate) stopped: Option<CommandFailure>,
}

/// Removes the objects of `store` with these keys. Prints a failure and continues.
///
/// An error among the keys is that of a listing. The listing of a local directory continues after it (`is_local`);
/// that of a store has ended.
pub(crate) async fn remove(
    tide: &Tidegate,
    store: &Store,
    is_local: bool,
    keys: impl Stream<Item = Result<String>> + Send + 'static,
) -> Removal {
    let cause = CommonCause::of(tide, (!is_local).then_some(store));
    let is_stopped = Arc::new(AtomicBool::new(false));
    let stops = is_stopped.clone();
    let mut removals = store.delete_stream(keys.take_while(move |_| ready(!stops.load(Relaxed)))).fuse();
    let mut failures = FuturesUnordered::new();
    let mut ended = Removal::default();
    loop {
        let (failure, is_common) = tokio::select! {
            biased;
            Some((failure, is_common)) = failures.next() => (failure, is_common),
            Some(Deletion { key, result, .. }) = removals.next() => {
                match (key, result) {
                    (_, Ok(())) => ended.removed += 1,
                    (Some(_), Err(error)) => {
                        let cause = &cause;
                        failures.push(async move {
                            let failure = CommandFailure::from(error);
                            let is_common = cause.is_behind(&failure).await;
                            (failure, is_common)
                        });
                    }
                    (None, Err(error)) if is_local && error.kind() != ErrorKind::NoBucket => {
                        ended.failed += 1;
                        say(&error.into());
                    }
                    (None, Err(error)) => {
                        cause.no_more();
                        is_stopped.store(true, Relaxed);
                        ended.stopped = Some(error.into());
                    }
                }
                continue;
            }
            else => return ended,
        };
        ended.failed += 1;
        if is_common {
            is_stopped.store(true, Relaxed);
            ended.stopped.get_or_insert(failure);
        } else {
            say(&failure);
        }
    }
}

/// Prints a failure.
pub(crate) fn say(failure: &CommandFailure) {
    if let Some(sentence) = failure.sentence() {
        output::say(&format!("error: {sentence}"));
    }
}
