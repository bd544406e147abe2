//! Walks a local tree: every command that lists, copies or removes files below a directory uses it.
//!
//! Each directory is opened relative to the one above, and never through a symbolic link: a directory that is swapped
//! for a link in the middle of a walk is not entered. Only the root may be a link, because the user named it. With
//! [`LinkPolicy::Follow`], see [`follow`].
//!
//! Keys are ordered by their bytes, including `/`, as in S3: `a-b` comes before `a/b`, and `a.b` too, whatever the
//! order in the directory. So a directory is sorted as its name with a trailing slash, and its content follows there.
//! The walk holds the names of the directories between the root and its position, those of a large directory in a
//! temporary file, and few descriptors.

use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{AtFlags, Dir, FileType, Stat, statat};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use super::beneath::{self, Entered};
use super::fault::{fault, invalid};
use super::links::{self, LinkPolicy};
use super::{kept, target, temp};
use tidegate_core::backend::{Entry, Fault, FaultKind, OpenSession, OtherKind};
use tidegate_core::memory::external_sort::{MergedRuns, Record, SortedRuns};

mod follow;

/// The most entries in one batch.
const BATCH: usize = 256;
/// The most directories that stay open. A directory further up is opened again when the walk returns to it.
const OPEN: usize = 16;
/// The most names of a directory that are sorted in memory: about 4 MiB. Few in tests, so that they sort in a file, too.
const MOST_IN_MEMORY: usize = if cfg!(test) { 3 } else { 1 << 16 };

/// The source of a listing's error about one name below the root. The listing continues.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum UnlistedName {
    /// The name is no key, and so that of no object.
    #[error("the name is not UTF-8")]
    NotUtf8 {
        /// As [`UnlistedName::name`] has it.
        name: String,
    },
    /// The file cannot be described, or the directory cannot be read.
    #[error("{name} could not be read")]
    Unread {
        /// As [`UnlistedName::name`] has it.
        name: String,
        /// Why.
        source: io::Error,
    },
}

impl UnlistedName {
    /// The path below the root, with U+FFFD in place of bytes that are not UTF-8. A slash ends that of a directory.
    pub fn name(&self) -> &str {
        match self {
            Self::NotUtf8 { name } | Self::Unread { name, .. } => name,
        }
    }
}

/// The fault of a name that cannot be read.
fn unread(error: impl Into<io::Error>, path: &Path, key: &str) -> Fault {
    let error = error.into();
    // An `io::Error` is not `Clone`.
    let source = match error.raw_os_error() {
        Some(number) => io::Error::from_raw_os_error(number),
        None => io::Error::from(error.kind()),
    };
    fault(error, path).with_source(UnlistedName::Unread { name: key.to_owned(), source })
}

/// The entries to find.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Want {
    Objects { recursive: bool },
    Sessions,
}

#[expect(clippy::large_enum_variant, reason = "nearly all are entries, and none lives long")]
pub(super) enum WalkItem {
    Entry(Entry),
    Session(OpenSession),
}

/// A walk through the tree, with its position.
pub(super) struct TreeWalk {
    root: PathBuf,
    prefix: String,
    want: Want,
    links: LinkPolicy,
    /// With [`LinkPolicy::Follow`]: device and inode of the directories above the start of the walk.
    above: Vec<(u64, u64)>,
    /// The directories from the start of the walk to its position.
    levels: Vec<Level>,
    begun: bool,
    faults: Vec<Fault>,
}

struct Level {
    /// For messages only: the walk uses descriptors.
    path: PathBuf,
    /// `None` while the walk is far below: see [`OPEN`].
    directory: Option<Arc<OwnedFd>>,
    /// Device and inode: a directory that is opened again must be the same.
    id: (u64, u64),
    /// The key of this directory: empty, or with a trailing slash.
    below: String,
    /// The names not visited yet, in key order.
    names: MergedRuns<Name>,
    /// The last name visited, where a link and a file may have one name as objects.
    last: Option<String>,
}

/// A name in a directory.
#[derive(Serialize, Deserialize)]
struct Name {
    /// A directory's name ends with a slash.
    name: String,
    kind: FileKind,
}

