//! Unfinished files: `.tidegate-<token>-<name>.part` beside their destination. The note of a download, by which its
//! file is found again, is `.tidegate-note-<mark>-<name>.part`. If a name has no room for it, `-<name>` is left out.
//! Token and mark are 16 hexadecimal digits: files of other names are not ours, however they begin and end.

use std::borrow::Borrow;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use rustix::fs::{CWD, Mode, OFlags, openat, renameat};
use rustix::io::Errno;

use super::condition::{Condition, exists};
use super::fault::fault;
use super::parents::{self, Parents};
use super::replaced;
use super::target::{self, Target};
use super::waiting::WaitedWork;
use tidegate_core::backend::{Fault, FaultKind, Session, WriteOptions};
use tidegate_core::types::object::{FileAttributes, Object};
use tidegate_core::types::owner_process::OwnerProcess;

const BEGIN: &str = ".tidegate-";
const END: &str = ".part";
const TOKEN: usize = 16;
/// Comes before the mark of a note; no token begins like this.
const NOTE: &str = "note-";
/// Longest file name on nearly every file system, in bytes.
const LONGEST_NAME: usize = 255;

/// How a file is published under its name.
#[derive(Clone, Copy, Debug, Default)]
pub struct Publish {
    /// What must hold of the target when the file gets its name.
    pub condition: Condition,
    /// Sync the bytes to disk before the rename, and the directory after it.
    pub sync: bool,
    /// The time of the last change that the file is given; `None` for the time of the last write.
    pub modified: Option<SystemTime>,
    /// The permission bits that the file is given, whatever the umask; `None` for those of the file that it replaces,
    /// or of a new file.
    pub permissions: Option<u32>,
}

impl Publish {
    /// As a write with these options asks for: synced to disk.
    pub(super) fn of_write(options: &WriteOptions) -> Result<Self, Fault> {
        let condition = Condition::of_write(options)?;
        let kept = match options.preserve {
            true => FileAttributes::from_metadata(&options.attributes.metadata).0,
            false => FileAttributes::default(),
        };
        let FileAttributes { modified, permissions } = kept;
        Ok(Self { condition, sync: true, modified, permissions })
    }
}

/// Whether a name is that of an unfinished file of ours.
pub(super) fn is_temp(name: &str) -> bool {
    parsed(name).is_some()
}

/// The id in the name of an unfinished file of ours, and the destination's name if it has that.
fn parsed(name: &str) -> Option<(&str, Option<&str>)> {
    let id = name.strip_prefix(BEGIN)?.strip_suffix(END)?;
    let (token, rest) = id.strip_prefix(NOTE).unwrap_or(id).split_at_checked(TOKEN)?;
    let is_token = token.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    let last = rest.strip_prefix('-').filter(|last| !last.is_empty());
    (is_token && (last.is_some() || rest.is_empty())).then_some((id, last))
}

/// The session of the file `name` in the directory `below` (a key up to its last slash). If the file's name had no
/// room for the key's last name, the file's own name stands for it.
pub(super) fn session(below: &str, name: &str) -> Option<Session> {
    let (id, last) = parsed(name)?;
    Some(Session { key: format!("{below}{}", last.unwrap_or(name)), id: id.to_owned() })
}

/// The token in the name of an unfinished file.
pub(super) fn token(name: &str) -> Option<&str> {
    name.strip_prefix(BEGIN)?.get(..TOKEN)
}

/// The path of a session's file.
pub(super) fn path(target: &Target, id: &str) -> Result<PathBuf, Fault> {
    Ok(target.directory().join(name(id)?))
}

/// The name of a session's file.
pub(super) fn name(id: &str) -> Result<String, Fault> {
    if id.is_empty() || id.contains(['/', '\0']) {
        return Err(no_session());
    }
    Ok(format!("{BEGIN}{id}{END}"))
}

/// The path of a session's file, where it exists: beside its key, or beside the file that a link there leads to.
pub(super) fn find(target: &Target, id: &str) -> Result<PathBuf, Fault> {
    let beside = path(target, id)?;
    if beside.symlink_metadata().is_ok() || !target.path().is_symlink() {
        return Ok(beside);
    }
    path(&target.clone().behind_links()?, id)
}

/// Opens a session's file for writing; never follows a link.
pub(super) fn open(path: &Path) -> Result<File, Fault> {
    let opened = OpenOptions::new().write(true).custom_flags(OFlags::NOFOLLOW.bits() as i32).open(path);
    opened.map_err(|error| no_session_or(error, path.parent().unwrap_or(path)))
}

/// Opens the file `name` of a directory for reading; never follows a link.
pub(super) fn open_at(directory: &OwnedFd, name: &str) -> Result<File, Errno> {
    // Do not wait if the file is a pipe by now.
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    Ok(File::from(openat(directory, name, flags, Mode::empty())?))
}

/// Removes the name of an unfinished file.
pub(super) fn remove(path: &Path) {
    if let Err(error) = fs::remove_file(path)
        && error.kind() != io::ErrorKind::NotFound
    {
        tracing::warn!(file = %path.display(), %error, "an unfinished file could not be removed");
    }
}

