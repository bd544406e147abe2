//! Ends waits for memory that nothing in flight can end, because half-filled parts hold the memory:
//! [`decide`] says what to do next, and this task does it. It spills those parts to the spool, the largest first;
//! where no spool takes them, it takes back the free ends of their slabs, and ends writers that were idle beyond their
//! limit; where that does not help either, the longest wait becomes an error.

use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::StreamExt;
use tokio::runtime::Handle;
use tokio::time::{Instant, sleep_until, timeout};
use tracing::{debug, warn};

use super::budget::{
    Budget, Decision, Holder, LOOK_AGAIN, MemorySnapshot, Relieving, Share, SpoolState, Stall, Starved,
    Tried, decide,
};
use super::spool::Spool;
use crate::types::amount::Rounded;

/// Watches one budget.
#[derive(Debug)]
pub struct Relief {
    budget: Budget,
    spool: Option<Spool>,
    /// How long a wait that nothing in flight can end may last.
    patience: Duration,
    /// The runtime of the writer that was started last: for waits outside of any runtime.
    runtime: Mutex<Option<Handle>>,
}

/// What one run of the relief has seen and tried so far.
#[derive(Debug, Default)]
struct Efforts {
    /// When the spool last freed blocks.
    freed_at: Option<Instant>,
    /// When a slow disk that works last ended a write.
    wrote_at: Option<Instant>,
    tried: Tried,
}

/// The holders of half-filled memory, in the order of [`Stall::shares`].
type Holders = Vec<Arc<dyn Holder>>;

impl Relief {
    /// How many parts are spilled in parallel.
    const TOGETHER: usize = 16;
    /// After one wait was ended with an error, no other is ended for this long.
    const SEEN: Duration = Duration::from_millis(5);
    /// A look that takes longer than this, with thousands of holders, is followed by a pause of `RARER` times its
    /// duration, unless the spool frees blocks.
    const QUICK: Duration = Duration::from_micros(100);
    const RARER: u32 = 10;
    /// The most holders that an error names.
    const NAMED: usize = 3;

