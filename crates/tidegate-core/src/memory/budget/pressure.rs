//! Shows what stands in the way of waiters, and carries out what relief decides (`memory/relief.rs`).

use std::fmt::Debug;
use std::sync::{Arc, Weak};
use std::time::Duration;

use futures::future::BoxFuture;
use tokio::runtime::Handle;
use tokio::sync::futures::Notified;
use tokio::time::Instant;

use super::{
    Account, Activity, Budget, BudgetState, Decision, Holding, MemorySnapshot, Relieving, UNTAKEN, decide,
};
use crate::memory::spool::{Spool, SpoolError};

/// A writer, as seen by others that wait for the memory it holds.
pub trait Holder: Debug + Send + Sync + 'static {
    /// The object, as a URL.
    fn object(&self) -> String;

    /// When the writer took its last byte.
    fn last_write(&self) -> Instant;

    /// How long the writer may take no byte while others wait for its memory.
    fn idle_limit(&self) -> Option<Duration>;

    /// Spills its half-filled part to the spool; returns how many bytes of memory that freed.
    fn spill(self: Arc<Self>, spool: Spool) -> BoxFuture<'static, Result<u64, SpoolError>>;

    /// Gives back the free end of its slab; returns how many bytes that was.
    fn trim(&self) -> u64;

    /// Ends the upload because it was idle beyond its limit; `false` if it has continued meanwhile.
    fn end_idle(&self, idle: Duration) -> bool;
}

/// A wait that nothing in flight can end.
#[derive(Debug)]
pub struct StuckWait {
    pub snapshot: MemorySnapshot,
    /// When the longest wait began.
    pub waited_since: Instant,
    /// When half-filled memory last grew or shrank.
    pub moved_at: Option<Instant>,
    /// When the oldest grant was made that was not taken yet.
    pub granted_at: Option<Instant>,
    /// How many waits ended with an error since a part was last dispatched.
    pub refusals: u32,
    /// The writers that hold memory, the largest share first.
    pub holdings: Vec<HalfFilled>,
}

/// The half-filled memory of one writer.
#[derive(Debug)]
pub struct HalfFilled {
    pub bytes: u64,
    pub activity: Activity,
    pub is_slack: bool,
    pub holder: Weak<dyn Holder>,
}

/// A wait for memory that nothing in flight could end.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{0}")]
pub struct Starved(pub Arc<str>);

impl Budget {
    /// `start` is called when half-filled memory stands in the way, with the budget locked: it must not use the
    /// budget before it has returned. It is called for each runtime on which somebody waits, and not again for that
    /// runtime before [`relieved`](Self::relieved) is called or the guard that it was given is dropped.
    pub(crate) fn set_relief(&self, start: impl Fn(Option<&Handle>, Relieving) + Send + Sync + 'static) {
        // A second call has no effect: an engine sets it once, when it is built.
        let _ = self.shared.relief.set(Box::new(start));
    }

    /// What stands in the way of the waiters; `None` where nobody waits, or memory in flight can end the wait.
    pub fn look(&self) -> Option<StuckWait> {
        let state = self.shared.lock();
        let snapshot = state.snapshot(self.shared.total);
        if decide(&snapshot) != Decision::Relieve {
            return None;
        }
        let &(waited_since, _) = state.by_wait.first()?;
        let holdings = state.by_holding.iter().rev().take_while(|(bytes, _)| *bytes > 0);
        let holdings = holdings.filter_map(|(bytes, account)| {
            let Holding { waiting, granted, is_slack, holder, .. } = state.accounts.get(account)?;
            let waits = waiting.or(*granted).is_some();
            let activity = if waits { Activity::Waits } else { Activity::UpToProducer };
            Some(HalfFilled { bytes: *bytes, activity, is_slack: *is_slack, holder: holder.clone() })
        });
        Some(StuckWait {
            waited_since,
            moved_at: state.half_moved,
            granted_at: state.granted.values().map(|granted| granted.at).min(),
            refusals: state.refusals,
            holdings: holdings.collect(),
            snapshot,
        })
    }

    /// Waits until the pressure may have changed since this call.
    pub fn changed(&self) -> Notified<'_> {
        self.shared.changed.notified()
    }

    /// Reclaims memory that was granted some time ago and was not taken: the waiter's task is not polled, as after a
    /// cancelled write. Returns how many bytes that was.
    pub(crate) fn reclaim(&self) -> u64 {
        let mut state = self.shared.lock();
        let due = state.granted.iter().filter(|(_, granted)| granted.at.elapsed() >= UNTAKEN);
        let due: Vec<_> = due.map(|(id, _)| *id).collect();
        let bytes = due.into_iter().map(|id| state.return_grant(id)).sum();
        if bytes > 0 {
            self.shared.settle(state);
        }
        bytes
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
        if self.shared.lock().is_stopped(self.shared.total) { Relieving::begin(&at_work) } else { None }
    }
}

impl Account {
    /// Gives back `bytes` of the part that is being filled.
    pub fn returned(&self, bytes: u64) {
        if bytes == 0 {
            return; // nothing changed
        }
        let mut state = self.budget.shared.lock();
        let half_filled = state.accounts.get(&self.id).map_or(0, |holding| holding.half_filled);
        state.hold(self.id, half_filled.saturating_sub(bytes));
        self.budget.shared.settle(state);
    }

    /// The writer gave back the free end of its slab, of so many bytes.
    pub fn trimmed(&self, bytes: u64) {
        if let Some(holding) = self.budget.shared.lock().accounts.get_mut(&self.id) {
            holding.is_slack = false;
        }
        self.returned(bytes);
    }

    /// Whether the writer holds memory, does not wait for more, and has no grant that it has not taken.
    pub fn is_left(&self) -> bool {
        let state = self.budget.shared.lock();
        let left =
            |holding: &Holding| holding.half_filled > 0 && holding.waiting.or(holding.granted).is_none();
        state.accounts.get(&self.id).is_some_and(left)
    }

    /// The writer has ended: gives back all that it holds, and ends its wait.
    pub fn close(&self) {
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

impl BudgetState {
    /// Whether nothing in flight could help the waiters.
    pub(super) fn is_stopped(&self, total: u64) -> bool {
        decide(&self.snapshot(total)) == Decision::Relieve
    }

    /// Notifies those who watch the pressure, and starts the relief if waiters are stopped.
    pub(super) fn tell(&mut self, shared: &super::BudgetShared, stopped: bool) {
        if stopped || std::mem::take(&mut self.stopped) {
            shared.changed.notify_waiters();
        }
        self.stopped = stopped;
        if stopped && let Some(relief) = shared.relief.get() {
            self.runtimes.relieve(relief);
        }
    }
}
