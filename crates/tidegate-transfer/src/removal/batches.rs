//! The names of a list (`--files-from`), gathered for requests that remove many objects.

use std::time::Duration;

use futures::{Stream, StreamExt, stream};
use tokio::time::{Instant, timeout_at};

/// The names of one batch: as many as S3 removes by one request.
const BATCH: usize = 1000;
/// The most batches that are removed at the same time.
pub(super) const IN_FLIGHT: usize = 4;
/// How long a batch that is not full waits for more names, so that a list that comes in pieces, as through a pipe, needs
/// no request for each piece.
const LINGER: Duration = Duration::from_millis(100);

/// Gathers names that come soon after each other.
pub(super) fn batches<T>(names: impl Stream<Item = T>) -> impl Stream<Item = Vec<T>> {
    stream::unfold(Box::pin(names.fuse()), async |mut names| {
        let mut batch = vec![names.next().await?];
        let until = Instant::now() + LINGER;
        while batch.len() < BATCH
            && let Ok(Some(name)) = timeout_at(until, names.next()).await
        {
            batch.push(name);
        }
        Some((batch, names))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn names_are_gathered_until_a_batch_is_full_or_no_more_come_soon() {
        let (sender, names) = futures::channel::mpsc::unbounded();
        (0..2500).for_each(|number| sender.unbounded_send(number).unwrap());
        let mut batches = Box::pin(batches(names));
        let mut next = async || batches.next().await.map(|batch| batch.len());
        // The last batch does not wait for the end of the list.
        assert_eq!((next().await, next().await, next().await), (Some(1000), Some(1000), Some(500)));
        sender.close_channel();
        assert_eq!(next().await, None);
    }
}