    /// Relief for a budget: spills to `spool`, and turns a wait of `patience` that nothing can end into an error.
    pub fn new(budget: Budget, spool: Option<Spool>, patience: Duration) -> Arc<Self> {
        let relief = Arc::new(Self { budget: budget.clone(), spool, patience, runtime: Mutex::default() });
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

    /// The budget that is relieved.
    pub fn budget(&self) -> &Budget {
        &self.budget
    }

    /// The spool, if directories are set.
    pub fn spool(&self) -> Option<&Spool> {
        self.spool.as_ref()
    }

    /// A writer was started on this runtime.
    pub fn on(&self, runtime: &Handle) {
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
        let mut efforts = Efforts::default();
        loop {
            let (mut freed, changed) = (pin!(self.freed()), self.budget.changed());
            let looked = Instant::now();
            let Some((snapshot, holders)) = self.look(&efforts, looked) else { return };
            let look = looked.elapsed();
            let (decision, stall) = (decide(&snapshot), snapshot.stall);
            let Some(stall) = stall else { return };
            match decision {
                Decision::Reclaim => {
                    self.budget.reclaim();
                }
                Decision::Spill(numbers) => {
                    let largest = picked(&holders, &numbers).cloned().collect();
                    drop(holders);
                    self.spill(largest, &mut efforts).await;
                }
                Decision::Trim(numbers) => {
                    let bytes: u64 = picked(&holders, &numbers).map(|holder| holder.trim()).sum();
                    debug!(bytes, writers = numbers.len(), "free ends of slabs were taken back");
                }
                Decision::EndIdle(numbers) => {
                    let ended = numbers.iter().filter(|number| end_idle(&holders, &stall.shares, **number));
                    efforts.tried = if ended.count() > 0 { Tried::Nothing } else { Tried::EndIdle };
                }
                Decision::Refuse => {
                    let starved = self.starved(&stall, &holders);
                    drop(holders);
                    warn!(%starved, "memory is held by writers that do not go on");
                    self.budget.refuse_longest(starved, Self::SEEN);
                    efforts.tried = Tried::Nothing;
                    // The writer gives back its memory when it sees the error, which may be enough for the others.
                    if timeout(Self::SEEN, freed).await.is_ok() {
                        efforts.freed_at = Some(Instant::now());
                    }
                }
                Decision::AwaitUntil(wake) => {
                    efforts.tried = Tried::Nothing;
                    // A writer must be able to end while this waits.
                    drop(holders);
                    let is_freed = tokio::select! {
                        // What the spool freed counts, also where something else changed at the same time.
                        biased;
                        () = freed.as_mut() => true,
                        // While requests pass, something changes all the time.
                        () = changed => {
                            look > Self::QUICK && timeout(look * Self::RARER, freed).await.is_ok()
                        }
                        () = sleep_until(wake) => false,
                    };
                    if is_freed {
                        efforts.freed_at = Some(Instant::now());
                    }
                }
                Decision::Rest
                | Decision::Grant(_)
                | Decision::CallBack(_)
                | Decision::AwaitInFlight
                | Decision::Relieve => return,
            }
        }
    }

    /// The figures with a close look at who holds the memory; `None` where no relief is needed.
    fn look(&self, efforts: &Efforts, now: Instant) -> Option<(MemorySnapshot, Holders)> {
        let look = self.budget.look()?;
        let (mut shares, mut holders) = (Vec::new(), Vec::new());
        for holding in look.holdings {
            // A holder that is gone is about to give back its memory.
            let Some(holder) = holding.holder.upgrade() else { continue };
            shares.push(Share {
                bytes: holding.bytes,
                activity: holding.activity,
                is_slack: holding.is_slack,
                last_write: holder.last_write(),
                idle_limit: holder.idle_limit(),
            });
            holders.push(holder);
        }
        let moves = |spool: &Spool| spool.draining() > 0 || spool.is_writing();
        let spool = match &self.spool {
            None => SpoolState::Absent,
            Some(spool) if spool.has_room() => SpoolState::Room { moves: moves(spool) },
            Some(spool) if moves(spool) => SpoolState::Draining,
            Some(_) => SpoolState::Full,
        };
        let events = [look.moved_at, efforts.freed_at, efforts.wrote_at].into_iter().flatten();
        let stall = Stall {
            now,
            patience: self.patience,
            waited_since: look.waited_since,
            moved_at: events.fold(look.waited_since, Instant::max),
            granted_at: look.granted_at,
            refusals: look.refusals,
            shares,
            spool,
            tried: efforts.tried,
        };
        let mut snapshot = look.snapshot;
        snapshot.stall = Some(stall);
        Some((snapshot, holders))
    }

    /// Waits until the spool frees blocks, counted from this call on.
    fn freed(&self) -> impl Future<Output = ()> {
        let notified = self.spool.as_ref().map(|spool| spool.freed().notified());
        async move {
            match notified {
                Some(notified) => notified.await,
                None => std::future::pending().await,
            }
        }
    }

    /// Spills the parts of these writers.
    async fn spill(&self, holders: Holders, efforts: &mut Efforts) {
        let Some(spool) = &self.spool else { return };
        let began = Instant::now();
        let spills: Vec<_> = holders.into_iter().map(|holder| holder.spill(spool.clone())).collect();
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
        let now = Instant::now();
        // The wait was for a slow disk that works, even where the part was sent from memory meanwhile.
        if works && now - began > LOOK_AGAIN {
            efforts.wrote_at = Some(now);
        }
        // A spill that freed nothing is not repeated at once: where disks are slow to fail, that would never end.
        efforts.tried = if bytes > 0 { Tried::Nothing } else { Tried::Spill };
    }

    fn starved(&self, stall: &Stall, holders: &[Arc<dyn Holder>]) -> Starved {
        let held: u64 = stall.shares.iter().map(|share| share.bytes).sum();
        let named: Vec<_> = stall
            .shares
            .iter()
            .zip(holders)
            .take(Self::NAMED)
            .map(|(share, holder)| {
                let idle = share.last_write.elapsed().as_secs_f64();
                let held = Rounded(share.bytes);
                format!("{} holds {held} and took its last byte {idle:.1} s ago", holder.object())
            })
            .collect();
        let remedy = match &self.spool {
            None => "set a spool directory".to_owned(),
            Some(spool) => format!("make room in the spool ({})", spool.fullness()),
        };
        let more = if holders.len() > named.len() { ", …" } else { "" };
        let message = format!(
            "waited {:.1} s for memory that no request can free: {} of {} are held by {} writers with \
             half-filled parts whose producers do not go on ({}{more}); {remedy}, raise the memory, or drop \
             writers that are abandoned",
            (stall.now - stall.waited_since).as_secs_f64(),
            Rounded(held),
            Rounded(self.budget.total()),
            holders.len(),
            named.join(", "),
        );
        Starved(message.into())
    }
}

fn picked<'a>(
    holders: &'a [Arc<dyn Holder>],
    numbers: &'a [usize],
) -> impl Iterator<Item = &'a Arc<dyn Holder>> {
    numbers.iter().filter_map(|number| holders.get(*number))
}

/// Ends this writer, unless it has continued meanwhile.
fn end_idle(holders: &[Arc<dyn Holder>], shares: &[Share], number: usize) -> bool {
    let limit = shares.get(number).and_then(|share| share.idle_limit);
    let (Some(holder), Some(limit)) = (holders.get(number), limit) else { return false };
    let ended = holder.end_idle(limit);
    if ended {
        warn!(object = holder.object(), "idle for too long while others waited: its upload was ended");
    }
    ended
}
