//! Work on the files of a download that has let go of them when the drop of its caller returns, so that the next download
//! of the same object to the same path finds them free.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use crate::backend::Fault;
use crate::backend::local::{DROP_LIMIT, WaitedWork, Waiter};
use crate::types::owner_process::OwnerProcess;
use crate::types::spawn_blocking::spawn_blocking;

/// Does `work` on a thread that may block. If this is dropped meanwhile, the drop waits until the work has noticed that
/// nobody waits for it, and its result is dropped: [`DROP_LIMIT`] at most.
pub(super) async fn or_let_go<T: Send + 'static>(
    work: impl FnOnce(&WaitedWork) -> Result<T, Fault> + Send + 'static,
) -> Result<T, Fault> {
    let waiter = Waiter::default();
    let (waiting, shared) = (waiter.waiting(), Arc::<SharedWork<T>>::default());
    let mut caller = Caller { owner: OwnerProcess::this(), waiter: Some(waiter), shared: shared.clone() };
    spawn_blocking(move || {
        *shared.lock() = WorkState::Running;
        let result = waiting.check().and_then(|()| work(&waiting));
        let mut state = shared.lock();
        *state = WorkState::Done(if waiting.check().is_ok() {
            Some(result)
        } else {
            drop(result);
            None
        });
        shared.ended.notify_all();
    })
    .await;
    caller.take()
}

#[derive(Debug)]
struct SharedWork<T> {
    state: Mutex<WorkState<T>>,
    ended: Condvar,
}

#[derive(Debug)]
enum WorkState<T> {
    /// It has no thread yet, and no file.
    Queued,
    Running,
    /// The result, unless nobody waited for it.
    Done(Option<Result<T, Fault>>),
}

impl<T> Default for SharedWork<T> {
    fn default() -> Self {
        Self { state: Mutex::new(WorkState::Queued), ended: Condvar::new() }
    }
}

impl<T> SharedWork<T> {
    fn lock(&self) -> MutexGuard<'_, WorkState<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The caller, which waits for the result, or is dropped.
struct Caller<T> {
    owner: OwnerProcess,
    waiter: Option<Waiter>,
    shared: Arc<SharedWork<T>>,
}

impl<T> Caller<T> {
    /// The result of work that is done.
    fn take(&mut self) -> Result<T, Fault> {
        if let Some(waiter) = self.waiter.take() {
            waiter.done();
        }
        match &mut *self.shared.lock() {
            WorkState::Done(result) => result.take(),
            WorkState::Queued | WorkState::Running => None,
        }
        .unwrap_or_else(|| unreachable!("its caller waits for the work"))
    }
}

impl<T> Drop for Caller<T> {
    fn drop(&mut self) {
        // The work notices from here on that nobody waits.
        let Some(waiter) = self.waiter.take() else { return };
        drop(waiter);
        // The work runs in the parent of a forked child.
        if self.owner.is_parent() {
            return;
        }
        let is_running = |state: &mut WorkState<T>| matches!(state, WorkState::Running);
        let waited = self.shared.ended.wait_timeout_while(self.shared.lock(), DROP_LIMIT, is_running);
        if let WorkState::Done(result) = &mut *waited.unwrap_or_else(PoisonError::into_inner).0 {
            drop(result.take());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::{Duration, Instant};

    use futures::poll;

    use super::*;

    /// Tells when it is dropped, which takes a while.
    struct LockedPart(Arc<Mutex<bool>>);

    impl Drop for LockedPart {
        fn drop(&mut self) {
            std::thread::sleep(Duration::from_millis(20));
            *self.0.lock().unwrap() = true;
        }
    }

    #[tokio::test]
    async fn a_drop_waits_until_the_files_are_let_go() {
        for is_done in [false, true] {
            let let_go = Arc::new(Mutex::new(false));
            let (begins, begun) = mpsc::channel();
            let (polled, was_polled) = mpsc::channel();
            let part = LockedPart(let_go.clone());
            let mut work = Box::pin(or_let_go(move |waiting| {
                was_polled.recv().unwrap();
                begins.send(()).unwrap();
                while !is_done && waiting.check().is_ok() {
                    std::thread::yield_now();
                }
                Ok(part)
            }));
            assert!(poll!(&mut work).is_pending());
            polled.send(()).unwrap();
            begun.recv().unwrap();
            if is_done {
                // Its result is there, and nobody has taken it yet.
                std::thread::sleep(Duration::from_millis(20));
            }
            drop(work);
            assert!(*let_go.lock().unwrap(), "done: {is_done}");
        }
    }

    #[test]
    fn a_drop_does_not_wait_for_work_that_has_no_thread() {
        let runtime = tokio::runtime::Builder::new_current_thread().max_blocking_threads(1).build().unwrap();
        let (free, until) = mpsc::channel::<()>();
        runtime.block_on(async {
            tokio::task::spawn_blocking(move || until.recv());
            let mut work = Box::pin(or_let_go(|_| Ok(())));
            assert!(poll!(&mut work).is_pending());
            let began = Instant::now();
            drop(work);
            assert!(began.elapsed() < DROP_LIMIT / 2);
            drop(free);
            // A result that somebody waits for comes.
            or_let_go(|_| Ok(())).await.unwrap();
        });
    }
}
