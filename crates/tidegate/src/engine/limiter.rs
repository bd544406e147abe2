//! How many requests may be in flight to one endpoint: a fixed number, or one found by hill climbing on throughput.
//!
//! Writers take turns, so that a writer with a thousand parts does not hold up a writer with a single part; within a
//! writer the oldest request goes first.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokio::time::{Instant, Sleep, sleep, sleep_until};

use crate::types::error::Operation;
use crate::types::transfer_rate::TransferRate;

mod climb;
mod lane;
mod lanes;
mod load;
#[cfg(test)]
mod tests;

use climb::Climb;
pub(crate) use lane::{Admitted, Lane};
pub(crate) use lanes::Lanes;
use load::Load;

/// How many requests may be in flight at once to one endpoint.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Concurrency {
    /// Begins with three; grows while throughput grows, returns to the fewest that keep it, and shrinks when the store
    /// throttles or does not answer in time.
    #[default]
    Auto,
    /// This many, at least 1.
    Fixed(usize),
}

/// `auto`, or the number.
impl fmt::Display for Concurrency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => f.write_str("auto"),
            Self::Fixed(requests) => write!(f, "{requests}"),
        }
    }
}

/// The limiter of one endpoint; clones share it.
#[derive(Clone, Debug)]
pub(crate) struct Limiter {
    state: Arc<Mutex<LimiterState>>,
}

#[derive(Debug)]
struct LimiterState {
    limit: usize,
    climb: Option<Climb>,
    in_flight: usize,
    next_id: u64,
    /// Writers that have waiting requests, the next one first; `queues` has each writer's requests, oldest first.
    turns: VecDeque<u64>,
    /// Requests that go before all of those in `turns`, oldest first.
    first: VecDeque<u64>,
    queues: BTreeMap<u64, VecDeque<u64>>,
    waiters: BTreeMap<u64, WaitingTurn>,
    /// The bytes that each granted request moves.
    granted: BTreeMap<u64, u64>,
    /// The bytes of requests in flight, where a rate is to be kept.
    load: Option<Load>,
    /// How many writers would send more requests if they had memory, and when one of them last asked for memory.
    wanting: usize,
    asked: Option<Instant>,
    /// When the store last asked for fewer requests, or did not answer in time.
    overloaded: Option<Instant>,
}

#[derive(Debug)]
struct WaitingTurn {
    waker: Waker,
    /// The bytes of objects that the request will move.
    bytes: u64,
}

/// How a request ended, as far as the limiter cares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Answered; this many bytes were moved.
    Moved(u64),
    /// As `Moved`, for a read of an object.
    Brought(u64),
    /// Answered with an error or in another way that does not measure the store's capacity.
    Answered,
    /// The store asked for fewer requests.
    Throttled,
    /// The store did not answer in time.
    Overload,
    /// Anything else: whether the store received the request is not known.
    Other,
}

impl Outcome {
    /// The outcome of a request that succeeded.
    pub(crate) fn of(operation: Operation, bytes: u64) -> Self {
        match operation {
            Operation::Get => Self::Brought(bytes),
            _ => Self::Moved(bytes),
        }
    }
}

impl Limiter {
    pub(crate) fn new(concurrency: Concurrency) -> Self {
        let (limit, climb) = match concurrency {
            Concurrency::Auto => (Climb::AT_FIRST, Some(Climb::new())),
            Concurrency::Fixed(limit) => (limit.max(1), None),
        };
        let state = LimiterState {
            limit,
            climb,
            in_flight: 0,
            next_id: 0,
            turns: VecDeque::new(),
            first: VecDeque::new(),
            queues: BTreeMap::new(),
            waiters: BTreeMap::new(),
            granted: BTreeMap::new(),
            load: None,
            wanting: 0,
            asked: None,
            overloaded: None,
        };
        Self { state: Arc::new(Mutex::new(state)) }
    }

    /// Allows no more requests that move bytes than such a rate needs, if there is one.
    pub(crate) fn keeping_to(self, rate: Option<Arc<TransferRate>>) -> Self {
        self.lock().load = rate.map(Load::new);
        self
    }

    /// Adds a writer or a reader to the round.
    pub(crate) fn flow(&self) -> Flow {
        Flow { limiter: self.clone(), id: self.lock().take_id() }
    }

    /// Whether the store asked for fewer requests, or did not answer in time, within the last `span`.
    pub(crate) fn was_overloaded(&self, span: Duration) -> bool {
        self.lock().overloaded.is_some_and(|at| at.elapsed() < span)
    }

