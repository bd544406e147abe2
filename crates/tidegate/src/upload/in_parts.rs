//! An upload whose parts are put in any order, by any processes.
//!
//! Unlike a writer, nobody here knows how many bytes come before a part: so each part is stored alone, and the object is
//! put together from receipts. The session belongs to nobody. A sweep ends it like that of any writer that is gone, by its
//! age; where the store aborts no session, a record says that the upload was not given up.

mod text;

use std::future::IntoFuture;
use std::sync::Arc;

use bytes::Bytes;
use futures::future::BoxFuture;
use tokio::task::JoinSet;

use super::commit::commit_parts;
use super::described_write::DescribedWrite;
use super::pending::{Pending, PendingBytes, lifetime_from_now};
use super::prepare::SIX_DAYS;
use super::session::{SessionTakes, Upload};
use crate::backend::{Receipt, WriteOptions};
use crate::engine::Context;
use crate::journal::Part;
use crate::memory::payload::Payload;
use crate::types::checksum::Checksum;
use crate::types::error::{Error, ErrorKind, Operation, Result};
use crate::types::object::{Attributes, Object};
use crate::types::progress::{Progress, Waiting};

pub use text::PartReceipt;
use text::PartsUploadText;

/// Sets up an upload of parts; from [`Store::upload_in_parts`](crate::Store::upload_in_parts). Awaited, it opens the session
/// and is the [`PartsUpload`]. After a cancellation the session is aborted.
///
/// # Errors
/// [`ErrorKind::Unsupported`], with nothing sent, where the store does not take
/// [parts in any order](crate::Store::takes_parts_in_any_order), and for a condition that the store can't keep for parts
/// (Google Cloud Storage); also if the server turns out to have no uploads in parts. [`ErrorKind::InvalidInput`] if no
/// request could carry the key or the attributes. Otherwise the errors of the session.
#[derive(Clone, Debug)]
#[must_use = "nothing is opened before the builder is awaited"]
pub struct PartsUploadBuilder {
    context: Context,
    key: String,
    options: WriteOptions,
}

impl PartsUploadBuilder {
    pub(crate) fn new(context: Context, key: String) -> Self {
        Self { context, key, options: WriteOptions::default() }
    }

    /// Fail with [`ErrorKind::AlreadyExists`] if the key has an object, by the store's own condition when the upload is
    /// completed.
    pub fn create_only(mut self) -> Self {
        self.options.create_only = true;
        self
    }

    /// The attributes of the object.
    pub fn attributes(mut self, attributes: Attributes) -> Self {
        self.options.attributes = attributes;
        self
    }

    async fn open(mut self) -> Result<PartsUpload> {
        let Self { context, key, .. } = &self;
        let unsupported = |message: &str| {
            Err(Error::new(ErrorKind::Unsupported, Operation::Open, context.url(key), message))
        };
        context.check(Operation::Open, key, Some(&self.options))?;
        context.refuse_spread(Operation::Open, "uploads in parts")?;
        if !takes_parts_in_any_order(context) {
            return unsupported("the store does not take parts in any order: use a writer");
        }
        if self.options.create_only && !context.capabilities().create_only_parts {
            return unsupported("the store binds no upload in parts to a condition: use a writer");
        }
        self.options.token = Some(self.context.engine().retry.token());
        let progress = self.context.engine().progress.part();
        let upload =
            Upload::new(&self.context.root(), &self.context.full_key(&self.key), self.options, progress);
        let upload = Arc::new(upload.into_session_of(SessionTakes::OnlyParts));
        upload.points.share();
        let mut opening = Opening { upload: Some(upload.clone()) };
        upload.open();
        let session = upload.session().await?;
        let (created, until) = lifetime_from_now(SIX_DAYS);
        let text = PartsUploadText::new(DescribedWrite::of(&upload), session.id, (created, until));
        if !upload.backend.capabilities().aborts {
            let nothing = upload.backend.capabilities().checksum.empty();
            upload.put_record(&text.record_name().key(), Payload::from_memory(Vec::new(), nothing)).await?;
        }
        // Until nothing is awaited any more, a drop aborts: nobody would know the id.
        upload.session_ended().await;
        opening.upload = None;
        Ok(PartsUpload { context: self.context, text, upload })
    }
}

