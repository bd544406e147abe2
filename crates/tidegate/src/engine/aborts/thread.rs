//! Tidegate's own thread and runtime, for work that must outlive the runtime of its caller. The thread starts with
//! the first such work and ends when it has had none for a while.

use std::future::Future;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::runtime::{Builder, Handle, Runtime};
use tokio::task::JoinHandle;
use tokio_util::task::TaskTracker;
use tracing::warn;

/// How long the thread, with its connections, waits for more work.
const LINGERS: Duration = Duration::from_secs(1);

/// The thread of one engine.
#[derive(Debug)]
pub(super) struct OwnThread {
    /// The thread's runtime, while the thread runs.
    running: Mutex<Option<Handle>>,
    work: TaskTracker,
}

impl Default for OwnThread {
    fn default() -> Self {
        let work = TaskTracker::new();
        work.close(); // a closed tracker still takes tasks; `wait` needs it closed to return once there are none
        Self { running: Mutex::default(), work }
    }
}

impl OwnThread {
    /// Runs `task` on the thread; on `otherwise`, if the system gives no thread.
    pub(super) fn spawn<T: Send + 'static>(
        self: &Arc<Self>,
        task: impl Future<Output = T> + Send + 'static,
        otherwise: &Handle,
    ) -> JoinHandle<T> {
        let mut running = self.lock();
        if running.is_none() {
            match self.start(std::thread::Builder::new().name("tidegate-aborts".to_owned())) {
                Ok(runtime) => *running = Some(runtime),
                Err(error) => warn!(%error, "no thread for aborts: they run on the writer's runtime"),
            }
        }
        // The thread ends only while nobody holds the lock and no work is counted.
        self.work.spawn_on(task, running.as_ref().unwrap_or(otherwise))
    }

    /// The thread's runtime, if it runs and this is another thread.
    pub(super) fn elsewhere(&self) -> Option<Handle> {
        let here = Handle::try_current().ok().map(|runtime| runtime.id());
        self.lock().clone().filter(|runtime| Some(runtime.id()) != here)
    }

    fn start(self: &Arc<Self>, thread: std::thread::Builder) -> io::Result<Handle> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let (handle, own) = (runtime.handle().clone(), self.clone());
        let runtime = Arc::new(Mutex::new(Some(runtime)));
        let threads = runtime.clone();
        let run = move || {
            let runtime = take(&threads);
            if let Some(runtime) = runtime {
                runtime.block_on(own.until_idle());
            }
        };
        if let Err(error) = thread.spawn(run) {
            // This may run in a task of another runtime, where dropping a runtime would panic.
            if let Some(runtime) = take(&runtime) {
                runtime.shutdown_background();
            }
            return Err(error);
        }
        Ok(handle)
    }

    async fn until_idle(&self) {
        loop {
            self.work.wait().await;
            tokio::time::sleep(LINGERS).await;
            let mut running = self.lock();
            if self.work.is_empty() {
                *running = None;
                return;
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<Handle>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn take(runtime: &Mutex<Option<Runtime>>) -> Option<Runtime> {
    runtime.lock().unwrap_or_else(PoisonError::into_inner).take()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn no_thread_from_the_system_is_an_error() {
        let own = Arc::new(OwnThread::default());
        // More stack than there are addresses.
        let thread = std::thread::Builder::new().stack_size(1 << 60);
        assert!(own.start(thread).is_err());
        assert!(own.lock().is_none());
    }
}
