//! Ends waits for memory that nothing in flight can end, because half-filled parts hold the memory. First it spills
//! those parts to the spool, the largest first; where no spool takes them, it ends writers that were idle beyond
//! their limit; where that does not help either, the longest wait becomes an error.

use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::StreamExt;
use tokio::runtime::Handle;
use tokio::time::{Instant, sleep_until, timeout};
use tracing::{debug, warn};

use super::spooling::Spooling;
use crate::memory::budget::{Acquire, Budget, HalfFilled, Pressure, Relieving, Share, Starved};
use crate::types::amount::About;

/// Watches one budget.
#[derive(Debug)]
pub(crate) struct Relief {
    budget: Budget,
    spooling: Option<Arc<Spooling>>,
    /// How long a wait that nothing in flight can end may last.
    patience: Duration,
    /// The runtime of the writer that was started last: for waits outside of any runtime.
    runtime: Mutex<Option<Handle>>,
}

impl Relief {
    /// One part in this many of the budget is spilled at once, so that thousands of small holders need few calls.
    const BATCH: u64 = 8;
    /// How many parts are spilled in parallel.
    const TOGETHER: usize = 16;
    /// Polling interval: nothing notifies relief when granted memory is filled or a disk gains room.
    const LOOK_AGAIN: Duration = Duration::from_millis(100);
    /// After one wait was ended with an error, no other is ended for this long.
    const SEEN: Duration = Duration::from_millis(5);
    /// The longest time between two checks.
    const LONGEST: Duration = Duration::from_secs(3600);
    /// A check that takes longer than this, with thousands of holders, is followed by a pause of `RARER` times its
    /// duration, unless the spool frees blocks.
    const QUICK: Duration = Duration::from_micros(100);
    const RARER: u32 = 10;
    /// The most holders that an error names.
    const NAMED: usize = 3;

    pub(crate) fn new(budget: Budget, spooling: Option<Arc<Spooling>>, patience: Duration) -> Arc<Self> {
        let relief = Arc::new(Self { budget: budget.clone(), spooling, patience, runtime: Mutex::default() });
        let weak = Arc::downgrade(&relief);
        budget.set_relief(move |runtime, relieving| {
            let Some(relief) = weak.upgrade() else { return };
            let last = || relief.runtime.lock().unwrap_or_else(PoisonError::into_inner).clone();
            if let Some(runtime) = runtime.cloned().or_else(last) {
                runtime.spawn(relief.work(relieving));
            }
        });
        relief
    }

    pub(crate) fn budget(&self) -> &Budget {
        &self.budget
    }

    pub(crate) fn spooling(&self) -> Option<&Arc<Spooling>> {
        self.spooling.as_ref()
    }

    /// A writer was started on this runtime.
    pub(crate) fn on(&self, runtime: &Handle) {
        *self.runtime.lock().unwrap_or_else(PoisonError::into_inner) = Some(runtime.clone());
    }

    async fn work(self: Arc<Self>, relieving: Relieving) {
        let mut relieving = Some(relieving);
        while let Some(at_work) = relieving {
            self.relieve().await;
            relieving = self.budget.relieved(at_work);
        }
    }

    async fn relieve(&self) {
        let (mut freed_at, mut tried_at) = (None::<Instant>, None::<Instant>);
        loop {
            let (mut freed, changed) = (pin!(self.freed()), self.budget.changed());
            let looked = Instant::now();
            let pressure = self.budget.pressure();
            if matches!(pressure, Pressure::Passing) {
                return;
            }
            let look = looked.elapsed();
            let (taken_back, next_grant) = self.budget.take_back(Acquire::UNTAKEN);
            if taken_back > 0 {
                continue;
            }
            let Pressure::HalfFilled(mut seen) = pressure else {
                let wake = next_grant.unwrap_or(looked + Self::LOOK_AGAIN);
                tokio::select! {
                    () = changed => {}
                    () = sleep_until(wake) => {}
                }
                continue;
            };
            let began = Instant::now();
            let (spilled, works) = self.spill(&seen.holders).await;
            let now = Instant::now();
            // The wait was for a slow disk that works, even where the part was sent from memory meanwhile.
            if works && now - began > Self::LOOK_AGAIN {
                tried_at = Some(now);
            }
            if spilled > 0 {
                continue;
            }
            if now - began > Self::LOOK_AGAIN {
                // The state from before a slow write is out of date. Do not spill again at once: where disks are slow
                // to fail, that would never end.
                let Pressure::HalfFilled(since) = self.budget.pressure() else { continue };
                seen = since;
            }
            let HalfFilled { since, waited_since, refusals, holders } = seen;
            let (ended, next_idle) = end_idle(&holders, now);
            if ended > 0 {
                continue;
            }
            let moves = |spooling: &Arc<Spooling>| spooling.draining() > 0 || spooling.spool().is_writing();
            let draining = self.spooling.as_ref().is_some_and(moves);
            // Progress of the spool counts: a part that leaves it makes room there, a part on its way there leaves
            // memory.
            let since = if draining { now } else { freed_at.map_or(since, |at| at.max(since)) };
            let since = [going_on(&holders), tried_at].into_iter().flatten().fold(since, Instant::max);
            // A writer whose wait is refused gives back its memory, which may be enough for the others; half of the
            // time is enough to see whether it is, so each refusal halves the patience. `None`: the patience is
            // endless, and nothing ends the wait.
            let moved = since.checked_add(self.patience / 2_u32.saturating_pow(refusals));
            let waited = waited_since.checked_add(self.patience);
            let until = moved.zip(waited).map(|(moved, waited)| moved.max(waited));
            if until.is_some_and(|until| until <= now) {
                let starved = self.starved(&holders, now - waited_since);
                warn!(%starved, "memory is held by writers that do not go on");
                self.budget.refuse_longest(starved, Self::SEEN);
                // The writer gives back its memory when it sees the error, which may be enough for the others.
                if timeout(Self::SEEN, freed).await.is_ok() {
                    freed_at = Some(Instant::now());
                }
                continue;
            }
            let wakes = [until, next_idle, next_grant].into_iter().flatten();
            let mut wake = wakes.fold(now + Self::LONGEST, Instant::min);
            if self.spooling.is_some() {
                wake = wake.min(now + Self::LOOK_AGAIN);
            }
            tokio::select! {
                // While requests pass, something changes all the time.
                () = changed => {
                    if look > Self::QUICK && timeout(look * Self::RARER, freed).await.is_ok() {
                        freed_at = Some(Instant::now());
                    }
                }
                () = freed.as_mut() => freed_at = Some(Instant::now()),
                () = sleep_until(wake) => {}
            }
        }
    }

