//! What a directory makes of the symbolic links in it; and links as objects, which are never followed.

use std::ffi::OsStr;
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;
use std::time::SystemTime;
use std::{fs, io};

use bytes::Bytes;
use futures::{StreamExt, TryStreamExt, stream};
use rustix::fs::{
    AtFlags, Mode, Timespec, Timestamps, UTIME_OMIT, mkdirat, renameat, symlinkat, unlinkat, utimensat,
};
use rustix::io::Errno;

use super::beneath::{self, Entered};
use super::condition::{Condition, exists};
use super::facts::timespec;
use super::fault::{blocking, fault, invalid};
use super::target::{self, LINK_SUFFIX, Target};
use super::temp::{self, Publish};
use super::{Local, Parents, no_links, parents, read};
use tidegate_core::backend::{Body, Fault, FaultKind, WriteOptions, same_or_replaced};
use tidegate_core::memory::payload::Payload;
use tidegate_core::types::checksum::Hasher;
use tidegate_core::types::object::Object;

/// What a [`Local`] store makes of the symbolic links below its root.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum LinkPolicy {
    /// A link to a file is listed as that file; other links are listed as
    /// [`Entry::Other`](tidegate_core::backend::Entry::Other), and never entered.
    #[default]
    Files,
    /// Listings show every link as [`OtherKind::Link`](tidegate_core::backend::OtherKind::Link), wherever it leads.
    Skip,
    /// As `Files`, and listings enter links to directories. A directory that leads back to one above it is listed as
    /// [`OtherKind::WayBack`](tidegate_core::backend::OtherKind::WayBack), and not entered again. Nothing is removed through a
    /// link.
    Follow,
    /// A link is the object `NAME.rclonelink` ([`LINK_SUFFIX`]), whose content is the link's text, as `rclone --links`
    /// writes it. Writing such an object makes the link, in one step; so does removing it remove the link. Nothing is
    /// written through a link: a write below one, or in its place, fails.
    Objects,
}

/// The longest text of a link in bytes, as in Linux.
pub const LONGEST_LINK: u64 = 4096;

/// The key of the link that an object of this key stands for; `None` if the key is not one of a link.
pub(super) fn link_key(key: &str) -> Option<&str> {
    key.strip_suffix(LINK_SUFFIX).filter(|link| !link.is_empty() && !link.ends_with('/'))
}

impl Local {
    /// The link that the object of this key is; `None` if the key can't be one of a link.
    pub(super) fn link(&self, key: &str) -> Result<Option<Target>, Fault> {
        match link_key(key).filter(|_| self.links == LinkPolicy::Objects) {
            Some(link) => Target::of(&self.root, link).map(Some),
            None => Ok(None),
        }
    }

    /// Makes the link, in one step: nothing is there before, and nothing is followed on the way.
    pub(super) async fn put_link(
        &self,
        key: &str,
        link: Target,
        payload: Payload,
        options: &WriteOptions,
    ) -> Result<Object, Fault> {
        let text = text_of(payload).await?;
        let (root, key, parents) = (self.root.clone(), key.to_owned(), self.parents.clone());
        let how = Publish::of_write(options)?;
        if matches!(how.condition, Condition::This(_)) {
            return Err(Fault::new(
                FaultKind::Unsupported,
                "the text of a symbolic link is replaced without a condition",
            ));
        }
        blocking(move || make(&root, &key, &link, &parents, &text, how)).await
    }
}

/// The text of a link that is written.
async fn text_of(payload: Payload) -> Result<Vec<u8>, Fault> {
    if payload.len() > LONGEST_LINK {
        return Err(too_long(payload.len()));
    }
    let pieces: Vec<Bytes> =
        payload.stream().try_collect().await.map_err(|error: io::Error| {
            Fault::new(FaultKind::Source, error.to_string()).with_source(error)
        })?;
    let text = pieces.concat();
    let mut hasher = Hasher::new(payload.algorithm());
    hasher.update(&text);
    if payload.checksum().is_some_and(|claimed| claimed != hasher.finish()) {
        return Err(Fault::new(FaultKind::Integrity, "the bytes are not those that the checksum is of"));
    }
    if text.is_empty() || text.contains(&0) {
        return Err(invalid("its content is no text of a symbolic link: it is empty, or holds a NUL"));
    }
    Ok(text)
}

pub(super) fn too_long(bytes: u64) -> Fault {
    invalid(format!("it has {bytes} bytes, and the text of a symbolic link has at most {LONGEST_LINK}"))
}

