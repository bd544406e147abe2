//! Merging: streams that are each in order, as one that is.

use std::cmp::Ordering;
use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

use futures::TryStreamExt;
use futures::stream::{FusedStream, Stream, TryStream};

/// The items of several sorted streams, in order: a k-way merge.
///
/// The inputs are streams of `Result<T, E>`, each sorted by `compare`, a total order. Of items that compare as equal
/// that of the earlier input comes first, and those of one input stay in its order. So with the newest input given
/// first, the first of several equal items is the newest.
///
/// It holds one item of each input, and of itself nothing more: with inputs that hold O(buffer) each, a merge of N
/// holds O(N × buffer), whatever their length. An item costs about log₂ N comparisons. Inputs are polled only while
/// their next item is missing, at the beginning all of them, and then the one whose item was given last; what reads
/// ahead of the merge is the input's own. One that has ended is dropped at once.
///
/// # Errors
/// The first error of any input is given as a [`MergeError`], which says of which input it is, and ends the merge:
/// all inputs are dropped, and no item that was not given yet will be. Items that the merge already holds are not
/// given before it, so that nobody takes what comes before an error for all there is.
///
/// An input that is not sorted is no error: every item is still given, but not in order.
///
/// # Cancellation
/// Between two polls nothing is lost: a cancelled `next` took no item. Dropping the merge drops its inputs.
///
/// # Panics
/// A poll passes on a panic of an input or of `compare`, after which the merge must not be polled again.
///
/// ```
/// use futures::{TryStreamExt, stream};
/// use tidegate::{MergeStream, Merged};
///
/// # tokio::runtime::Runtime::new()?.block_on(async {
/// let newest = stream::iter(["ant 2", "cat 2"].map(Ok::<_, std::io::Error>));
/// let oldest = stream::iter(["ant 1", "bee 1"].map(Ok::<_, std::io::Error>));
/// let mut merge = MergeStream::new([newest, oldest], |a: &&str, b: &&str| a[..3].cmp(&b[..3]));
/// let mut kept: Vec<&str> = Vec::new();
/// while let Some(Merged { item, .. }) = merge.try_next().await? {
///     if kept.last().is_none_or(|last| last[..3] != item[..3]) {
///         kept.push(item); // the newest of its key
///     }
/// }
/// assert_eq!(kept, ["ant 2", "bee 1", "cat 2"]);
/// # Ok::<(), tidegate::MergeError<std::io::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "streams do nothing unless polled"]
pub struct MergeStream<S: TryStream, F> {
    inputs: Vec<Input<S>>,
    compare: F,
    /// A tree of matches: the root is at 1, the two that meet at `n` come from `2n` and `2n + 1`, and the leaves,
    /// one for each input and up to a power of two, are the second half. Each node is the number of the input
    /// that won there.
    winners: Vec<usize>,
    state: State,
}

/// An item of a merge, and which input it is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Merged<T> {
    /// The input's number in the order in which they were given, from 0.
    pub input: usize,
    /// The item.
    pub item: T,
}

/// The error that ended a merge, and which input it is of.
#[derive(Debug, thiserror::Error)]
#[error("input {input} of a merge: {error}")]
pub struct MergeError<E> {
    /// The input's number in the order in which they were given, from 0.
    pub input: usize,
    /// What it failed with.
    #[source]
    pub error: E,
}

struct Input<S: TryStream> {
    /// Until it has ended.
    stream: Option<S>,
    /// Its next item, where that is known.
    head: Option<S::Ok>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Not every input's first item is known.
    Filling,
    /// The item of this input was given, its next one is missing; no match is open elsewhere.
    Gave(usize),
    /// Every head is known and the winner stands.
    Ready,
    Ended,
}

