//! Journal: one append-only file an upload, from which it can be gone on with after a crash.
//!
//! What the file holds, byte by byte, is in docs/JOURNAL.md. [`list`] and [`verify`] look at journals
//! without changing them, but for files that nobody needs, which `list` removes; they block.

#[cfg(test)]
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bytes::Bytes;
use tokio::runtime::Handle;
use tokio::sync::watch;

use crate::types::checksum::Checksum;
use crate::types::spawn_blocking::spawn_blocking;
use crate::types::trusted_file::TrustedOwners;

mod begun;
mod directory;
mod disk;
mod durability;
mod error;
mod format;
mod index;
mod log;
mod read;
mod reader;
mod record;
mod recover;
mod reserve;
mod sound;
mod space;
mod sync;
#[cfg(test)]
mod tests;
mod walk;

pub(crate) use begun::Begun;
pub use directory::{Listed, examine, list, verify};
pub(crate) use directory::{discard, list_of, look_at as look};
pub use disk::JournalFile;
pub use durability::Durability;
use durability::sync_later;
pub use error::JournalError;
use log::Log;
pub(crate) use reader::JournalReader;
use record::Record;
pub use record::{End, Header, Part, Session, SessionKind, State};
pub use recover::Recovered;
#[cfg(test)]
pub(crate) use tests::power::SimDisk;

/// How long it may be looked at while somebody wants to go on with it.
const LOOK: Duration = Duration::from_secs(10);
/// How long such a look takes, about.
const LOOK_AGAIN: Duration = Duration::from_millis(5);

/// A journal that is open for appending; a clone is the same.
///
/// Its methods may be called at once, and from several tasks, but for [`append`](Self::append), whose
/// order is the object's. None is undone where its future is dropped: what was begun is done, in its
/// own time; what the session has is written down in the order in which it was said all the same. The file
/// is unlocked when the last clone and all [readers](Self::reader) are dropped, and what was begun is done.
#[derive(Clone, Debug)]
pub(crate) struct Journal {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    log: Arc<Log>,
    durability: Durability,
    /// Whether a sync is to come in a while.
    timed: AtomicBool,
    /// Whether one was begun that nobody waits for.
    flying: AtomicBool,
    /// See [`Journal::in_order`].
    order: Arc<tokio::sync::Mutex<()>>,
    /// Behind the log: gone when the file is closed.
    open: Arc<watch::Sender<()>>,
}

impl Journal {
    /// Begins a journal in the first of these directories that takes it. It is durable when this
    /// returns, and it is locked. Where the future is dropped there is none.
    pub(crate) async fn begin(
        directories: &[PathBuf],
        header: Header,
        durability: Durability,
    ) -> Result<Begun, JournalError> {
        let directories = directories.to_owned();
        let (file, log) = spawn_blocking(move || directory::create(&directories, &header)).await?;
        Ok(Begun { file, journal: Self::new(log, durability) })
    }

    /// The same, kept.
    #[cfg(test)]
    pub(crate) async fn create(
        directories: &[PathBuf],
        header: Header,
        durability: Durability,
    ) -> Result<Self, JournalError> {
        Self::begin(directories, header, durability).await.map(Begun::keep)
    }

    /// Opens the journal of an upload that was left, and says what is in it; its producer goes on at
    /// byte `checksum.covers()`. All that is recovered is durable, whatever became of the process that
    /// wrote it.
    ///
    /// # Errors
    /// [`JournalError::InUse`] where another process has it; [`JournalError::Damaged`] where what was
    /// durable once is not whole any more.
    pub(crate) async fn resume(
        path: &Path,
        durability: Durability,
        owners: &TrustedOwners,
    ) -> Result<(Self, Recovered), JournalError> {
        let began = Instant::now();
        let file = loop {
            let (path, owners, waits) = (path.to_owned(), owners.clone(), began.elapsed() < LOOK);
            if let Some(file) = spawn_blocking(move || directory::open(&path, waits, &owners)).await? {
                break file;
            }
            tokio::time::sleep(LOOK_AGAIN).await;
        };
        let path = path.to_owned();
        let (log, recovered) = spawn_blocking(move || directory::resume(&path, file)).await?;
        Ok((Self::new(log, durability), recovered))
    }

