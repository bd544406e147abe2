//! A [`Store`] as the `object_store` crate's [`ObjectStore`], for DataFusion, delta-rs, Lance, Polars and other
//! programs written for that trait. They get the engine's memory budget, retries and commit guarantees.
//!
//! ```
//! # tokio::runtime::Runtime::new()?.block_on(async {
//! use std::sync::Arc;
//!
//! use object_store::{ObjectStore, ObjectStoreExt, path::Path};
//! use tidegate::object_store::TidegateStore;
//!
//! let tide = tidegate::Tidegate::builder().memory(64 << 20).build()?;
//! let store: Arc<dyn ObjectStore> = Arc::new(TidegateStore::new(tide.open("memory://demo").await?));
//! store.put(&Path::from("a/b"), "bytes".into()).await?;
//! assert_eq!(store.get(&Path::from("a/b")).await?.bytes().await?, "bytes");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! `docs/OBJECT_STORE.md` lists the differences from the crate's own stores.

use std::fmt;
use std::ops::Range;

use ::object_store::path::Path;
use ::object_store::{
    CopyMode, CopyOptions, Error, GetOptions, GetRange, GetResult, GetResultPayload, ListResult,
    MultipartUpload, OBJECT_STORE_COALESCE_DEFAULT, ObjectMeta, ObjectStore, PutMode, PutMultipartOptions,
    PutOptions, PutPayload, PutResult, RenameOptions, RenameTargetMode, Result,
};
use async_trait::async_trait;
use bytes::Bytes;
use futures::stream::{self, BoxStream};
use futures::{StreamExt, TryStreamExt};

use crate::backend::Entry;
use crate::types::date;
use crate::types::object::Object;
use crate::upload::WriterBuilder;
use crate::{ErrorKind, Operation, Reader, Store};

mod attributes;
mod delete;
mod error;
#[cfg(test)]
mod tests;
mod upload;

use attributes::{check_kept, from_attributes, to_attributes};
use delete::Removals;
use error::{convert, no_condition, without_condition};
use upload::TidegateUpload;

/// Requests of one [`ObjectStore::get_ranges`] in flight.
const RANGES: usize = 10;

/// Most attempts to read the end of an object that is replaced between the `head` and the read.
const LOOKS: u32 = 4;

/// A [`Store`], or a prefix of one ([`Store::within`]), as an [`ObjectStore`]. A clone is the same store.
///
/// A path is used as the key, unchanged. Writes take their memory from the engine's budget, and wait for it. An
/// object is published as a whole, by [`finish`](crate::Writer::finish). Tasks run on the tokio runtime that calls
/// the store.
#[derive(Clone, Debug)]
pub struct TidegateStore {
    store: Store,
}

impl TidegateStore {
    /// Wraps `store`, with all defaults of its engine.
    pub fn new(store: Store) -> Self {
        Self { store }
    }

    /// The store inside.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// A writer for `location` with the caller's attributes and tags.
    fn writer(
        &self,
        location: &Path,
        attributes: &object_store::Attributes,
        tags: &object_store::TagSet,
    ) -> Result<WriterBuilder> {
        let attributes = to_attributes(attributes, tags)?;
        check_kept(&self.store, &attributes)?;
        Ok(self.store.writer(location.as_ref()).attributes(attributes))
    }

    /// Describes an object if it meets the conditions.
    async fn head(&self, location: &Path, options: &GetOptions) -> Result<Object> {
        let object = self.store.head(location.as_ref()).await.map_err(|error| convert(error, location))?;
        check(location, &object, options)?;
        Ok(object)
    }

