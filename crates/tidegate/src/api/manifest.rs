//! Sets of pending uploads that are published together: once a set is decided on, any process brings it to its end.
//!
//! A set has a *pointer*, the key by which readers find it, and passes three points:
//!
//! 1. The *intent* is written below `.tidegate/manifests/` with `create_only`, so of two sets with one pointer only one
//!    gets it. Until the intent exists, nothing is visible and the set can be given up.
//! 2. Every upload is committed. That may be repeated, by any process that reads the intent.
//! 3. The pointer is written, and names the objects. Then the intent is removed.
//!
//! Readers that begin with the pointer see all objects of a set or none.

use std::future::IntoFuture;

use futures::stream::{self, StreamExt};
use serde::{Deserialize, Serialize};

use super::Store;
use crate::types::checksum::{Algorithm, Checksum};
use crate::types::error::{Error, ErrorKind, Operation, Result};
use crate::types::object::Object;
use crate::upload::{Pending, PrepareBuilder};

/// The version of the JSON that this version writes, and the latest that it reads.
const VERSION: u32 = 1;

/// The beginning of the keys of intents.
const INTENTS: &str = ".tidegate/manifests/";

/// Uploads that are prepared or committed at the same time; the engine's limits hold as well.
const AT_ONCE: usize = 64;

/// Pending uploads of one bucket that are published together; from [`Store::prepare_all`].
///
/// It is a value, which travels as [JSON](Self::to_json): with [`Store::commit_all`] any process publishes the set. Who may
/// read it: see [`Pending`].
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
}

/// The content of a pointer.
#[derive(Serialize, Deserialize)]
struct Pointer {
    version: u32,
    set: String,
    objects: Vec<PointedObject>,
}

/// One object of a set.
#[derive(Serialize, Deserialize)]
struct PointedObject {
    key: String,
    size: u64,
    checksum: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    etag: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<String>,
}

impl Manifest {
    /// The set of these uploads. `pointer` is the key, in the bucket, of the object by which readers find it.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`] if there are no uploads, two of one key, or uploads of several buckets.
    pub fn new(pointer: impl Into<String>, pending: impl IntoIterator<Item = Pending>) -> Result<Self> {
        let (pointer, pending) = (pointer.into(), pending.into_iter().collect::<Vec<_>>());
        let refused = |message: &str| {
            Err(Error::new(ErrorKind::InvalidInput, Operation::Complete, pointer.clone(), message))
        };
        let Some(first) = pending.first() else { return refused("a set of uploads has at least one") };
        if pending.iter().any(|other| other.url() != first.url()) {
            return refused("the uploads of a set are of one bucket");
        }
        let mut keys: Vec<&str> = pending.iter().map(Pending::key).collect();
        keys.push(&pointer);
        keys.sort_unstable();
        if keys.windows(2).any(|pair| pair[0] == pair[1]) {
            return refused("two objects of a set, or its pointer and one of them, have one key");
        }
        Ok(Self { pointer, pending })
    }

    /// The key, in the bucket, of the object by which readers find the set.
    pub fn pointer(&self) -> &str {
        &self.pointer
    }

    /// The uploads of the set.
    pub fn pending(&self) -> &[Pending] {
        &self.pending
    }

    /// The address of the bucket.
    pub fn url(&self) -> &str {
        self.pending.first().map_or("", Pending::url)
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
        let parsed = |pending: &Pending| serde_json::from_str(&pending.to_json()).unwrap_or_default();
        let text = ManifestText {
            version: VERSION,
            set: self.set(),
            pointer: self.pointer.clone(),
            pending: self.pending.iter().map(parsed).collect(),
        };
        serde_json::to_string(&text).unwrap_or_default()
    }

