//! A model of a store: objects, sessions and parts by S3's rules, each request as one synchronous step.
//!
//! Written independently of the library's memory backend, so that a mistake in one shows in the other.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use tidegate::backend::{Capabilities, Fault, FaultKind, Receipt, Session, StoredPart, WriteOptions};
use tidegate::checksum::{Algorithm, Checksum, Hasher};
use tidegate::{Attributes, Object};

use crate::scenario::Scenario;
use crate::store::{OLD, WRITER};

/// How long before the run an object was written whose writer is [`OLD`].
const HOURS_AGO: Duration = Duration::from_secs(7200);

/// A request as the store carries it out, after its bytes have arrived.
#[derive(Clone, Debug)]
pub enum StoreRequest {
    /// Write an object.
    Put {
        /// The object's key.
        key: String,
        /// The object's bytes.
        bytes: Bytes,
        /// The options of the write.
        options: WriteOptions,
    },
    /// Open a session.
    Open {
        /// The object's key.
        key: String,
        /// The options of the write.
        options: WriteOptions,
    },
    /// Store a part.
    Part {
        /// The part's session.
        session: Session,
        /// The part's number.
        number: u32,
        /// The part's bytes.
        bytes: Bytes,
    },
    /// Publish an object from its parts.
    Complete {
        /// The session to complete.
        session: Session,
        /// The receipts of the parts, in order.
        parts: Vec<Receipt>,
        /// The checksum of the whole object.
        checksum: Checksum,
        /// Whether to fail if the key already has an object.
        create_only: bool,
    },
    /// List the parts of a session.
    Parts {
        /// The session to list.
        session: Session,
    },
    /// End a session.
    Abort {
        /// The session to abort.
        session: Session,
    },
    /// Describe an object.
    Head {
        /// The object's key.
        key: String,
    },
    /// Remove an object.
    Delete {
        /// The object's key.
        key: String,
    },
}

/// The store's answer to a request that succeeded.
#[derive(Clone, Debug)]
pub enum StoreAnswer {
    /// An object.
    Object(Box<Object>),
    /// A session.
    Session(Session),
    /// A part's receipt.
    Receipt(Receipt),
    /// The parts of a session.
    Parts(Vec<StoredPart>),
    /// Success without a value.
    Done,
}

/// An object as it was visible at some time.
#[derive(Clone, Debug)]
pub struct VisibleObject {
    /// When the version became visible, in virtual milliseconds.
    pub at: u64,
    /// The object's description.
    pub object: Object,
    /// The object's bytes, in pieces.
    pub pieces: Arc<[Bytes]>,
}

#[derive(Debug)]
struct ModelUpload {
    key: String,
    options: WriteOptions,
    parts: BTreeMap<u32, (Receipt, Bytes)>,
}

/// The store's state.
#[derive(Debug)]
pub struct Model {
    limits: Capabilities,
    /// Confirms the abort of a session that does not exist, as MinIO does.
    lenient_abort: bool,
    /// Gives each copy of a part its own tag.
    copies_differ: bool,
    /// How far the store's clock is ahead of the client's, in milliseconds.
    clock_ahead: i64,
    copies: u64,
    /// The keys whose sessions several writers send parts to. Elsewhere only a client's mistake has a part replaced by other
    /// bytes.
    shared: BTreeSet<String>,
    /// Every version of every key, oldest first; versions are never removed.
    history: BTreeMap<String, Vec<VisibleObject>>,
    gone: BTreeMap<String, bool>,
    sessions: BTreeMap<String, ModelUpload>,
    opened: u64,
}

impl Model {
    /// An empty store.
    pub fn new(scenario: &Scenario) -> Self {
        Self {
            limits: scenario.capabilities.clone(),
            lenient_abort: scenario.lenient_abort,
            copies_differ: scenario.copies_differ,
            clock_ahead: scenario.clock_ahead,
            copies: 0,
            shared: BTreeSet::new(),
            history: BTreeMap::new(),
            gone: BTreeMap::new(),
            sessions: BTreeMap::new(),
            opened: 0,
        }
    }

    /// Every version that `key` ever had, oldest first.
    pub fn history(&self, key: &str) -> &[VisibleObject] {
        self.history.get(key).map_or(&[], Vec::as_slice)
    }

