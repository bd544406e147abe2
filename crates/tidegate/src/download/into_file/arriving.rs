//! The chunks of a download in flight, and the notes of how much of each chunk is in the file.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::kept_bytes::Opened;
use super::note::{Chunks, Note};
use crate::backend::local::{Arrival, within_drop_limit};
use crate::backend::{Fault, FaultKind};
use crate::download::source::{AcceptedAnswer, ObjectSource, Pieces};
use crate::memory::budget::{Budget, Lease};
use crate::types::checksum::{Algorithm, Checksum};
use crate::types::error::{Error, ErrorKind, Operation, Result};
use crate::types::object::Object;
use crate::types::progress::Waiting;
use crate::types::spawn_blocking::spawn_blocking;

mod in_file;
mod one_stream;

use in_file::InFile;
use one_stream::OneStream;

/// The bytes gathered for one write, which should still be in the processor's cache; as many again arrive during the
/// write.
pub(super) const GATHER: u64 = 256 << 10;

/// The most that arrives at a time after the gathered bytes: hyper receives into a buffer that doubles, up to 816
/// KiB.
const PIECE: u64 = 1 << 20;

/// A download in flight.
#[derive(Debug)]
pub(super) struct Arriving {
    source: Arc<ObjectSource>,
    arrival: Arc<Arrival>,
    object: Object,
    note: Option<Note>,
    chunks: Chunks,
    state: Mutex<ArrivingState>,
    /// How much of each chunk is there according to the note; `None` once the download is cut off. Locked while the note
    /// is written, so that no older entry overwrites a newer one.
    noted: Mutex<Option<Vec<u64>>>,
    /// All bytes that are there according to the note.
    noted_bytes: AtomicU64,
    /// When the write of the note in progress began.
    note_began: Mutex<Option<Instant>>,
    budget: Budget,
    gather: u64,
    /// The most memory that a chunk holds.
    holds: u64,
    /// Bytes received by this download.
    received: Arc<AtomicU64>,
}

#[derive(Debug)]
struct ArrivingState {
    /// How much of each chunk is there, from its beginning on; for chunks in flight, as of before they began.
    there: Vec<Checksum>,
    under_way: ChunksInFlight,
}

type ChunksInFlight = BTreeMap<usize, Arc<InFile>>;

impl Arriving {
    /// How long a download that is cut off waits for received bytes to be written and noted.
    const CUT: Duration = Duration::from_secs(1);

    /// A disk that is at the same write of at most 1.25 MiB for two minutes is stuck and not slow: that is 11 KiB a
    /// second. So many looks in a row must see the write, because time also passes while the process is stopped.
    /// [`DownloadBuilder`](super::DownloadBuilder) documents the time.
    const STUCK_LOOKS: u32 = 12;
    const LOOK: Duration = Duration::from_secs(10);

    pub(super) fn new(
        source: Arc<ObjectSource>,
        arrival: Arc<Arrival>,
        opened: Opened,
        budget: Budget,
    ) -> Self {
        let Opened { object, note, chunks, there } = opened;
        let noted: Vec<u64> = there.iter().map(Checksum::covers).collect();
        source.requests.progress.acknowledged(noted.iter().sum());
        let gather = GATHER.min(budget.total() / 8);
        let holds = (2 * (gather + PIECE)).min(budget.total());
        Self {
            source,
            arrival,
            object,
            note,
            chunks,
            state: Mutex::new(ArrivingState { there, under_way: BTreeMap::new() }),
            noted_bytes: AtomicU64::new(noted.iter().sum()),
            noted: Mutex::new(Some(noted)),
            note_began: Mutex::default(),
            budget,
            gather,
            holds,
            received: Arc::default(),
        }
    }

    pub(super) fn object(&self) -> &Object {
        &self.object
    }

    /// Whether the endpoint's limiter adapts its number of requests.
    pub(super) fn adapts(&self) -> bool {
        self.source.requests.endpoint.limiter.adapts()
    }

    /// Bytes received by this download.
    pub(super) fn received(&self) -> u64 {
        self.received.load(Relaxed)
    }

    /// How many requests may be in flight, at most `most`: they take at most half of the memory, or are a single one.
    pub(super) fn at_once(&self, most: u64) -> usize {
        (self.budget.total() / 2 / self.holds.max(1)).clamp(1, most) as usize
    }

