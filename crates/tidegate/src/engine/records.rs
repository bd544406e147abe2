//! Records the upload sessions of live processes, so that a sweep leaves those alone.
//!
//! Each process keeps one file in the records directory, made when its first session opens and removed when its last
//! one has ended. It holds an advisory lock on the file (`flock`) for as long as it lives: a file whose lock can be
//! taken is from a process that is gone. The object is recorded before the store is asked for a session, and the
//! session's id when the store has returned it. So a sweep that lists sessions first and reads the records then finds
//! every listed session of a live process in them.
//!
//! Records cover one machine. A record that can't be written fails no upload: the error is logged, once.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use tracing::warn;

use crate::backend::Backend;
use crate::types::location::{local_root, of_local_root};
use crate::types::spawn_blocking::spawn_blocking;
use crate::types::trusted_file::TrustedOwners;

mod file;
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) mod fuzzing;
mod roll;
#[cfg(test)]
mod tests;

use file::RecordFile;
pub(crate) use roll::{AbandonedSession, Roll};

/// A session that is open or being opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SessionRecord {
    /// Its endpoint, from [`Backend::endpoint`].
    pub(crate) endpoint: String,
    /// The object that it will become, from [`place`].
    pub(crate) object: String,
    /// The store's id of the session, once it is known.
    pub(crate) id: Option<String>,
    /// When the store was asked for the session.
    pub(crate) since: SystemTime,
    /// Whether its process has abandoned the session without being able to end it.
    pub(crate) left: bool,
}

/// The name of the object at `key`, the same from every directory: a URL or an absolute path.
pub(crate) fn place(backend: &dyn Backend, key: &str) -> String {
    format!("{}/{key}", root(backend))
}

/// The location of a backend, whatever the process's working directory; without a slash at the end.
pub(crate) fn root(backend: &dyn Backend) -> String {
    let location = backend.location();
    if backend.endpoint() == "file://"
        && let Ok(absolute) = std::path::absolute(local_root(location))
    {
        return of_local_root(absolute);
    }
    location.to_owned()
}

/// The records of this process. Clones share them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Records {
    inner: Arc<RecordsShared>,
}

#[derive(Debug, Default)]
struct RecordsShared {
    /// `None`: records are kept in memory only.
    directory: Option<PathBuf>,
    /// Users whose files are trusted.
    owners: TrustedOwners,
    state: Mutex<RecordsState>,
    warned: AtomicBool,
}

#[derive(Debug, Default)]
struct RecordsState {
    next: u64,
    open: BTreeMap<u64, SessionRecord>,
    log: Option<RecordFile>,
}

impl Records {
    pub(crate) fn new(directory: Option<PathBuf>, owners: TrustedOwners) -> Self {
        Self { inner: Arc::new(RecordsShared { directory, owners, ..RecordsShared::default() }) }
    }

    /// Records that a session of `object` is about to be opened.
    pub(crate) async fn begin(&self, endpoint: &str, object: String) -> RecordedSession {
        let record = SessionRecord {
            endpoint: endpoint.to_owned(),
            object,
            id: None,
            since: SystemTime::now(),
            left: false,
        };
        let number = self
            .off(move |inner| {
                let mut state = inner.state();
                state.next += 1;
                let number = state.next;
                inner.write(&mut state, &[file::RecordLine::Open(number, &record)]);
                state.open.insert(number, record);
                number
            })
            .await;
        let process = std::process::id();
        RecordedSession { records: self.clone(), number, process, settled: AtomicBool::new(false) }
    }

    /// The recorded sessions of every process of this machine.
    ///
    /// # Errors
    /// Errors of reading the directory, which the message names: a caller that can't know which sessions are alive
    /// must not end any.
    pub(crate) async fn roll(&self) -> io::Result<Roll> {
        self.off(|inner| {
            let ours = inner.state().log.as_ref().map(|log| log.path().to_owned());
            let mut roll = match &inner.directory {
                Some(directory) => {
                    Roll::read(directory, ours.as_deref(), &inner.owners).map_err(|error| {
                        let message =
                            format!("the records in {} can't be read: {error}", directory.display());
                        io::Error::new(error.kind(), message)
                    })?
                }
                None => Roll::default(),
            };
            for (number, record) in &inner.state().open {
                roll.add_own(*number, record.clone());
            }
            Ok(roll)
        })
        .await
    }

