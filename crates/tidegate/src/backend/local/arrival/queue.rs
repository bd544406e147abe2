//! Writes of one file, in turn. A file system lets one write at a time into a file, and those that wait for it
//! spin on a processor: with a thread for each range that was an eighth of a download's processor time.
//!
//! A write that the system only copies into memory takes a fifth of a millisecond, and is done where the bytes were
//! received: to hand it to another thread takes a wake-up, and the bytes out of the processor's cache, which was a
//! tenth of that time. One that waits for a disk is not.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::sync::oneshot;
use tokio::task::spawn_blocking;

use super::Arrival;
use crate::backend::Fault;

/// A write that takes this long has waited for a disk.
const SLOW: Duration = Duration::from_millis(2);

/// Most writes in a row on a thread that requests are on.
const FEW: usize = 4;

/// What is to be written, and whether a thread is at it.
#[derive(Debug, Default)]
pub(super) struct Queue {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    jobs: VecDeque<Job>,
    is_at_work: bool,
    /// Whether the last write was no more than a copy.
    is_fast: bool,
}

#[derive(Debug)]
struct Job {
    pieces: Vec<Bytes>,
    at: u64,
    told: oneshot::Sender<Result<(), Fault>>,
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Arrival {
    /// Has `pieces` written from byte `at` on, behind what came before, whether or not anybody waits for it; tells
    /// how that went. Where the runtime is shut down before, nothing is told.
    pub(crate) fn write_in_turn(
        self: &Arc<Self>,
        pieces: Vec<Bytes>,
        at: u64,
    ) -> oneshot::Receiver<Result<(), Fault>> {
        let (told, tells) = oneshot::channel();
        let mut state = self.queue.lock();
        state.jobs.push_back(Job { pieces, at, told });
        if !std::mem::replace(&mut state.is_at_work, true) {
            let is_fast = state.is_fast;
            drop(state);
            let work = Work { arrival: self.clone(), is_done: false };
            // A runtime of one thread has no other for its requests.
            if is_fast && Handle::current().runtime_flavor() == RuntimeFlavor::MultiThread {
                work.run_a_few();
            } else {
                spawn_blocking(move || work.run());
            }
        }
        tells
    }
}

/// Writes until nothing is left to write.
struct Work {
    arrival: Arc<Arrival>,
    is_done: bool,
}

impl Work {
    fn run(mut self) {
        while self.write_next().is_some() {}
    }

    /// Hands the rest off where there is more than a few, or the disk turns out to be slow.
    fn run_a_few(mut self) {
        for _ in 0..FEW {
            match self.write_next() {
                None => return,
                Some(took) if took < SLOW => {}
                Some(_) => break,
            }
        }
        spawn_blocking(move || self.run());
    }

    /// How long the next one took, where there was one.
    fn write_next(&mut self) -> Option<Duration> {
        let Some(Job { pieces, at, told }) = self.next() else {
            self.is_done = true;
            return None;
        };
        let began = Instant::now();
        let written = self.arrival.write(&pieces, at);
        let took = began.elapsed();
        self.arrival.queue.lock().is_fast = took < SLOW;
        drop(pieces); // the memory is free before anybody is told
        // Who asked may be gone.
        let _ = told.send(written);
        Some(took)
    }

    fn next(&self) -> Option<Job> {
        let mut state = self.arrival.queue.lock();
        let job = state.jobs.pop_front();
        state.is_at_work = job.is_some();
        job
    }
}

impl Drop for Work {
    /// Where it never ran, or panicked, nobody is to wait for what it had to do.
    fn drop(&mut self) {
        if !self.is_done {
            *self.arrival.queue.lock() = State::default();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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

    /// A runtime whose one thread for what blocks is taken, so that nothing that is handed off is done.
    fn busy(mut builder: tokio::runtime::Builder) -> (tokio::runtime::Runtime, std::sync::mpsc::Sender<()>) {
        let runtime = builder.max_blocking_threads(1).build().unwrap();
        let (frees, waits) = std::sync::mpsc::channel();
        runtime.spawn_blocking(move || waits.recv());
        (runtime, frees)
    }

    #[test]
    fn only_what_is_a_copy_is_written_where_it_was_received() {
        use futures::FutureExt;
        use tokio::runtime::Builder;
        for (builder, is_fast, is_here) in [
            (Builder::new_multi_thread(), true, true),
            (Builder::new_multi_thread(), false, false),
            (Builder::new_current_thread(), true, false),
        ] {
            let directory = tempfile::tempdir().unwrap();
            let arrival = arrival(&directory);
            arrival.queue.lock().is_fast = is_fast;
            let (runtime, frees) = busy(builder);
            let entered = runtime.enter();
            let mut told = arrival.write_in_turn(vec!["text".into()], 0);
            assert_eq!((&mut told).now_or_never().is_some(), is_here);
            if !is_here {
                frees.send(()).unwrap();
                told.blocking_recv().unwrap().unwrap();
            }
            drop(entered);
        }
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn what_comes_while_a_few_are_written_is_written_too() {
        let directory = tempfile::tempdir().unwrap();
        let arrival = arrival(&directory);
        arrival.queue.lock().is_fast = true;
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
        assert!(
            there
                .chunks(1 << 10)
                .enumerate()
                .all(|(at, piece)| piece.iter().all(|byte| *byte == (at % 50) as u8))
        );
    }

    #[test]
    fn nobody_waits_for_a_runtime_that_is_gone() {
        let directory = tempfile::tempdir().unwrap();
        let arrival = arrival(&directory);
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
