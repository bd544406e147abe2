//! Operations on trees: the library's, with their events taken in batches.

use std::ffi::{OsStr, OsString};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use futures::{FutureExt, StreamExt};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyString};
use tidegate::location::Location;
use tidegate_transfer::command::ExternalCommand;
use tidegate_transfer::{
    AfterCopy, CheckTrees, Comparison, CopyTrees, Distinct, Event, Extra, FileOptions, IfExists, Links,
    ObjectFilter, RemoveTrees, Report, Run, RunHandle, Source, SyncTrees, Tree, Wildcards,
};
use tokio::sync::Mutex;

use crate::arguments::Argument;
use crate::engine::Shared;
use crate::errors;
use crate::operation::{Operation, Outcome};
use crate::process::OfProcess;
use crate::store::Store;

/// The most events that are taken at once.
const BATCH: usize = 1000;

/// An operation on trees that runs while its events are taken.
#[pyclass(frozen, module = "tidegate._native")]
pub(crate) struct TreeRun {
    shared: Shared,
    run: OfProcess<Arc<Mutex<Option<Run>>>>,
    handle: RunHandle,
}

#[pymethods]
impl TreeRun {
    /// The next events, or `None` at the end. Cancelled, it stops the operation. Other threads wait meanwhile.
    fn next_batch(&self, py: Python<'_>) -> PyResult<Operation> {
        let place = self.run.get(py)?.clone();
        let work = async move {
            let mut place = place.lock().await;
            // A batch that is cancelled drops the run.
            let Some(mut run) = place.take() else { return made(|py| Ok(py.None())) };
            let mut batch: Vec<Event> = run.next().await.into_iter().collect();
            while !batch.is_empty() && batch.len() < BATCH {
                match run.next().now_or_never().flatten() {
                    Some(event) => batch.push(event),
                    None => break,
                }
            }
            *place = Some(run);
            if batch.is_empty() {
                return made(|py| Ok(py.None()));
            }
            made(|py| {
                let events = batch.into_iter().filter_map(|event| value(py, event).transpose());
                let events = events.collect::<PyResult<Vec<_>>>()?;
                Ok(PyList::new(py, events)?.into_any().unbind())
            })
        };
        Ok(Operation::of(&self.shared, None, Box::pin(work)))
    }

    /// How far it is.
    fn progress(&self) -> Figures {
        let progress = self.handle.progress();
        (progress.moved, progress.expected, progress.done, progress.found)
    }

    /// The report, and the exception of what ended it early, after all events.
    fn result(&self, py: Python<'_>) -> PyResult<(Py<PyAny>, Option<Py<PyAny>>)> {
        let run = self.run.get(py)?.try_lock().ok().and_then(|mut place| place.take());
        let Some(run) = run else {
            return Err(PyValueError::new_err("the operation has not come to its end"));
        };
        let (report, result) = run.into_parts();
        let error = result.err().map(|error| errors::of_trees(py, &error)).transpose()?;
        Ok((fields(py, &report)?, error))
    }

    /// Stops the operation, also while another thread waits for its events.
    fn stop(&self) {
        self.handle.stop();
    }
}

fn location(text: &OsStr) -> PyResult<Location> {
    Location::try_from(text).map_err(|error| PyValueError::new_err(error.to_string()))
}

/// Bytes moved, bytes expected or `None`, objects done, objects found.
type Figures = (u64, Option<u64>, u64, u64);

