//! The texts of an upload in parts: its id, and the receipts of its parts.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::backend::{Receipt, shown_session_id};
use crate::engine::pending::RecordName;
use crate::journal::sum;
use crate::types::checksum::Checksum;
use crate::types::error::{Error, ErrorKind, Operation, Result};
use crate::upload::described_write::{DescribedWrite, read_versioned};

/// The version of the JSON that this version writes, and the latest that it reads.
const VERSION: u32 = 1;

/// What the id of an upload in parts says.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct PartsUploadText {
    version: u32,
    #[serde(flatten)]
    pub(super) write: DescribedWrite,
    /// The store's id of the session.
    pub(super) session: String,
    /// When it was opened, and when its record ends, in seconds since 1970.
    created: u64,
    until: u64,
}

impl PartsUploadText {
    pub(super) fn new(write: DescribedWrite, session: String, (created, until): (u64, u64)) -> Self {
        Self { version: VERSION, write, session, created, until }
    }

    pub(super) fn life(&self) -> (u64, u64) {
        (self.created, self.until)
    }

    pub(super) fn record_name(&self) -> RecordName {
        RecordName::new(self.until, &self.session, &self.write.token)
    }

    pub(super) fn to_json(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    pub(super) fn read(json: &str) -> Result<Self> {
        let read: Self = read_versioned(json, "upload in parts", Operation::Part, VERSION)?;
        let checked = match read.session.is_empty() {
            true => Err("it has no session"),
            false => read.write.check(),
        };
        checked.map_err(|what| {
            Error::new(ErrorKind::InvalidInput, Operation::Part, "an upload in parts", what)
        })?;
        Ok(read)
    }
}

impl fmt::Debug for PartsUploadText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PartsUploadText")
            .field("url", &self.write.url)
            .field("key", &self.write.key)
            .field("token", &self.write.token)
            .field("session", &shown_session_id(&self.session))
            .finish_non_exhaustive()
    }
}

/// What an upload has of one of its parts; from [`PartsUpload::put_part`](super::PartsUpload::put_part). It is a value,
/// which travels as [JSON](Self::to_json).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PartReceipt {
    version: u32,
    /// The writer token of its upload.
    token: String,
    number: u32,
    etag: String,
    #[serde(with = "sum")]
    checksum: Checksum,
}

impl PartReceipt {
    /// `None` if the store's receipt has no checksum.
    pub(super) fn new(token: &str, receipt: &Receipt) -> Option<Self> {
        let Receipt { number, size, etag, checksum } = receipt.clone();
        let checksum = checksum.filter(|checksum| checksum.covers() == size)?;
        Some(Self { version: VERSION, token: token.to_owned(), number, etag, checksum })
    }

    pub(super) fn of_store(&self) -> Receipt {
        let Self { number, etag, checksum, .. } = self.clone();
        Receipt { number, size: checksum.covers(), etag, checksum: Some(checksum) }
    }

    pub(super) fn token(&self) -> &str {
        &self.token
    }

    /// The number of the part, from 1.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// The size of the part, in bytes.
    pub fn size(&self) -> u64 {
        self.checksum.covers()
    }

    /// The checksum of the bytes of the part.
    pub fn checksum(&self) -> Checksum {
        self.checksum
    }

    /// As JSON, of one line, which later versions read too.
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    /// Reads the JSON of [`to_json`](Self::to_json).
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`] if it is no receipt of a part, or one of a later version of Tidegate. The message shows
    /// nothing of the text.
    pub fn from_json(json: &str) -> Result<Self> {
        let read: Self = read_versioned(json, "receipt of a part", Operation::Part, VERSION)?;
        match read.number == 0 || read.token.is_empty() {
            false => Ok(read),
            true => {
                let message = "it has no number or no upload";
                Err(Error::new(ErrorKind::InvalidInput, Operation::Part, "a receipt of a part", message))
            }
        }
    }
}