    /// The chunks with missing bytes, in file order.
    pub(super) fn missing(&self) -> Vec<usize> {
        let state = self.lock();
        let is_missing = |(number, there): &(usize, &Checksum)| {
            let range = self.chunks.range(*number);
            there.covers() < range.end - range.start
        };
        state.there.iter().enumerate().filter(is_missing).map(|(number, _)| number).collect()
    }

    /// The checksum of the whole object, once no byte is missing.
    pub(super) fn checksum(&self, algorithm: Algorithm) -> Checksum {
        self.lock().there.iter().fold(algorithm.empty(), |sum, chunk| sum.then(chunk))
    }

    fn lock(&self) -> MutexGuard<'_, ArrivingState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Receives the missing bytes of a chunk, whose request may be open already, and notes the chunk.
    pub(super) async fn receive(self: Arc<Self>, number: usize, opened: Option<Pieces>) -> Result<()> {
        let into = self.begin(number, Arc::new(self.memory().await?));
        let range = into.at..into.at + into.inflow.left();
        let received =
            self.source.receive(range.clone(), &self.object, &*into, opened, AcceptedAnswer::Range).await;
        received.map_err(|failure| self.source.failed(failure, range.start + into.inflow.got()))?;
        self.end(number, &into).await.map_err(|fault| self.at_file(fault))
    }

    /// Receives all missing bytes over one stream, where the store ignores ranges or has nothing to tell whether
    /// another answer is of the same object. `opened` begins at the first missing byte.
    pub(super) async fn receive_one_stream(self: Arc<Self>, opened: Option<Pieces>) -> Result<()> {
        let Some(first) = self.missing().first().copied() else { return Ok(()) };
        let memory = Arc::new(self.memory().await?);
        let start = self.chunks.range(first).start + self.lock().there[first].covers();
        let into = OneStream::new(self.clone(), start, memory);
        let range = start..self.object.size;
        let received =
            self.source.receive(range, &self.object, &into, opened, AcceptedAnswer::RangeOrWhole).await;
        received.map_err(|failure| self.source.failed(failure, start + into.got()))
    }

    /// Whether all missing bytes must come over one stream.
    pub(super) fn is_one_stream(&self) -> bool {
        self.source.is_one_stream(&self.object)
    }

    /// Keeps the bytes of chunks whose requests were cancelled.
    pub(super) async fn gather(self: &Arc<Self>) -> Result<()> {
        let under_way = std::mem::take(&mut self.lock().under_way);
        for (number, into) in under_way {
            self.end(number, &into).await.map_err(|fault| self.at_file(fault))?;
        }
        Ok(())
    }

    /// Waits for the memory of one request.
    async fn memory(&self) -> Result<Lease> {
        let _waiting = self.source.requests.progress.waiting(Waiting::Memory);
        self.budget.lease(self.holds).await.map_err(|starved| {
            let url = self.source.url();
            Error::new(ErrorKind::Starved, Operation::Get, url, starved.to_string())
        })
    }

    fn at_file(&self, fault: Fault) -> Error {
        Error::from_fault(fault, Operation::Get, self.source.url(), 1, Duration::ZERO)
    }

    /// Writes the rest of a chunk's received bytes, and notes them.
    async fn end(self: &Arc<Self>, number: usize, into: &InFile) -> Result<(), Fault> {
        let checksum = into.finish().await?;
        {
            let mut state = self.lock();
            state.under_way.remove(&number);
            if let Some(there) = state.there.get_mut(number) {
                *there = checksum;
            }
        }
        let arriving = self.clone();
        spawn_blocking(move || arriving.write_notes(&[(number, checksum)])).await;
        Ok(())
    }

    /// Begins to receive the missing bytes of a chunk, which `memory` is for.
    fn begin(&self, number: usize, memory: Arc<Lease>) -> Arc<InFile> {
        let mut state = self.lock();
        let (range, there) = (self.chunks.range(number), state.there[number]);
        let into = Arc::new(InFile::new(self, range.start + there.covers()..range.end, there, memory));
        state.under_way.insert(number, into.clone());
        into
    }

