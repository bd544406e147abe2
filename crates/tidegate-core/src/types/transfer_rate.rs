//! The limit of bytes a second that all transfers of one engine share, in both directions together.
//!
//! It is a token bucket. Bytes are granted in slices of at most [`SLICE`] worth of the rate, to one stream after
//! another in the order in which they asked, so that bytes are spread over time and every stream moves. A slice is
//! granted once all slices before it are paid for at the rate. After a pause at most [`SAVED`] worth of the rate is
//! granted at once, which also makes up for timers that fire late.
//!
//! Whichever stream is polled serves the queue. A stream that nobody polls gets one slice, and then holds up no other.

use std::collections::{BTreeMap, VecDeque};
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use tokio::time::{Instant, Sleep, sleep_until};

#[cfg(test)]
mod tests;

/// The longest time that one slice takes at the rate.
const SLICE: Duration = Duration::from_millis(50);
/// Within this time each stream in the queue gets a slice: with many streams, slices are smaller.
const ROUND: Duration = Duration::from_secs(1);
/// The least bytes of a slice: a smaller one costs more than it smooths.
const LEAST: u64 = 1 << 10;
/// The time whose bytes are saved up while none are wanted.
const SAVED: Duration = Duration::from_millis(100);
/// How much later than the first in the queue the others look, in case the first is not polled.
const ALSO_LOOK: Duration = Duration::from_millis(200);

/// A limit of bytes a second, shared by all streams that move bytes.
#[derive(Debug)]
pub struct TransferRate {
    per_second: u64,
    queue: Mutex<SliceQueue>,
}

#[derive(Debug)]
struct SliceQueue {
    /// When the granted slices are paid for at the rate.
    paid: Instant,
    waiting: VecDeque<WaitingStream>,
    /// Slices that were granted and not taken yet, in bytes, by the waiting stream's number.
    granted: BTreeMap<u64, u64>,
    next_id: u64,
}

#[derive(Debug)]
struct WaitingStream {
    id: u64,
    wanted: u64,
    waker: Waker,
}

impl TransferRate {
    /// At most this many bytes a second, at least 1.
    pub fn new(per_second: u64) -> Arc<Self> {
        let queue = SliceQueue {
            paid: Instant::now(),
            waiting: VecDeque::new(),
            granted: BTreeMap::new(),
            next_id: 0,
        };
        Arc::new(Self { per_second: per_second.max(1), queue: Mutex::new(queue) })
    }

    /// The limit in bytes a second.
    pub fn per_second(&self) -> u64 {
        self.per_second
    }

    /// Whether the transfers have not used up the rate in the last tenth of a second.
    pub fn has_room(&self) -> bool {
        let queue = self.lock();
        queue.waiting.is_empty() && queue.paid + SAVED <= Instant::now()
    }

    fn lock(&self) -> MutexGuard<'_, SliceQueue> {
        // Every change completes before the lock is released, so a poisoned state is still sound.
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How long `bytes` take at the rate.
    fn cost(&self, bytes: u64) -> Duration {
        let nanoseconds = u128::from(bytes) * 1_000_000_000 / u128::from(self.per_second);
        Duration::from_nanos(u64::try_from(nanoseconds).unwrap_or(u64::MAX))
    }

    /// The most bytes of the next slice, with `waiting` streams in the queue.
    fn slice(&self, waiting: usize) -> u64 {
        let span = SLICE.min(ROUND / u32::try_from(waiting).unwrap_or(u32::MAX).max(1));
        let bytes = u128::from(self.per_second) * span.as_nanos() / 1_000_000_000;
        u64::try_from(bytes).unwrap_or(u64::MAX).max(LEAST)
    }

    /// Grants the slices that are due, and wakes their streams, except for the stream `polled`, which looks itself.
    fn serve(&self, queue: &mut SliceQueue, polled: u64) {
        let now = Instant::now();
        let mut has_granted = false;
        while queue.paid <= now
            && let most = self.slice(queue.waiting.len())
            && let Some(WaitingStream { id, wanted, waker }) = queue.waiting.pop_front()
        {
            let bytes = wanted.min(most);
            let saved = now.checked_sub(SAVED).unwrap_or(now);
            queue.paid = queue.paid.max(saved) + self.cost(bytes);
            queue.granted.insert(id, bytes);
            has_granted = true;
            if id != polled {
                waker.wake();
            }
        }
        if has_granted {
            queue.wake_first(polled);
        }
    }
}

impl SliceQueue {
    /// Wakes the first in the queue, so that its timer is the exact one.
    fn wake_first(&self, polled: u64) {
        if let Some(first) = self.waiting.front().filter(|first| first.id != polled) {
            first.waker.wake_by_ref();
        }
    }
}

