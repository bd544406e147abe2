//! A point of an upload: a value from which any process can continue the upload, and its JSON.

use std::fmt;
use std::time::{Duration, SystemTime};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use serde::{Deserialize, Serialize};

use super::described_write::{DescribedWrite, joined, read_versioned};
use super::pending::LONGEST_TAIL;
use super::plan::Cut;
use super::prepare::SIX_DAYS;
use crate::engine::pending::tail_key;
use crate::journal::{JournaledSession, Part, SessionKind, sum};
use crate::types::checksum::Checksum;
use crate::types::date::since_1970;
use crate::types::error::{Error, ErrorKind, Operation, Result};

/// The version of the JSON that this version writes, and the latest that it reads.
const VERSION: u32 = 1;

/// A point of an upload, from [`Writer::persist`](crate::Writer::persist): all bytes up to it are at the store, and any
/// process with credentials for the bucket can continue the upload from there, by
/// [`Store::resume`](crate::Store::resume), until the [lifetime](crate::upload::PersistBuilder::lifetime) ends.
/// [`Store::abandon`](crate::Store::abandon) gives the upload up.
///
/// It is a value, which travels as [JSON](Self::to_json); dropping it does nothing.
///
/// # Who may read it
/// The JSON has no credentials, but it has up to 4 KiB of the object's bytes. And for one of Google's resumable uploads
/// (`create_only`, `replaces` or the strategy `chunked` on Google Cloud Storage) it has the address of the upload, and who
/// knows that address can write to the upload without credentials. Keep it where only those can read it who may read and
/// write the object. `Debug` leaves both out.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub struct Resumable {
    version: u32,
    #[serde(flatten)]
    pub(super) write: DescribedWrite,
    /// When the upload's first point was persisted, and when the lifetime of this one ends, in seconds since 1970.
    pub(super) created: u64,
    pub(super) until: u64,
    /// The lifetime that was asked for, in seconds: a process that continues renews it. None in points of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    lifetime: Option<u64>,
    /// Of all bytes up to the point.
    #[serde(with = "sum")]
    pub(super) checksum: Checksum,
    /// How the bytes are cut.
    pub(super) cut: Cut,
    /// The session that has the parts; `None` where the store has no sessions.
    pub(super) session: Option<JournaledSession>,
    /// What the session has; of a session that is appended to, all of it is one part.
    pub(super) parts: Vec<Part>,
    pub(super) tail: PointTail,
    /// Why it may end before its lifetime.
    #[serde(skip)]
    pub(super) warning: Option<String>,
}

/// The bytes before the point that the session does not have.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum PointTail {
    /// These, in base64.
    Inline(String),
    /// The content of an object.
    Object { number: String, size: u64 },
}

impl PointTail {
    /// The tail that goes into the JSON itself; `None` if it is too long.
    pub(super) fn inline(bytes: &[u8]) -> Option<Self> {
        (bytes.len() <= LONGEST_TAIL).then(|| Self::Inline(STANDARD.encode(bytes)))
    }

    /// The bytes, if they are here.
    pub(super) fn bytes(&self) -> Option<Bytes> {
        match self {
            Self::Inline(text) => STANDARD.decode(text).ok().map(Bytes::from),
            Self::Object { .. } => None,
        }
    }

    fn size(&self) -> Option<u64> {
        match self {
            Self::Inline(_) => self.bytes().map(|bytes| bytes.len() as u64),
            // The text may come from anywhere, and names an object here.
            Self::Object { number, size } => {
                let is_number = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_hexdigit());
                is_number.then_some(*size)
            }
        }
    }
}

impl Resumable {
    #[expect(clippy::too_many_arguments, reason = "one caller, which has each of them from another place")]
    pub(super) fn new(
        write: DescribedWrite,
        (created, until): (u64, u64),
        lifetime: Duration,
        checksum: Checksum,
        cut: Cut,
        session: Option<JournaledSession>,
        parts: Vec<Part>,
        tail: PointTail,
        warning: Option<String>,
    ) -> Self {
        let lifetime = Some(lifetime.as_secs());
        Self {
            version: VERSION,
            write,
            created,
            until,
            lifetime,
            checksum,
            cut,
            session,
            parts,
            tail,
            warning,
        }
    }

