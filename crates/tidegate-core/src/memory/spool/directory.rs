//! One spool directory: its blocks, its speed and its free space.

use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::Notify;
use tokio::time::Instant;
use tracing::warn;

use super::blocks::BlockAllocator;
use super::disk::Disk;
use crate::types::amount::Rounded;
use crate::types::owner_process::OwnerProcess;

/// Size of a block. It is small because thousands of writers may each have begun one; sparse files take no more of
/// the disk than was written.
pub(super) const BLOCK: u64 = 64 << 10;

/// How long a directory that was full or failed is not used, unless blocks are given back.
const REST: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(super) struct Directory {
    /// The process whose bytes the file has. A forked child inherits their blocks, and gives none back.
    pub(super) owner: OwnerProcess,
    disk: Arc<dyn Disk>,
    state: Mutex<DirectoryState>,
    freed: Arc<Notify>,
}

#[derive(Debug, Default)]
struct DirectoryState {
    blocks: BlockAllocator,
    /// Bytes that are being written.
    queued: u64,
    /// Bytes per second, as measured; 0 if nothing was written yet.
    rate: f64,
    rests_until: Option<Instant>,
    /// How often written blocks were given back.
    came_back: u64,
}

/// Blocks of a directory, given back when dropped.
#[derive(Debug)]
pub(super) struct Allocation {
    directory: Arc<Directory>,
    pub(super) ranges: Vec<Range<u32>>,
    /// Whether something was written there: blocks that are given back unwritten make no room.
    written: AtomicBool,
}

impl Directory {
    pub(super) fn new(disk: Arc<dyn Disk>, freed: Arc<Notify>) -> Arc<Self> {
        Arc::new(Self { owner: OwnerProcess::this(), disk, state: Mutex::default(), freed })
    }

    pub(super) fn name(&self) -> String {
        self.disk.name()
    }

    pub(super) fn disk(&self) -> &dyn Disk {
        &*self.disk
    }

    fn lock(&self) -> MutexGuard<'_, DirectoryState> {
        // Every change is complete before the lock is released.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether it is worth trying to write `bytes`.
    pub(super) fn has_room(&self, bytes: u64) -> bool {
        self.free().is_some_and(|free| free >= bytes)
    }

    /// How many bytes in whole blocks are worth trying to write.
    pub(super) fn room(&self) -> u64 {
        self.free().map_or(0, |free| free / BLOCK * BLOCK)
    }

    /// How many more bytes it has room for; `None` while it is not used.
    fn free(&self) -> Option<u64> {
        let state = self.lock();
        let rests = state.rests_until.is_some_and(|until| Instant::now() < until);
        let (queued, own) = (state.queued, u64::from(state.blocks.free()) * BLOCK);
        drop(state);
        // A disk that does not report its space has room until a write fails. Blocks that were given back stay this
        // file's until the file is empty, so a full disk still has room for that many bytes.
        let free = self.disk.space().map_or(u64::MAX, |space| space.free.saturating_add(own));
        // Queued bytes count twice if the disk counts them already.
        (!rests).then(|| free.saturating_sub(queued))
    }

    /// Seconds until `bytes` more would be written; 0 for a directory that was not measured yet, and infinitely
    /// many while its first write is under way.
    pub(super) fn cost(&self, bytes: u64) -> f64 {
        let state = self.lock();
        match state.queued {
            queued if state.rate > 0.0 => (queued + bytes) as f64 / state.rate,
            0 => 0.0,
            _ => f64::INFINITY,
        }
    }

    pub(super) fn is_writing(&self) -> bool {
        self.lock().queued > 0
    }

    pub(super) fn used(&self) -> u64 {
        u64::from(self.lock().blocks.used()) * BLOCK
    }

    pub(super) fn fullness(&self) -> String {
        let (name, used) = (self.name(), Rounded(self.used()));
        match self.disk.space() {
            Ok(space) => {
                let (free, total) = (Rounded(space.free), Rounded(space.total));
                format!("{name} has {free} free of {total} and holds {used} of spooled parts")
            }
            Err(error) => format!("{name}: {error}"),
        }
    }

    pub(super) fn allocate(self: &Arc<Self>, bytes: u64) -> io::Result<Allocation> {
        let count = u32::try_from(bytes.div_ceil(BLOCK)).ok();
        let ranges = count.and_then(|count| self.lock().blocks.take(count));
        let ranges = ranges.ok_or_else(|| io::Error::from(io::ErrorKind::StorageFull))?;
        Ok(Allocation { directory: self.clone(), ranges, written: AtomicBool::new(false) })
    }

    /// Writes pieces at their offsets, and measures the rate.
    pub(super) async fn write(self: &Arc<Self>, pieces: Vec<(u64, Bytes)>) -> io::Result<()> {
        let bytes = pieces.iter().map(|(_, piece)| piece.len() as u64).sum();
        let came_back = {
            let mut state = self.lock();
            state.queued += bytes;
            state.came_back
        };
        let mut writing = SpoolWrite { directory: self, bytes, began: Instant::now(), written: false };
        let result = self.disk.write(pieces).await;
        writing.written = result.is_ok();
        drop(writing);
        if let Err(error) = &result {
            warn!(directory = self.name(), %error, "spooling failed");
            let mut state = self.lock();
            // Blocks that were given back meanwhile may be the room that was missing.
            if state.came_back == came_back || !is_full(error) {
                state.rests_until = Some(Instant::now() + REST);
            }
        }
        result
    }
}

/// A write that is under way.
struct SpoolWrite<'a> {
    directory: &'a Directory,
    bytes: u64,
    began: Instant,
    written: bool,
}

impl Drop for SpoolWrite<'_> {
    fn drop(&mut self) {
        /// A smaller write says more about the calls than about the disk.
        const LEAST: u64 = 256 << 10;
        let mut state = self.directory.lock();
        state.queued -= self.bytes;
        if self.written && (self.bytes >= LEAST || state.rate == 0.0) {
            let rate = self.bytes as f64 / self.began.elapsed().as_secs_f64().max(1e-6);
            state.rate = if state.rate > 0.0 { state.rate * 0.8 + rate * 0.2 } else { rate };
        }
    }
}

impl Allocation {
    pub(super) fn written(&self) {
        self.written.store(true, Relaxed);
    }
}

impl Drop for Allocation {
    fn drop(&mut self) {
        if self.directory.owner.is_parent() {
            return;
        }
        let mut state = self.directory.lock();
        if self.written.load(Relaxed) {
            state.rests_until = None;
            state.came_back += 1;
        }
        if state.blocks.give_back(&self.ranges)
            // Under the lock, so that nobody is given a block that is about to vanish.
            && let Err(error) = self.directory.disk.clear()
        {
            warn!(directory = self.directory.name(), %error, "the space of a spool file was not given back");
        }
        drop(state);
        if self.written.load(Relaxed) {
            self.directory.freed.notify_waiters();
        }
    }
}

/// Whether a write failed because the disk, or a quota, is full.
pub(super) fn is_full(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge
    )
}
