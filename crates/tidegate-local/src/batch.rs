//! Batches short work on files: one blocking thread does several works in a row, then wakes all waiters.
//!
//! Waking a thread for each work, and then its waiter, takes longer than making a small file.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::thread;
use std::time::{Duration, Instant};

use tokio::runtime::{Handle, Id};
use tokio::sync::oneshot;
use tokio::time::timeout;

use super::fault::shut_down;
use tidegate_core::backend::Fault;

/// The first thread starts when one work waits for every `COMING_FOR_EACH` still to come, but at the latest when
/// `GATHERED` wait or after `GATHERED_FOR`.
const GATHERED: usize = 16;
const COMING_FOR_EACH: usize = 8;
const GATHERED_FOR: Duration = Duration::from_millis(2);

/// Waiters are woken together: after this many works, or when this much time has passed since the last wake-up.
const TOLD_AT_ONCE: usize = 16;
const TOLD_AFTER: Duration = Duration::from_micros(500);

/// If a work waits this long, the disk is slow and may do more at once, so another thread starts. Only one at a time,
/// because several in one directory wait for each other; and fewer than the command line's runtime has for blocking
/// work.
const LATE: Duration = Duration::from_millis(10);
const MOST_THREADS: usize = 32;

/// The longest interval at which a waiter checks whether another thread is needed.
const LONGEST_LOOK: Duration = Duration::from_millis(32);

/// One batch for each runtime.
#[derive(Debug, Default)]
pub struct Batches(Mutex<Vec<(Id, Weak<Batch>)>>);

impl Batches {
    /// The batch of the current runtime.
    pub fn here(&self) -> Arc<Batch> {
        let runtime = Handle::current();
        let (id, mut all) = (runtime.id(), lock(&self.0));
        if let Some(batch) = all.iter().find(|(of, _)| *of == id).and_then(|(_, batch)| batch.upgrade()) {
            return batch;
        }
        all.retain(|(_, batch)| batch.strong_count() > 0);
        let batch = Arc::new(Batch { runtime, coming: AtomicUsize::new(0), queue: Mutex::default() });
        all.push((id, Arc::downgrade(&batch)));
        batch
    }
}

/// The works of one runtime.
#[derive(Debug)]
pub struct Batch {
    runtime: Handle,
    /// Works that are announced and not handed off yet.
    coming: AtomicUsize,
    queue: Mutex<BatchQueue>,
}

#[derive(Default)]
struct BatchQueue {
    waiting: VecDeque<(Box<dyn BatchWork>, Instant)>,
    threads: usize,
    /// When the last thread was started.
    started: Option<Instant>,
}

impl std::fmt::Debug for BatchQueue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let waiting = self.waiting.len();
        f.debug_struct("BatchQueue").field("waiting", &waiting).field("threads", &self.threads).finish()
    }
}

/// Announces a work, until it is handed off or this is dropped.
#[derive(Debug)]
pub struct Coming(Arc<Batch>);

impl Drop for Coming {
    fn drop(&mut self) {
        self.0.coming.fetch_sub(1, Relaxed);
    }
}

impl Coming {
    /// Runs `work` on the runtime's blocking pool, after the works that wait. It runs to its end even if nobody waits
    /// for it any more, unless the runtime shuts down before it begins.
    pub(super) async fn done<T: Send + 'static>(
        self,
        work: impl FnOnce() -> Result<T, Fault> + Send + 'static,
    ) -> Result<T, Fault> {
        let batch = self.0.clone();
        drop(self);
        let (result, mut told) = batch.hand_off(work);
        let given_up = CancelledWait(&batch);
        let mut look = GATHERED_FOR;
        while timeout(look, &mut told).await.is_err() && lock(&result).is_none() {
            // No more works arrive, or the ones before this wait for the disk.
            batch.help(0);
            look = (2 * look).min(LONGEST_LOOK);
        }
        std::mem::forget(given_up);
        let result = lock(&result).take();
        match result {
            Some(Ok(result)) => result,
            Some(Err(panic)) => std::panic::resume_unwind(panic),
            None => Err(shut_down()),
        }
    }
}

