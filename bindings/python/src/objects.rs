//! What the store says of objects, and the figures of transfers, as Python sees them.

use std::collections::BTreeMap;
use std::time::SystemTime;

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};
use tidegate::object::Encryption;
use tidegate::progress::{Snapshot, Waiting};

use crate::write_options::encryption;

/// An object, as the store describes it.
#[pyclass(frozen, module = "tidegate", from_py_object)]
#[derive(Clone, Debug)]
pub(crate) struct Object(pub(crate) tidegate::Object);

#[pymethods]
impl Object {
    /// The key within the store.
    #[getter]
    fn key(&self) -> &str {
        &self.0.key
    }

    /// Size in bytes; `None` if a listing has left the size out.
    #[getter]
    fn size(&self) -> Option<u64> {
        self.0.known_size()
    }

    /// Entity tag, as the store wrote it.
    #[getter]
    fn etag(&self) -> Option<&str> {
        self.0.etag.as_deref()
    }

    /// Version, on versioned buckets.
    #[getter]
    fn version(&self) -> Option<&str> {
        self.0.version.as_deref()
    }

    /// When the store last changed it.
    #[getter]
    fn modified(&self) -> Option<SystemTime> {
        self.0.modified
    }

    /// Whole-object CRC-64/NVME that the store keeps, in base64.
    #[getter]
    fn crc64nvme(&self) -> Option<&str> {
        self.0.crc64nvme.as_deref()
    }

    /// Whole-object CRC-32C that the store keeps, in base64.
    #[getter]
    fn crc32c(&self) -> Option<&str> {
        self.0.crc32c.as_deref()
    }

    /// MIME type.
    #[getter]
    fn content_type(&self) -> Option<&str> {
        self.0.attributes.content_type.as_deref()
    }

    #[getter]
    fn cache_control(&self) -> Option<&str> {
        self.0.attributes.cache_control.as_deref()
    }

    #[getter]
    fn content_encoding(&self) -> Option<&str> {
        self.0.attributes.content_encoding.as_deref()
    }

    #[getter]
    fn content_disposition(&self) -> Option<&str> {
        self.0.attributes.content_disposition.as_deref()
    }

    #[getter]
    fn content_language(&self) -> Option<&str> {
        self.0.attributes.content_language.as_deref()
    }

    #[getter]
    fn expires(&self) -> Option<&str> {
        self.0.attributes.expires.as_deref()
    }

    /// User metadata; names in lower case.
    #[getter]
    fn metadata(&self) -> &BTreeMap<String, String> {
        &self.0.attributes.metadata
    }

    /// Storage class, in the store's own words.
    #[getter]
    fn storage_class(&self) -> Option<&str> {
        self.0.attributes.storage_class.as_deref()
    }

    /// Server-side encryption: `"managed"`, `"kms"`, or `"kms:KEY"`.
    #[getter]
    fn encryption(&self) -> Option<String> {
        self.0.attributes.encryption.as_ref().map(|encryption| match encryption {
            Encryption::Kms { key_id: Some(key) } => format!("kms:{key}"),
            Encryption::Kms { key_id: None } => "kms".to_owned(),
            _ => "managed".to_owned(),
        })
    }

    /// How many tags it has, if a description says that.
    #[getter]
    fn tag_count(&self) -> u64 {
        self.0.tag_count
    }

    /// Names of its other properties, which no copy carries.
    #[getter]
    fn not_carried(&self) -> &[&'static str] {
        &self.0.not_carried
    }

    /// Whether `other` describes the same bytes: the same size, and the same tag or version.
    fn is_same(&self, other: &Self) -> bool {
        self.0.is_same(&other.0)
    }

    fn __eq__(&self, other: &Bound<'_, PyAny>) -> bool {
        // A pickle does not keep the names of what no copy carries, checksums of other kinds, and how old the
        // description was.
        let compared = |object: &Self| {
            let mut object = object.0.clone();
            object.not_carried.clear();
            object.other_checksums.clear();
            object.is_fresh = false;
            object
        };
        other.cast::<Self>().is_ok_and(|other| compared(other.get()) == compared(self))
    }