    /// Starts to write the received bytes of unfinished chunks, and notes how much of them is in the file. Does not wait
    /// for the writes, which the next note records: while requests run there is always another.
    async fn note(self: &Arc<Self>) {
        if self.note.is_none() {
            return;
        }
        let under_way: Vec<_> = self.lock().under_way.iter().map(|(n, into)| (*n, into.clone())).collect();
        under_way.iter().for_each(|(_, into)| into.write_what_came());
        let there: Vec<_> = under_way.iter().map(|(n, into)| (*n, into.in_file())).collect();
        let arriving = self.clone();
        spawn_blocking(move || arriving.write_notes(&there)).await;
    }

    /// Notes the received bytes every `often`.
    pub(super) async fn keep_noted(self: Arc<Self>, often: Duration) {
        loop {
            tokio::time::sleep(often).await;
            self.note().await;
        }
    }

    /// Writes to the note how much of some chunks is there.
    fn write_notes(&self, there: &[(usize, Checksum)]) {
        let Some(note) = &self.note else { return };
        let mut noted = self.noted.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(noted) = &mut *noted else { return };
        let newer: Vec<_> = there.iter().filter(|(n, there)| there.covers() > noted[*n]).collect();
        if newer.is_empty() {
            return;
        }
        let entry = |(n, there): &&(usize, Checksum)| (note.entry_at(*n), note.entry(*n, there).to_vec());
        *self.note_began() = Some(Instant::now());
        let is_noted =
            self.arrival.note(note.head(), note.len(), &newer.iter().map(entry).collect::<Vec<_>>());
        *self.note_began() = None;
        if is_noted {
            for (n, there) in newer {
                noted[*n] = there.covers();
            }
            self.noted_bytes.store(noted.iter().sum(), Relaxed);
        }
    }

    fn note_began(&self) -> MutexGuard<'_, Option<Instant>> {
        self.note_began.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns once the disk is stuck.
    pub(super) async fn disk_is_stuck(&self) -> Fault {
        let (mut seen, mut looks) = (None, 0);
        while looks < Self::STUCK_LOOKS {
            tokio::time::sleep(Self::LOOK).await;
            let began = [self.arrival.write_began(), *self.note_began()].into_iter().flatten().min();
            looks = if began.is_some() && began == seen { looks + 1 } else { 0 };
            seen = began;
        }
        let seconds = (Self::LOOK * Self::STUCK_LOOKS).as_secs();
        Fault::new(
            FaultKind::Source,
            format!("the disk has not completed a write in {seconds} s: it is stuck"),
        )
    }

    /// The download is cut off: takes no more bytes, writes and notes those that it has received, and leaves the file.
    /// Returns how many bytes are kept for the next download. If the disk is slow, this goes on by itself.
    pub(super) fn cut(self: &Arc<Self>) -> u64 {
        let chunks = std::mem::take(&mut self.lock().under_way);
        chunks.values().for_each(|into| into.close());
        let arriving = self.clone();
        within_drop_limit(move || arriving.keep_received(&chunks));
        if self.arrival.is_kept() { self.noted_bytes.load(Relaxed) } else { 0 }
    }

    /// Writes and notes received bytes, for as long as [`CUT`](Self::CUT), and leaves the file.
    fn keep_received(&self, chunks: &ChunksInFlight) {
        let until = Instant::now() + Self::CUT;
        self.arrival.finish_writes(until);
        // Chunks that ended may have their note still to be written.
        let mut there: BTreeMap<_, _> = self.lock().there.iter().copied().enumerate().collect();
        there.extend(chunks.iter().map(|(n, into)| (*n, into.write_rest(until))));
        self.write_notes(&there.into_iter().collect::<Vec<_>>());
        *self.noted.lock().unwrap_or_else(PoisonError::into_inner) = None;
        self.arrival.leave();
    }
}

/// A download of an object of 4 MiB.
#[cfg(test)]
fn arriving(store: &crate::Store, path: &std::path::Path) -> Arc<Arriving> {
    let source = Arc::new(ObjectSource::new(store.context(), "k", store.context().engine().progress.part()));
    let arrival = Arc::new(Arrival::begin(path, &"0".repeat(16)).unwrap());
    let object = Object { size: 4 << 20, etag: Some("\"a\"".into()), ..Object::default() };
    let opened = Opened::anew(object, "memory://b/k", &arrival.token(), Algorithm::Crc64Nvme);
    Arc::new(Arriving::new(source, arrival, opened, store.context().engine().budget.clone()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Tidegate;
    use crate::download::into_file::AT_ONCE;

    /// As the documentation of `DownloadBuilder` says.
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
}