impl<S, F, T, E> MergeStream<S, F>
where
    S: Stream<Item = Result<T, E>> + Unpin,
    F: FnMut(&T, &T) -> Ordering,
{
    /// Merges `inputs` in the order of `compare`. Nothing is polled yet. Without inputs the merge is empty.
    ///
    /// An input that is not [`Unpin`] can be given as [`boxed`](futures::StreamExt::boxed).
    pub fn new(inputs: impl IntoIterator<Item = S>, compare: F) -> Self {
        let input = |stream| Input { stream: Some(stream), head: None };
        let inputs: Vec<_> = inputs.into_iter().map(input).collect();
        let leaves = inputs.len().next_power_of_two();
        let mut winners = vec![0; 2 * leaves];
        for (number, leaf) in winners[leaves..].iter_mut().enumerate() {
            *leaf = number;
        }
        Self { inputs, compare, winners, state: State::Filling }
    }

    /// Polls for a missing head; one that has ended has none.
    fn poll_head(&mut self, cx: &mut Context<'_>, number: usize) -> Poll<Result<(), MergeError<E>>> {
        let input = &mut self.inputs[number];
        if input.head.is_some() {
            return Poll::Ready(Ok(()));
        }
        let Some(stream) = &mut input.stream else { return Poll::Ready(Ok(())) };
        match stream.try_poll_next_unpin(cx) {
            Poll::Pending => Poll::Pending,
            Poll::Ready(Some(Ok(item))) => {
                input.head = Some(item);
                Poll::Ready(Ok(()))
            }
            Poll::Ready(Some(Err(error))) => {
                self.end();
                Poll::Ready(Err(MergeError { input: number, error }))
            }
            Poll::Ready(None) => {
                input.stream = None;
                Poll::Ready(Ok(()))
            }
        }
    }

    /// Polls for every head that is missing: those that wait wait side by side.
    fn poll_fill(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), MergeError<E>>> {
        let mut pending = false;
        for number in 0..self.inputs.len() {
            match self.poll_head(cx, number) {
                Poll::Pending => pending = true,
                Poll::Ready(known) => known?,
            }
        }
        if pending {
            return Poll::Pending;
        }
        for node in (1..self.winners.len() / 2).rev() {
            self.play(node);
        }
        Poll::Ready(Ok(()))
    }

    /// Plays again the matches on the way from an input to the root.
    fn replay(&mut self, number: usize) {
        let mut node = (self.winners.len() / 2 + number) / 2;
        while node > 0 {
            self.play(node);
            node /= 2;
        }
    }

    /// Decides one match. The left one is of an earlier input, so it wins a tie.
    fn play(&mut self, node: usize) {
        let (left, right) = (self.winners[2 * node], self.winners[2 * node + 1]);
        let head = |number: usize| self.inputs.get(number).and_then(|input| input.head.as_ref());
        let right_wins = match (head(left), head(right)) {
            (Some(left), Some(right)) => (self.compare)(left, right) == Ordering::Greater,
            (left, _) => left.is_none(),
        };
        self.winners[node] = if right_wins { right } else { left };
    }

    fn end(&mut self) {
        self.inputs.clear();
        self.state = State::Ended;
    }
}

impl<S, F, T, E> Stream for MergeStream<S, F>
where
    S: Stream<Item = Result<T, E>> + Unpin,
    T: Unpin,
    F: FnMut(&T, &T) -> Ordering + Unpin,
{
    type Item = Result<Merged<T>, MergeError<E>>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let known = match self.state {
            State::Filling => self.poll_fill(cx),
            State::Gave(number) => self.poll_head(cx, number).map_ok(|()| self.replay(number)),
            State::Ready => Poll::Ready(Ok(())),
            State::Ended => return Poll::Ready(None),
        };
        match known {
            Poll::Pending => return Poll::Pending,
            Poll::Ready(Err(error)) => return Poll::Ready(Some(Err(error))),
            Poll::Ready(Ok(())) => self.state = State::Ready,
        }
        let number = self.winners[1];
        let Some(item) = self.inputs.get_mut(number).and_then(|input| input.head.take()) else {
            self.end();
            return Poll::Ready(None);
        };
        self.state = State::Gave(number);
        Poll::Ready(Some(Ok(Merged { input: number, item })))
    }

    /// The sum of the inputs' hints and of the items held.
    fn size_hint(&self) -> (usize, Option<usize>) {
        self.inputs.iter().fold((0, Some(0)), |(least, most), input| {
            let (low, high) = input.stream.as_ref().map_or((0, Some(0)), |stream| stream.size_hint());
            let head = usize::from(input.head.is_some());
            let most = most.zip(high).and_then(|(most, high): (usize, usize)| {
                most.checked_add(high).and_then(|sum| sum.checked_add(head))
            });
            (least.saturating_add(low).saturating_add(head), most)
        })
    }
}

impl<S, F, T, E> FusedStream for MergeStream<S, F>
where
    S: Stream<Item = Result<T, E>> + Unpin,
    T: Unpin,
    F: FnMut(&T, &T) -> Ordering + Unpin,
{
    fn is_terminated(&self) -> bool {
        self.state == State::Ended
    }
}

impl<S: TryStream, F> fmt::Debug for MergeStream<S, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let open = self.inputs.iter().filter(|input| input.stream.is_some()).count();
        f.debug_struct("MergeStream").field("state", &self.state).field("open", &open).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
