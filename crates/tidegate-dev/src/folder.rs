//! A directory held open by its descriptor. Every operation names one entry of that directory and never follows
//! a symbolic link, so that no name, not even a client's, leads out of the storage.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags};
use rustix::io::Errno;

use crate::ServerError;

/// A directory of the storage.
#[derive(Debug)]
pub(crate) struct Folder {
    fd: OwnedFd,
    /// The path at opening time; for messages only.
    path: PathBuf,
}

/// The modes that `std` uses; the umask restricts them.
const FILE_MODE: Mode = Mode::from_raw_mode(0o666);
const FOLDER_MODE: Mode = Mode::from_raw_mode(0o777);

impl Folder {
    /// Opens the storage's own directory, whose path the user chose: created if missing; the path may contain
    /// links.
    pub(crate) fn root(path: &Path) -> Result<Self, ServerError> {
        std::fs::create_dir_all(path).map_err(ServerError::storage(path))?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let fd = rustix::fs::openat(CWD, path, flags, Mode::empty());
        let fd = fd.map_err(|errno| ServerError::storage(path)(errno.into()))?;
        Ok(Self { fd, path: path.to_owned() })
    }

    /// The path of an entry, for messages.
    pub(crate) fn path_of(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// Opens a subdirectory.
    pub(crate) fn open(&self, name: &str) -> Result<Self, ServerError> {
        let fd = self.open_with(name, OFlags::RDONLY | OFlags::DIRECTORY).map_err(self.at(name))?;
        Ok(Self { fd, path: self.path_of(name) })
    }

    /// Opens a subdirectory, creating it if missing.
    pub(crate) fn make(&self, name: &str) -> Result<Self, ServerError> {
        let make = || match rustix::fs::mkdirat(&self.fd, component(name)?, FOLDER_MODE) {
            Ok(()) | Err(Errno::EXIST) => Ok(()),
            Err(errno) => Err(errno.into()),
        };
        make().map_err(self.at(name))?;
        self.open(name)
    }

    /// Opens a regular file for reading.
    pub(crate) fn open_file(&self, name: &str) -> io::Result<File> {
        // Without NONBLOCK, opening a named pipe would block the server.
        let file = File::from(self.open_with(name, OFlags::RDONLY | OFlags::NONBLOCK)?);
        if !file.metadata()?.is_file() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
        }
        Ok(file)
    }

    /// Creates a file; fails if it exists.
    pub(crate) fn create_new(&self, name: &str) -> io::Result<File> {
        Ok(self.open_with(name, OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL)?.into())
    }

    /// Opens a file for writing, creating it if missing.
    pub(crate) fn create(&self, name: &str) -> Result<File, ServerError> {
        let opened = self.open_with(name, OFlags::WRONLY | OFlags::CREATE | OFlags::NONBLOCK);
        Ok(opened.map_err(self.at(name))?.into())
    }

    /// Reads a whole file.
    pub(crate) fn read(&self, name: &str) -> Result<Vec<u8>, ServerError> {
        let read = || {
            let mut content = Vec::new();
            self.open_file(name)?.read_to_end(&mut content)?;
            Ok(content)
        };
        read().map_err(self.at(name))
    }

    /// Writes a temporary file and renames it to `name`: the file is whole or absent.
    pub(crate) fn replace(&self, name: &str, content: &[u8]) -> Result<(), ServerError> {
        let beside = beside(name);
        let write = || {
            let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC;
            File::from(self.open_with(&beside, flags)?).write_all(content)?;
            Ok(rustix::fs::renameat(&self.fd, &*beside, &self.fd, component(name)?)?)
        };
        write().map_err(self.at(name))
    }

    pub(crate) fn has_file(&self, name: &str) -> bool {
        self.open_file(name).is_ok()
    }

    /// Removes a file, or a link but not its target.
    pub(crate) fn remove_file(&self, name: &str) -> io::Result<()> {
        Ok(rustix::fs::unlinkat(&self.fd, component(name)?, AtFlags::empty())?)
    }

    pub(crate) fn remove(&self, name: &str) -> Result<(), ServerError> {
        self.remove_file(name).map_err(self.at(name))
    }

    /// Removes a directory and those of its files for which `is_ours` is true. If other entries remain, the
    /// directory stays.
    pub(crate) fn remove_folder(
        &self,
        name: &str,
        is_ours: impl Fn(&str) -> bool,
    ) -> Result<(), ServerError> {
        let folder = self.open(name)?;
        for entry in folder.entries()? {
            if entry.is_file && is_ours(&entry.name) {
                folder.remove(&entry.name)?;
            }
        }
        self.remove_empty(name)
    }

    /// Removes a directory if it is empty.
    pub(crate) fn remove_empty(&self, name: &str) -> Result<(), ServerError> {
        let remove = || match rustix::fs::unlinkat(&self.fd, component(name)?, AtFlags::REMOVEDIR) {
            Ok(()) => Ok(()),
            Err(Errno::NOTEMPTY | Errno::EXIST) => {
                let path = self.path_of(name);
                tracing::warn!(path = %path.display(), "kept, because the server did not create all that is in it");
                Ok(())
            }
            Err(errno) => Err(errno.into()),
        };
        remove().map_err(self.at(name))
    }