    /// For how long a process that continues has the upload spared.
    pub(super) fn lifetime(&self) -> Duration {
        self.lifetime.map_or(SIX_DAYS, Duration::from_secs)
    }

    /// The address of the bucket, for [`Tidegate::open`](crate::Tidegate::open): `s3://bucket`.
    pub fn url(&self) -> &str {
        &self.write.url
    }

    /// The endpoint that the upload was begun at.
    pub fn endpoint(&self) -> &str {
        &self.write.endpoint
    }

    /// The key of the object to be, in its bucket.
    pub fn key(&self) -> &str {
        &self.write.key
    }

    /// How many bytes of the object come before the point: where its producer goes on.
    pub fn size(&self) -> u64 {
        self.checksum.covers()
    }

    /// The checksum of the bytes before the point.
    pub fn checksum(&self) -> Checksum {
        self.checksum
    }

    /// The mark that the object will have, [`Object::token`](crate::Object::token).
    pub fn token(&self) -> &str {
        &self.write.token
    }

    /// When its lifetime ends: sweeps leave the upload alone until then. A process that continues from the point renews the
    /// lifetime, which this does not show.
    pub fn until(&self) -> SystemTime {
        since_1970(self.until)
    }

    /// Why the store may end it before its lifetime, in one sentence; known only to the process that persisted it.
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
    /// [`ErrorKind::InvalidInput`] if it is no point of an upload, or one of a later version of Tidegate. The message shows
    /// nothing of the text.
    pub fn from_json(json: &str) -> Result<Self> {
        let point: Self = read_versioned(json, "point of an upload", Operation::Write, VERSION)?;
        point.check().map_err(|what| {
            Error::new(ErrorKind::InvalidInput, Operation::Write, "a point of an upload", what)
        })?;
        Ok(point)
    }

    /// The key of the tail, if the tail is an object.
    pub(super) fn tail_key(&self) -> Option<String> {
        match &self.tail {
            PointTail::Inline(_) => None,
            PointTail::Object { number, .. } => Some(tail_key(&self.write.token, number)),
        }
    }

    /// How many bytes the session has.
    pub(super) fn sent(&self) -> u64 {
        self.parts.last().map_or(0, |part| part.offset + part.size)
    }

    pub(super) fn is_appended(&self) -> bool {
        self.session.as_ref().is_some_and(|session| session.kind == SessionKind::Append)
    }

    /// Fails if its members contradict each other: the text may come from anywhere.
    fn check(&self) -> Result<(), &'static str> {
        let Some(sent) = joined(&self.parts, self.checksum.algorithm()) else {
            return Err("its parts do not follow each other");
        };
        if self.tail.size().and_then(|tail| sent.covers().checked_add(tail)) != Some(self.size()) {
            return Err("its parts and its tail are not the bytes before the point");
        }
        // A tail that is an object is compared when `resume` reads it.
        let tail = self.tail.bytes().map(|tail| Checksum::of(self.checksum.algorithm(), &tail));
        if tail.is_some_and(|tail| sent.then(&tail) != self.checksum) {
            return Err("its checksum is not that of its parts and its tail");
        }
        if self.session.is_none() && !self.parts.is_empty() {
            return Err("it has parts and no session");
        }
        if self.session.is_some() && self.cut.schedule().is_none() {
            return Err("it has a session, and is cut into one request");
        }
        if self.cut.schedule().is_some_and(|schedule| !schedule.is_sound()) {
            return Err("it is cut into parts as no store takes them");
        }
        if self.session.is_some() && self.is_appended() != self.cut.appends() {
            return Err("its session is of another kind than it is cut for");
        }
        self.write.check()
    }
}

impl fmt::Debug for Resumable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Resumable")
            .field("url", &self.write.url)
            .field("key", &self.write.key)
            .field("checksum", &self.checksum)
            .field("token", &self.write.token)
            .field("until", &self.until())
            .field("session", &self.session)
            .finish_non_exhaustive()
    }
}
