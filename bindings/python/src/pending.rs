//! A pending upload, and a point of an upload: values that any process can commit, continue or abandon.

use std::time::SystemTime;

use pyo3::prelude::*;
use pyo3::types::PyString;

use crate::errors;

/// An upload that is complete and invisible. It travels as JSON, or pickled.
#[pyclass(frozen, eq, module = "tidegate", from_py_object)]
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Pending(pub(crate) tidegate::upload::Pending);

#[pymethods]
impl Pending {
    /// Reads the text of `to_json`.
    #[staticmethod]
    fn from_json(py: Python<'_>, json: &str) -> PyResult<Self> {
        tidegate::upload::Pending::from_json(json).map(Self).map_err(|error| errors::raised(py, &error))
    }

    /// As JSON, of one line.
    fn to_json(&self) -> String {
        self.0.to_json()
    }

    /// The address of the bucket.
    #[getter]
    fn url(&self) -> &str {
        self.0.url()
    }

    /// The key of the object to be, in its bucket.
    #[getter]
    fn key(&self) -> &str {
        self.0.key()
    }

    /// The size of the object to be, in bytes.
    #[getter]
    fn size(&self) -> u64 {
        self.0.size()
    }

    /// When its lifetime ends.
    #[getter]
    fn until(&self) -> SystemTime {
        self.0.until()
    }

    /// Why the store may end it before its lifetime; known only to the process that prepared it.
    #[getter]
    fn warning(&self) -> Option<&str> {
        self.0.warning()
    }

    fn __repr__(&self) -> String {
        format!("<tidegate.Pending '{}/{}', {} bytes>", self.0.url(), self.0.key(), self.0.size())
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<(Bound<'py, PyAny>, (Bound<'py, PyString>,))> {
        let json = PyString::new(slf.py(), &slf.get().to_json());
        Ok((slf.get_type().getattr("from_json")?, (json,)))
    }
}

/// A point of an upload, from which any process can continue it. It travels as JSON, or pickled.
#[pyclass(frozen, eq, module = "tidegate", from_py_object)]
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Resumable(pub(crate) tidegate::upload::Resumable);

#[pymethods]
impl Resumable {
    /// Reads the text of `to_json`.
    #[staticmethod]
    fn from_json(py: Python<'_>, json: &str) -> PyResult<Self> {
        tidegate::upload::Resumable::from_json(json).map(Self).map_err(|error| errors::raised(py, &error))
    }

    /// As JSON, of one line.
    fn to_json(&self) -> String {
        self.0.to_json()
    }

    /// The address of the bucket.
    #[getter]
    fn url(&self) -> &str {
        self.0.url()
    }

    /// The key of the object to be, in its bucket.
    #[getter]
    fn key(&self) -> &str {
        self.0.key()
    }

    /// How many bytes come before the point.
    #[getter]
    fn size(&self) -> u64 {
        self.0.size()
    }

    /// When its lifetime ends.
    #[getter]
    fn until(&self) -> SystemTime {
        self.0.until()
    }

    /// Why the store may end it before its lifetime; known only to the process that persisted it.
    #[getter]
    fn warning(&self) -> Option<&str> {
        self.0.warning()
    }

    fn __repr__(&self) -> String {
        format!("<tidegate.Resumable '{}/{}' at byte {}>", self.0.url(), self.0.key(), self.0.size())
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<(Bound<'py, PyAny>, (Bound<'py, PyString>,))> {
        let json = PyString::new(slf.py(), &slf.get().to_json());
        Ok((slf.get_type().getattr("from_json")?, (json,)))
    }
}

/// Pending uploads of one bucket that are published together. It travels as JSON, or pickled.
#[pyclass(frozen, eq, module = "tidegate", from_py_object)]
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Manifest(pub(crate) tidegate::store::Manifest);

#[pymethods]
impl Manifest {
    /// The set of these uploads.
    #[new]
    fn new(py: Python<'_>, pointer: String, pending: Vec<Pending>) -> PyResult<Self> {
        let pending = pending.into_iter().map(|pending| pending.0);
        let manifest = tidegate::store::Manifest::new(pointer, pending);
        manifest.map(Self).map_err(|error| errors::raised(py, &error))
    }

    /// Reads the text of `to_json`.
    #[staticmethod]
    fn from_json(py: Python<'_>, json: &str) -> PyResult<Self> {
        tidegate::store::Manifest::from_json(json).map(Self).map_err(|error| errors::raised(py, &error))
    }

    /// As JSON, of one line.
    fn to_json(&self) -> String {
        self.0.to_json()
    }

    /// The address of the bucket.
    #[getter]
    fn url(&self) -> &str {
        self.0.url()
    }

    /// The key, in the bucket, of the object by which readers find the set.
    #[getter]
    fn pointer(&self) -> &str {
        self.0.pointer()
    }

    /// The uploads of the set.
    #[getter]
    fn pending(&self) -> Vec<Pending> {
        self.0.pending().iter().cloned().map(Pending).collect()
    }

    fn __repr__(&self) -> String {
        let uploads = self.0.pending().len();
        format!("<tidegate.Manifest '{}/{}' of {uploads}>", self.0.url(), self.0.pointer())
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<(Bound<'py, PyAny>, (Bound<'py, PyString>,))> {
        let json = PyString::new(slf.py(), &slf.get().to_json());
        Ok((slf.get_type().getattr("from_json")?, (json,)))
    }
}

/// The result of an operation that prepares a set.
pub(crate) fn manifest(py: Python<'_>, manifest: tidegate::store::Manifest) -> PyResult<Py<PyAny>> {
    Ok(Py::new(py, Manifest(manifest))?.into_any())
}

/// The result of an operation that ends a set: the uploads whose objects are visible, and those that were given up.
pub(crate) fn abandoned_set(py: Python<'_>, ended: tidegate::store::AbandonedSet) -> PyResult<Py<PyAny>> {
    let all = |pending: Vec<tidegate::upload::Pending>| pending.into_iter().map(Pending).collect::<Vec<_>>();
    Ok((all(ended.visible), all(ended.abandoned)).into_pyobject(py)?.into_any().unbind())
}

/// An upload that can be given up.
#[derive(FromPyObject)]
pub(crate) enum Unpublished {
    Pending(Pending),
    Resumable(Resumable),
}

/// The result of an operation that persists a point.
pub(crate) fn resumable(py: Python<'_>, point: tidegate::upload::Resumable) -> PyResult<Py<PyAny>> {
    Ok(Py::new(py, Resumable(point))?.into_any())
}

/// The result of an operation that prepares an upload.
pub(crate) fn pending(py: Python<'_>, pending: tidegate::upload::Pending) -> PyResult<Py<PyAny>> {
    Ok(Py::new(py, Pending(pending))?.into_any())
}
