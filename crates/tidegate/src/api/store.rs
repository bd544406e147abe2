//! `Store`: one bucket or root, or a prefix of it.

use std::collections::BTreeMap;
use std::ops::{Range, RangeBounds};
use std::path::{Path, PathBuf};

use bytes::Bytes;
use futures::stream::BoxStream;
use futures::{Stream, StreamExt, TryStreamExt};

use super::Tidegate;
use super::delete::DeleteStream;
use super::list::ListStream;
use super::rename::RenameBuilder;
use crate::backend::{FaultKind, OpenSession, same_or_another};
use crate::download::{BlocksBuilder, DownloadBuilder, ReaderBuilder};
use crate::engine::Context;
use crate::engine::listing;
use crate::engine::request::Failure;
use crate::types::error::{ErrorKind, Operation, Result};
use crate::types::object::Object;
use crate::upload::{
    CopyBuilder, PartsUpload, PartsUploadBuilder, Pending, Resumable, Unpublished, Writer, WriterBuilder,
};

/// One bucket or root, or a prefix of it. A clone is the same store.
#[derive(Clone, Debug)]
pub struct Store {
    tide: Tidegate,
    context: Context,
}

impl Store {
    pub(super) fn new(tide: Tidegate, context: Context) -> Self {
        Self { tide, context }
    }

    /// The engine that opened this store.
    pub fn tide(&self) -> &Tidegate {
        &self.tide
    }

    pub(crate) fn context(&self) -> &Context {
        &self.context
    }

    /// The same engine with another context.
    pub(crate) fn with(&self, context: Context) -> Self {
        Self { context, ..self.clone() }
    }

    /// The store's URL without a trailing slash; for a local directory its path, which is empty for `/`.
    pub fn location(&self) -> String {
        self.context.location()
    }

    /// Whether the store is a directory of this machine, and each key the path of a file below
    /// [`location`](Self::location).
    pub fn is_local(&self) -> bool {
        self.context.backend().is_local()
    }

    /// Whether listings come in the ascending order of the keys' bytes (`a-b` before `a/b`). Azure's do not.
    pub fn lists_in_key_order(&self) -> bool {
        self.context.capabilities().lists_in_key_order
    }

