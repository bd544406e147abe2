//! A store: each method sets up one operation.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::TryStreamExt;
use pyo3::buffer::PyBuffer;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::{PyBytes, PyDict, PyList, PyString};
use tidegate::backend::Versioning;
use tidegate_transfer::copy_through;

use crate::arguments::Argument;
use crate::engine::{Engine, Shared};
use crate::errors;
use crate::left::LeftUpload;
use crate::listing::Listing;
use crate::objects::{Object, object, objects};
use crate::operation::{Operation, Work, outcome, wait};
use crate::pending::{Manifest, Pending, Resumable, Unpublished, abandoned_set, manifest};
use crate::process::OfProcess;
use crate::reader::{self, Reader};
use crate::settings;
use crate::trees::TreeRun;
use crate::write_options::WriteOptions;
use crate::writer::{self, Writer};

/// One bucket or root, or a prefix of it.
#[pyclass(frozen, module = "tidegate._native")]
pub(crate) struct Store {
    shared: Shared,
    store: OfProcess<tidegate::Store>,
}

impl Store {
    pub(crate) fn shared(&self) -> &Shared {
        &self.shared
    }

    pub(crate) fn get<'a>(&'a self, py: Python<'_>) -> PyResult<&'a tidegate::Store> {
        self.store.get(py)
    }
}

#[pymethods]
impl Store {
    /// Opens the store; sends nothing.
    #[new]
    fn new(py: Python<'_>, engine: &Engine, url: &str, options: &Bound<'_, PyDict>) -> PyResult<Self> {
        let shared = engine.shared();
        let running = shared.get(py)?;
        let open = settings::reaching(running.tide(), url, options)?.open(url);
        let store = wait(py, running, open.into_future())?.map_err(|error| errors::raised(py, &error))?;
        Ok(Self { shared: shared.clone(), store: OfProcess::new(store) })
    }

    /// The part of the store below a prefix.
    fn within(&self, py: Python<'_>, prefix: &str) -> PyResult<Self> {
        let store = self.get(py)?.within(prefix);
        Ok(Self { shared: self.shared.clone(), store: OfProcess::new(store) })
    }

    fn location(&self, py: Python<'_>) -> PyResult<String> {
        Ok(self.get(py)?.location())
    }

    fn in_flight_limit(&self, py: Python<'_>) -> PyResult<usize> {
        Ok(self.get(py)?.in_flight_limit())
    }

    fn is_one_with(&self, py: Python<'_>, other: &Self) -> PyResult<bool> {
        Ok(self.get(py)?.is_one_with(other.get(py)?))
    }

    fn put(
        &self,
        py: Python<'_>,
        key: String,
        data: &Bound<'_, PyAny>,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Operation> {
        let builder = WriteOptions::of_bytes(options)?.set(self.get(py)?.put(key, bytes_of(data)?));
        let progress = builder.progress();
        Ok(Operation::new(&self.shared, Some(progress), builder.into_future(), object))
    }

    /// All bytes of the object, or of a range of it, if they are few; otherwise the reader that has them.
    fn get_bytes(
        &self,
        py: Python<'_>,
        key: String,
        range: Option<(u64, Option<u64>)>,
        if_unchanged: Option<Object>,
    ) -> PyResult<Operation> {
        let shared = self.shared.clone();
        let (progress, open) = reader::open(self.get(py)?, key, range, if_unchanged, false);
        let read = async move {
            let mut open = open.await?;
            let bytes = open.few_bytes().await?;
            Ok((open, bytes))
        };
        Ok(Operation::new(&self.shared, Some(progress), read, move |py, (open, bytes)| match bytes {
            Some(bytes) => Ok(PyBytes::new(py, &bytes).into_any().unbind()),
            None => Ok(Py::new(py, Reader::new(&shared, open))?.into_any()),
        }))
    }

