//! What a store and the engine tell each other.

use std::fmt::{self, Display};
use std::ops::Range;

use bytes::Bytes;
use futures::stream::BoxStream;

use super::Fault;
use crate::types::checksum::{Algorithm, Checksum};
use crate::types::object::{Attributes, Object};

/// What a store can take, as the plan needs to know it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Capabilities {
    /// Smallest part but the last, in bytes.
    pub min_part: u64,
    /// Largest part, in bytes.
    pub max_part: u64,
    /// Most parts of one object.
    pub max_parts: u32,
    /// Largest object, in bytes.
    pub max_object: u64,
    /// Largest object of a single request, in bytes.
    pub max_put: u64,
    /// Whether all parts but the last must have one size (Cloudflare R2).
    pub equal_parts: bool,
    /// Whether a slow part may be sent a second time while the first is in flight: the copy that
    /// arrives last replaces the other as a whole, a completion that names the other one is refused
    /// with [`PartMismatch`](super::FaultKind::PartMismatch), and [`Backend::parts`](super::Backend::parts) tells which
    /// copy there is.
    pub hedge: bool,
    /// Whether a session of parts is published only where the key has no object, if that is asked for.
    pub create_only_parts: bool,
    /// Whether it has sessions that bytes are appended to, each chunk but the last a multiple of so many
    /// bytes. Such a session is published only where the key has no object, if that is asked for.
    pub append: Option<u64>,
    /// Whether a write may depend on which object it [replaces](WriteOptions::replaces).
    pub replaces: bool,
    /// Whether it keeps a write's [token](WriteOptions::token) and attributes with the object. Where not, an object is
    /// known by its bytes and its time, which must be one of this machine's clock.
    pub tokens: bool,
    /// Largest object that it copies itself in one request, in bytes; 0 where it copies none so.
    pub max_copy: u64,
    /// Whether such a copy is made only where the key has no object, if that is asked for.
    pub create_only_copy: bool,
    /// Whether parts of a session may be copied from objects of the store.
    pub copy_parts: bool,
    /// Which checksum to take and send.
    pub checksum: Algorithm,
}

impl Default for Capabilities {
    /// The limits of S3: parts of 5 MiB to 5 GiB, 10,000 of them, objects up to 5 TiB (the limit that
    /// S3's compatibles keep; "Amazon S3 multipart upload limits"); no copies.
    fn default() -> Self {
        const MIB: u64 = 1 << 20;
        Self {
            min_part: 5 * MIB,
            max_part: 5 << 30,
            max_parts: 10_000,
            max_object: 5 << 40,
            max_put: 5 << 30,
            equal_parts: false,
            hedge: false,
            create_only_parts: true,
            append: None,
            replaces: false,
            tokens: true,
            max_copy: 0,
            create_only_copy: false,
            copy_parts: false,
            checksum: Algorithm::Crc64Nvme,
        }
    }
}

/// How an object is to be written.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct WriteOptions {
    /// What it carries beside its bytes.
    pub attributes: Attributes,
    /// Fail with [`Exists`](super::FaultKind::Exists) where the key has an object already, by the store's own condition.
    pub create_only: bool,
    /// Fail with [`Exists`](super::FaultKind::Exists) where the key has another object than this, or none, by the
    /// store's own condition, where [`Capabilities::replaces`] says so.
    pub replaces: Option<Box<Object>>,
    /// A mark unique to this writer. A backend keeps it with the object (S3: metadata
    /// `tidegate-writer`) and gives it back in [`Object::token`], so that a lost answer can be settled.
    pub token: Option<String>,
}

/// A server-side upload that is not finished.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Session {
    /// The key it will become.
    pub key: String,
    /// The store's name for it (S3: upload id).
    pub id: String,
}

/// What a store returns for a part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Receipt {
    /// The part's number, from 1.
    pub number: u32,
    /// Its size in bytes.
    pub size: u64,
    /// The store's tag of it.
    pub etag: String,
    /// Its checksum, taken on this side.
    pub checksum: Checksum,
}

/// A part that a store has.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct StoredPart {
    /// Its number, from 1.
    pub number: u32,
    /// Its size in bytes.
    pub size: u64,
    /// The store's tag of it.
    pub etag: String,
    /// Its checksum in base64, where the store tells it.
    pub checksum: Option<String>,
}

impl StoredPart {
    /// A part without a checksum.
    pub fn new(number: u32, size: u64, etag: impl Into<String>) -> Self {
        Self { number, size, etag: etag.into(), checksum: None }
    }
}

/// Where a session stands that bytes are appended to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Appended {
    /// So many bytes, from the object's first on, are there for good.
    Open(u64),
    /// All are, and the object is published.
    Published(Box<Object>),
}

/// One entry of a listing.
#[expect(
    clippy::large_enum_variant,
    reason = "nearly all entries are objects: boxed, each would cost an allocation"
)]
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Entry {
    /// An object.
    Object(Object),
    /// A prefix that ends with `/`, where the listing was not recursive.
    Prefix(String),
    /// A name in a local directory that is neither: it can be removed, and not read. Only listings of local
    /// directories have these.
    Other {
        /// As of an object.
        key: String,
        /// What has this name.
        kind: OtherKind,
    },
}

impl Entry {
    /// The key, or the prefix.
    pub fn key(&self) -> &str {
        match self {
            Self::Object(object) => &object.key,
            Self::Prefix(key) | Self::Other { key, .. } => key,
        }
    }
}

/// What a local directory has beside files and directories.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum OtherKind {
    /// A symbolic link to a directory. Listings do not enter it.
    LinkToDirectory,
    /// A symbolic link to something that is missing or can't be looked at.
    BrokenLink,
    /// A device, a named pipe or a socket, or a link to one.
    NotRegular,
}

impl Display for OtherKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::LinkToDirectory => "a symbolic link to a directory",
            Self::BrokenLink => "a symbolic link that leads nowhere",
            Self::NotRegular => "no regular file",
        })
    }
}

/// An object's description and its bytes.
pub struct Body {
    /// The description, as the answer's headers gave it; `size` is that of the whole object.
    pub object: Object,
    /// Which bytes of it follow.
    pub range: Range<u64>,
    /// Whether the store ignored the range that it was asked for and sends the whole object, of which `stream` gives
    /// `range`. Empty pieces of the stream stand for bytes that are skipped.
    pub ignored_range: bool,
    /// The bytes. A body that ends early is an error, never a clean end.
    pub stream: BoxStream<'static, Result<Bytes, Fault>>,
}
