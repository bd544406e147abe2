//! Short works on files, several in a row on one thread that may wait for a disk.
//!
//! To wake a thread for each, and then whoever waits for it, takes longer than to make a small file.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::time::timeout;

use super::fault::shut_down;
use crate::backend::Fault;

/// So many works are gathered for one thread where many more are to come, and for so long.
const GATHERED: usize = 16;
const COMING_FOR_EACH: usize = 8;
const GATHERED_FOR: Duration = Duration::from_millis(2);

/// Those who wait are told together: of so many works at most, or when this much has gone by since the last time.
const TOLD_AT_ONCE: usize = 16;
const TOLD_AFTER: Duration = Duration::from_micros(500);

/// Where a work has waited for so long the disk is slow, and may do more at once; several threads in one directory wait
/// for each other.
const LATE: Duration = Duration::from_millis(10);
const MOST_THREADS: usize = 64;

/// A thread does works of all runtimes for so long: its own may be waiting for it to end.
const LONGEST: Duration = Duration::from_millis(10);

static QUEUE: Mutex<Queue> = Mutex::new(Queue { waiting: VecDeque::new(), threads: 0 });

/// How many works are to come.
static COMING: AtomicUsize = AtomicUsize::new(0);

struct Queue {
    waiting: VecDeque<Waiting>,
    threads: usize,
}

/// A work that is to come soon, until it is handed off or this is dropped.
#[derive(Debug)]
pub(crate) struct Coming(());

impl Coming {
    pub(crate) fn soon() -> Self {
        COMING.fetch_add(1, Relaxed);
        Self(())
    }
}

impl Drop for Coming {
    fn drop(&mut self) {
        COMING.fetch_sub(1, Relaxed);
    }
}

struct Waiting {
    work: Box<dyn Work>,
    since: Instant,
    runtime: Handle,
}

/// Runs `work` on the runtime's blocking pool, behind others that wait. It runs to its end even where nobody waits any
/// more.
pub(super) async fn batched<T: Send + 'static>(
    coming: Coming,
    work: impl FnOnce() -> Result<T, Fault> + Send + 'static,
) -> Result<T, Fault> {
    drop(coming);
    let mut told = hand_off(work, Handle::current());
    let given_up = GivenUp;
    let told = loop {
        match timeout(GATHERED_FOR, &mut told).await {
            Ok(told) => break told,
            // Nothing more comes, or those before it wait for the disk.
            Err(_) => start(lock().helper(0)),
        }
    };
    std::mem::forget(given_up);
    match told {
        Ok(Ok(result)) => result,
        Ok(Err(panic)) => std::panic::resume_unwind(panic),
        Err(_) => Err(shut_down()),
    }
}

/// Whoever waited waits no more, and would not see to it that the work is done, which holds memory.
struct GivenUp;

impl Drop for GivenUp {
    fn drop(&mut self) {
        start(lock().helper(0));
    }
}

fn hand_off<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
    runtime: Handle,
) -> oneshot::Receiver<thread::Result<T>> {
    let (tell, told) = oneshot::channel();
    let work = Box::new(Told { work: Some(work), done: None, tell });
    let helper = {
        let mut queue = lock();
        queue.waiting.push_back(Waiting { work, since: Instant::now(), runtime });
        queue.helper(enough())
    };
    start(helper);
    told
}

fn lock() -> MutexGuard<'static, Queue> {
    // Every change is made whole before the lock is given up, so a poisoned state is sound.
    QUEUE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// How many are gathered, of as many as are to come.
fn enough() -> usize {
    GATHERED.min(COMING.load(Relaxed) / COMING_FOR_EACH)
}

impl Queue {
    /// Where there is to be one more thread, which is counted already; not the first before `enough` wait.
    fn helper(&mut self, enough: usize) -> Option<Handle> {
        let first = self.waiting.front()?;
        let is_due = match self.threads {
            0 => self.waiting.len() >= enough,
            threads => threads < MOST_THREADS && first.since.elapsed() >= LATE,
        };
        let runtime = is_due.then(|| first.runtime.clone())?;
        self.threads += 1;
        Some(runtime)
    }
}

fn start(helper: Option<Handle>) {
    if let Some(runtime) = helper {
        let thread = Thread { has_ended: false };
        runtime.spawn_blocking(move || thread.run());
    }
}

/// One of those that the queue counts.
struct Thread {
    has_ended: bool,
}

impl Thread {
    fn run(mut self) {
        let (began, mut told_at, mut done) = (Instant::now(), Instant::now(), Vec::new());
        while let Some(mut work) = self.next(began) {
            work.run();
            done.push(work);
            if done.len() == TOLD_AT_ONCE || told_at.elapsed() >= TOLD_AFTER {
                done.drain(..).for_each(|work| work.tell());
                told_at = Instant::now();
            }
        }
        done.into_iter().for_each(|work| work.tell());
    }

    fn next(&mut self, began: Instant) -> Option<Box<dyn Work>> {
        let mut queue = lock();
        let next = if began.elapsed() < LONGEST { queue.waiting.pop_front() } else { None };
        if next.is_none() {
            self.has_ended = true;
            queue.threads -= 1;
        }
        let helper = queue.helper(enough());
        drop(queue);
        start(helper);
        next.map(|waiting| waiting.work)
    }
}

impl Drop for Thread {
    /// One that never ran, as its runtime is shut down, leaves what waits to the runtimes that it came from.
    fn drop(&mut self) {
        if self.has_ended {
            return;
        }
        let left = {
            let mut queue = lock();
            queue.threads -= 1;
            if queue.threads == 0 { std::mem::take(&mut queue.waiting) } else { VecDeque::new() }
        };
        for Waiting { mut work, runtime, .. } in left {
            runtime.spawn_blocking(move || {
                work.run();
                work.tell();
            });
        }
    }
}

trait Work: Send {
    fn run(&mut self);
    fn tell(self: Box<Self>);
}

/// A work, and then what it came to.
struct Told<F, T> {
    work: Option<F>,
    done: Option<thread::Result<T>>,
    tell: oneshot::Sender<thread::Result<T>>,
}

impl<F: FnOnce() -> T + Send, T: Send> Work for Told<F, T> {
    fn run(&mut self) {
        self.done = self.work.take().map(|work| catch_unwind(AssertUnwindSafe(work)));
    }

    fn tell(self: Box<Self>) {
        if let Some(done) = self.done {
            // Who asked may be gone.
            let _ = self.tell.send(done);
        }
    }
}

#[cfg(test)]
mod tests;