    /// Starts to read an object. The conditions are checked against the object that is read, whatever was there
    /// before.
    async fn read(&self, location: &Path, options: &GetOptions) -> Result<Reader> {
        let failed = |error| convert(error, location);
        let reader = self.store.reader(location.as_ref());
        // With these conditions the body is often not needed, so ask for the description first. Reading the end asks
        // for the size anyway.
        let is_end = matches!(options.range, Some(GetRange::Suffix(_)));
        if !is_end && (options.if_none_match.is_some() || options.if_modified_since.is_some()) {
            self.head(location, options).await?;
        }
        let reader = match options.range {
            None => reader.start().await.map_err(failed)?,
            Some(GetRange::Offset(offset)) => reader.range(offset..).start().await.map_err(failed)?,
            Some(GetRange::Bounded(ref range)) => {
                reader.range(range.clone()).start().await.map_err(failed)?
            }
            Some(GetRange::Suffix(length)) => self.read_end(location, length, options).await?,
        };
        check(location, reader.object(), options)?;
        Ok(reader)
    }

    /// Starts to read the last bytes of an object; asks for its size first.
    async fn read_end(&self, location: &Path, length: u64, options: &GetOptions) -> Result<Reader> {
        let mut looks = 0;
        loop {
            let object = self.head(location, options).await?;
            let range = object.size.saturating_sub(length)..object.size;
            let reader = self.store.reader(location.as_ref()).range(range);
            // Without an identity, no answer can be matched to the object that was described; but one answer is about
            // one object.
            let reader = if object.has_identity() { reader.if_unchanged(&object) } else { reader };
            let reader = reader.start().await;
            looks += 1;
            match reader {
                // The object was replaced. If the new one is shorter, a store that heeds no conditions says that the
                // range is past its end.
                Err(error)
                    if looks < LOOKS
                        && matches!(error.kind(), ErrorKind::Replaced | ErrorKind::InvalidInput) => {}
                reader => return reader.map_err(|error| convert(error, location)),
            }
        }
    }

    /// The error for a range outside the object.
    fn refused(&self, location: &Path, why: impl fmt::Display) -> Error {
        let url = self.store.context().url(location.as_ref());
        convert(crate::Error::new(ErrorKind::InvalidInput, Operation::Get, url, why.to_string()), location)
    }

    fn entries(
        &self,
        prefix: Option<&Path>,
        recursive: bool,
        after: Option<&Path>,
    ) -> BoxStream<'static, Result<Entry>> {
        let prefix = prefix.cloned().unwrap_or_default();
        let below = if prefix.as_ref().is_empty() { String::new() } else { format!("{prefix}/") };
        let (mut entries, store) = (self.store.list(below).recursive(recursive), self.store.clone());
        if let Some(after) = after {
            entries = entries.start_after(after.as_ref());
        }
        let described = entries.and_then(move |entry| described(store.clone(), entry));
        described.map_err(move |error| convert(error, &prefix)).boxed()
    }
}

impl From<Store> for TidegateStore {
    fn from(store: Store) -> Self {
        Self::new(store)
    }
}

impl fmt::Display for TidegateStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TidegateStore({})", self.store.location())
    }
}

#[async_trait]
impl ObjectStore for TidegateStore {
    async fn put_opts(&self, location: &Path, payload: PutPayload, options: PutOptions) -> Result<PutResult> {
        let size = payload.content_length() as u64;
        let writer = self.writer(location, &options.attributes, &options.tags)?.size_hint(size);
        let writer = match options.mode {
            PutMode::Overwrite => writer,
            PutMode::Create => writer.create_only(),
            PutMode::Update(_) if !self.store.context().backend().capabilities().replaces => {
                return Err(without_condition(&self.store));
            }
            PutMode::Update(version) => {
                let replaced = Object { etag: version.e_tag, version: version.version, ..Object::default() };
                writer.replaces(replaced)
            }
        };
        let failed = |error| convert(error, location);
        let mut writer = writer.start().await.map_err(failed)?;
        for bytes in payload {
            writer.write_bytes(bytes).await.map_err(failed)?;
        }
        writer.finish().await.map(put_result).map_err(failed)
    }

