//! A directory on a local disk as a store. Keys are paths below it.
//!
//! # When writes become visible
//!
//! An object's file gets its name by one `rename`, after its bytes are synced and before its directory is synced. So
//! every reader finds the whole object or none of it, also after a crash. Until then the bytes are in a file
//! `.tidegate-….part` in the same directory, which no listing shows. A failed, aborted or dropped write removes that
//! file, and the directories that were created for it and are empty. Files left behind by a crash or a power loss are
//! listed by [`sessions`](Admin::sessions), and a sweep may remove them.
//!
//! # Differences from a cloud
//!
//! - Attributes, tokens and checksums are accepted but not kept, because a file has no place for them; with
//!   [`WriteOptions::preserve`] the file gets the time and the permissions among them. Bytes are checked against their
//!   checksum while they are written.
//! - A replaced file passes on its mode, its POSIX access control list, and its owner if the caller may keep it;
//!   never its set-user-ID and set-group-ID bits or other extended attributes. A write to a key that is a link writes
//!   the link's target, and the unfinished file is beside that target. With `create_only`, a link counts as an
//!   existing file.
//! - Nothing is written or removed through another user's link in a sticky directory that everybody may write to
//!   (`/tmp`), wherever the link is in the path.
//! - The system has no rename on the condition which file it replaces. A write that [replaces](WriteOptions::replaces) one
//!   file locks it, looks whether it still has the inode, the size and the time of the last change that it had, and
//!   renames at once. So of several such writes to one file only one succeeds, in whatever processes. A file that a writer
//!   without this condition puts there between the look and the rename, some microseconds later, is replaced, as if it
//!   had come before; and a change of bytes in place that changes neither size nor time is not seen.
//!   [`FaultKind::Unsupported`] where the file system has no locks.
//! - A key is a path of names: not absolute, without `.`, `..` or empty names, and no key may be a directory of
//!   another key. The names of Tidegate's own temporary files are refused.
//! - Listings (and so sweeps, and removals of everything below a prefix) never enter a symbolic link, whatever its
//!   target, unless [`Local::links`] says so. A link to a file is listed as that file; other links, and names
//!   that are not regular files, are listed as [`Entry::Other`]. Removing a key that is a link removes the link, and no key is removed through a link to a
//!   directory. Only the root itself may be a link. Reads follow links.
//! - A listing that is not recursive also shows empty directories as prefixes. Removing the last object of a
//!   directory keeps the directory.
//!
//! Programs use the crate `tidegate`, which re-exports what they need. This crate is for Tidegate's own crates, and its items
//! may change with every version.

#![allow(rustdoc::private_intra_doc_links, reason = "the documentation is for those who change this crate")]

use std::fs;
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use futures::{StreamExt, stream};
use rustix::fs::{AtFlags, unlinkat};
use rustix::io::Errno;

use tidegate_core::backend::{
    Admin, Attempt, Backend, Body, Capabilities, Copied, CopySource, Entry, Fault, FaultKind, Held, Info,
    Listing, OpenSession, Parts, Rename, ServerCopy, Session, WriteOptions, same_or_another,
};
use tidegate_core::memory::payload::Payload;
use tidegate_core::types::checksum::{Algorithm, Checksum};
use tidegate_core::types::location::{local_root, of_local_root};
use tidegate_core::types::object::Object;

mod arrival;
mod batch;
mod beneath;
mod condition;
mod copy;
mod facts;
mod fault;
mod files_below;
mod kept;
mod links;
mod no_links;
mod parents;
mod place;
mod read;
mod rename;
mod replaced;
mod session;
mod target;
mod temp;
#[cfg(test)]
mod tests;
mod waiting;
mod walk;
mod write;

