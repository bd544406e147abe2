//! Writes of one file, in turn. A file system lets one write at a time into a file, and those that wait for it
//! spin on a processor: with a thread for each range that was an eighth of a download's processor time.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use tokio::sync::oneshot;

use super::Arrival;
use crate::backend::Fault;

/// What is to be written, and whether a thread is at it.
#[derive(Debug, Default)]
pub(super) struct Queue {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    jobs: VecDeque<Job>,
    is_at_work: bool,
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
            drop(state);
            let work = Work { arrival: self.clone(), is_done: false };
            tokio::task::spawn_blocking(move || work.run());
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
        while let Some(Job { pieces, at, told }) = self.next() {
            let written = self.arrival.write(&pieces, at);
            drop(pieces); // the memory is free before anybody is told
            // Who asked may be gone.
            let _ = told.send(written);
        }
        self.is_done = true;
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
