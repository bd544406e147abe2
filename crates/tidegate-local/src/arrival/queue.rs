//! Writes to one file, one after the other. A file system lets one write at a time into a file, and threads that wait
//! for their turn spin on a processor: with one thread for each range, that took an eighth of a download's processor
//! time.
//!
//! A write that the system only copies into memory takes a fifth of a millisecond, and is done on the thread that
//! received the bytes: handing it to another thread costs a wake-up and moves the bytes out of the processor's cache,
//! which was a tenth of that time. A write that might wait for a disk is handed off.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};

use bytes::Bytes;
use tokio::sync::oneshot;
use tokio::task::spawn_blocking;
use tokio::time::Instant;

use super::Arrival;
use tidegate_core::backend::{Fault, FaultKind};

/// The most writes in a row on a thread that requests run on.
const FEW: usize = 4;

/// The queued writes, and whether a thread works on them.
#[derive(Debug, Default)]
pub(super) struct WriteQueue {
    state: Mutex<WriteQueueState>,
    /// Notified when a write has ended.
    ended: Condvar,
    /// Set if the file system cannot be told not to wait.
    writes: OnceLock<Writes>,
}

/// How a file system without `RWF_NOWAIT` for writes behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Writes {
    /// The file system has no disk.
    InMemory,
    MayWait,
}

#[derive(Debug, Default)]
struct WriteQueueState {
    jobs: VecDeque<Job>,
    is_at_work: bool,
    /// When the write in progress began.
    write_began: Option<Instant>,
}

#[derive(Debug)]
struct Job {
    pieces: Vec<Bytes>,
    at: u64,
    told: oneshot::Sender<Result<(), Fault>>,
}

impl Job {
    fn tell(self, written: Result<(), Fault>) {
        drop(self.pieces); // the memory is free before anybody is told
        // The waiter may be gone.
        let _ = self.told.send(written);
    }
}

impl WriteQueue {
    fn lock(&self) -> MutexGuard<'_, WriteQueueState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Arrival {
    /// Queues `pieces` to be written from byte `at` on, after earlier writes, whether or not anybody waits for the
    /// result. The receiver gets no result if the runtime shuts down first.
    pub fn write_in_turn(
        self: &Arc<Self>,
        pieces: Vec<Bytes>,
        at: u64,
    ) -> oneshot::Receiver<Result<(), Fault>> {
        let (told, tells) = oneshot::channel();
        let mut state = self.queue.lock();
        state.jobs.push_back(Job { pieces, at, told });
        if !std::mem::replace(&mut state.is_at_work, true) {
            drop(state);
            let mut work = WriteWorker { arrival: self.clone(), is_done: false };
            if !work.run_a_few() {
                spawn_blocking(move || work.run());
            }
        }
        tells
    }

    /// Writes the rest of the queue on this thread, and waits for the write in progress, until a deadline; writes that
    /// have not begun by then fail. Only for a download that is cut, which queues no more: the bytes that it has
    /// received must be in the file before the process ends.
    pub fn finish_writes(&self, until: Instant) {
        let mut state = self.queue.lock();
        loop {
            let left = until.saturating_duration_since(Instant::now());
            if let Some(job) = state.jobs.pop_front() {
                drop(state);
                let written = match left.is_zero() {
                    true => {
                        Err(Fault::new(FaultKind::Source, "the download was cut, and its disk is too slow"))
                    }
                    false => self.write(&job.pieces, job.at),
                };
                job.tell(written);
                state = self.queue.lock();
            } else if state.write_began.is_some() && !left.is_zero() {
                // A write that would wait for the disk goes back to the queue.
                let waited = self.queue.ended.wait_timeout(state, left);
                state = waited.unwrap_or_else(PoisonError::into_inner).0;
            } else {
                return;
            }
        }
    }

    /// When the write in progress began, if there is one.
    pub fn write_began(&self) -> Option<Instant> {
        self.queue.lock().write_began
    }