impl IntoFuture for PartsUploadBuilder {
    type Output = Result<PartsUpload>;
    type IntoFuture = BoxFuture<'static, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.open())
    }
}

/// A session that is being opened, and aborted if it is not handed over.
struct Opening {
    upload: Option<Arc<Upload>>,
}

impl Drop for Opening {
    fn drop(&mut self) {
        if let Some(upload) = self.upload.take() {
            drop(upload.discard());
        }
    }
}

/// Whether the store takes a part before the sizes of the parts before it are known.
pub(crate) fn takes_parts_in_any_order(context: &Context) -> bool {
    let backend = context.backend();
    context.keys().is_none() && backend.parts().is_some() && backend.capabilities().parts_in_any_order
}

/// An upload whose parts are put in any order, by any processes at the same time; from
/// [`Store::upload_in_parts`](crate::Store::upload_in_parts), and in another process from its [`id`](Self::id) by
/// [`Store::parts_upload`](crate::Store::parts_upload).
///
/// Each part gives a [`PartReceipt`], which travels as JSON. [`complete`](Self::complete) makes the object of the parts
/// whose receipts it is given; until then nothing is visible. Any number of tasks may use one value. A clone is the same
/// upload.
///
/// # Sizes
/// The first part has the number 1. Most stores take up to 10,000 parts of 5 MiB to 5 GiB; the last part may be smaller.
/// Azure Blob Storage takes 50,000 parts of any size up to 4,000 MiB.
///
/// # Drop and end
/// Dropping it does nothing: the session stays until [`complete`](Self::complete) or [`abandon`](Self::abandon). A
/// [sweep](crate::Store::sweep) ends one that is old enough, by its age alone, as the session of a writer that is gone:
/// choose an age that no upload of yours reaches. Azure Blob Storage aborts no upload. There an object
/// `.tidegate/pending/…` stands for the upload for six days, and then the upload has ended.
#[derive(Clone, Debug)]
pub struct PartsUpload {
    context: Context,
    text: PartsUploadText,
    upload: Arc<Upload>,
}

impl PartsUpload {
    /// The upload with this id; see [`Store::parts_upload`](crate::Store::parts_upload).
    pub(crate) fn of(context: &Context, id: &str) -> Result<Self> {
        let text = PartsUploadText::read(id)?;
        let algorithm = context.capabilities().checksum;
        let upload = text.write.upload(context, &context.root(), algorithm, Operation::Part)?;
        upload.adopt(text.session.clone());
        upload.points.share();
        let upload = Arc::new(upload.into_session_of(SessionTakes::OnlyParts));
        Ok(Self { context: context.clone(), text, upload })
    }

    /// The id by which any process finds the upload: JSON of one line, which later versions read too. It has no
    /// credentials: who uses it needs those of the bucket.
    pub fn id(&self) -> String {
        self.text.to_json()
    }

    /// The key of the object to be, in its store.
    pub fn key(&self) -> String {
        self.context.relative_key(&self.upload.key)
    }

    /// The mark that the object will have, [`Object::token`](crate::Object::token).
    pub fn token(&self) -> &str {
        &self.text.write.token
    }

    /// The progress figures of what is sent by this value.
    pub fn progress(&self) -> Progress {
        self.upload.requests.progress.clone()
    }

    /// Stores a part. Parts are put in any order. A part may be put again: then the bytes that arrive last count, and with
    /// them their receipt; a receipt of the same bytes stays good.
    ///
    /// The bytes count in the engine's memory budget until the store has them: waits, fairly, until they have room. Takes
    /// one request, on Azure Blob Storage two.
    ///
    /// # Cancellation
    /// The part may be there or not. Put it again, or leave it out.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`] for a number that the store does not have, [`ErrorKind::TooLarge`] for more bytes than a
    /// part or the memory budget has: nothing is sent then. [`ErrorKind::SessionLost`] if the upload was completed or
    /// given up, or has ended. [`ErrorKind::Starved`] if no memory came. Otherwise those of a request; the upload goes on.
    pub async fn put_part(&self, number: u32, bytes: impl Into<Bytes>) -> Result<PartReceipt> {
        self.put(number, bytes.into()).await
    }

