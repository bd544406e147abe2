//! A key as a path below the root, and a file as an object.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::fault::invalid;
use super::temp;
use crate::backend::{Fault, FaultKind};
use crate::object::Object;

/// Where a key's file is.
#[derive(Clone, Debug)]
pub(super) struct Target {
    key: String,
    path: PathBuf,
}

impl Target {
    /// The file of `key` below `root`.
    pub(super) fn of(root: &Path, key: &str) -> Result<Self, Fault> {
        if let Some(reason) = fault_of(key) {
            return Err(invalid(format!("no file below a directory has such a key: {reason}")));
        }
        Ok(Self { key: key.to_owned(), path: root.join(key) })
    }

    /// The same, for a key that is to be written.
    pub(super) fn to_write(root: &Path, key: &str) -> Result<Self, Fault> {
        let target = Self::of(root, key)?;
        if temp::is_temp(target.name()) {
            return Err(invalid("such names are kept for files that are not finished"));
        }
        Ok(target)
    }

    pub(super) fn key(&self) -> &str {
        &self.key
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// The last name of the key.
    pub(super) fn name(&self) -> &str {
        self.key.rsplit('/').next().unwrap_or(&self.key)
    }

    /// The directory that the file is in.
    pub(super) fn directory(&self) -> &Path {
        self.path.parent().unwrap_or(&self.path)
    }
}

/// What is wrong with a key, or with the directories that a prefix names.
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

/// Refuses what is no regular file.
pub(super) fn check_regular(metadata: &Metadata) -> Result<(), Fault> {
    if metadata.is_dir() {
        return Err(is_a_directory());
    }
    if !metadata.is_file() {
        return Err(invalid("it is not a regular file"));
    }
    Ok(())
}

/// The same of what is read: a directory is no object, as there is none in its place elsewhere.
pub(super) fn check_readable(metadata: &Metadata) -> Result<(), Fault> {
    check_regular(metadata).map_err(|fault| match metadata.is_dir() {
        true => Fault { kind: FaultKind::NotFound, ..fault },
        false => fault,
    })
}

pub(super) fn is_a_directory() -> Fault {
    invalid("it is a directory")
}

/// The file as an object. Its tag changes with its content as far as the system can tell.
pub(super) fn describe(key: &str, metadata: &Metadata) -> Object {
    let changed = i128::from(metadata.mtime()) * 1_000_000_000 + i128::from(metadata.mtime_nsec());
    Object {
        key: key.to_owned(),
        size: metadata.len(),
        etag: Some(format!("\"{:x}-{changed:x}-{:x}\"", metadata.ino(), metadata.len())),
        modified: metadata.modified().ok(),
        ..Object::default()
    }
}
