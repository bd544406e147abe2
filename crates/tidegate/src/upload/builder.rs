//! The builder that sets up one write: its bytes, strategy, part size, conditions and attributes.

use std::future::IntoFuture;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::future::BoxFuture;

use super::driver::Driver;
use super::exact::WrongSize;
use super::journal::Journaled;
use super::plan::Plan;
use super::session::{Persistence, Upload};
use super::source::file::{self, FileToUpload};
use super::strategy::{Policy, Strategy, StrategyFacts};
use super::writer::Writer;
use crate::backend::local::FilesBelow;
use crate::backend::{Feature, WriteOptions};
use crate::engine::Context;
use crate::memory::budget::Budget;
use crate::memory::payload::SourceFile;
use crate::types::error::{Error, ErrorKind, Operation, Result};
use crate::types::object::{Attributes, Encryption, FileAttributes, Object};
use crate::types::progress::Progress;

/// Sets up the upload of one object. Awaiting the builder starts it:
///
/// | from | `Input` | awaited, it is |
/// |---|---|---|
/// | [`Store::writer`](crate::Store::writer) | [`Producer`]: bytes that are still to come | a [`Writer`] |
/// | [`Store::put`](crate::Store::put) | [`Bytes`] | the published [`Object`] |
/// | [`Store::upload`](crate::Store::upload) | [`PathBuf`]: a local file | the published [`Object`] |
///
/// The options are the same for all three. No request is made before there is something to send.
///
/// # Errors
/// [`ErrorKind::InvalidInput`] where the store does not take the part size, where the part size does not
/// fit in the memory budget, and where no request could carry the key or the attributes;
/// [`ErrorKind::TooLarge`] where the size hint is more than the store or the budget takes. Where the object is
/// published too, also [`ErrorKind::AlreadyExists`] with [`create_only`](Self::create_only), [`ErrorKind::Source`]
/// where the file can't be read, and [`ErrorKind::Integrity`] and [`ErrorKind::Uncertain`] as [`Writer::finish`].
#[derive(Clone, Debug)]
#[must_use = "nothing is written before the builder is awaited"]
pub struct WriterBuilder<Input = Producer> {
    settings: WriteSettings,
    input: Input,
}

/// The bytes of an upload come from a producer, through a [`Writer`].
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Producer;

/// The object that is written, and how.
#[derive(Clone, Debug)]
struct WriteSettings {
    context: Context,
    key: String,
    strategy: Strategy,
    part_size: Option<u64>,
    size_hint: Option<u64>,
    exact_size: Option<u64>,
    concurrency: Option<usize>,
    idle_limit: Option<Duration>,
    options: WriteOptions,
    /// Whether a file's time and permissions go into the metadata.
    preserve: bool,
    progress: Progress,
}

impl WriterBuilder {
    pub(crate) fn new(context: Context, key: String) -> Self {
        let progress = context.engine().progress.part();
        let settings = WriteSettings {
            context,
            key,
            strategy: Strategy::default(),
            part_size: None,
            size_hint: None,
            exact_size: None,
            concurrency: None,
            idle_limit: None,
            options: WriteOptions::default(),
            preserve: false,
            progress,
        };
        Self { settings, input: Producer }
    }

    /// The same upload, of these bytes.
    pub(crate) fn bytes(self, bytes: Bytes) -> WriterBuilder<Bytes> {
        WriterBuilder { settings: self.settings, input: bytes }
    }

    /// The same upload, of the file at `path`.
    pub(crate) fn file(self, path: PathBuf) -> WriterBuilder<PathBuf> {
        WriterBuilder { settings: self.settings, input: path }
    }

    pub(crate) async fn start(self) -> Result<Writer> {
        self.settings.start().await
    }

