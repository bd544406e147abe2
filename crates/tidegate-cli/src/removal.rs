//! Removes many objects of one store, as `rm -r` and `sync --delete` do.

use std::future::ready;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use futures::stream::FuturesUnordered;
use futures::{Stream, StreamExt};
use tidegate::store::Deletion;
use tidegate::{ErrorKind, Result, Store, Tidegate};

use crate::common_cause::CommonCause;
use crate::exit::{CommandFailure, Outcome};
use crate::lines::{ObjectLines, RemoveLine};
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

/// Removes the objects of `store` with these keys, and adds each to `lines`. Prints a failure and continues.
///
/// An error among the keys is that of a listing. The listing of a local directory continues after it (`is_local`);
/// that of a store has ended.
pub(crate) async fn remove(
    tide: &Tidegate,
    store: &Store,
    is_local: bool,
    keys: impl Stream<Item = Result<String>> + Send + 'static,
    lines: &mut ObjectLines,
) -> Outcome<Removal> {
    let root = store.location();
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
                    (key, Ok(())) => {
                        ended.removed += 1;
                        let url = format!("{root}/{}", key.unwrap_or_default());
                        lines.print(&RemoveLine { url: &url, dry_run: false }).await?;
                    }
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
                        output::fail(&error.into());
                    }
                    (None, Err(error)) => {
                        cause.no_more();
                        is_stopped.store(true, Relaxed);
                        ended.stopped = Some(error.into());
                    }
                }
                continue;
            }
            else => return Ok(ended),
        };
        ended.failed += 1;
        if is_common {
            is_stopped.store(true, Relaxed);
            ended.stopped.get_or_insert(failure);
        } else {
            output::fail(&failure);
        }
    }
}