pub use arrival::{Arrival, Destination, NotedTarget};
pub use batch::{Batch, Batches};
use beneath::Entered;
pub use condition::Condition;
use fault::{blocking, fault};
pub use files_below::FilesBelow;
pub use links::{LONGEST_LINK, LinkPolicy};
pub use parents::Parents;
pub use target::LINK_SUFFIX;
use target::Target;
use temp::Temp;
pub use temp::{Publish, unfinished_name};
pub use waiting::{DROP_LIMIT, WaitedWork, Waiter, within_drop_limit};
pub use walk::UnlistedName;
use walk::{TreeWalk, WalkItem, Want};

/// A directory on a local disk. Nothing is read or created before its first use; a clone is the same store.
#[derive(Clone, Debug)]
pub struct Local {
    info: Info,
    root: PathBuf,
    is_relative: bool,
    links: LinkPolicy,
    refuses_links: bool,
    parents: Arc<Parents>,
}

/// The endpoint of all local directories.
pub const LOCAL_ENDPOINT: &str = "file://";

impl Local {
    /// A store in the directory `root`. The directory and its parents are created when the first object is written,
    /// but no directory directly below `/` unless the path is relative.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        let written: PathBuf = root.into();
        let written = if written.as_os_str().is_empty() { PathBuf::from(".") } else { written };
        let is_relative = written.is_relative();
        // A relative path keeps its meaning when the process changes its working directory.
        let root = std::path::absolute(&written).unwrap_or_else(|_| written.clone());
        // A relative path that is not UTF-8 cannot be written as text; an absolute one can, as a file URL.
        let location = of_local_root(if written.to_str().is_some() { written } else { root.clone() });
        let capabilities = Capabilities {
            min_part: 1,
            max_part: i64::MAX as u64,
            max_parts: 1_000_000,
            max_object: i64::MAX as u64,
            max_put: i64::MAX as u64,
            equal_parts: false,
            // A disk has no second connection.
            hedge: false,
            create_only_parts: true,
            parts_in_any_order: false,
            append: None,
            replaces: true,
            // A file holds only bytes.
            tokens: false,
            aborts: true,
            max_copy: i64::MAX as u64,
            create_only_copy: true,
            copy_headers: true,
            copy_parts: true,
            lists_in_key_order: true,
            keeps_empty_names: true, // no file has such a key
            checksum: Algorithm::Crc64Nvme,
            metadata_with_bytes: true,
        };
        Self {
            info: Info::new(location, LOCAL_ENDPOINT, capabilities),
            root,
            is_relative,
            links: LinkPolicy::default(),
            refuses_links: false,
            parents: Arc::default(),
        }
    }

    /// Sets what to make of symbolic links below the root.
    pub fn links(mut self, policy: LinkPolicy) -> Self {
        self.links = policy;
        self
    }

    /// Writes nothing through a symbolic link below the root: a write to a key that is a link, or that lies below one,
    /// fails with [`ErrorKind::InvalidInput`](tidegate_core::types::error::ErrorKind::InvalidInput). Only the root itself may be a link. With [`LinkPolicy::Objects`] this is
    /// always so.
    pub fn refuse_links(mut self) -> Self {
        self.refuses_links = true;
        self
    }

    fn to_write(&self, key: &str) -> Result<Target, Fault> {
        let target = Target::to_write(&self.root, key)?.relative(self.is_relative);
        let refuses_links = self.refuses_links || self.links == LinkPolicy::Objects;
        Ok(if refuses_links { target.without_links(&self.root, key) } else { target })
    }

    /// `fault`, or `NoBucket` if the object was not found because the root is missing.
    fn or_no_root(root: &Path, fault: Fault) -> Fault {
        if fault.kind == FaultKind::NotFound && !root.exists() {
            return Fault::new(FaultKind::NoBucket, format!("there is no directory {}", root.display()));
        }
        fault
    }

    /// Opens the directory of a key's file for a removal; never follows a link below the root. `None` if there is no
    /// such directory.
    fn directory_of(root: &Path, target: &Target) -> Result<Option<OwnedFd>, Fault> {
        let Some(opened) = beneath::root_to_change(root)? else { return Ok(None) };
        match beneath::below(opened, root, target.below()) {
            Ok(Entered::Directory(directory)) => Ok(Some(directory)),
            Ok(Entered::Missing) => Ok(None),
            Ok(Entered::Link(link)) => Err(beneath::is_a_link(&link)),
            Err(error) => Err(fault(error.into(), target.directory())),
        }
    }

    fn walk<T: Send + 'static>(
        &self,
        prefix: &str,
        want: Want,
        entry: fn(WalkItem) -> Option<T>,
    ) -> Listing<T> {
        let walk = TreeWalk::new(self.root.clone(), prefix, want, self.links);
        let batches = stream::unfold(walk, |walk| async move {
            let mut walk = walk?;
            let (batch, walk) = match blocking(move || Ok((walk.batch(), walk))).await {
                Ok((batch, walk)) => (batch, (!walk.is_done()).then_some(walk)),
                Err(fault) => (vec![Err(fault)], None),
            };
            Some((stream::iter(batch), walk))
        });
        let entries = batches.flatten();
        entries.filter_map(move |found| async move { found.map(entry).transpose() }).boxed().into()
    }
}

