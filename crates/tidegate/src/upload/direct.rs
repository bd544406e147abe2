//! The writer without a journal: takes bytes into the part that is being filled. Full parts are sent in
//! `commit.rs`.

use std::io;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;

use super::adaptive_part_size::Narrowing;
use super::intake::{Filling, Memory, Taking};
use super::part_buffer::Held;
use super::plan::Plan;
use super::spool_first::Deferred;
use super::state::Upload;
use super::strategy::Policy;
use crate::engine::spooling::Line;
use crate::memory::budget::{Lease, Starved};
use crate::memory::relief::Relief;
use crate::types::error::{Error, ErrorKind, Operation, Result};
use crate::types::object::Object;

/// The producer's side of an upload whose bytes are held in memory, or spilled, until the store has them.
#[derive(Debug)]
pub(super) struct Direct {
    pub(super) upload: Arc<Upload>,
    pub(super) in_flight: usize,
    pub(super) relief: Arc<Relief>,
    /// With a spool: the writer's place in line for the buffers that spooled parts are sent through.
    pub(super) line: Option<Arc<Line>>,
    pub(super) plan: Plan,
    pub(super) held: Arc<Held>,
    /// The parts that are kept until `finish`, where nothing is sent before.
    pub(super) deferred: Option<Deferred>,
    pub(super) memory: Memory,
    /// Makes parts smaller while memory is short, where they may become smaller.
    pub(super) narrowing: Option<Box<Narrowing>>,
    pub(super) stage: Stage,
}

pub(super) enum Stage {
    Open,
    /// All bytes were taken; the operation that publishes them, once it is in flight.
    Committing(Option<Operation>),
    /// The object, until `finish` has taken it.
    Committed(Option<Box<Object>>),
    Failed,
}

impl std::fmt::Debug for Stage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Open => "Open",
            Self::Committing(_) => "Committing",
            Self::Committed(_) => "Committed",
            Self::Failed => "Failed",
        })
    }
}

impl Direct {
    pub(super) fn new(
        upload: Arc<Upload>,
        policy: Policy,
        relief: Arc<Relief>,
        line: Option<Arc<Line>>,
        idle_limit: Option<Duration>,
    ) -> Self {
        let plan = Plan::new(upload.backend.capabilities(), policy.cut).down_to(policy.least);
        let part = memory_of(plan.part(), &relief);
        let narrowing = policy.least.map(|least| {
            let (flow, memory) = (upload.requests.flow.clone(), relief.budget().total());
            Box::new(Narrowing::new(flow, memory, policy.in_flight, plan.part(), least))
        });
        Self {
            narrowing,
            in_flight: policy.in_flight,
            held: Held::new(upload.clone(), relief.clone(), part, idle_limit),
            line,
            deferred: policy.deferred.then(|| Deferred::new(upload.runtime.clone())),
            relief,
            plan,
            memory: Memory::default(),
            stage: Stage::Open,
            upload,
        }
    }

    /// Aborts the upload; waits until the store has released the session. May be called again, also after the
    /// upload has failed.
    pub(super) async fn abort(&mut self) -> Result<()> {
        self.stage = Stage::Failed;
        self.memory.forget();
        (self.narrowing, self.deferred) = (None, None);
        let ending = self.held.end();
        ending.await.map_err(|error| error.again())
    }

    /// Aborts the upload in a task of its own.
    fn abandon(&self) {
        drop(self.held.end());
    }

    pub(super) fn closed(&self) -> Error {
        let why = match self.stage {
            Stage::Failed => "the writer has failed or was aborted before",
            _ => "the writer was finished before",
        };
        self.upload.error(ErrorKind::Closed, Operation::Write, why)
    }
}

impl Taking for Direct {
    fn upload(&self) -> &Arc<Upload> {
        &self.upload
    }

    fn position(&self) -> u64 {
        self.plan.size()
    }

    fn reach(&self) -> u64 {
        self.plan.reach()
    }

    fn check_open(&mut self) -> Result<()> {
        if !matches!(self.stage, Stage::Open) {
            return Err(self.closed());
        }
        self.held.check().map_err(|error| self.fail(error))
    }