    /// Uploads the file at `path` and publishes it. With [`Strategy::Journal`] the file is copied into the
    /// journal first. The bytes are streamed from the disk and checksummed on their way: a request holds at
    /// most three slabs of memory, whatever the part size.
    ///
    /// # Errors
    /// [`ErrorKind::Source`] where the file can't be read or changes while it is sent; nothing is
    /// published then. Dropping the future aborts, as dropping a [`Writer`] does.
    pub async fn upload(self, path: impl AsRef<Path>) -> Result<Object> {
        self.settings.upload(&FileToUpload::At(path.as_ref().to_owned())).await
    }

    /// The same for the file `name` of a tree: it fails if a symbolic link leads there.
    ///
    /// # Errors
    /// As [`upload`](Self::upload), and [`ErrorKind::Source`] if a directory on the way to the file is a link.
    pub async fn upload_below(self, files: &Arc<FilesBelow>, name: impl Into<String>) -> Result<Object> {
        self.settings.upload(&FileToUpload::Below(files.clone(), name.into())).await
    }
}

impl IntoFuture for WriterBuilder {
    type Output = Result<Writer>;
    type IntoFuture = BoxFuture<'static, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.settings.start())
    }
}

/// Publishes the bytes: when the future is done, the whole object is visible, or nothing is.
impl IntoFuture for WriterBuilder<Bytes> {
    type Output = Result<Object>;
    type IntoFuture = BoxFuture<'static, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.settings.put(self.input))
    }
}

/// Publishes the file, see [`WriterBuilder::upload`].
impl IntoFuture for WriterBuilder<PathBuf> {
    type Output = Result<Object>;
    type IntoFuture = BoxFuture<'static, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move { self.settings.upload(&FileToUpload::At(self.input)).await })
    }
}

impl<Input> WriterBuilder<Input> {
    /// The strategy; [`Strategy::Auto`] by default.
    pub fn strategy(mut self, strategy: Strategy) -> Self {
        self.settings.strategy = strategy;
        self
    }

    /// Size of a part in bytes. Parts grow where an object would need more of them than the store takes. The
    /// size is rounded up where the store has sessions that are appended to in multiples of a size (Google:
    /// 256 KiB). 16 MiB by default; less where the memory budget is below 128 MiB, where the writer waits for
    /// memory although more requests may be in flight (down to 5 MiB or the store's least), or as
    /// [`Strategy::Auto`] chooses for a known size.
    pub fn part_size(mut self, bytes: u64) -> Self {
        self.settings.part_size = Some(bytes);
        self
    }

    /// The object's size in bytes, where it is known or guessed. If the hint is too small, parts grow, except
    /// with [`Strategy::Put`], which takes no more than the hint. A hint that is too large may cost requests:
    /// an object that fits in one request is sent in parts of the size that the hint led to.
    pub fn size_hint(mut self, bytes: u64) -> Self {
        self.settings.size_hint = Some(bytes);
        self
    }

    /// The exact size of the object in bytes: nothing of another size is published. The write that goes past
    /// it fails, and so does `finish` where bytes are missing, with [`ErrorKind::Source`] and a
    /// [`WrongSize`](crate::upload::WrongSize) as the error's source. Without a
    /// [`size_hint`](Self::size_hint), the exact size is the hint too. A journal does not keep the exact size: after a
    /// resume, set it with [`Writer::set_exact_size`].
    pub fn exact_size(mut self, bytes: u64) -> Self {
        self.settings.exact_size = Some(bytes);
        self
    }

    /// Most parts of this object in flight at once; the limiter's bound holds as well. With more than one,
    /// [`Strategy::Journal`] sends parts where it would otherwise append (Google).
    pub fn concurrency(mut self, parts: usize) -> Self {
        self.settings.concurrency = Some(parts);
        self
    }

    /// How long the writer may take no byte while others wait for the memory that it holds. Past this limit
    /// the upload is aborted, and the writer's next call fails with [`ErrorKind::Idle`]. Nobody waits for
    /// bytes that a spool takes.
    pub fn idle_limit(mut self, limit: Duration) -> Self {
        self.settings.idle_limit = Some(limit);
        self
    }