    /// The parts form one stream, in the order of the `put_part` calls, however their futures are awaited; the engine
    /// cuts its own parts from that stream. A part is accepted once the engine has memory for it. Callers should
    /// await each part, or hold only as many at once as they have memory for.
    async fn put_multipart_opts(
        &self,
        location: &Path,
        options: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        let writer = self.writer(location, &options.attributes, &options.tags)?;
        let writer = writer.start().await.map_err(|error| convert(error, location))?;
        Ok(Box::new(TidegateUpload::new(writer, location.clone())))
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        if let Some(range) = &options.range {
            range.is_valid().map_err(|error| self.refused(location, error))?;
        }
        if options.head {
            let object = self.head(location, &options).await?;
            let payload = GetResultPayload::Stream(stream::empty().boxed());
            let (range, attributes) = (0..object.size, from_attributes(&object.attributes));
            return Ok(GetResult { payload, meta: meta(location.clone(), object), range, attributes });
        }
        let reader = self.read(location, &options).await?;
        let (object, range) = (reader.object().clone(), reader.range());
        let path = location.clone();
        let bytes = reader.map_err(move |error| convert(error, &path)).boxed();
        Ok(GetResult {
            payload: GetResultPayload::Stream(bytes),
            attributes: from_attributes(&object.attributes),
            meta: meta(location.clone(), object),
            range,
        })
    }

    /// Ranges that lie close together are read by one request. As with one range, a range that ends past the object's
    /// end is cut; a range that begins past it is refused, also an empty one.
    async fn get_ranges(&self, location: &Path, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        if let Some(range) = ranges.iter().find(|range| range.end < range.start) {
            let (start, end) = (range.start, range.end);
            return Err(self.refused(location, format!("the range {start}..{end} ends before it begins")));
        }
        let wanted = union(ranges);
        let fetch = |range: Range<u64>| async move {
            let got =
                self.get_opts(location, GetOptions::new().with_range(Some(GetRange::Bounded(range)))).await?;
            let size = got.meta.size;
            Ok::<_, Error>((size, got.bytes().await?))
        };
        let fetched: Vec<(u64, Bytes)> =
            stream::iter(wanted.clone()).map(fetch).buffered(RANGES).try_collect().await?;
        let size = match fetched.first() {
            Some((size, _)) => *size,
            None if ranges.is_empty() => 0,
            // Empty ranges read no bytes, but they must still lie within the object, so ask for its size.
            None => self.head(location, &GetOptions::new()).await?.size,
        };
        let cut = |range: &Range<u64>| {
            if range.start > size || (range.start == size && !range.is_empty()) {
                let start = range.start;
                let why = format!("the range begins at byte {start}, past the object's end at byte {size}");
                return Err(self.refused(location, why));
            }
            let found =
                wanted.iter().position(|wanted| wanted.start <= range.start && range.end <= wanted.end);
            let Some((at, bytes)) = found.and_then(|at| Some((wanted.get(at)?.start, &fetched.get(at)?.1)))
            else {
                return Ok(Bytes::new());
            };
            let here = |byte: u64| usize::try_from(byte - at).unwrap_or(usize::MAX).min(bytes.len());
            Ok(bytes.slice(here(range.start)..here(range.end)))
        };
        ranges.iter().map(cut).collect()
    }

    /// [`Store::delete_stream`], with the outcomes in the order of `locations`: many objects are one request where the
    /// store has such requests.
    fn delete_stream(&self, locations: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        Removals::new(&self.store, locations).boxed()
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        let entries = self.entries(prefix, true, None);
        entries.try_filter_map(|entry| async { listed(entry) }).boxed()
    }

