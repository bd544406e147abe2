//! The records of every process of this machine, read.

use std::collections::HashMap;
use std::fs::{self, File, TryLockError};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use super::{Record, file};
use crate::types::trusted_file::{self, Access, TrustedOwners};

/// How long the file of a process that is gone is kept for a sweep to come.
const KEPT: Duration = Duration::from_secs(30 * 86_400);
/// How long a file may be without its lock and its name.
const UNLOCKED: Duration = Duration::from_secs(86_400);
/// Most bytes of one file. It is made short when most of its lines are of sessions that have ended, so that this is some
/// hundred thousand open sessions.
const LARGEST: u64 = 64 << 20;

/// Who has which session.
#[derive(Clone, Debug, Default)]
pub(crate) struct Roll {
    /// Sessions of live processes, by the store's name for them, and the process.
    ///
    /// By that name alone, which every store makes unique: one and the same store may be reached by
    /// several addresses.
    live: HashMap<String, u32>,
    /// Objects of which live processes ask for a session, without the URL's scheme.
    opening: HashMap<String, u32>,
    /// What processes left that are gone, or have given it up.
    gone: Vec<Gone>,
}

/// What a process has left.
#[derive(Clone, Debug)]
pub(crate) struct Gone {
    pub(crate) record: Record,
    pub(crate) pid: u32,
    /// Whether the process still lives, and has given it up.
    pub(crate) lives: bool,
    /// Where it stands; `None` for this process's own records.
    pub(super) file: Option<PathBuf>,
    pub(super) number: u64,
}

impl Roll {
    /// Whether a live process has the session, or asks for one of the same object: its id.
    pub(crate) fn live(&self, object: &str, id: &str) -> Option<u32> {
        self.live.get(id).or_else(|| self.opening.get(bare(object))).copied()
    }

    /// The process that left the session.
    pub(crate) fn gone(&self, id: &str) -> Option<&Gone> {
        self.gone.iter().find(|gone| gone.record.id.as_deref() == Some(id))
    }

    /// What was left in a place: objects at an endpoint whose names begin with `prefix`.
    pub(crate) fn gone_below(&self, endpoint: &str, prefix: &str) -> Vec<Gone> {
        let here = |gone: &&Gone| gone.record.endpoint == endpoint && gone.record.object.starts_with(prefix);
        self.gone.iter().filter(here).cloned().collect()
    }

    /// Reads a directory, but for the file `ours`. One that is not there has nothing in it.
    ///
    /// # Errors
    /// Those of the file system; and of a file that another user may have written, or that is too large: which sessions
    /// are in use is not known then.
    pub(super) fn read(directory: &Path, ours: Option<&Path>, owners: &TrustedOwners) -> io::Result<Self> {
        let mut roll = Self::default();
        let guard = match file::lock_file(directory, owners) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(roll),
            opened => opened?,
        };
        // Held to the end: no file is replaced while the directory is read.
        guard.lock_shared()?;
        for path in files(directory, file::END)? {
            if ours == Some(&*path) {
                continue;
            }
            match roll.read_file(&path, owners) {
                // Removed meanwhile: its process had nothing any more.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                read => read?,
            }
        }
        Ok(roll)
    }

    fn read_file(&mut self, path: &Path, owners: &TrustedOwners) -> io::Result<()> {
        let opened = trusted_file::open(path, Access::Read, owners)?;
        // First the lock, then the text: what a process writes last is read, whether it lives or not.
        let lives = opened.try_lock_shared().is_err();
        let text = read_text(path, &opened)?;
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let pid = name.split('-').next().and_then(|pid| pid.parse().ok()).unwrap_or_default();
        for (number, record) in file::parse(&text) {
            self.add(Gone { record, pid, lives, file: Some(path.to_owned()), number });
        }
        Ok(())
    }

    /// Adds this process's own.
    pub(super) fn add_own(&mut self, number: u64, record: Record) {
        self.add(Gone { record, pid: std::process::id(), lives: true, file: None, number });
    }

    fn add(&mut self, entry: Gone) {
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

/// What is in a file of records.
fn read_text(path: &Path, file: &File) -> io::Result<String> {
    // The size is looked at first: a sparse file of terabytes is not read.
    let mut bytes = Vec::new();
    if file.metadata()?.len() <= LARGEST {
        file.take(LARGEST + 1).read_to_end(&mut bytes)?;
    }
    if bytes.len() as u64 > LARGEST || file.metadata()?.len() > LARGEST {
        let message = format!("{} has more than the {LARGEST} bytes that records may take", path.display());
        return Err(io::Error::new(io::ErrorKind::InvalidData, message));
    }
    // What a crash has left of a line may be any bytes, and means nothing.
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

/// Strikes entries out of the file of a process that is gone, and removes it where none is left.
pub(super) fn strike_out(path: &Path, numbers: &[u64], owners: &TrustedOwners) -> io::Result<()> {
    let opened = match trusted_file::open(path, Access::Append, owners) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()), // another sweep was here
        opened => opened?,
    };
    match opened.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Ok(()), // another sweep is at it, or the process lives
        Err(TryLockError::Error(error)) => return Err(error),
    }
    let text = read_text(path, &opened)?;
    if file::strike_out(&opened, &text, numbers)? {
        fs::remove_file(path)?;
    }
    Ok(())
}

/// Removes what nobody will ask for again: files of processes long gone, and those that never got a lock.
pub(super) fn tidy(directory: &Path, owners: &TrustedOwners) {
    for (ending, limit) in [(file::END, KEPT), (file::UNLOCKED, UNLOCKED)] {
        for path in files(directory, ending).unwrap_or_default() {
            // One that is refused is not ours to remove.
            let Ok(file) = trusted_file::open(&path, Access::Read, owners) else { continue };
            let old = file.metadata().and_then(|found| found.modified()).is_ok_and(|modified| {
                SystemTime::now().duration_since(modified).is_ok_and(|age| age > limit)
            });
            if old && file.try_lock().is_ok() {
                // It will be tried again by the next sweep.
                let _ = fs::remove_file(&path);
            }
        }
    }
}