    /// Fail with [`ErrorKind::AlreadyExists`] where the key has an object, by the store's own
    /// condition at the moment of the commit.
    pub fn create_only(mut self) -> Self {
        self.settings.options.create_only = true;
        self
    }

    /// Fail with [`ErrorKind::Replaced`] where the key no longer has this object, as
    /// [`Store::head`](crate::Store::head) or a reader described it, by the store's own condition at the
    /// moment of the commit. [`ErrorKind::Unsupported`] where the store has no such condition, and with
    /// [`Strategy::Journal`].
    pub fn replaces(mut self, object: Object) -> Self {
        self.settings.options.replaces = Some(object.into());
        self
    }

    /// Sets all attributes of the object at once.
    pub fn attributes(mut self, attributes: Attributes) -> Self {
        self.settings.options.attributes = attributes;
        self
    }

    /// MIME type; by default guessed from the key's extension.
    pub fn content_type(mut self, content_type: impl Into<String>) -> Self {
        self.settings.options.attributes.content_type = Some(content_type.into());
        self
    }

    /// One entry of user metadata.
    pub fn metadata(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.settings.options.attributes.metadata.insert(name.into().to_ascii_lowercase(), value.into());
        self
    }

    /// Keeps the modification time and the permission bits of the file that is [uploaded](WriterBuilder::upload) in
    /// the user metadata, as rclone does ([`FileAttributes`]); a local disk gives them to its file. Entries of these
    /// names that were set before stay. No effect on a [`Writer`], whose bytes are of no file: see
    /// [`file_attributes`](Self::file_attributes).
    pub fn preserve(mut self, preserve: bool) -> Self {
        self.settings.preserve = preserve;
        self
    }

    /// The same with these attributes, for bytes that were read from a file.
    pub fn file_attributes(mut self, attributes: &FileAttributes) -> Self {
        self.settings.keep(attributes);
        self
    }

    /// One tag.
    pub fn tag(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.settings.options.attributes.tags.insert(name.into(), value.into());
        self
    }

    /// Storage class, in the store's own words.
    pub fn storage_class(mut self, class: impl Into<String>) -> Self {
        self.settings.options.attributes.storage_class = Some(class.into());
        self
    }

    /// Server-side encryption.
    pub fn encryption(mut self, encryption: Encryption) -> Self {
        self.settings.options.attributes.encryption = Some(encryption);
        self
    }

    /// The progress figures of the write; they can be watched from here on.
    pub fn progress(&self) -> Progress {
        self.settings.progress.clone()
    }
}

impl WriteSettings {
    /// Publishes `bytes`, whose number is known.
    async fn put(mut self, bytes: Bytes) -> Result<Object> {
        self.size_hint = Some(bytes.len() as u64);
        let (again, knew) = (self.clone(), self.context.facts().lacks(Feature::Multipart));
        match self.put_once(bytes.clone()).await {
            Err(error) if again.may_go_whole(knew, &error) => again.put_once(bytes).await,
            put => put,
        }
    }

    async fn put_once(self, bytes: Bytes) -> Result<Object> {
        let mut writer = self.start().await?;
        writer.write_bytes(bytes).await?;
        writer.finish().await
    }

    /// Whether an upload in parts has failed only because the server turned out to have none: it can still go in one
    /// request. `knew` is whether that was known before.
    fn may_go_whole(&self, knew: bool, error: &Error) -> bool {
        let lacks_parts = error.kind() == ErrorKind::Unsupported && error.operation() == Operation::Open;
        if lacks_parts {
            // A backend of the caller's own does not share the engine's facts.
            self.context.facts().learn_lack(Feature::Multipart);
        }
        lacks_parts && !knew && self.strategy != Strategy::Journal
    }

