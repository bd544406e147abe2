//! One engine with its runtime. Python keeps one for each set of settings, and makes new ones after a fork.

use std::sync::{Arc, Mutex, PoisonError};

use futures::TryStreamExt;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use tidegate::Tidegate;
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::task::JoinHandle;

use crate::errors;
use crate::left::LeftUpload;
use crate::objects::Progress;
use crate::operation::Operation;
use crate::process::OfProcess;
use crate::settings;

/// The engine and the runtime of its futures, shared by all that came from it.
#[derive(Debug)]
pub(crate) struct Running {
    tide: Tidegate,
    runtime: Handle,
    cancelled: CancelledTasks,
    _owned: OwnedRuntime,
}

/// The tasks that were cancelled without a wait for their end. A task drops its call, which registers the abort of an
/// upload, a moment after it is cancelled.
#[derive(Clone, Debug, Default)]
pub(crate) struct CancelledTasks(Arc<Mutex<Vec<JoinHandle<()>>>>);

impl CancelledTasks {
    pub(crate) fn cancel(&self, task: JoinHandle<()>) {
        task.abort();
        let mut tasks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        tasks.retain(|task| !task.is_finished());
        tasks.push(task);
    }

    /// Waits until every task that was cancelled before this call has dropped its call.
    async fn dropped(&self) {
        let tasks = std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        for task in tasks {
            // An error says that the task was cancelled.
            let _ = task.await;
        }
    }
}

/// A runtime that ends without waiting for its tasks.
#[derive(Debug)]
struct OwnedRuntime(Option<Runtime>);

impl Drop for OwnedRuntime {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

impl Running {
    pub(crate) fn tide(&self) -> &Tidegate {
        &self.tide
    }

    pub(crate) fn runtime(&self) -> &Handle {
        &self.runtime
    }

    pub(crate) fn cancelled(&self) -> &CancelledTasks {
        &self.cancelled
    }
}

/// A share of the engine, inert in a forked child.
pub(crate) type Shared = Arc<OfProcess<Running>>;

/// The engine of one process and one set of settings.
#[pyclass(frozen, module = "tidegate._native")]
#[derive(Debug)]
pub(crate) struct Engine {
    shared: Shared,
}

impl Engine {
    pub(crate) fn shared(&self) -> Shared {
        self.shared.clone()
    }
}

#[pymethods]
impl Engine {
    #[new]
    fn new(py: Python<'_>, options: &Bound<'_, PyDict>) -> PyResult<Self> {
        let tide = settings::engine(options)?.build().map_err(|error| errors::raised(py, &error))?;
        let runtime =
            Builder::new_multi_thread().worker_threads(2).thread_name("tidegate").enable_all().build();
        let runtime = runtime
            .map_err(|error| PyRuntimeError::new_err(format!("the system gives no threads: {error}")))?;
        let running = Running {
            tide,
            runtime: runtime.handle().clone(),
            cancelled: CancelledTasks::default(),
            _owned: OwnedRuntime(Some(runtime)),
        };
        Ok(Self { shared: Arc::new(OfProcess::new(running)) })
    }

    /// Figures of everything that this engine does, summed up.
    fn progress(&self, py: Python<'_>) -> PyResult<Progress> {
        Ok(self.shared.get(py)?.tide.progress().snapshot().into())
    }

    /// Use of the memory budget in bytes, by name.
    fn usage<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let usage = self.shared.get(py)?.tide.usage();
        let named = PyDict::new(py);
        for (name, figure) in [
            ("total", usage.total),
            ("held", usage.held),
            ("half_filled", usage.half_filled),
            ("peak", usage.peak),
            ("waiting", usage.waiting as u64),
            ("spooled", usage.spooled),
        ] {
            named.set_item(name, figure)?;
        }
        Ok(named)
    }

    /// Waits until the sessions of discarded writers are aborted; gives the errors of the others.
    fn settled(&self, py: Python<'_>) -> PyResult<Operation> {
        let running = self.shared.get(py)?;
        let (tide, cancelled) = (running.tide.clone(), running.cancelled.clone());
        let settled = async move {
            cancelled.dropped().await;
            Ok(tide.settled().await)
        };
        Ok(Operation::new(&self.shared, None, settled, |py, failed| {
            let failed: Vec<_> =
                failed.iter().map(|error| errors::exception(py, error)).collect::<PyResult<_>>()?;
            Ok(PyList::new(py, failed)?.into_any().unbind())
        }))
    }

    fn create_bucket(&self, py: Python<'_>, url: String, options: &Bound<'_, PyDict>) -> PyResult<Operation> {
        let tide = settings::reaching(&self.shared.get(py)?.tide, &url, options)?;
        Ok(Operation::of_nothing(&self.shared, async move { tide.create_bucket(url).await }))
    }

    fn remove_bucket(&self, py: Python<'_>, url: String, options: &Bound<'_, PyDict>) -> PyResult<Operation> {
        let tide = settings::reaching(&self.shared.get(py)?.tide, &url, options)?;
        Ok(Operation::of_nothing(&self.shared, async move { tide.remove_bucket(url).await }))
    }

    /// The buckets of an account: their names, and when they were created, where the store tells that.
    fn buckets(&self, py: Python<'_>, scheme: String, options: &Bound<'_, PyDict>) -> PyResult<Operation> {
        let buckets = settings::reaching(&self.shared.get(py)?.tide, &scheme, options)?.buckets(scheme);
        Ok(Operation::new(&self.shared, None, buckets.try_collect::<Vec<_>>(), |py, buckets| {
            let named = buckets.into_iter().map(|bucket| (bucket.name, bucket.created));
            Ok(PyList::new(py, named)?.into_any().unbind())
        }))
    }

    /// The uploads that were left in the journal directories.
    fn recover(&self, py: Python<'_>) -> PyResult<Operation> {
        let (tide, shared) = (self.shared.get(py)?.tide.clone(), self.shared.clone());
        let left = async move { tide.recover().await };
        Ok(Operation::new(&self.shared, None, left, move |py, left| {
            let left = left.into_iter().map(|left| Py::new(py, LeftUpload::new(&shared, left)));
            Ok(PyList::new(py, left.collect::<PyResult<Vec<_>>>()?)?.into_any().unbind())
        }))
    }
}