    /// Lists this directory. Skips entries whose names are not UTF-8: the server creates no such names.
    pub(crate) fn entries(&self) -> Result<Vec<FolderEntry>, ServerError> {
        let list = || {
            let mut entries = Vec::new();
            for entry in Dir::read_from(&self.fd)? {
                let entry = entry?;
                let Ok(name) = entry.file_name().to_str() else { continue };
                if name == "." || name == ".." {
                    continue;
                }
                let mut kind = entry.file_type();
                if kind == FileType::Unknown {
                    let stat = rustix::fs::statat(&self.fd, name, AtFlags::SYMLINK_NOFOLLOW)?;
                    kind = FileType::from_raw_mode(stat.st_mode);
                }
                entries.push(FolderEntry {
                    name: name.to_owned(),
                    is_file: kind == FileType::RegularFile,
                    is_folder: kind == FileType::Directory,
                });
            }
            Ok(entries)
        };
        list().map_err(ServerError::storage(&self.path))
    }

    fn open_with(&self, name: &str, flags: OFlags) -> io::Result<OwnedFd> {
        let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Ok(rustix::fs::openat(&self.fd, component(name)?, flags, FILE_MODE)?)
    }

    /// Binds the path of an entry to an I/O error.
    fn at(&self, name: &str) -> impl FnOnce(io::Error) -> ServerError {
        ServerError::storage(self.path_of(name))
    }
}

/// A directory entry. Links and devices count neither as files nor as folders.
#[derive(Debug)]
pub(crate) struct FolderEntry {
    pub(crate) name: String,
    pub(crate) is_file: bool,
    pub(crate) is_folder: bool,
}

/// The temporary name of a file before it is renamed to `name`.
fn beside(name: &str) -> String {
    let stem = name.rsplit_once('.').map_or(name, |(stem, _)| stem);
    format!("{stem}.tmp")
}

/// Refuses a name that is more than one component of a path.
fn component(name: &str) -> io::Result<&str> {
    if name.is_empty() || name == "." || name == ".." || name.contains(['/', '\0']) {
        let message = format!("{name:?} does not name an entry of a directory");
        return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
    }
    Ok(name)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn no_name_leads_out() {
        let place = tempfile::tempdir().unwrap();
        let folder = Folder::root(&place.path().join("root")).unwrap();
        std::fs::write(place.path().join("precious"), "precious").unwrap();
        for name in ["../precious", "..", ".", "", "/etc/hostname", "a/b", "a\0b"] {
            assert!(folder.read(name).is_err(), "{name:?}");
            assert!(folder.replace(name, b"x").is_err(), "{name:?}");
            assert!(folder.make(name).is_err(), "{name:?}");
            assert!(folder.remove(name).is_err(), "{name:?}");
        }
        assert_eq!(std::fs::read(place.path().join("precious")).unwrap(), b"precious");
    }

    #[test]
    fn links_are_not_followed() {
        let place = tempfile::tempdir().unwrap();
        let (root, outside) = (place.path().join("root"), place.path().join("outside"));
        let folder = Folder::root(&root).unwrap();
        std::fs::create_dir(&outside).unwrap();
        std::fs::write(outside.join("precious"), "precious").unwrap();
        symlink(&outside, root.join("link")).unwrap();
        symlink(outside.join("precious"), root.join("file.json")).unwrap();
        symlink(outside.join("precious"), root.join("new.tmp")).unwrap();
        assert!(folder.open("link").is_err() && folder.make("link").is_err());
        assert!(folder.read("file.json").is_err() && folder.create("file.json").is_err());
        assert!(folder.replace("new.json", b"x").is_err());
        folder.replace("file.json", b"x").unwrap();
        assert_eq!(std::fs::read(outside.join("precious")).unwrap(), b"precious");
        assert_eq!(folder.read("file.json").unwrap(), b"x");
    }

    #[test]
    fn only_our_own_files_are_removed() {
        let place = tempfile::tempdir().unwrap();
        let folder = Folder::root(place.path()).unwrap();
        let inner = folder.make("inner").unwrap();
        inner.replace("ours.json", b"{}").unwrap();
        std::fs::write(place.path().join("inner/foreign"), "precious").unwrap();
        folder.remove_folder("inner", |name| name.ends_with(".json")).unwrap();
        let left: Vec<String> = inner.entries().unwrap().into_iter().map(|entry| entry.name).collect();
        assert_eq!(left, ["foreign"]);
        inner.remove("foreign").unwrap();
        folder.remove_folder("inner", |_| false).unwrap();
        assert!(folder.open("inner").is_err());
    }

    #[test]
    fn a_named_pipe_does_not_hold_up_the_server() {
        let place = tempfile::tempdir().unwrap();
        let pipe = place.path().join("pipe.json");
        rustix::fs::mknodat(CWD, &pipe, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        assert!(Folder::root(place.path()).unwrap().read("pipe.json").is_err());
    }
}
