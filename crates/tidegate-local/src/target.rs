//! Maps a key to a path below the root, and describes a file as an object.

use std::fs::Metadata;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use rustix::fs::{Mode, OFlags, Stat, open};
use rustix::io::Errno;

use super::facts::FileFacts;
use super::fault::invalid;
use super::{no_links, replaced, temp};
use tidegate_core::backend::{Fault, FaultKind};
use tidegate_core::types::object::Object;

/// The end of the key of a link that is an object, see [`LinkPolicy::Objects`](super::LinkPolicy::Objects).
pub const LINK_SUFFIX: &str = ".rclonelink";

/// The file of a key.
#[derive(Clone, Debug)]
pub(super) struct Target {
    key: String,
    path: PathBuf,
    /// Whether the path was given relative to the process's directory.
    is_relative: bool,
    /// A directory, and the key below it of this file: nothing is written there through links.
    without_links: Option<(PathBuf, String)>,
    /// The directory of a file that is to be made, opened without following links.
    directory: Option<Arc<OwnedFd>>,
}

impl Target {
    /// The file of `key` below `root`.
    pub(super) fn of(root: &Path, key: &str) -> Result<Self, Fault> {
        if let Some(reason) = fault_of(key) {
            return Err(invalid(format!("no file below a directory has such a key: {reason}")));
        }
        let (key, path) = (key.to_owned(), root.join(key));
        Ok(Self { key, path, is_relative: false, without_links: None, directory: None })
    }

    /// The same for a key to be written: names of temporary files are refused.
    pub(super) fn to_write(root: &Path, key: &str) -> Result<Self, Fault> {
        let target = Self::of(root, key)?;
        if temp::is_temp(target.name()) {
            return Err(invalid("such names are kept for files that are not finished"));
        }
        Ok(target)
    }

    pub(super) fn relative(self, is_relative: bool) -> Self {
        Self { is_relative, ..self }
    }

    /// The same, but a write fails if there are links below `root` on the way to its `key`, or in its place.
    pub(super) fn without_links(self, root: &Path, key: &str) -> Self {
        Self { without_links: Some((root.to_owned(), key.to_owned())), ..self }
    }

    fn check_links(&self) -> Result<(), Fault> {
        self.without_links
            .as_ref()
            .map_or(Ok(()), |(root, key)| no_links::directory_of_no_link(root, key).map(drop))
    }

    /// The directory, opened without following links, in which the file is to get its name; `None` if links may be
    /// followed.
    pub(super) fn directory_without_links(&self) -> Result<Option<OwnedFd>, Fault> {
        let Some((root, key)) = &self.without_links else { return Ok(None) };
        let gone = || invalid(format!("{} was removed meanwhile", self.directory().display()));
        no_links::directory_of_no_link(root, key)?.ok_or_else(gone).map(Some)
    }

    /// The directory, for a file that is to be made there and replaces nothing: opened without following links below the
    /// root, unless links may be followed. `None` if it does not exist yet.
    pub(super) fn directory_to_make_in(&self) -> Result<Option<Arc<OwnedFd>>, Fault> {
        let opened = match (&self.directory, &self.without_links) {
            (Some(directory), _) => return Ok(Some(directory.clone())),
            (None, Some((root, key))) => no_links::directory(root, key)?,
            (None, None) => open(self.directory(), OFlags::DIRECTORY | no_links::PATH, Mode::empty()).ok(),
        };
        Ok(opened.map(Arc::new))
    }

    /// As [`find`](Self::find), and keeps the directory open for [`directory_to_make_in`](Self::directory_to_make_in), if
    /// that exists and links are not followed: one look at the way to it is enough.
    pub(super) fn find_to_make(mut self) -> Result<(Self, Option<Metadata>), Fault> {
        let opened = || no_links::directory_at_once(self.without_links.as_ref()?);
        if let Some(directory) = opened()
            && let Some(found) = replaced::entry_at(&self.path)
        {
            self.directory = Some(directory.into());
            found.as_ref().map_or(Ok(()), check_regular)?;
            return Ok((self, found));
        }
        self.find()
    }

    /// Closes the directory that [`find_to_make`](Self::find_to_make) opened.
    pub(super) fn close_directory(self) -> Self {
        Self { directory: None, ..self }
    }

