//! Journal: one append-only file per upload, from which the upload resumes after a crash.
//!
//! docs/JOURNAL.md specifies the file byte by byte. [`list`] and [`verify`] read journals, and block. Neither
//! changes a journal, but `list` removes files that nobody needs any more.
//!
//! Programs use the crate `tidegate`, which re-exports what they need. This crate is for Tidegate's own crates, and its items
//! may change with every version.

#![allow(rustdoc::private_intra_doc_links, reason = "the documentation is for those who change this crate")]

#[cfg(any(test, feature = "testkit"))]
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bytes::Bytes;
use tokio::runtime::Handle;
use tokio::sync::watch;

use tidegate_core::types::checksum::Checksum;
use tidegate_core::types::owner_process::OwnerProcess;
use tidegate_core::types::spawn_blocking::spawn_blocking;
use tidegate_core::types::trusted_file::TrustedOwners;

mod directory;
mod disk;
mod durability;
mod error;
mod format;
mod in_use;
mod index;
mod log;
mod new_journal;
mod read;
mod reader;
mod record;
mod recover;
mod reserve;
mod sound;
mod space;
mod sync;
#[cfg(any(test, feature = "testkit"))]
pub mod testkit;
#[cfg(test)]
mod tests;
mod walk;

pub use directory::{Listed, discard, examine, list, list_of, look_at as look, verify};
pub use disk::JournalFile;
pub use durability::Durability;
use durability::sync_later;
pub use error::JournalError;
pub use in_use::{InUse, is_in_use};
use log::Log;
pub use new_journal::NewJournal;
pub use reader::JournalReader;
use record::Record;
pub use record::{End, Header, JournalState, JournaledSession, Part, SessionKind, sum};
pub use recover::Recovered;

/// How long `resume` waits for processes that only read the journal: a listing or a verification locks it too.
const LOOK: Duration = Duration::from_secs(10);
/// The pause between two attempts to lock the journal: about as long as a listing takes.
const LOOK_AGAIN: Duration = Duration::from_millis(5);

/// A journal that is open for appending; clones share it.
///
/// Its methods may be called concurrently and from several tasks, except [`append`](Self::append): the order of
/// appends is the order of the object's bytes. Dropping a future undoes nothing: work that has begun runs to its
/// end in the background, and records of the session are still written in the order of the calls. The file is
/// unlocked when the last clone and all [readers](Self::reader) are dropped and all work that had begun is done.
#[derive(Clone, Debug)]
pub struct Journal {
    shared: Arc<JournalShared>,
}

#[derive(Debug)]
struct JournalShared {
    /// The process that appends to the journal.
    owner: OwnerProcess,
    log: Arc<Log>,
    durability: Durability,
    /// True while a sync is scheduled for the end of the group's delay.
    timed: AtomicBool,
    /// True while a background sync is running.
    flying: AtomicBool,
    /// See [`Journal::in_order`].
    order: Arc<tokio::sync::Mutex<()>>,
    /// Dropped after `log`, which tells `closed` that the file is closed.
    open: Arc<watch::Sender<()>>,
}

impl Journal {
    /// Creates a journal in the first of these directories that accepts one. When this returns, the journal is
    /// durable and locked. If the future is dropped, no journal is left.
    pub async fn begin(
        directories: &[PathBuf],
        header: Header,
        durability: Durability,
    ) -> Result<NewJournal, JournalError> {
        let directories = directories.to_owned();
        let (file, log) = spawn_blocking(move || directory::create(&directories, &header)).await?;
        Ok(NewJournal { file, journal: Self::new(log, durability) })
    }

    /// As `begin`, and keeps the journal.
    #[cfg(any(test, feature = "testkit"))]
    pub async fn create(
        directories: &[PathBuf],
        header: Header,
        durability: Durability,
    ) -> Result<Self, JournalError> {
        Self::begin(directories, header, durability).await.map(NewJournal::keep)
    }

    /// Opens the journal of an interrupted upload and returns what was recovered from it; the producer continues at
    /// byte `checksum.covers()`. Everything that was recovered is durable, however the process that wrote it ended.
    ///
    /// # Errors
    /// [`JournalError::InUse`] if another process has the journal; [`JournalError::Damaged`] if bytes that were
    /// durable once are damaged.
    pub async fn resume(
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
        let (owner, order) = (OwnerProcess::this(), Arc::default());
        let shared = JournalShared { owner, log, durability, timed, flying, order, open };
        Self { shared: Arc::new(shared) }
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.shared.log.path
    }

