//! The progress of a transfer: the bytes that were accepted, are in flight, and were acknowledged by the store, and
//! the reason why the transfer waits.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

use super::telemetry;

/// A view of a transfer, or of everything that a `Tidegate` does. Clones share it; it outlives
/// its writer.
#[derive(Clone, Debug, Default)]
pub struct Progress {
    counters: Arc<Counters>,
}

#[derive(Debug, Default)]
struct Counters {
    accepted: AtomicU64,
    in_flight: AtomicU64,
    sending: AtomicU64,
    acknowledged: AtomicU64,
    requests: AtomicU64,
    retries: AtomicU64,
    hedges: AtomicU64,
    parts: AtomicU64,
    spilled: AtomicU64,
    journaled: AtomicU64,
    kept: AtomicU64,
    kept_of: AtomicU64,
    waiting: [AtomicUsize; 4],
    whole: Option<Progress>,
}

/// The figures at one moment, in bytes unless said otherwise.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Snapshot {
    /// Bytes taken from the producer.
    pub accepted: u64,
    /// Bytes in requests that the store has not answered.
    pub in_flight: u64,
    /// Bytes that the store has acknowledged, and bytes that requests in flight have handed to their sockets. A
    /// failed request does not count any more, and a hedge never does: this is never more than there is to send.
    /// Bytes that a store copies itself, and bytes that go to a session that is held open, count when they are
    /// acknowledged.
    pub sent: u64,
    /// Bytes that the store has acknowledged.
    pub acknowledged: u64,
    /// Requests made, retries and hedges among them.
    pub requests: u64,
    /// Requests made again after one that failed.
    pub retries: u64,
    /// Slow parts and ranges that were asked for a second time while the first was in flight.
    pub hedges: u64,
    /// Parts that the store has acknowledged.
    pub parts: u64,
    /// Bytes of memory that were freed by spilling to the spool.
    pub spilled: u64,
    /// Bytes that are in a journal, or were there until the store acknowledged them. Bytes that are not
    /// acknowledged yet wait there.
    pub journaled: u64,
    /// Bytes of downloads into files that ended before they were done: they stay beside the file, and the next
    /// download of the same object to the same path resumes.
    pub kept: u64,
    /// The sizes of the objects of those downloads.
    pub kept_of: u64,
    /// What the transfer waits for, if anything; the first of disk, memory, backoff, requests.
    pub waiting: Option<Waiting>,
}

/// The reason why a transfer waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Waiting {
    /// Room in the memory budget.
    Memory,
    /// The pause before a request is made again.
    Backoff,
    /// Its turn to make a request.
    Requests,
    /// Room on the disk of a journal.
    Disk,
}

impl Waiting {
    /// The label of its gauge.
    fn label(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Backoff => "backoff",
            Self::Requests => "requests",
            Self::Disk => "disk",
        }
    }
}

impl std::fmt::Display for Waiting {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Memory => "waiting for memory",
            Self::Backoff => "pausing before a retry",
            Self::Requests => "waiting for a request to end",
            Self::Disk => "waiting for room on the journal's disk",
        })
    }
}

impl Progress {
    /// A part of this progress: everything that the part counts is counted here too.
    pub fn part(&self) -> Self {
        Self { counters: Arc::new(Counters { whole: Some(self.clone()), ..Counters::default() }) }
    }

    /// The figures now.
    pub fn snapshot(&self) -> Snapshot {
        let counters = &*self.counters;
        let waits = [Waiting::Disk, Waiting::Memory, Waiting::Backoff, Waiting::Requests];
        Snapshot {
            accepted: counters.accepted.load(Relaxed),
            in_flight: counters.in_flight.load(Relaxed),
            sent: counters.acknowledged.load(Relaxed) + counters.sending.load(Relaxed),
            acknowledged: counters.acknowledged.load(Relaxed),
            requests: counters.requests.load(Relaxed),
            retries: counters.retries.load(Relaxed),
            hedges: counters.hedges.load(Relaxed),
            parts: counters.parts.load(Relaxed),
            spilled: counters.spilled.load(Relaxed),
            journaled: counters.journaled.load(Relaxed),
            kept: counters.kept.load(Relaxed),
            kept_of: counters.kept_of.load(Relaxed),
            waiting: waits.into_iter().find(|wait| counters.waiting[*wait as usize].load(Relaxed) > 0),
        }
    }

    fn each(&self, count: impl Fn(&Counters)) {
        let mut next = Some(self);
        while let Some(progress) = next {
            count(&progress.counters);
            next = progress.counters.whole.as_ref();
        }
    }

