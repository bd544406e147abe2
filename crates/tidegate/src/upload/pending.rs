//! A pending upload: a value that any process can commit or abandon, and its JSON.

use std::fmt;
use std::time::{Duration, SystemTime};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::backend::{WriteOptions, shown_session_id};
use crate::engine::pending::RecordName;
use crate::journal::{Part, sum};
use crate::types::checksum::Checksum;
use crate::types::date::since_1970;
use crate::types::error::{Error, ErrorKind, Operation, Result};
use crate::types::object::{Attributes, Object};

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
    /// Where the bucket is: `s3://bucket`.
    url: String,
    /// At which endpoint it was prepared, for messages: another machine may reach the bucket by another address.
    endpoint: String,
    pub(super) key: String,
    pub(super) token: String,
    /// When it was prepared, and when it ends, in seconds since 1970.
    pub(super) created: u64,
    until: u64,
    #[serde(with = "sum")]
    pub(super) checksum: Checksum,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    create_only: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    replaces: Option<ReplacedObject>,
    #[serde(default)]
    attributes: Attributes,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) preserve: bool,
    pub(super) bytes: PendingBytes,
    /// Why it may end before its lifetime.
    #[serde(skip)]
    pub(super) warning: Option<String>,
}

/// The object that is to be replaced, as far as stores compare it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct ReplacedObject {
    etag: Option<String>,
    version: Option<String>,
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

impl PendingBytes {
    /// The id of the session; empty without one.
    pub(super) fn session(&self) -> &str {
        match self {
            Self::Parts { id, .. } | Self::Append { id, .. } => id,
            Self::Aside => "",
        }
    }
}

impl Pending {
    /// `until` is in seconds since 1970.
    pub(super) fn new(
        (url, endpoint): (String, String),
        key: &str,
        options: &WriteOptions,
        checksum: Checksum,
        (created, until): (u64, u64),
        bytes: PendingBytes,
    ) -> Self {
        let replaced =
            |object: &Object| ReplacedObject { etag: object.etag.clone(), version: object.version.clone() };
        Self {
            version: VERSION,
            url,
            endpoint,
            key: key.to_owned(),
            token: options.token.clone().unwrap_or_default(),
            created,
            until,
            checksum,
            create_only: options.create_only,
            replaces: options.replaces.as_deref().map(replaced),
            attributes: options.attributes.clone(),
            preserve: options.preserve,
            bytes,
            warning: None,
        }
    }

    /// The options of the write that the commit completes.
    pub(super) fn options(&self) -> WriteOptions {
        let replaced = |replaced: &ReplacedObject| {
            let ReplacedObject { etag, version } = replaced.clone();
            Box::new(Object { etag, version, size_is_unknown: true, ..Object::default() })
        };
        WriteOptions {
            attributes: self.attributes.clone(),
            create_only: self.create_only,
            replaces: self.replaces.as_ref().map(replaced),
            token: Some(self.token.clone()),
            preserve: self.preserve,
        }
    }

    pub(super) fn record_name(&self) -> RecordName {
        RecordName::new(self.until, self.bytes.session(), &self.token)
    }

    /// The address of the bucket, for [`Tidegate::open`](crate::Tidegate::open): `s3://bucket`.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The endpoint that it was prepared at.
    pub fn endpoint(&self) -> &str {
        &self.endpoint
    }

    /// The key of the object to be, in its bucket.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// The size of the object to be, in bytes.
    pub fn size(&self) -> u64 {
        self.checksum.covers()
    }

    /// The checksum of all bytes of the object to be.
    pub fn checksum(&self) -> Checksum {
        self.checksum
    }

    /// The mark that the object will have, [`Object::token`].
    pub fn token(&self) -> &str {
        &self.token
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
        let refused = |message: String| {
            Error::new(ErrorKind::InvalidInput, Operation::Complete, "a pending upload", message)
        };
        #[derive(Deserialize)]
        struct Versioned {
            version: u32,
        }
        // serde's messages may quote the text, and the text may have an address that is a secret.
        let place = |error: serde_json::Error| format!("line {}, column {}", error.line(), error.column());
        let versioned: Versioned = serde_json::from_str(json)
            .map_err(|error| refused(format!("the text is no pending upload ({})", place(error))))?;
        if versioned.version > VERSION {
            let message = format!(
                "it was written by a later version of Tidegate (format {}, and this version reads up to {VERSION})",
                versioned.version
            );
            return Err(refused(message));
        }
        let pending: Self = serde_json::from_str(json)
            .map_err(|error| refused(format!("the text is no whole pending upload ({})", place(error))))?;
        pending.check().map_err(|what| refused(what.to_owned()))?;
        Ok(pending)
    }

    /// Fails if its members contradict each other: the text may come from anywhere.
    fn check(&self) -> Result<(), &'static str> {
        let whole = match &self.bytes {
            PendingBytes::Parts { parts, .. } => {
                let mut end = 0_u64;
                let follow = parts.iter().zip(1..).all(|(part, number)| {
                    let follows = part.number == number
                        && part.offset == end
                        && part.checksum.covers() == part.size
                        && part.checksum.algorithm() == self.checksum.algorithm();
                    end = end.saturating_add(part.size);
                    follows
                });
                if !follow || parts.is_empty() {
                    return Err("its parts do not follow each other");
                }
                let sums = parts.iter().map(|part| part.checksum);
                sums.reduce(|sum, next| sum.then(&next)) == Some(self.checksum)
            }
            PendingBytes::Append { tail, .. } => tail.len().is_some_and(|len| len <= self.size()),
            PendingBytes::Aside => true,
        };
        if !whole {
            return Err("its parts are not the whole object that its checksum is of");
        }
        if self.token.is_empty() || self.key.is_empty() {
            return Err("it has no key or no token");
        }
        Ok(())
    }
}

impl fmt::Debug for Pending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pending")
            .field("url", &self.url)
            .field("key", &self.key)
            .field("checksum", &self.checksum)
            .field("token", &self.token)
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