    /// The bytes of several ranges, in the order in which they were given.
    fn get_ranges(
        &self,
        py: Python<'_>,
        key: String,
        ranges: Vec<(u64, u64)>,
        if_unchanged: Option<Object>,
    ) -> PyResult<Operation> {
        if let Some((start, end)) = ranges.iter().find(|(start, end)| end < start) {
            return Err(PyValueError::new_err(format!("the range ({start}, {end}) ends before it begins")));
        }
        let unions = unions(&ranges);
        let mut builder = self.get(py)?.blocks(key, unions.clone());
        if let Some(object) = &if_unchanged {
            builder = builder.if_unchanged(&object.0);
        }
        let progress = builder.progress();
        let read = async move {
            let blocks: Vec<_> = builder.await?.try_collect().await?;
            // The union that a range is in is the last that does not begin after it.
            let part = |(start, end): (u64, u64)| -> Bytes {
                let number = unions.partition_point(|union| union.start <= start).saturating_sub(1);
                let from = unions.get(number).map_or(0, |union| union.start);
                let bytes = blocks.get(number).map(|block| block.bytes.clone()).unwrap_or_default();
                match start == end {
                    true => Bytes::new(),
                    false => bytes.slice((start - from) as usize..(end - from) as usize),
                }
            };
            Ok(ranges.into_iter().map(part).collect::<Vec<_>>())
        };
        Ok(Operation::new(&self.shared, Some(progress), read, |py, parts| {
            let parts = parts.iter().map(|part| PyBytes::new(py, part));
            Ok(PyList::new(py, parts.collect::<Vec<_>>())?.into_any().unbind())
        }))
    }

    fn head(&self, py: Python<'_>, key: String) -> PyResult<Operation> {
        let store = self.get(py)?.clone();
        Ok(Operation::new(&self.shared, None, async move { store.head(&key).await }, object))
    }

    fn exists(&self, py: Python<'_>, key: String) -> PyResult<Operation> {
        let store = self.get(py)?.clone();
        Ok(Operation::new(&self.shared, None, async move { store.exists(&key).await }, |py, exists| {
            Ok(exists.into_pyobject(py)?.to_owned().into_any().unbind())
        }))
    }

    fn tags(&self, py: Python<'_>, key: String) -> PyResult<Operation> {
        let store = self.get(py)?.clone();
        Ok(Operation::new(
            &self.shared,
            None,
            async move { store.tags(&key).await },
            |py, tags: BTreeMap<_, _>| Ok(tags.into_pyobject(py)?.into_any().unbind()),
        ))
    }

    fn versioning(&self, py: Python<'_>) -> PyResult<Operation> {
        let store = self.get(py)?.clone();
        Ok(Operation::new(
            &self.shared,
            None,
            async move { store.versioning().await },
            |py, versioning: Versioning| Ok(versioning.name().into_pyobject(py)?.into_any().unbind()),
        ))
    }

    fn is_directory(&self, py: Python<'_>, key: String) -> PyResult<Operation> {
        let store = self.get(py)?.clone();
        Ok(Operation::new(
            &self.shared,
            None,
            async move { store.is_directory(&key).await },
            |py, is_directory: bool| Ok(is_directory.into_pyobject(py)?.to_owned().into_any().unbind()),
        ))
    }

    fn delete(&self, py: Python<'_>, key: String, if_unchanged: Option<Object>) -> PyResult<Operation> {
        let store = self.get(py)?.clone();
        Ok(Operation::of_nothing(&self.shared, async move {
            match if_unchanged {
                Some(object) => store.delete_if_unchanged(&key, &object.0).await,
                None => store.delete(&key).await,
            }
        }))
    }

    /// How many keys were removed, and the others, each with its exception.
    fn delete_many(&self, py: Python<'_>, keys: Vec<String>) -> PyResult<Operation> {
        let removals = self.get(py)?.delete_many(keys);
        Ok(Operation::new(&self.shared, None, async move { Ok(removals.await) }, |py, report| {
            let failed = report.failed.iter().map(|(key, error)| Ok((key, errors::exception(py, error)?)));
            let failed = failed.collect::<PyResult<Vec<_>>>()?;
            Ok((report.deleted, failed).into_pyobject(py)?.into_any().unbind())
        }))
    }

