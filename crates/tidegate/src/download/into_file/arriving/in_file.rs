//! Takes the bytes of one chunk on their way into the file: gathers them, updates the checksum, writes them in order.

use std::future::poll_fn;
use std::ops::Range;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use bytes::Bytes;
use tokio::sync::oneshot;
use tokio::sync::oneshot::error::TryRecvError;
use tokio::time::Instant;

use super::Arriving;
use crate::backend::local::Arrival;
use crate::backend::{Fault, FaultKind};
use crate::download::source::Sink;
use crate::engine::request::Inflow;
use crate::memory::budget::Lease;
use crate::types::checksum::{Checksum, Hasher};
use crate::types::progress::Progress;

/// The destination of a chunk's missing bytes.
#[derive(Debug)]
pub(super) struct InFile {
    arrival: Arc<Arrival>,
    /// The first byte of the range, within the object.
    pub(super) at: u64,
    pub(super) inflow: Inflow,
    gather: u64,
    /// Counts the bytes of the whole download.
    received: Arc<AtomicU64>,
    /// The memory of the received bytes that are not written: held for as long as they are.
    _memory: Arc<Lease>,
    /// Held while a receiver waits for the disk, so that a hedge with the same bytes waits too.
    order: tokio::sync::Mutex<()>,
    state: Mutex<ChunkBuffer>,
}

#[derive(Debug)]
struct ChunkBuffer {
    progress: Progress,
    pieces: Vec<Bytes>,
    bytes: u64,
    /// The place in the file of the first gathered byte.
    next: u64,
    /// The checksum of all received bytes of the chunk.
    hasher: Hasher,
    /// The part of the chunk that is in the file, from its beginning.
    written: Checksum,
    writing: Option<ChunkWrite>,
    /// Why bytes could not be written. Every copy of a hedged request gets this fault: another copy may continue
    /// after one has failed.
    failed: Option<(FaultKind, String)>,
    /// The download was cut off, and takes no more bytes.
    is_closed: bool,
}

/// A write that continues if its download is dropped.
#[derive(Debug)]
struct ChunkWrite {
    bytes: u64,
    ended: oneshot::Receiver<Result<(), Fault>>,
    /// The part of the chunk that is in the file once the write has succeeded.
    reaches: Checksum,
}

impl InFile {
    /// For `range` of the object, the rest of a chunk; `there` is already in the file.
    pub(super) fn new(of: &Arriving, range: Range<u64>, there: Checksum, memory: Arc<Lease>) -> Self {
        Self {
            arrival: of.arrival.clone(),
            at: range.start,
            inflow: Inflow::new(range.end - range.start),
            gather: of.gather,
            received: of.received.clone(),
            _memory: memory,
            order: tokio::sync::Mutex::default(),
            state: Mutex::new(ChunkBuffer {
                progress: of.source.requests.progress.clone(),
                pieces: Vec::new(),
                bytes: 0,
                next: range.start,
                hasher: Hasher::resume(&there),
                written: there,
                writing: None,
                failed: None,
                is_closed: false,
            }),
        }
    }

    fn lock(&self) -> MutexGuard<'_, ChunkBuffer> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the write in flight.
    async fn written(&self) -> Result<(), Fault> {
        poll_fn(|cx| self.lock().poll_written(cx)).await
    }

    /// Waits until all bytes are written; returns the checksum of the chunk.
    pub(super) async fn finish(&self) -> Result<Checksum, Fault> {
        self.written().await?;
        {
            let mut state = self.lock();
            if state.is_closed {
                return Err(cut());
            }
            state.write_out(&self.arrival);
        }
        self.written().await?;
        Ok(self.lock().written)
    }

    /// Starts to write the received bytes, without waiting for the write.
    pub(super) fn write_what_came(&self) {
        let mut state = self.lock();
        state.look();
        if state.writing.is_none() && state.failed.is_none() && !state.is_closed {
            state.write_out(&self.arrival);
        }
    }

    /// The part of the chunk that is in the file by now.
    pub(super) fn in_file(&self) -> Checksum {
        let mut state = self.lock();
        state.look();
        state.written
    }

    /// Takes no more bytes.
    pub(super) fn close(&self) {
        self.lock().is_closed = true;
    }

    /// Writes the received bytes that are not being written, before returning, unless `until` has passed. Returns how
    /// much of the chunk is in the file.
    pub(super) fn write_rest(&self, until: Instant) -> Checksum {
        let mut state = self.lock();
        state.look();
        let may_write = state.writing.is_none() && state.failed.is_none() && Instant::now() < until;
        if may_write && self.arrival.write(&state.pieces, state.next).is_ok() {
            let bytes = std::mem::take(&mut state.bytes);
            state.pieces.clear();
            state.next += bytes;
            state.progress.acknowledged(bytes);
            state.written = state.hasher.finish();
        }
        state.written
    }
}

impl ChunkBuffer {
    /// Takes in the result of a write.
    fn ended(&mut self, ended: Result<Result<(), Fault>, ()>) {
        let Some(ChunkWrite { bytes, reaches, .. }) = self.writing.take() else { return };
        match ended {
            Ok(Ok(())) => {
                self.progress.acknowledged(bytes);
                self.written = reaches;
            }
            Ok(Err(fault)) => self.failed = Some((fault.kind, fault.to_string())),
            Err(()) => self.failed = Some((FaultKind::Source, "the runtime is shutting down".to_owned())),
        }
    }

