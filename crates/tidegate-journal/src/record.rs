//! The records of a journal, and the state of the upload that they add up to.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use tidegate_core::backend::{Receipt, shown_session_id};
use tidegate_core::types::checksum::Checksum;

/// Describes an upload: the first record of its journal.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Header {
    /// The upload's own id, which also names the file: letters, digits, `-` and `_`.
    pub upload: String,
    /// Where the object goes, without its key: `s3://bucket`.
    pub url: String,
    /// The object's key.
    pub key: String,
    /// The checksum of no bytes, in the algorithm that is used for the object.
    #[serde(with = "sum")]
    pub checksum: Checksum,
    /// When the upload was begun, in seconds since 1970.
    pub created: u64,
    /// Options of the upload, for the process that resumes it; the journal does not interpret them.
    #[serde(default)]
    pub options: serde_json::Value,
}

/// How a session takes bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SessionKind {
    /// Numbered parts, in any order.
    Parts,
    /// Bytes at its end only.
    Append,
}

/// The server-side upload that the bytes go to.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JournaledSession {
    /// How it takes bytes.
    pub kind: SessionKind,
    /// The store's name for it.
    pub id: String,
}

impl fmt::Debug for JournaledSession {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let id = shown_session_id(&self.id);
        f.debug_struct("JournaledSession").field("kind", &self.kind).field("id", &id).finish()
    }
}

/// A part that the store has acknowledged.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Part {
    /// Its number, from 1.
    pub number: u32,
    /// Its first byte's offset in the object.
    pub offset: u64,
    /// Its size in bytes.
    pub size: u64,
    /// The store's tag of it.
    pub etag: String,
    /// Its checksum.
    #[serde(with = "sum")]
    pub checksum: Checksum,
}

impl Part {
    /// The part at `offset` that the store gave `receipt` for; `None` if it was not sent from here.
    pub fn new(offset: u64, receipt: &Receipt) -> Option<Self> {
        let Receipt { number, size, etag, checksum } = receipt.clone();
        checksum.map(|checksum| Self { number, offset, size, etag, checksum })
    }

    /// The store's receipt for this part.
    pub fn receipt(&self) -> Receipt {
        let Self { number, size, etag, checksum, .. } = self.clone();
        Receipt { number, size, etag, checksum: Some(checksum) }
    }
}

/// How an upload ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum End {
    /// The object was published.
    Completed,
    /// The upload was aborted. Its session has ended, unless the upload was forgotten (`LeftUpload::forget` of `tidegate`).
    Aborted,
}

/// A record. In the file it is JSON: an object with one member, whose name says which record it is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Record {
    Header(Header),
    Session(JournaledSession),
    Part(Part),
    /// The store has acknowledged all bytes below this offset.
    Committed(u64),
    /// No byte follows: the whole object's checksum, which includes its size.
    #[serde(with = "sum")]
    Finish(Checksum),
    End(End),
    /// The state that all records so far add up to.
    Checkpoint(Box<JournalState>),
}

/// Everything that a journal knows about its upload, except the bytes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct JournalState {
    /// Describes the upload.
    pub header: Header,
    /// The session, once a session was opened; the latest, if one was lost and another opened.
    pub session: Option<JournaledSession>,
    /// The parts that this session has acknowledged, by number.
    #[serde(with = "listed")]
    pub parts: BTreeMap<u32, Part>,
    /// The session has acknowledged all bytes below this offset.
    pub committed: u64,
    /// The whole object's checksum and size, once its producer has finished.
    #[serde(with = "sum::option")]
    pub finish: Option<Checksum>,
    /// How the upload ended, if it has.
    pub end: Option<End>,
}

impl JournalState {
    pub(super) fn new(header: Header) -> Self {
        Self { header, session: None, parts: BTreeMap::new(), committed: 0, finish: None, end: None }
    }

