//! An upload that was left in a journal.

use std::path::PathBuf;
use std::sync::Arc;

use pyo3::prelude::*;
use tidegate::recover::Resumed;

use crate::engine::Shared;
use crate::objects::{Object, object};
use crate::operation::Operation;
use crate::process::OfProcess;
use crate::store::Store;
use crate::writer::Writer;

/// An upload that was left in a journal, or that another process is writing.
#[pyclass(frozen, module = "tidegate._native")]
pub(crate) struct LeftUpload {
    shared: Shared,
    left: OfProcess<Arc<tidegate::recover::LeftUpload>>,
}

impl LeftUpload {
    pub(crate) fn new(shared: &Shared, left: tidegate::recover::LeftUpload) -> Self {
        Self { shared: shared.clone(), left: OfProcess::new(left.into()) }
    }
}

#[pymethods]
impl LeftUpload {
    #[getter]
    fn id(&self, py: Python<'_>) -> PyResult<String> {
        Ok(self.left.get(py)?.id().to_owned())
    }

    #[getter]
    fn path(&self, py: Python<'_>) -> PyResult<PathBuf> {
        Ok(self.left.get(py)?.path().to_owned())
    }

    /// The object's URL; `None` if the journal cannot be read.
    #[getter]
    fn url(&self, py: Python<'_>) -> PyResult<Option<String>> {
        Ok(self.left.get(py)?.url())
    }

    #[getter]
    fn length(&self, py: Python<'_>) -> PyResult<u64> {
        Ok(self.left.get(py)?.length())
    }

    #[getter]
    fn is_finished(&self, py: Python<'_>) -> PyResult<bool> {
        Ok(self.left.get(py)?.is_finished())
    }

    /// Why it cannot be resumed.
    #[getter]
    fn problem(&self, py: Python<'_>) -> PyResult<Option<String>> {
        Ok(self.left.get(py)?.problem().map(ToString::to_string))
    }

    /// Resumes it, on `store` if one is given: gives an object or a writer.
    fn resume(&self, py: Python<'_>, store: Option<&Store>) -> PyResult<Operation> {
        let (left, shared) = (self.left.get(py)?.clone(), self.shared.clone());
        let store = store.map(|store| store.get(py).cloned()).transpose()?;
        let url = left.url().unwrap_or_default();
        let resumed = async move {
            match store {
                Some(store) => left.resume_on(&store).await,
                None => left.resume().await,
            }
        };
        Ok(Operation::new(&self.shared, None, resumed, move |py, resumed| match resumed {
            Resumed::Object(published) => object(py, published),
            Resumed::Writer(writer) => Ok(Py::new(py, Writer::new(&shared, writer, url.into()))?.into_any()),
        }))
    }

    /// Ends it without an object; if its object turns out to have been published, it stays and is returned.
    fn abort(&self, py: Python<'_>, store: Option<&Store>) -> PyResult<Operation> {
        let left = self.left.get(py)?.clone();
        let store = store.map(|store| store.get(py).cloned()).transpose()?;
        let aborted = async move {
            match store {
                Some(store) => left.abort_on(&store).await,
                None => left.abort().await,
            }
        };
        Ok(Operation::new(&self.shared, None, aborted, |py, published| {
            Ok(published.map(Object).into_pyobject(py)?.into_any().unbind())
        }))
    }

    /// Removes the journal with all its bytes, and sends nothing to the store.
    fn forget(&self, py: Python<'_>) -> PyResult<Operation> {
        let left = self.left.get(py)?.clone();
        Ok(Operation::of_nothing(&self.shared, async move { left.forget().await }))
    }
}
