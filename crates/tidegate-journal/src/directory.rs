//! Creates, finds, locks, lists and removes journals in directories.
//!
//! A journal gets its name once it is whole: it is written under another name, synced, then renamed, and the
//! directory is synced. The process that appends to a journal holds an exclusive `flock` on it, which
//! its [forked children](tidegate_core::types::locked_file) do not keep.

use std::fs::{self, File, TryLockError};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use super::disk::{self, JournalFile};
use super::error::{JournalError, this_process};
use super::format::{HOLDER, SECTOR};
use super::log::Log;
use super::record::Header;
use super::recover::{self, Check, Recovered};
use tidegate_core::types::locked_file::{LockedFile, NotLocked};
use tidegate_core::types::owner_process::OwnerProcess;
use tidegate_core::types::printable::printable;
use tidegate_core::types::trusted_file;
use tidegate_core::types::trusted_file::{Access, TrustedOwners};

/// Extension of a journal's name.
const END: &str = "journal";
/// Its extension until the journal is whole.
const UNBORN: &str = "unborn";
/// How long a file may have that extension before a listing removes it.
const BIRTH: Duration = Duration::from_secs(86_400);

/// A journal that was found in a directory.
#[derive(Debug)]
#[non_exhaustive]
pub struct Listed {
    /// The file.
    pub path: PathBuf,
    /// The recovered contents, or why it can't be read: [`JournalError::InUse`] while a process appends to it.
    pub found: Result<Recovered, JournalError>,
}

/// Finds the journals of a directory, in the order of their names, and reads each without changing it. A journal
/// that a user who is not among `owners` may have written is [refused](JournalError::Untrusted). Files of processes
/// that died before their journal was whole are removed after a day; a journal whose upload has ended is removed at
/// once.
///
/// # Errors
/// Those of reading the directory. An error of one journal is in its entry.
pub fn list(directory: &Path, owners: &TrustedOwners) -> Result<Vec<Listed>, JournalError> {
    list_of(directory, "", owners)
}

/// As [`list`], but only for uploads whose ids begin with `ids`; no other journal is opened.
pub fn list_of(directory: &Path, ids: &str, owners: &TrustedOwners) -> Result<Vec<Listed>, JournalError> {
    let io = |error| JournalError::io(directory, "reading the directory", error);
    let begins =
        |path: &Path| path.file_stem().is_some_and(|id| id.as_encoded_bytes().starts_with(ids.as_bytes()));
    let mut paths = Vec::new();
    for entry in fs::read_dir(directory).map_err(io)? {
        let path = entry.map_err(io)?.path();
        match path.extension() {
            Some(end) if end == END && begins(&path) => paths.push(path),
            Some(end) if end == UNBORN => remove_unborn(&path, owners),
            _ => {}
        }
    }
    paths.sort();
    let listed = paths.into_iter().map(|path| Listed { found: look(&path, Check::Tail, owners), path });
    Ok(listed.filter(|listed| !is_gone(&listed.found) && !is_over(listed, owners)).collect())
}

/// Reads a journal and checks everything in it, including each byte of the object.
///
/// # Errors
/// An error says what is wrong with the journal.
pub fn verify(path: &Path, owners: &TrustedOwners) -> Result<Recovered, JournalError> {
    look(path, Check::Whole, owners)
}

/// As [`verify`], for any `JournalFile`, wherever it is; `path` is its name in errors.
///
/// # Errors
/// An error says what is wrong with the journal.
pub fn examine(path: &Path, file: &dyn JournalFile) -> Result<Recovered, JournalError> {
    Ok(recover::scan(path, file, Check::Whole)?.recovered())
}

/// Reads a journal as a listing does.
pub fn look_at(path: &Path, owners: &TrustedOwners) -> Result<Recovered, JournalError> {
    look(path, Check::Tail, owners)
}

