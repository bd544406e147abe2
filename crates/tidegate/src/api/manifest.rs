//! Sets of pending uploads that are published together: once a set is decided on, any process brings it to its end.
//!
//! A set has a *pointer*, the key by which readers find it, and passes three points:
//!
//! 1. Every upload is checked: its bytes are at the store, and its condition holds. Then the *intent* is written below
//!    `.tidegate/manifests/` with `create_only`, so of two sets with one pointer only one gets it. Until the intent exists,
//!    nothing is visible and the set can be given up. All uploads are checked once more then: a process that gives up the set
//!    may have been at work between the check and the intent.
//! 2. Every upload is committed. That may be repeated, by any process that reads the intent.
//! 3. The pointer is written, and names the objects. Then the intent is removed.
//!
//! Readers that begin with the pointer see all objects of a set or none.
//!
//! A process that gives up a set first writes an object of the intent's key, with another content. So a set is either published
//! or given up: the process that writes first decides. A set whose intent exists is given up only if one of its uploads cannot
//! be published: then nobody writes the pointer.

mod check;
mod intent;
mod publish;

use std::collections::HashSet;

use serde::{Deserialize, Serialize};

use crate::types::checksum::{Algorithm, Checksum};
use crate::types::error::{Error, ErrorKind, Operation, Result};
use crate::upload::Pending;

pub use intent::PointedObject;
pub use publish::{AbandonedSet, SetProgress};

/// The version of the JSON that this version writes, and the latest that it reads.
const VERSION: u32 = 1;

/// The version of the JSON of a set that is being given up: earlier versions of Tidegate must not publish it.
const ABANDONED_VERSION: u32 = 2;

/// Pending uploads of one bucket that are published together; from
/// [`Store::prepare_all`](crate::Store::prepare_all).
///
/// It is a value, which travels as [JSON](Self::to_json): with
/// [`Store::commit_all`](crate::Store::commit_all) any process publishes the set. Who may read it: see [`Pending`].
#[derive(Clone, Debug, PartialEq)]
pub struct Manifest {
    pointer: String,
    pending: Vec<Pending>,
}

/// A manifest as JSON, which the intent is too.
#[derive(Serialize, Deserialize)]
struct ManifestText {
    version: u32,
    /// Names the set: the same uploads have the same name.
    set: String,
    pointer: String,
    pending: Vec<serde_json::Value>,
    /// Whether the set is being given up, rather than published.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    is_abandoned: bool,
}

impl Manifest {
    /// The set of these uploads. `pointer` is the key, in the bucket, of the object by which readers find it.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`] if there are no uploads, two of one key, or uploads of several buckets.
    pub fn new(pointer: impl Into<String>, pending: impl IntoIterator<Item = Pending>) -> Result<Self> {
        let set = Self::of(pointer.into(), pending)?;
        match set.pending.is_empty() {
            true => Err(set.refused("a set of uploads has at least one")),
            false => Ok(set),
        }
    }

    /// As [`new`](Self::new); the set may have no uploads.
    fn of(pointer: String, pending: impl IntoIterator<Item = Pending>) -> Result<Self> {
        let set = Self { pointer, pending: pending.into_iter().collect() };
        let pending = &set.pending;
        if pending.windows(2).any(|pair| pair[0].url() != pair[1].url()) {
            return Err(set.refused("the uploads of a set are of one bucket"));
        }
        let mut keys: Vec<&str> = pending.iter().map(Pending::key).collect();
        keys.push(&set.pointer);
        keys.sort_unstable();
        if keys.windows(2).any(|pair| pair[0] == pair[1]) {
            return Err(set.refused("two objects of a set, or its pointer and one of them, have one key"));
        }
        Ok(set)
    }

    fn refused(&self, message: &str) -> Error {
        Error::new(ErrorKind::InvalidInput, Operation::Complete, self.pointer.clone(), message)
    }

    /// The key, in the bucket, of the object by which readers find the set.
    pub fn pointer(&self) -> &str {
        &self.pointer
    }

    /// The uploads of the set.
    pub fn pending(&self) -> &[Pending] {
        &self.pending
    }

    /// The address of the bucket; empty of a set without uploads.
    pub fn url(&self) -> &str {
        self.pending.first().map_or("", Pending::url)
    }

    /// The [tokens](Pending::token) of the uploads: two sets with the same tokens are one set.
    pub fn tokens(&self) -> HashSet<&str> {
        self.pending.iter().map(Pending::token).collect()
    }

    /// Whether an upload is in both sets.
    fn shares_with(&self, other: &Self) -> bool {
        let tokens = self.tokens();
        other.pending.iter().any(|pending| tokens.contains(pending.token()))
    }

    /// Names the set by its uploads, whatever their order.
    fn set(&self) -> String {
        let mut tokens: Vec<&str> = self.pending.iter().map(Pending::token).collect();
        tokens.sort_unstable();
        let sum = |algorithm| Checksum::of(algorithm, tokens.join(" ").as_bytes()).value();
        format!("{:016x}{:08x}-{}", sum(Algorithm::Crc64Nvme), sum(Algorithm::Crc32c), tokens.len())
    }

    /// As JSON, of one line, which later versions read too.
    pub fn to_json(&self) -> String {
        self.write(VERSION, false)
    }

    fn write(&self, version: u32, is_abandoned: bool) -> String {
        let parsed = |pending: &Pending| serde_json::from_str(&pending.to_json()).unwrap_or_default();
        let text = ManifestText {
            version,
            set: self.set(),
            pointer: self.pointer.clone(),
            pending: self.pending.iter().map(parsed).collect(),
            is_abandoned,
        };
        serde_json::to_string(&text).unwrap_or_default()
    }

    /// Reads the JSON of [`to_json`](Self::to_json).
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`] if it is no manifest, or one of a later version of Tidegate. The message shows nothing of
    /// the text.
    pub fn from_json(json: &str) -> Result<Self> {
        match Self::read(json)? {
            (manifest, false) => Ok(manifest),
            (_, true) => Err(refused("the text is that of a set that is being given up")),
        }
    }

    /// Reads the text of an intent; also returns whether the set is being given up.
    fn read(json: &str) -> Result<(Self, bool)> {
        let text: ManifestText = serde_json::from_str(json).map_err(|error| {
            refused(format!("the text is no manifest (line {}, column {})", error.line(), error.column()))
        })?;
        let latest = if text.is_abandoned { ABANDONED_VERSION } else { VERSION };
        if text.version > latest {
            return Err(refused(format!(
                "it was written by a later version of Tidegate (format {})",
                text.version
            )));
        }
        let pending: Result<Vec<_>> =
            text.pending.iter().map(|pending| Pending::from_json(&pending.to_string())).collect();
        let manifest = Self::of(text.pointer, pending?)?;
        if manifest.set() != text.set {
            return Err(refused("its uploads are not those that its name is of"));
        }
        Ok((manifest, text.is_abandoned))
    }
}

/// The error of a text that is no manifest.
fn refused(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::InvalidInput, Operation::Complete, "a manifest", message)
}

#[cfg(test)]
mod tests;