/// A new random name for an unfinished file.
pub(super) fn unused_name() -> String {
    format!("{BEGIN}{:016x}{END}", fastrand::u64(..))
}

/// A new name for an unfinished file that is to have the name `name`: listings pass the file over, and sweeps remove it
/// after a crash.
pub fn unfinished_name(name: &str) -> String {
    format!("{BEGIN}{}{END}", id(&format!("{:016x}", fastrand::u64(..)), name))
}

/// The session id for a token and a key whose last name is `name`.
pub(super) fn id(token: &str, name: &str) -> String {
    let has_room = name.len() + BEGIN.len() + token.len() + 1 + END.len() <= LONGEST_NAME;
    if has_room { format!("{token}-{name}") } else { token.to_owned() }
}

/// The same for the note of a download, with its mark: 16 hexadecimal digits.
pub(super) fn note_id(mark: &str, name: &str) -> String {
    id(&format!("{NOTE}{mark}"), name)
}

/// Whether a live process is writing the file and holds its lock. On a file system without locks, always false.
pub(super) fn is_locked(file: &File) -> bool {
    matches!(file.try_lock_shared(), Err(fs::TryLockError::WouldBlock))
}

/// The fault for an error at a session's file: if the file is missing, so is the session.
pub(super) fn no_session_or(error: io::Error, directory: &Path) -> Fault {
    if error.kind() == io::ErrorKind::NotFound { no_session() } else { fault(error, directory) }
}

fn no_session() -> Fault {
    Fault::new(FaultKind::NoSession, "no such session: it was completed or aborted, or its file was removed")
}

/// An unfinished file, which is removed unless it is published or kept.
#[derive(Debug)]
pub(super) struct Temp {
    file: File,
    trace: Trace,
    id: String,
    target: Target,
    kept: bool,
}

/// The name and the directories to remove with an unfinished file.
#[derive(Clone, Debug)]
pub(super) struct Trace {
    /// The process that made the file.
    pub(super) owner: OwnerProcess,
    pub(super) path: PathBuf,
    pub(super) directory: PathBuf,
    pub(super) parents: Arc<Parents>,
}

impl Trace {
    /// Removes the name, and the directories that were made for it. Does not wait for a disk: the file's space is
    /// freed when it is closed. Does nothing in a forked child: its parent writes the file.
    pub(super) fn remove(&self) {
        if self.owner.is_parent() {
            return;
        }
        remove(&self.path);
        self.parents.remove_empty(&self.directory);
    }
}

impl Temp {
    /// Makes a new file for `target`. Refuses everything that can be refused before a byte is written.
    pub(super) fn create(
        parents: &Arc<Parents>,
        target: Target,
        condition: Condition,
    ) -> Result<Self, Fault> {
        // A link counts as an existing file, wherever it leads.
        if condition.is_create_only() && target.path().is_symlink() {
            return Err(exists());
        }
        let (target, found) = target.find()?;
        condition.check(found.as_ref())?;
        let (file, path, id) = create_file(parents, &target).map_err(|error| {
            parents.remove_empty(target.directory());
            // EEXIST here means a file in the place of a directory: no other file has the name of a new token.
            let error = if error.kind() == io::ErrorKind::AlreadyExists {
                io::ErrorKind::NotADirectory.into()
            } else {
                error
            };
            fault(error, target.directory())
        })?;
        // A sweep leaves a locked file alone. On a file system without locks, do without.
        let _ = file.try_lock();
        let (owner, directory) = (OwnerProcess::this(), target.directory().to_owned());
        let trace = Trace { owner, path, directory, parents: parents.clone() };
        Ok(Self { file, trace, id, target, kept: false })
    }

    pub(super) fn trace(&self) -> Trace {
        self.trace.clone()
    }

    /// Keeps the file for a session.
    pub(super) fn into_session(mut self) -> Session {
        self.kept = true;
        Session { key: self.target.key().to_owned(), id: self.id.clone() }
    }

    /// Publishes the file under its name, see [`publish`].
    pub(super) fn publish(mut self, how: Publish, waiting: &WaitedWork) -> Result<Object, Fault> {
        let Trace { path, parents, .. } = &self.trace;
        let object = publish(parents, &self.file, path, &self.target, how, waiting)?;
        self.kept = true;
        // A forked child may have the file open, too, and would keep the lock.
        let _ = self.file.unlock();
        Ok(object)
    }
}

impl Borrow<File> for Temp {
    fn borrow(&self) -> &File {
        &self.file
    }
}

impl Drop for Temp {
    fn drop(&mut self) {
        if !self.kept {
            self.trace.remove();
        }
    }
}