fn look(path: &Path, check: Check, owners: &TrustedOwners) -> Result<Recovered, JournalError> {
    let file = trusted_file::open(path, Access::Read, owners);
    let file = file.map_err(|error| JournalError::io(path, "opening", error))?;
    let file = LockedFile::try_shared(file).map_err(|not_locked| unlocked(path, not_locked))?;
    Ok(recover::scan(path, &*disk::of(path, file), check)?.recovered())
}

/// Whether the file was removed meanwhile, because its upload has ended.
fn is_gone(found: &Result<Recovered, JournalError>) -> bool {
    matches!(found, Err(JournalError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound)
}

/// Whether the upload has ended and only the file is left, because the process died before it removed the file.
/// Removes the file, unless another process has it.
fn is_over(listed: &Listed, owners: &TrustedOwners) -> bool {
    let over = listed.found.as_ref().is_ok_and(|found| found.state.end.is_some());
    let opened = || trusted_file::open(&listed.path, Access::Read, owners);
    if over && opened().is_ok_and(|file| LockedFile::try_exclusive(file).is_ok()) {
        // On failure, the next listing tries again.
        let _ = fs::remove_file(&listed.path);
    }
    over
}

/// The file of a new journal; removed when this is dropped, unless it is kept.
#[derive(Debug)]
pub(super) struct NewJournalFile {
    path: Option<PathBuf>,
    /// The process that made the file. A forked child does not remove it.
    owner: OwnerProcess,
}

impl NewJournalFile {
    pub(super) fn keep(mut self) {
        self.path = None;
    }
}

impl Drop for NewJournalFile {
    fn drop(&mut self) {
        if let Some(path) = self.path.take()
            && !self.owner.is_parent()
            && let Err(error) = fs::remove_file(&path)
        {
            tracing::warn!(path = %path.display(), %error, "an empty journal can't be removed");
        }
    }
}

/// Creates a journal in the first of these directories that accepts one. The error is that of the last directory.
pub(super) fn create(
    directories: &[PathBuf],
    header: &Header,
) -> Result<(NewJournalFile, Log), JournalError> {
    let mut last = JournalError::refused(Path::new("(none)"), "there is no journal directory to put it in");
    for directory in directories {
        match create_in(directory, header) {
            Ok(log) => {
                let file = NewJournalFile { path: Some(log.path.clone()), owner: OwnerProcess::this() };
                return Ok((file, log));
            }
            Err(error) => last = error,
        }
    }
    Err(last)
}

fn create_in(directory: &Path, header: &Header) -> Result<Log, JournalError> {
    let name = |end| directory.join(format!("{}.{end}", header.upload));
    let path = name(END);
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    if !(1..=128).contains(&header.upload.len()) || !header.upload.bytes().all(allowed) {
        let what = "an upload's id is 1 to 128 letters, digits, `-` and `_`";
        return Err(JournalError::refused(&path, what));
    }
    let unborn = name(UNBORN);
    let io = |error| JournalError::io(&path, "creating", error);
    let file = trusted_file::create_new(&unborn, Access::ReadWrite).map_err(io)?;
    let born = (|| {
        let directory = File::open(directory).map_err(io)?;
        let file = LockedFile::try_exclusive(file).map_err(|not_locked| unlocked(&path, not_locked))?;
        let salt = fastrand::u128(..).to_le_bytes();
        let file = disk::of(&path, file);
        let log = Log::create(&path, file.clone(), header.clone(), salt)?;
        name_holder(&*file);
        rename(&unborn, &path).map_err(io)?;
        directory.sync_all().map_err(|error| {
            let _ = fs::remove_file(&path);
            io(error)
        })?;
        Ok(log)
    })();
    if born.is_err() {
        let _ = fs::remove_file(&unborn);
    }
    born
}

/// Renames a file, but never replaces another one.
fn rename(from: &Path, to: &Path) -> io::Result<()> {
    #[cfg(any(target_os = "linux", target_os = "android"))]
    {
        use rustix::fs::{CWD, RenameFlags, renameat_with};
        match renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
            // Not every file system knows the flag: see rename(2).
            Err(rustix::io::Errno::INVAL | rustix::io::Errno::NOSYS) => {}
            renamed => return Ok(renamed?),
        }
    }
    if to.try_exists()? {
        return Err(io::ErrorKind::AlreadyExists.into());
    }
    fs::rename(from, to)
}