    async fn put(&self, number: u32, bytes: Bytes) -> Result<PartReceipt> {
        let (upload, size) = (&self.upload, bytes.len() as u64);
        upload.check_owner(Operation::Part)?;
        self.check_part(number, size)?;
        if !upload.backend.capabilities().aborts {
            upload.record(&self.text.record_name(), Operation::Part).await?;
        }
        let waiting = upload.requests.progress.waiting(Waiting::Memory);
        let lease = self.context.engine().budget.lease(size.max(1)).await;
        drop(waiting);
        let lease = lease
            .map_err(|starved| upload.error(ErrorKind::Starved, Operation::Part, starved.to_string()))?;
        let sum = Checksum::of(upload.backend.capabilities().checksum, &bytes);
        let payload = Payload::from_memory(vec![lease.charge(bytes)], sum);
        // In a task of its own, which gives memory and permit back where nobody polls this future.
        let (mut task, sending) = (JoinSet::new(), upload.clone());
        task.spawn_on(
            Box::pin(async move {
                let permit = sending.requests.turn_with(&payload).await;
                sending.part(number, 0..size, payload, Some(permit)).await
            }),
            &upload.runtime,
        );
        let stored = match task.join_next().await {
            Some(Ok(stored)) => stored?,
            Some(Err(ended)) => return Err(upload.ended_early(None, ended)),
            None => return Err(upload.error(ErrorKind::Closed, Operation::Part, "the part was not sent")),
        };
        PartReceipt::new(self.token(), &stored).ok_or_else(|| {
            let message = "the receipt has no checksum of the bytes that were sent";
            upload.error(ErrorKind::Integrity, Operation::Part, message)
        })
    }

    /// Refuses what no request could carry.
    fn check_part(&self, number: u32, size: u64) -> Result<()> {
        let limits = self.context.capabilities();
        if !(1..=limits.max_parts).contains(&number) {
            let message =
                format!("there is no part {number}: parts have the numbers 1 to {}", limits.max_parts);
            return Err(self.upload.error(ErrorKind::InvalidInput, Operation::Part, message));
        }
        let budget = self.context.engine().budget.total();
        let (most, whose) = match limits.max_part <= budget {
            true => (limits.max_part, "a part has"),
            false => (budget, "the memory budget has"),
        };
        if size > most {
            let message = format!("part {number} has {size} bytes, and {whose} {most} at most");
            return Err(self.upload.error(ErrorKind::TooLarge, Operation::Part, message));
        }
        Ok(())
    }

    /// Publishes the object: the parts of these receipts, in the order of their numbers. Other parts that were put are no part
    /// of the object. Begin at 1 and leave out no number: most stores take gaps, but directory buckets of S3 refuse them here,
    /// after all parts were put. When this returns, the whole object is visible: the store has compared its checksum, which is
    /// combined from those of the parts. `create_only` is checked now.
    ///
    /// May be repeated, by several processes and at the same time: the object is there once, and each gets it.
    ///
    /// # Cancellation
    /// The object may be there or not: complete again.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`], with nothing sent, for no receipt, two of one number, one of another upload, and a part
    /// before the last that is too small for the store; and if the upload does not have a part as its receipt says:
    /// the upload stays, and the part can be put again. [`ErrorKind::SessionLost`] if the upload was given up or has ended,
    /// or was completed and the object was removed or replaced since; on Azure also if another writer wrote the key after
    /// the parts were put. [`ErrorKind::AlreadyExists`] for the condition: the upload stays. Otherwise as
    /// [`Writer::finish`](crate::Writer::finish); after [`ErrorKind::Uncertain`] complete again.
    pub async fn complete(&self, receipts: &[PartReceipt]) -> Result<Object> {
        self.upload.check_owner(Operation::Complete)?;
        let (parts, checksum) = self.chosen(receipts)?;
        let bytes = PendingBytes::Parts { id: self.text.session.clone(), parts };
        let write = self.text.write.clone();
        let pending = Pending::new(write, checksum, self.text.life(), bytes, false);
        commit_parts(&self.context, &pending).await
    }

