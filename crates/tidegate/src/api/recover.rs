//! Uploads that earlier processes left in the journal directories: list, resume, abort.

use std::fmt;
use std::path::{Path, PathBuf};

use crate::api::{Store, Tidegate};
use crate::engine::journaling::live;
use crate::engine::records;
use crate::journal::{self, JournalError, Listed, Recovered};
use crate::types::error::{Error, ErrorKind, Operation, Result};
use crate::types::object::Object;
use crate::types::spawn_blocking::spawn_blocking;
use crate::types::trusted_file::TrustedOwners;
use crate::upload::{self, ClaimedUpload, Resumed};

/// An upload that was left in a journal, or that another process is writing.
///
/// ```no_run
/// # async fn run() -> tidegate::Result<()> {
/// use tidegate::recover::Resumed;
/// use tidegate::Tidegate;
/// let tide = Tidegate::builder().journal(["/mnt/ssd1/journal"]).build()?;
/// for left in tide.recover().await? {
///     match left.resume().await? {
///         Resumed::Object(object) => println!("{} is there", object.key),
///         Resumed::Writer(writer) => println!("goes on at byte {}", writer.position()),
///     }
/// }
/// # Ok(()) }
/// ```
pub struct LeftUpload {
    tide: Tidegate,
    path: PathBuf,
    found: Result<Recovered, JournalError>,
}

impl Tidegate {
    /// Lists the uploads in the journal directories: those that were left, and those that another process, or a
    /// writer of this one, is writing now ([`LeftUpload::problem`]). A directory that cannot be read is listed as a
    /// problem, too. No upload is changed. Files of ended uploads are removed; files of uploads that never began are
    /// removed after a day.
    ///
    /// # Errors
    /// If no directory can be read. A problem with one journal is in its entry instead ([`LeftUpload::problem`]).
    pub async fn recover(&self) -> Result<Vec<LeftUpload>> {
        let (mut left, unread) = self.left(String::new()).await;
        if unread.len() == self.engine().journaling.directories.len() {
            all_read(unread)?;
        } else {
            let unread = unread.into_iter();
            left.extend(unread.map(|(path, error)| LeftUpload {
                tide: self.clone(),
                path,
                found: Err(error),
            }));
        }
        Ok(left)
    }

    /// The uploads whose ids begin with `ids`, and the directories that cannot be read.
    async fn left(&self, ids: String) -> (Vec<LeftUpload>, Vec<Unread>) {
        let (directories, owners) =
            (self.engine().journaling.directories.clone(), self.engine().owners.clone());
        let (listed, unread) = spawn_blocking(move || list(&directories, &ids, &owners)).await;
        let left = |Listed { path, found, .. }| {
            let found = found.and_then(|found| found.check(&path).map(|()| found));
            LeftUpload { tide: self.clone(), path, found }
        };
        (listed.into_iter().map(left).collect(), unread)
    }

