//! Prepares, publishes and gives up sets of uploads.

use std::future::IntoFuture;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use futures::stream::{self, StreamExt};
use tokio::runtime::Handle;

use super::Manifest;
use super::check::{first_error, is_final, is_refused};
use super::intent::{Claim, Intent, PointedObject, PointerState, Purpose};
use crate::api::Store;
use crate::types::error::{Error, ErrorKind, Operation, Result};
use crate::types::object::Object;
use crate::upload::{Pending, PrepareBuilder};

/// Uploads that are prepared, checked, committed or abandoned at the same time; the engine's limits hold as well.
pub(super) const AT_ONCE: usize = 64;

/// What became of the uploads of a set that was given up; from [`Store::abandon_set`].
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct AbandonedSet {
    /// Those whose objects had been published before, and stay.
    pub visible: Vec<Pending>,
    /// Those that no commit publishes any more.
    pub abandoned: Vec<Pending>,
}

/// How far a set has come; from [`Store::find_set`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum SetProgress {
    /// There is neither an intent nor a pointer: nothing of the set is published.
    NotBegun,
    /// Its intent is there: any process completes it, by [`Store::commit_all`] or [`Store::roll_forward`].
    Begun(Manifest),
    /// It is being given up, and nobody can begin it. [`Store::abandon_set`] ends that.
    BeingAbandoned(Manifest),
    /// The pointer is there: these objects are published.
    Complete(Vec<PointedObject>),
}

/// The uploads of a set that are prepared so far. When it is dropped, they are abandoned: nobody else knows of them.
struct PreparedUploads<'a> {
    store: &'a Store,
    pending: Mutex<Vec<Pending>>,
    has_failed: AtomicBool,
}

impl PreparedUploads<'_> {
    fn pending(&self) -> MutexGuard<'_, Vec<Pending>> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Prepares one upload; `None` if another has failed before this one began.
    async fn prepare(&self, upload: PrepareBuilder) -> Option<Result<Pending>> {
        if self.has_failed.load(Ordering::Acquire) {
            return None;
        }
        let prepared = upload.into_future().await;
        match &prepared {
            Ok(pending) => self.pending().push(pending.clone()),
            Err(_) => self.has_failed.store(true, Ordering::Release),
        }
        Some(prepared)
    }
}