impl Record for Name {
    fn key(&self) -> &str {
        &self.name
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
enum FileKind {
    Directory,
    File,
    Link,
    /// A link to a directory that is followed.
    FollowedLink,
    /// A link to a directory that the walk is in.
    WayBack,
    /// A device, a named pipe or a socket.
    NotRegular,
}

impl FileKind {
    fn of(file_type: FileType) -> Self {
        match file_type {
            FileType::Directory => Self::Directory,
            FileType::RegularFile => Self::File,
            FileType::Symlink => Self::Link,
            _ => Self::NotRegular,
        }
    }

    /// Whether the walk continues there.
    fn is_entered(self) -> bool {
        matches!(self, Self::Directory | Self::FollowedLink)
    }
}

impl TreeWalk {
    /// Reads nothing before the first [`batch`](Self::batch). `None` if no key can have the prefix.
    pub(super) fn new(root: PathBuf, prefix: &str, want: Want, links: LinkPolicy) -> Option<Self> {
        let directories = prefix.rsplit_once('/').map(|(directories, _)| directories);
        if directories.is_some_and(|directories| target::fault_of(directories).is_some()) {
            return None;
        }
        let prefix = prefix.to_owned();
        // Sessions behind links are those of another directory.
        let links = if want == Want::Sessions { LinkPolicy::default() } else { links };
        let (levels, above, faults) = (Vec::new(), Vec::new(), Vec::new());
        Some(Self { root, prefix, want, links, above, levels, begun: false, faults })
    }

    pub(super) fn is_done(&self) -> bool {
        self.begun && self.levels.is_empty()
    }

    /// The next entries. An entry that cannot be read becomes an error among them, and the walk continues.
    pub(super) fn batch(&mut self) -> Vec<Result<WalkItem, Fault>> {
        if !self.begun {
            self.begun = true;
            self.begin();
        }
        let mut batch = Vec::new();
        loop {
            batch.extend(self.faults.drain(..).map(Err));
            if batch.len() >= BATCH {
                return batch;
            }
            let Some(level) = self.levels.last_mut() else { return batch };
            match level.names.next() {
                Some(Ok(name)) => batch.extend(self.visit(name)),
                Some(Err(error)) => {
                    let error = unsorted(&error, &level.path);
                    batch.push(Err(fault(error, &level.path)));
                }
                None => {
                    self.levels.pop();
                    self.open_last();
                }
            }
        }
    }

    fn begin(&mut self) {
        let below = match self.prefix.rfind('/') {
            Some(slash) => self.prefix[..=slash].to_owned(),
            None => String::new(),
        };
        match beneath::root(&self.root) {
            Ok(_) => {}
            Err(Errno::NOENT) => {
                let message = format!("there is no directory {}", self.root.display());
                return self.faults.push(Fault::new(FaultKind::NoBucket, message));
            }
            Err(Errno::NOTDIR) => {
                let fault = invalid(format!("{} is not a directory", self.root.display()));
                return self.faults.push(fault.with_source(std::io::Error::from(Errno::NOTDIR)));
            }
            Err(error) => return self.faults.push(fault(error.into(), &self.root)),
        }
        if self.follows() {
            match follow::above(&self.root, below.trim_end_matches('/')) {
                Ok(above) => self.above = above,
                Err(error) => return self.faults.push(fault(error.into(), &self.root)),
            }
        }
        match self.directory(below.trim_end_matches('/')) {
            // Open it again, for reading.
            Ok(Entered::Directory(directory)) => {
                let path = self.root.join(&below);
                match beneath::again(&directory) {
                    Ok(directory) => self.enter(directory, path, below),
                    Err(error) => self.faults.push(fault(error.into(), &path)),
                }
            }
            Ok(Entered::Missing) => {}
            Ok(Entered::Link(link)) => self.faults.push(beneath::is_a_link(&link)),
            Err(error) => self.faults.push(fault(error.into(), &self.root)),
        }
    }

    fn follows(&self) -> bool {
        self.links == LinkPolicy::Follow
    }

    fn is_recursive(&self) -> bool {
        self.want != (Want::Objects { recursive: false })
    }

    /// Opens the directory `below` of the root.
    fn directory(&self, below: &str) -> Result<Entered, Errno> {
        if self.follows() {
            follow::directory(&self.root, below)
        } else {
            beneath::directory(&self.root, below)
        }
    }

    /// Reads a directory's names, and continues there.
    fn enter(&mut self, directory: OwnedFd, path: PathBuf, below: String) {
        let read = (|| {
            let found = rustix::fs::fstat(&directory)?;
            let id = beneath::id(&found);
            Ok::<_, io::Error>((id, self.names((&directory, id), &path, &below)?))
        })();
        match read {
            Ok((id, names)) => {
                let directory = Some(Arc::new(directory));
                self.levels.push(Level { path, directory, id, below, names, last: None });
                if let Some(far) = self.levels.len().checked_sub(OPEN + 1) {
                    self.levels[far].directory = None;
                }
            }
            // The directory was removed, and its entries before it.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => self.faults.push(unread(error, &path, &below)),
        }
    }

    /// Opens the directory at the walk's position again, if it was closed while the walk was far below.
    fn open_last(&mut self) {
        let Some(level) = self.levels.last() else { return };
        if level.directory.is_some() {
            return;
        }
        let id = level.id;
        let opened = self.directory(level.below.trim_end_matches('/'));
        let opened = opened.and_then(|entered| match entered {
            Entered::Directory(directory) => {
                let directory = beneath::again(&directory)?;
                let is_same = beneath::id(&rustix::fs::fstat(&directory)?) == id;
                Ok(is_same.then_some(directory))
            }
            Entered::Missing | Entered::Link(_) => Ok(None),
        });
        let Some(level) = self.levels.last_mut() else { return };
        let failed = match opened {
            Ok(Some(directory)) => {
                level.directory = Some(Arc::new(directory));
                return;
            }
            Ok(None) => invalid(format!("{} was replaced while it was listed", level.path.display())),
            Err(error) => unread(error, &level.path, &level.below),
        };
        self.faults.push(failed);
        level.names = MergedRuns::default();
    }

    /// Reads the names in a directory that the walk wants.
    fn names(
        &mut self,
        (directory, own): (&OwnedFd, (u64, u64)),
        path: &Path,
        below: &str,
    ) -> io::Result<MergedRuns<Name>> {
        let mut names = SortedRuns::new(MOST_IN_MEMORY);
        for entry in self.spared(|| Dir::read_from(directory))? {
            let entry = entry?;
            let name = match entry.file_name().to_str() {
                Ok("." | "..") => continue,
                Ok(name) => name.to_owned(),
                Err(_) => {
                    let name = entry.file_name().to_string_lossy();
                    if self.want != Want::Sessions && self.leads_to_prefix(below, &name) {
                        let file = path.join(&*name);
                        let message = format!("{} is no key: its name is not UTF-8", file.display());
                        let slash = if entry.file_type() == FileType::Directory { "/" } else { "" };
                        let name = format!("{below}{name}{slash}");
                        self.faults.push(invalid(message).with_source(UnlistedName::NotUtf8 { name }));
                    }
                    continue;
                }
            };
            let kind = match entry.file_type() {
                FileType::Unknown => match statat(directory, entry.file_name(), AtFlags::SYMLINK_NOFOLLOW) {
                    Ok(found) => FileKind::of(FileType::from_raw_mode(found.st_mode)),
                    Err(Errno::NOENT) => continue,
                    Err(error) => {
                        self.faults.push(unread(error, &path.join(&name), &format!("{below}{name}")));
                        continue;
                    }
                },
                known => FileKind::of(known),
            };
            let behind = match kind {
                FileKind::Link if self.follows() => follow::directory_behind(directory, entry.file_name()),
                _ => None,
            };
            // Known before the names are sorted: a way back has its own key, and a directory those below.
            let kind = match behind {
                Some(id) if self.is_recursive() && (id == own || self.is_way_back(id)) => FileKind::WayBack,
                Some(_) => FileKind::FollowedLink,
                None => kind,
            };
            if !kind.is_entered() && temp::is_temp(&name) != (self.want == Want::Sessions) {
                continue;
            }
            let name = match kind {
                FileKind::Directory | FileKind::FollowedLink => name + "/",
                FileKind::Link if self.links == LinkPolicy::Objects => name + target::LINK_SUFFIX,
                _ => name,
            };
            if self.leads_to_prefix(below, &name) {
                names.push(Name { name, kind });
                if names.is_full() {
                    names.spill().map_err(|error| unsorted(&error, path))?;
                }
            }
        }
        names.merge().map_err(|error| unsorted(&error, path))
    }

    /// Whether keys that begin like this can have the prefix. A session's key differs from its file's name.
    fn leads_to_prefix(&self, below: &str, name: &str) -> bool {
        let key = format!("{below}{name}");
        let file = !name.ends_with('/');
        key.starts_with(&self.prefix)
            || if file { self.want == Want::Sessions } else { self.prefix.starts_with(&key) }
    }

    /// Opens something; if no descriptor is left, closes the directories further up and tries again.
    fn spared<T>(&mut self, open: impl Fn() -> Result<T, Errno>) -> Result<T, Errno> {
        match open() {
            Err(Errno::MFILE | Errno::NFILE) => {
                let above = self.levels.len().saturating_sub(1);
                self.levels[..above].iter_mut().for_each(|level| level.directory = None);
                open()
            }
            opened => opened,
        }
    }

    /// Looks at the next name, unless it comes a second time: beside the link `a`, there may be a file `a.rclonelink`.
    fn visit(&mut self, name: Name) -> Option<Result<WalkItem, Fault>> {
        if self.links == LinkPolicy::Objects
            && let Some(level) = self.levels.last_mut()
        {
            if level.last.as_ref() == Some(&name.name) {
                let file = level.path.join(&name.name);
                return Some(Err(invalid(format!(
                    "{}: a file has this name, and a symbolic link has it as an object",
                    file.display()
                ))));
            }
            level.last = Some(name.name.clone());
        }
        self.look_at(name)
    }

    fn look_at(&mut self, Name { name, kind }: Name) -> Option<Result<WalkItem, Fault>> {
        let level = self.levels.last()?;
        let (path, key) = (level.path.join(&name), format!("{}{name}", level.below));
        let directory = level.directory.clone()?;
        if kind.is_entered() {
            if !self.is_recursive() {
                return Some(Ok(WalkItem::Entry(Entry::Prefix(key))));
            }
            let name = name.trim_end_matches('/');
            let follows = self.follows();
            let opened = self.spared(|| match follows {
                true => follow::child(&directory, name),
                false => beneath::child(&directory, name),
            });
            return match opened {
                Ok(Entered::Directory(child)) => match follows.then(|| self.is_in(&child)) {
                    Some(Ok(true)) => {
                        let key = key.trim_end_matches('/').to_owned();
                        Some(Ok(WalkItem::Entry(Entry::Other { key, kind: OtherKind::WayBack })))
                    }
                    Some(Err(error)) => Some(Err(unread(error, &path, &key))),
                    Some(Ok(false)) | None => {
                        self.enter(child, path, key);
                        None
                    }
                },
                // Swapped for a link since its name was read.
                Ok(Entered::Link(_)) => self.look_at(Name { name: name.to_owned(), kind: FileKind::Link }),
                Ok(Entered::Missing) => None,
                Err(error) => Some(Err(unread(error, &path, &key))),
            };
        }
        if kind == FileKind::Link
            && self.links == LinkPolicy::Objects
            && let Some(link) = links::link_key(&name)
        {
            return self.link(&directory, link, key, &path);
        }
        if kind == FileKind::WayBack {
            return Some(Ok(WalkItem::Entry(Entry::Other { key, kind: OtherKind::WayBack })));
        }
        let failed = |error: Errno| unread(error, &path, &key);
        // A name that is gone was removed meanwhile.
        let found = match statat(&*directory, &name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(found) => found,
            Err(Errno::NOENT) => return None,
            Err(error) => return Some(Err(failed(error))),
        };
        let kind = FileKind::of(FileType::from_raw_mode(found.st_mode));
        if self.want == Want::Sessions {
            // Tidegate makes no links with such names.
            let session =
                (kind == FileKind::File).then(|| self.session(&directory, &name, &found)).flatten()?;
            return Some(Ok(WalkItem::Session(session)));
        }
        let other = |kind| Entry::Other { key: key.clone(), kind };
        let entry = match kind {
            // Made since the names were read.
            FileKind::Directory | FileKind::FollowedLink | FileKind::WayBack => return None,
            FileKind::File => Entry::Object(target::describe(&key, &found)),
            FileKind::NotRegular => other(OtherKind::NotRegular),
            FileKind::Link if self.links == LinkPolicy::Skip => other(OtherKind::Link),
            // Swapped for a link since its name was read.
            FileKind::Link if self.links == LinkPolicy::Objects => {
                return self.link(&directory, &name, key.clone() + target::LINK_SUFFIX, &path);
            }
            FileKind::Link => match statat(&*directory, &name, AtFlags::empty()) {
                Ok(found) => match FileKind::of(FileType::from_raw_mode(found.st_mode)) {
                    FileKind::File => Entry::Object(target::describe(&key, &found)),
                    FileKind::Directory => other(OtherKind::LinkToDirectory),
                    FileKind::Link | FileKind::FollowedLink | FileKind::WayBack | FileKind::NotRegular => {
                        other(OtherKind::NotRegular)
                    }
                },
                Err(_) => other(OtherKind::BrokenLink),
            },
        };
        Some(Ok(WalkItem::Entry(entry)))
    }

    /// The link of this name as an object. One that is gone, or something else by now, was removed meanwhile.
    fn link(
        &self,
        directory: &OwnedFd,
        link: &str,
        key: String,
        path: &Path,
    ) -> Option<Result<WalkItem, Fault>> {
        match statat(directory, link, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(found) if FileKind::of(FileType::from_raw_mode(found.st_mode)) == FileKind::Link => {
                Some(Ok(WalkItem::Entry(Entry::Object(target::describe(&key, &found)))))
            }
            Ok(_) | Err(Errno::NOENT) => None,
            Err(error) => Some(Err(fault(error.into(), path))),
        }
    }

    /// The session of the regular file `name`, if it is one and has the prefix.
    fn session(&self, directory: &OwnedFd, name: &str, found: &Stat) -> Option<OpenSession> {
        let below = &self.levels.last()?.below;
        let session = temp::session(below, name).filter(|session| session.key.starts_with(&self.prefix))?;
        let opened = temp::open_at(directory, name).ok();
        let created = opened.as_ref().and_then(|file| file.metadata().ok()?.created().ok());
        let started = created.or_else(|| target::modified(found));
        let kept_until = kept::until(found);
        // A write in one go holds the lock of its file.
        let in_use = opened.is_some_and(|file| temp::is_locked(&file));
        Some(OpenSession::new(session).with_started(started).with_in_use(in_use).with_kept_until(kept_until))
    }
}

/// The failure of the temporary file that a large directory's names are sorted in. It is never `NotFound`, which would
/// mean that the directory is gone.
fn unsorted(error: &io::Error, path: &Path) -> io::Error {
    io::Error::other(format!(
        "the names in {} could not be sorted in a temporary file in {}: {error}",
        path.display(),
        std::env::temp_dir().display()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fault_of_what_cannot_be_read_has_its_name() {
        for (key, path) in [("a/secret/", "/t/a/secret"), ("file", "/t/file")] {
            let fault = unread(Errno::ACCESS, Path::new(path), key);
            assert_eq!(fault.kind, FaultKind::Denied);
            let source = fault.source.as_ref().and_then(|source| source.downcast_ref());
            let Some(UnlistedName::Unread { name, source }) = source else { panic!("{fault:?}") };
            assert_eq!((&**name, source.kind()), (key, io::ErrorKind::PermissionDenied));
        }
    }
}
