//! Chunks on their way into a file.

use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use tokio::sync::oneshot;

use super::left::Opened;
use super::record::{Description, ENTRY};
use crate::backend::local::Arrival;
use crate::backend::{Fault, FaultKind};
use crate::budget::Budget;
use crate::checksum::{Algorithm, Checksum, Hasher};
use crate::error::{Error, ErrorKind, Operation, Result};
use crate::object::Object;
use crate::progress::{Progress, Waiting};
use crate::read::source::{Pieces, Sink, Source};
use crate::request::Inflow;

/// So much is gathered for one write, which should find it in the processor's cache; as much again comes while it is
/// written.
pub(super) const GATHER: u64 = 256 << 10;

/// The most that comes at a time, behind what was gathered so far: hyper receives into a buffer that doubles, up to
/// 816 KiB of it.
const PIECE: u64 = 1 << 20;

/// A download that is under way.
#[derive(Debug)]
pub(super) struct Arriving {
    source: Arc<Source>,
    arrival: Arc<Arrival>,
    object: Object,
    description: Option<Description>,
    there: Mutex<Vec<Option<Checksum>>>,
    budget: Budget,
    algorithm: Algorithm,
    gather: u64,
    /// The most memory that a chunk holds.
    holds: u64,
}

impl Arriving {
    pub(super) fn new(
        source: Arc<Source>,
        arrival: Arc<Arrival>,
        opened: Opened,
        budget: Budget,
        algorithm: Algorithm,
    ) -> Self {
        let Opened { object, description, there, .. } = opened;
        let known = there.iter().flatten().map(Checksum::covers).sum();
        source.requests.progress.acknowledged(known);
        let gather = GATHER.min(budget.total() / 8);
        let holds = (2 * (gather + PIECE)).min(budget.total());
        Self {
            source,
            arrival,
            object,
            description,
            there: Mutex::new(there),
            budget,
            algorithm,
            gather,
            holds,
        }
    }

    pub(super) fn object(&self) -> &Object {
        &self.object
    }

    /// How many may be under way, at most `most`: they take no more than half of the memory, or are one.
    pub(super) fn at_once(&self, most: u64) -> usize {
        (self.budget.total() / 2 / self.holds.max(1)).clamp(1, most) as usize
    }

    pub(super) fn missing(&self) -> Vec<usize> {
        let there = self.there.lock().unwrap_or_else(PoisonError::into_inner);
        there.iter().enumerate().filter(|(_, chunk)| chunk.is_none()).map(|(number, _)| number).collect()
    }

    /// Of all bytes, where none is missing.
    pub(super) fn checksum(&self) -> Checksum {
        let there = self.there.lock().unwrap_or_else(PoisonError::into_inner);
        there.iter().flatten().fold(self.algorithm.empty(), |sum, chunk| sum.then(chunk))
    }

    fn range(&self, number: usize) -> Range<u64> {
        match &self.description {
            Some(description) => description.range(number as u64),
            None => {
                let chunk = super::CHUNK.max(self.object.size.div_ceil(super::MOST_CHUNKS));
                let start = number as u64 * chunk;
                start..self.object.size.min(start + chunk)
            }
        }
    }

    /// Receives a chunk, whose request may be open already, and notes that it is there.
    pub(super) async fn receive(self: Arc<Self>, number: usize, opened: Option<Pieces>) -> Result<()> {
        let range = self.range(number);
        let url = self.source.url();
        let (memory, waiting) =
            (self.budget.lease(self.holds), self.source.requests.progress.waiting(Waiting::Memory));
        let memory = memory
            .await
            .map_err(|starved| Error::new(ErrorKind::Starved, Operation::Get, url, starved.to_string()))?;
        drop(waiting);
        let into = self.begin(range.clone());
        let received = self.source.receive(range.clone(), &self.object, &into, opened).await;
        received.map_err(|failure| self.source.failed(failure, range.start + into.inflow.got()))?;
        let checksum = self
            .note(number, into)
            .await
            .map_err(|fault| Error::from_fault(fault, Operation::Get, url, 1, std::time::Duration::ZERO))?;
        drop(memory);
        let mut there = self.there.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(chunk) = there.get_mut(number) {
            *chunk = Some(checksum);
        }
        Ok(())
    }

    /// Where the bytes of `range` go.
    fn begin(&self, range: Range<u64>) -> InFile {
        InFile {
            arrival: self.arrival.clone(),
            at: range.start,
            inflow: Inflow::new(range.end - range.start),
            gather: self.gather,
            state: tokio::sync::Mutex::new(Gathered {
                progress: self.source.requests.progress.clone(),
                pieces: Vec::new(),
                bytes: 0,
                next: range.start,
                hasher: Hasher::new(self.algorithm),
                writing: None,
                failed: None,
            }),
        }
    }

    /// Waits until all is written, and writes down that it is there.
    async fn note(&self, number: usize, into: InFile) -> Result<Checksum, Fault> {
        let mut state = into.state.into_inner();
        state.written().await?;
        state.write_out(&into.arrival);
        state.written().await?;
        let checksum = state.hasher.finish();
        if let Some(description) = &self.description {
            let entry = Bytes::copy_from_slice(&description.entry(number as u64, &checksum));
            let at = description.entries() + number as u64 * ENTRY as u64;
            let arrival = self.arrival.clone();
            crate::off::off(move || arrival.write(&[entry], at)).await?;
            self.arrival.keep(true);
        }
        Ok(checksum)
    }
}