    /// Resumes the upload with this id, as listed by [`recover`](Self::recover).
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`] if no journal directory has an upload with this id; if a directory that may have it
    /// cannot be read, the reason for that; and the errors of [`LeftUpload::resume`].
    pub async fn resume(&self, id: &str) -> Result<Resumed> {
        let (left, unread) = self.left(id.to_owned()).await;
        let Some(left) = left.into_iter().find(|left| left.id() == id) else {
            all_read(unread)?;
            let message = format!("there is no upload {id}");
            return Err(Error::new(ErrorKind::NotFound, Operation::List, "journals", message));
        };
        left.resume().await
    }
}

impl Store {
    /// The uploads of `key` in the journal directories, also those that are being written now
    /// ([`LeftUpload::problem`]). Reads no other journals. See [`Tidegate::recover`].
    ///
    /// # Errors
    /// If a directory cannot be read, because it may hold uploads of `key`.
    pub async fn left(&self, key: &str) -> Result<Vec<LeftUpload>> {
        let ids = upload::ids(&**self.context().backend(), &self.context().full_key(key));
        let (mut left, unread) = self.tide().left(ids).await;
        all_read(unread)?;
        left.retain(|left| left.is_of(self, key));
        Ok(left)
    }
}

impl LeftUpload {
    /// The upload's id: the name of its journal file without the extension.
    pub fn id(&self) -> &str {
        self.path.file_stem().and_then(|name| name.to_str()).unwrap_or_default()
    }

    /// The journal file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The journal's content; `None` if it cannot be read, see [`problem`](Self::problem).
    pub fn recovered(&self) -> Option<&Recovered> {
        self.found.as_ref().ok()
    }

    /// Why the upload cannot be resumed: [`JournalError::InUse`] while it is being written, or the damage.
    pub fn problem(&self) -> Option<&JournalError> {
        self.found.as_ref().err()
    }

    /// The object's URL; `None` if it is not known.
    pub fn url(&self) -> Option<String> {
        let header = &self.recovered()?.state.header;
        Some(format!("{}/{}", header.url, header.key))
    }

    /// Whether this is an upload of `key` in `store`. A journal that is in use or damaged is recognized by its file
    /// name.
    pub fn is_of(&self, store: &Store, key: &str) -> bool {
        let (backend, key) = (&**store.context().backend(), store.context().full_key(key));
        match self.recovered() {
            Some(found) => {
                let header = &found.state.header;
                header.url == records::root(backend) && header.key == key
            }
            None => self.id().starts_with(&upload::ids(backend, &key)),
        }
    }

    /// Bytes of the object that are in the journal or were acknowledged by the store; 0 if the journal cannot be
    /// read.
    pub fn length(&self) -> u64 {
        self.recovered().map_or(0, |found| found.checksum.covers())
    }

    /// Whether its producer had finished, so that the upload can be completed without the producer.
    pub fn is_finished(&self) -> bool {
        self.recovered().is_some_and(|found| found.state.finish.is_some())
    }

    /// Takes the upload, so that nobody else can resume it. Its journal may now hold more bytes than when it was
    /// listed.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`] if the journal is in use; [`ErrorKind::Integrity`] if the journal is damaged;
    /// [`ErrorKind::NotFound`] if the upload has ended in the meantime; `ErrorKind::PermissionDenied` if the journal
    /// goes to a local directory and does not belong to the process's own user.
    pub async fn claim(&self) -> Result<ClaimedUpload> {
        let (store, own) = (self.store().await?, TrustedOwners::default());
        if store.context().backend().endpoint() != LOCAL {
            return self.claim_on(&store).await;
        }
        // A store's endpoint comes from the caller's settings, but only the journal names a local directory. A
        // trusted user's journal may supply bytes; it must not choose the directory that this process writes to.
        let claimed = Box::pin(ClaimedUpload::open(store.context(), &self.path, &own)).await;
        claimed.map_err(|error| match error.kind() {
            ErrorKind::PermissionDenied => {
                let object = self.path.display().to_string();
                let message = format!(
                    "{error}; and only the journal says that it goes to {}: copy its source again, naming that as \
                     the target",
                    store.location()
                );
                Error::new(ErrorKind::PermissionDenied, Operation::Write, object, message).with_source(error)
            }
            _ => error,
        })
    }

    /// As [`claim`](Self::claim), on a store that is already open, such as one on the caller's own backend.
    pub async fn claim_on(&self, store: &Store) -> Result<ClaimedUpload> {
        Box::pin(ClaimedUpload::open(store.context(), &self.path, &self.tide.engine().owners)).await
    }

    /// Resumes the upload. If its producer had finished, the missing bytes are sent from the journal and the object
    /// is published. If the session has expired, it is opened again and filled from the journal, as long as the
    /// journal still has all bytes. If the object was published and removed again before that could be recorded, it
    /// is published once more.
    ///
    /// # Errors
    /// Those of [`claim`](Self::claim); [`ErrorKind::SessionLost`] if the session is gone and the journal no longer
    /// has all bytes; [`ErrorKind::Uncertain`] if the object may have been published, but the key's present object
    /// was written later. With the last two the journal stays.
    pub async fn resume(&self) -> Result<Resumed> {
        Box::pin(Box::pin(self.claim()).await?.resume()).await
    }

    /// As [`resume`](Self::resume), on a store that is already open.
    pub async fn resume_on(&self, store: &Store) -> Result<Resumed> {
        Box::pin(self.claim_on(store).await?.resume()).await
    }

    /// Ends the upload: aborts its session at the store and removes its journal. If the object turns out to have been
    /// published, it stays and is returned.
    ///
    /// # Errors
    /// Those of [`claim`](Self::claim), and of the store. The journal stays after an error.
    pub async fn abort(&self) -> Result<Option<Object>> {
        Box::pin(Box::pin(self.claim()).await?.abort()).await
    }

    /// As [`abort`](Self::abort), on a store that is already open.
    pub async fn abort_on(&self, store: &Store) -> Result<Option<Object>> {
        Box::pin(self.claim_on(store).await?.abort()).await
    }

    /// Removes the journal with all its bytes, and sends nothing to the store, which may be gone. If the session
    /// still exists, it is left to a [sweep](Store::sweep). A damaged journal, one of a later version, and a file of
    /// such a name that is no journal are removed as well.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`] if the journal is in use; the errors of the file system.
    pub async fn forget(&self) -> Result<()> {
        let engine = self.tide.engine();
        upload::forget(&self.path, &engine.journaling, &engine.owners).await
    }

    /// Reads every byte of the journal, compares the checksums and returns the content. Changes nothing.
    ///
    /// # Errors
    /// The damage that was found.
    pub async fn verify(&self) -> Result<Recovered, JournalError> {
        let (path, owners) = (self.path.clone(), self.tide.engine().owners.clone());
        spawn_blocking(move || {
            let found = journal::verify(&path, &owners)?;
            found.check(&path)?;
            Ok(found)
        })
        .await
    }

    async fn store(&self) -> Result<Store> {
        let looked;
        let found = match &self.found {
            // The journal may be free by now: a writer of this process that was just dropped soon releases it.
            Err(JournalError::InUse { .. }) => {
                let engine = self.tide.engine();
                looked = live::look(&self.path, &engine.owners).await;
                &looked
            }
            found => found,
        };
        match found {
            Ok(found) => self.tide.open(&found.state.header.url).await,
            Err(error) => {
                let object = self.path.display().to_string();
                Err(Error::new(error.kind(), Operation::Write, object, error.to_string()))
            }
        }
    }
}

/// The endpoint of local directories.
const LOCAL: &str = "file://";

/// A directory that can't be read.
type Unread = (PathBuf, JournalError);

fn list(directories: &[PathBuf], ids: &str, owners: &TrustedOwners) -> (Vec<Listed>, Vec<Unread>) {
    let (mut all, mut unread) = (Vec::new(), Vec::new());
    for directory in directories {
        match journal::list_of(directory, ids, owners) {
            Ok(listed) => all.extend(listed),
            Err(error) => unread.push((directory.clone(), error)),
        }
    }
    (all, unread)
}

fn all_read(unread: Vec<Unread>) -> Result<()> {
    unread.into_iter().next().map_or(Ok(()), |(_, error)| {
        Err(Error::new(error.kind(), Operation::List, "journals", error.to_string()).with_source(error))
    })
}

impl fmt::Debug for LeftUpload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LeftUpload")
            .field("path", &self.path)
            .field("found", &self.found)
            .finish_non_exhaustive()
    }
}