#[async_trait]
impl Backend for Local {
    /// Its location is the root as it was given, so that root, slash and key form a path; [`local_root`] turns it back
    /// into the directory.
    fn info(&self) -> &Info {
        &self.info
    }

    fn is_local(&self) -> bool {
        true
    }

    fn check(&self, key: &str, options: Option<&WriteOptions>) -> Result<(), Fault> {
        let target = if options.is_some() { Target::to_write } else { Target::of };
        target(&self.root, key).map(|_| ())
    }

    async fn put(
        &self,
        key: &str,
        payload: Payload,
        options: &WriteOptions,
        _attempt: Attempt,
    ) -> Result<Object, Fault> {
        if let Some(link) = self.link(key)? {
            return self.put_link(key, link, payload, options).await;
        }
        let target = self.to_write(key)?;
        let (parents, how) = (self.parents.clone(), Publish::of_write(options)?);
        let waiter = Waiter::default();
        let (waiting, still) = (waiter.waiting(), waiter.waiting());
        let directory = target.directory().to_owned();
        let begin = move || waiting.make(|| Temp::create(&parents, target, how.condition), Temp::trace);
        let finish = move |temp: Temp, _: Checksum| temp.publish(how, &still);
        let written = write::write_out(payload, 0, directory, begin, finish).await;
        waiter.done();
        written
    }

    async fn head(&self, key: &str, _attempt: Attempt) -> Result<Object, Fault> {
        let (target, link) = (Target::of(&self.root, key)?, self.link(key)?);
        let root = self.root.clone();
        blocking(move || {
            if let Some(link) = &link
                && let Some(described) = links::describe(link, target.key())?
            {
                return Ok(described);
            }
            let metadata = fs::metadata(target.path()).map_err(|error| fault(error, target.directory()));
            let metadata = metadata.map_err(|fault| Self::or_no_root(&root, fault))?;
            target::check_readable(&metadata)?;
            Ok(target::describe(target.key(), &metadata))
        })
        .await
    }

    async fn get(
        &self,
        key: &str,
        range: Option<Range<u64>>,
        same: Option<&Object>,
        _attempt: Attempt,
    ) -> Result<Body, Fault> {
        let (target, link) = (Target::of(&self.root, key)?, self.link(key)?);
        let (root, same) = (self.root.clone(), same.cloned());
        blocking(move || {
            if let Some(link) = &link
                && let Some(body) = links::open(link, target.key(), range.clone(), same.as_ref())?
            {
                return Ok(body);
            }
            read::open(&target, range, same.as_ref()).map_err(|fault| Self::or_no_root(&root, fault))
        })
        .await
    }