    /// Reads the JSON of [`to_json`](Self::to_json).
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`] if it is no manifest, or one of a later version of Tidegate. The message shows nothing of
    /// the text.
    pub fn from_json(json: &str) -> Result<Self> {
        let refused =
            |message: String| Error::new(ErrorKind::InvalidInput, Operation::Complete, "a manifest", message);
        let text: ManifestText = serde_json::from_str(json).map_err(|error| {
            refused(format!("the text is no manifest (line {}, column {})", error.line(), error.column()))
        })?;
        if text.version > VERSION {
            return Err(refused(format!(
                "it was written by a later version of Tidegate (format {})",
                text.version
            )));
        }
        let pending: Result<Vec<_>> =
            text.pending.iter().map(|pending| Pending::from_json(&pending.to_string())).collect();
        let manifest = Self::new(text.pointer, pending?)?;
        if manifest.set() != text.set {
            return Err(refused("its uploads are not those that its name is of".to_owned()));
        }
        Ok(manifest)
    }
}

impl Store {
    /// Prepares all uploads of a set. `pointer` is the key of the object by which readers find it; keys of the manifest are
    /// those of the bucket. If one upload fails, those that were prepared are abandoned.
    ///
    /// ```
    /// # tokio::runtime::Runtime::new()?.block_on(async {
    /// let store = tidegate::Tidegate::builder().build()?.open("memory://demo").await?;
    /// let mut uploads = Vec::new();
    /// for key in ["t/1.parquet", "t/2.parquet"] {
    ///     let mut writer = store.writer(key).await?;
    ///     writer.write_bytes("rows".into()).await?;
    ///     uploads.push(writer.prepare());
    /// }
    /// let manifest = store.prepare_all("t/snapshot-7.json", uploads).await?; // nothing is visible
    /// let objects = store.commit_all(&manifest).await?; // all are, and the pointer
    /// assert_eq!((objects.len(), store.exists("t/snapshot-7.json").await?), (2, true));
    /// # Ok::<(), tidegate::Error>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// The first error of an upload, and those of [`Manifest::new`].
    pub async fn prepare_all(
        &self,
        pointer: impl Into<String>,
        uploads: impl IntoIterator<Item = PrepareBuilder>,
    ) -> Result<Manifest> {
        let prepared: Vec<Result<Pending>> =
            stream::iter(uploads).map(IntoFuture::into_future).buffered(AT_ONCE).collect().await;
        let (whole, failed): (Vec<_>, Vec<_>) = prepared.into_iter().partition(Result::is_ok);
        let whole: Vec<Pending> = whole.into_iter().filter_map(Result::ok).collect();
        let manifest = match failed.into_iter().find_map(Result::err) {
            Some(error) => Err(error),
            None => Manifest::new(self.context().prefixed(&pointer.into()), whole.iter().cloned()),
        };
        if manifest.is_err() {
            self.abandon_each(&whole).await?;
        }
        manifest
    }

    /// Publishes a set of pending uploads: writes its intent, commits all of them, and writes the pointer. May be repeated,
    /// by any process and at the same time. Returns the objects in the order of the manifest.
    ///
    /// After the future is dropped, or an error that is not of the kinds below, the set may be anywhere on its way: commit it
    /// again, or call [`roll_forward`](Self::roll_forward).
    ///
    /// # Errors
    /// [`ErrorKind::AlreadyExists`] if the pointer is there, or another set has its intent: nothing of this set is
    /// published. [`ErrorKind::SessionLost`] if an upload of the set is gone: the pointer is never written, but other objects of
    /// the set may be visible. Otherwise as [`commit`](Self::commit).
    pub async fn commit_all(&self, manifest: &Manifest) -> Result<Vec<Object>> {
        let root = self.with(self.context().root());
        if !root.intend(manifest).await? {
            // The pointer is there already.
            return root.commit_each(manifest).await;
        }
        let objects = root.commit_each(manifest).await?;
        root.point(manifest, &objects).await?;
        root.delete(&intent_key(manifest.pointer())).await?;
        Ok(objects)
    }

    /// Brings a set to its end whose intent was written, from the store alone: `pointer` is the pointer's key. `None` if there
    /// is no intent: the set is complete, or was never begun.
    ///
    /// # Errors
    /// As [`commit_all`](Self::commit_all).
    pub async fn roll_forward(&self, pointer: &str) -> Result<Option<Vec<Object>>> {
        let root = self.with(self.context().root());
        match root.read_intent(&self.context().prefixed(pointer)).await? {
            Some(manifest) => self.commit_all(&manifest).await.map(Some),
            None => Ok(None),
        }
    }