    /// Writes `bytes` as the object `key`. Options as for [`writer`](Self::writer).
    ///
    /// ```
    /// # tokio::runtime::Runtime::new()?.block_on(async {
    /// # let store = tidegate::Tidegate::builder().build()?.open("memory://demo").await?;
    /// let object = store.put("a/b.json", "{}").create_only().await?;
    /// assert_eq!((object.size, store.get("a/b.json").await?.as_ref()), (2, &b"{}"[..]));
    /// # Ok::<(), tidegate::Error>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn put(&self, key: impl Into<String>, bytes: impl Into<Bytes>) -> WriterBuilder<Bytes> {
        self.writer(key).bytes(bytes.into())
    }

    /// Reads the whole object `key`. The bytes are the caller's own memory, beside the memory budget.
    ///
    /// # Errors
    /// [`ErrorKind::TooLarge`] if the object is larger than the memory budget: use [`reader`](Self::reader),
    /// [`get_range`](Self::get_range) or [`download`](Self::download). Otherwise as [`ReaderBuilder`].
    pub async fn get(&self, key: impl Into<String>) -> Result<Bytes> {
        self.reader(key).bytes().await
    }

    /// Reads a range of the object `key`; an end past the object's end means the object's end.
    ///
    /// # Errors
    /// As [`get`](Self::get), for the bytes of the range.
    pub async fn get_range(&self, key: impl Into<String>, range: impl RangeBounds<u64>) -> Result<Bytes> {
        self.reader(key).range(range).bytes().await
    }

    /// Sets up an upload to `key` of bytes that are still to come. Awaited, it is a [`Writer`](crate::Writer).
    pub fn writer(&self, key: impl Into<String>) -> WriterBuilder {
        WriterBuilder::new(self.context.clone(), key.into())
    }

    /// Sets up a read of `key`.
    pub fn reader(&self, key: impl Into<String>) -> ReaderBuilder {
        ReaderBuilder::new(self.context.clone(), key.into())
    }

    /// Sets up a download of `key` to the file at `path`.
    pub fn download(&self, key: impl Into<String>, path: impl Into<PathBuf>) -> DownloadBuilder {
        DownloadBuilder::new(self.context.clone(), key.into(), path.into())
    }

    /// Sets up a read of several blocks of `key`. `index` gives the byte range of each block, in ascending order.
    pub fn blocks(
        &self,
        key: impl Into<String>,
        index: impl IntoIterator<Item = Range<u64>>,
    ) -> BlocksBuilder {
        BlocksBuilder::new(self.context.clone(), key.into(), index)
    }

    /// Sets up an upload of the file at `path` as `key`; see [`WriterBuilder::upload`].
    pub fn upload(&self, path: impl AsRef<Path>, key: impl Into<String>) -> WriterBuilder<PathBuf> {
        self.writer(key).file(path.as_ref().to_owned())
    }

    /// Sets up a copy of `key` to `to_key` of `to` that the store makes itself: the bytes do not pass through this
    /// machine. Both must be in one store, see [`is_one_with`](Self::is_one_with).
    pub fn copy(&self, key: impl Into<String>, to: &Self, to_key: impl Into<String>) -> CopyBuilder {
        CopyBuilder::new(self.context.clone(), key.into(), to.context.clone(), to_key.into())
    }

    /// Describes an object. `ErrorKind::NotFound` if the key has no object.
    pub async fn head(&self, key: &str) -> Result<Object> {
        self.context.head(key).await
    }

    /// Describes an object; `None` if the key has no object.
    pub async fn find(&self, key: &str) -> Result<Option<Object>> {
        match self.head(key).await {
            Ok(object) => Ok(Some(object)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Whether the key has an object.
    pub async fn exists(&self, key: &str) -> Result<bool> {
        Ok(self.find(key).await?.is_some())
    }

    /// Whether the store has a directory of this name, which is no object: in Azure Blob Storage, an empty blob with the
    /// metadata `hdi_isfolder`, or a directory of a hierarchical namespace. Other stores are not asked.
    pub async fn is_directory(&self, key: &str) -> Result<bool> {
        self.context.is_directory(key).await
    }

    /// The tags of an object; empty if the store has no tags.
    pub async fn tags(&self, key: &str) -> Result<BTreeMap<String, String>> {
        self.context.check(Operation::Head, key, None)?;
        self.context.tags(key, Operation::Head, &self.context.engine().progress).await
    }

    /// Whether `object` has metadata whose names have capital letters that its description does not show, so that a
    /// copy through this machine writes other names: Azure Blob Storage keeps capitals, and headers show none. Takes a
    /// request where the object has metadata.
    ///
    /// # Errors
    /// If the store does not let the caller ask (`PermissionDenied`), or the request fails.
    pub async fn hides_capitals(&self, object: &Object) -> Result<bool> {
        let Some(admin) = self.context.backend().admin().filter(|_| !object.attributes.metadata.is_empty())
        else {
            return Ok(false);
        };
        let full = self.context.full_key(&object.key);
        let requests = self.context.requests(&object.key, self.context.engine().progress.clone());
        let ask = |attempt| admin.hides_capitals(&full, attempt);
        let asked = requests.send(Operation::List, None, None, ask).await;
        asked.map_err(|failure| failure.into_error(Operation::List, &requests.object))
    }

    /// Removes an object. Succeeds if the key has no object. After the future is dropped, the object may or may not
    /// be there.
    pub async fn delete(&self, key: &str) -> Result<()> {
        self.remove(key, None).await
    }

    /// Removes the object `key` if it is still `object`, a description from [`head`](Self::head), a listing, a read or
    /// a write. Succeeds if the key has no object. After the future is dropped, the object may or may not be there.
    ///
    /// Compared are the size, and the ETag or the version, as [`Object::is_same`] does; of a local file its inode, its
    /// size and the time of its last write, which are its ETag. Another object with the same bytes has the same ETag
    /// in some stores (S3), and counts as unchanged there.
    ///
    /// The removal has the store's own condition (`If-Match`, a generation), and a HEAD request asks for the object
    /// before each attempt, because not every store heeds the condition. Where none does (a local directory, many
    /// S3-compatible servers; S3 itself does), an object written between that answer and the removal is removed.
    ///
    /// # Errors
    /// [`ErrorKind::Replaced`] if the key has another object now, which stays. [`ErrorKind::Unsupported`] if the two
    /// descriptions share neither an ETag nor a version, so that nothing tells whether they are of one object: it
    /// stays. Otherwise as [`delete`](Self::delete).
    ///
    /// ```
    /// # tokio::runtime::Runtime::new()?.block_on(async {
    /// # let store = tidegate::Tidegate::builder().build()?.open("memory://demo").await?;
    /// use tidegate::ErrorKind;
    ///
    /// let first = store.put("a", "1").await?;
    /// let second = store.put("a", "2").await?;
    /// let error = store.delete_if_unchanged("a", &first).await.unwrap_err();
    /// assert_eq!(error.kind(), ErrorKind::Replaced);
    /// store.delete_if_unchanged("a", &second).await?;
    /// assert!(!store.exists("a").await?);
    /// # Ok::<(), tidegate::Error>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub async fn delete_if_unchanged(&self, key: &str, object: &Object) -> Result<()> {
        self.remove(key, Some(object)).await
    }

    /// Removes an object; with `same`, only that one: the key is looked at before each attempt then.
    async fn remove(&self, key: &str, same: Option<&Object>) -> Result<()> {
        let (context, full) = (&self.context, &self.context.full_key(key));
        context.check(Operation::Delete, key, None)?;
        let requests = context.requests(key, context.engine().progress.clone());
        let delete = |attempt| async move {
            if let Some(same) = same {
                match context.backend().head(full, attempt).await {
                    Err(fault) if fault.kind == FaultKind::NotFound => return Ok(()),
                    found => same_or_another(&found?, same)?,
                }
            }
            context.backend().delete(full, same, attempt).await
        };
        let delete = requests.send(Operation::Delete, None, None, delete).await;
        let Err(failure) = delete else { return Ok(()) };
        if matches!(failure.fault.kind, FaultKind::NotAStore | FaultKind::Replaced) {
            // The answer does not prove that the key has an object. Only the store's own word that the object is
            // missing counts, so ask for it.
            let head = |attempt| context.backend().head(full, attempt);
            let head = requests.send(Operation::Head, None, None, head).await;
            let is_gone = |asked: &Failure| asked.fault.kind == FaultKind::NotFound && asked.fault.answered;
            if head.as_ref().is_err_and(is_gone) {
                return Ok(());
            }
        }
        Err(failure.into_error(Operation::Delete, &context.url(key)))
    }

    /// Removes objects, many at a time; see [`DeleteStream`]. A key without an object counts as removed.
    pub fn delete_many(&self, keys: impl IntoIterator<Item = impl Into<String>>) -> DeleteStream {
        let keys: Vec<Result<String>> = keys.into_iter().map(|key| Ok(key.into())).collect();
        self.delete_stream(futures::stream::iter(keys))
    }

    /// As [`delete_many`](Self::delete_many), of keys that arrive one by one, such as those of a listing. An error of
    /// `keys` is a failure without a key.
    ///
    /// ```
    /// # tokio::runtime::Runtime::new()?.block_on(async {
    /// # let store = tidegate::Tidegate::builder().build()?.open("memory://demo").await?;
    /// use futures::TryStreamExt;
    ///
    /// store.put("old/a", "1").await?;
    /// let old = store.list("old/").map_ok(|entry| entry.key().to_owned());
    /// assert_eq!(store.delete_stream(old).await.into_result()?, 1);
    /// # Ok::<(), tidegate::Error>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn delete_stream(&self, keys: impl Stream<Item = Result<String>> + Send + 'static) -> DeleteStream {
        DeleteStream::new(self.clone(), keys.boxed())
    }

    /// Sets up a rename of the object `from` to `to`; see [`RenameBuilder`].
    pub fn rename(&self, from: impl Into<String>, to: impl Into<String>) -> RenameBuilder {
        RenameBuilder::new(self.clone(), from.into(), to.into())
    }

    /// Publishes a pending upload, which any process prepared in this bucket. When this returns, the whole object is
    /// visible, or nothing is, as by [`Writer::finish`](crate::Writer::finish): the conditions of the write hold now, sizes
    /// and checksums are compared, and after a lost answer the store is asked for the object.
    ///
    /// A second commit, or two at once, have no further effect and return the object. On a store without sessions, whose
    /// commit is a copy, and of an object without bytes on Azure, this holds until the object is replaced by another
    /// writer: a commit that is repeated even so replaces that.
    ///
    /// After the future is dropped the object may be there or not: commit again.
    ///
    /// # Errors
    /// [`ErrorKind::SessionLost`] if the upload is gone and so nothing is published by this or a later commit: it was
    /// abandoned, its lifetime is over, on Azure another writer wrote the key; or it was committed and the object was
    /// removed or replaced since. [`ErrorKind::AlreadyExists`], [`ErrorKind::Replaced`] for a condition: the upload stays as it
    /// was. [`ErrorKind::InvalidInput`] if it was prepared in another bucket. Otherwise as [`Writer::finish`](crate::Writer::finish);
    /// after [`ErrorKind::Uncertain`] commit again.
    pub async fn commit(&self, pending: &Pending) -> Result<Object> {
        crate::upload::commit(&self.context, pending).await
    }

    /// Continues an upload from a point that any process has persisted in this bucket: returns a writer that has the
    /// bytes before the point, and goes on at its [`position`](crate::Writer::position). Attributes and conditions are
    /// those of the write that was begun.
    ///
    /// A point may be resumed again, and after its writer went on. Then the bytes behind the point are written anew: parts
    /// that were sent meanwhile are replaced or left out. A resumable upload at Google only goes forward, so bytes that it
    /// has behind the point count as sent; the store compares the checksum of the whole object before it publishes, and
    /// refuses it if the producer has written others. If two writers of one upload go on at once, the first that finishes
    /// publishes its own bytes, and the other fails ([`ErrorKind::SessionLost`]); but on a local disk, where nothing tells the
    /// writes of two processes apart, only one process may go on at a time. A point without a session (of a store that has
    /// none) is a write of its own in each process.
    ///
    /// From now on, sweeps leave the upload alone for the point's [lifetime](crate::upload::PersistBuilder::lifetime) again.
    ///
    /// While it resumes, the point's tail is held in memory beside the budget: less than a part.
    ///
    /// After the future is dropped the upload is as it was. The session stays when the writer is dropped, as after
    /// [`Writer::persist`](crate::Writer::persist).
    ///
    /// # Errors
    /// [`ErrorKind::SessionLost`] if the upload was finished or given up, its lifetime is over, or the store has ended it.
    /// [`ErrorKind::InvalidInput`] if it was begun in another bucket or with another checksum, or if its parts do not fit
    /// in the memory budget. [`ErrorKind::Integrity`] if the tail is damaged. [`ErrorKind::PermissionDenied`] where nothing may be
    /// written below `.tidegate/`.
    pub async fn resume(&self, point: &Resumable) -> Result<Writer> {
        crate::upload::resume(&self.context, point).await
    }

    /// Removes what is kept for this point alone: its tail, if it is an object. Nobody can continue from the point then,
    /// while the upload and its later points go on. For a stream that needs only its last few checkpoints. Succeeds if it
    /// was removed before; after the future is dropped it may be there or not.
    ///
    /// ```
    /// # tokio::runtime::Runtime::new()?.block_on(async {
    /// # let store = tidegate::Tidegate::builder().build()?.open("memory://demo").await?;
    /// let mut writer = store.writer("events").await?;
    /// let first = writer.persist().await?;
    /// writer.write_bytes("more".into()).await?;
    /// let second = writer.persist().await?;
    /// store.forget(&first).await?; // the checkpoint that has it is superseded
    /// # store.abandon(&second).await?;
    /// # Ok::<(), tidegate::Error>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`] if it was persisted in another bucket; otherwise as [`delete`](Self::delete).
    pub async fn forget(&self, point: &Resumable) -> Result<()> {
        crate::upload::forget_point(&self.context, point).await
    }

    /// Gives up an upload that is pending, or that has a point: its bytes are freed, and a later
    /// [`commit`](Self::commit) or [`resume`](Self::resume) fails with [`ErrorKind::SessionLost`]. Succeeds if it was given up
    /// before. A writer that is still at work on it fails.
    ///
    /// Azure Blob Storage has no abort: there the record goes, without which no commit begins, and the store discards the
    /// blocks within a week. A commit that is under way at the same moment may still publish, and so may a writer.
    ///
    /// # Errors
    /// [`ErrorKind::Closed`] if the object was published before and is there: it stays.
    pub async fn abandon<'a>(&self, upload: impl Into<Unpublished<'a>>) -> Result<()> {
        match upload.into() {
            Unpublished::Pending(pending) => crate::upload::abandon(&self.context, pending).await,
            Unpublished::Resumable(point) => crate::upload::abandon_resumable(&self.context, point).await,
        }
    }

    /// Sets up an upload to `key` whose parts are put in any order, by any processes: for programs that cut an object
    /// themselves. Use a [`writer`](Self::writer) for bytes of one producer: it cuts, sends and retries alone. Awaited, it
    /// is a [`PartsUpload`].
    ///
    /// ```
    /// # tokio::runtime::Runtime::new()?.block_on(async {
    /// use tidegate::upload::PartReceipt;
    ///
    /// let store = tidegate::Tidegate::builder().build()?.open("memory://demo").await?;
    /// let upload = store.upload_in_parts("large").await?;
    /// let id = upload.id(); // for the other processes
    ///
    /// // In any process, in any order:
    /// let upload = store.parts_upload(&id).await?;
    /// let last = upload.put_part(2, "the end").await?.to_json();
    /// let first = upload.put_part(1, vec![7; 5 << 20]).await?.to_json();
    /// assert!(!store.exists("large").await?);
    ///
    /// let receipts = [PartReceipt::from_json(&first)?, PartReceipt::from_json(&last)?];
    /// let object = upload.complete(&receipts).await?; // visible from here on
    /// assert_eq!(object.size, (5 << 20) + 7);
    /// # Ok::<(), tidegate::Error>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn upload_in_parts(&self, key: impl Into<String>) -> PartsUploadBuilder {
        PartsUploadBuilder::new(self.context.clone(), key.into())
    }

    /// The upload in parts that has this [id](PartsUpload::id), which any process has opened in this bucket. Sends nothing:
    /// that an upload has ended is found by its next call.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`] if the text is no id of an upload in parts, or one of another bucket.
    pub async fn parts_upload(&self, id: &str) -> Result<PartsUpload> {
        PartsUpload::of(&self.context, id)
    }

    /// Whether [`upload_in_parts`](Self::upload_in_parts) works here: S3, Google Cloud Storage and Azure Blob Storage take
    /// parts in any order. A local disk writes each part to its place in the file and needs to know what comes before,
    /// and keys that are spread over prefixes have no place of their own. Sends nothing: a server that lacks what its
    /// protocol has shows that when an upload is opened.
    pub fn takes_parts_in_any_order(&self) -> bool {
        crate::upload::takes_parts_in_any_order(&self.context)
    }

    /// Lists the objects whose keys begin with `prefix`; see [`ListStream`].
    pub fn list(&self, prefix: impl Into<String>) -> ListStream {
        ListStream::new(self.context.clone(), prefix.into())
    }

    /// Lists the unfinished uploads of keys that begin with `prefix`, as far as the store lists them. A request that
    /// still fails after its retries ends the listing with the error. [`unfinished`](Self::unfinished) also says how
    /// much each holds.
    pub fn sessions(&self, prefix: &str) -> BoxStream<'static, Result<OpenSession>> {
        if let Err(error) = self.context.refuse_spread(Operation::List, "unfinished uploads") {
            return futures::stream::iter([Err(error)]).boxed();
        }
        let context = self.context.clone();
        let requests = context.list_requests(prefix);
        listing::sessions(&requests, &**context.backend(), &context.full_key(prefix))
            .map_err(move |failure| failure.into_error(Operation::List, &requests.object))
            .map_ok(move |mut open| {
                open.session.key = context.relative_key(&open.session.key);
                open
            })
            .boxed()
    }

    /// The part of this store below `prefix`: keys are then relative to `prefix`. Adds a slash to a prefix that does
    /// not end with one.
    #[must_use]
    pub fn within(&self, prefix: &str) -> Self {
        self.with(self.context.within(prefix))
    }

    /// How many requests to this store's endpoint may be in flight now: the number of
    /// [`Concurrency::Fixed`](crate::settings::Concurrency::Fixed), or what the limiter has found so far. A program
    /// that moves many small objects keeps a quarter more of them in flight.
    pub fn in_flight_limit(&self) -> usize {
        self.context.in_flight_limit()
    }

    /// Whether `key` and `to_key` of `to` are the same place, so that a write to one replaces the other: the same key
    /// of a bucket at one endpoint, or the same file, by whatever path or link.
    pub async fn is_one_place(&self, key: &str, to: &Self, to_key: &str) -> bool {
        self.context.is_one_place(key, &to.context, to_key).await
    }

    /// Whether both stores are reached at one endpoint, by whatever accounts: then [locations](Self::location) that
    /// are equal but for a profile are the same place.
    pub fn shares_endpoint_with(&self, to: &Self) -> bool {
        self.context.shares_endpoint_with(&to.context)
    }

    /// Whether the store itself can copy objects from here to `to`: both have the same endpoint, which supports
    /// copies, and neither spreads its keys over prefixes (then only the layout knows the places). The copy uses the
    /// credentials of `to`.
    pub fn is_one_with(&self, to: &Self) -> bool {
        self.context.is_one_with(&to.context)
    }
}

#[cfg(test)]
mod tests;