    /// Appends the object's next bytes and returns the object's new length. The bytes can be read at once, and
    /// become durable as [`Durability`] says.
    ///
    /// # Errors
    /// After an error the journal has no byte of this append. The exception is [`JournalError::Lost`]: if the bytes
    /// were written and the sync failed, they can be read and may be recovered, and the journal accepts nothing
    /// more. After [`JournalError::Full`] the append can be tried again when there is space.
    pub async fn append(&self, pieces: Vec<Bytes>) -> Result<u64, JournalError> {
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
            // Here, because the caller may have dropped its future by now.
            sync_later(&shared, &runtime);
            Ok(length)
        })
        .await
    }

    /// Waits until everything that was appended before is durable, and returns how many bytes of the object that
    /// is.
    ///
    /// # Errors
    /// [`JournalError::Lost`] if the sync failed: it is not tried again, and the journal accepts nothing more. Its
    /// bytes can still be read, as far as the system has them.
    pub async fn sync(&self) -> Result<u64, JournalError> {
        let shared = self.shared.clone();
        spawn_blocking(move || shared.log.sync()).await
    }

    /// Records the session that the bytes go to, durably. It replaces an earlier session, whose parts and
    /// acknowledged bytes are forgotten; no bytes may have been given back for the earlier session.
    pub async fn session(&self, session: JournaledSession) -> Result<(), JournalError> {
        self.record(Record::Session(session), true).await
    }

    /// Records that the store has a part. The record becomes durable with the next sync; if it is lost, the part is
    /// sent again.
    pub async fn part(&self, part: Part) -> Result<(), JournalError> {
        self.record(Record::Part(part), false).await
    }

    /// Records that the session has acknowledged all bytes below `offset`. As with [`part`](Self::part), the record
    /// becomes durable with the next sync.
    pub async fn committed(&self, offset: u64) -> Result<(), JournalError> {
        self.record(Record::Committed(offset), false).await
    }

    /// Records that no byte follows, durably, and returns the whole object's checksum, which includes its size.
    pub async fn finish(&self) -> Result<Checksum, JournalError> {
        let shared = self.shared.clone();
        spawn_blocking(move || {
            let checksum = shared.log.finish()?;
            shared.log.sync()?;
            Ok(checksum)
        })
        .await
    }

    /// Records how the upload ended, durably, and removes the file. The file is removed even if the record can't be
    /// written: should it reappear after a loss of power, the store is asked how the upload ended.
    pub async fn end(self, end: End) -> Result<(), JournalError> {
        let shared = self.shared;
        spawn_blocking(move || {
            // An earlier process may have recorded the end and died before it removed the file.
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

    /// Waits until everything else that has the file open is dropped, and the file is unlocked.
    pub async fn closed(self) {
        let mut open = self.shared.open.subscribe();
        drop(self);
        // Returns an error, because the sender is dropped.
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

    /// Runs work that reads or changes the session's state after all such work that was begun earlier, including
    /// work whose caller has dropped its future: a late record would be taken for one of the next session's.
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

    /// Gives back the disk space of the [acknowledged](Self::committed) bytes, if that is at least `least` bytes,
    /// and returns how many bytes it gave back; 0 if the file system can't punch holes. This costs two syncs and
    /// writes all records once more, so `least` is best some tens of MiB. The bytes can't be read any more: a
    /// session that is lost after this can't be replaced.
    ///
    /// # Errors
    /// If reading, writing, syncing or punching fails. The journal is whole all the same, except after
    /// [`JournalError::Lost`].
    pub async fn give_back(&self, least: u64) -> Result<u64, JournalError> {
        self.in_order(move |log| log.give_back(least)).await
    }

    /// Whether bytes were given back, or will be when the upload is resumed. Waits for an append and for a
    /// `give_back` that are under way.
    pub async fn has_given_back(&self) -> Result<bool, JournalError> {
        self.in_order(|log| Ok(log.tail().given_back > 0)).await
    }

    /// Bytes of the object that were appended.
    #[expect(clippy::len_without_is_empty, reason = "a number of bytes, not of elements")]
    pub fn len(&self) -> u64 {
        self.shared.log.view().end.object
    }

    /// Bytes of the object that are durable. A session of the kind [`SessionKind::Append`] should be sent no more
    /// than these, because bytes that it has acknowledged can't be replaced by other ones that a producer sends
    /// after a loss of power.
    pub fn durable(&self) -> u64 {
        self.shared.log.view().synced.object
    }

    /// [`JournalError::Lost`] if a sync has failed. Bytes that are not [durable](Self::durable) then may never be.
    pub fn failure(&self) -> Option<JournalError> {
        self.shared.log.check_failed().err()
    }

    /// The checksum of all bytes that were appended. Waits for an append that is under way.
    pub async fn checksum(&self) -> Result<Checksum, JournalError> {
        let shared = self.shared.clone();
        spawn_blocking(move || Ok(shared.log.checksum())).await
    }

    /// The state of the upload. Waits for an append that is under way.
    pub async fn state(&self) -> Result<JournalState, JournalError> {
        let shared = self.shared.clone();
        spawn_blocking(move || Ok(shared.log.state())).await
    }

    /// Simulates a failed sync.
    #[cfg(any(test, feature = "testkit"))]
    pub fn fail(&self) {
        self.shared.log.fail(&io::Error::other("the disk is gone"));
    }

    /// Reads the object's bytes, by their offset in the object.
    pub fn reader(&self) -> JournalReader {
        JournalReader { shared: self.shared.clone(), near: Mutex::default() }
    }
}