    /// Whether the limiter adapts the number of requests by itself.
    pub(crate) fn adapts(&self) -> bool {
        self.lock().climb.is_some()
    }

    /// The most requests that the limiter will ever allow in flight.
    pub(crate) fn most(&self) -> usize {
        let state = self.lock();
        state.climb.as_ref().map_or(state.limit, |_| Climb::MOST)
    }

    /// How many requests may be in flight now.
    pub(crate) fn limit(&self) -> usize {
        self.lock().limit
    }

    fn lock(&self) -> MutexGuard<'_, LimiterState> {
        // Every change completes before the lock is released, so a poisoned state is still sound.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A writer's or reader's place in the round.
#[derive(Clone, Debug)]
pub(crate) struct Flow {
    limiter: Limiter,
    id: u64,
}

impl Flow {
    /// Waits for a permit to make one request.
    pub(crate) fn permit(&self) -> Turn {
        Turn { flow: self.clone(), id: None, is_first: false, bytes: 0, widening: None, look: None }
    }

    /// Waits for the next free permit, ahead of the whole queue: for the few requests that stand in for a request
    /// that already has had its turn.
    pub(crate) fn next_permit(&self) -> Turn {
        Turn { flow: self.clone(), id: None, is_first: true, bytes: 0, widening: None, look: None }
    }

    /// How many requests of all flows together may be in flight now.
    pub(crate) fn limit(&self) -> usize {
        self.limiter.limit()
    }

    /// While the guard is held and its `asks` is called, the limiter assumes that more requests are waiting, which
    /// lack only memory.
    pub(crate) fn wanting(&self) -> Wanting {
        self.limiter.lock().wanting += 1;
        Wanting(self.limiter.clone())
    }
}

/// A writer that lacks memory for more requests: the limiter can learn whether more requests pay only if there would
/// be more of them.
#[derive(Debug)]
pub(crate) struct Wanting(Limiter);

impl Wanting {
    /// A writer that has not asked for this long is taken to be gone.
    const LASTS: Duration = Duration::from_secs(60);

    /// The writer asked for memory, perhaps once more, and got none.
    pub(crate) fn asks(&self) {
        self.0.lock().asked = Some(Instant::now());
    }
}

impl Drop for Wanting {
    fn drop(&mut self) {
        self.0.lock().wanting -= 1;
    }
}

/// Permission to make one request; given back when dropped.
#[derive(Debug)]
pub(crate) struct Permit {
    limiter: Limiter,
    began: Instant,
    outcome: Outcome,
    lane: Option<Admitted>,
    bytes: u64,
}

impl Permit {
    /// Attaches the lane's admission to the permit.
    pub(crate) fn in_lane(mut self, lane: Option<Admitted>) -> Self {
        self.lane = lane;
        self
    }