    /// Removes the records of sessions that were found to have ended, of this process and of processes that are gone;
    /// and files so old that no sweep will need them.
    pub(crate) async fn forget(&self, ended: Vec<AbandonedSession>) {
        self.off(move |inner| {
            let mut files: HashMap<PathBuf, Vec<u64>> = HashMap::new();
            for gone in ended {
                match gone.file {
                    Some(path) => files.entry(path).or_default().push(gone.number),
                    None => inner.end(gone.number),
                }
            }
            for (path, numbers) in files {
                if let Err(error) = roll::strike_out(&path, &numbers, &inner.owners) {
                    inner.warn(&error);
                }
            }
            if let Some(directory) = &inner.directory {
                roll::tidy(directory, &inner.owners);
            }
        })
        .await;
    }

    /// Runs `work` where it may block on a disk; without a directory nothing blocks, and it runs here.
    async fn off<T: Send + 'static>(&self, work: impl FnOnce(&RecordsShared) -> T + Send + 'static) -> T {
        if self.inner.directory.is_none() {
            return work(&self.inner);
        }
        let inner = self.inner.clone();
        spawn_blocking(move || work(&inner)).await
    }
}

impl RecordsShared {
    fn state(&self) -> MutexGuard<'_, RecordsState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Appends lines to the file; creates the file if there is none, and rewrites it if earlier lines are missing.
    fn write(&self, state: &mut RecordsState, lines: &[file::RecordLine<'_>]) {
        let Some(directory) = &self.directory else { return };
        let RecordsState { log, open, .. } = state;
        let written = match log {
            Some(log) => log.append(open, lines),
            None => RecordFile::create(directory, open, lines, &self.owners).map(|made| *log = Some(made)),
        };
        if let Err(error) = written {
            self.warn(&error);
        }
    }

    fn end(&self, number: u64) {
        let mut state = self.state();
        if state.open.remove(&number).is_none() {
            return;
        }
        if state.open.is_empty() {
            if let Some(Err(error)) = state.log.take().map(RecordFile::remove) {
                self.warn(&error);
            }
        } else if state.log.is_some() {
            self.write(&mut state, &[file::RecordLine::Ended(number)]);
            let RecordsState { log, open, .. } = &mut *state;
            if let Some(Err(error)) = log.as_mut().map(|log| log.shorten(open)) {
                self.warn(&error);
            }
        }
    }

    fn leave(&self, number: u64) {
        let mut state = self.state();
        match state.open.get_mut(&number) {
            // A session without an id can only be found by its age.
            Some(record) if record.id.is_none() => {
                drop(state);
                self.end(number);
            }
            Some(record) => {
                record.left = true;
                self.write(&mut state, &[file::RecordLine::Left(number)]);
            }
            None => {}
        }
    }

    fn warn(&self, error: &io::Error) {
        if !self.warned.swap(true, Ordering::Relaxed) {
            let directory = self.directory.as_deref().unwrap_or_else(|| Path::new(""));
            warn!(directory = %directory.display(), %error, "sessions can't be recorded: a sweep goes by their age alone");
        }
    }
}

/// A recorded session. If it is dropped before its end is known, it stays recorded as abandoned.
#[derive(Debug)]
pub(crate) struct RecordedSession {
    records: Records,
    number: u64,
    /// The process that opened the session. In a forked process, the record is the parent's.
    process: u32,
    settled: AtomicBool,
}

impl RecordedSession {
    /// The store has opened the session and returned its id.
    pub(crate) async fn opened(&self, id: &str) {
        let (number, id) = (self.number, id.to_owned());
        self.records
            .off(move |inner| {
                let mut state = inner.state();
                inner.write(&mut state, &[file::RecordLine::Named(number, &id)]);
                if let Some(record) = state.open.get_mut(&number) {
                    record.id = Some(id);
                }
            })
            .await;
    }

    /// The session has ended, or was never opened.
    pub(crate) async fn ended(&self) {
        self.settled.store(true, Ordering::Relaxed);
        let number = self.number;
        self.records.off(move |inner| inner.end(number)).await;
    }

    /// Like [`ended`](Self::ended), for a place that cannot await, such as a drop. Other processes may continue the session.
    pub(crate) fn end_now(&self) {
        if self.process == std::process::id() && !self.settled.swap(true, Ordering::Relaxed) {
            self.records.inner.end(self.number);
        }
    }

    /// The upload has stopped using the session and could not end it.
    pub(crate) async fn left(&self) {
        self.settled.store(true, Ordering::Relaxed);
        let number = self.number;
        self.records.off(move |inner| inner.leave(number)).await;
    }
}

impl Drop for RecordedSession {
    fn drop(&mut self) {
        if !*self.settled.get_mut() && self.process == std::process::id() {
            self.records.inner.leave(self.number);
        }
    }
}
