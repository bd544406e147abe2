//! Finds out what stands in the way of waiters, and lets `engine/relief.rs` act on it.

use std::fmt::Debug;
use std::sync::{Arc, Weak};
use std::time::Duration;

use futures::future::BoxFuture;
use tokio::runtime::Handle;
use tokio::sync::futures::Notified;
use tokio::time::Instant;

use super::{Account, Budget, Holding, Relieving, State, Waiter};
use crate::memory::spool::{Spool, SpoolError};

/// A writer, as seen by others that wait for the memory it holds.
pub(crate) trait Holder: Debug + Send + Sync + 'static {
    /// The object, as a URL.
    fn object(&self) -> String;

    /// When the writer took its last byte.
    fn last_write(&self) -> Instant;

    /// How long the writer may take no byte while others wait for its memory.
    fn idle_limit(&self) -> Option<Duration>;

    /// Spills its half-filled part to the spool; returns how many bytes of memory that freed.
    fn spill(self: Arc<Self>, spool: Spool) -> BoxFuture<'static, Result<u64, SpoolError>>;

    /// Ends the upload because it was idle beyond its limit; `false` if it has continued meanwhile.
    fn end_idle(&self, idle: Duration) -> bool;
}

/// Why waiters wait.
#[derive(Debug)]
pub(crate) enum Pressure {
    /// Nobody waits, or waiters wait for memory in flight, which comes back.
    Passing,
    /// Memory that was granted for requests, and that their waiters have not taken, leaves no room.
    Untaken,
    /// Half-filled parts hold the memory, and no waiter can continue.
    HalfFilled(HalfFilled),
}

#[derive(Debug)]
pub(crate) struct HalfFilled {
    /// When the longest wait began, or when half-filled memory last grew or shrank, whichever is later.
    pub(crate) since: Instant,
    /// When the longest wait began.
    pub(crate) waited_since: Instant,
    /// How many waits ended with an error since a part was last dispatched.
    pub(crate) refusals: u32,
    /// The writers that hold memory, the largest share first.
    pub(crate) holders: Vec<Share>,
}

/// The half-filled memory of one writer.
#[derive(Clone, Debug)]
pub(crate) struct Share {
    pub(crate) bytes: u64,
    /// Whether the writer itself waits for memory, or has not taken memory that it was granted.
    pub(crate) waits: bool,
    pub(crate) holder: Weak<dyn Holder>,
}

/// A wait for memory that nothing in flight could end.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Starved(pub(crate) Arc<str>);

impl Budget {
    /// `start` is called when half-filled memory stands in the way, with the budget locked: it must not use the
    /// budget before it has returned. It is called for each runtime on which somebody waits, and not again for that
    /// runtime before [`relieved`](Self::relieved) is called or the guard that it was given is dropped.
    pub(crate) fn set_relief(&self, start: impl Fn(Option<&Handle>, Relieving) + Send + Sync + 'static) {
        // A second call has no effect: an engine sets it once, when it is built.
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

    /// Waits until the pressure may have changed since this call.
    pub(crate) fn changed(&self) -> Notified<'_> {
        self.shared.changed.notified()
    }

    /// Reclaims memory that was granted `patience` ago or longer and was not taken: the waiter's task is not
    /// polled, as after a cancelled write. Returns how many bytes that was, and when the next grant is due.
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

    /// Ends the longest wait with an error, unless a wait was ended less than `before` ago: the relief of another
    /// runtime may have seen the same pressure.
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

    /// Ends a run of the relief that [`set_relief`](Self::set_relief) started. Returns a guard for another run if
    /// waiters are still stopped.
    pub(crate) fn relieved(&self, relieving: Relieving) -> Option<Relieving> {
        let at_work = relieving.end()?;
        let stopped = self.shared.lock().is_stopped(self.shared.total);
        if stopped { Relieving::begin(&at_work) } else { None }
    }
}

impl Account {
    /// Gives back `bytes` of the part that is being filled.
    pub(crate) fn returned(&self, bytes: u64) {
        if bytes == 0 {
            return; // nothing changed
        }
        let mut state = self.budget.shared.lock();
        let half_filled = state.accounts.get(&self.id).map_or(0, |holding| holding.half_filled);
        state.hold(self.id, half_filled.saturating_sub(bytes));
        self.budget.shared.settle(state);
    }

    /// Whether the writer holds memory, does not wait for more, and has no grant that it has not taken.
    pub(crate) fn is_left(&self) -> bool {
        let state = self.budget.shared.lock();
        let left =
            |holding: &Holding| holding.half_filled > 0 && holding.waiting.or(holding.granted).is_none();
        state.accounts.get(&self.id).is_some_and(left)
    }

    /// The writer has ended: gives back all that it holds, and ends its wait.
    pub(crate) fn close(&self) {
        let mut state = self.budget.shared.lock();
        let waits = state.accounts.get(&self.id).map(|holding| (holding.waiting, holding.granted));
        let (waiting, granted) = waits.unwrap_or_default();
        if let Some(waiter) = waiting.and_then(|id| state.dequeue(id)) {
            waiter.waker.wake(); // so that its task sees the end
        }
        if let Some(id) = granted {
            state.return_grant(id);
        }
        state.hold(self.id, 0);
        self.budget.shared.settle(state);
    }
}

impl State {
    /// Whether nothing in flight could help the waiters.
    pub(super) fn is_stopped(&self, total: u64) -> bool {
        self.is_stopped_by(self.half_filled + self.untaken, total)
    }

    /// Whether the waiters can't continue as long as so many bytes do not come back.
    fn is_stopped_by(&self, stays: u64, total: u64) -> bool {
        let Some((_, first)) = self.waiters.first_key_value() else { return false };
        let next = self.next_to_serve(total).and_then(|id| self.waiters.get(&id));
        // Requests may pass a writer without end, so a request that can continue does not help the writer.
        let passed = |next: &Waiter| first.account.is_some() && next.account.is_none();
        next.is_none_or(|next| passed(next) || stays + next.bytes > total)
    }

    /// Notifies those who watch the pressure, and starts the relief if waiters are stopped.
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