    /// [`ListStream::start_after`](crate::store::ListStream::start_after).
    fn list_with_offset(
        &self,
        prefix: Option<&Path>,
        offset: &Path,
    ) -> BoxStream<'static, Result<ObjectMeta>> {
        let entries = self.entries(prefix, true, Some(offset));
        entries.try_filter_map(|entry| async { listed(entry) }).boxed()
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        let mut entries = self.entries(prefix, false, None);
        let mut result = ListResult { common_prefixes: Vec::new(), objects: Vec::new() };
        while let Some(entry) = entries.try_next().await? {
            match entry {
                Entry::Prefix(prefix) => result.common_prefixes.push(Path::parse(prefix)?),
                object => result.objects.extend(listed(object)?),
            }
        }
        Ok(result)
    }

    /// [`Store::rename`]. If both paths are the same place, only checks that the object exists.
    async fn rename_opts(&self, from: &Path, to: &Path, options: RenameOptions) -> Result<()> {
        if self.store.context().is_one_place(from.as_ref(), self.store.context(), to.as_ref()).await {
            return self.store.head(from.as_ref()).await.map(|_| ()).map_err(|error| convert(error, from));
        }
        let rename = self.store.rename(from.as_ref(), to.as_ref());
        let (rename, failed_at) = match options.target_mode {
            RenameTargetMode::Overwrite => (rename, from),
            RenameTargetMode::Create => (rename.create_only(), to),
        };
        moved(rename.await, from, failed_at)
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        let copy = self.store.copy(from.as_ref(), &self.store, to.as_ref());
        let (copy, failed_at) = match options.mode {
            CopyMode::Overwrite => (copy, from),
            CopyMode::Create => (copy.create_only(), to),
        };
        moved(copy.run().await, from, failed_at)
    }
}

/// The result of a copy or a rename. What is missing is the source; other errors are about `failed_at`.
fn moved(result: crate::Result<Object>, from: &Path, failed_at: &Path) -> Result<()> {
    result.map(|_| ()).map_err(|error| match error.kind() {
        ErrorKind::NotFound => convert(error, from),
        _ => convert(error, failed_at),
    })
}

/// The ascending ranges that contain all bytes of `ranges`. Ranges that lie close together are joined; empty ranges
/// are left out.
fn union(ranges: &[Range<u64>]) -> Vec<Range<u64>> {
    let mut sorted: Vec<_> = ranges.iter().filter(|range| !range.is_empty()).cloned().collect();
    sorted.sort_unstable_by_key(|range| range.start);
    let mut union: Vec<Range<u64>> = Vec::new();
    for range in sorted {
        match union.last_mut() {
            Some(last) if range.start.saturating_sub(last.end) <= OBJECT_STORE_COALESCE_DEFAULT => {
                last.end = last.end.max(range.end);
            }
            _ => union.push(range),
        }
    }
    union
}

/// The store's name in errors without a kind of their own.
const STORE: &str = "Tidegate";

fn meta(location: Path, object: Object) -> ObjectMeta {
    ObjectMeta {
        location,
        last_modified: date::within_calendars(object.modified.unwrap_or(std::time::SystemTime::UNIX_EPOCH))
            .into(),
        size: object.size,
        e_tag: object.etag,
        version: object.version,
    }
}

fn put_result(object: Object) -> PutResult {
    PutResult { e_tag: object.etag, version: object.version }
}

/// An entry with its size. If the store's listing has no size, asks for the object's description.
async fn described(store: Store, entry: Entry) -> crate::Result<Entry> {
    match entry {
        Entry::Object(object) if object.size_is_unknown => Ok(Entry::Object(store.head(&object.key).await?)),
        entry => Ok(entry),
    }
}

/// An entry of a listing as `object_store` shows it. `None` for the markers that some tools write in place of a
/// directory (keys that end with `/`), because no path can name them.
fn listed(entry: Entry) -> Result<Option<ObjectMeta>> {
    match entry {
        Entry::Object(object) if !object.key.ends_with('/') => {
            Ok(Some(meta(Path::parse(&object.key)?, object)))
        }
        _ => Ok(None),
    }
}

/// Fails if the object does not meet the conditions, or does not have the requested version.
fn check(location: &Path, object: &Object, options: &GetOptions) -> Result<()> {
    options.check_preconditions(&meta(location.clone(), object.clone()))?;
    match &options.version {
        Some(asked) if object.version.as_ref() != Some(asked) => Err(no_condition(
            "only the version that a key has now is read, and that is not the one that was asked for",
        )),
        _ => Ok(()),
    }
}