    fn __hash__(&self) -> u64 {
        use std::hash::{DefaultHasher, Hash, Hasher};
        let mut hasher = DefaultHasher::new();
        (&self.0.key, self.0.size, &self.0.etag, &self.0.version).hash(&mut hasher);
        hasher.finish()
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let key = PyString::new(py, &self.0.key).repr()?.to_string();
        let size = self.0.known_size().map_or("None".to_owned(), |size| size.to_string());
        let etag = match &self.0.etag {
            Some(etag) => PyString::new(py, etag).repr()?.to_string(),
            None => "None".to_owned(),
        };
        Ok(format!("Object(key={key}, size={size}, etag={etag})"))
    }

    /// A pickle has all that tells the object from others, and its attributes.
    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyAny>, (Bound<'py, PyDict>,))> {
        let (object, fields) = (&self.0, PyDict::new(py));
        fields.set_item("key", &object.key)?;
        fields.set_item("size", object.known_size())?;
        fields.set_item("etag", &object.etag)?;
        fields.set_item("version", &object.version)?;
        fields.set_item("modified", object.modified)?;
        fields.set_item("crc64nvme", &object.crc64nvme)?;
        fields.set_item("crc32c", &object.crc32c)?;
        fields.set_item("token", &object.token)?;
        fields.set_item("token_is_known", object.token_is_known)?;
        fields.set_item("tag_count", object.tag_count)?;
        let attributes = &object.attributes;
        fields.set_item("encryption", self.encryption())?;
        fields.set_item("content_type", &attributes.content_type)?;
        fields.set_item("cache_control", &attributes.cache_control)?;
        fields.set_item("content_encoding", &attributes.content_encoding)?;
        fields.set_item("content_disposition", &attributes.content_disposition)?;
        fields.set_item("content_language", &attributes.content_language)?;
        fields.set_item("expires", &attributes.expires)?;
        fields.set_item("metadata", &attributes.metadata)?;
        fields.set_item("storage_class", &attributes.storage_class)?;
        Ok((py.get_type::<Self>().getattr("_restore")?, (fields,)))
    }

    #[staticmethod]
    fn _restore(fields: &Bound<'_, PyDict>) -> PyResult<Self> {
        let mut object = tidegate::Object::default();
        for (name, value) in fields.iter() {
            let text = || value.extract::<Option<String>>();
            match name.extract::<&str>()? {
                "key" => object.key = value.extract()?,
                "size" => {
                    let size: Option<u64> = value.extract()?;
                    object.size = size.unwrap_or_default();
                    object.size_is_unknown = size.is_none();
                }
                "etag" => object.etag = text()?,
                "version" => object.version = text()?,
                "modified" => object.modified = value.extract()?,
                "crc64nvme" => object.crc64nvme = text()?,
                "crc32c" => object.crc32c = text()?,
                "token" => object.token = text()?,
                "token_is_known" => object.token_is_known = value.extract()?,
                "tag_count" => object.tag_count = value.extract()?,
                "encryption" => {
                    object.attributes.encryption = text()?.as_deref().map(encryption).transpose()?
                }
                "content_type" => object.attributes.content_type = text()?,
                "cache_control" => object.attributes.cache_control = text()?,
                "content_encoding" => object.attributes.content_encoding = text()?,
                "content_disposition" => object.attributes.content_disposition = text()?,
                "content_language" => object.attributes.content_language = text()?,
                "expires" => object.attributes.expires = text()?,
                "metadata" => object.attributes.metadata = value.extract()?,
                "storage_class" => object.attributes.storage_class = text()?,
                // A later version's pickle may say more.
                _ => {}
            }
        }
        Ok(Self(object))
    }
}

/// The object as a Python value.
pub(crate) fn object(py: Python<'_>, object: tidegate::Object) -> PyResult<Py<PyAny>> {
    Ok(Py::new(py, Object(object))?.into_any())
}

/// The result of an operation that gives several objects.
pub(crate) fn objects(py: Python<'_>, objects: Vec<tidegate::Object>) -> PyResult<Py<PyAny>> {
    let objects: Vec<Object> = objects.into_iter().map(Object).collect();
    Ok(objects.into_pyobject(py)?.into_any().unbind())
}

