//! The types that the engine and a backend exchange: limits, options, sessions, parts, listings and bodies.

use std::borrow::Cow;
use std::fmt::{self, Display};
use std::ops::Range;

use bytes::Bytes;
use futures::stream::BoxStream;

use super::Fault;
use crate::types::checksum::{Algorithm, Checksum};
use crate::types::object::{Attributes, Object};

/// The limits and features of a store, which the upload plan follows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Capabilities {
    /// Smallest part, in bytes; the last part may be smaller.
    pub min_part: u64,
    /// Largest part, in bytes.
    pub max_part: u64,
    /// Most parts in one object.
    pub max_parts: u32,
    /// Largest object, in bytes.
    pub max_object: u64,
    /// Largest object that one request may write, in bytes.
    pub max_put: u64,
    /// Whether all parts must have the same size, the last excepted (Cloudflare R2).
    pub equal_parts: bool,
    /// Whether a slow part may be sent a second time while the first is in flight. Such a store keeps the copy that
    /// arrives last, as a whole; it refuses a completion that names the other copy with
    /// [`PartMismatch`](super::FaultKind::PartMismatch); and [`Parts::stored_parts`](super::Parts::stored_parts) says
    /// which copy it has. Or it keeps each copy with other bytes under a tag of its own, so that a completion always
    /// publishes the copies that it names.
    pub hedge: bool,
    /// Whether completing a session of parts can be bound to the condition that the key has no object.
    pub create_only_parts: bool,
    /// Whether a part can be stored before it is known how many bytes come before it in the object. If not, the store
    /// writes each part to its place.
    pub parts_in_any_order: bool,
    /// Every [append](super::Append) but the last must be a multiple of this many bytes; `None` if nothing is
    /// appended. Completing such a session can be bound to the condition that the key has no object.
    pub append: Option<u64>,
    /// Whether a write can be bound to the condition which object it [replaces](WriteOptions::replaces).
    pub replaces: bool,
    /// Whether the store keeps a write's [token](WriteOptions::token) and attributes with the object. If not,
    /// Tidegate recognizes its own object by the bytes and the time, so the store must use this machine's clock.
    pub tokens: bool,
    /// Whether aborting a session ends it at the store: then no part can be added, and a completion that is still on
    /// its way can publish nothing. Azure Blob Storage has no sessions: its blocks belong to the key, another writer's
    /// commit discards them, and else they expire. There an abort sends nothing, and an open session without parts is
    /// nowhere to be seen.
    pub aborts: bool,
    /// Largest object that [a copy in one request](super::ServerCopy) may have, in bytes.
    pub max_copy: u64,
    /// Whether such a copy can be bound to the condition that the key has no object.
    pub create_only_copy: bool,
    /// Whether such a copy can have other content headers (type, encoding, language, disposition, cache control) than
    /// its source. If not, a copy with others fails with [`Unsupported`](super::FaultKind::Unsupported).
    pub copy_headers: bool,
    /// Whether parts of a session can be copied from objects of the store.
    pub copy_parts: bool,
    /// Whether [`list`](super::Backend::list) gives keys in the ascending order of their bytes (`a-b` before `a/b`).
    /// Comparisons of trees sort the listings of other stores.
    pub lists_in_key_order: bool,
    /// Whether the store is known to keep empty names in keys, as in `a//b`.
    pub keeps_empty_names: bool,
    /// The checksum that is computed and sent.
    pub checksum: Algorithm,
    /// Whether the answer with an object's bytes also has the object's user metadata. If not, describing the object
    /// (`head`) returns it.
    pub metadata_with_bytes: bool,
}

impl Default for Capabilities {
    /// The limits of S3: parts of 5 MiB to 5 GiB, at most 10,000 of them, objects up to 5 TiB (the limit that
    /// S3-compatible stores keep; "Amazon S3 multipart upload limits"). No copies.
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
            parts_in_any_order: true,
            append: None,
            replaces: false,
            tokens: true,
            aborts: true,
            max_copy: 0,
            create_only_copy: false,
            copy_headers: true,
            copy_parts: false,
            lists_in_key_order: true,
            keeps_empty_names: false,
            checksum: Algorithm::Crc64Nvme,
            metadata_with_bytes: true,
        }
    }
}

/// Options of a write.
#[derive(Clone, Debug, Default)]
pub struct WriteOptions {
    /// The attributes that the object carries beside its bytes.
    pub attributes: Attributes,
    /// Fail with [`Exists`](super::FaultKind::Exists) if the key already has an object, by the store's own condition.
    pub create_only: bool,
    /// Fail with [`Exists`](super::FaultKind::Exists) unless the key has this object, by the store's own condition.
    /// Only if [`Capabilities::replaces`] is set.
    pub replaces: Option<Box<Object>>,
    /// A mark unique to this writer. A backend stores it with the object (S3: metadata `tidegate-writer`) and returns
    /// it in [`Object::token`]; so a lost answer to a commit can be settled.
    pub token: Option<String>,
    /// Whether a store that keeps files gives this one the modification time and the permissions that the metadata of
    /// `attributes` has, see [`FileAttributes`](crate::types::object::FileAttributes). Other stores keep the metadata itself.
    pub preserve: bool,
}

