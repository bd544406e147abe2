//! The builder of copies within one store, which the store makes itself.

use std::collections::BTreeMap;
use std::future::IntoFuture;
use std::sync::Arc;

use futures::future::BoxFuture;

use crate::backend::{CopySource, WriteOptions};
use crate::engine::Context;
use crate::types::error::{Error, ErrorKind, Operation, Result};
use crate::types::object::{Attributes, Encryption, Object};
use crate::types::progress::Progress;
use crate::upload::session::Upload;
use crate::upload::source::copy::{CopyMethod, NoCopyMethod, copy};

/// Sets up a copy of an object that the store makes itself; see [`Store::copy`](crate::Store::copy). Awaiting the
/// builder makes the copy: then the whole copy is visible, or nothing is. The source is the object that the key has
/// when this begins. The copy has the same bytes (by the checksum, where the store reports one of both), attributes,
/// metadata and tags. Access rights and retention are the target's own; anything else that the source has and the copy
/// lacks is named in [`Object::not_carried`]. A copy of an object onto itself that changes no attribute returns the
/// object as it is; the only request is the one that describes it.
///
/// Dropping the future aborts, as dropping a [`Writer`](crate::Writer) does.
///
/// # Errors
/// [`ErrorKind::Unsupported`] where source and target are not of one store, the store makes no such
/// copies (Azure Blob Storage: of more than 256 MiB), or it gives neither an ETag nor a version of the source: then
/// nothing was changed, and the bytes can be downloaded and uploaded instead. [`ErrorKind::Replaced`] where the source
/// was replaced or removed meanwhile.
#[derive(Clone, Debug)]
#[must_use = "nothing is copied before the builder is awaited"]
pub struct CopyBuilder {
    from: Context,
    key: String,
    to: Context,
    to_key: String,
    part_size: Option<u64>,
    concurrency: Option<usize>,
    /// The source object, where the caller has described it already.
    described: Option<Object>,
    options: WriteOptions,
    /// The metadata and the tags of the copy; `None`: the source's.
    metadata: Option<BTreeMap<String, String>>,
    tags: Option<BTreeMap<String, String>>,
    progress: Progress,
}

impl CopyBuilder {
    pub(crate) fn new(from: Context, key: String, to: Context, to_key: String) -> Self {
        let progress = to.engine().progress.part();
        let options = WriteOptions::default();
        Self {
            from,
            key,
            to,
            to_key,
            part_size: None,
            concurrency: None,
            described: None,
            options,
            metadata: None,
            tags: None,
            progress,
        }
    }

    /// Fail with [`ErrorKind::AlreadyExists`] where the target has an object, by the store's own condition at
    /// the moment of the commit.
    pub fn create_only(mut self) -> Self {
        self.options.create_only = true;
        self
    }

    /// The attributes in which the copy differs from its source. Attributes that are not set here are kept;
    /// metadata and tags are each kept, where these are empty, or replaced as a whole.
    pub fn attributes(mut self, attributes: Attributes) -> Self {
        self.options.attributes = attributes;
        self
    }

    /// Gives the copy this user metadata instead of its source's. With an empty map the copy has none. Names are in lower
    /// case.
    pub fn metadata(mut self, metadata: BTreeMap<String, String>) -> Self {
        self.metadata = Some(metadata);
        self
    }

    /// Gives the copy these tags instead of its source's. With an empty map the copy has none.
    pub fn tags(mut self, tags: BTreeMap<String, String>) -> Self {
        self.tags = Some(tags);
        self
    }

    /// Size of a part in bytes, where the store copies in parts; an object no larger than a part is copied in
    /// one request. As for an upload, parts grow where an object would need too many; 128 MiB by default.
    pub fn part_size(mut self, bytes: u64) -> Self {
        self.part_size = Some(bytes);
        self
    }

    /// Most parts in flight at once; the limiter's bound holds as well.
    pub fn concurrency(mut self, parts: usize) -> Self {
        self.concurrency = Some(parts);
        self
    }

    /// Copies the source as [`Store::head`](crate::Store::head) has described it, without asking for it again. If the key has
    /// another object by then, the copy fails with [`ErrorKind::Replaced`].
    pub fn described(mut self, object: Object) -> Self {
        self.described = Some(object);
        self
    }

    /// The progress figures of the copy: bytes that the store has copied count as acknowledged.
    pub fn progress(&self) -> Progress {
        self.progress.clone()
    }