    async fn start(self) -> Result<Writer> {
        self.context.check(Operation::Write, &self.key, Some(&self.options))?;
        self.check_replaces()?;
        let relief = self.context.engine().relief.clone();
        let policy = self.policy(self.size_hint.or(self.exact_size), Some(relief.budget().total()))?;
        let exact = self.exact_size;
        if policy.strategy == Strategy::Journal {
            let mut writer = Box::pin(self.start_journaled(policy)).await?;
            writer.exact = exact;
            return Ok(writer);
        }
        let idle_limit = self.idle_limit.or(self.context.engine().idle_limit);
        let line = self.context.engine().spooling.as_ref().map(|spooling| Arc::new(spooling.line()));
        let key = Some(self.key.clone());
        let engine = self.context.engine().clone();
        let (strategy, upload) = (policy.strategy, Arc::new(self.into_upload(&policy)));
        let plan = Plan::new(upload.backend.capabilities(), policy.cut).down_to(policy.least);
        let driver = Driver::buffered(upload, plan, policy, relief, line, idle_limit);
        let mut writer = Writer::direct(strategy, driver, engine);
        (writer.key, writer.exact) = (key, exact);
        Ok(writer)
    }

    /// Adds a file's attributes to the metadata; what is there already stays.
    fn keep(&mut self, attributes: &FileAttributes) {
        let location = self.context.backend().location();
        let scheme = location.split_once("://").map_or("", |(scheme, _)| scheme);
        let entries = attributes.to_metadata_of(scheme);
        let metadata = &mut self.options.attributes.metadata;
        for (name, value) in entries {
            if !metadata.keys().any(|known| known.eq_ignore_ascii_case(&name)) {
                metadata.insert(name, value);
            }
        }
        self.options.preserve = true;
    }

    async fn upload(mut self, source: &FileToUpload) -> Result<Object> {
        self.context.check(Operation::Write, &self.key, Some(&self.options))?;
        self.check_replaces()?;
        let budget = self.context.engine().budget.clone();
        let file = file::open(source, &self.url()).await?;
        if self.preserve {
            let attributes = file.attributes().map_err(|error| file::unreadable(&self.url(), error))?;
            self.keep(&attributes);
        }
        if let Some(exact) = self.exact_size.filter(|exact| *exact != file.size() && file.size() > 0) {
            let given = file.size();
            let wrong =
                if given < exact { WrongSize::TooFew { given, exact } } else { WrongSize::TooMany { exact } };
            let error = Error::new(ErrorKind::Source, Operation::Write, self.url(), wrong.to_string());
            return Err(error.with_source(wrong));
        }
        if self.strategy == Strategy::Journal {
            return self.upload_journaled(file).await;
        }
        if file.size() == 0 {
            // Files whose content the kernel generates on read (/proc) report no size but have bytes.
            let url = self.url();
            let mut source = tokio::fs::File::from_std(file.into_file());
            let mut writer = self.start().await?;
            let read = writer.read_from(&mut source).await?;
            let checked = file::check_all_read(&source, read).await;
            checked.map_err(|error| file::unreadable(&url, error))?;
            return writer.finish().await;
        }
        let (file, context) = (Arc::new(file), self.context.clone());
        let (again, knew) = (self.clone(), context.facts().lacks(Feature::Multipart));
        let object = match self.send_file(file.clone(), budget.clone()).await {
            Err(error) if again.may_go_whole(knew, &error) => Box::pin(again.send_file(file, budget)).await,
            sent => sent,
        };
        object.map(|object| context.relative(object))
    }

    async fn send_file(self, file: Arc<SourceFile>, budget: Budget) -> Result<Object> {
        let policy = self.policy(Some(file.size()), None)?;
        file::send(file, Arc::new(self.into_upload(&policy)), policy, budget).await
    }