    /// The state after `record`, given the state before. An error says why the record can't follow.
    pub(super) fn after(before: Option<Self>, record: Record) -> Result<Self, &'static str> {
        match (before, record) {
            (None, Record::Header(header)) => Ok(Self::new(header)),
            (_, Record::Checkpoint(state)) => Ok(*state),
            (Some(_), Record::Header(_)) => Err("it has a second header"),
            (None, _) => Err("it has no header"),
            (Some(mut state), record) => {
                state.apply(record);
                Ok(state)
            }
        }
    }

    /// Applies the next record.
    pub(super) fn apply(&mut self, record: Record) {
        match record {
            Record::Header(header) => self.header = header,
            // Parts and bytes that another session had are not in this one.
            Record::Session(session) => {
                self.session = Some(session);
                self.parts.clear();
                self.committed = 0;
            }
            Record::Part(part) => {
                self.parts.insert(part.number, part);
            }
            Record::Committed(offset) => self.committed = self.committed.max(offset),
            Record::Finish(checksum) => self.finish = Some(checksum),
            Record::End(end) => self.end = Some(end),
            Record::Checkpoint(state) => *self = *state,
        }
    }
}

/// A checksum as JSON: its algorithm, its value in hexadecimal (JSON numbers are not exact beyond 2^53 everywhere)
/// and how many bytes it covers.
pub mod sum {
    use serde::de::Error as _;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    use tidegate_core::types::checksum::Checksum;
    use tidegate_core::types::unknown_name::UnknownName;

    #[derive(Serialize, Deserialize)]
    struct Sum {
        algorithm: String,
        value: String,
        covers: u64,
    }

    impl Sum {
        fn of(checksum: &Checksum) -> Self {
            Self {
                algorithm: checksum.algorithm().name().to_owned(),
                value: format!("{:016x}", checksum.value()),
                covers: checksum.covers(),
            }
        }

        fn checksum(&self) -> Result<Checksum, String> {
            let value = u64::from_str_radix(&self.value, 16).map_err(|error| error.to_string())?;
            let algorithm = self.algorithm.parse().map_err(|unknown: UnknownName| unknown.to_string())?;
            Ok(Checksum::known(algorithm, value, self.covers))
        }
    }

    /// Writes a checksum with its algorithm and what it covers.
    pub fn serialize<S: Serializer>(checksum: &Checksum, to: S) -> Result<S::Ok, S::Error> {
        Sum::of(checksum).serialize(to)
    }

    /// Reads what [`serialize`] has written.
    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Checksum, D::Error> {
        Sum::deserialize(from)?.checksum().map_err(D::Error::custom)
    }

    pub(super) mod option {
        use super::*;

        #[expect(clippy::ref_option, reason = "the signature is serde's")]
        pub(in super::super) fn serialize<S: Serializer>(
            checksum: &Option<Checksum>,
            to: S,
        ) -> Result<S::Ok, S::Error> {
            checksum.as_ref().map(Sum::of).serialize(to)
        }

        pub(in super::super) fn deserialize<'de, D: Deserializer<'de>>(
            from: D,
        ) -> Result<Option<Checksum>, D::Error> {
            let sum = Option::<Sum>::deserialize(from)?;
            sum.map(|sum| sum.checksum()).transpose().map_err(D::Error::custom)
        }
    }
}

/// Parts as a list: each part contains its number, which is the key in memory.
mod listed {
    use std::collections::BTreeMap;

    use serde::de::Error as _;
    use serde::{Deserialize, Deserializer, Serializer};

    use super::Part;

    pub(super) fn serialize<S: Serializer>(parts: &BTreeMap<u32, Part>, to: S) -> Result<S::Ok, S::Error> {
        to.collect_seq(parts.values())
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<BTreeMap<u32, Part>, D::Error> {
        let listed = Vec::<Part>::deserialize(from)?;
        let count = listed.len();
        let parts: BTreeMap<_, _> = listed.into_iter().map(|part| (part.number, part)).collect();
        if parts.len() < count { Err(D::Error::custom("two parts have one number")) } else { Ok(parts) }
    }
}