    /// Adds bytes that a writer has accepted.
    pub fn accepted(&self, bytes: u64) {
        self.each(|counters| {
            counters.accepted.fetch_add(bytes, Relaxed);
        });
    }

    /// Adds bytes that the store has acknowledged.
    pub fn acknowledged(&self, bytes: u64) {
        telemetry::acknowledged(bytes);
        self.each(|counters| {
            counters.acknowledged.fetch_add(bytes, Relaxed);
        });
    }

    /// A request in flight has handed so many more bytes to its socket.
    pub fn sent(&self, bytes: u64) {
        self.each(|counters| {
            counters.sending.fetch_add(bytes, Relaxed);
        });
    }

    /// The request that has handed so many bytes to its socket is not in flight any more.
    pub fn unsent(&self, bytes: u64) {
        self.each(|counters| {
            counters.sending.fetch_sub(bytes, Relaxed);
        });
    }

    /// Acknowledged bytes must be sent again, because their session is gone.
    pub fn unacknowledged(&self, bytes: u64, parts: u64) {
        self.each(|counters| {
            counters.acknowledged.fetch_sub(bytes, Relaxed);
            counters.parts.fetch_sub(parts, Relaxed);
        });
    }

    /// Adds bytes that are durable in a journal.
    pub fn journaled(&self, bytes: u64) {
        telemetry::journaled(bytes);
        self.each(|counters| {
            counters.journaled.fetch_add(bytes, Relaxed);
        });
    }

    /// A download ended before it was done: `bytes` of an object of `of` bytes are kept.
    pub fn kept(&self, bytes: u64, of: u64) {
        self.each(|counters| {
            counters.kept.fetch_add(bytes, Relaxed);
            counters.kept_of.fetch_add(of, Relaxed);
        });
    }

    /// Adds parts that the store has acknowledged.
    pub fn parts_stored(&self, parts: u64) {
        self.each(|counters| {
            counters.parts.fetch_add(parts, Relaxed);
        });
    }

    /// Adds bytes that were spilled to disk.
    pub fn spilled(&self, bytes: u64) {
        telemetry::spilled(bytes);
        self.each(|counters| {
            counters.spilled.fetch_add(bytes, Relaxed);
        });
    }

    /// A request begins; its bytes are in flight until the guard is dropped.
    pub fn request(&self, operation: &'static str, bytes: u64, retry: bool) -> InFlight {
        telemetry::request(operation);
        if retry {
            telemetry::retry(operation);
        }
        self.each(|counters| {
            counters.requests.fetch_add(1, Relaxed);
            counters.retries.fetch_add(u64::from(retry), Relaxed);
            counters.in_flight.fetch_add(bytes, Relaxed);
        });
        InFlight { progress: self.clone(), bytes }
    }

    /// A response broke in the middle, and its rest is requested again.
    pub fn resumed(&self, operation: &'static str) {
        telemetry::retry(operation);
        self.each(|counters| {
            counters.retries.fetch_add(1, Relaxed);
        });
    }

    /// So many more bytes are in flight, in a request that was counted already, until the guard is dropped.
    pub fn carries(&self, bytes: u64) -> InFlight {
        self.each(|counters| {
            counters.in_flight.fetch_add(bytes, Relaxed);
        });
        InFlight { progress: self.clone(), bytes }
    }

    /// A request is made a second time, as a hedge; its bytes are in flight already.
    pub fn hedged(&self, operation: &'static str) {
        telemetry::request(operation);
        telemetry::hedge();
        self.each(|counters| {
            counters.requests.fetch_add(1, Relaxed);
            counters.hedges.fetch_add(1, Relaxed);
        });
    }

    /// Counts a wait until the guard is dropped.
    pub fn waiting(&self, wait: Waiting) -> Wait {
        telemetry::wait_begins(wait.label());
        self.each(|counters| {
            counters.waiting[wait as usize].fetch_add(1, Relaxed);
        });
        Wait { progress: self.clone(), wait }
    }
}

/// Bytes in flight.
#[derive(Debug)]
pub struct InFlight {
    progress: Progress,
    bytes: u64,
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.progress.each(|counters| {
            counters.in_flight.fetch_sub(self.bytes, Relaxed);
        });
    }
}

/// A wait that is under way.
#[derive(Debug)]
pub struct Wait {
    progress: Progress,
    wait: Waiting,
}

impl Drop for Wait {
    fn drop(&mut self) {
        telemetry::wait_ends(self.wait.label());
        self.progress.each(|counters| {
            counters.waiting[self.wait as usize].fetch_sub(1, Relaxed);
        });
    }
}