    /// The file that a write to this key replaces: the end of the links in its place, see [`replaced::behind_links`].
    pub(super) fn behind_links(self) -> Result<Self, Fault> {
        Ok(Self { path: replaced::behind_allowed_links(&self.path, || self.check_links())?.0, ..self })
    }

    /// The same for a file that is to be made, and what is there already. Refuses anything but a regular file
    /// there, and missing directories that must not be made, see [`Self::check_directories`].
    pub(super) fn find(self) -> Result<(Self, Option<Metadata>), Fault> {
        let (path, found) = replaced::behind_allowed_links(&self.path, || self.check_links())?;
        let target = Self { path, ..self };
        match &found {
            Some(found) => check_regular(found)?,
            None => target.check_directories()?,
        }
        Ok((target, found))
    }

    /// Refuses this key if another user could have chosen the way to its directory, see [`replaced::check_way`].
    pub(super) fn on_a_safe_way(self) -> Result<Self, Fault> {
        self.check_links()?;
        replaced::check_way(self.directory()).map(|_| self)
    }

    /// Refuses to make a directory directly below `/`: a path whose first directory is missing is more often mistyped
    /// than meant.
    pub(super) fn check_directories(&self) -> Result<(), Fault> {
        let missing = self.directory().ancestors().take_while(|ancestor| !ancestor.exists()).last();
        match missing {
            Some(first) if !self.is_relative && first.parent() == Some(Path::new("/")) => {
                Err(invalid(format!(
                    "there is no directory {first}, and none is made directly below /: make it first, if that is meant",
                    first = first.display()
                )))
            }
            _ => Ok(()),
        }
    }

    pub(super) fn key(&self) -> &str {
        &self.key
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// The file's name: the last one of the key, unless a link leads to another.
    pub(super) fn name(&self) -> &str {
        let last = || self.key.rsplit('/').next().unwrap_or(&self.key);
        self.path.file_name().and_then(|name| name.to_str()).unwrap_or_else(last)
    }

    /// The directories of the key, below the root.
    pub(super) fn below(&self) -> &str {
        self.key.rsplit_once('/').map_or("", |(below, _)| below)
    }

    /// The file's directory.
    pub(super) fn directory(&self) -> &Path {
        self.path.parent().unwrap_or(&self.path)
    }
}

/// Says what is wrong with a key, or with the directories of a prefix.
pub(super) fn fault_of(key: &str) -> Option<&'static str> {
    if key.is_empty() {
        Some("it is empty")
    } else if key.contains('\0') {
        Some("it holds a NUL")
    } else if key.starts_with('/') {
        Some("it is absolute")
    } else if key.ends_with('/') {
        Some("it ends with a slash, and so names a directory")
    } else if key.split('/').any(str::is_empty) {
        Some("it holds two slashes in a row")
    } else if key.split('/').any(|name| name == "." || name == "..") {
        Some("it holds `.` or `..`")
    } else {
        None
    }
}

/// Refuses anything but a regular file.
pub(super) fn check_regular(metadata: &Metadata) -> Result<(), Fault> {
    if metadata.is_dir() {
        return Err(is_a_directory());
    }
    if !metadata.is_file() {
        return Err(invalid("it is not a regular file"));
    }
    Ok(())
}

/// The same for reading: a directory counts as not found, because other stores have no object in its place.
pub(super) fn check_readable(metadata: &Metadata) -> Result<(), Fault> {
    check_regular(metadata).map_err(|fault| match metadata.is_dir() {
        true => Fault { kind: FaultKind::NotFound, ..fault },
        false => fault,
    })
}

pub(super) fn is_a_directory() -> Fault {
    invalid("it is a directory").with_source(io::Error::from(Errno::ISDIR))
}

/// The file as an object. Its ETag changes with its content, as far as the system can tell.
pub(super) fn describe(key: &str, found: impl Into<FileFacts>) -> Object {
    let facts: FileFacts = found.into();
    Object {
        key: key.to_owned(),
        size: facts.size(),
        etag: Some(facts.etag()),
        modified: facts.modified(),
        ..Object::default()
    }
}

/// The time of the last write to the file.
pub(super) fn modified(found: &Stat) -> Option<SystemTime> {
    FileFacts::from(found).modified()
}
