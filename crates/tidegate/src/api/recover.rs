//! What earlier processes left in the journal directories, and going on with it.

use std::fmt;
use std::path::{Path, PathBuf};

use crate::api::{Store, Tidegate};
use crate::engine::records;
use crate::journal::{self, JournalError, Listed, Recovered};
use crate::types::error::{Error, ErrorKind, Operation, Result};
use crate::types::object::Object;
use crate::types::spawn_blocking::spawn_blocking;
use crate::types::trusted_file::TrustedOwners;
use crate::upload::{self, Claimed, Resumed};

/// An upload that was left in a journal, or is being written by another process.
///
/// ```no_run
/// # async fn run() -> tidegate::Result<()> {
/// use tidegate::{Resumed, Tidegate};
/// let tide = Tidegate::builder().journal(["/mnt/ssd1/journal"]).build()?;
/// for left in tide.recover().await? {
///     match left.resume().await? {
///         Resumed::Object(object) => println!("{} is there", object.key),
///         Resumed::Writer(writer) => println!("goes on at byte {}", writer.position()),
///     }
/// }
/// # Ok(()) }
/// ```
pub struct Left {
    tide: Tidegate,
    path: PathBuf,
    found: Result<Recovered, JournalError>,
}

impl Tidegate {
    /// Lists what is in the journal directories: uploads that were left, and those that another process, or
    /// a writer of this one, is writing now ([`Left::problem`]). A directory that can't be read is such a
    /// problem, too. No upload is changed; files of those that have ended are removed, and after a day those
    /// of uploads that never began.
    ///
    /// # Errors
    /// Where no directory can be read. What is wrong with one journal is told by it.
    pub async fn recover(&self) -> Result<Vec<Left>> {
        let (mut left, unread) = self.left(String::new()).await;
        if unread.len() == self.engine().journaling.directories.len() {
            all_read(unread)?;
        } else {
            let unread = unread.into_iter();
            left.extend(unread.map(|(path, error)| Left { tide: self.clone(), path, found: Err(error) }));
        }
        Ok(left)
    }

    /// Those whose ids begin so, and the directories that can't be read.
    async fn left(&self, ids: String) -> (Vec<Left>, Vec<Unread>) {
        let (directories, owners) =
            (self.engine().journaling.directories.clone(), self.engine().owners.clone());
        let (listed, unread) = spawn_blocking(move || list(&directories, &ids, &owners)).await;
        let left = |Listed { path, found }| {
            let found = found.and_then(|found| found.check(&path).map(|()| found));
            Left { tide: self.clone(), path, found }
        };
        (listed.into_iter().map(left).collect(), unread)
    }

    /// Goes on with the upload of this id, as [`recover`](Self::recover) lists it.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`] where no journal directory has one of this id; where that can't be told, why a
    /// directory can't be read; and those of [`Left::resume`].
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
    /// The uploads of `key` that are in the journal directories, those that somebody writes now
    /// ([`Left::problem`]) among them; no other journal is looked at. See [`Tidegate::recover`].
    ///
    /// # Errors
    /// Where a directory can't be read: those of `key` may be there.
    pub async fn left(&self, key: &str) -> Result<Vec<Left>> {
        let ids = upload::ids(&**self.context().backend(), &self.context().full_key(key));
        let (mut left, unread) = self.tide().left(ids).await;
        all_read(unread)?;
        left.retain(|left| left.is_of(self, key));
        Ok(left)
    }
}

