//! Journals in directories: made, found, locked, listed, removed.
//!
//! A journal has its name once it is whole: it is written under another one, synced, then renamed, and
//! the directory synced. Whoever appends to it holds an exclusive `flock` on it.

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
use crate::types::printable::printable;
use crate::types::trusted_file::{self, Access, TrustedOwners};

/// How a journal's name ends.
const END: &str = "journal";
/// The same, until the journal is whole.
const UNBORN: &str = "unborn";
/// How long it may be without its name.
const BIRTH: Duration = Duration::from_secs(86_400);

/// A journal that was found in a directory.
#[derive(Debug)]
#[non_exhaustive]
pub struct Listed {
    /// The file.
    pub path: PathBuf,
    /// What is left in it, or why that can't be told: [`JournalError::InUse`] while a process appends to it.
    pub found: Result<Recovered, JournalError>,
}

/// Finds the journals of a directory, in the order of their names, and reads what each has, without
/// changing it. Those that a user may have written who is not among `owners` are [refused](JournalError::Untrusted). What processes left that died before their journal was whole is removed after a day, and
/// one whose upload has ended at once.
///
/// # Errors
/// Those of reading the directory; what is wrong with one journal is told in its place.
pub fn list(directory: &Path, owners: &TrustedOwners) -> Result<Vec<Listed>, JournalError> {
    list_of(directory, "", owners)
}

/// As [`list`], of uploads whose ids begin so; no other file is opened.
pub(crate) fn list_of(
    directory: &Path,
    ids: &str,
    owners: &TrustedOwners,
) -> Result<Vec<Listed>, JournalError> {
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

/// Reads a journal and checks all that it has, each byte of the object too.
///
/// # Errors
/// What is wrong with it.
pub fn verify(path: &Path, owners: &TrustedOwners) -> Result<Recovered, JournalError> {
    look(path, Check::Whole, owners)
}

/// As [`verify`], of a file wherever it is; `path` is its name in errors.
///
/// # Errors
/// What is wrong with it.
pub fn examine(path: &Path, file: &dyn JournalFile) -> Result<Recovered, JournalError> {
    Ok(recover::scan(path, file, Check::Whole)?.recovered())
}

/// Reads a journal as a listing does.
pub(crate) fn look_at(path: &Path, owners: &TrustedOwners) -> Result<Recovered, JournalError> {
    look(path, Check::Tail, owners)
}

fn look(path: &Path, check: Check, owners: &TrustedOwners) -> Result<Recovered, JournalError> {
    let file = trusted_file::open(path, Access::Read, owners);
    let file = file.map_err(|error| JournalError::io(path, "opening", error))?;
    lock(path, &file, file.try_lock_shared())?;
    Ok(recover::scan(path, &*disk::of(path, file), check)?.recovered())
}

/// Whether its upload has ended meanwhile.
fn is_gone(found: &Result<Recovered, JournalError>) -> bool {
    matches!(found, Err(JournalError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound)
}

/// Whether its upload has ended and only its file is there yet, which is of no use then: its process died
/// before it had removed it.
fn is_over(listed: &Listed, owners: &TrustedOwners) -> bool {
    let over = listed.found.as_ref().is_ok_and(|found| found.state.end.is_some());
    let opened = || trusted_file::open(&listed.path, Access::Read, owners);
    if over && opened().is_ok_and(|file| file.try_lock().is_ok()) {
        // It will be tried again by whoever lists next.
        let _ = fs::remove_file(&listed.path);
    }
    over
}

/// A journal that is made, and goes again where nobody takes it.
#[derive(Debug)]
pub(super) struct Begun(Option<PathBuf>);

impl Begun {
    pub(super) fn keep(mut self) {
        self.0 = None;
    }
}

impl Drop for Begun {
    fn drop(&mut self) {
        if let Some(path) = self.0.take()
            && let Err(error) = fs::remove_file(&path)
        {
            tracing::warn!(path = %path.display(), %error, "an empty journal can't be removed");
        }
    }
}

/// Makes a journal in the first of these directories that takes one. The error is that of the last one.
pub(super) fn create(directories: &[PathBuf], header: &Header) -> Result<(Begun, Log), JournalError> {
    let mut last = JournalError::refused(Path::new("(none)"), "there is no journal directory to put it in");
    for directory in directories {
        match create_in(directory, header) {
            Ok(log) => return Ok((Begun(Some(log.path.clone())), log)),
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
        lock(&path, &file, file.try_lock())?;
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

/// Renames without replacing.
fn rename(from: &Path, to: &Path) -> io::Result<()> {
    #[cfg(any(target_os = "linux", target_os = "android"))]
    {
        use rustix::fs::{CWD, RenameFlags, renameat_with};
        match renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
            // Not every file system knows the flag: rename(2).
            Err(rustix::io::Errno::INVAL | rustix::io::Errno::NOSYS) => {}
            renamed => return Ok(renamed?),
        }
    }
    if to.try_exists()? {
        return Err(io::ErrorKind::AlreadyExists.into());
    }
    fs::rename(from, to)
}

/// Opens a journal and locks it. Where it is only looked at, and `waits` is set, that is soon done: there
/// is no file then, and it is to be tried again.
pub(super) fn open(path: &Path, waits: bool, owners: &TrustedOwners) -> Result<Option<File>, JournalError> {
    let io = |error| JournalError::io(path, "opening", error);
    let file = trusted_file::open(path, Access::ReadWrite, owners).map_err(io)?;
    let locked = file.try_lock();
    if waits && matches!(locked, Err(TryLockError::WouldBlock)) && file.try_lock_shared().is_ok() {
        return Ok(None);
    }
    lock(path, &file, locked)?;
    Ok(Some(file))
}

/// Makes a journal that was [opened](open) fit to be gone on with. See [`recover::resume`].
pub(super) fn resume(path: &Path, file: File) -> Result<(Log, Recovered), JournalError> {
    // Its name may be as new as it is: who made it may have been killed before that was durable.
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

/// Removes a journal that nobody has, whatever is in it: it is not read.
pub(crate) fn discard(path: &Path, owners: &TrustedOwners) -> Result<(), JournalError> {
    // Locked until it is gone.
    let _file = open(path, false, owners)?;
    remove(path)
}

/// Makes durable what the directory of this file says of it.
fn sync_directory(path: &Path) -> io::Result<()> {
    let directory = path.parent().filter(|directory| !directory.as_os_str().is_empty());
    File::open(directory.unwrap_or(Path::new(".")))?.sync_all()
}

/// The error that a lock is that could not be had. What was locked is unlocked when it is closed.
fn lock(path: &Path, file: &File, locked: Result<(), TryLockError>) -> Result<(), JournalError> {
    match locked {
        Ok(()) => Ok(()),
        Err(TryLockError::WouldBlock) => {
            Err(JournalError::InUse { path: path.to_owned(), holder: holder(file) })
        }
        Err(TryLockError::Error(error)) => Err(JournalError::io(path, "locking", error)),
    }
}

/// Writes down who has the journal, for the message to others. It is as good without.
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
    // One that is refused is not ours to remove.
    let Ok(file) = trusted_file::open(path, Access::Read, owners) else { return };
    let modified = file.metadata().and_then(|found| found.modified());
    let old = modified
        .is_ok_and(|modified| SystemTime::now().duration_since(modified).is_ok_and(|age| age > BIRTH));
    if old && file.try_lock().is_ok() {
        // It will be tried again by whoever lists next.
        let _ = fs::remove_file(path);
    }
}
