//! What stands in the way of those who wait, and who can do something about it.

use std::fmt::Debug;
use std::sync::{Arc, Weak};
use std::time::Duration;

use futures::future::BoxFuture;
use tokio::runtime::Handle;
use tokio::sync::futures::Notified;
use tokio::time::Instant;

use super::{Account, Budget, Holding, Relieving, State, Waiter};
use crate::memory::spool::{Spool, SpoolError};

/// A writer, as others see it whose memory it holds.
pub(crate) trait Holder: Debug + Send + Sync + 'static {
    /// The object, as a URL.
    fn object(&self) -> String;

    /// When it took its last byte.
    fn last_write(&self) -> Instant;

    /// How long it may go without a byte while others wait for what it holds.
    fn idle_limit(&self) -> Option<Duration>;

    /// Puts its half-filled part into the spool; says how many bytes of memory that brought back.
    fn spill(self: Arc<Self>, spool: Spool) -> BoxFuture<'static, Result<u64, SpoolError>>;

    /// Ends the upload because it was idle beyond its limit; `false` where it has gone on meanwhile.
    fn end_idle(&self, idle: Duration) -> bool;
}

/// What those who wait for memory wait for.
#[derive(Debug)]
pub(crate) enum Pressure {
    /// Nobody waits, or for memory in flight, which comes back.
    Passing,
    /// What was granted for requests, and nobody has come to take, leaves no room.
    Untaken,
    /// Half-filled parts hold what is waited for, and nobody else can go on.
    HalfFilled(HalfFilled),
}

#[derive(Debug)]
pub(crate) struct HalfFilled {
    /// When somebody began to wait, or half-filled memory last became more or less.
    pub(crate) since: Instant,
    /// When the longest wait began.
    pub(crate) waited_since: Instant,
    /// How many waits were ended with an error since a part last left.
    pub(crate) refusals: u32,
    /// Who holds how much, the most first.
    pub(crate) holders: Vec<Share>,
}

/// What one writer holds.
#[derive(Clone, Debug)]
pub(crate) struct Share {
    pub(crate) bytes: u64,
    /// Whether it waits for memory itself, or was granted some and has not come to take it.
    pub(crate) waits: bool,
    pub(crate) holder: Weak<dyn Holder>,
}

/// A wait for memory that nothing in flight could end.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Starved(pub(crate) Arc<str>);

impl Budget {
    /// `start` is called when half-filled memory stands in the way, with the budget locked: it must not
    /// use the budget before it has returned. It is called for each runtime on which somebody waits, and
    /// not again before [`relieved`](Self::relieved), or before what it was given is dropped.
    pub(crate) fn set_relief(&self, start: impl Fn(Option<&Handle>, Relieving) + Send + Sync + 'static) {
        // A second one would be the same: an engine sets it once, when it is built.
        let _ = self.shared.relief.set(Box::new(start));
    }

    pub(crate) fn pressure(&self) -> Pressure {
        let state = self.shared.lock();
        let Some(&(first, _)) = state.by_wait.first() else { return Pressure::Passing };
        if !state.is_stopped(self.shared.total) {
            return Pressure::Passing;
        }
        if !state.is_stopped_by(state.half_filled, self.shared.total) {
            return Pressure::Untaken;
        }
        let since = state.half_moved.map_or(first, |moved| moved.max(first));
        let holders = state.by_holding.iter().rev().take_while(|(bytes, _)| *bytes > 0);
        let holders = holders.filter_map(|(bytes, account)| {
            let holding = state.accounts.get(account)?;
            let waits = holding.waiting.or(holding.granted).is_some();
            Some(Share { bytes: *bytes, waits, holder: holding.holder.clone() })
        });
        let (holders, refusals) = (holders.collect(), state.refusals);
        Pressure::HalfFilled(HalfFilled { since, waited_since: first, refusals, holders })
    }