    fn is_published(&self) -> bool {
        matches!(self.stage, Stage::Committed(_))
    }

    fn is_at_cut(&self) -> bool {
        self.plan.room() == 0
    }

    fn poll_room(&mut self, cx: &mut Context<'_>) -> Poll<Result<usize>> {
        self.check_open()?;
        self.poll_parts(cx)?;
        ready!(self.poll_deferred(cx))?;
        if let Err(refused) = self.plan.more() {
            let error = self.upload.error(ErrorKind::TooLarge, Operation::Write, refused.to_string());
            return Poll::Ready(Err(self.fail(error)));
        }
        self.dispatch()?;
        ready!(self.poll_deferred(cx))?;
        if self.is_full() {
            // The end of a part wakes this task: `poll_parts` has registered its waker.
            ready!(self.poll_outstanding(cx))?;
        }
        Poll::Ready(Ok(usize::try_from(self.plan.room()).unwrap_or(usize::MAX)))
    }

    fn poll_lease(&mut self, cx: &mut Context<'_>, bytes: u64) -> Poll<Result<Lease, Starved>> {
        // Locked, so that the writer is not taken for idle when it has just been granted memory and its last
        // byte is long ago.
        let mut state = self.held.lock();
        let progress = &self.upload.requests.progress;
        let lease = self.memory.poll(cx, bytes, progress, || self.held.grow(bytes));
        self.narrowing.iter_mut().for_each(|narrowing| narrowing.waits(lease.is_pending()));
        let lease = ready!(lease);
        state.goes_on();
        Poll::Ready(lease)
    }

    fn full_slab(&self) -> usize {
        self.relief.budget().slab_size()
    }

    fn next_slab(&self, at_hand: usize) -> u64 {
        let (room, full) = (self.plan.room(), self.full_slab() as u64);
        self.held.next_slab(self.plan.part() - room, at_hand as u64).min(full).min(room)
    }

    fn add_slab(&mut self, lease: Lease) {
        self.held.add_slab(lease);
    }

    fn has_spare(&self) -> bool {
        !self.held.lock().fill.spare().is_empty()
    }

    fn fill(&mut self, most: usize, fill: Filling<'_>) -> Option<Poll<io::Result<usize>>> {
        // The lock keeps the slab in place while it is filled.
        let mut state = self.held.lock();
        let spare = state.fill.spare();
        if spare.is_empty() {
            return None;
        }
        let most = most.min(spare.len());
        let filled = fill(&mut spare[..most]);
        if let Poll::Ready(Ok(bytes)) = filled {
            state.fill.advance(bytes);
        }
        Some(filled)
    }

    fn share(&mut self, lease: Lease, bytes: Bytes) {
        self.held.lock().fill.add_shared(lease, bytes);
    }

    fn took(&mut self, bytes: usize) -> Result<()> {
        self.held.lock().goes_on();
        self.upload.requests.progress.accepted(bytes as u64);
        self.plan.push(bytes as u64);
        self.dispatch()
    }

    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<Result<()>> {
        Poll::Ready(if matches!(self.stage, Stage::Failed) {
            Err(self.closed())
        } else {
            self.poll_parts(cx)
        })
    }

    fn poll_finish(&mut self, cx: &mut Context<'_>) -> Poll<Result<Object>> {
        self.poll_commit(cx)
    }

    fn fail(&mut self, error: Error) -> Error {
        self.stage = Stage::Failed;
        self.memory.forget();
        self.narrowing = None;
        self.deferred = None;
        self.abandon();
        error
    }
}

impl Drop for Direct {
    fn drop(&mut self) {
        if matches!(self.stage, Stage::Open | Stage::Committing(_)) {
            self.stage = Stage::Failed;
            self.abandon();
        }
    }
}

/// How much memory a part of `part` bytes takes, as the budget must plan for it. With a spool the largest
/// holder can always be spilled, so large parts count as half of the budget at most, and need not stop all
/// other writers.
pub(super) fn memory_of(part: u64, relief: &Relief) -> u64 {
    let total = relief.budget().total();
    part.min(if relief.spool().is_some() { total / 2 } else { total })
}