    /// Uploads the file through a journal. The journal holds a copy, so the file may change or go away once
    /// all of it is read.
    async fn upload_journaled(self, file: SourceFile) -> Result<Object> {
        let (url, size) = (self.url(), file.size());
        let failed = |error| file::unreadable(&url, error);
        let file = Arc::new(file);
        let mut source = tokio::fs::File::from_std(file.try_clone().map_err(&failed)?);
        let mut writer = Self { size_hint: Some(size), ..self }.start().await?;
        writer.read_from(&mut source).await?;
        if size > 0 {
            file.check_unchanged().map_err(&failed)?;
        }
        writer.finish().await
    }

    fn policy(&self, size_hint: Option<u64>, memory: Option<u64>) -> Result<Policy> {
        let capabilities = self.context.capabilities();
        let target = StrategyFacts {
            capabilities: &capabilities,
            may_have_parts: !self.context.facts().lacks(Feature::PartsBesideAppends),
            part_size: self.part_size.or(self.context.engine().part_size),
            size_hint,
            memory,
            spool: self.context.engine().relief.spool().is_some(),
            journal: !self.context.engine().journaling.directories.is_empty(),
            create_only: self.options.create_only || self.options.replaces.is_some(),
            concurrency: self.concurrency.unwrap_or(self.context.engine().parts_in_flight),
            parallel: self.concurrency.is_some_and(|parts| parts > 1),
            most: self.context.most_requests(),
            best: self.context.best(),
        };
        let is_whole = self.context.facts().lacks(Feature::Multipart) && target.capabilities.append.is_none();
        let strategy = match self.strategy {
            Strategy::Journal => Strategy::Journal,
            _ if is_whole => Strategy::Put,
            strategy => strategy,
        };
        strategy
            .policy(&target)
            .map_err(|refused| Error::new(refused.kind(), Operation::Write, self.url(), refused.to_string()))
    }

    fn check_replaces(&self) -> Result<()> {
        let message = match &self.options.replaces {
            None => return Ok(()),
            Some(replaced) if replaced.etag.is_none() && replaced.version.is_none() => {
                let message = "the object that is to be replaced has neither an ETag nor a version, by which a store \
                               could know it (describe it with `head` first)";
                return Err(Error::new(ErrorKind::InvalidInput, Operation::Write, self.url(), message));
            }
            Some(_) if !self.context.backend().capabilities().replaces => {
                "the store knows no condition on the object that is replaced"
            }
            Some(_) if self.strategy == Strategy::Journal => {
                "a journal may outlive the object that was to be replaced: choose another strategy"
            }
            Some(_) => return Ok(()),
        };
        Err(Error::new(ErrorKind::Unsupported, Operation::Write, self.url(), message))
    }

    fn url(&self) -> String {
        self.context.url(&self.key)
    }

    fn into_upload(self, policy: &Policy) -> Upload {
        let mut options = self.options;
        options.token = Some(self.context.engine().retry.token());
        // Metadata names travel as header names: every store gives them back in lower case.
        let lower = |(name, value): (String, String)| (name.to_ascii_lowercase(), value);
        options.attributes.metadata =
            std::mem::take(&mut options.attributes.metadata).into_iter().map(lower).collect();
        Upload::new(&self.context, &self.key, options, self.progress).into_session_of(policy.cut.into())
    }

    /// Starts a writer whose bytes go to a journal first.
    async fn start_journaled(self, policy: Policy) -> Result<Writer> {
        let engine = self.context.engine().clone();
        let key = Some(self.key.clone());
        let mut upload = self.into_upload(&policy);
        upload.persists = Persistence::Resumable;
        let upload = Arc::new(upload);
        let (budget, in_flight) = (engine.budget.clone(), policy.in_flight);
        let journaled = Journaled::begin(upload, policy.cut, in_flight, budget, &engine.journaling).await?;
        let mut writer = Writer::journaled(journaled, engine);
        writer.key = key;
        Ok(writer)
    }
}
