//! A producer's bytes, held in memory or spilled until the store has them.

use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;

use crate::engine::spooling::{RingLoan, RingTurn};
use crate::memory::budget::{Lease, Starved};
use crate::memory::payload::Payload;
use crate::memory::relief::Relief;
use crate::memory::spool::SpoolError;
use crate::types::error::{Error, ErrorKind, Operation, Result};
use crate::types::object::Object;
use crate::upload::adaptive_part_size::AdaptivePartSize;
use crate::upload::driver::{Driver, ReadyBytes, RequestBody, RequestBytes, UploadSource, WriterState};
use crate::upload::fill::Taken;
use crate::upload::intake::{Filling, Intake, MemoryWait};
use crate::upload::part_buffer::PartBuffer;
use crate::upload::plan::Plan;
use crate::upload::session::{Ending, Remainder, Upload};
use crate::upload::spool_first::SpoolFirst;
use crate::upload::strategy::Policy;

/// The bytes of one writer that are not at the store yet.
#[derive(Debug)]
pub(in crate::upload) struct Buffered {
    upload: Arc<Upload>,
    relief: Arc<Relief>,
    /// With a spool: the writer's place in line for the buffers that spooled parts are sent through.
    line: Option<Arc<RingTurn>>,
    pub(in crate::upload) part_buffer: Arc<PartBuffer>,
    /// The parts that are kept until `finish`, where nothing is sent before.
    spool_first: Option<SpoolFirst>,
    memory: MemoryWait,
    /// Makes parts smaller while memory is short, where they may become smaller.
    adaptive_part_size: Option<Box<AdaptivePartSize>>,
}

/// The bytes of one request.
pub(in crate::upload) struct BufferedBytes {
    taken: Taken,
    line: Option<Arc<RingTurn>>,
}

impl RequestBytes for BufferedBytes {
    async fn ready(self, _: &Upload) -> Result<ReadyBytes> {
        let (payload, ring) = self.taken.payload(self.line).await;
        Ok(ReadyBytes { body: RequestBody::Bytes(payload), line: None, ring })
    }
}

impl UploadSource for Buffered {
    type Bytes = BufferedBytes;

    fn upload(&self) -> &Arc<Upload> {
        &self.upload
    }

    fn open(&mut self) -> Result<()> {
        match &mut self.spool_first {
            Some(spool_first) => {
                spool_first.open();
                Ok(())
            }
            None => self.part_buffer.open(),
        }
    }

    fn take(&mut self, _: Range<u64>, plan: &mut Plan) -> Result<BufferedBytes> {
        // Another upload may have been refused since this one began.
        if let Some(most) = self.upload.requests.endpoint.facts.max_parts() {
            plan.limit_parts(most);
        }
        if let Some(adaptive_part_size) = &mut self.adaptive_part_size {
            plan.narrow(adaptive_part_size.next());
        }
        let taken = self.part_buffer.take(memory_of(plan.part(), &self.relief))?;
        Ok(BufferedBytes { taken, line: self.line.clone() })
    }

    fn keep(
        &mut self,
        number: u32,
        range: Range<u64>,
        bytes: BufferedBytes,
        plan: &Plan,
    ) -> Option<BufferedBytes> {
        let Some(spool_first) = &mut self.spool_first else { return Some(bytes) };
        let part = (number, range, bytes.taken);
        if plan.is_finished() && self.upload.backend.appending().is_some() {
            // The session may be one that is appended to, part after part.
            spool_first.behind(part);
        } else if plan.is_finished() {
            spool_first.last(part);
        } else {
            spool_first.part(part, &self.part_buffer, &self.relief);
        }
        None
    }

    fn keeps_parts(&self) -> bool {
        self.spool_first.is_some()
    }

    fn kept(&mut self) -> Option<(u32, Range<u64>, BufferedBytes)> {
        let spool_first = self.spool_first.as_mut()?;
        if spool_first.take_open() {
            self.upload.open();
        }
        let kept = spool_first.next();
        if kept.is_none() {
            self.spool_first = None;
        }
        kept.map(|(number, range, taken)| (number, range, BufferedBytes { taken, line: self.line.clone() }))
    }

    fn end(&mut self) -> Ending {
        self.memory.forget();
        (self.adaptive_part_size, self.spool_first) = (None, None);
        self.part_buffer.end()
    }
}

