//! A file that is read to its end and must not change until then.

use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use tidegate::object::FileAttributes;

use crate::error::{Error, Result};

/// An open file, with its size and modification time when it was opened.
#[derive(Debug)]
pub(crate) struct OpenedFile {
    path: PathBuf,
    file: File,
    size: u64,
    modified: Option<SystemTime>,
}

impl OpenedFile {
    /// Opens the file. Blocks while the disk responds.
    ///
    /// # Errors
    /// Those of the system.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        // Without O_NONBLOCK, opening a pipe would wait for its other end.
        let flags = i32::try_from(rustix::fs::OFlags::NONBLOCK.bits()).unwrap_or_default();
        Self::of(path.to_owned(), File::options().read(true).custom_flags(flags).open(path)?)
    }

    /// The same for a file that is open already, at its start.
    ///
    /// # Errors
    /// Those of the system, and one for anything but a regular file. The file was listed as one: a pipe that has replaced
    /// it would read as empty.
    pub(crate) fn of(path: PathBuf, file: File) -> io::Result<Self> {
        let found = file.metadata()?;
        if !found.is_file() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file"));
        }
        Ok(Self { path, size: found.len(), modified: modified(&found), file })
    }

    /// A handle to read the file. Call it once: clones share one position in the file.
    ///
    /// # Errors
    /// Those of the system.
    pub(crate) fn source(&self) -> io::Result<tokio::fs::File> {
        Ok(tokio::fs::File::from_std(self.file.try_clone()?))
    }

    /// Its time and its permissions.
    pub(crate) fn attributes(&self) -> io::Result<FileAttributes> {
        Ok(FileAttributes::of_file(&self.file.metadata()?))
    }

    /// The failure of the file, with the system's message.
    pub(crate) fn failure(&self, error: &io::Error) -> Error {
        Error::of_file(&self.path, error)
    }

    /// Fails if the file was written to while its bytes were `read`.
    ///
    /// # Errors
    /// [`Error::Failed`], which names the file.
    pub(crate) fn check_unchanged(&self, read: u64) -> Result {
        let now = self.file.metadata().map_err(|error| self.failure(&error))?;
        let is_same = match self.size {
            // The system generates some files as they are read (/proc); it reports their size as 0.
            0 => now.len() == 0 || now.len() == read,
            size => now.len() == size && read == size && modified(&now) == self.modified,
        };
        if is_same {
            return Ok(());
        }
        let (path, before, now) = (self.path.display(), self.size, now.len());
        Err(Error::Failed(format!(
            "{path}: the file changed while it was read: it had {before} bytes and has {now}; nothing was \
             published"
        )))
    }
}

fn modified(found: &Metadata) -> Option<SystemTime> {
    found.modified().ok()
}

#[cfg(test)]
mod tests {
    use tidegate::backend::local::FilesBelow;

    use super::*;

    #[test]
    fn only_regular_files_are_opened() {
        let folder = tempfile::tempdir().unwrap();
        let files = FilesBelow::new(folder.path(), false);
        let open = |name: &str| OpenedFile::of(files.path(name), files.open(name)?);
        let made = std::process::Command::new("mkfifo").arg(files.path("pipe")).status().unwrap();
        assert!(made.success());
        std::fs::create_dir(files.path("directory")).unwrap();
        std::fs::write(files.path("file"), "").unwrap();
        for name in ["pipe", "directory"] {
            for opened in [open(name), OpenedFile::open(&files.path(name))] {
                assert!(opened.unwrap_err().to_string().contains("not a regular file"), "{name}");
            }
        }
        assert_eq!(open("file").unwrap().size, 0);
    }
}