    /// Waits until those who wait may wait for something else, from this call on.
    pub(crate) fn changed(&self) -> Notified<'_> {
        self.shared.changed.notified()
    }

    /// Takes back what was granted `patience` ago or longer and was not taken: the waiter's task is not
    /// polled, as after a cancelled write. Says how many bytes that was, and when there may be more.
    pub(crate) fn take_back(&self, patience: Duration) -> (u64, Option<Instant>) {
        let mut state = self.shared.lock();
        let now = Instant::now();
        let (due, later): (Vec<_>, Vec<_>) = state
            .granted
            .iter()
            .map(|(id, granted)| (*id, granted.at + patience))
            .partition(|(_, at)| *at <= now);
        let bytes = due.into_iter().map(|(id, _)| state.return_grant(id)).sum();
        if bytes > 0 {
            self.shared.settle(state);
        }
        (bytes, later.into_iter().map(|(_, at)| at).min())
    }

    /// Ends the longest wait with an error, unless one was ended less than `before` ago: another's relief
    /// may have seen the same.
    pub(crate) fn refuse_longest(&self, why: Starved, before: Duration) {
        let mut state = self.shared.lock();
        if state.refused_at.is_some_and(|at| at.elapsed() < before) {
            return;
        }
        let Some(&(_, id)) = state.by_wait.first() else { return };
        if let Some(waiter) = state.dequeue(id) {
            state.refused_at = Some(Instant::now());
            state.refusals += 1;
            state.refused.insert(id, (why, Instant::now()));
            waiter.waker.wake();
        }
        self.shared.settle(state);
    }

    /// What [`set_relief`](Self::set_relief)'s has ended; where it has to go on, it is given back.
    pub(crate) fn relieved(&self, relieving: Relieving) -> Option<Relieving> {
        let at_work = relieving.end()?;
        let stopped = self.shared.lock().is_stopped(self.shared.total);
        if stopped { Relieving::begin(&at_work) } else { None }
    }
}

impl Account {
    /// `bytes` for the part that is being filled are held no more.
    pub(crate) fn returned(&self, bytes: u64) {
        if bytes == 0 {
            return; // nothing changed that anyone should be told of
        }
        let mut state = self.budget.shared.lock();
        let half_filled = state.accounts.get(&self.id).map_or(0, |holding| holding.half_filled);
        state.hold(self.id, half_filled.saturating_sub(bytes));
        self.budget.shared.settle(state);
    }

    /// Whether its writer holds memory and does not wait for more, neither in line nor as one that was
    /// granted some and has not come to take it.
    pub(crate) fn is_left(&self) -> bool {
        let state = self.budget.shared.lock();
        let left =
            |holding: &Holding| holding.half_filled > 0 && holding.waiting.or(holding.granted).is_none();
        state.accounts.get(&self.id).is_some_and(left)
    }

    /// Its writer goes on no more: it holds nothing, and waits for nothing.
    pub(crate) fn close(&self) {
        let mut state = self.budget.shared.lock();
        let waits = state.accounts.get(&self.id).map(|holding| (holding.waiting, holding.granted));
        let (waiting, granted) = waits.unwrap_or_default();
        if let Some(waiter) = waiting.and_then(|id| state.dequeue(id)) {
            waiter.waker.wake(); // to be told that it is over
        }
        if let Some(id) = granted {
            state.return_grant(id);
        }
        state.hold(self.id, 0);
        self.budget.shared.settle(state);
    }
}

impl State {
    /// Whether nothing in flight could help those who wait.
    pub(super) fn is_stopped(&self, total: u64) -> bool {
        self.is_stopped_by(self.half_filled + self.untaken, total)
    }

    /// Whether those who wait can't go on for as long as so many bytes stay where they are.
    fn is_stopped_by(&self, stays: u64, total: u64) -> bool {
        let Some((_, first)) = self.waiters.first_key_value() else { return false };
        let next = self.next_to_serve(total).and_then(|id| self.waiters.get(&id));
        // Requests pass a writer without end: that they can go on brings it nothing.
        let passed = |next: &Waiter| first.account.is_some() && next.account.is_none();
        next.is_none_or(|next| passed(next) || stays + next.bytes > total)
    }

    /// Has someone look at what stands in the way.
    pub(super) fn tell(&mut self, shared: &super::Shared) {
        let stopped = self.is_stopped(shared.total);
        if stopped || std::mem::take(&mut self.stopped) {
            shared.changed.notify_waiters();
        }
        self.stopped = stopped;
        if stopped && let Some(relief) = shared.relief.get() {
            self.runtimes.relieve(relief);
        }
    }
}