    fn new(log: Log, durability: Durability) -> Self {
        let (timed, flying) = (AtomicBool::new(false), AtomicBool::new(false));
        let (log, open) = (Arc::new(log), Arc::new(watch::channel(()).0));
        let shared = Shared { log, durability, timed, flying, order: Arc::default(), open };
        Self { shared: Arc::new(shared) }
    }

    /// The file.
    pub(crate) fn path(&self) -> &Path {
        &self.shared.log.path
    }

    /// Appends the object's next bytes and returns its length with them. They can be read at once, and
    /// are durable as [`Durability`] says.
    ///
    /// # Errors
    /// None of the bytes is in the journal then, but after [`JournalError::Lost`]: where they were written
    /// and the sync failed, they can be read, and may be recovered; it takes nothing any more. After
    /// [`JournalError::Full`] it takes them when there is space again.
    pub(crate) async fn append(&self, pieces: Vec<Bytes>) -> Result<u64, JournalError> {
        let (shared, runtime) = (self.shared.clone(), Handle::current());
        spawn_blocking(move || {
            let length = shared.log.append(&pieces)?;
            let unsynced = shared.log.unsynced();
            match shared.durability {
                Durability::Write => shared.log.sync()?,
                Durability::Group { bytes, .. } if unsynced >= bytes.saturating_mul(2) => {
                    shared.log.sync()?
                }
                Durability::Group { .. } | Durability::Sync => 0,
            };
            // Here: its caller may be gone by now.
            sync_later(&shared, &runtime);
            Ok(length)
        })
        .await
    }

    /// Returns when everything that was appended before is durable, with how many bytes of the object
    /// that is.
    ///
    /// # Errors
    /// [`JournalError::Lost`] where the disk did not take it: it is not asked again, and the journal
    /// takes nothing more. Its bytes can still be read, as far as the system has them.
    pub(crate) async fn sync(&self) -> Result<u64, JournalError> {
        let shared = self.shared.clone();
        spawn_blocking(move || shared.log.sync()).await
    }

    /// Writes down the session that the bytes go to, durably. It takes the place of an earlier one, of
    /// which nothing must have been given back; its parts and what it had acknowledged are forgotten.
    pub(crate) async fn session(&self, session: Session) -> Result<(), JournalError> {
        self.record(Record::Session(session), true).await
    }

    /// Writes down that the store has a part. It is durable with the next sync: who loses it sends the
    /// part again.
    pub(crate) async fn part(&self, part: Part) -> Result<(), JournalError> {
        self.record(Record::Part(part), false).await
    }

    /// Writes down that the session has acknowledged all bytes below `offset`. As with
    /// [`part`](Self::part), it is durable with the next sync.
    pub(crate) async fn committed(&self, offset: u64) -> Result<(), JournalError> {
        self.record(Record::Committed(offset), false).await
    }

    /// Writes down that no byte follows, durably, and returns the whole object's checksum, which has its
    /// size too.
    pub(crate) async fn finish(&self) -> Result<Checksum, JournalError> {
        let shared = self.shared.clone();
        spawn_blocking(move || {
            let checksum = shared.log.finish()?;
            shared.log.sync()?;
            Ok(checksum)
        })
        .await
    }

