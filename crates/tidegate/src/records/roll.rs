//! The records of every process of this machine, read.

use std::collections::HashMap;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use super::{Record, file};

/// How long the file of a process that is gone is kept for a sweep to come.
const KEPT: Duration = Duration::from_secs(30 * 86_400);
/// How long a file may be without its lock and its name.
const UNLOCKED: Duration = Duration::from_secs(86_400);

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
    pub(super) fn read(directory: &Path, ours: Option<&Path>) -> io::Result<Self> {
        let mut roll = Self::default();
        let guard = match file::lock_file(directory) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(roll),
            opened => opened?,
        };
        // Held to the end: no file is replaced while the directory is read.
        guard.lock_shared()?;
        for path in files(directory, file::END)? {
            if ours == Some(&*path) {
                continue;
            }
            match roll.read_file(&path) {
                // Removed meanwhile: its process had nothing any more.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                read => read?,
            }
        }
        Ok(roll)
    }

    fn read_file(&mut self, path: &Path) -> io::Result<()> {
        let mut opened = File::open(path)?;
        // First the lock, then the text: what a process writes last is read, whether it lives or not.
        let lives = opened.try_lock_shared().is_err();
        let mut text = String::new();
        opened.read_to_string(&mut text)?;
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
pub(super) fn strike_out(path: &Path, numbers: &[u64]) -> io::Result<()> {
    let opened = OpenOptions::new().read(true).append(true).open(path);
    let mut opened = match opened {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()), // another sweep was here
        opened => opened?,
    };
    match opened.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Ok(()), // another sweep is at it, or the process lives
        Err(TryLockError::Error(error)) => return Err(error),
    }
    let mut text = String::new();
    opened.read_to_string(&mut text)?;
    if file::strike_out(&opened, &text, numbers)? {
        fs::remove_file(path)?;
    }
    Ok(())
}

/// Removes what nobody will ask for again: files of processes long gone, and those that never got a lock.
pub(super) fn tidy(directory: &Path) {
    for (ending, limit) in [(file::END, KEPT), (file::UNLOCKED, UNLOCKED)] {
        for path in files(directory, ending).unwrap_or_default() {
            let old = fs::metadata(&path).and_then(|found| found.modified()).is_ok_and(|modified| {
                SystemTime::now().duration_since(modified).is_ok_and(|age| age > limit)
            });
            if old && File::open(&path).is_ok_and(|file| file.try_lock().is_ok()) {
                // It will be tried again by the next sweep.
                let _ = fs::remove_file(&path);
            }
        }
    }
}