fn made(make: impl FnOnce(Python<'_>) -> PyResult<Py<PyAny>> + Send + 'static) -> Outcome {
    Box::new(make)
}

fn fields(py: Python<'_>, report: &Report) -> PyResult<Py<PyAny>> {
    let fields = PyDict::new(py);
    for (name, figure) in [
        ("copied", report.copied),
        ("bytes", report.bytes),
        ("unchanged", report.unchanged),
        ("removed", report.removed),
        ("skipped", report.skipped),
        ("left_out", report.left_out),
        ("compared", report.compared),
        ("different", report.different),
        ("failed", report.failed),
    ] {
        fields.set_item(name, figure)?;
    }
    Ok(fields.into_any().unbind())
}

/// An event as a dictionary; `None` for those that only a library needs.
fn value(py: Python<'_>, event: Event) -> PyResult<Option<Py<PyAny>>> {
    let fields = PyDict::new(py);
    let kind = match event {
        Event::WouldCopy { source, target, bytes } => {
            fields.set_item("source", source)?;
            fields.set_item("target", target)?;
            fields.set_item("bytes", bytes)?;
            fields.set_item("dry_run", true)?;
            "copied"
        }
        Event::WouldRemove { url } => {
            fields.set_item("target", url)?;
            fields.set_item("dry_run", true)?;
            "removed"
        }
        Event::Copied(copied) => {
            fields.set_item("source", copied.source)?;
            fields.set_item("target", copied.target)?;
            fields.set_item("bytes", copied.bytes)?;
            "copied"
        }
        Event::Removed { url } => {
            fields.set_item("target", url)?;
            "removed"
        }
        Event::Skipped { source, target, dry_run, .. } => {
            fields.set_item("source", source)?;
            fields.set_item("target", target)?;
            fields.set_item("dry_run", dry_run)?;
            "skipped"
        }
        Event::Differs { key, difference, source, target } => {
            fields.set_item("key", key)?;
            fields.set_item("message", difference.name())?;
            fields.set_item("source", source)?;
            fields.set_item("target", target)?;
            "differs"
        }
        Event::Warning(text) => {
            fields.set_item("message", text)?;
            "warning"
        }
        Event::Notice(text) => {
            fields.set_item("message", text)?;
            "notice"
        }
        Event::Failed(failure) => {
            fields.set_item("message", failure.error.to_string())?;
            fields.set_item("target", failure.error.object())?;
            fields.set_item("error", errors::of_trees(py, &failure.error)?)?;
            "failed"
        }
        _ => return Ok(None),
    };
    fields.set_item("kind", kind)?;
    Ok(Some(fields.into_any().unbind()))
}

/// The options of all operations on trees.
#[derive(Default)]
struct TreeOptions {
    filter: ObjectFilter,
    files: FileOptions,
    compare: Comparison,
    extra: Extra,
    max_delete: Option<u64>,
    dry_run: bool,
    distinct: Distinct,
    fsync: bool,
    recursive: bool,
    moves: bool,
    if_exists: Option<IfExists>,
    wildcards: Wildcards,
}

impl TreeOptions {
    fn of(options: &Bound<'_, PyDict>) -> PyResult<Self> {
        let mut taken = Self::default();
        let (mut delete, mut delete_all) = (false, false);
        for (name, value) in options.iter() {
            let name = name.cast_into::<PyString>()?;
            let name = name.to_str()?;
            let given = Argument { name, value };
            if given.value.is_none() {
                continue;
            }
            match name {
                "delete" => delete = given.get()?,
                "delete_all" => delete_all = given.get()?,
                _ => taken.take(&given)?,
            }
        }
        taken.extra = match (delete, delete_all) {
            (true, true) => Extra::RemoveAll,
            (true, false) => Extra::Remove,
            (false, _) => Extra::Keep,
        };
        Ok(taken)
    }

    fn take(&mut self, given: &Argument<'_, '_>) -> PyResult<()> {
        let filter = std::mem::take(&mut self.filter);
        let of_filter = |error: tidegate_transfer::Error| PyValueError::new_err(error.to_string());
        self.filter = match given.name {
            "filter" => {
                let rules: Vec<(bool, String)> = given.get()?;
                rules.into_iter().try_fold(filter, |filter, (takes, pattern)| {
                    let added = if takes { filter.include(&pattern) } else { filter.exclude(&pattern) };
                    added.map_err(of_filter)
                })?
            }
            "newer_than" => filter.newer_than(time(given)?),
            "older_than" => filter.older_than(time(given)?),
            "min_size" => filter.min_size(given.get()?),
            "max_size" => filter.max_size(given.get()?),
            _ => filter,
        };
        match given.name {
            "filter" | "newer_than" | "older_than" | "min_size" | "max_size" => {}
            "preserve" => self.files.preserve = given.get()?,
            "links" => {
                self.files.links = match &*given.get::<String>()? {
                    "files" => Links::Files,
                    "skip" => Links::Skip,
                    "follow" => Links::Follow,
                    "preserve" => Links::Preserve,
                    other => return Err(not_one_of(given.name, other, "files, skip, follow or preserve")),
                }
            }
            "compare" => {
                self.compare = match &*given.get::<String>()? {
                    "time" => Comparison::Time,
                    "size" => Comparison::Size,
                    "checksum" => Comparison::Checksum,
                    other => return Err(not_one_of(given.name, other, "time, size or checksum")),
                }
            }
            "if_exists" => {
                self.if_exists = Some(match &*given.get::<String>()? {
                    "replace" => IfExists::Replace,
                    "fail" => IfExists::Fail,
                    "skip" => IfExists::Skip,
                    other => return Err(not_one_of(given.name, other, "replace, fail or skip")),
                });
            }
            "max_delete" => self.max_delete = Some(given.get()?),
            "dry_run" => self.dry_run = given.get()?,
            "assume_distinct" if given.get()? => self.distinct = Distinct::Assumed,
            "assume_distinct" => {}
            "fsync" => self.fsync = given.get()?,
            "recursive" => self.recursive = given.get()?,
            "move" => self.moves = given.get()?,
            "patterns" if given.get()? => self.wildcards = Wildcards::Pattern,
            "patterns" => {}
            _ => return Err(given.unknown()),
        }
        Ok(())
    }

    fn sources(&self, names: Vec<OsString>) -> PyResult<Vec<Source>> {
        let parse = |name: OsString| Source::parse(&name, self.wildcards, self.recursive);
        let parsed: Result<_, _> = names.into_iter().map(parse).collect();
        parsed.map_err(|error| PyValueError::new_err(error.to_string()))
    }
}

fn not_one_of(name: &str, given: &str, names: &str) -> PyErr {
    PyValueError::new_err(format!("{name}: {given:?} is not one of {names}"))
}

/// Seconds since 1970, as a number.
fn time(given: &Argument<'_, '_>) -> PyResult<SystemTime> {
    let seconds: f64 = given.get()?;
    let since = Duration::try_from_secs_f64(seconds.abs());
    let since = since.map_err(|_| PyValueError::new_err(format!("{}: {seconds} is no time", given.name)))?;
    let time = if seconds < 0.0 { UNIX_EPOCH.checked_sub(since) } else { UNIX_EPOCH.checked_add(since) };
    time.ok_or_else(|| PyValueError::new_err(format!("{}: {seconds} is no time", given.name)))
}

fn trees(store: &Store, py: Python<'_>, to: &Store) -> PyResult<(Tree, Tree)> {
    Ok((Tree::new(store.get(py)?, ""), Tree::new(to.get(py)?, "")))
}

impl TreeRun {
    fn new(shared: &Shared, run: Run) -> Self {
        let handle = run.handle();
        Self { shared: shared.clone(), run: OfProcess::new(Arc::new(Mutex::new(Some(run)))), handle }
    }

    pub(crate) fn sync(
        store: &Store,
        py: Python<'_>,
        to: &Store,
        options: &Bound<'_, PyDict>,
    ) -> PyResult<Self> {
        let given = TreeOptions::of(options)?;
        let (source, target) = trees(store, py, to)?;
        let run = SyncTrees::new(source, target)
            .delete(given.extra)
            .max_delete(given.max_delete)
            .dry_run(given.dry_run)
            .distinct(given.distinct)
            .compare(given.compare)
            .files(given.files)
            .filter(given.filter)
            .fsync(given.fsync)
            .two_accounts(true)
            .start();
        Ok(Self::new(store.shared(), run))
    }

    pub(crate) fn check(
        store: &Store,
        py: Python<'_>,
        to: &Store,
        options: &Bound<'_, PyDict>,
    ) -> PyResult<Self> {
        let given = TreeOptions::of(options)?;
        let (source, target) = trees(store, py, to)?;
        let run = CheckTrees::new(source, target)
            .compare(given.compare)
            .files(given.files)
            .filter(given.filter)
            .start();
        Ok(Self::new(store.shared(), run))
    }

    /// `store` and `to` are of the engines that open the sources and the target.
    pub(crate) fn copy(
        store: &Store,
        py: Python<'_>,
        (sources, to, target): (Vec<OsString>, &Store, OsString),
        options: &Bound<'_, PyDict>,
    ) -> PyResult<Self> {
        let given = TreeOptions::of(options)?;
        let target = location(&target)?;
        let (from, to) = (store.get(py)?.tide(), to.get(py)?.tide());
        let run = CopyTrees::new(to, given.sources(sources)?, target)
            .source_stores(from)
            .recursive(given.recursive)
            .after(if given.moves { AfterCopy::Remove } else { AfterCopy::Keep })
            .if_exists(given.if_exists.unwrap_or(IfExists::Replace))
            .dry_run(given.dry_run)
            .distinct(given.distinct)
            .files(given.files)
            .filter(given.filter)
            .fsync(given.fsync)
            .start();
        Ok(Self::new(store.shared(), run))
    }

    /// `store` is of the engine that opens the target.
    pub(crate) fn command(
        store: &Store,
        py: Python<'_>,
        (command, seconds, target): (Vec<OsString>, Option<f64>, OsString),
        options: &Bound<'_, PyDict>,
    ) -> PyResult<Self> {
        let given = TreeOptions::of(options)?;
        let Some((program, arguments)) = command.split_first() else {
            return Err(PyValueError::new_err("the command is empty"));
        };
        let limit = seconds.map(Duration::try_from_secs_f64).transpose();
        let limit = limit.map_err(|error| PyValueError::new_err(format!("timeout: {error}")))?;
        let command = ExternalCommand::new(program, arguments).timeout(limit);
        let run = CopyTrees::command(store.get(py)?.tide(), command, location(&target)?)
            .if_exists(given.if_exists.unwrap_or(IfExists::Replace))
            .dry_run(given.dry_run)
            .fsync(given.fsync)
            .start();
        Ok(Self::new(store.shared(), run))
    }

    pub(crate) fn remove(
        store: &Store,
        py: Python<'_>,
        sources: Vec<OsString>,
        options: &Bound<'_, PyDict>,
    ) -> PyResult<Self> {
        let given = TreeOptions::of(options)?;
        let run = RemoveTrees::new(store.get(py)?.tide(), given.sources(sources)?)
            .recursive(given.recursive)
            .dry_run(given.dry_run)
            .filter(given.filter)
            .start();
        Ok(Self::new(store.shared(), run))
    }
}
