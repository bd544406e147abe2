//! The chunks of a download in flight, and the notes of how much of each chunk is in the file.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::thread;
use std::time::Duration;

use tokio::time::Instant;

use super::kept_bytes::Opened;
use super::note::{Chunks, Note};
use crate::backend::local::Arrival;
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
    /// How much of each chunk is there according to the note. Locked while the note is written, so that no older
    /// entry overwrites a newer one.
    noted: Mutex<Vec<u64>>,
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

    /// After this long in one write of at most 1.25 MiB, a disk is stuck and not slow: that is 11 KiB a second.
    /// Documented in [`DownloadBuilder`](super::DownloadBuilder).
    const STUCK: Duration = Duration::from_secs(120);

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
            noted: Mutex::new(noted),
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
        let memory = self.memory().await?;
        let into = self.begin(number);
        let range = into.at..into.at + into.inflow.left();
        let received =
            self.source.receive(range.clone(), &self.object, &*into, opened, AcceptedAnswer::Range).await;
        received.map_err(|failure| self.source.failed(failure, range.start + into.inflow.got()))?;
        self.end(number, &into).await.map_err(|fault| self.at_file(fault))?;
        drop(memory);
        Ok(())
    }

    /// Receives all missing bytes over one stream, where the store ignores ranges or has nothing to tell whether
    /// another answer is of the same object. `opened` begins at the first missing byte.
    pub(super) async fn receive_one_stream(self: Arc<Self>, opened: Option<Pieces>) -> Result<()> {
        let Some(first) = self.missing().first().copied() else { return Ok(()) };
        let _memory = self.memory().await?;
        let start = self.chunks.range(first).start + self.lock().there[first].covers();
        let into = OneStream::new(self.clone(), start);
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

    /// Begins to receive the missing bytes of a chunk.
    fn begin(&self, number: usize) -> Arc<InFile> {
        let mut state = self.lock();
        let (range, there) = (self.chunks.range(number), state.there[number]);
        let into = Arc::new(InFile::new(self, range.start + there.covers()..range.end, there));
        state.under_way.insert(number, into.clone());
        into
    }

    /// Notes how much of unfinished chunks is in the file, and starts to write what else they have received, for the
    /// next note. Waits for no write: those of running requests never end.
    async fn note(self: &Arc<Self>) {
        if self.note.is_none() {
            return;
        }
        let under_way: Vec<_> = self.lock().under_way.iter().map(|(n, into)| (*n, into.clone())).collect();
        let there: Vec<_> = under_way.iter().map(|(n, into)| (*n, into.in_file())).collect();
        under_way.iter().for_each(|(_, into)| into.write_what_came());
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
        }
    }

    fn note_began(&self) -> MutexGuard<'_, Option<Instant>> {
        self.note_began.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns once the disk is stuck: it has worked on one write for [`STUCK`](Self::STUCK).
    pub(super) async fn disk_is_stuck(&self) -> Fault {
        loop {
            let began = [self.arrival.write_began(), *self.note_began()].into_iter().flatten().min();
            let left = Self::STUCK.saturating_sub(began.map_or(Duration::ZERO, |began| began.elapsed()));
            if left.is_zero() {
                let message =
                    format!("the disk has not ended a write for {} s: it is stuck", Self::STUCK.as_secs());
                return Fault::new(FaultKind::Source, message);
            }
            tokio::time::sleep(left).await;
        }
    }

    /// The download is cut off: takes no more bytes, writes and notes those that it has received, and leaves the file.
    /// Returns how many bytes are kept for the next download. A disk that needs longer than [`CUT`](Self::CUT) goes on
    /// by itself, and may keep fewer bytes.
    pub(super) fn cut(self: &Arc<Self>) -> u64 {
        let under_way = Arc::new(std::mem::take(&mut self.lock().under_way));
        under_way.values().for_each(|into| into.close());
        // In another thread, so that a stuck disk does not hold up this one.
        let (tell, told) = mpsc::channel();
        let (arriving, chunks) = (self.clone(), under_way.clone());
        let keep = move || {
            // Nobody waits any more if the disk is slow.
            let _ = tell.send(arriving.keep_received(&chunks));
        };
        match thread::Builder::new().name("tidegate-cut".to_owned()).spawn(keep) {
            // Longer than `keep_received` waits for itself.
            Ok(_) => told.recv_timeout(2 * Self::CUT).unwrap_or(0),
            Err(_) => self.keep_received(&under_way),
        }
    }

    /// Writes and notes received bytes, for as long as [`CUT`](Self::CUT), and leaves the file. Returns how many bytes
    /// of the object are kept.
    fn keep_received(&self, under_way: &ChunksInFlight) -> u64 {
        let until = Instant::now() + Self::CUT;
        self.arrival.finish_writes(until);
        let there: Vec<_> = under_way.iter().map(|(n, into)| (*n, into.write_rest(until))).collect();
        self.write_notes(&there);
        let noted = self.noted.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = if self.arrival.is_kept() { noted.iter().sum() } else { 0 };
        self.arrival.leave();
        kept
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