    /// Gives up all uploads of a set.
    ///
    /// # Errors
    /// [`ErrorKind::Closed`] once the intent was written: there is no way back, and nothing is given up.
    pub async fn abandon_all(&self, manifest: &Manifest) -> Result<()> {
        let root = self.with(self.context().root());
        let intent = root.read_intent(manifest.pointer()).await?;
        if intent.is_some_and(|intent| intent.set() == manifest.set()) || root.is_pointed_to(manifest).await?
        {
            let message = "the set is being published, or is: there is no way back (`tidegate commit --manifest` ends it)";
            return Err(root.of_pointer(ErrorKind::Closed, Operation::Abort, manifest, message));
        }
        root.abandon_each(manifest.pending()).await
    }

    /// Writes the intent; `false` if the set is complete already.
    async fn intend(&self, manifest: &Manifest) -> Result<bool> {
        let (key, json) = (intent_key(manifest.pointer()), manifest.to_json());
        match self.put(&*key, json).content_type("application/json").create_only().await {
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                let there = self.read_intent(manifest.pointer()).await?;
                if there.is_none_or(|there| there.set() != manifest.set()) {
                    // It may just have been completed, and its intent removed.
                    if self.is_pointed_to(manifest).await? {
                        return Ok(false);
                    }
                    let message = "another set of uploads with this pointer is being published";
                    return Err(self.of_pointer(
                        ErrorKind::AlreadyExists,
                        Operation::Complete,
                        manifest,
                        message,
                    ));
                }
            }
            Err(error) => return Err(error),
        }
        // An earlier set may have been completed; its intent is gone then.
        if !self.exists(manifest.pointer()).await? {
            return Ok(true);
        }
        let is_ours = self.is_pointed_to(manifest).await?;
        self.delete(&key).await?;
        if is_ours {
            return Ok(false);
        }
        let message = "another set of uploads was published with this pointer";
        Err(self.of_pointer(ErrorKind::AlreadyExists, Operation::Complete, manifest, message))
    }

    /// Commits every upload of a set. One that fails does not keep the others.
    async fn commit_each(&self, manifest: &Manifest) -> Result<Vec<Object>> {
        let commits: Vec<_> = manifest.pending().iter().map(|pending| self.commit(pending)).collect();
        let committed: Vec<Result<Object>> = stream::iter(commits).buffered(AT_ONCE).collect().await;
        committed.into_iter().collect()
    }

    async fn abandon_each(&self, pending: &[Pending]) -> Result<()> {
        let abandons: Vec<_> = pending.iter().map(|pending| self.abandon(pending)).collect();
        stream::iter(abandons).buffered(AT_ONCE).collect::<Vec<_>>().await.into_iter().collect()
    }

    /// Writes the pointer, unless it is there.
    async fn point(&self, manifest: &Manifest, objects: &[Object]) -> Result<()> {
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
                if error.kind() == ErrorKind::AlreadyExists && self.is_pointed_to(manifest).await? =>
            {
                Ok(())
            }
            written => written.map(drop),
        }
    }

    /// Whether the pointer is that of this set.
    async fn is_pointed_to(&self, manifest: &Manifest) -> Result<bool> {
        let Some(bytes) = self.find(manifest.pointer()).await? else { return Ok(false) };
        Ok(serde_json::from_slice::<Pointer>(&bytes).is_ok_and(|pointer| pointer.set == manifest.set()))
    }

    async fn read_intent(&self, pointer: &str) -> Result<Option<Manifest>> {
        let Some(bytes) = self.find(&intent_key(pointer)).await? else { return Ok(None) };
        Manifest::from_json(&String::from_utf8_lossy(&bytes)).map(Some)
    }

    /// Reads the object of this key; `None` if it does not exist.
    async fn find(&self, key: &str) -> Result<Option<bytes::Bytes>> {
        match self.get(key).await {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn of_pointer(&self, kind: ErrorKind, operation: Operation, manifest: &Manifest, message: &str) -> Error {
        Error::new(kind, operation, self.context().url(manifest.pointer()), message)
    }
}

fn intent_key(pointer: &str) -> String {
    format!("{INTENTS}{pointer}")
}

#[cfg(test)]
mod tests;
