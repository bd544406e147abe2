use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering as Atomic};
use std::task::Waker;

use futures::StreamExt;
use futures::channel::mpsc;
use futures::stream::{self, BoxStream};
use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(future)
}

type Item = (u8, usize, usize);

/// An input that gives its items, and `Pending` once before each marked item.
struct Hesitant {
    items: VecDeque<(bool, Result<Item, &'static str>)>,
    polls: Arc<AtomicUsize>,
    ended: bool,
}

impl Stream for Hesitant {
    type Item = Result<Item, &'static str>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        assert!(!self.ended, "an input that has ended was polled");
        self.polls.fetch_add(1, Atomic::Relaxed);
        if let Some((hesitates, _)) = self.items.front_mut()
            && std::mem::take(hesitates)
        {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        let next = self.items.pop_front().map(|(_, item)| item);
        self.ended = next.is_none();
        Poll::Ready(next)
    }
}

fn by_key(a: &Item, b: &Item) -> Ordering {
    a.0.cmp(&b.0)
}

/// Inputs with few different keys, so that there are many ties.
fn inputs() -> impl Strategy<Value = Vec<Vec<(u8, bool)>>> {
    vec(vec((0u8..12, any::<bool>()), 0..20), 0..20).prop_map(|mut inputs| {
        inputs.iter_mut().for_each(|input| input.sort_by_key(|(key, _)| *key));
        inputs
    })
}

/// Turns inputs into streams; each item has the number of its input, and its place there.
fn streams(inputs: &[Vec<(u8, bool)>], polls: &Arc<AtomicUsize>) -> Vec<Hesitant> {
    let stream = |(number, input): (usize, &Vec<(u8, bool)>)| Hesitant {
        items: input
            .iter()
            .enumerate()
            .map(|(place, (key, wait))| (*wait, Ok((*key, number, place))))
            .collect(),
        polls: polls.clone(),
        ended: false,
    };
    inputs.iter().enumerate().map(stream).collect()
}

proptest! {
    #[test]
    fn it_is_a_stable_sort(inputs in inputs()) {
        let mut expected: Vec<Item> = Vec::new();
        for (number, input) in inputs.iter().enumerate() {
            expected.extend(input.iter().enumerate().map(|(place, (key, _))| (*key, number, place)));
        }
        expected.sort_by_key(|item| item.0);
        let mut merge = MergeStream::new(streams(&inputs, &Arc::default()), by_key);
        let mut merged = Vec::new();
        while let Some(next) = block_on(merge.next()) {
            let Merged { input, item } = next.unwrap();
            prop_assert_eq!(input, item.1);
            merged.push(item);
        }
        prop_assert_eq!(merged, expected);
        prop_assert!(merge.is_terminated());
        prop_assert!(block_on(merge.next()).is_none());
    }

    #[test]
    fn an_input_is_polled_for_what_is_missing_only(inputs in inputs()) {
        let polls = Arc::new(AtomicUsize::new(0));
        let merge = MergeStream::new(streams(&inputs, &polls), by_key);
        let items = block_on(merge.count());
        let waits = inputs.iter().flatten().filter(|(_, wait)| *wait).count();
        // One poll for each item, each end and each wait. Only the first items are polled side by side: there each
        // wait also polls the other inputs that still wait.
        prop_assert!(polls.load(Atomic::Relaxed) <= items + inputs.len() + waits + inputs.len() * inputs.len());
    }

    #[test]
    fn an_error_ends_it_with_its_input(inputs in inputs(), at in any::<prop::sample::Index>(), place in any::<prop::sample::Index>()) {
        prop_assume!(!inputs.is_empty());
        let (number, mut streams) = (at.index(inputs.len()), streams(&inputs, &Arc::default()));
        let place = place.index(inputs[number].len() + 1);
        streams[number].items.insert(place, (false, Err("broken")));
        let mut merge = MergeStream::new(streams, by_key);
        let mut of_failed = 0;
        let error = loop {
            match block_on(merge.next()).expect("an error comes before the end") {
                Ok(merged) => of_failed += usize::from(merged.input == number),
                Err(error) => break error,
            }
        };
        prop_assert_eq!((error.input, error.error, of_failed), (number, "broken", place));
        prop_assert!(merge.is_terminated());
        prop_assert!(block_on(merge.next()).is_none());
    }

    #[test]
    fn the_hint_is_what_is_left(inputs in inputs()) {
        let items: usize = inputs.iter().map(Vec::len).sum();
        let streams = inputs.iter().map(|input| stream::iter(input.iter().map(|item| Ok::<_, ()>(*item))));
        let mut merge = MergeStream::new(streams, |a, b| a.0.cmp(&b.0));
        for given in 0..=items {
            prop_assert_eq!(merge.size_hint(), (items - given, Some(items - given)));
            block_on(merge.next());
        }
    }
}

#[test]
fn first_items_are_waited_for_side_by_side() {
    let (senders, receivers): (Vec<_>, Vec<_>) = (0..3).map(|_| mpsc::unbounded::<Result<u8, ()>>()).unzip();
    let mut merge = MergeStream::new(receivers, u8::cmp);
    let mut cx = Context::from_waker(Waker::noop());
    assert!(merge.poll_next_unpin(&mut cx).is_pending());
    senders[2].unbounded_send(Ok(1)).unwrap();
    senders[0].unbounded_send(Ok(2)).unwrap();
    // The silent input may still give the least item.
    assert!(merge.poll_next_unpin(&mut cx).is_pending());
    senders[1].unbounded_send(Ok(0)).unwrap();
    let next = merge.poll_next_unpin(&mut cx);
    assert!(matches!(next, Poll::Ready(Some(Ok(Merged { input: 1, item: 0 })))), "{next:?}");
}

#[test]
fn an_error_comes_before_items_that_are_held() {
    let good = stream::iter([Ok(1), Ok(2)]).boxed();
    let bad: BoxStream<'_, Result<u8, &str>> = stream::iter([Err("broken")]).boxed();
    let mut merge = MergeStream::new([good, bad], u8::cmp);
    let error = block_on(merge.next()).unwrap().unwrap_err();
    assert_eq!(error.to_string(), "input 1 of a merge: broken");
}

#[test]
fn ended_inputs_are_dropped_at_once_and_all_of_them_with_an_error() {
    let alive = Arc::new(());
    let input = |items: Vec<Result<u8, ()>>| {
        let alive = alive.clone();
        stream::iter(items).inspect(move |_| assert!(Arc::strong_count(&alive) > 1))
    };
    let mut merge = MergeStream::new(
        [input(vec![Ok(1)]), input(vec![Ok(2), Ok(3), Err(()), Ok(4)]), input(vec![Ok(9), Ok(9)])],
        u8::cmp,
    );
    let mut seen = Vec::new();
    while let Some(Ok(_)) = block_on(merge.next()) {
        seen.push(Arc::strong_count(&alive) - 1);
    }
    assert_eq!(seen, [3, 2, 2]);
    assert_eq!(Arc::strong_count(&alive), 1);
}

#[test]
fn nothing_merged_is_nothing() {
    let mut merge = MergeStream::new(Vec::<stream::Iter<std::vec::IntoIter<Result<u8, ()>>>>::new(), u8::cmp);
    assert!(block_on(merge.next()).is_none());
    assert!(merge.is_terminated());
}
