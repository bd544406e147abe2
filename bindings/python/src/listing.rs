//! A listing, taken in batches.

use std::sync::Arc;

use futures::stream::Fuse;
use futures::{FutureExt, StreamExt};
use pyo3::prelude::*;
use pyo3::types::PyList;
use tidegate::Entry;
use tidegate::store::ListStream;
use tokio::sync::Mutex;

use crate::engine::Shared;
use crate::objects::{Object, Other, Prefix};
use crate::operation::Operation;
use crate::process::OfProcess;

/// The most entries that are taken at once: as many as most stores list in a page.
const BATCH: usize = 1000;

/// The entries of a listing that were not taken yet.
#[pyclass(frozen, module = "tidegate._native")]
pub(crate) struct Listing {
    shared: Shared,
    rest: OfProcess<Arc<Mutex<Rest>>>,
}

struct Rest {
    entries: Fuse<ListStream>,
    /// The error that ended the listing, while entries before it were not given yet.
    failed: Option<tidegate::Error>,
}

impl Listing {
    pub(crate) fn new(shared: &Shared, entries: ListStream) -> Self {
        let rest = Rest { entries: entries.fuse(), failed: None };
        Self { shared: shared.clone(), rest: OfProcess::new(Arc::new(Mutex::new(rest))) }
    }
}

#[pymethods]
impl Listing {
    /// The next entries, at least one; none at the end.
    fn next_batch(&self, py: Python<'_>) -> PyResult<Operation> {
        let rest = self.rest.get(py)?.clone();
        let batch = async move {
            let Rest { entries, failed } = &mut *rest.lock().await;
            if let Some(failed) = failed.take() {
                return Err(failed);
            }
            let mut batch: Vec<Entry> = entries.next().await.transpose()?.into_iter().collect();
            while !batch.is_empty() && batch.len() < BATCH {
                match entries.next().now_or_never().flatten() {
                    Some(Ok(entry)) => batch.push(entry),
                    Some(Err(error)) => {
                        *failed = Some(error);
                        break;
                    }
                    None => break,
                }
            }
            Ok(batch)
        };
        Ok(Operation::new(&self.shared, None, batch, |py, batch| {
            let entries = batch.into_iter().map(|entry| value(py, entry)).collect::<PyResult<Vec<_>>>()?;
            Ok(PyList::new(py, entries)?.into_any().unbind())
        }))
    }
}

fn value(py: Python<'_>, entry: Entry) -> PyResult<Py<PyAny>> {
    Ok(match entry {
        Entry::Object(object) => Py::new(py, Object(object))?.into_any(),
        Entry::Prefix(key) => Py::new(py, Prefix { key })?.into_any(),
        other => Py::new(py, Other { key: other.key().to_owned() })?.into_any(),
    })
}