/// Where the bytes of a chunk go.
struct InFile {
    arrival: Arc<Arrival>,
    at: u64,
    inflow: Inflow,
    gather: u64,
    /// Held while one who receives waits for the disk, so that a copy of the same bytes waits too.
    state: tokio::sync::Mutex<Gathered>,
}

struct Gathered {
    progress: Progress,
    pieces: Vec<Bytes>,
    bytes: u64,
    /// Where in the file they go.
    next: u64,
    hasher: Hasher,
    /// So many bytes; it goes on where whoever waits for it is dropped, and is waited for by who comes next.
    writing: Option<(u64, oneshot::Receiver<Result<(), Fault>>)>,
    /// What could not be written, and why: it is told to each copy of a request that is raced, for another may go on.
    failed: Option<(FaultKind, String)>,
}

impl Gathered {
    /// Waits for what is being written.
    async fn written(&mut self) -> Result<(), Fault> {
        if let Some((bytes, writing)) = &mut self.writing {
            let (bytes, ended) = (*bytes, writing.await);
            self.writing = None;
            match ended {
                Ok(Ok(())) => self.progress.acknowledged(bytes),
                Ok(Err(fault)) => self.failed = Some((fault.kind, fault.to_string())),
                Err(_) => self.failed = Some((FaultKind::Source, "the runtime is shutting down".to_owned())),
            }
        }
        match &self.failed {
            None => Ok(()),
            Some((kind, message)) => Err(Fault::new(*kind, message.as_str())),
        }
    }

    /// Has what was gathered written.
    fn write_out(&mut self, arrival: &Arc<Arrival>) {
        let (pieces, at) = (std::mem::take(&mut self.pieces), self.next);
        let bytes = std::mem::take(&mut self.bytes);
        self.next += bytes;
        if !pieces.is_empty() {
            let before = self.writing.take();
            self.writing = Some((bytes, arrival.write_in_turn(pieces, at)));
            debug_assert!(before.is_none(), "one is waited for before the next begins");
        }
    }
}

impl Sink for InFile {
    fn inflow(&self) -> &Inflow {
        &self.inflow
    }

    async fn take(&self, at: u64, piece: Bytes) -> Result<(), Fault> {
        let mut state = self.state.lock().await;
        let got = self.inflow.got();
        let end = at + piece.len() as u64;
        if end > got {
            let piece = piece.slice((got - at) as usize..);
            debug_assert_eq!(state.next + state.bytes, self.at + got);
            state.hasher.update(&piece);
            state.bytes += piece.len() as u64;
            state.pieces.push(piece);
        }
        self.inflow.reaches(end);
        if state.bytes >= self.gather {
            state.written().await?;
            state.write_out(&self.arrival);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Tidegate;
    use crate::read::download::AT_ONCE;
    use crate::small_disk::SmallDisk;

    /// Of an object of 4 MiB.
    fn arriving(store: &crate::Store, path: &std::path::Path) -> Arriving {
        let source = Arc::new(Source::new(store, "k", store.engine().progress.part()));
        let arrival = Arc::new(Arrival::begin(path, &"0".repeat(16)).unwrap());
        let object = Object { size: 4 << 20, ..Object::default() };
        let algorithm = Algorithm::Crc64Nvme;
        let opened = super::super::Left::nothing(object, "memory://b/k", algorithm);
        Arriving::new(source, arrival, opened, store.engine().budget.clone(), algorithm)
    }

    /// As the documentation of `DownloadBuilder::run` has it.
    #[tokio::test]
    async fn all_chunks_hold_half_of_the_memory_at_most() {
        for (mib, at_once) in [(512, 64), (256, 51), (64, 12), (4, 1)] {
            let tide = Tidegate::builder().memory(mib << 20).build().unwrap();
            let store = tide.open("memory://b").await.unwrap();
            let directory = tempfile::tempdir().unwrap();
            let arriving = arriving(&store, &directory.path().join("out"));
            assert_eq!(arriving.at_once(AT_ONCE), at_once, "{mib} MiB");
            let most = (mib << 19).max(arriving.holds);
            assert!(arriving.holds * at_once as u64 <= most && arriving.holds <= mib << 20, "{mib} MiB");
        }
    }

    /// Of two copies of a request the one that waits for the disk is told, and the other may go on.
    #[tokio::test]
    async fn what_could_not_be_written_is_told_to_every_copy_and_at_the_end() {
        let Some(disk) = SmallDisk::new("tmpfs", 1) else { return };
        let tide = Tidegate::builder().build().unwrap();
        let store = tide.open("memory://b").await.unwrap();
        let arriving = arriving(&store, &disk.path().join("out"));
        let into = arriving.begin(0..4 << 20);
        let piece = Bytes::from(vec![1; 1 << 20]);
        let mut told = Vec::new();
        for at in 0..4_u64 {
            told.push(into.take(at << 20, piece.clone()).await.is_err());
        }
        assert_eq!(told, [false, false, true, true]);
        let fault = arriving.note(0, into).await.unwrap_err();
        assert_eq!(fault.kind, FaultKind::NoSpace, "{fault}");
    }
}
