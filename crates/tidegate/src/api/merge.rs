//! Merges sorted streams into one sorted stream.

use std::cmp::Ordering;
use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

use futures::TryStreamExt;
use futures::stream::{FusedStream, Stream, TryStream};

/// The items of several sorted streams, in order: a k-way merge.
///
/// The inputs are streams of `Result<T, E>`, each sorted by `compare`, a total order. Among equal items, those of an
/// earlier input come first, and those of the same input keep their order. So if the newest input is given first, the
/// first of several equal items is the newest.
///
/// The merge holds one item of each input and nothing else: with inputs that hold O(buffer) each, a merge of N inputs
/// holds O(N × buffer), whatever their length. Each item costs about log₂ N comparisons. An input is polled only
/// while its next item is missing: all inputs at the start, then the input whose item was returned last. Any further
/// read-ahead is up to the inputs. An input that has ended is dropped at once.
///
/// # Errors
/// The first error of any input ends the merge. It is returned as a [`MergeError`], which names the input. All inputs
/// are dropped, and the items that the merge holds are not returned, so that nobody takes the items before an error
/// for the whole result.
///
/// An unsorted input is not an error: every item is returned, but not in order.
///
/// # Cancellation
/// Nothing is lost between two polls: a cancelled `next` has taken no item. Dropping the merge drops its inputs.
///
/// # Panics
/// If an input or `compare` panics, the panic passes through the poll. Do not poll the merge after that.
///
/// ```
/// use futures::{TryStreamExt, stream};
/// use tidegate::merge::{MergeStream, Merged};
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
/// # Ok::<(), tidegate::merge::MergeError<std::io::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "streams do nothing unless polled"]
pub struct MergeStream<S: TryStream, F> {
    inputs: Vec<Input<S>>,
    compare: F,
    /// A tournament tree: the root is at 1, the children of `n` are `2n` and `2n + 1`, and the second half are the
    /// leaves, one for each input, up to a power of two. Each node holds the number of the input that won there.
    winners: Vec<usize>,
    state: MergeState,
}

/// An item of a merge, and the input that it came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Merged<T> {
    /// The input's number in the order in which the inputs were given, from 0.
    pub input: usize,
    /// The item.
    pub item: T,
}

/// The error that ended a merge, and the input that it came from.
#[derive(Debug, thiserror::Error)]
#[error("input {input} of a merge: {error}")]
pub struct MergeError<E> {
    /// The input's number in the order in which the inputs were given, from 0.
    pub input: usize,
    /// The input's error.
    #[source]
    pub error: E,
}

struct Input<S: TryStream> {
    /// `None` once the stream has ended.
    stream: Option<S>,
    /// The next item, once it is known.
    head: Option<S::Ok>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MergeState {
    /// The first item of some input is not known yet.
    Filling,
    /// This input's item was returned, and its next item is missing. All other matches in the tree are decided.
    Gave(usize),
    /// Every head is known, and the tree has its winner.
    Ready,
    Ended,
}

impl<S, F, T, E> MergeStream<S, F>
where
    S: Stream<Item = Result<T, E>> + Unpin,
    F: FnMut(&T, &T) -> Ordering,
{
    /// Merges `inputs` in the order of `compare`. Polls nothing yet. Without inputs the merge is empty.
    ///
    /// For an input that is not [`Unpin`], use [`boxed`](futures::StreamExt::boxed).
    pub fn new(inputs: impl IntoIterator<Item = S>, compare: F) -> Self {
        let input = |stream| Input { stream: Some(stream), head: None };
        let inputs: Vec<_> = inputs.into_iter().map(input).collect();
        let leaves = inputs.len().next_power_of_two();
        let mut winners = vec![0; 2 * leaves];
        for (number, leaf) in winners[leaves..].iter_mut().enumerate() {
            *leaf = number;
        }
        Self { inputs, compare, winners, state: MergeState::Filling }
    }

    /// Polls the input for its missing head. An input that has ended has no head.
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

    /// Polls every input whose head is missing, so that they all wait at the same time.
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

    /// Replays the matches on the path from an input to the root.
    fn replay(&mut self, number: usize) {
        let mut node = (self.winners.len() / 2 + number) / 2;
        while node > 0 {
            self.play(node);
            node /= 2;
        }
    }

    /// Decides one match. The left side is an earlier input, so it wins a tie.
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
        self.state = MergeState::Ended;
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
            MergeState::Filling => self.poll_fill(cx),
            MergeState::Gave(number) => self.poll_head(cx, number).map_ok(|()| self.replay(number)),
            MergeState::Ready => Poll::Ready(Ok(())),
            MergeState::Ended => return Poll::Ready(None),
        };
        match known {
            Poll::Pending => return Poll::Pending,
            Poll::Ready(Err(error)) => return Poll::Ready(Some(Err(error))),
            Poll::Ready(Ok(())) => self.state = MergeState::Ready,
        }
        let number = self.winners[1];
        let Some(item) = self.inputs.get_mut(number).and_then(|input| input.head.take()) else {
            self.end();
            return Poll::Ready(None);
        };
        self.state = MergeState::Gave(number);
        Poll::Ready(Some(Ok(Merged { input: number, item })))
    }

    /// The sum of the inputs' hints and the items that the merge holds.
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
        self.state == MergeState::Ended
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
