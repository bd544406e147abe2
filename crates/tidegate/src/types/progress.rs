//! Progress: what was accepted, what is in flight, what the store has acknowledged, and what is
//! waited for.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

/// A view of a transfer, or of everything that a [`Tidegate`](crate::Tidegate) does. Clones share it;
/// it outlives the writer that it is of.
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

/// The figures at one moment; bytes where nothing else is said.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Snapshot {
    /// Taken from the producer.
    pub accepted: u64,
    /// In requests that the store has not answered.
    pub in_flight: u64,
    /// That the store has acknowledged, and that requests in flight have handed to their sockets. A request that
    /// failed counts no more, and a hedge never does: this is never more than there is to send. What a store copies
    /// itself, and what goes to a session that is held open, counts when it is acknowledged.
    pub sent: u64,
    /// That the store has acknowledged.
    pub acknowledged: u64,
    /// Requests made, retries and hedges among them.
    pub requests: u64,
    /// Requests made again after one that failed.
    pub retries: u64,
    /// Slow parts and ranges that were asked for a second time while the first was in flight.
    pub hedges: u64,
    /// Parts that the store has acknowledged.
    pub parts: u64,
    /// Memory that was brought back by writing what it held to the spool.
    pub spilled: u64,
    /// That are in a journal, or were before the store acknowledged them: what of it is not acknowledged
    /// waits there.
    pub journaled: u64,
    /// Bytes of downloads into files that ended before they were done: they stay beside the file, and the next download
    /// of the same object to the same path resumes.
    pub kept: u64,
    /// The sizes of the objects that those are of.
    pub kept_of: u64,
    /// What is waited for, where something is; the first of disk, memory, backoff, requests.
    pub waiting: Option<Waiting>,
}

/// What a transfer waits for.
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
    /// A part of this whole: what it counts is counted there too.
    pub(crate) fn part(&self) -> Self {
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

    pub(crate) fn accepted(&self, bytes: u64) {
        self.each(|counters| {
            counters.accepted.fetch_add(bytes, Relaxed);
        });
    }

    pub(crate) fn acknowledged(&self, bytes: u64) {
        metrics::counter!("tidegate_bytes_acknowledged_total").increment(bytes);
        self.each(|counters| {
            counters.acknowledged.fetch_add(bytes, Relaxed);
        });
    }

    /// A request in flight has handed so many bytes more to its socket.
    pub(crate) fn sent(&self, bytes: u64) {
        self.each(|counters| {
            counters.sending.fetch_add(bytes, Relaxed);
        });
    }

    /// The request that has handed so many bytes to its socket is in flight no more.
    pub(crate) fn unsent(&self, bytes: u64) {
        self.each(|counters| {
            counters.sending.fetch_sub(bytes, Relaxed);
        });
    }

    /// What was acknowledged is to be sent again: the session that had it is gone.
    pub(crate) fn unacknowledged(&self, bytes: u64, parts: u64) {
        self.each(|counters| {
            counters.acknowledged.fetch_sub(bytes, Relaxed);
            counters.parts.fetch_sub(parts, Relaxed);
        });
    }

    pub(crate) fn journaled(&self, bytes: u64) {
        metrics::counter!("tidegate_bytes_journaled_total").increment(bytes);
        self.each(|counters| {
            counters.journaled.fetch_add(bytes, Relaxed);
        });
    }

    /// A download was cut: so many bytes of an object of so many are kept.
    pub(crate) fn kept(&self, bytes: u64, of: u64) {
        self.each(|counters| {
            counters.kept.fetch_add(bytes, Relaxed);
            counters.kept_of.fetch_add(of, Relaxed);
        });
    }

    pub(crate) fn parts_stored(&self, parts: u64) {
        self.each(|counters| {
            counters.parts.fetch_add(parts, Relaxed);
        });
    }

    pub(crate) fn spilled(&self, bytes: u64) {
        metrics::counter!("tidegate_bytes_spilled_total").increment(bytes);
        self.each(|counters| {
            counters.spilled.fetch_add(bytes, Relaxed);
        });
    }

    /// A request begins; its bytes are in flight until the guard is dropped.
    pub(crate) fn request(&self, operation: &'static str, bytes: u64, retry: bool) -> InFlight {
        metrics::counter!("tidegate_requests_total", "operation" => operation).increment(1);
        if retry {
            metrics::counter!("tidegate_retries_total", "operation" => operation).increment(1);
        }
        self.each(|counters| {
            counters.requests.fetch_add(1, Relaxed);
            counters.retries.fetch_add(u64::from(retry), Relaxed);
            counters.in_flight.fetch_add(bytes, Relaxed);
        });
        InFlight { progress: self.clone(), bytes }
    }

    /// What broke in the middle of an answer is asked for again.
    pub(crate) fn resumed(&self, operation: &'static str) {
        metrics::counter!("tidegate_retries_total", "operation" => operation).increment(1);
        self.each(|counters| {
            counters.retries.fetch_add(1, Relaxed);
        });
    }

    /// So many bytes more are in flight, in a request that was counted, until the guard is dropped.
    pub(crate) fn carries(&self, bytes: u64) -> InFlight {
        self.each(|counters| {
            counters.in_flight.fetch_add(bytes, Relaxed);
        });
        InFlight { progress: self.clone(), bytes }
    }

    /// A request is made a second time; its bytes are in flight already.
    pub(crate) fn hedged(&self, operation: &'static str) {
        metrics::counter!("tidegate_requests_total", "operation" => operation).increment(1);
        metrics::counter!("tidegate_hedges_total").increment(1);
        self.each(|counters| {
            counters.requests.fetch_add(1, Relaxed);
            counters.hedges.fetch_add(1, Relaxed);
        });
    }

    /// Something is waited for until the guard is dropped.
    pub(crate) fn waiting(&self, wait: Waiting) -> Wait {
        self.each(|counters| {
            counters.waiting[wait as usize].fetch_add(1, Relaxed);
        });
        Wait { progress: self.clone(), wait }
    }
}

/// Bytes in flight.
#[derive(Debug)]
pub(crate) struct InFlight {
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

/// A wait that goes on.
#[derive(Debug)]
pub(crate) struct Wait {
    progress: Progress,
    wait: Waiting,
}

impl Drop for Wait {
    fn drop(&mut self) {
        self.progress.each(|counters| {
            counters.waiting[self.wait as usize].fetch_sub(1, Relaxed);
        });
    }
}
