//! A pending upload: a value that any process can commit or abandon, and its JSON.

use std::fmt;
use std::time::{Duration, SystemTime};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use serde::{Deserialize, Serialize};

use super::described_write::{DescribedWrite, joined, read_versioned};
use super::resumable::Resumable;
use crate::backend::shown_session_id;
use crate::engine::pending::RecordName;
use crate::journal::{Part, SessionKind, sum};
use crate::types::checksum::Checksum;
use crate::types::date::since_1970;
use crate::types::error::{Error, ErrorKind, Operation, Result};

/// The version of the JSON that this version writes, and the latest that it reads.
const VERSION: u32 = 1;

/// The longest tail that the JSON itself has, in bytes; a longer one is the content of the record.
pub(super) const LONGEST_TAIL: usize = 4 << 10;

/// An upload that is complete and invisible, from [`Writer::prepare`](crate::Writer::prepare).
///
/// Any process with credentials for the bucket can publish it, by [`Store::commit`](crate::Store::commit), or give it
/// up, by [`Store::abandon`](crate::Store::abandon), until its [lifetime](crate::upload::PrepareBuilder::lifetime) ends.
/// It is a value, which travels as [JSON](Self::to_json); dropping it does nothing.
///
/// # Who may read it
/// The JSON has no credentials. But for one of Google's resumable uploads (`create_only` or `replaces` on Google Cloud
/// Storage) it has the address of the upload, and who knows that address can write to the upload without credentials.
/// Keep it where only those can read it who may write the object. `Debug` leaves the address out.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub struct Pending {
    version: u32,
    #[serde(flatten)]
    pub(super) write: DescribedWrite,
    /// When it was prepared, and when it ends, in seconds since 1970.
    pub(super) created: u64,
    until: u64,
    #[serde(with = "sum")]
    pub(super) checksum: Checksum,
    pub(super) bytes: PendingBytes,
    /// Whether points of it were persisted, whose records and tails end with it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) has_points: bool,
    /// Why it may end before its lifetime.
    #[serde(skip)]
    pub(super) warning: Option<String>,
}

/// Where the bytes of a pending upload are.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub(super) enum PendingBytes {
    /// In the parts of a session.
    Parts { id: String, parts: Vec<Part> },
    /// In a session that is appended to; the last bytes follow with the commit.
    Append { id: String, tail: Tail },
    /// In the record: the commit copies it.
    Aside,
}

/// The bytes that a session which is appended to does not have yet.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Tail {
    /// These, in base64.
    Inline(String),
    /// The content of the record, of this many bytes.
    Record(u64),
}

impl Tail {
    pub(super) fn new(bytes: &Bytes) -> Self {
        match bytes.len() {
            0..=LONGEST_TAIL => Self::Inline(STANDARD.encode(bytes)),
            long => Self::Record(long as u64),
        }
    }

    /// How many bytes it has; `None` if it is not base64.
    fn len(&self) -> Option<u64> {
        match self {
            Self::Inline(text) => STANDARD.decode(text).ok().map(|bytes| bytes.len() as u64),
            Self::Record(bytes) => Some(*bytes),
        }
    }

    /// The bytes, if they are here.
    pub(super) fn inline(&self) -> Option<Vec<u8>> {
        match self {
            Self::Inline(text) => STANDARD.decode(text).ok(),
            Self::Record(_) => None,
        }
    }
}

/// An upload that any process can give up, by [`Store::abandon`](crate::Store::abandon).
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Unpublished<'a> {
    /// It is complete, and waits for its commit.
    Pending(&'a Pending),
    /// It has this point, from which it can be continued.
    Resumable(&'a Resumable),
}

impl<'a> From<&'a Pending> for Unpublished<'a> {
    fn from(pending: &'a Pending) -> Self {
        Self::Pending(pending)
    }
}

impl<'a> From<&'a Resumable> for Unpublished<'a> {
    fn from(point: &'a Resumable) -> Self {
        Self::Resumable(point)
    }
}

impl PendingBytes {
    /// The id of the session; empty without one.
    pub(super) fn session(&self) -> &str {
        match self {
            Self::Parts { id, .. } | Self::Append { id, .. } => id,
            Self::Aside => "",
        }
    }

