//! A range that is read ahead: a task receives it into memory on loan.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use tokio::runtime::Handle;
use tokio::task::AbortHandle;

use super::source::{AcceptedAnswer, ObjectSource, Sink};
use crate::backend::Fault;
use crate::engine::request::Inflow;
use crate::memory::budget::{Borrower, Loan, Reading};
use crate::types::error::{Error, ErrorKind, Operation, Result};
use crate::types::object::Object;

/// A range being received, or received. Dropping it cancels its request.
#[derive(Debug)]
pub(super) struct Chunk {
    pub(super) range: Range<u64>,
    received: Arc<Received>,
}

/// The state of a chunk at the byte that is asked for.
#[derive(Debug)]
pub(super) enum ChunkRead {
    /// Bytes from that byte on.
    Bytes(Bytes),
    /// No bytes: the memory was called back.
    CalledBack,
    /// No bytes: the request failed.
    Failed(Error),
}

#[derive(Debug)]
struct Received {
    inflow: Inflow,
    state: Mutex<ChunkState>,
}

#[derive(Debug, Default)]
struct ChunkState {
    /// Each piece with its offset in the range.
    pieces: VecDeque<(u64, Bytes)>,
    /// `None` once the loan was called back.
    memory: Option<Loan>,
    has_ended: bool,
    failed: Option<Error>,
    reader: Option<Waker>,
    task: Option<AbortHandle>,
}

impl Chunk {
    /// Begins to receive `range`, if there is memory for it.
    pub(super) fn begin(
        source: &Arc<ObjectSource>,
        object: &Arc<Object>,
        range: Range<u64>,
        reading: &Reading,
        runtime: &Handle,
    ) -> Option<Self> {
        let len = range.end - range.start;
        let received = Arc::new(Received { inflow: Inflow::new(len), state: Mutex::default() });
        let borrower: Weak<Received> = Arc::downgrade(&received);
        {
            // The loan may be called back at once; the lock makes that wait until it is stored here.
            let mut state = received.lock();
            state.memory = Some(reading.borrow(len, borrower)?);
        }
        let (object, asked) = (object.clone(), range.clone());
        let receiving = Receiving { source: source.clone(), into: received.clone() };
        let receive = async move {
            let Receiving { source, into } = &receiving;
            let ended = source.receive(asked.clone(), &object, &**into, None, AcceptedAnswer::Range).await;
            let at = asked.start + into.inflow.got();
            into.end(ended.map_err(|failure| source.failed(failure, at)));
        };
        // Boxed, because a task moves its future several times.
        let task = runtime.spawn(Box::pin(receive));
        received.lock().task = Some(task.abort_handle());
        Some(Self { range, received })
    }

    /// The state of the chunk at byte `at` of the object, which is in its range.
    pub(super) fn poll(&self, at: u64, cx: &mut Context<'_>) -> Poll<ChunkRead> {
        let mut state = self.received.lock();
        let at = at - self.range.start;
        let next = state.pieces.partition_point(|(begin, _)| *begin <= at).checked_sub(1);
        if let Some((begin, piece)) = next.and_then(|next| state.pieces.get(next))
            && at - begin < piece.len() as u64
        {
            return Poll::Ready(ChunkRead::Bytes(piece.slice((at - begin) as usize..)));
        }
        if let Some(error) = &state.failed {
            return Poll::Ready(ChunkRead::Failed(error.again()));
        }
        if state.memory.is_none() {
            return Poll::Ready(ChunkRead::CalledBack);
        }
        match &mut state.reader {
            Some(reader) => reader.clone_from(cx.waker()),
            None => state.reader = Some(cx.waker().clone()),
        }
        Poll::Pending
    }
}

impl Drop for Chunk {
    fn drop(&mut self) {
        if let Some(task) = self.received.lock().task.take() {
            task.abort();
        }
    }
}

/// The task that receives. If it ends early, with its runtime or by a panic, it wakes its reader with an error.
struct Receiving {
    source: Arc<ObjectSource>,
    into: Arc<Received>,
}

impl Drop for Receiving {
    fn drop(&mut self) {
        let mut state = self.into.lock();
        // A chunk that was called back is read in another way.
        if state.has_ended || state.memory.is_none() {
            return;
        }
        let (url, message) =
            (self.source.url(), "its task is gone: the runtime is shutting down, or it panicked");
        state.failed = Some(Error::new(ErrorKind::Closed, Operation::Get, url, message));
        if let Some(reader) = state.reader.take() {
            reader.wake();
        }
    }
}

impl Received {
    fn lock(&self) -> MutexGuard<'_, ChunkState> {
        // Every change completes before the lock is released, so a poisoned state is still sound.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn end(&self, ended: Result<()>) {
        let mut state = self.lock();
        state.has_ended = true;
        state.failed = ended.err();
        if let Some(reader) = state.reader.take() {
            reader.wake();
        }
    }
}

impl Sink for Received {
    fn inflow(&self) -> &Inflow {
        &self.inflow
    }

    async fn take(&self, at: u64, piece: Bytes) -> Result<(), Fault> {
        let mut state = self.lock();
        let got = self.inflow.got();
        let end = at + piece.len() as u64;
        // A chunk that was called back keeps nothing, and is cancelled.
        if end > got && state.memory.is_some() {
            state.pieces.push_back((got, piece.slice((got - at) as usize..)));
            if let Some(reader) = state.reader.take() {
                reader.wake();
            }
        }
        self.inflow.reaches(end);
        Ok(())
    }
}

impl Borrower for Received {
    fn give_back(&self) {
        let (pieces, memory, reader) = {
            let mut state = self.lock();
            if let Some(task) = state.task.take() {
                task.abort();
            }
            (std::mem::take(&mut state.pieces), state.memory.take(), state.reader.take())
        };
        // Free the bytes before the memory that accounts for them.
        drop(pieces);
        drop(memory);
        if let Some(reader) = reader {
            reader.wake();
        }
    }
}