    /// Writes down how the upload ended, durably, and removes the file. It is removed where that can't be
    /// written, too: should it come back after a loss of power, the store is asked how it ended.
    pub(crate) async fn end(self, end: End) -> Result<(), JournalError> {
        let shared = self.shared;
        spawn_blocking(move || {
            // It may be on record, and its process have died before the file was removed.
            let known = shared.log.state().end.is_some();
            let recorded = if known { Ok(0) } else { shared.log.record(Record::End(end)) };
            let recorded = recorded.and_then(|_| shared.log.sync());
            match (recorded, directory::remove(&shared.log.path)) {
                (Err(first), Err(_)) => Err(first),
                (_, removed) => removed,
            }
        })
        .await
    }

    /// Waits until all else that has the file open is gone, and it is unlocked.
    pub(crate) async fn closed(self) {
        let mut open = self.shared.open.subscribe();
        drop(self);
        // An error: nobody can say anything any more.
        let _ = open.changed().await;
    }

    async fn record(&self, record: Record, durable: bool) -> Result<(), JournalError> {
        self.in_order(move |log| {
            log.record(record)?;
            if durable {
                log.sync()?;
            }
            Ok(())
        })
        .await
    }

    /// Does what changes what the session has, or reads it, when all that was begun before is done, also what
    /// has lost its caller: a late record would be taken for one of the next session's.
    async fn in_order<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Log) -> Result<T, JournalError> + Send + 'static,
    ) -> Result<T, JournalError> {
        let shared = self.shared.clone();
        let order = shared.order.clone().lock_owned().await;
        spawn_blocking(move || {
            let _order = order;
            work(&shared.log)
        })
        .await
    }

    /// Gives back the disk space of the bytes that were [committed](Self::committed), where that is at
    /// least `least` bytes, and returns how many it was. It costs two syncs and writes all records once
    /// more, so `least` is best some tens of MiB. The bytes can't be read any more: a session that is lost
    /// after this can't be replaced.
    ///
    /// # Errors
    /// Where the file system can't punch holes ([`JournalError::Io`] with `Unsupported`), or something
    /// fails. The journal is whole all the same, but for [`JournalError::Lost`].
    pub(crate) async fn give_back(&self, least: u64) -> Result<u64, JournalError> {
        self.in_order(move |log| log.give_back(least)).await
    }

    /// Whether bytes were given back, or will be by whoever resumes. Waits for an append that is under way,
    /// and for what is being given back.
    pub(crate) async fn has_given_back(&self) -> Result<bool, JournalError> {
        self.in_order(|log| Ok(log.tail().given_back > 0)).await
    }

    /// Bytes of the object that were appended.
    pub(crate) fn len(&self) -> u64 {
        self.shared.log.view().end.object
    }

    /// Bytes of the object that are durable. No more than these should be sent to a session of the kind
    /// [`SessionKind::Append`]: what it has acknowledged can't be replaced by what a producer sends after
    /// a loss of power.
    pub(crate) fn durable(&self) -> u64 {
        self.shared.log.view().synced.object
    }

    /// That a sync has failed: [`JournalError::Lost`]. What is not [durable](Self::durable) may never be.
    pub(crate) fn failure(&self) -> Option<JournalError> {
        self.shared.log.check_failed().err()
    }

    /// The checksum of all bytes that were appended. Waits for an append that is under way.
    pub(crate) async fn checksum(&self) -> Result<Checksum, JournalError> {
        let shared = self.shared.clone();
        spawn_blocking(move || Ok(shared.log.checksum())).await
    }

    /// What is known of the upload. Waits for an append that is under way.
    pub(crate) async fn state(&self) -> Result<State, JournalError> {
        let shared = self.shared.clone();
        spawn_blocking(move || Ok(shared.log.state())).await
    }

    /// As where the disk does not take a sync.
    #[cfg(test)]
    pub(crate) fn fail(&self) {
        self.shared.log.fail(&io::Error::other("the disk is gone"));
    }

    /// Reads the object's bytes, by their offset in the object.
    pub(crate) fn reader(&self) -> JournalReader {
        JournalReader { shared: self.shared.clone(), near: Mutex::default() }
    }
}