/// Opens a journal and locks it. If `waits` is set and other processes only read the journal, returns `None`: they
/// soon release it, and the caller tries again.
pub(super) fn open(
    path: &Path,
    waits: bool,
    owners: &TrustedOwners,
) -> Result<Option<LockedFile>, JournalError> {
    let io = |error| JournalError::io(path, "opening", error);
    let file = trusted_file::open(path, Access::ReadWrite, owners).map_err(io)?;
    match LockedFile::try_exclusive(file) {
        Ok(file) => Ok(Some(file)),
        Err(NotLocked { file, error: TryLockError::WouldBlock }) if waits => {
            match LockedFile::try_shared(file) {
                Ok(_) => Ok(None),
                Err(not_locked) => Err(unlocked(path, not_locked)),
            }
        }
        Err(not_locked) => Err(unlocked(path, not_locked)),
    }
}

/// Prepares a journal that was [opened](open) for appending. See [`recover::resume`].
pub(super) fn resume(path: &Path, file: LockedFile) -> Result<(Log, Recovered), JournalError> {
    // The name may not be durable yet: the process that created the journal may have been killed before it synced
    // the directory.
    sync_directory(path).map_err(|error| JournalError::io(path, "syncing its directory", error))?;
    let file = disk::of(path, file);
    let (log, recovered) = recover::resume(path, file.clone())?;
    name_holder(&*file);
    Ok((log, recovered))
}

/// Removes a journal.
pub(super) fn remove(path: &Path) -> Result<(), JournalError> {
    let removed = fs::remove_file(path).and_then(|()| sync_directory(path));
    removed.map_err(|error| JournalError::io(path, "removing", error))
}

/// Removes a journal that no process has, without reading it.
pub fn discard(path: &Path, owners: &TrustedOwners) -> Result<(), JournalError> {
    // Keeps the journal locked until its file is removed.
    let _file = open(path, false, owners)?;
    remove(path)
}

/// Syncs the directory of this file, so that the file's name, or its removal, is durable.
fn sync_directory(path: &Path) -> io::Result<()> {
    let directory = path.parent().filter(|directory| !directory.as_os_str().is_empty());
    File::open(directory.unwrap_or(Path::new(".")))?.sync_all()
}

/// The error for a journal that could not be locked.
fn unlocked(path: &Path, not_locked: NotLocked) -> JournalError {
    match not_locked.error {
        TryLockError::WouldBlock => {
            JournalError::InUse { path: path.to_owned(), holder: holder(&not_locked.file) }
        }
        TryLockError::Error(error) => JournalError::io(path, "locking", error),
    }
}

/// Records which process has the journal, for the error message of other processes. A failure does no harm.
fn name_holder(file: &dyn JournalFile) {
    let name = this_process();
    let mut sector = [0; SECTOR];
    let length = name.len().min(SECTOR);
    sector[..length].copy_from_slice(&name.as_bytes()[..length]);
    let _ = file.write(HOLDER, &[&sector]);
}

fn holder(file: &File) -> Option<String> {
    let mut sector = [0; SECTOR];
    file.read_exact_at(&mut sector, HOLDER).ok()?;
    let name = sector.split(|byte| *byte == 0).next().unwrap_or_default();
    let name = String::from_utf8(name.to_vec()).ok()?;
    (!name.is_empty()).then(|| printable(&name).into_owned())
}

fn remove_unborn(path: &Path, owners: &TrustedOwners) {
    // A file that is refused is not ours to remove.
    let Ok(file) = trusted_file::open(path, Access::Read, owners) else { return };
    let modified = file.metadata().and_then(|found| found.modified());
    let old = modified
        .is_ok_and(|modified| SystemTime::now().duration_since(modified).is_ok_and(|age| age > BIRTH));
    if old && LockedFile::try_exclusive(file).is_ok() {
        // On failure, the next listing tries again.
        let _ = fs::remove_file(path);
    }
}