    /// Writes without waiting for a disk; true if all was written. False if the write would wait, if the file system
    /// cannot say, or if it failed; some of the bytes may be written then.
    #[cfg(target_os = "linux")]
    fn write_at_once(&self, pieces: &[Bytes], at: u64) -> bool {
        use rustix::io::{Errno, ReadWriteFlags, pwritev2};
        match self.queue.writes.get() {
            Some(Writes::InMemory) => self.write(pieces, at).is_ok(),
            Some(Writes::MayWait) => false,
            None => {
                let slices: Vec<_> = pieces.iter().map(|piece| std::io::IoSlice::new(piece)).collect();
                let size: usize = pieces.iter().map(Bytes::len).sum();
                match pwritev2(&self.file, &slices, at, ReadWriteFlags::NOWAIT) {
                    Ok(written) => written == size,
                    Err(Errno::OPNOTSUPP | Errno::NOSYS) => {
                        let is_in_memory = self.room_in_memory().is_some();
                        let writes = if is_in_memory { Writes::InMemory } else { Writes::MayWait };
                        self.queue.writes.get_or_init(|| writes);
                        self.write_at_once(pieces, at)
                    }
                    Err(_) => false,
                }
            }
        }
    }

    #[cfg(not(target_os = "linux"))]
    fn write_at_once(&self, _: &[Bytes], _: u64) -> bool {
        false
    }
}

/// Writes until the queue is empty.
struct WriteWorker {
    arrival: Arc<Arrival>,
    is_done: bool,
}

impl WriteWorker {
    fn run(mut self) {
        while let Some(job) = self.next() {
            let written = self.arrival.write(&job.pieces, job.at);
            job.tell(written);
        }
        self.is_done = true;
    }

    /// True if the queue is empty. False if there are more than a few writes, or if a write may wait.
    fn run_a_few(&mut self) -> bool {
        for _ in 0..FEW {
            let Some(job) = self.next() else {
                self.is_done = true;
                return true;
            };
            if !self.arrival.write_at_once(&job.pieces, job.at) {
                self.pause(Some(job));
                return false;
            }
            job.tell(Ok(()));
        }
        self.pause(None);
        false
    }

    /// Leaves the queue, with `job` first, to another thread: until then no write is in progress.
    fn pause(&self, job: Option<Job>) {
        let mut state = self.arrival.queue.lock();
        if let Some(job) = job {
            state.jobs.push_front(job);
        }
        state.write_began = None;
        self.arrival.queue.ended.notify_all();
    }

    fn next(&self) -> Option<Job> {
        let mut state = self.arrival.queue.lock();
        let job = state.jobs.pop_front();
        state.is_at_work = job.is_some();
        let began = job.is_some().then(Instant::now);
        if std::mem::replace(&mut state.write_began, began).is_some() {
            self.arrival.queue.ended.notify_all();
        }
        job
    }
}