/// An unfinished server-side upload. Its `Debug` leaves out an id that lets everyone write who knows it.
#[derive(Clone, PartialEq, Eq)]
pub struct Session {
    /// The key of the object to be.
    pub key: String,
    /// The store's id of the session (S3: upload id).
    pub id: String,
}

impl Session {
    /// The id as messages show it. The address of one of Google's resumable uploads is left out but for its beginning:
    /// who knows the address can write to the upload without credentials.
    pub fn shown_id(&self) -> &str {
        shown_session_id(&self.id)
    }

    /// A name of the session that tells it from others and that everyone may see: the id, or in place of an id that is a
    /// secret a checksum of it.
    ///
    /// ```
    /// use tidegate::backend::Session;
    ///
    /// let session = |id: &str| Session { key: "k".to_owned(), id: id.to_owned() };
    /// assert_eq!(session("2~abc").public_id(), "2~abc");
    /// let resumable = session("https://storage.googleapis.com/upload?upload_id=SECRET");
    /// let name = resumable.public_id();
    /// assert!(name.starts_with("secret-") && !name.contains("SECRET"));
    /// ```
    pub fn public_id(&self) -> Cow<'_, str> {
        if self.shown_id() == self.id {
            return Cow::Borrowed(&self.id);
        }
        let sum = Checksum::of(Algorithm::Crc64Nvme, self.id.as_bytes()).value();
        Cow::Owned(format!("secret-{sum:016x}"))
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session").field("key", &self.key).field("id", &self.shown_id()).finish()
    }
}

/// See [`Session::shown_id`].
pub fn shown_session_id(id: &str) -> &str {
    if id.contains("://") {
        "(a secret address)"
    } else if id.starts_with("grpc:") {
        "grpc:(secret)"
    } else {
        id
    }
}

/// The receipt for a stored part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Receipt {
    /// The part's number, from 1.
    pub number: u32,
    /// Its size in bytes.
    pub size: u64,
    /// The store's ETag of the part.
    pub etag: String,
    /// The part's checksum, computed on this machine; `None` for a part that the store copied.
    pub checksum: Option<Checksum>,
}

/// A part that the store lists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredPart {
    /// Its number, from 1.
    pub number: u32,
    /// Its size in bytes.
    pub size: u64,
    /// The store's ETag of the part.
    pub etag: String,
    /// Its checksum in base64, if the store gives one.
    pub checksum: Option<String>,
}

impl StoredPart {
    /// A part without a checksum.
    pub fn new(number: u32, size: u64, etag: impl Into<String>) -> Self {
        Self { number, size, etag: etag.into(), checksum: None }
    }
}

/// The state of a session that takes appended bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Appended {
    /// The session's position: this many bytes, from the object's first on, are committed.
    Open(u64),
    /// All bytes are committed, and the object is published.
    Published(Box<Object>),
}

/// One entry of a listing.
#[expect(
    clippy::large_enum_variant,
    reason = "nearly all entries are objects: boxed, each would cost an allocation"
)]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Entry {
    /// An object.
    Object(Object),
    /// A prefix that ends with `/`; only in listings that are not recursive.
    Prefix(String),
    /// A name that is no object: in a local directory neither a file nor a directory, in Azure Blob Storage a directory
    /// that has a name of its own. It can be removed, but not read. Other stores have none.
    Other {
        /// Its key, written like an object's.
        key: String,
        /// The kind of this name.
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

/// The kind of a name that is no object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OtherKind {
    /// A symbolic link to a directory. Listings do not enter it.
    LinkToDirectory,
    /// A symbolic link, in a listing that passes over all links.
    Link,
    /// A directory above this name, to which a symbolic link leads back, in a listing that follows links.
    WayBack,
    /// A symbolic link whose target is missing or cannot be examined.
    BrokenLink,
    /// A device, a named pipe or a socket, or a link to one.
    NotRegular,
    /// A directory of Azure Blob Storage: of a hierarchical namespace, or an empty blob with the metadata
    /// `hdi_isfolder`. Only recursive listings have these; others have the prefix.
    Directory,
}

impl Display for OtherKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::LinkToDirectory => "a symbolic link to a directory",
            Self::Link => "a symbolic link",
            Self::WayBack => "a way back to a directory above it",
            Self::BrokenLink => "a symbolic link that leads nowhere",
            Self::NotRegular => "no regular file",
            Self::Directory => "a directory",
        })
    }
}

/// An object's description and its bytes.
pub struct Body {
    /// The description from the answer's headers; `size` is that of the whole object.
    pub object: Object,
    /// The bytes of the object that `stream` gives.
    pub range: Range<u64>,
    /// Whether the store ignored the requested range and sends the whole object. `stream` still gives only `range`.
    /// Empty pieces of the stream stand for skipped bytes.
    pub ignored_range: bool,
    /// The bytes. If the body ends early, the stream gives an error; it never ends as if complete.
    pub stream: BoxStream<'static, Result<Bytes, Fault>>,
}
