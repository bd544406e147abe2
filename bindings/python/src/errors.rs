//! The library's errors as exceptions. Their classes are Python's own, in `tidegate/_errors.py`.

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyDict;

/// The exception for `error`, or the one that kept it from being made.
pub(crate) fn raised(py: Python<'_>, error: &tidegate::Error) -> PyErr {
    exception(py, error).map_or_else(|failed| failed, |made| PyErr::from_value(made.into_bound(py)))
}

/// The exception for `error`, to be returned instead of raised.
pub(crate) fn exception(py: Python<'_>, error: &tidegate::Error) -> PyResult<Py<PyAny>> {
    let fields = PyDict::new(py);
    fields.set_item("kind", error.kind().name())?;
    fields.set_item("operation", error.operation().name())?;
    fields.set_item("url", error.object())?;
    fields.set_item("part", error.part().map(|(number, range)| (number, range.start, range.end)))?;
    fields.set_item("attempts", error.attempts())?;
    fields.set_item("elapsed", error.elapsed().as_secs_f64())?;
    fields.set_item("is_unreachable", error.is_unreachable())?;
    fields.set_item("errno", system_error(error))?;
    let make = function(py, &MAKE, "from_fields")?;
    Ok(make.call1((error.to_string(), fields))?.unbind())
}

/// The system's number of the error, if it is one of a local file.
fn system_error(error: &tidegate::Error) -> Option<i32> {
    use tidegate::ErrorKind as Kind;
    // Errors of the network have other kinds.
    let is_of_file = matches!(
        error.kind(),
        Kind::NotFound | Kind::NoBucket | Kind::PermissionDenied | Kind::InvalidInput | Kind::Source
    );
    let mut cause = std::error::Error::source(error).filter(|_| is_of_file);
    while let Some(found) = cause {
        if let Some(number) = found.downcast_ref::<std::io::Error>().and_then(std::io::Error::raw_os_error) {
            return Some(number);
        }
        cause = found.source();
    }
    None
}

/// The exception for an error of an operation on trees, to be returned instead of raised.
pub(crate) fn of_trees(py: Python<'_>, error: &tidegate_transfer::Error) -> PyResult<Py<PyAny>> {
    use tidegate_transfer::Error;
    use tidegate_transfer::command::CommandError;
    let mut cause = error;
    while let Error::At { error, .. } = cause {
        cause = error;
    }
    let kind = match cause {
        Error::Store(error) => return exception(py, error),
        Error::Refused(_) | Error::NotRemoved(_) => "invalid_input",
        Error::Disorder(_) => "unsupported",
        Error::Stopped => "closed",
        Error::NotFound(_) => "not_found",
        Error::Denied(_) => "permission_denied",
        Error::Command(CommandError::Missing { .. }) => "not_found",
        Error::Command(CommandError::TimedOut { .. }) => "timeout",
        Error::Command(_) => "source",
        _ => "failed",
    };
    let fields = PyDict::new(py);
    fields.set_item("kind", kind)?;
    fields.set_item("url", error.object().unwrap_or_default())?;
    let make = function(py, &MAKE, "from_fields")?;
    Ok(make.call1((error.to_string(), fields))?.unbind())
}

/// The exception for the use of what process `parent` made, in a process that was forked from it; with the object's
/// URL, where it is known.
pub(crate) fn forked(py: Python<'_>, parent: i32, url: &str) -> PyErr {
    made(function(py, &FORKED, "inherited").and_then(|make| make.call1((parent, url))))
}

/// The exception for the use of a writer or reader that has ended.
pub(crate) fn closed(py: Python<'_>, url: &str, what: &str) -> PyErr {
    made(function(py, &CLOSED, "closed").and_then(|make| make.call1((url, what))))
}

fn made(exception: PyResult<Bound<'_, PyAny>>) -> PyErr {
    exception.map_or_else(|failed| failed, PyErr::from_value)
}

static MAKE: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
static FORKED: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
static CLOSED: PyOnceLock<Py<PyAny>> = PyOnceLock::new();

fn function<'py>(
    py: Python<'py>,
    kept: &'static PyOnceLock<Py<PyAny>>,
    name: &str,
) -> PyResult<Bound<'py, PyAny>> {
    let found =
        kept.get_or_try_init(py, || Ok::<_, PyErr>(py.import("tidegate._errors")?.getattr(name)?.unbind()))?;
    Ok(found.bind(py).clone())
}
