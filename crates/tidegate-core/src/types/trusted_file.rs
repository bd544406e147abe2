//! Local files that another user may have planted.
//!
//! Journals, records and partial downloads may lie in directories that others may write to, such as `/tmp`. The
//! content of such a file is published with the caller's rights, so a file is used only if nobody else can have
//! written it. The checks are made on the open descriptor: the file that is checked is the file that is read,
//! whatever happens to its name meanwhile.
//!
//! Directories are not checked. Anybody who may write to one can remove or rename the files in it, and so make an
//! upload start again, but can't make a foreign file pass the checks of each file.

use std::fmt;
use std::fs::{self, File, Metadata, OpenOptions, Permissions};
use std::io::{self, Read};
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;
use rustix::io::Errno;

use crate::types::printable::printable;

#[cfg(test)]
mod tests;

/// Mode of the files that Tidegate creates.
const FILE_MODE: u32 = 0o600;
/// Mode of the directories.
const DIRECTORY_MODE: u32 = 0o700;
/// Bits of a mode by which the group or others may write.
const OTHERS_WRITE: u32 = 0o022;

/// The users whose files are trusted: the process's effective user, and users that were added.
///
/// ```
/// let owners = tidegate::trusted_file::TrustedOwners::default().and(1000); // a service that ran as user 1000 before
/// assert_ne!(owners, tidegate::trusted_file::TrustedOwners::default());
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TrustedOwners {
    others: Vec<u32>,
}

impl TrustedOwners {
    /// Adds the user with this number.
    #[must_use]
    pub fn and(mut self, uid: u32) -> Self {
        self.others.push(uid);
        self
    }

    fn include(&self, uid: u32) -> bool {
        uid == caller() || self.others.contains(&uid)
    }
}

/// The number of the process's effective user.
fn caller() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// The purpose for which a file is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Only to read.
    Read,
    /// To read and to write.
    ReadWrite,
    /// To read it, and to write at its end.
    Append,
}

impl Access {
    fn options(self) -> OpenOptions {
        let mut options = OpenOptions::new();
        options.read(true).write(self == Self::ReadWrite).append(self == Self::Append);
        // The standard library adds O_CLOEXEC. Without O_NONBLOCK a named pipe waits until somebody opens its other
        // end.
        options.custom_flags((OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed());
        options
    }
}

/// A local file that is not used, because another user may have written it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{} is refused: {reason}", printable(&path.display().to_string()))]
pub struct UntrustedFile {
    /// The file.
    pub path: PathBuf,
    /// The condition that it does not meet.
    pub reason: Distrust,
}

/// Why a file is not used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Distrust {
    /// It is not a regular file; the kind of file that it is instead.
    Kind(&'static str),
    /// It has so many names (hard links), so it may be somebody's other file.
    Links(u64),
    /// Its group or others may write to it; its permissions.
    Writable(u32),
    /// It belongs to this user, who is not trusted.
    Owner(u32),
}

impl fmt::Display for Distrust {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Kind(kind) => write!(f, "it is {kind}, not a regular file (remove it)"),
            Self::Links(links) => write!(
                f,
                "it has {links} names, so it may be another file by a hard link (remove the others)"
            ),
            Self::Writable(mode) => write!(
                f,
                "its mode is {mode:04o}, so other users may have written it (if its bytes are yours: chmod 600)"
            ),
            Self::Owner(uid) => write!(
                f,
                "it belongs to user {uid} and not to user {}, who runs this (if that is right, trust the owner: --owner {uid})",
                caller()
            ),
        }
    }
}

impl UntrustedFile {
    fn new(path: &Path, reason: Distrust) -> Self {
        Self { path: path.to_owned(), reason }
    }

    /// The refusal that an I/O error carries, if any.
    pub fn of(error: &io::Error) -> Option<&Self> {
        error.get_ref()?.downcast_ref()
    }
}

impl From<UntrustedFile> for io::Error {
    fn from(refused: UntrustedFile) -> Self {
        Self::new(io::ErrorKind::PermissionDenied, refused)
    }
}

/// Opens an existing file, if nobody but a trusted user can have written it. Never waits, whatever the file is.
///
/// # Errors
/// [`UntrustedFile`], inside of the error ([`UntrustedFile::of`]), and those of the file system.
pub fn open(path: &Path, access: Access, owners: &TrustedOwners) -> io::Result<File> {
    let file = access.options().open(path).map_err(|error| explained(path, owners, error))?;
    check(path, &file, owners)?;
    Ok(file)
}