    /// Waits until the spool frees blocks, counted from this call on.
    fn freed(&self) -> impl Future<Output = ()> {
        let notified = self.spooling.as_ref().map(|spooling| spooling.spool().freed().notified());
        async move {
            match notified {
                Some(notified) => notified.await,
                None => std::future::pending().await,
            }
        }
    }

    /// Spills a share of the budget from the holders with the most bytes. Returns how many bytes it spilled, and
    /// whether no write failed.
    async fn spill(&self, holders: &[Share]) -> (u64, bool) {
        let Some(spooling) = self.spooling.as_ref().filter(|spooling| spooling.spool().has_room()) else {
            return (0, false);
        };
        let least = self.budget.total() / Self::BATCH;
        let (mut asked, mut spills) = (0, Vec::new());
        for (place, share) in holders.iter().enumerate() {
            // Stop at the first waiting holder: it can proceed once those before it have spilled. If it is the very
            // first, spill it too: its own bytes are what leave it no room.
            if asked >= least || (share.waits && place > 0) {
                break;
            }
            asked += share.bytes;
            if let Some(holder) = share.holder.upgrade() {
                spills.push(holder.spill(spooling.spool().clone()));
            }
        }
        let spills = futures::stream::iter(spills).buffer_unordered(Self::TOGETHER);
        let results: Vec<_> = spills.collect().await;
        let (mut bytes, mut works) = (0, true);
        for result in results {
            match result {
                Ok(spilled) => bytes += spilled,
                Err(error) => {
                    debug!(%error, "a part stays in memory");
                    works = false;
                }
            }
        }
        (bytes, works)
    }

    fn starved(&self, holders: &[Share], waited: Duration) -> Starved {
        let held: u64 = holders.iter().map(|share| share.bytes).sum();
        let named = holders.iter().filter_map(|share| Some((share, share.holder.upgrade()?)));
        let named: Vec<_> = named
            .take(Self::NAMED)
            .map(|(share, holder)| {
                let idle = holder.last_write().elapsed().as_secs_f64();
                let held = About(share.bytes);
                format!("{} holds {held} and took its last byte {idle:.1} s ago", holder.object())
            })
            .collect();
        let remedy = match &self.spooling {
            None => "set a spool directory".to_owned(),
            Some(spooling) => format!("make room in the spool ({})", spooling.spool().fullness()),
        };
        let more = if holders.len() > named.len() { ", …" } else { "" };
        let message = format!(
            "waited {:.1} s for memory that no request can free: {} of {} are held by {} writers with \
             half-filled parts whose producers do not go on ({}{more}); {remedy}, raise the memory, or drop \
             writers that are abandoned",
            waited.as_secs_f64(),
            About(held),
            About(self.budget.total()),
            holders.len(),
            named.join(", "),
        );
        Starved(message.into())
    }
}

/// When a holder of the most bytes last took a byte: it fills memory granted earlier without notifying the budget,
/// and so completes its part. Progress of smaller holders would help nobody.
fn going_on(holders: &[Share]) -> Option<Instant> {
    let most = holders.first()?.bytes;
    let fill = holders.iter().take_while(|share| share.bytes == most).filter(|share| !share.waits);
    fill.filter_map(|share| Some(share.holder.upgrade()?.last_write())).max()
}

/// Ends writers that are idle beyond their own limit. Returns how many, and when the next would be due.
fn end_idle(holders: &[Share], now: Instant) -> (usize, Option<Instant>) {
    let (mut ended, mut next) = (0, None::<Instant>);
    for share in holders.iter().filter(|share| !share.waits) {
        let Some(holder) = share.holder.upgrade() else { continue };
        let Some(limit) = holder.idle_limit() else { continue };
        let Some(due) = holder.last_write().checked_add(limit) else { continue };
        if due > now {
            next = Some(next.map_or(due, |next| next.min(due)));
        } else if holder.end_idle(limit) {
            warn!(object = holder.object(), "idle for too long while others waited: its upload was ended");
            ended += 1;
        }
    }
    (ended, next)
}
