//! What the store has of a set: its intent and its pointer.

use futures::TryStreamExt;
use serde::{Deserialize, Serialize};

use super::{ABANDONED_VERSION, Manifest, VERSION};
use crate::api::Store;
use crate::types::error::{Error, ErrorKind, Operation, Result};
use crate::types::object::Object;

/// The beginning of the keys of intents.
pub(super) const INTENTS: &str = ".tidegate/manifests/";

/// The largest object that is read as an intent or a pointer, in bytes: many times that of the largest set. A larger one is
/// somebody else's.
const LARGEST: u64 = 256 << 20;

/// How often an intent is written, where each time one was there and was gone when it was read.
const TRIES: u32 = 5;

/// The object that says what is being done with the uploads of a pointer.
#[derive(Clone, Debug)]
pub(super) struct Intent {
    pub(super) manifest: Manifest,
    pub(super) purpose: Purpose,
    /// As the store described it, so that only this one is removed.
    object: Object,
}

/// What is being done with a set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    Publish,
    Abandon,
}

/// What a process finds that writes an intent.
pub(super) enum Claim {
    /// This call has written the intent.
    New(Intent),
    /// The intent was there: ours, or that of another process that does the same with this set.
    Held(Intent),
    /// This intent is there, of another set or for another purpose.
    Taken(Intent),
}

/// The content of a pointer.
#[derive(Default, Serialize, Deserialize)]
pub(super) struct Pointer {
    version: u32,
    set: String,
    pub(super) objects: Vec<PointedObject>,
}

/// One object of a set, as its pointer names it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct PointedObject {
    /// The key, in the bucket.
    pub key: String,
    /// The size in bytes.
    pub size: u64,
    /// The checksum of all bytes, with the name of its algorithm.
    pub checksum: String,
    /// The entity tag, if the store has told one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub etag: Option<String>,
    /// The version, on versioned buckets.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
}

/// What is at the key of a pointer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PointerState {
    Nothing,
    /// The pointer of this set.
    Ours,
    /// The pointer of another set.
    OfAnotherSet,
    /// An object that is no pointer.
    NoPointer,
}

/// The methods of a store that is the whole bucket.
impl Store {
    /// Writes the intent of a set, unless one is there.
    pub(super) async fn claim(&self, manifest: &Manifest, purpose: Purpose) -> Result<Claim> {
        let key = intent_key(manifest.pointer());
        let text = match purpose {
            Purpose::Publish => manifest.write(VERSION, false),
            Purpose::Abandon => manifest.write(ABANDONED_VERSION, true),
        };
        for _ in 0..TRIES {
            match self.put(&*key, text.clone()).content_type("application/json").create_only().await {
                Ok(object) => return Ok(Claim::New(Intent { manifest: manifest.clone(), purpose, object })),
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
            if let Some(there) = self.read_intent(manifest.pointer()).await? {
                let is_ours = there.manifest.set() == manifest.set() && there.purpose == purpose;
                return Ok(if is_ours { Claim::Held(there) } else { Claim::Taken(there) });
            }
        }
        let message = "other processes publish or give up sets with this pointer, one after the other";
        Err(self.of_pointer(ErrorKind::AlreadyExists, Operation::Complete, manifest.pointer(), message))
    }

    pub(super) async fn read_intent(&self, pointer: &str) -> Result<Option<Intent>> {
        let Some((object, bytes)) = self.read_small(&intent_key(pointer)).await? else { return Ok(None) };
        let (manifest, is_abandoned) = Manifest::read(&String::from_utf8_lossy(&bytes))?;
        let purpose = if is_abandoned { Purpose::Abandon } else { Purpose::Publish };
        Ok(Some(Intent { manifest, purpose, object }))
    }

    /// Removes this intent and no other: another set may have the pointer by now.
    pub(super) async fn remove_intent(&self, intent: &Intent) -> Result<()> {
        let key = intent_key(intent.manifest.pointer());
        match self.delete_if_unchanged(&key, &intent.object).await {
            Err(error) if error.kind() == ErrorKind::Replaced => Ok(()),
            // A store whose answers name no version of an object.
            Err(error) if error.kind() == ErrorKind::Unsupported => self.delete(&key).await,
            removed => removed,
        }
    }

    /// Writes the pointer, unless it is there.
    pub(super) async fn point(&self, manifest: &Manifest, objects: &[Object]) -> Result<()> {
        let described = manifest.pending().iter().zip(objects).map(|(pending, object)| PointedObject {
            key: pending.key().to_owned(),
            size: pending.size(),
            checksum: pending.checksum().to_string(),
            etag: object.etag.clone(),
            version: object.version.clone(),
        });
        let pointer = Pointer { version: VERSION, set: manifest.set(), objects: described.collect() };
        let json = serde_json::to_string(&pointer).unwrap_or_default();
        match self.put(manifest.pointer(), json).content_type("application/json").create_only().await {
            // Another process has brought this set to its end: there is one intent.
            Err(error)
                if error.kind() == ErrorKind::AlreadyExists
                    && self.pointer_of(manifest).await? == PointerState::Ours =>
            {
                Ok(())
            }
            written => written.map(drop),
        }
    }

    /// What is at the key of the set's pointer.
    pub(super) async fn pointer_of(&self, manifest: &Manifest) -> Result<PointerState> {
        Ok(match self.read_pointer(manifest.pointer()).await? {
            (PointerState::OfAnotherSet, pointer) if pointer.set == manifest.set() => PointerState::Ours,
            (state, _) => state,
        })
    }

    /// What is at the key of a pointer; a pointer is taken for that of another set.
    pub(super) async fn read_pointer(&self, pointer: &str) -> Result<(PointerState, Pointer)> {
        let Some((_, bytes)) = self.read_small(pointer).await? else {
            return Ok((PointerState::Nothing, Pointer::default()));
        };
        Ok(match serde_json::from_slice(&bytes) {
            Ok(pointer) => (PointerState::OfAnotherSet, pointer),
            Err(_) => (PointerState::NoPointer, Pointer::default()),
        })
    }

    /// The objects that a pointer names; `None` if it is not there.
    pub(super) async fn pointed_objects(&self, pointer: &str) -> Result<Option<Vec<PointedObject>>> {
        match self.read_pointer(pointer).await? {
            (PointerState::Nothing, _) => Ok(None),
            (PointerState::Ours | PointerState::OfAnotherSet, found) => Ok(Some(found.objects)),
            (PointerState::NoPointer, _) => {
                let message = "the object there is not the pointer of a set of uploads";
                Err(self.of_pointer(ErrorKind::InvalidInput, Operation::Get, pointer, message))
            }
        }
    }

    /// Reads the object of this key; `None` if it does not exist. No bytes of an object that is too large for a set.
    async fn read_small(&self, key: &str) -> Result<Option<(Object, Vec<u8>)>> {
        let read = async {
            let mut reader = self.reader(key).await?;
            let (object, mut bytes) = (reader.object().clone(), Vec::<u8>::new());
            if object.known_size().is_some_and(|size| size > LARGEST) {
                return Ok((object, bytes));
            }
            while let Some(piece) = reader.try_next().await? {
                bytes.extend_from_slice(&piece);
            }
            Ok::<_, Error>((object, bytes))
        };
        match read.await {
            Ok(found) => Ok(Some(found)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    pub(super) fn of_pointer(
        &self,
        kind: ErrorKind,
        operation: Operation,
        pointer: &str,
        message: &str,
    ) -> Error {
        Error::new(kind, operation, self.context().url(pointer), message)
    }
}

fn intent_key(pointer: &str) -> String {
    format!("{INTENTS}{pointer}")
}
