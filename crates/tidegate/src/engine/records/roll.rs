//! Reads the records of every process of this machine.

use std::collections::HashMap;
use std::fs::{self, File, TryLockError};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use super::{SessionRecord, file};
use crate::types::locked_file::LockedFile;
use crate::types::trusted_file::{self, Access, TrustedOwners};

/// How long a file outlives its process, for a sweep to read.
const KEPT: Duration = Duration::from_secs(30 * 86_400);
/// How long a file may exist without its lock and its final name.
const UNLOCKED: Duration = Duration::from_secs(86_400);
/// The most bytes of one file. Files are rewritten when most of their lines are of sessions that have ended, so this
/// holds some hundred thousand open sessions.
const LARGEST: u64 = 64 << 20;

/// Which process has which session.
#[derive(Clone, Debug, Default)]
pub(crate) struct Roll {
    /// The process of each live session, by the store's session id.
    ///
    /// By the id alone, which every store makes unique: the same store may be reached under several addresses.
    live: HashMap<String, u32>,
    /// The process that is opening a session for an object, by the object without its URL's scheme.
    opening: HashMap<String, u32>,
    /// Sessions of processes that are gone or have abandoned them.
    gone: Vec<AbandonedSession>,
}

/// A session that its process has left.
#[derive(Clone, Debug)]
pub(crate) struct AbandonedSession {
    pub(crate) record: SessionRecord,
    pub(crate) pid: u32,
    /// Whether the process is alive and has abandoned the session.
    pub(crate) lives: bool,
    /// The file of the record; `None` for this process's own records.
    pub(super) file: Option<PathBuf>,
    pub(super) number: u64,
}

impl Roll {
    /// The process id of a live process that has the session, or is opening one for the same object.
    pub(crate) fn live(&self, object: &str, id: &str) -> Option<u32> {
        self.live.get(id).or_else(|| self.opening.get(bare(object))).copied()
    }

    /// The record of the session, where its process has left it.
    pub(crate) fn gone(&self, id: &str) -> Option<&AbandonedSession> {
        self.gone.iter().find(|gone| gone.record.id.as_deref() == Some(id))
    }

    /// The sessions left in one place: those at an endpoint for objects whose names begin with `prefix`.
    pub(crate) fn gone_below(&self, endpoint: &str, prefix: &str) -> Vec<AbandonedSession> {
        let here = |gone: &&AbandonedSession| {
            gone.record.endpoint == endpoint && gone.record.object.starts_with(prefix)
        };
        self.gone.iter().filter(here).cloned().collect()
    }

    /// Reads all files of a directory but `ours`. A missing directory has no records.
    ///
    /// # Errors
    /// I/O errors; also where another user may have written a file, or a file is too large: then it is not known
    /// which sessions are in use.
    pub(super) fn read(directory: &Path, ours: Option<&Path>, owners: &TrustedOwners) -> io::Result<Self> {
        let mut roll = Self::default();
        let guard = match file::lock_file(directory, owners) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(roll),
            opened => opened?,
        };
        // Held to the end, so that no file is replaced while the directory is read.
        let _guard = LockedFile::shared(guard)?;
        for path in files(directory, file::END)? {
            if ours == Some(&*path) {
                continue;
            }
            match roll.read_file(&path, owners) {
                // The file was removed meanwhile: its process had no open session any more.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                read => read?,
            }
        }
        Ok(roll)
    }

    fn read_file(&mut self, path: &Path, owners: &TrustedOwners) -> io::Result<()> {
        let opened = trusted_file::open(path, Access::Read, owners)?;
        // Test the lock first, then read the text: so the last lines are read, whether or not the process lives.
        let (lives, text) = match LockedFile::try_shared(opened) {
            Ok(locked) => (false, read_text(path, &locked)?),
            Err(not_locked) => (true, read_text(path, &not_locked.file)?),
        };
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let pid = name.split('-').next().and_then(|pid| pid.parse().ok()).unwrap_or_default();
        for (number, record) in file::parse(&text) {
            self.add(AbandonedSession { record, pid, lives, file: Some(path.to_owned()), number });
        }
        Ok(())
    }

    /// Adds a record of this process.
    pub(super) fn add_own(&mut self, number: u64, record: SessionRecord) {
        self.add(AbandonedSession { record, pid: std::process::id(), lives: true, file: None, number });
    }

    fn add(&mut self, entry: AbandonedSession) {
        if !entry.lives || entry.record.left {
            self.gone.push(entry);
            return;
        }
        match entry.record.id {
            Some(id) => self.live.insert(id, entry.pid),
            None => self.opening.insert(bare(&entry.record.object).to_owned(), entry.pid),
        };
    }
}

/// An object without its URL's scheme: `dev://` and `s3://` may be the same store.
fn bare(object: &str) -> &str {
    object.split_once("://").map_or(object, |(_, rest)| rest)
}

/// The text of a file of records.
fn read_text(path: &Path, file: &File) -> io::Result<String> {
    // Check the size first, so that a sparse file of terabytes is not read.
    let mut bytes = Vec::new();
    if file.metadata()?.len() <= LARGEST {
        file.take(LARGEST + 1).read_to_end(&mut bytes)?;
    }
    if bytes.len() as u64 > LARGEST || file.metadata()?.len() > LARGEST {
        let message = format!("{} has more than the {LARGEST} bytes that records may take", path.display());
        return Err(io::Error::new(io::ErrorKind::InvalidData, message));
    }
    // A torn line may contain any bytes, and is ignored.
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn files(directory: &Path, ending: &str) -> io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        if path.to_str().is_some_and(|path| path.ends_with(ending)) {
            files.push(path);
        }
    }
    Ok(files)
}

/// Marks entries as ended in the file of a process that is gone, and removes the file where no entry is left.
pub(super) fn strike_out(path: &Path, numbers: &[u64], owners: &TrustedOwners) -> io::Result<()> {
    let opened = match trusted_file::open(path, Access::Append, owners) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()), // another sweep removed it
        opened => opened?,
    };
    let opened = match LockedFile::try_exclusive(opened).map_err(|not_locked| not_locked.error) {
        Ok(locked) => locked,
        Err(TryLockError::WouldBlock) => return Ok(()), // another sweep has it, or the process lives
        Err(TryLockError::Error(error)) => return Err(error),
    };
    let text = read_text(path, &opened)?;
    if file::strike_out(&opened, &text, numbers)? {
        fs::remove_file(path)?;
    }
    Ok(())
}

/// Removes files that no sweep will need: files of processes long gone, and files that were never locked.
pub(super) fn tidy(directory: &Path, owners: &TrustedOwners) {
    for (ending, limit) in [(file::END, KEPT), (file::UNLOCKED, UNLOCKED)] {
        for path in files(directory, ending).unwrap_or_default() {
            // A file that can't be trusted is not ours to remove.
            let Ok(file) = trusted_file::open(&path, Access::Read, owners) else { continue };
            let old = file.metadata().and_then(|found| found.modified()).is_ok_and(|modified| {
                SystemTime::now().duration_since(modified).is_ok_and(|age| age > limit)
            });
            if old && LockedFile::try_exclusive(file).is_ok() {
                // If this fails, the next sweep tries again.
                let _ = fs::remove_file(&path);
            }
        }
    }
}