/// Reads a small file, if nobody but a trusted user can have written it: for programs that keep files of their own in
/// directories which others may write to.
///
/// # Errors
/// [`UntrustedFile`], inside of the error, if another user can have written the file; those of the file system;
/// `FileTooLarge` if it has more than `most` bytes.
pub fn read_trusted(path: &Path, owners: &TrustedOwners, most: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open(path, Access::Read, owners)?.take(most.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    Ok(bytes)
}

/// Refuses an open file that another user can have written. `path` is its name in the refusal.
///
/// # Errors
/// As of [`open`].
pub fn check(path: &Path, file: &File, owners: &TrustedOwners) -> io::Result<()> {
    match distrust(&file.metadata()?, owners) {
        Some(reason) => Err(UntrustedFile::new(path, reason).into()),
        None => Ok(()),
    }
}

/// Creates a new file, with mode 0600 whatever the umask. It is readable and writable.
///
/// # Errors
/// `AlreadyExists` if anything has that name, even a symbolic link that leads nowhere; those of the file system.
pub fn create_new(path: &Path, access: Access) -> io::Result<File> {
    let file = access.options().create_new(true).mode(FILE_MODE).open(path)?;
    match set_mode(&file, FILE_MODE) {
        Ok(()) => Ok(file),
        Err(error) => {
            // The first error says why.
            let _ = fs::remove_file(path);
            Err(error)
        }
    }
}

/// Opens a file as [`open`] does, or creates it as [`create_new`] does if there is none.
///
/// # Errors
/// Those of the two.
pub fn open_or_create(path: &Path, access: Access, owners: &TrustedOwners) -> io::Result<File> {
    // Each round somebody else has removed or created the file in between.
    for _ in 0..100 {
        match open(path, access, owners) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            opened => return opened,
        }
        match create_new(path, access) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            created => return created,
        }
    }
    Err(io::Error::other(format!(
        "{}: another process keeps creating and removing this file",
        printable(&path.display().to_string())
    )))
}

/// Creates a directory, with mode 0700 whatever the umask, and the missing ones above it. An existing directory
/// stays as it is.
///
/// # Errors
/// Those of the file system.
pub fn create_directory(path: &Path) -> io::Result<()> {
    match fs::DirBuilder::new().mode(DIRECTORY_MODE).create(path) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let Some(parent) = path.parent().filter(|parent| !parent.as_os_str().is_empty()) else {
                return Err(error);
            };
            create_directory(parent)?;
            match fs::DirBuilder::new().mode(DIRECTORY_MODE).create(path) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists && path.is_dir() => return Ok(()),
                created => created?,
            }
        }
        Err(_) if path.is_dir() => return Ok(()),
        Err(error) => return Err(error),
    }
    // A umask may have taken away rights of the owner. The directory is new, so only the owner of the one above can
    // have put another in its place.
    let created = OpenOptions::new()
        .read(true)
        .custom_flags((OFlags::NOFOLLOW | OFlags::DIRECTORY).bits().cast_signed())
        .open(path);
    match created {
        Ok(directory) => set_mode(&directory, DIRECTORY_MODE),
        // The umask has taken away the right to read it.
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            fs::set_permissions(path, Permissions::from_mode(DIRECTORY_MODE))
        }
        Err(error) => Err(error),
    }
}

/// Sets the mode of a file or a directory that was just created.
fn set_mode(file: &File, mode: u32) -> io::Result<()> {
    let found = file.metadata()?.mode() & 0o7777;
    if found == mode {
        return Ok(());
    }
    match file.set_permissions(Permissions::from_mode(mode)) {
        // File systems without permissions, such as FAT, show the permissions that they were mounted with.
        Err(error) if found & OTHERS_WRITE != 0 => Err(error),
        _ => Ok(()),
    }
}

/// Why the file is not trusted; `None` if it is.
fn distrust(found: &Metadata, owners: &TrustedOwners) -> Option<Distrust> {
    let kind = found.file_type();
    if !kind.is_file() {
        return Some(Distrust::Kind(named(kind)));
    }
    if !owners.include(found.uid()) {
        return Some(Distrust::Owner(found.uid()));
    }
    // Zero links: the file was removed while it was opened, which is for the caller to notice.
    if found.nlink() > 1 {
        return Some(Distrust::Links(found.nlink()));
    }
    let mode = found.mode() & 0o7777;
    (mode & OTHERS_WRITE != 0).then_some(Distrust::Writable(mode))
}

fn named(kind: fs::FileType) -> &'static str {
    match kind {
        kind if kind.is_symlink() => "a symbolic link",
        kind if kind.is_dir() => "a directory",
        kind if kind.is_fifo() => "a named pipe",
        kind if kind.is_socket() => "a socket",
        kind if kind.is_char_device() || kind.is_block_device() => "a device",
        _ => "something else",
    }
}

/// The refusal behind a failure to open a file, if there is one: a file that can't be opened can't be checked by
/// its descriptor, and is not used either.
fn explained(path: &Path, owners: &TrustedOwners, error: io::Error) -> io::Error {
    let errno = error.raw_os_error().map(Errno::from_raw_os_error);
    // A symbolic link; a socket or a pipe; a directory; a file of somebody else's.
    let is_telling = [Errno::LOOP, Errno::MLINK, Errno::NXIO, Errno::ISDIR, Errno::ACCESS, Errno::PERM];
    if !errno.is_some_and(|errno| is_telling.contains(&errno)) {
        return error;
    }
    match fs::symlink_metadata(path).ok().and_then(|found| distrust(&found, owners)) {
        Some(reason) => UntrustedFile::new(path, reason).into(),
        None => error,
    }
}