    /// The kind of the session, if there is one.
    pub(super) fn kind(&self) -> Option<SessionKind> {
        match self {
            Self::Parts { .. } => Some(SessionKind::Parts),
            Self::Append { .. } => Some(SessionKind::Append),
            Self::Aside => None,
        }
    }
}

impl Pending {
    /// `until` is in seconds since 1970.
    pub(super) fn new(
        write: DescribedWrite,
        checksum: Checksum,
        (created, until): (u64, u64),
        bytes: PendingBytes,
        has_points: bool,
    ) -> Self {
        Self { version: VERSION, write, created, until, checksum, bytes, has_points, warning: None }
    }

    /// How many bytes its session has.
    pub(super) fn sent(&self) -> u64 {
        let tail = match &self.bytes {
            PendingBytes::Parts { .. } => 0,
            PendingBytes::Append { tail, .. } => tail.len().unwrap_or_default(),
            PendingBytes::Aside => self.size(),
        };
        self.size().saturating_sub(tail)
    }

    pub(super) fn record_name(&self) -> RecordName {
        RecordName::new(self.until, self.bytes.session(), &self.write.token)
    }

    /// The address of the bucket, for [`Tidegate::open`](crate::Tidegate::open): `s3://bucket`.
    pub fn url(&self) -> &str {
        &self.write.url
    }

    /// The endpoint that it was prepared at.
    pub fn endpoint(&self) -> &str {
        &self.write.endpoint
    }

    /// The key of the object to be, in its bucket.
    pub fn key(&self) -> &str {
        &self.write.key
    }

    /// The size of the object to be, in bytes.
    pub fn size(&self) -> u64 {
        self.checksum.covers()
    }

    /// The checksum of all bytes of the object to be.
    pub fn checksum(&self) -> Checksum {
        self.checksum
    }

    /// The mark that the object will have, [`Object::token`](crate::Object::token).
    pub fn token(&self) -> &str {
        &self.write.token
    }

    /// When its lifetime ends: sweeps leave it alone until then.
    pub fn until(&self) -> SystemTime {
        since_1970(self.until)
    }

    /// Why the store may end it before its lifetime, in one sentence; known only to the process that prepared it.
    pub fn warning(&self) -> Option<&str> {
        self.warning.as_deref()
    }

    /// As JSON, of one line, which later versions read too.
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    /// Reads the JSON of [`to_json`](Self::to_json).
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`] if it is no pending upload, or one of a later version of Tidegate. The message shows
    /// nothing of the text.
    pub fn from_json(json: &str) -> Result<Self> {
        let pending: Self = read_versioned(json, "pending upload", Operation::Complete, VERSION)?;
        pending.check().map_err(|what| {
            Error::new(ErrorKind::InvalidInput, Operation::Complete, "a pending upload", what)
        })?;
        Ok(pending)
    }

    /// Fails if its members contradict each other: the text may come from anywhere.
    fn check(&self) -> Result<(), &'static str> {
        let whole = match &self.bytes {
            PendingBytes::Parts { parts, .. } => {
                let Some(whole) = joined(parts, self.checksum.algorithm()).filter(|_| !parts.is_empty())
                else {
                    return Err("its parts do not follow each other");
                };
                whole == self.checksum
            }
            PendingBytes::Append { tail, .. } => tail.len().is_some_and(|len| len <= self.size()),
            PendingBytes::Aside => true,
        };
        if !whole {
            return Err("its parts are not the whole object that its checksum is of");
        }
        self.write.check()
    }
}

impl fmt::Debug for Pending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pending")
            .field("url", &self.write.url)
            .field("key", &self.write.key)
            .field("checksum", &self.checksum)
            .field("token", &self.write.token)
            .field("until", &self.until())
            .field("session", &shown_session_id(self.bytes.session()))
            .finish_non_exhaustive()
    }
}

/// The seconds since 1970 of now, and of `lifetime` later.
pub(super) fn lifetime_from_now(lifetime: Duration) -> (u64, u64) {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs();
    (now, now.saturating_add(lifetime.as_secs().max(1)))
}