impl Buffered {
    /// Opens the session now, also where parts are kept until all bytes are in.
    pub(in crate::upload) fn open_now(&self) -> Result<()> {
        self.part_buffer.open()
    }

    /// The bytes of the part that is being filled, which stay there; and the buffers that spooled bytes are read through,
    /// until they are read.
    pub(in crate::upload) async fn tail(&self) -> (Payload, Option<RingLoan>) {
        self.part_buffer.copy().payload(self.line.clone()).await
    }
}

impl Driver<Buffered> {
    /// A writer of `plan`, whose policy is `policy`.
    pub(in crate::upload) fn buffered(
        upload: Arc<Upload>,
        plan: Plan,
        policy: Policy,
        relief: Arc<Relief>,
        line: Option<Arc<RingTurn>>,
        idle_limit: Option<Duration>,
    ) -> Self {
        let part = memory_of(plan.part(), &relief);
        let adaptive_part_size = policy.least.map(|least| {
            let (flow, memory) = (upload.requests.flow.clone(), relief.budget().total());
            Box::new(AdaptivePartSize::new(flow, memory, policy.in_flight, plan.part(), least))
        });
        let buffered = Buffered {
            adaptive_part_size,
            part_buffer: PartBuffer::new(upload.clone(), relief.clone(), part, idle_limit),
            line,
            spool_first: policy.spool_first.then(|| SpoolFirst::new(upload.runtime.clone())),
            relief,
            memory: MemoryWait::default(),
            upload,
        };
        Self::new(buffered, plan, policy.in_flight)
    }

    /// Aborts the upload; waits until the store has released the session. May be called again, also after the
    /// upload has failed. Nobody can continue from its points any more.
    pub(in crate::upload) async fn abort(&mut self) -> Result<()> {
        let upload = self.source.upload.clone();
        if !upload.forget_points() {
            return self.discard().await;
        }
        let session = upload.session_id().await;
        self.discard().await?;
        upload.remove_points(&session).await
    }

    /// Ends the upload without publishing it. The session is aborted, unless somebody has a point of it.
    pub(in crate::upload) async fn discard(&mut self) -> Result<()> {
        self.state = WriterState::Failed;
        let ending = self.source.end();
        ending.await.map_err(|error| error.again())
    }

    /// Waits until all parts that were cut are at the store.
    pub(in crate::upload) fn poll_stored(&mut self, cx: &mut Context<'_>) -> Poll<Result<()>> {
        self.check_open()?;
        ready!(self.poll_spooled(cx))?;
        self.poll_sent(cx)
    }

    /// Sends all bytes to the store, for an object that is published later; `until` is when its lifetime ends.
    pub(in crate::upload) fn poll_prepare(
        &mut self,
        cx: &mut Context<'_>,
        until: u64,
    ) -> Poll<Result<Remainder>> {
        if matches!(self.state, WriterState::Open) {
            ready!(self.poll_all_taken(cx))?;
            self.prepare(until)?;
            self.source.part_buffer.release();
        }
        if !matches!(self.state, WriterState::Finishing | WriterState::Prepared) {
            return Poll::Ready(Err(self.closed()));
        }
        self.poll_prepared(cx)
    }

    /// Waits until the last bytes can be sent.
    fn poll_all_taken(&mut self, cx: &mut Context<'_>) -> Poll<Result<()>> {
        self.check_open()?;
        ready!(self.poll_spooled(cx))?;
        if self.plan.appends() {
            ready!(self.poll_not_full(cx))?;
        }
        self.source.memory.forget();
        self.source.adaptive_part_size = None;
        Poll::Ready(self.source.part_buffer.finish().map_err(|error| self.fail(error)))
    }

    /// Waits until the kept parts are in the spool.
    fn poll_spooled(&mut self, cx: &mut Context<'_>) -> Poll<Result<()>> {
        let Buffered { upload, relief, part_buffer, spool_first: Some(spool_first), .. } = &mut self.source
        else {
            return Poll::Ready(Ok(()));
        };
        match ready!(spool_first.poll_spooled(cx, part_buffer, relief)) {
            Ok(()) => Poll::Ready(Ok(())),
            Err(error) => {
                let message = error.to_string();
                let kind = match error {
                    SpoolError::Full(_) => ErrorKind::NoSpace,
                    SpoolError::Failed { .. } => ErrorKind::Source, // as where the spool can't be read
                };
                let failed = upload.error(kind, Operation::Write, message).with_source(error);
                Poll::Ready(Err(self.fail(failed)))
            }
        }
    }
}