impl Drop for PreparedUploads<'_> {
    fn drop(&mut self) {
        let pending = std::mem::take(&mut *self.pending());
        if pending.is_empty() {
            return;
        }
        match Handle::try_current() {
            Ok(runtime) => crate::upload::abandon_unknown(self.store.context(), &pending, &runtime),
            Err(_) => tracing::warn!(
                uploads = pending.len(),
                "prepared uploads stay until their lifetime is over: they were dropped outside of a runtime"
            ),
        }
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
    /// # Cancellation
    /// Dropping the future abandons what was prepared, as dropping a writer aborts it: in the background, and
    /// [`Tidegate::settled`](crate::Tidegate::settled) waits for it.
    ///
    /// # Errors
    /// The first error of an upload, and those of [`Manifest::new`]. If abandoning an upload fails, the message says so. A sweep
    /// removes that upload after its lifetime.
    pub async fn prepare_all(
        &self,
        pointer: impl Into<String>,
        uploads: impl IntoIterator<Item = PrepareBuilder>,
    ) -> Result<Manifest> {
        let pointer = self.context().prefixed(&pointer.into());
        let prepared =
            PreparedUploads { store: self, pending: Mutex::default(), has_failed: AtomicBool::default() };
        let prepares: Vec<_> = uploads.into_iter().map(|upload| prepared.prepare(upload)).collect();
        let each: Vec<_> = stream::iter(prepares).buffered(AT_ONCE).collect().await;
        let all: Result<Vec<Pending>> = each.into_iter().flatten().collect();
        let manifest = all.and_then(|pending| Manifest::new(pointer, pending));
        match manifest {
            Ok(manifest) => {
                prepared.pending().clear();
                Ok(manifest)
            }
            Err(error) => {
                let to_abandon = prepared.pending().clone();
                let abandoned = self.abandon_each(&to_abandon).await;
                prepared.pending().clear();
                let kept = abandoned.iter().filter(|abandoned| abandoned.is_err()).count();
                Err(match kept {
                    0 => error,
                    kept => error.and(&format!("{kept} other uploads of the set could not be abandoned")),
                })
            }
        }
    }

    /// The set of these uploads, which may be none. `pointer` is the key of the object by which readers find the set, relative
    /// to this store.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`] if two uploads have one key, or they are of several buckets.
    pub fn manifest(&self, pointer: &str, pending: impl IntoIterator<Item = Pending>) -> Result<Manifest> {
        Manifest::of(self.context().prefixed(pointer), pending)
    }

    /// How far the set with this pointer has come. Reads the intent, then the pointer, and changes nothing.
    ///
    /// ```
    /// # tokio::runtime::Runtime::new()?.block_on(async {
    /// use tidegate::store::SetProgress;
    ///
    /// let store = tidegate::Tidegate::builder().build()?.open("memory://demo").await?;
    /// assert!(matches!(store.find_set("t/snapshot-7.json").await?, SetProgress::NotBegun));
    /// let mut writer = store.writer("t/1.parquet").await?;
    /// writer.write_bytes("rows".into()).await?;
    /// let manifest = store.manifest("t/snapshot-7.json", [writer.prepare().await?])?;
    /// store.commit_all(&manifest).await?;
    /// let SetProgress::Complete(objects) = store.find_set("t/snapshot-7.json").await? else { panic!() };
    /// assert_eq!((&*objects[0].key, objects[0].size), ("t/1.parquet", 4));
    /// # Ok::<(), tidegate::Error>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`] if the object at the key of the pointer, or of the intent, is another one.
    pub async fn find_set(&self, pointer: &str) -> Result<SetProgress> {
        let root = self.with(self.context().root());
        let pointer = self.context().prefixed(pointer);
        if let Some(Intent { manifest, purpose, .. }) = root.read_intent(&pointer).await? {
            return Ok(match purpose {
                Purpose::Publish => SetProgress::Begun(manifest),
                Purpose::Abandon => SetProgress::BeingAbandoned(manifest),
            });
        }
        let objects = root.pointed_objects(&pointer).await?;
        Ok(objects.map_or(SetProgress::NotBegun, SetProgress::Complete))
    }

    /// Publishes a set of pending uploads: checks all of them, writes the set's intent, commits all, and writes the pointer.
    /// May be repeated, by any process and at the same time. Returns the objects in the order of the manifest.
    ///
    /// A check asks the store whether it has all bytes of an upload, and whether the upload's condition (`create_only`,
    /// `replaces`) holds. Where one fails, nothing is written. All are checked again once the intent is there, because another
    /// process may have given up uploads before: where a check fails then and nothing is published, the process that has
    /// written the intent removes it.
    ///
    /// After the future is dropped, or an error that is not of the kinds below, the set may be anywhere on its way: commit it
    /// again, or call [`roll_forward`](Self::roll_forward).
    ///
    /// # Errors
    /// [`ErrorKind::AlreadyExists`] if the pointer is there, or another set has its intent: nothing of this set is
    /// published. [`ErrorKind::SessionLost`], [`ErrorKind::AlreadyExists`] and [`ErrorKind::Replaced`] if an upload cannot be
    /// published, which the error names: if the set was not begun, nothing is published. If it was begun, the message says so;
    /// other objects may be visible, no pointer is written, and [`abandon_set`](Self::abandon_set) ends the set.
    /// [`ErrorKind::InvalidInput`] if it is a set of another bucket. Otherwise as [`commit`](Self::commit).
    pub async fn commit_all(&self, manifest: &Manifest) -> Result<Vec<Object>> {
        let root = self.with(self.context().root());
        let checked = root.check_each(manifest).await;
        let is_begun = match checked.iter().any(is_refused) {
            true => root.is_begun(manifest).await?,
            false => false,
        };
        let can_be_published = match is_begun {
            true => root.confirm(manifest, checked).await,
            false => first_error(checked).map(drop),
        };
        if let Err(error) = can_be_published {
            return Err(root.with_state(manifest, error).await);
        }
        let claim = root.claim(manifest, Purpose::Publish).await?;
        let is_new = matches!(claim, Claim::New(_));
        let intent = match claim {
            Claim::New(intent) | Claim::Held(intent) => Some(intent),
            // Another process may have completed this set; a request that came late may have written there since.
            Claim::Taken(there) if root.pointer_of(manifest).await? == PointerState::Ours => {
                Some(there).filter(|there| there.manifest.set() == manifest.set())
            }
            Claim::Taken(there) => return Err(root.taken(manifest, &there)),
        };
        // An earlier set may have been completed; its intent is gone then.
        let state = root.pointer_of(manifest).await?;
        if state != PointerState::Nothing {
            if let Some(intent) = intent {
                root.remove_intent(&intent).await?;
            }
            if state == PointerState::Ours {
                return root.commit_each(manifest).await;
            }
            let message = match state {
                PointerState::NoPointer => "there is an object with the key of the pointer",
                _ => "another set of uploads was published with this pointer",
            };
            let (kind, pointer) = (ErrorKind::AlreadyExists, manifest.pointer());
            return Err(root.of_pointer(kind, Operation::Complete, pointer, message));
        }
        if let Err(error) = root.check_again(manifest, intent.as_ref().filter(|_| is_new)).await {
            return Err(root.with_state(manifest, error).await);
        }
        let objects = match root.commit_each(manifest).await {
            Ok(objects) => objects,
            Err(error) => return Err(root.with_state(manifest, error).await),
        };
        root.point(manifest, &objects).await?;
        if let Some(intent) = intent {
            root.remove_intent(&intent).await?;
        }
        Ok(objects)
    }

    /// Brings a set to its end whose intent was written, from the store alone: `pointer` is the pointer's key. `None` if the
    /// set is complete already.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`] if there is neither an intent nor a pointer: no set was begun. [`ErrorKind::Closed`] if the set
    /// is being given up. [`ErrorKind::InvalidInput`] if the object at the key is no pointer. Otherwise as
    /// [`commit_all`](Self::commit_all).
    pub async fn roll_forward(&self, pointer: &str) -> Result<Option<Vec<Object>>> {
        let root = self.with(self.context().root());
        let pointer = self.context().prefixed(pointer);
        let intent = root.read_intent(&pointer).await?;
        if let Some(Intent { manifest, purpose: Purpose::Publish, .. }) = &intent {
            return self.commit_all(manifest).await.map(Some);
        }
        let refused = |kind, message| Err(root.of_pointer(kind, Operation::Complete, &pointer, message));
        match (root.read_pointer(&pointer).await?.0, intent) {
            (PointerState::Ours | PointerState::OfAnotherSet, _) => Ok(None),
            (PointerState::NoPointer, _) => {
                refused(ErrorKind::InvalidInput, "the object there is not the pointer of a set of uploads")
            }
            (PointerState::Nothing, Some(_)) => refused(
                ErrorKind::Closed,
                "the set is being given up: `tidegate abandon --manifest` ends that",
            ),
            (PointerState::Nothing, None) => refused(
                ErrorKind::NotFound,
                "no set of uploads was begun with this pointer: commit it with the files of its uploads",
            ),
        }
    }

    /// Gives up all uploads of a set that was not begun. Of this and a [`commit_all`](Self::commit_all) at the same time, the
    /// one whose intent is written first goes on, and the other one fails.
    ///
    /// # Errors
    /// [`ErrorKind::Closed`] once the intent to publish was written, of this set or of another one with some of its uploads:
    /// nothing is given up; see [`abandon_set`](Self::abandon_set). Also if one of the uploads was committed alone: the others
    /// are given up. Other errors of [`abandon`](Self::abandon): nobody publishes the set until this was repeated.
    pub async fn abandon_all(&self, manifest: &Manifest) -> Result<()> {
        let root = self.with(self.context().root());
        let begun = "the set is being published, or is: `tidegate commit --manifest` completes it, and `tidegate abandon \
                     --manifest` ends a set that cannot be completed";
        let closed = || root.of_pointer(ErrorKind::Closed, Operation::Abort, manifest.pointer(), begun);
        let claim = match root.claim(manifest, Purpose::Abandon).await? {
            Claim::New(intent) | Claim::Held(intent) => Some(intent),
            Claim::Taken(there) if there.manifest.set() == manifest.set() => return Err(closed()),
            // Another set that is being published has some of these uploads: it must not lose them.
            Claim::Taken(there)
                if there.purpose == Purpose::Publish && there.manifest.shares_with(manifest) =>
            {
                return Err(closed());
            }
            // Another set has the pointer, and this one cannot be begun meanwhile.
            Claim::Taken(_) => None,
        };
        if root.pointer_of(manifest).await? == PointerState::Ours {
            if let Some(claim) = claim {
                root.remove_intent(&claim).await?;
            }
            return Err(closed());
        }
        let ended = root.abandon_each(manifest.pending()).await;
        let is_decided = |ended: &Result<()>| match ended {
            Ok(()) => true,
            Err(error) => error.kind() == ErrorKind::Closed,
        };
        if let Some(claim) = claim
            && ended.iter().all(is_decided)
        {
            root.remove_intent(&claim).await?;
        }
        ended.into_iter().collect()
    }

    /// Ends an [`abandon_all`](Self::abandon_all) that another process has not brought to its end, from the store alone:
    /// `pointer` is the pointer's key. Unlike that, writes nothing, and does nothing where no set of this pointer is being
    /// given up.
    ///
    /// # Errors
    /// Those of [`abandon`](Self::abandon): nobody publishes the set until this was repeated.
    pub async fn end_abandoning(&self, pointer: &str) -> Result<()> {
        let root = self.with(self.context().root());
        let intent = root.read_intent(&self.context().prefixed(pointer)).await?;
        let Some(claim) = intent.filter(|intent| intent.purpose == Purpose::Abandon) else { return Ok(()) };
        root.end_each(&claim.manifest).await?;
        root.remove_intent(&claim).await
    }

    /// Ends a set that was begun and cannot be completed, from the store alone: `pointer` is the pointer's key. Gives up
    /// every upload of the set that is not published; what is visible stays. Nobody writes the pointer of this set then,
    /// and another set may have it.
    ///
    /// Also ends an [`abandon_all`](Self::abandon_all) that did not get to its end.
    ///
    /// # Errors
    /// [`ErrorKind::Closed`] if the set can be completed, or is complete: [`roll_forward`](Self::roll_forward).
    /// [`ErrorKind::NotFound`] if no set was begun. Otherwise as [`abandon`](Self::abandon): repeat it.
    pub async fn abandon_set(&self, pointer: &str) -> Result<AbandonedSet> {
        let root = self.with(self.context().root());
        let pointer = self.context().prefixed(pointer);
        let refused = |kind, message| Err(root.of_pointer(kind, Operation::Abort, &pointer, message));
        let Some(intent) = root.read_intent(&pointer).await? else {
            return match root.read_pointer(&pointer).await?.0 {
                PointerState::Ours | PointerState::OfAnotherSet => {
                    refused(ErrorKind::Closed, "the set is complete")
                }
                PointerState::Nothing | PointerState::NoPointer => {
                    refused(ErrorKind::NotFound, "no set of uploads was begun with this pointer")
                }
            };
        };
        let manifest = &intent.manifest;
        let can_be_completed =
            "every upload of the set can be published: `tidegate commit --manifest` completes it";
        if intent.purpose == Purpose::Publish {
            let checked = root.check_each(manifest).await;
            match root.confirm(manifest, checked).await {
                Ok(()) => return refused(ErrorKind::Closed, can_be_completed),
                Err(error) if is_final(&error) => {}
                Err(error) => return Err(error),
            }
        }
        let ended = root.end_each(manifest).await?;
        if ended.abandoned.is_empty() {
            if intent.purpose == Purpose::Publish {
                // Another process has published the last one meanwhile.
                return refused(ErrorKind::Closed, can_be_completed);
            }
            if root.pointer_of(manifest).await? == PointerState::Ours {
                // A request of a process that gave up came late.
                root.remove_intent(&intent).await?;
                return refused(ErrorKind::Closed, "the set is complete");
            }
        }
        root.remove_intent(&intent).await?;
        Ok(ended)
    }

    /// Commits every upload of a set. One that fails does not keep the others.
    async fn commit_each(&self, manifest: &Manifest) -> Result<Vec<Object>> {
        let commits: Vec<_> = manifest.pending().iter().map(|pending| self.commit(pending)).collect();
        let committed: Vec<Result<Object>> = stream::iter(commits).buffered(AT_ONCE).collect().await;
        first_error(committed)
    }

    async fn abandon_each(&self, pending: &[Pending]) -> Vec<Result<()>> {
        let abandons: Vec<_> = pending.iter().map(|pending| self.abandon(pending)).collect();
        stream::iter(abandons).buffered(AT_ONCE).collect().await
    }

    /// Gives up every upload of a set that is not published.
    async fn end_each(&self, manifest: &Manifest) -> Result<AbandonedSet> {
        let mut ended = AbandonedSet::default();
        let each = self.abandon_each(manifest.pending()).await;
        for (pending, abandoned) in manifest.pending().iter().zip(each) {
            match abandoned {
                Ok(()) => ended.abandoned.push(pending.clone()),
                Err(error) if error.kind() == ErrorKind::Closed => ended.visible.push(pending.clone()),
                Err(error) => return Err(error),
            }
        }
        Ok(ended)
    }

    /// The error of an upload that cannot be published, with what is known of its set.
    async fn with_state(&self, manifest: &Manifest, error: Error) -> Error {
        if !is_final(&error) {
            return error;
        }
        let is_ours = |intent: &Intent| intent.manifest.set() == manifest.set();
        let state = match self.read_intent(manifest.pointer()).await {
            Ok(Some(intent)) if is_ours(&intent) && intent.purpose == Purpose::Publish => {
                "the set was begun and cannot be completed without this upload: `tidegate abandon --manifest` ends the set"
            }
            Ok(Some(intent)) if is_ours(&intent) => "the set is being given up",
            Ok(_) => match self.pointer_of(manifest).await {
                Ok(PointerState::Ours) => "the set was published before",
                Ok(_) => "the set was not begun",
                Err(_) => "whether the set was begun is not known",
            },
            Err(_) => "whether the set was begun is not known",
        };
        error.and(state)
    }

    /// The error of a set whose pointer's intent is another one.
    fn taken(&self, manifest: &Manifest, there: &Intent) -> Error {
        let (kind, message) = match (there.manifest.set() == manifest.set(), there.purpose) {
            (true, _) => {
                (ErrorKind::SessionLost, "the set is being given up: `tidegate abandon --manifest` ends that")
            }
            (false, Purpose::Publish) => {
                (ErrorKind::AlreadyExists, "another set of uploads with this pointer is being published")
            }
            (false, Purpose::Abandon) => (
                ErrorKind::AlreadyExists,
                "another set of uploads with this pointer is being given up: `tidegate abandon --manifest` ends that",
            ),
        };
        self.of_pointer(kind, Operation::Complete, manifest.pointer(), message)
    }
}