fn make(
    root: &Path,
    key: &str,
    link: &Target,
    parents: &Parents,
    text: &[u8],
    how: Publish,
) -> Result<Object, Fault> {
    let failed = |error: Errno| fault(error.into(), link.directory());
    let directory = directory_to_write(root, link, parents)?;
    let unfinished = temp::unused_name();
    symlinkat(OsStr::from_bytes(text), &directory, &*unfinished).map_err(failed)?;
    if let Some(time) = how.modified {
        set_time(&directory, &unfinished, time);
    }
    let published = match how.condition.is_create_only() {
        true => rename_new(&directory, &unfinished, link.name()),
        false => renameat(&directory, &*unfinished, &directory, link.name()),
    };
    if let Err(error) = published {
        let _ = unlinkat(&directory, &*unfinished, AtFlags::empty());
        return Err(match error {
            Errno::EXIST => exists(),
            Errno::ISDIR | Errno::NOTEMPTY => target::is_a_directory(),
            error => failed(error),
        });
    }
    if how.sync {
        parents::sync(link.directory()).map_err(|error| temp::unsynced(link.directory(), error))?;
    }
    describe(link, key)?.ok_or_else(|| failed(Errno::NOENT))
}

#[cfg(target_os = "linux")]
fn rename_new(directory: &OwnedFd, from: &str, to: &str) -> Result<(), Errno> {
    use rustix::fs::{RenameFlags, renameat_with};
    renameat_with(directory, from, directory, to, RenameFlags::NOREPLACE)
}

#[cfg(not(target_os = "linux"))]
fn rename_new(_: &OwnedFd, _: &str, _: &str) -> Result<(), Errno> {
    Err(Errno::NOSYS)
}

/// Sets the time of the link itself. A file system that has no such times does not fail the write.
fn set_time(directory: &OwnedFd, name: &str, time: SystemTime) {
    let kept = Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT };
    let times = Timestamps { last_access: kept, last_modification: timespec(time) };
    if let Err(error) = utimensat(directory, name, &times, AtFlags::SYMLINK_NOFOLLOW) {
        tracing::warn!(link = name, %error, "the link's time could not be set");
    }
}

/// Opens the directory of the link, and makes it if it is missing; never through a link below the root.
fn directory_to_write(root: &Path, link: &Target, parents: &Parents) -> Result<OwnedFd, Fault> {
    let failed = |error: Errno| fault(error.into(), link.directory());
    link.check_directories()?;
    let opened = match beneath::root_to_change(root)? {
        Some(opened) => opened,
        None => {
            parents.make(root).map_err(|error| fault(error, root))?;
            beneath::root_to_change(root)?.ok_or_else(|| failed(Errno::NOENT))?
        }
    };
    let (mut directory, mut end) = (opened, 0);
    for name in link.below().split('/').filter(|name| !name.is_empty()) {
        end += name.len();
        directory = match beneath::child(&directory, name).map_err(failed)? {
            Entered::Directory(child) => child,
            Entered::Link(_) => return Err(no_links::written_through(&root.join(&link.below()[..end]))),
            Entered::Missing => {
                match mkdirat(&directory, name, Mode::from_raw_mode(0o777)) {
                    Ok(()) | Err(Errno::EXIST) => {}
                    Err(error) => return Err(failed(error)),
                }
                match beneath::child(&directory, name).map_err(failed)? {
                    Entered::Directory(child) => child,
                    Entered::Link(_) => {
                        return Err(no_links::written_through(&root.join(&link.below()[..end])));
                    }
                    Entered::Missing => return Err(failed(Errno::NOTDIR)),
                }
            }
        };
        end += 1; // the slash
    }
    Ok(directory)
}

/// The link as an object; `None` if there is no link.
pub(super) fn describe(link: &Target, key: &str) -> Result<Option<Object>, Fault> {
    match fs::symlink_metadata(link.path()) {
        Ok(found) if found.is_symlink() => Ok(Some(target::describe(key, &found))),
        Ok(_) => Ok(None),
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            Ok(None)
        }
        Err(error) => Err(fault(error, link.directory())),
    }
}

/// The text of the link as the bytes of an object; `None` if there is no link.
pub(super) fn open(
    link: &Target,
    key: &str,
    range: Option<Range<u64>>,
    same: Option<&Object>,
) -> Result<Option<Body>, Fault> {
    let Some(object) = describe(link, key)? else { return Ok(None) };
    let text = fs::read_link(link.path()).map_err(|error| fault(error, link.directory()))?;
    let text = Bytes::from(text.into_os_string().into_vec());
    // Some file systems report no size of a link.
    let object = same_or_replaced(Object { size: text.len() as u64, ..object }, same)?;
    let range = read::clamp(range, object.size)?;
    let piece = text.slice(range.start as usize..range.end as usize);
    Ok(Some(Body { object, range, ignored_range: false, stream: stream::iter([Ok(piece)]).boxed() }))
}

/// Removes the symbolic link. Returns false if the link does not exist.
pub(super) fn remove(root: &Path, link: &Target, key: &str, same: Option<&Object>) -> Result<bool, Fault> {
    let Some(found) = describe(link, key)? else { return Ok(false) };
    let Some(directory) = Local::directory_of(root, link)? else { return Ok(false) };
    if let Some(same) = same {
        tidegate_core::backend::same_or_another(&found, same)?;
    }
    match unlinkat(&directory, link.name(), AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => Ok(true),
        Err(error) => Err(fault(error.into(), link.directory())),
    }
}