    fn list(&self, prefix: &str, recursive: bool) -> Listing<Entry> {
        self.walk(prefix, Want::Objects { recursive }, |found| match found {
            WalkItem::Entry(entry) => Some(entry),
            WalkItem::Session(_) => None,
        })
    }

    /// The system has no conditional removal: with `same`, the file is looked at right before it is removed.
    async fn delete(&self, key: &str, same: Option<&Object>, _attempt: Attempt) -> Result<(), Fault> {
        let (target, link) = (Target::of(&self.root, key)?, self.link(key)?);
        let (root, same) = (self.root.clone(), same.cloned());
        let remove = move || {
            if let Some(link) = &link
                && links::remove(&root, link, target.key(), same.as_ref())?
            {
                return Ok(());
            }
            let Some(directory) = Self::directory_of(&root, &target)? else {
                let missing = Self::or_no_root(&root, fault(Errno::NOENT.into(), target.directory()));
                return if missing.kind == FaultKind::NoBucket { Err(missing) } else { Ok(()) };
            };
            if let (Some(same), Ok(found)) = (&same, fs::metadata(target.path())) {
                same_or_another(&target::describe(target.key(), &found), same)?;
            }
            match unlinkat(&directory, target.name(), AtFlags::empty()) {
                Ok(()) | Err(Errno::NOENT | Errno::NOTDIR) => Ok(()),
                Err(_) if beneath::is_directory(&directory, target.name()) => Err(target::is_a_directory()),
                Err(error) => Err(fault(error.into(), target.directory())),
            }
        };
        // A removal that was dropped does not begin afterwards.
        let waiter = Waiter::default();
        let waiting = waiter.waiting();
        let removed = blocking(move || waiting.meanwhile(remove)?).await;
        waiter.done();
        removed
    }

    async fn is_one_place(&self, location: &str, from: &str, key: &str) -> bool {
        let (Ok(from), Ok(to)) = (Target::of(&local_root(location), from), Target::of(&self.root, key))
        else {
            return false; // such a key names no file
        };
        // The root's path may be written in two ways, so compare the files' places.
        let is_one = blocking(move || Ok(place::is_one(from.path(), to.path())));
        is_one.await.unwrap_or_default()
    }

    fn parts(&self) -> Option<&dyn Parts> {
        Some(self)
    }

    fn server_copy(&self) -> Option<&dyn ServerCopy> {
        Some(self)
    }

    fn renames(&self) -> Option<&dyn Rename> {
        Some(self)
    }

    fn admin(&self) -> Option<&dyn Admin> {
        Some(self)
    }
}

#[async_trait]
impl ServerCopy for Local {
    async fn copy(
        &self,
        from: &CopySource,
        key: &str,
        _cursor: Option<&str>,
        options: &WriteOptions,
        _attempt: Attempt,
    ) -> Result<Copied, Fault> {
        if self.link(key)?.is_some() {
            return Err(Fault::new(FaultKind::Unsupported, "a symbolic link is made anew, not copied"));
        }
        self.copy_whole(from, key, options).await.map(|object| Copied::Whole(Box::new(object)))
    }
}

#[async_trait]
impl Admin for Local {
    fn sessions(&self, prefix: &str) -> Listing<OpenSession> {
        self.walk(prefix, Want::Sessions, |found| match found {
            WalkItem::Session(session) => Some(session),
            WalkItem::Entry(_) => None,
        })
    }

    async fn held(&self, session: &Session, _attempt: Attempt) -> Result<Held, Fault> {
        let target = Target::of(&self.root, &session.key)?;
        let id = session.id.clone();
        blocking(move || {
            let found = fs::symlink_metadata(temp::find(&target, &id)?);
            let found = found.map_err(|error| temp::no_session_or(error, target.directory()))?;
            Ok(Held { bytes: found.len(), ..Held::default() })
        })
        .await
    }
}