    /// Takes in the result of the write, if it has ended.
    fn look(&mut self) {
        let Some(writing) = &mut self.writing else { return };
        match writing.ended.try_recv() {
            Ok(ended) => self.ended(Ok(ended)),
            Err(TryRecvError::Closed) => self.ended(Err(())),
            Err(TryRecvError::Empty) => {}
        }
    }

    fn poll_written(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Fault>> {
        if let Some(writing) = &mut self.writing {
            match Pin::new(&mut writing.ended).poll(cx) {
                Poll::Ready(ended) => self.ended(ended.map_err(drop)),
                Poll::Pending => return Poll::Pending,
            }
        }
        Poll::Ready(match &self.failed {
            None => Ok(()),
            Some((kind, message)) => Err(Fault::new(*kind, message.as_str())),
        })
    }

    /// Starts to write the gathered bytes; no other write may be in flight.
    fn write_out(&mut self, arrival: &Arc<Arrival>) {
        if self.pieces.is_empty() {
            return;
        }
        let (pieces, at) = (std::mem::take(&mut self.pieces), self.next);
        let bytes = std::mem::take(&mut self.bytes);
        self.next += bytes;
        debug_assert!(self.writing.is_none(), "one is waited for before the next begins");
        let (ended, reaches) = (arrival.write_in_turn(pieces, at), self.hasher.finish());
        self.writing = Some(ChunkWrite { bytes, ended, reaches });
    }
}

impl Sink for InFile {
    fn inflow(&self) -> &Inflow {
        &self.inflow
    }

    async fn take(&self, at: u64, piece: Bytes) -> Result<(), Fault> {
        let _order = self.order.lock().await;
        let is_enough = {
            let mut state = self.lock();
            if state.is_closed {
                return Err(cut());
            }
            let got = self.inflow.got();
            let end = at + piece.len() as u64;
            if end > got {
                let piece = piece.slice((got - at) as usize..);
                debug_assert_eq!(state.next + state.bytes, self.at + got);
                state.hasher.update(&piece);
                state.bytes += piece.len() as u64;
                self.received.fetch_add(piece.len() as u64, Relaxed);
                state.pieces.push(piece);
            }
            self.inflow.reaches(end);
            state.bytes >= self.gather
        };
        if is_enough {
            self.written().await?;
            // Meanwhile the rest may have been written for a note, or the download may have been cut off.
            let mut state = self.lock();
            if state.writing.is_none() && !state.is_closed {
                state.write_out(&self.arrival);
            }
        }
        Ok(())
    }
}

fn cut() -> Fault {
    Fault::new(FaultKind::Transient, "the download was cut")
}

#[cfg(test)]
mod tests {
    use super::super::arriving;
    use super::*;
    use crate::Tidegate;
    use crate::testkit::small_disk::SmallDisk;

    async fn store() -> crate::Store {
        Tidegate::builder().build().unwrap().open("memory://b").await.unwrap()
    }

    async fn begin(arriving: &Arc<Arriving>) -> Arc<InFile> {
        arriving.begin(0, Arc::new(arriving.memory().await.unwrap()))
    }

    /// Of two copies of a request, the one that waits for the disk gets the fault, and the other may continue.
    #[tokio::test]
    async fn what_could_not_be_written_is_told_to_every_copy_and_at_the_end() {
        let Some(disk) = SmallDisk::new("tmpfs", 1) else { return };
        let arriving = arriving(&store().await, &disk.path().join("out"));
        let into = begin(&arriving).await;
        let piece = Bytes::from(vec![1; 1 << 20]);
        let mut told = Vec::new();
        for at in 0..4_u64 {
            told.push(into.take(at << 20, piece.clone()).await.is_err());
        }
        assert_eq!(told, [false, false, true, true]);
        let fault = into.finish().await.unwrap_err();
        assert_eq!(fault.kind, FaultKind::NoSpace, "{fault}");
    }

    /// A note would otherwise claim bytes that a killed process has never written.
    #[tokio::test]
    async fn what_has_come_is_not_in_the_file_before_it_is_written() {
        let directory = tempfile::tempdir().unwrap();
        let arriving = arriving(&store().await, &directory.path().join("out"));
        let into = begin(&arriving).await;
        into.take(0, Bytes::from_static(b"not enough for a write")).await.unwrap();
        assert_eq!(into.in_file().covers(), 0);
        assert_eq!(into.finish().await.unwrap().covers(), 22);
        assert_eq!(into.in_file().covers(), 22);
    }

    #[tokio::test]
    async fn one_that_is_cut_has_every_byte_in_the_file_and_takes_no_more() {
        let directory = tempfile::tempdir().unwrap();
        let arriving = arriving(&store().await, &directory.path().join("out"));
        let into = begin(&arriving).await;
        let data: Vec<u8> = (0..1_000_000_u32).map(|at| (at * 7) as u8).collect();
        for (at, piece) in data.chunks(30_000).enumerate() {
            into.take(at as u64 * 30_000, Bytes::copy_from_slice(piece)).await.unwrap();
        }
        assert_eq!(arriving.cut(), 1_000_000);
        into.take(1_000_000, Bytes::from_static(b"late")).await.unwrap_err();
        let mut there = vec![0; 1_000_000];
        assert!(arriving.arrival.read(&mut there, 0).unwrap() && there == data);
        let written = into.in_file();
        assert_eq!(written, Checksum::of(written.algorithm(), &data));
    }
}