impl Drop for WriteWorker {
    /// If the work never ran, or panicked, nobody may wait for its writes: discard them.
    fn drop(&mut self) {
        if !self.is_done {
            *self.arrival.queue.lock() = WriteQueueState::default();
            self.arrival.queue.ended.notify_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;
    use tidegate_core::testkit::small_disk::SmallDisk;

    fn arrival(directory: &tempfile::TempDir) -> Arc<Arrival> {
        Arc::new(Arrival::begin(&directory.path().join("out"), &"0".repeat(16)).unwrap())
    }

    #[tokio::test]
    async fn what_is_written_last_stays() {
        let directory = tempfile::tempdir().unwrap();
        let arrival = arrival(&directory);
        let told: Vec<_> =
            (0..200_u8).map(|n| arrival.write_in_turn(vec![vec![n; 64 << 10].into()], 0)).collect();
        for written in told {
            written.await.unwrap().unwrap();
        }
        let mut there = vec![0; 64 << 10];
        assert!(arrival.read(&mut there, 0).unwrap());
        assert_eq!(there, [199; 64 << 10]);
    }

    /// What is handed off is not done while the one thread for that is taken.
    fn is_written_at_once(arrival: &Arc<Arrival>) -> bool {
        let runtime = tokio::runtime::Builder::new_current_thread().max_blocking_threads(1).build().unwrap();
        let (frees, waits) = std::sync::mpsc::channel::<()>();
        runtime.spawn_blocking(move || waits.recv());
        let entered = runtime.enter();
        let mut told = arrival.write_in_turn(vec!["te".into(), "xt".into()], 1);
        let at_once = (&mut told).now_or_never().map(|told| told.unwrap().unwrap());
        drop((entered, frees));
        if at_once.is_none() {
            told.blocking_recv().unwrap().unwrap();
        }
        let mut there = [0; 4];
        assert!(arrival.read(&mut there, 1).unwrap() && there == *b"text");
        at_once.is_some()
    }

    #[test]
    fn what_may_wait_for_a_disk_is_handed_off() {
        // ext4 does not say whether a write would wait; XFS does, and says so of one that is the first for some time.
        for (kind, mib, at_once) in [("tmpfs", 1, true), ("ext4", 16, false), ("xfs", 400, true)] {
            let Some(disk) = SmallDisk::new(kind, mib) else { continue };
            let path = disk.path().join("out");
            let arrival = Arc::new(Arrival::begin(&path, &"0".repeat(16)).unwrap());
            arrival.reserve(64 << 10).unwrap();
            assert_eq!((0..20).any(|_| is_written_at_once(&arrival)), at_once, "{kind}");
        }
    }

    #[test]
    fn a_write_that_fails_is_told() {
        let Some(disk) = SmallDisk::new("tmpfs", 1) else { return };
        let arrival = Arc::new(Arrival::begin(&disk.path().join("out"), &"0".repeat(16)).unwrap());
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let entered = runtime.enter();
        let told = arrival.write_in_turn(vec![vec![1; 2 << 20].into()], 0);
        drop(entered);
        let fault = told.blocking_recv().unwrap().unwrap_err();
        assert_eq!(fault.kind, tidegate_core::backend::FaultKind::NoSpace, "{fault}");
    }

    /// More than a few, which come while others are written.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn what_comes_while_a_few_are_written_is_written_too() {
        let directory = tempfile::tempdir().unwrap();
        for kind in ["tmpfs", "none"] {
            let disk = (kind == "tmpfs").then(|| SmallDisk::new(kind, 16)).flatten();
            let at = disk.as_ref().map_or(directory.path(), |disk| disk.path());
            let arrival = Arc::new(Arrival::begin(&at.join("out"), &"0".repeat(16)).unwrap());
            let mut tasks = tokio::task::JoinSet::new();
            for n in 0..50_u64 {
                let arrival = arrival.clone();
                tasks.spawn(async move {
                    for round in 0..20 {
                        let piece = vec![n as u8; 1 << 10].into();
                        arrival.write_in_turn(vec![piece], (round * 50 + n) << 10).await.unwrap().unwrap();
                    }
                });
            }
            tasks.join_all().await;
            let mut there = vec![0; 1000 << 10];
            assert!(arrival.read(&mut there, 0).unwrap());
            let is_as_written =
                |(at, piece): (usize, &[u8])| piece.iter().all(|byte| *byte == (at % 50) as u8);
            assert!(there.chunks(1 << 10).enumerate().all(is_as_written));
        }
    }

    #[test]
    fn nobody_waits_for_a_runtime_that_is_gone() {
        let directory = tempfile::tempdir().unwrap();
        let arrival = arrival(&directory);
        arrival.queue.writes.set(Writes::MayWait).unwrap();
        let gone = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let handle = gone.handle().clone();
        drop(gone);
        let entered = handle.enter();
        let told = ["first", "second"].map(|text| arrival.write_in_turn(vec![text.into()], 0));
        drop(entered);
        assert!(told.into_iter().all(|told| told.blocking_recv().is_err()));
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let entered = runtime.enter();
        let told = arrival.write_in_turn(vec!["third".into()], 0);
        drop(entered);
        told.blocking_recv().unwrap().unwrap();
    }
}