    pub(crate) async fn run(self) -> Result<Object> {
        if let Some(object) = self.onto_itself().await? {
            return Ok(object);
        }
        let from = self.source().await?;
        let not_carried = from.object.not_carried.clone();
        let mut options = self.options;
        let given = std::mem::take(&mut options.attributes);
        options.attributes = merged(given, from.object.attributes.clone());
        if let Some(metadata) = self.metadata {
            options.attributes.metadata = metadata;
        }
        if let Some(tags) = self.tags {
            options.attributes.tags = tags;
        }
        let capabilities = self.to.capabilities();
        let part_size = self.part_size.or(self.to.engine().part_size);
        let way = CopyMethod::choose(&capabilities, from.object.size, options.create_only, part_size);
        let way = way.map_err(|none| {
            let kind = match none {
                // The bytes can be downloaded and uploaded instead.
                NoCopyMethod::CreateOnly | NoCopyMethod::TooLarge(_) => ErrorKind::Unsupported,
                NoCopyMethod::Schedule(_) => ErrorKind::InvalidInput,
            };
            Error::new(kind, Operation::Copy, self.to.url(&self.to_key), none.to_string())
        })?;
        if way != CopyMethod::Whole && from.keeps_tags && options.attributes.tags.is_empty() {
            options.attributes.tags = self.from.tags(&self.key, Operation::Copy, &self.progress).await?;
        }
        options.token = Some(self.to.engine().retry.token());
        let in_flight = self.concurrency.unwrap_or(self.to.engine().parts_in_flight);
        let upload = Upload::new(&self.to, &self.to_key, options, self.progress);
        let object = copy(upload, from, way, in_flight).await?;
        Ok(Object { not_carried, ..self.to.relative(object) })
    }

    /// The object, where it would be copied onto itself without a change. Stores refuse such a copy (S3) or
    /// make a new version of the object.
    async fn onto_itself(&self) -> Result<Option<Object>> {
        if !self.from.is_one_place(&self.key, &self.to, &self.to_key).await {
            return Ok(None);
        }
        let object = match &self.described {
            Some(object) => object.clone(),
            None => self.from.head(&self.key).await?,
        };
        if self.options.create_only {
            let message = "the object would be copied onto itself";
            let url = self.to.url(&self.to_key);
            return Err(Error::new(ErrorKind::AlreadyExists, Operation::Copy, url, message));
        }
        let changes = self.options.attributes != Attributes::default()
            || self.metadata.as_ref().is_some_and(|metadata| *metadata != object.attributes.metadata)
            || self.tags.is_some();
        // Two in-memory stores of different engines may have the same name.
        let is_one_store = Arc::ptr_eq(self.from.backend(), self.to.backend());
        if changes || (!is_one_store && !self.to.head(&self.to_key).await?.is_same(&object)) {
            return Ok(None);
        }
        Ok(Some(Object { key: self.to_key.clone(), ..object }))
    }

    /// Describes the source object, and refuses a copy that the store could not make.
    async fn source(&self) -> Result<CopySource> {
        let (from, to) = (&self.from, &self.to);
        if !from.is_one_with(to) {
            let url = from.url(&self.key);
            let message = format!(
                "the store cannot copy {url} there: source and target are in different stores, or the store makes no copies"
            );
            let target = to.url(&self.to_key);
            return Err(Error::new(ErrorKind::Unsupported, Operation::Copy, target, message));
        }
        from.check(Operation::Copy, &self.key, None)?;
        to.check(Operation::Copy, &self.to_key, Some(&self.options))?;
        let key = from.full_key(&self.key);
        let object = match &self.described {
            Some(object) => object.clone(),
            None => from.described(&self.key, &self.progress).await?,
        };
        if !object.has_identity() {
            let message = "the store gives neither an ETag nor a version of the object, so nothing would tell whether \
                           it copies the one that was described";
            return Err(Error::new(ErrorKind::Unsupported, Operation::Copy, from.url(&self.key), message));
        }
        let keeps_tags = self.tags.is_none();
        Ok(CopySource { keeps_tags, ..CopySource::new(from.backend().location(), key, object) })
    }
}

impl IntoFuture for CopyBuilder {
    type Output = Result<Object>;
    type IntoFuture = BoxFuture<'static, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.run())
    }
}

/// The attributes of a copy: the given ones, and the source's for the rest.
fn merged(given: Attributes, source: Attributes) -> Attributes {
    Attributes {
        content_type: given.content_type.or(source.content_type),
        cache_control: given.cache_control.or(source.cache_control),
        content_encoding: given.content_encoding.or(source.content_encoding),
        content_disposition: given.content_disposition.or(source.content_disposition),
        content_language: given.content_language.or(source.content_language),
        expires: given.expires.or(source.expires),
        metadata: if given.metadata.is_empty() { source.metadata } else { given.metadata },
        tags: if given.tags.is_empty() { source.tags } else { given.tags },
        storage_class: given.storage_class.or(source.storage_class),
        // Without this setting a bucket encrypts with keys that the store manages, or with better ones: leave
        // the choice to the bucket.
        encryption: given.encryption.or(source.encryption.filter(|kept| *kept != Encryption::Managed)),
    }
}