    /// Several writers send parts to the sessions of this key.
    pub fn share(&mut self, key: &str) {
        self.shared.insert(key.to_owned());
    }

    /// The keys that ever had an object.
    pub fn keys(&self) -> impl Iterator<Item = &str> {
        self.history.keys().map(String::as_str)
    }

    /// The version visible at `key` now.
    pub fn current(&self, key: &str) -> Option<&VisibleObject> {
        if self.gone.get(key).copied().unwrap_or(false) { None } else { self.history.get(key)?.last() }
    }

    /// The sessions that are open.
    pub fn sessions(&self) -> impl Iterator<Item = Session> {
        self.sessions.iter().map(|(id, upload)| Session { key: upload.key.clone(), id: id.clone() })
    }

    /// Ends a session as a third party would.
    pub fn expire(&mut self, session: &Session) {
        self.sessions.remove(&session.id);
    }

    /// Carries out a request at virtual time `now`.
    pub fn execute(&mut self, command: StoreRequest, now: u64) -> Result<StoreAnswer, Fault> {
        match command {
            StoreRequest::Put { key, bytes, options } => {
                if bytes.len() as u64 > self.limits.max_put.min(self.limits.max_object) {
                    return Err(Fault::new(FaultKind::TooLarge, "EntityTooLarge: one request"));
                }
                let checksum = Checksum::of(self.limits.checksum, &bytes);
                self.publish(&key, vec![bytes], &checksum, &options, options.create_only, now)
            }
            StoreRequest::Open { key, options } => {
                self.opened += 1;
                let id = format!("session-{}", self.opened);
                let upload = ModelUpload { key: key.clone(), options, parts: BTreeMap::new() };
                self.sessions.insert(id.clone(), upload);
                Ok(StoreAnswer::Session(Session { key, id }))
            }
            StoreRequest::Part { session, number, bytes } => self.part(&session, number, bytes),
            StoreRequest::Parts { session } => {
                let parts = self.upload(&session)?.parts.values().map(|(receipt, _)| {
                    let mut part = StoredPart::new(receipt.number, receipt.size, receipt.etag.as_str());
                    part.checksum = receipt.checksum.map(|checksum| checksum.base64());
                    part
                });
                Ok(StoreAnswer::Parts(parts.collect()))
            }
            StoreRequest::Complete { session, parts, checksum, create_only } => {
                self.complete(&session, &parts, &checksum, create_only, now)
            }
            StoreRequest::Abort { session } => {
                if !self.lenient_abort {
                    self.upload(&session)?;
                }
                self.sessions.remove(&session.id);
                Ok(StoreAnswer::Done)
            }
            StoreRequest::Head { key } => match self.current(&key) {
                Some(version) => Ok(StoreAnswer::Object(Box::new(version.object.clone()))),
                None => Err(Fault::new(FaultKind::NotFound, "no such object")),
            },
            StoreRequest::Delete { key } => {
                self.gone.insert(key, true);
                Ok(StoreAnswer::Done)
            }
        }
    }

    fn upload(&mut self, session: &Session) -> Result<&mut ModelUpload, Fault> {
        let upload = self.sessions.get_mut(&session.id).filter(|upload| upload.key == session.key);
        upload.ok_or_else(|| Fault::new(FaultKind::NoSession, "no such session"))
    }

    fn part(&mut self, session: &Session, number: u32, bytes: Bytes) -> Result<StoreAnswer, Fault> {
        let (most, count, algorithm) = (self.limits.max_part, self.limits.max_parts, self.limits.checksum);
        self.copies += u64::from(self.copies_differ);
        let copies = self.copies;
        let upload = self.upload(session)?;
        if number == 0 || number > count {
            return Err(invalid(format!("part number {number}, of 1 to {count}")));
        }
        if bytes.len() as u64 > most {
            return Err(invalid(format!(
                "EntityTooLarge: a part of {} bytes, of at most {most}",
                bytes.len()
            )));
        }
        let checksum = Checksum::of(algorithm, &bytes);
        let mut etag = format!("\"{:016x}-{number}\"", checksum.value());
        if copies > 0 {
            etag = format!("\"copy-{copies}\"");
        }
        let receipt = Receipt { number, size: bytes.len() as u64, etag, checksum: Some(checksum) };
        upload.parts.insert(number, (receipt.clone(), bytes));
        Ok(StoreAnswer::Receipt(receipt))
    }

