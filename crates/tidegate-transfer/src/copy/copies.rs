//! Copies of many objects, in flight at once.

use std::future::Future;
use std::pin::Pin;

use futures::stream::FuturesUnordered;
use futures::{FutureExt, Stream, StreamExt};
use tidegate::Store;

use super::job::CopyJob;
use crate::common_cause::CommonCause;
use crate::error::{Error, Result};
use crate::event::{CopiedObject, Ends, Event, Failure, Step};

/// How many objects are in flight at least; with a journal also at most, because each journal needs open files.
const IN_FLIGHT: usize = 64;
const MOST_IN_FLIGHT: usize = 1024;

/// How the copy of one object ended.
pub(crate) enum CopyOutcome {
    Copied(Box<CopiedObject>),
    /// It was copied, its source is removed, and both are reported.
    Moved,
    /// It would be copied: this is a dry run.
    Planned,
    /// There was nothing to copy, the target exists and stays, or it has no name for the object.
    LeftOut,
    Failed(Error),
    /// Something could not be listed. Other objects go on.
    Unlisted(Failure),
    /// It failed, and every other object would fail for the same cause.
    Shared(Error),
    /// The listing failed, so no more objects come.
    Stopped(Error),
}

impl From<Result<Box<CopiedObject>>> for CopyOutcome {
    fn from(outcome: Result<Box<CopiedObject>>) -> Self {
        match outcome {
            Ok(done) => Self::Copied(done),
            Err(failure) => Self::Failed(failure),
        }
    }
}

/// Runs all copies between these stores, as many at once as allowed; returns how many there were. A copy that fails is
/// reported and does not stop the others. If every other copy would fail for the same cause, no more are started,
/// those in flight are waited for and counted, and the cause is the error.
///
/// A copy is boxed, because on its way here it would be copied several times, and has ten thousand bytes.
pub(crate) async fn all<F>(
    job: &CopyJob,
    stores: &[&Store],
    copies: impl Stream<Item = Pin<Box<F>>>,
) -> Result<u64>
where
    F: Future<Output = CopyOutcome>,
{
    let cause = &CommonCause::of(job.stores.target.tide(), stores.iter().copied());
    let mut copies = std::pin::pin!(copies.fuse());
    let mut on_their_way = FuturesUnordered::new();
    let mut begun = 0;
    let mut stopped: Option<Error> = None;
    loop {
        job.events.flow().await;
        let requests = stores.iter().map(|store| store.in_flight_limit()).sum();
        let most = at_once(requests, job.writing.is_journaled(), job.open_files);
        let ended = tokio::select! {
            biased;
            Some(copy) = copies.next(), if stopped.is_none() && on_their_way.len() < most => {
                begun += 1;
                // Unlike an async block, `then` needs no room for the copy and the question at once.
                on_their_way.push(copy.then(move |ended| async move {
                    match ended {
                        // What is wrong with one name says nothing of the others.
                        CopyOutcome::Failed(failure) if failure.is_refusal() => CopyOutcome::Failed(failure),
                        CopyOutcome::Failed(failure) if cause.is_behind(&failure).await => CopyOutcome::Shared(failure),
                        ended => ended,
                    }
                }));
                continue;
            }
            Some(ended) = on_their_way.next() => ended,
            else => break,
        };
        match ended {
            CopyOutcome::LeftOut | CopyOutcome::Planned | CopyOutcome::Moved => {}
            CopyOutcome::Copied(done) => job.events.push(Event::Copied(done)),
            CopyOutcome::Failed(failure) => job.events.failed(Step::Copy, failure),
            CopyOutcome::Unlisted(failure) => job.events.push(Event::Failed(failure)),
            CopyOutcome::Shared(error) if stopped.is_some() => {
                let failure = Failure { step: Step::Copy, side: None, error, ends: Ends::SameCause };
                job.events.push(Event::Failed(failure));
            }
            CopyOutcome::Shared(failure) => {
                // The operation's own error tells it.
                job.events.count(|report| report.failed += 1);
                stopped = Some(failure);
            }
            CopyOutcome::Stopped(failure) => {
                cause.no_more();
                stopped.get_or_insert(failure);
            }
        }
    }
    stopped.map_or(Ok(begun), Err)
}

/// How many objects are in flight at once while the stores together allow this many requests: a quarter more, so that
/// an object that opens its file or publishes it leaves no request unused.
fn at_once(requests: usize, is_journaled: bool, open_files: usize) -> usize {
    let most = if is_journaled { IN_FLIGHT } else { MOST_IN_FLIGHT };
    let objects = requests.saturating_add(requests / 4).clamp(IN_FLIGHT, most);
    // Each object needs a file and a connection.
    objects.min(open_files / 3).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_in_flight_follow_the_requests_within_bounds() {
        let many = 1 << 20;
        for (requests, is_journaled, open_files, expected) in [
            (0, false, many, 64),
            (3, false, many, 64),
            (64, false, many, 80),
            (256, false, many, 320),
            (usize::MAX, false, many, 1024),
            (512, true, many, 64),
            (512, false, 300, 100),
            (16, false, 2, 1),
        ] {
            let objects = at_once(requests, is_journaled, open_files);
            assert_eq!(objects, expected, "{requests}, {is_journaled}, {open_files}");
        }
    }
}
