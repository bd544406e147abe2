//! Options by name, as Python's keyword arguments, and their values.

use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyString;

/// The value of one option; errors name the option.
pub(crate) struct Argument<'a, 'py> {
    pub(crate) name: &'a str,
    pub(crate) value: Bound<'py, PyAny>,
}

impl<'py> Argument<'_, 'py> {
    pub(crate) fn get<T: for<'a> FromPyObject<'a, 'py, Error: Into<PyErr>>>(&self) -> PyResult<T> {
        self.value.extract::<T>().map_err(|error| {
            let error: PyErr = error.into();
            let (py, name) = (self.value.py(), self.name);
            PyTypeError::new_err(format!("{name}: {}", error.value(py)))
        })
    }

    /// Seconds, as a number or as a `timedelta`.
    pub(crate) fn duration(&self) -> PyResult<Duration> {
        if let Ok(duration) = self.value.extract::<Duration>() {
            return Ok(duration);
        }
        let seconds: f64 = self.get()?;
        Duration::try_from_secs_f64(seconds).map_err(|_| {
            PyValueError::new_err(format!("{}: {seconds} seconds are no time to wait", self.name))
        })
    }

    /// One of several names.
    pub(crate) fn named<T: FromStr<Err: std::fmt::Display>>(&self) -> PyResult<T> {
        let name: String = self.get()?;
        name.parse().map_err(|error| PyValueError::new_err(format!("{}: {error}", self.name)))
    }

    /// One path, or several.
    pub(crate) fn paths(&self) -> PyResult<Vec<PathBuf>> {
        if self.value.is_instance_of::<PyString>() || self.value.hasattr("__fspath__")? {
            return Ok(vec![self.get()?]);
        }
        self.get()
    }

    pub(crate) fn unknown(&self) -> PyErr {
        PyTypeError::new_err(format!("there is no option '{}'", self.name))
    }
}