/// A prefix that ends with `/`, of a listing that is not recursive.
#[pyclass(frozen, get_all, eq, hash, module = "tidegate")]
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct Prefix {
    pub(crate) key: String,
}

#[pymethods]
impl Prefix {
    /// `None`, as of an object whose size is not known: it is no object.
    #[getter]
    fn size(&self) -> Option<u64> {
        None
    }

    /// `None`: it is no object.
    #[getter]
    fn etag(&self) -> Option<&str> {
        None
    }

    /// `None`: it is no object.
    #[getter]
    fn modified(&self) -> Option<SystemTime> {
        None
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        Ok(format!("Prefix(key={})", PyString::new(py, &self.key).repr()?))
    }
}

/// A name that is no object: on a disk neither a file nor a directory, in Azure a directory with a name of its own.
#[pyclass(frozen, get_all, eq, hash, module = "tidegate")]
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct Other {
    pub(crate) key: String,
}

#[pymethods]
impl Other {
    /// `None`, as of an object whose size is not known: it is no object.
    #[getter]
    fn size(&self) -> Option<u64> {
        None
    }

    /// `None`: it is no object.
    #[getter]
    fn etag(&self) -> Option<&str> {
        None
    }

    /// `None`: it is no object.
    #[getter]
    fn modified(&self) -> Option<SystemTime> {
        None
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        Ok(format!("Other(key={})", PyString::new(py, &self.key).repr()?))
    }
}

/// The figures of a transfer at one moment, in bytes unless said otherwise.
#[pyclass(frozen, eq, module = "tidegate")]
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Progress(Snapshot);

impl From<Snapshot> for Progress {
    fn from(snapshot: Snapshot) -> Self {
        Self(snapshot)
    }
}

#[pymethods]
impl Progress {
    /// Bytes taken from the producer.
    #[getter]
    fn accepted(&self) -> u64 {
        self.0.accepted
    }

    /// Bytes in requests that the store has not answered.
    #[getter]
    fn in_flight(&self) -> u64 {
        self.0.in_flight
    }

    /// Bytes that the store has acknowledged, and bytes that requests in flight have handed to their sockets.
    #[getter]
    fn sent(&self) -> u64 {
        self.0.sent
    }

    /// Bytes that the store has acknowledged; of a read, bytes that were given to the reader.
    #[getter]
    fn acknowledged(&self) -> u64 {
        self.0.acknowledged
    }

    /// Requests made, retries and hedges among them.
    #[getter]
    fn requests(&self) -> u64 {
        self.0.requests
    }

    /// Requests made again after one that failed.
    #[getter]
    fn retries(&self) -> u64 {
        self.0.retries
    }

    /// Slow parts and ranges that were asked for a second time.
    #[getter]
    fn hedges(&self) -> u64 {
        self.0.hedges
    }

    /// Parts that the store has acknowledged.
    #[getter]
    fn parts(&self) -> u64 {
        self.0.parts
    }

    /// Bytes of memory that were freed by spilling to the spool.
    #[getter]
    fn spilled(&self) -> u64 {
        self.0.spilled
    }

    /// Bytes that are in a journal, or were there until the store acknowledged them.
    #[getter]
    fn journaled(&self) -> u64 {
        self.0.journaled
    }

    /// What the transfer waits for: `"disk"`, `"memory"`, `"backoff"` or `"requests"`.
    #[getter]
    fn waiting(&self) -> Option<&'static str> {
        self.0.waiting.and_then(|waiting| match waiting {
            Waiting::Disk => Some("disk"),
            Waiting::Memory => Some("memory"),
            Waiting::Backoff => Some("backoff"),
            Waiting::Requests => Some("requests"),
            _ => None,
        })
    }

    fn __repr__(&self) -> String {
        let Snapshot { accepted, in_flight, acknowledged, requests, .. } = self.0;
        format!(
            "Progress(accepted={accepted}, in_flight={in_flight}, acknowledged={acknowledged}, requests={requests})"
        )
    }
}