    /// Has the store copy an object.
    fn copy(
        &self,
        py: Python<'_>,
        key: String,
        to: &Self,
        to_key: String,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Operation> {
        let builder = WriteOptions::of(options)?.set_copy(self.get(py)?.copy(key, to.get(py)?, to_key))?;
        let progress = builder.progress();
        Ok(Operation::new(&self.shared, Some(progress), builder.into_future(), object))
    }

    /// Copies an object through this machine, with its attributes.
    fn copy_through(
        &self,
        py: Python<'_>,
        key: String,
        to: &Self,
        to_key: String,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Operation> {
        let (from, to) = (self.get(py)?.clone(), to.get(py)?.clone());
        let given = WriteOptions::of(options)?;
        let writer = to.writer(to_key);
        let progress = writer.progress();
        let copied = async move {
            copy_through::copy(&from, &key, &to, |carried| given.over(carried).set(writer)).await
        };
        Ok(Operation::new(&self.shared, Some(progress), copied, object))
    }

    /// Makes another store like this one.
    fn sync_to(&self, py: Python<'_>, to: &Self, options: &Bound<'_, PyDict>) -> PyResult<TreeRun> {
        TreeRun::sync(self, py, to, options)
    }

    /// Compares another store with this one.
    fn check_with(&self, py: Python<'_>, to: &Self, options: &Bound<'_, PyDict>) -> PyResult<TreeRun> {
        TreeRun::check(self, py, to, options)
    }

    /// Copies or moves what the names stand for to the target, which the engine of `to` opens.
    fn copy_trees(
        &self,
        py: Python<'_>,
        sources: Vec<OsString>,
        to: &Self,
        target: OsString,
        options: &Bound<'_, PyDict>,
    ) -> PyResult<TreeRun> {
        TreeRun::copy(self, py, (sources, to, target), options)
    }

    /// Uploads what a command writes to the target, which the engine of this store opens.
    fn copy_command(
        &self,
        py: Python<'_>,
        command: Vec<OsString>,
        seconds: Option<f64>,
        target: OsString,
        options: &Bound<'_, PyDict>,
    ) -> PyResult<TreeRun> {
        TreeRun::command(self, py, (command, seconds, target), options)
    }

    /// Removes what the names stand for.
    fn remove_trees(
        &self,
        py: Python<'_>,
        sources: Vec<OsString>,
        options: &Bound<'_, PyDict>,
    ) -> PyResult<TreeRun> {
        TreeRun::remove(self, py, sources, options)
    }

    fn rename(&self, py: Python<'_>, key: String, to_key: String, create_only: bool) -> PyResult<Operation> {
        let builder = self.get(py)?.rename(key, to_key);
        let builder = if create_only { builder.create_only() } else { builder };
        Ok(Operation::new(&self.shared, None, builder.into_future(), object))
    }

    /// Publishes a pending upload.
    fn commit(&self, py: Python<'_>, pending: Pending) -> PyResult<Operation> {
        let store = self.get(py)?.clone();
        Ok(Operation::new(&self.shared, None, async move { store.commit(&pending.0).await }, object))
    }

    /// Prepares the uploads of a set. The writers take no more bytes.
    fn prepare_all(
        &self,
        py: Python<'_>,
        pointer: String,
        writers: Vec<Py<Writer>>,
        lifetime: Option<f64>,
    ) -> PyResult<Operation> {
        let uploads = writer::prepared(py, &writers, lifetime)?;
        let store = self.get(py)?.clone();
        let work: Work = Box::pin(async move {
            match uploads.await {
                Ok(uploads) => outcome(store.prepare_all(pointer, uploads).await, manifest),
                Err(ended) => ended,
            }
        });
        Ok(Operation::of(&self.shared, None, work))
    }

    /// Publishes a set of pending uploads.
    fn commit_all(&self, py: Python<'_>, manifest: Manifest) -> PyResult<Operation> {
        let store = self.get(py)?.clone();
        let commit = async move { store.commit_all(&manifest.0).await };
        Ok(Operation::new(&self.shared, None, commit, objects))
    }

    /// Completes a set that was begun.
    fn roll_forward(&self, py: Python<'_>, pointer: String) -> PyResult<Operation> {
        let store = self.get(py)?.clone();
        let roll = async move { store.roll_forward(&pointer).await };
        Ok(Operation::new(&self.shared, None, roll, |py, published| match published {
            Some(published) => objects(py, published),
            None => Ok(py.None()),
        }))
    }

    /// Gives up a set that was not begun.
    fn abandon_all(&self, py: Python<'_>, manifest: Manifest) -> PyResult<Operation> {
        let store = self.get(py)?.clone();
        let abandon = async move { store.abandon_all(&manifest.0).await };
        Ok(Operation::of_nothing(&self.shared, abandon))
    }

    /// Ends a set that was begun and cannot be completed.
    fn abandon_set(&self, py: Python<'_>, pointer: String) -> PyResult<Operation> {
        let store = self.get(py)?.clone();
        let abandon = async move { store.abandon_set(&pointer).await };
        Ok(Operation::new(&self.shared, None, abandon, abandoned_set))
    }

    /// Gives up an upload that is pending, or that has a point.
    fn abandon(&self, py: Python<'_>, upload: Unpublished) -> PyResult<Operation> {
        let store = self.get(py)?.clone();
        let abandon = async move {
            match &upload {
                Unpublished::Pending(pending) => store.abandon(&pending.0).await,
                Unpublished::Resumable(point) => store.abandon(&point.0).await,
            }
        };
        Ok(Operation::new(&self.shared, None, abandon, |py, ()| Ok(py.None())))
    }

    /// Continues an upload from a point.
    fn resume(&self, py: Python<'_>, point: Resumable) -> PyResult<Operation> {
        let store = self.get(py)?.clone();
        let url: Arc<str> = format!("{}/{}", point.0.url(), point.0.key()).into();
        let shared = self.shared.clone();
        let resume = async move { store.resume(&point.0).await };
        Ok(Operation::new(&self.shared, None, resume, move |py, writer| {
            Ok(Py::new(py, Writer::new(&shared, writer, url))?.into_any())
        }))
    }

    /// Removes what is kept for one point alone.
    fn forget(&self, py: Python<'_>, point: Resumable) -> PyResult<Operation> {
        let store = self.get(py)?.clone();
        let forget = async move { store.forget(&point.0).await };
        Ok(Operation::new(&self.shared, None, forget, |py, ()| Ok(py.None())))
    }

    /// A URL to read the object, or to write it.
    fn presign(&self, py: Python<'_>, key: String, seconds: f64, method: &str) -> PyResult<Operation> {
        let store = self.get(py)?.clone();
        let expires = Duration::try_from_secs_f64(seconds)
            .map_err(|_| PyValueError::new_err(format!("{seconds} seconds are no time to expire after")))?;
        let writes = match method {
            "GET" => false,
            "PUT" => true,
            _ => return Err(PyValueError::new_err(format!("method {method:?} is none of \"GET\", \"PUT\""))),
        };
        let url = async move {
            match writes {
                true => store.presign_put(&key, expires).await,
                false => store.presign_get(&key, expires).await,
            }
        };
        Ok(Operation::new(&self.shared, None, url, |py, url| Ok(PyString::new(py, &url).into_any().unbind())))
    }

    fn list(
        &self,
        py: Python<'_>,
        prefix: String,
        recursive: bool,
        start_after: Option<String>,
    ) -> PyResult<Listing> {
        let mut entries = self.get(py)?.list(prefix).recursive(recursive);
        if let Some(key) = start_after {
            entries = entries.start_after(key);
        }
        Ok(Listing::new(&self.shared, entries))
    }

    fn upload(
        &self,
        py: Python<'_>,
        path: PathBuf,
        key: String,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Operation> {
        let builder = WriteOptions::of(options)?.set(self.get(py)?.upload(path, key));
        let progress = builder.progress();
        Ok(Operation::new(&self.shared, Some(progress), builder.into_future(), object))
    }

    fn download(
        &self,
        py: Python<'_>,
        key: String,
        path: PathBuf,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Operation> {
        let mut builder = self.get(py)?.download(key, path);
        for (name, value) in options.iter().flat_map(|options| options.iter()) {
            let name = name.cast_into::<PyString>()?;
            let name = name.to_str()?;
            let given = Argument { name, value };
            if given.value.is_none() {
                continue;
            }
            builder = match name {
                "create_only" => match given.get()? {
                    true => builder.create_only(),
                    false => builder,
                },
                "sync" => builder.sync(given.get()?),
                "keep_modified" => builder.keep_modified(given.get()?),
                "preserve" => builder.preserve(given.get()?),
                "refuse_links_below" => builder.refuse_links_below(given.get::<PathBuf>()?),
                "size_hint" => builder.size_hint(given.get()?),
                _ => return Err(given.unknown()),
            };
        }
        let progress = builder.progress();
        Ok(Operation::new(&self.shared, Some(progress), builder.into_future(), object))
    }

    /// Starts an upload.
    fn writer(
        &self,
        py: Python<'_>,
        key: String,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Operation> {
        let url = url_of(self.get(py)?, &key);
        let builder = WriteOptions::of_bytes(options)?.set(self.get(py)?.writer(key));
        let shared = self.shared.clone();
        Ok(Operation::new(&self.shared, None, builder.into_future(), move |py, writer| {
            Ok(Py::new(py, Writer::new(&shared, writer, url))?.into_any())
        }))
    }

    /// Starts to read. The first request is made at once, unless the object is described (`if_unchanged`) or is to be
    /// read at random.
    fn reader(
        &self,
        py: Python<'_>,
        key: String,
        range: Option<(u64, Option<u64>)>,
        if_unchanged: Option<Object>,
        random: bool,
    ) -> PyResult<Operation> {
        let shared = self.shared.clone();
        let (progress, open) = reader::open(self.get(py)?, key, range, if_unchanged, random);
        Ok(Operation::new(&self.shared, Some(progress), open, move |py, opened| {
            Ok(Py::new(py, Reader::new(&shared, opened))?.into_any())
        }))
    }

    /// The uploads of a key in the journal directories.
    fn left(&self, py: Python<'_>, key: String) -> PyResult<Operation> {
        let (store, shared) = (self.get(py)?.clone(), self.shared.clone());
        let left = async move { store.left(&key).await };
        Ok(Operation::new(&self.shared, None, left, move |py, left| {
            let left = left.into_iter().map(|left| Py::new(py, LeftUpload::new(&shared, left)));
            Ok(PyList::new(py, left.collect::<PyResult<Vec<_>>>()?)?.into_any().unbind())
        }))
    }
}

/// The URL of a key, for messages.
pub(crate) fn url_of(store: &tidegate::Store, key: &str) -> Arc<str> {
    format!("{}/{key}", store.location()).into()
}

/// The bytes of a Python value: those of a `bytes` are shared, those of any other buffer are copied.
pub(crate) fn bytes_of(data: &Bound<'_, PyAny>) -> PyResult<Bytes> {
    if data.is_instance_of::<PyBytes>() {
        return Ok(Bytes::from_owner(data.extract::<PyBackedBytes>()?));
    }
    if data.is_instance_of::<PyString>() {
        return Err(PyTypeError::new_err("a bytes-like object is required, not 'str'"));
    }
    if let Ok(buffer) = PyBuffer::<u8>::get(data) {
        return Ok(buffer.to_vec(data.py())?.into());
    }
    // A buffer of other items, such as the numbers of an array.
    let view = data.py().import("builtins")?.getattr("memoryview")?.call1((data,))?;
    Ok(Bytes::from_owner(view.call_method0("tobytes")?.extract::<PyBackedBytes>()?))
}

/// The fewest ranges, in order and without overlaps, that have all bytes of `ranges`.
fn unions(ranges: &[(u64, u64)]) -> Vec<Range<u64>> {
    let mut sorted: Vec<_> =
        ranges.iter().filter(|(start, end)| start < end).map(|(start, end)| *start..*end).collect();
    sorted.sort_unstable_by_key(|range| range.start);
    let mut unions: Vec<Range<u64>> = Vec::new();
    for range in sorted {
        match unions.last_mut() {
            Some(last) if range.start < last.end => last.end = last.end.max(range.end),
            _ => unions.push(range),
        }
    }
    unions
}