    fn complete(
        &mut self,
        session: &Session,
        parts: &[Receipt],
        checksum: &Checksum,
        create_only: bool,
        now: u64,
    ) -> Result<StoreAnswer, Fault> {
        let (limits, copies_differ) = (self.limits.clone(), self.copies_differ);
        let is_shared = self.shared.contains(&session.key);
        let upload = self.upload(session)?;
        let mut pieces = Vec::with_capacity(parts.len());
        let mut hasher = Hasher::new(limits.checksum);
        let mut before = 0;
        for (index, part) in parts.iter().enumerate() {
            let number = part.number;
            if number <= before {
                return Err(invalid(format!("InvalidPartOrder: part {number} after part {before}")));
            }
            before = number;
            let Some((receipt, bytes)) = upload.parts.get(&number) else {
                return Err(invalid(format!("InvalidPart: there is no part {number}")));
            };
            let is_copy = (receipt.size, receipt.checksum) == (part.size, part.checksum);
            if receipt != part && (copies_differ && is_copy || is_shared) {
                let message = format!("InvalidPart: part {number} has been replaced");
                return Err(Fault::new(FaultKind::PartMismatch, message).with_answered(true));
            }
            if receipt != part {
                return Err(invalid(format!(
                    "InvalidPart: the receipt of part {number} is not the one given"
                )));
            }
            let last = index + 1 == parts.len();
            if !last && part.size < limits.min_part {
                return Err(invalid(format!("EntityTooSmall: part {number} has {} bytes", part.size)));
            }
            if limits.equal_parts && (part.size > parts[0].size || (!last && part.size < parts[0].size)) {
                return Err(invalid(format!(
                    "part {number} has {} bytes, the first {}",
                    part.size, parts[0].size
                )));
            }
            hasher.update(bytes);
            pieces.push(bytes.clone());
        }
        if parts.is_empty() {
            return Err(invalid("a completion without parts".to_owned()));
        }
        if hasher.finish() != *checksum {
            return Err(invalid("BadDigest: the checksum is not that of the parts".to_owned()));
        }
        if checksum.covers() > limits.max_object {
            return Err(Fault::new(FaultKind::TooLarge, "EntityTooLarge: the object"));
        }
        let options = upload.options.clone();
        let published = self.publish(&session.key, pieces, checksum, &options, create_only, now)?;
        self.sessions.remove(&session.id);
        Ok(published)
    }

    fn publish(
        &mut self,
        key: &str,
        pieces: Vec<Bytes>,
        checksum: &Checksum,
        options: &WriteOptions,
        create_only: bool,
        now: u64,
    ) -> Result<StoreAnswer, Fault> {
        if create_only && self.current(key).is_some() {
            return Err(Fault::new(FaultKind::Exists, "the key has an object"));
        }
        let mut object = Object {
            key: key.to_owned(),
            size: checksum.covers(),
            etag: Some(format!("\"{:016x}\"", checksum.value())),
            modified: Some(self.dated(&options.attributes)),
            token: options.token.clone(),
            attributes: options.attributes.clone(),
            ..Object::default()
        };
        match checksum.algorithm() {
            Algorithm::Crc32c => object.crc32c = Some(checksum.base64()),
            Algorithm::Crc64Nvme => object.crc64nvme = Some(checksum.base64()),
        }
        let version = VisibleObject { at: now, object: object.clone(), pieces: pieces.into() };
        self.gone.remove(key);
        self.history.entry(key.to_owned()).or_default().push(version);
        Ok(StoreAnswer::Object(Box::new(object)))
    }

    /// The time of a write by the store's clock, which is wrong by `clock_ahead`. The engine compares times of the machine's
    /// clock, which does not know virtual time.
    fn dated(&self, attributes: &Attributes) -> SystemTime {
        let is_old = attributes.metadata.get(WRITER).is_some_and(|writer| writer == OLD);
        let written = SystemTime::now() - if is_old { HOURS_AGO } else { Duration::ZERO };
        let ahead = Duration::from_millis(self.clock_ahead.unsigned_abs());
        if self.clock_ahead < 0 { written - ahead } else { written + ahead }
    }
}

fn invalid(message: String) -> Fault {
    Fault::new(FaultKind::Invalid, message)
}