impl Left {
    /// The upload's id: the name of its file.
    pub fn id(&self) -> &str {
        self.path.file_stem().and_then(|name| name.to_str()).unwrap_or_default()
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What is in it; `None` where that can't be told, see [`problem`](Self::problem).
    pub fn recovered(&self) -> Option<&Recovered> {
        self.found.as_ref().ok()
    }

    /// Why it can't be gone on with: [`JournalError::InUse`] while somebody writes it, or what is wrong
    /// with it.
    pub fn problem(&self) -> Option<&JournalError> {
        self.found.as_ref().err()
    }

    /// The object, as a URL; `None` where that is not known.
    pub fn url(&self) -> Option<String> {
        let header = &self.recovered()?.state.header;
        Some(format!("{}/{}", header.url, header.key))
    }

    /// Whether it is of `key` in `store`, whoever writes it now: what another process has, and what is
    /// damaged, is known by its name.
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

    /// Bytes of the object that are in the journal, or were acknowledged by the store.
    pub fn length(&self) -> u64 {
        self.recovered().map_or(0, |found| found.checksum.covers())
    }

    /// Whether its producer had finished, so that it is not needed any more.
    pub fn is_finished(&self) -> bool {
        self.recovered().is_some_and(|found| found.state.finish.is_some())
    }

    /// Takes it, so that nobody else goes on with it: what is in it now may be more than when it was
    /// listed.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`] where another process has it; [`ErrorKind::Integrity`] where it is
    /// damaged; [`ErrorKind::NotFound`] where it has ended meanwhile.
    pub async fn claim(&self) -> Result<Claimed> {
        let (store, own) = (self.store().await?, TrustedOwners::default());
        if store.context().backend().endpoint() != LOCAL {
            return self.claim_on(&store).await;
        }
        // A store's endpoint is in the caller's settings. Nobody but the journal names the directory: that of a user who
        // may be trusted for its bytes must not say what this process writes to.
        let claimed = Box::pin(Claimed::open(store.context(), &self.path, &own)).await;
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

    /// The same on a store that is open already, such as one of a backend of the caller's.
    pub async fn claim_on(&self, store: &Store) -> Result<Claimed> {
        Box::pin(Claimed::open(store.context(), &self.path, &self.tide.engine().owners)).await
    }

    /// Goes on with it. Where its producer had finished, this ends with the object: sent from the
    /// journal as far as the store did not have it. A session that has expired is opened again and
    /// filled from the journal, as long as that has all bytes yet. Where the object was published and
    /// removed again before anybody could tell, it is published once more.
    ///
    /// # Errors
    /// Those of [`claim`](Self::claim); [`ErrorKind::SessionLost`] where the session is gone and the journal
    /// has given bytes back; [`ErrorKind::Uncertain`] where it may have been published, and what is there
    /// now came since. The journal stays then.
    pub async fn resume(&self) -> Result<Resumed> {
        Box::pin(Box::pin(self.claim()).await?.resume()).await
    }

    /// The same on a store that is open already.
    pub async fn resume_on(&self, store: &Store) -> Result<Resumed> {
        Box::pin(self.claim_on(store).await?.resume()).await
    }

    /// Ends the upload: its session at the store is aborted, its journal removed. The object, where it
    /// turns out that it was published: it stays.
    ///
    /// # Errors
    /// Those of [`claim`](Self::claim), and of the store. The journal stays then.
    pub async fn abort(&self) -> Result<Option<Object>> {
        Box::pin(Box::pin(self.claim()).await?.abort()).await
    }

    /// The same on a store that is open already.
    pub async fn abort_on(&self, store: &Store) -> Result<Option<Object>> {
        Box::pin(self.claim_on(store).await?.abort()).await
    }

    /// Removes its journal with all bytes that are in it, and asks nothing of the store, which may be gone.
    /// A session that is there yet is left to a [sweep](Store::sweep). A journal that is damaged, or of a later
    /// version, goes too, and so does a file of that name that is no journal.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`] where another process has it; those of the file system.
    pub async fn forget(&self) -> Result<()> {
        let engine = self.tide.engine();
        upload::forget(&self.path, &engine.journaling, &engine.owners).await
    }

    /// Reads every byte of its journal, compares the checksums and says what is in it. Nothing is changed.
    ///
    /// # Errors
    /// What is wrong with it.
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
            // It may be in use no more: a writer of this process that was just dropped lets go of it soon.
            Err(JournalError::InUse { .. }) => {
                let engine = self.tide.engine();
                looked = engine.journaling.live.look(&self.path, &engine.owners).await;
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

impl fmt::Debug for Left {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Left").field("path", &self.path).field("found", &self.found).finish_non_exhaustive()
    }
}