    /// The parts in ascending order, and the checksum of all of them.
    fn chosen(&self, receipts: &[PartReceipt]) -> Result<(Vec<Part>, Checksum)> {
        let (limits, algorithm) = (self.context.capabilities(), self.context.capabilities().checksum);
        let refused =
            |message: String| Err(self.upload.error(ErrorKind::InvalidInput, Operation::Complete, message));
        let mut receipts: Vec<Receipt> = match receipts.iter().find(|receipt| receipt.token() != self.token())
        {
            Some(other) => {
                return refused(format!("the receipt of part {} is of another upload", other.number()));
            }
            None => receipts.iter().map(PartReceipt::of_store).collect(),
        };
        receipts.sort_by_key(|receipt| receipt.number);
        if let Some(two) = receipts.windows(2).find(|two| two[0].number == two[1].number) {
            return refused(format!("there are two receipts of part {}", two[0].number));
        }
        let Some((last, before)) = receipts.split_last() else {
            return refused("an object has at least one part".to_owned());
        };
        if let Some(small) = before.iter().find(|part| part.size < limits.min_part) {
            let Receipt { number, size, .. } = small;
            let least = limits.min_part;
            return refused(format!(
                "part {number} has {size} bytes, and in this store only the last may have less than {least}"
            ));
        }
        let first = before.first().unwrap_or(last).size;
        if limits.equal_parts && (before.iter().any(|part| part.size != first) || last.size > first) {
            return refused("in this store all parts but the last have the same size".to_owned());
        }
        let (mut parts, mut whole) = (Vec::with_capacity(receipts.len()), algorithm.empty());
        for receipt in &receipts {
            let part = Part::new(whole.covers(), receipt);
            let Some(part) = part.filter(|part| part.checksum.algorithm() == algorithm) else {
                return refused(format!(
                    "the receipt of part {} has no checksum {}, which this store is used with",
                    receipt.number,
                    algorithm.name()
                ));
            };
            whole = whole.then(&part.checksum);
            parts.push(part);
        }
        match whole.covers() > limits.max_object {
            true => {
                let message = format!(
                    "the parts have {} bytes together, and an object {} at most",
                    whole.covers(),
                    limits.max_object
                );
                Err(self.upload.error(ErrorKind::TooLarge, Operation::Complete, message))
            }
            false => Ok((parts, whole)),
        }
    }

    /// Gives the upload up: its parts are freed, and every later call of it fails with [`ErrorKind::SessionLost`]. Succeeds
    /// if it was given up before. Azure Blob Storage discards the parts within a week.
    ///
    /// A completion at the same moment, in another process, may still publish: on Azure Blob Storage, and on servers such as
    /// MinIO that show neither upload nor object while they complete.
    ///
    /// # Cancellation
    /// It may be given up or not: abandon it again.
    ///
    /// # Errors
    /// [`ErrorKind::Closed`] if the object was published and is there: it stays.
    pub async fn abandon(&self) -> Result<()> {
        let upload = &self.upload;
        upload.check_owner(Operation::Abort)?;
        match upload.backend.capabilities().aborts {
            true => drop(upload.abort_session().await?),
            false => upload.remove_own(&self.text.record_name().key()).await?,
        }
        let there = upload.head_now().await.map_err(|failure| upload.failed(failure, Operation::Head))?;
        match there.is_some_and(|there| there.token.as_deref() == Some(self.token())) {
            false => Ok(()),
            true => {
                let message = "the object was published before, and is there";
                Err(upload.error(ErrorKind::Closed, Operation::Abort, message))
            }
        }
    }
}
