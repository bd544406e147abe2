//! How many requests may fly to one endpoint: fixed, or found by climbing while throughput climbs.
//!
//! Turns go round the writers, so that one with a thousand parts does not hold up one with a single
//! part; within a writer the oldest request goes first.

use std::collections::{BTreeMap, VecDeque};
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokio::time::{Instant, Sleep, sleep_until};

use crate::types::error::Operation;

mod climb;
mod lane;
mod lanes;
#[cfg(test)]
mod tests;

use climb::Climb;
pub(crate) use lane::{Admitted, Lane};
pub(crate) use lanes::Lanes;

/// How many requests may be in flight at once to one endpoint.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Concurrency {
    /// Begins with three; grows while throughput grows, shrinks when the store throttles or does not answer in time.
    #[default]
    Auto,
    /// This many, at least 1.
    Fixed(usize),
}

/// The limiter of one endpoint; clones share it.
#[derive(Clone, Debug)]
pub(crate) struct Limiter {
    state: Arc<Mutex<State>>,
}

#[derive(Debug)]
struct State {
    limit: usize,
    climb: Option<Climb>,
    in_flight: usize,
    next_id: u64,
    /// Whose turn it is next, and the requests of each that wait, oldest first.
    turns: VecDeque<u64>,
    /// Requests that go before all of these, oldest first.
    first: VecDeque<u64>,
    queues: BTreeMap<u64, VecDeque<u64>>,
    waiters: BTreeMap<u64, Waker>,
    granted: BTreeMap<u64, ()>,
    /// Those who would make requests, had they memory for what these carry, and when one of them last asked for it.
    wanting: usize,
    asked: Option<Instant>,
    /// When the store last asked for fewer requests, or did not answer in time.
    overloaded: Option<Instant>,
}

/// How a request ended, as far as the limiter cares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Answered; this many bytes were moved.
    Moved(u64),
    /// The same, where it was to read an object.
    Brought(u64),
    /// Answered in another way, which says nothing of the store's capacity.
    Answered,
    /// The store asked for fewer requests.
    Throttled,
    /// The store did not answer in time.
    Overload,
    /// Anything else: whether the store took it is not known.
    Other,
}

impl Outcome {
    /// Of a request that was answered as it should be.
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
        let state = State {
            limit,
            climb,
            in_flight: 0,
            next_id: 0,
            turns: VecDeque::new(),
            first: VecDeque::new(),
            queues: BTreeMap::new(),
            waiters: BTreeMap::new(),
            granted: BTreeMap::new(),
            wanting: 0,
            asked: None,
            overloaded: None,
        };
        Self { state: Arc::new(Mutex::new(state)) }
    }

    /// A writer's or reader's place in the round.
    pub(crate) fn flow(&self) -> Flow {
        Flow { limiter: self.clone(), id: self.lock().take_id() }
    }

    /// Whether the store asked for fewer requests, or did not answer in time, within the last `span`.
    pub(crate) fn was_overloaded(&self, span: Duration) -> bool {
        self.lock().overloaded.is_some_and(|at| at.elapsed() < span)
    }

    /// Whether it finds out by itself how many requests pay.
    pub(crate) fn adapts(&self) -> bool {
        self.lock().climb.is_some()
    }

    /// Most that it may ever let fly.
    pub(crate) fn most(&self) -> usize {
        let state = self.lock();
        state.climb.as_ref().map_or(state.limit, |_| Climb::MOST)
    }

    /// How many may fly now.
    pub(crate) fn limit(&self) -> usize {
        self.lock().limit
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Every change is made whole before the lock is given up, so a poisoned state is sound.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A writer's place in the round.
#[derive(Clone, Debug)]
pub(crate) struct Flow {
    limiter: Limiter,
    id: u64,
}

impl Flow {
    /// Waits for its turn to make one request.
    pub(crate) fn permit(&self) -> Turn {
        Turn { flow: self.clone(), id: None, is_first: false, widening: None }
    }

    /// Waits for the next turn that comes free, before all who wait in line: for the few requests that
    /// stand for one which has its turn already.
    pub(crate) fn next_permit(&self) -> Turn {
        Turn { flow: self.clone(), id: None, is_first: true, widening: None }
    }

    /// How many requests may fly now, of all flows together.
    pub(crate) fn limit(&self) -> usize {
        self.limiter.limit()
    }

    /// For as long as it is held, and asked about, there would be more requests, had they memory for what they carry.
    pub(crate) fn wanting(&self) -> Wanting {
        self.limiter.lock().wanting += 1;
        Wanting(self.limiter.clone())
    }
}

/// A want of memory: whether more requests pay can be found out only where there would be more of them.
#[derive(Debug)]
pub(crate) struct Wanting(Limiter);

impl Wanting {
    /// One that is not asked about for so long is of somebody who went away.
    const LASTS: Duration = Duration::from_secs(60);

    /// The memory was asked for, again perhaps, and is not there.
    pub(crate) fn asks(&self) {
        self.0.lock().asked = Some(Instant::now());
    }
}

impl Drop for Wanting {
    fn drop(&mut self) {
        self.0.lock().wanting -= 1;
    }
}

/// Leave to make one request; given back when dropped.
#[derive(Debug)]
pub(crate) struct Permit {
    limiter: Limiter,
    began: Instant,
    outcome: Outcome,
    lane: Option<Admitted>,
}

impl Permit {
    /// The same, for a request that its lane has admitted.
    pub(crate) fn in_lane(mut self, lane: Option<Admitted>) -> Self {
        self.lane = lane;
        self
    }

    /// Gives it back, saying how the request ended. That a lane is throttled says nothing of the endpoint.
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
        state.in_flight -= 1;
        state.serve();
    }
}

/// A wait for a permit. Dropping it gives up the place.
#[derive(Debug)]
pub(crate) struct Turn {
    flow: Flow,
    id: Option<u64>,
    is_first: bool,
    /// Until there may be more than the first few.
    widening: Option<Pin<Box<Sleep>>>,
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
                state.waiters.insert(id, cx.waker().clone());
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
        if state.granted.remove(&id).is_some() {
            self.id = None;
            drop(state);
            return Poll::Ready(Permit {
                limiter,
                began: Instant::now(),
                outcome: Outcome::Other,
                lane: None,
            });
        }
        if let Some(waker) = state.waiters.get_mut(&id) {
            waker.clone_from(cx.waker());
        }
        Poll::Pending
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let Some(id) = self.id else { return };
        let mut state = self.flow.limiter.lock();
        state.waiters.remove(&id);
        if state.granted.remove(&id).is_some() {
            state.in_flight -= 1;
            state.serve();
        }
    }
}

impl State {
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

    fn serve(&mut self) {
        while self.in_flight < self.limit {
            let Some(next) = self.first.pop_front().or_else(|| self.pop_turn()) else { return };
            // One that gave up its place is no longer among the waiters.
            if let Some(waker) = self.waiters.remove(&next) {
                if self.in_flight == 0
                    && let Some(climb) = &mut self.climb
                {
                    climb.begins(Instant::now());
                }
                self.in_flight += 1;
                self.granted.insert(next, ());
                waker.wake();
            }
        }
    }

    /// The oldest request of the flow whose turn it is.
    fn pop_turn(&mut self) -> Option<u64> {
        loop {
            let flow = self.turns.pop_front()?;
            let Some(queue) = self.queues.get_mut(&flow) else { continue };
            let next = queue.pop_front();
            if queue.is_empty() {
                self.queues.remove(&flow);
            } else {
                self.turns.push_back(flow);
            }
            if next.is_some() {
                return next;
            }
        }
    }
}