    /// Gives the permit back with the request's outcome. A throttled lane does not count against the endpoint.
    pub(crate) fn end(mut self, outcome: Outcome) {
        self.outcome = match (outcome, &mut self.lane) {
            (Outcome::Throttled, None) => Outcome::Overload,
            (Outcome::Throttled, Some(lane)) => {
                lane.outcome = outcome;
                Outcome::Other
            }
            (outcome, lane) => {
                lane.iter_mut().for_each(|lane| lane.outcome = outcome);
                outcome
            }
        };
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let mut state = self.limiter.lock();
        let (in_flight, waiting) = (state.in_flight, !state.waiters.is_empty() || state.is_wanting());
        if self.outcome == Outcome::Overload {
            state.overloaded = Some(Instant::now());
        }
        if let Some(climb) = &mut state.climb {
            state.limit = climb.ended(self.outcome, in_flight, waiting, self.began, Instant::now());
        }
        state.ends(self.bytes);
    }
}

/// A wait for a permit. Dropping it leaves the queue.
#[derive(Debug)]
pub(crate) struct Turn {
    flow: Flow,
    id: Option<u64>,
    is_first: bool,
    bytes: u64,
    /// Wakes when the limit may rise above the first few requests.
    widening: Option<Pin<Box<Sleep>>>,
    /// Wakes to see whether the rate that is to be kept is reached.
    look: Option<Pin<Box<Sleep>>>,
}

impl Turn {
    /// The request will move `bytes` of an object.
    pub(crate) fn carrying(mut self, bytes: u64) -> Self {
        self.bytes = bytes;
        self
    }
}

impl Future for Turn {
    type Output = Permit;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Permit> {
        let limiter = self.flow.limiter.clone();
        let mut state = limiter.lock();
        let id = match self.id {
            Some(id) => id,
            None => {
                let id = state.take_id();
                self.id = Some(id);
                let (waker, bytes) = (cx.waker().clone(), self.bytes);
                state.waiters.insert(id, WaitingTurn { waker, bytes });
                if self.is_first {
                    state.first.push_back(id);
                } else {
                    state.enqueue(self.flow.id, id);
                }
                state.serve();
                id
            }
        };
        if !state.granted.contains_key(&id)
            && let Some(at) = state.climb.as_ref().and_then(Climb::widens_at)
        {
            let widening = self.widening.get_or_insert_with(|| Box::pin(sleep_until(at)));
            if widening.deadline() != at {
                widening.as_mut().reset(at);
            }
            if widening.as_mut().poll(cx).is_ready() {
                state.widen();
            }
        }
        while self.bytes > 0
            && let Some(load) = &state.load
            && !state.granted.contains_key(&id)
        {
            let lets_extra = load.lets_extra();
            let look = self.look.get_or_insert_with(|| Box::pin(sleep(Load::LOOK)));
            if look.as_mut().poll(cx).is_pending() {
                break;
            }
            look.as_mut().reset(Instant::now() + Load::LOOK);
            if lets_extra {
                state.serve();
            }
        }
        if let Some(bytes) = state.granted.remove(&id) {
            self.id = None;
            drop(state);
            return Poll::Ready(Permit {
                limiter,
                began: Instant::now(),
                outcome: Outcome::Other,
                lane: None,
                bytes,
            });
        }
        if let Some(waiting) = state.waiters.get_mut(&id) {
            waiting.waker.clone_from(cx.waker());
        }
        Poll::Pending
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let Some(id) = self.id else { return };
        let mut state = self.flow.limiter.lock();
        state.waiters.remove(&id);
        if let Some(bytes) = state.granted.remove(&id) {
            state.ends(bytes);
        }
    }
}

impl LimiterState {
    fn is_wanting(&self) -> bool {
        self.wanting > 0 && self.asked.is_some_and(|at| at.elapsed() < Wanting::LASTS)
    }

    fn take_id(&mut self) -> u64 {
        self.next_id += 1;
        self.next_id
    }

    fn enqueue(&mut self, flow: u64, id: u64) {
        let queue = self.queues.entry(flow).or_default();
        if queue.is_empty() {
            self.turns.push_back(flow);
        }
        queue.push_back(id);
    }

    fn widen(&mut self) {
        if let Some(climb) = &mut self.climb {
            self.limit = climb.widen();
        }
        self.serve();
    }

    /// A request that moved or was to move `bytes` is no longer in flight.
    fn ends(&mut self, bytes: u64) {
        self.in_flight -= 1;
        if let Some(load) = &mut self.load {
            load.ends(bytes);
        }
        self.serve();
    }

    fn serve(&mut self) {
        while self.in_flight < self.limit {
            let Some(next) = self.first.pop_front().or_else(|| self.pop_turn()) else { return };
            // A wait that was dropped is no longer among the waiters.
            if let Some(WaitingTurn { waker, bytes }) = self.waiters.remove(&next) {
                if self.in_flight == 0
                    && let Some(climb) = &mut self.climb
                {
                    climb.begins(Instant::now());
                }
                self.in_flight += 1;
                if let Some(load) = &mut self.load {
                    load.begins(bytes);
                }
                self.granted.insert(next, bytes);
                waker.wake();
            }
        }
    }

    /// The oldest request of the flow whose turn it is. A flow whose oldest request must wait for the rate keeps its
    /// place.
    fn pop_turn(&mut self) -> Option<u64> {
        let mut held = Vec::new();
        let next = loop {
            let Some(flow) = self.turns.pop_front() else { break None };
            let Some(queue) = self.queues.get_mut(&flow) else { continue };
            if let Some(load) = &self.load {
                let oldest = queue.front().and_then(|id| self.waiters.get(id));
                if !oldest.is_none_or(|waiting| load.lets(waiting.bytes)) {
                    held.push(flow);
                    continue;
                }
            }
            let next = queue.pop_front();
            if queue.is_empty() {
                self.queues.remove(&flow);
            } else {
                self.turns.push_back(flow);
            }
            if next.is_some() {
                break next;
            }
        };
        held.into_iter().rev().for_each(|flow| self.turns.push_front(flow));
        next
    }
}