impl Intake for Driver<Buffered> {
    fn upload(&self) -> &Arc<Upload> {
        &self.source.upload
    }

    fn position(&self) -> u64 {
        self.plan.size()
    }

    fn reach(&self) -> u64 {
        self.plan.reach()
    }

    fn check_open(&mut self) -> Result<()> {
        if !matches!(self.state, WriterState::Open) {
            return Err(self.closed());
        }
        self.source.part_buffer.check().map_err(|error| self.fail(error))
    }

    fn is_published(&self) -> bool {
        matches!(self.state, WriterState::Published(_))
    }

    fn is_at_cut(&self) -> bool {
        self.plan.room() == 0
    }

    fn poll_room(&mut self, cx: &mut Context<'_>) -> Poll<Result<usize>> {
        self.check_open()?;
        self.poll_results(cx)?;
        ready!(self.poll_spooled(cx))?;
        self.more()?;
        ready!(self.poll_spooled(cx))?;
        if self.is_full() {
            ready!(self.poll_not_full(cx))?;
        }
        Poll::Ready(Ok(usize::try_from(self.plan.room()).unwrap_or(usize::MAX)))
    }

    fn poll_lease(&mut self, cx: &mut Context<'_>, bytes: u64) -> Poll<Result<Lease, Starved>> {
        let Buffered { upload, part_buffer, memory, adaptive_part_size, .. } = &mut self.source;
        // Locked, so that the writer is not taken for idle when it has just been granted memory and its last
        // byte is long ago.
        let mut state = part_buffer.lock();
        let lease = memory.poll(cx, bytes, &upload.requests.progress, || part_buffer.grow(bytes));
        adaptive_part_size
            .iter_mut()
            .for_each(|adaptive_part_size| adaptive_part_size.waits(lease.is_pending()));
        let lease = ready!(lease);
        state.goes_on();
        Poll::Ready(lease)
    }

    fn full_slab(&self) -> usize {
        self.source.relief.budget().slab_size()
    }

    fn next_slab(&self, at_hand: usize) -> u64 {
        let (room, full) = (self.plan.room(), self.full_slab() as u64);
        self.source.part_buffer.next_slab(self.plan.part() - room, at_hand as u64).min(full).min(room)
    }

    fn add_slab(&mut self, lease: Lease) {
        self.source.part_buffer.add_slab(lease);
    }

    fn has_spare(&self) -> bool {
        !self.source.part_buffer.lock().fill.spare().is_empty()
    }

    fn fill(&mut self, most: usize, fill: Filling<'_>) -> Option<Poll<io::Result<usize>>> {
        // The lock keeps the slab in place while it is filled.
        let mut state = self.source.part_buffer.lock();
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
        self.source.part_buffer.share(lease, bytes);
    }

    fn took(&mut self, bytes: usize) -> Result<()> {
        self.source.part_buffer.lock().goes_on();
        self.push(bytes as u64)
    }

    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<Result<()>> {
        Poll::Ready(if matches!(self.state, WriterState::Failed) {
            Err(self.closed())
        } else {
            self.poll_results(cx)
        })
    }

    fn poll_finish(&mut self, cx: &mut Context<'_>) -> Poll<Result<Object>> {
        if matches!(self.state, WriterState::Open) {
            ready!(self.poll_all_taken(cx))?;
            self.finish()?;
            self.source.part_buffer.release();
        }
        self.poll_published(cx)
    }

    fn fail(&mut self, error: Error) -> Error {
        Driver::fail(self, error)
    }
}

/// How much memory a part of `part` bytes takes, as the budget must plan for it. With a spool the largest
/// holder can always be spilled, so large parts count as half of the budget at most, and need not stop all
/// other writers.
fn memory_of(part: u64, relief: &Relief) -> u64 {
    let total = relief.budget().total();
    part.min(if relief.spool().is_some() { total / 2 } else { total })
}