/// One stream's place in the queue. Dropping it gives up the place, and a slice that was granted and not taken.
#[derive(Debug)]
pub struct SliceTurn {
    rate: Arc<TransferRate>,
    held: Arc<HeldTime>,
    waits: Option<u64>,
    timer: Option<Pin<Box<Sleep>>>,
}

impl SliceTurn {
    /// `held` counts the time in which the stream waits.
    pub fn new(rate: Arc<TransferRate>, held: Arc<HeldTime>) -> Self {
        Self { rate, held, waits: None, timer: None }
    }

    /// Polls for the next slice of `wanted` bytes: how many of them may move now, at least 1 unless none are wanted.
    /// A stream that wants more asks again, behind the others.
    pub fn poll_take(&mut self, wanted: u64, cx: &mut Context<'_>) -> Poll<u64> {
        if wanted == 0 {
            return Poll::Ready(0);
        }
        loop {
            let mut queue = self.rate.lock();
            let is_new = self.waits.is_none();
            let id = *self.waits.get_or_insert_with(|| {
                queue.next_id += 1;
                let id = queue.next_id;
                queue.waiting.push_back(WaitingStream { id, wanted, waker: cx.waker().clone() });
                id
            });
            self.rate.serve(&mut queue, id);
            if let Some(bytes) = queue.granted.remove(&id) {
                self.waits = None;
                if !is_new {
                    self.held.ends();
                }
                return Poll::Ready(bytes.min(wanted));
            }
            let is_first = queue.waiting.front().is_some_and(|first| first.id == id);
            if let Some(place) = queue.waiting.iter_mut().find(|waiting| waiting.id == id) {
                place.waker.clone_from(cx.waker());
            }
            let due = queue.paid + if is_first { Duration::ZERO } else { ALSO_LOOK };
            drop(queue);
            if is_new {
                self.held.begins();
            }
            let timer = self.timer.get_or_insert_with(|| Box::pin(sleep_until(due)));
            if timer.deadline() != due {
                timer.as_mut().reset(due);
            }
            ready!(timer.as_mut().poll(cx));
        }
    }

    /// As [`poll_take`](Self::poll_take). Dropping the future keeps the place.
    pub async fn take(&mut self, wanted: u64) -> u64 {
        poll_fn(|cx| self.poll_take(wanted, cx)).await
    }
}

impl Drop for SliceTurn {
    fn drop(&mut self) {
        let Some(id) = self.waits else { return };
        self.held.ends();
        let mut queue = self.rate.lock();
        match queue.granted.remove(&id) {
            Some(bytes) => {
                queue.paid = queue.paid.checked_sub(self.rate.cost(bytes)).unwrap_or(queue.paid);
            }
            None => queue.waiting.retain(|waiting| waiting.id != id),
        }
        queue.wake_first(id);
    }
}

/// How long one request was held back on this machine: by the rate, or by a disk that takes or gives its bytes.
#[derive(Debug, Default)]
pub struct HeldTime(Mutex<HeldSpans>);

#[derive(Debug, Default)]
struct HeldSpans {
    total: Duration,
    /// How many wait now, and since when any does.
    waiting: u32,
    since: Option<Instant>,
}

impl HeldTime {
    fn lock(&self) -> MutexGuard<'_, HeldSpans> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A wait begins, which [ends](Self::ends). Waits may overlap.
    pub fn begins(&self) {
        let mut spans = self.lock();
        spans.waiting += 1;
        spans.since.get_or_insert_with(Instant::now);
    }

    /// Records that the transfer has ended.
    pub fn ends(&self) {
        let mut spans = self.lock();
        spans.waiting = spans.waiting.saturating_sub(1);
        if spans.waiting == 0 {
            let since = spans.since.take();
            spans.total += since.map_or(Duration::ZERO, |since| since.elapsed());
        }
    }

    /// Counts the time in which `work` is not ready.
    pub async fn during<T>(&self, work: impl Future<Output = T>) -> T {
        let (mut work, mut waiting) = (pin!(work), None);
        poll_fn(|cx| {
            let polled = work.as_mut().poll(cx);
            if polled.is_pending() && waiting.is_none() {
                self.begins();
                waiting = Some(HeldWait(self));
            }
            polled
        })
        .await
    }

    /// The time so far, that of a wait now included.
    pub fn total(&self) -> Duration {
        let spans = self.lock();
        spans.total + spans.since.map_or(Duration::ZERO, |since| since.elapsed())
    }
}

/// One wait of [`HeldTime::during`], which may be cancelled.
struct HeldWait<'a>(&'a HeldTime);

impl Drop for HeldWait<'_> {
    fn drop(&mut self) {
        self.0.ends();
    }
}