fn create_file(parents: &Parents, target: &Target) -> io::Result<(File, PathBuf, String)> {
    let mut named = target.name().len() + BEGIN.len() + TOKEN + 1 + END.len() <= LONGEST_NAME;
    let mut attempts = 0;
    loop {
        let token = format!("{:016x}", fastrand::u64(..));
        let id = if named { format!("{token}-{}", target.name()) } else { token };
        let path = target.directory().join(format!("{BEGIN}{id}{END}"));
        attempts += 1;
        match OpenOptions::new().write(true).create_new(true).mode(replaced::PRIVATE).open(&path) {
            Ok(file) => return Ok((file, path, id)),
            Err(error) if attempts > 16 => return Err(error),
            // The directory is missing: not made yet, or an aborted neighbour removed it.
            Err(error) if error.kind() == io::ErrorKind::NotFound => parents.make(target.directory())?,
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) if error.kind() == io::ErrorKind::InvalidFilename && named => named = false,
            Err(error) => return Err(error),
        }
    }
}

/// Syncs the bytes to disk, gives the file its name, and syncs the directory; without `sync`, only gives it its name.
///
/// Fails before the rename if nobody waits for the file any more.
pub(super) fn publish(
    parents: &Parents,
    file: &File,
    temp: &Path,
    target: &Target,
    Publish { condition, sync, modified, permissions }: Publish,
    waiting: &WaitedWork,
) -> Result<Object, Fault> {
    let directory = target.directory();
    replaced::take_over(file, target.path(), permissions).map_err(|error| fault(error, directory))?;
    if let Some(modified) = modified {
        set_modified(file, modified, target);
    }
    if sync {
        file.sync_all().map_err(|error| fault(error, directory))?;
    }
    waiting.check()?;
    let create_only = condition.is_create_only();
    let replaced = condition.hold(target.path())?;
    let renamed = match target.directory_without_links()? {
        // The name is made in the directory that was looked at, even if names change meanwhile.
        Some(opened) if create_only => rename_no_replace(temp, &opened, target.name().as_ref()),
        Some(opened) => renameat(CWD, temp, &opened, target.name()).map_err(io::Error::from),
        None if create_only => rename_new(temp, target.path()),
        None => fs::rename(temp, target.path()),
    };
    renamed.map_err(|error| match error.kind() {
        io::ErrorKind::AlreadyExists if create_only => exists(),
        io::ErrorKind::Unsupported if create_only => {
            let message =
                format!("the file system of {} can't create without replacing", directory.display());
            Fault::new(FaultKind::Unsupported, message).with_source(error)
        }
        _ => no_session_or(error, directory),
    })?;
    drop(replaced);
    parents.settle(directory);
    let synced = if sync { parents::sync(directory) } else { Ok(()) };
    let published = synced.and_then(|()| file.metadata());
    let metadata = published.map_err(|error| unsynced(directory, error))?;
    Ok(target::describe(target.key(), &metadata))
}

/// Sets the time of the last change. A file system that has no such times does not fail the download: the file is
/// whole.
pub(super) fn set_modified(file: &File, modified: SystemTime, target: &Target) {
    if let Err(error) = file.set_modified(modified) {
        tracing::warn!(file = %target.path().display(), %error, "the file's time could not be set");
    }
}

/// The object has its name, but may lose it in a power loss. A retry would find this object in its place.
pub(super) fn unsynced(directory: &Path, error: io::Error) -> Fault {
    let place = directory.display();
    let message = format!("the object is published, but {place} could not be forced to disk: {error}");
    Fault::new(FaultKind::Unsynced, message).with_source(error).with_answered(true)
}

/// Renames without replacing; by a hard link if the file system has no such rename.
fn rename_new(from: &Path, to: &Path) -> io::Result<()> {
    match rename_no_replace(from, CWD, to) {
        Err(error) if cannot(&error) => link_new(from, to),
        result => result,
    }
}

/// Whether the system says that it cannot do this, rather than that it refuses to.
fn cannot(error: &io::Error) -> bool {
    use rustix::io::Errno;
    let refusals = [Errno::INVAL, Errno::NOSYS, Errno::OPNOTSUPP, Errno::NOTTY];
    error.raw_os_error().is_some_and(|code| refusals.iter().any(|errno| errno.raw_os_error() == code))
}

#[cfg(target_os = "linux")]
fn rename_no_replace(from: &Path, directory: impl AsFd, to: &Path) -> io::Result<()> {
    use rustix::fs::{RenameFlags, renameat_with};
    Ok(renameat_with(CWD, from, directory, to, RenameFlags::NOREPLACE)?)
}

#[cfg(not(target_os = "linux"))]
fn rename_no_replace(_: &Path, _: impl AsFd, _: &Path) -> io::Result<()> {
    Err(rustix::io::Errno::NOSYS.into())
}

pub(super) fn link_new(from: &Path, to: &Path) -> io::Result<()> {
    match fs::hard_link(from, to) {
        Ok(()) => {
            if let Err(error) = fs::remove_file(from) {
                tracing::warn!(file = %from.display(), %error, "an object's second name could not be removed");
            }
            Ok(())
        }
        // Errors of file systems without hard links.
        Err(error) if cannot(&error) || error.kind() == io::ErrorKind::PermissionDenied => {
            Err(io::Error::new(io::ErrorKind::Unsupported, error))
        }
        Err(error) => Err(error),
    }
}