/// Dropped when a waiter is cancelled: it no longer checks that its work is done, and the work holds memory.
struct CancelledWait<'a>(&'a Arc<Batch>);

impl Drop for CancelledWait<'_> {
    fn drop(&mut self) {
        // If this is a panic because the system gives no thread, the next thread that starts does the work.
        if !thread::panicking() {
            self.0.help(0);
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Every change is complete before the lock is released, so a poisoned state is sound.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

type Slot<T> = Arc<Mutex<Option<thread::Result<T>>>>;

impl Batch {
    /// Announces one more work.
    pub fn coming(self: &Arc<Self>) -> Coming {
        self.coming.fetch_add(1, Relaxed);
        Coming(self.clone())
    }

    /// Queues a work. Returns the slot for its result, and a receiver that wakes when the work is done or dropped.
    fn hand_off<T: Send + 'static>(
        self: &Arc<Self>,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> (Slot<T>, oneshot::Receiver<()>) {
        let (tell, told) = oneshot::channel();
        let result = Slot::default();
        let work = Box::new(BatchedWork { work: Some(work), result: result.clone(), tell });
        lock(&self.queue).waiting.push_back((work, Instant::now()));
        self.help(GATHERED.min(self.coming.load(Relaxed) / COMING_FOR_EACH));
        (result, told)
    }

    /// Starts one more thread if one is needed; the first only when `enough` works wait.
    fn help(self: &Arc<Self>, enough: usize) {
        {
            let mut queue = lock(&self.queue);
            let Some((_, since)) = queue.waiting.front() else { return };
            let is_due = match queue.threads {
                0 => queue.waiting.len() >= enough,
                threads => {
                    let is_late = |since: Instant| since.elapsed() >= LATE;
                    threads < MOST_THREADS && is_late(*since) && queue.started.is_none_or(is_late)
                }
            };
            if !is_due {
                return;
            }
            queue.threads += 1;
            queue.started = Some(Instant::now());
        }
        // Release the lock first: if the runtime is shut down, the thread is dropped here, and takes the lock.
        let thread = Thread { batch: self.clone(), has_ended: false };
        self.runtime.spawn_blocking(move || thread.run());
    }
}

/// One of the threads that the queue counts.
struct Thread {
    batch: Arc<Batch>,
    has_ended: bool,
}

impl Thread {
    fn run(mut self) {
        let (mut told_at, mut done) = (Instant::now(), Vec::new());
        while let Some(mut work) = self.next() {
            work.run();
            done.push(work);
            if done.len() == TOLD_AT_ONCE || told_at.elapsed() >= TOLD_AFTER {
                done.drain(..).for_each(|work| work.tell());
                self.batch.help(0);
                told_at = Instant::now();
            }
        }
        done.into_iter().for_each(|work| work.tell());
    }

    fn next(&mut self) -> Option<Box<dyn BatchWork>> {
        let mut queue = lock(&self.batch.queue);
        let next = queue.waiting.pop_front();
        if next.is_none() {
            self.has_ended = true;
            queue.threads -= 1;
        }
        next.map(|(work, _)| work)
    }
}

impl Drop for Thread {
    /// A thread that never ran, because its runtime is shut down: no waiting work will be done.
    fn drop(&mut self) {
        if self.has_ended {
            return;
        }
        let left = {
            let mut queue = lock(&self.batch.queue);
            queue.threads -= 1;
            if queue.threads == 0 { std::mem::take(&mut queue.waiting) } else { VecDeque::new() }
        };
        drop(left);
    }
}

trait BatchWork: Send {
    fn run(&mut self);
    fn tell(self: Box<Self>);
}

/// A work, and the slot for its result.
struct BatchedWork<F, T> {
    work: Option<F>,
    result: Slot<T>,
    tell: oneshot::Sender<()>,
}

impl<F: FnOnce() -> T + Send, T: Send> BatchWork for BatchedWork<F, T> {
    fn run(&mut self) {
        let result = self.work.take().map(|work| catch_unwind(AssertUnwindSafe(work)));
        *lock(&self.result) = result;
    }

    fn tell(self: Box<Self>) {
        // The waiter may be gone.
        let _ = self.tell.send(());
    }
}

#[cfg(test)]
mod tests;
