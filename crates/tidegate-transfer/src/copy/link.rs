//! Symbolic links as objects (`--links preserve`): an object NAME.rclonelink holds the text of the link NAME, as
//! `rclone --links` writes it.
//!
//! Links are made on this machine when all files of the command are in place, so that no file is written through one of
//! them.

use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;

use futures::{StreamExt, TryStreamExt, stream};
use tidegate::Strategy;
use tidegate::backend::local::{LINK_SUFFIX, LONGEST_LINK};
use tidegate::location::local_root;
use tidegate::object::FileAttributes;
use tidegate::text::printable;

use super::copies::{self, CopyOutcome};
use super::item::{self, CopyItem};
use super::job::CopyJob;
use super::verify;
use crate::error::{Error, Result};
use crate::event::{CopiedObject, StartedTransfer};
use crate::links::Links;
use crate::obstacle::may_be_file;
use crate::place::Place;

/// The links that are made at the end of a command.
#[derive(Debug, Default)]
pub(crate) struct DeferredLinks(Mutex<Vec<CopyItem>>);

impl DeferredLinks {
    pub(crate) fn push(&self, link: CopyItem) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(link);
    }

    /// Whether this holds for the key of a link.
    pub(crate) fn any(&self, holds: impl Fn(&str) -> bool) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).iter().any(|link| holds(&link.to.key))
    }
}

/// Makes the links that were deferred, except those that `check` has a failure for.
pub(crate) async fn copy_deferred(job: &CopyJob, mut check: impl FnMut(&CopyItem) -> Result) -> Result {
    let links = std::mem::take(&mut *job.links.0.lock().unwrap_or_else(PoisonError::into_inner));
    let Some(first) = links.first() else { return Ok(()) };
    let store = first.source.place().store.clone();
    let stores: Vec<_> = (!first.source.place().is_local()).then_some(&store).into_iter().collect();
    let copies = stream::iter(links).map(|link| {
        let checked = check(&link);
        Box::pin(async move {
            match checked {
                Ok(()) => item::copy_now(job, link).await,
                Err(failure) => CopyOutcome::Failed(failure),
            }
        })
    });
    copies::all(job, &stores, copies).await.map(drop)
}

/// Whether the object is a link that is copied as one. Between two stores it is an object like others.
pub(super) fn is_link(job: &CopyJob, from: &Place, to: &Place) -> bool {
    if job.writing.links() != Links::Preserve {
        return false;
    }
    match from.key.strip_suffix(LINK_SUFFIX) {
        Some(_) if from.is_local() => is_local_link(from),
        Some(link) => to.is_local() && !link.is_empty() && !link.ends_with('/'),
        None => false,
    }
}

/// Whether the object of this key on this machine is a link: its key is the link's name with a suffix.
pub(super) fn is_local_link(place: &Place) -> bool {
    let link = place.key.strip_suffix(LINK_SUFFIX).filter(|_| place.is_local());
    link.is_some_and(|link| local_root(&place.store.location()).join(link).is_symlink())
}

/// Refuses to copy a file on this machine whose name is kept for a link, to another place on this machine: with
/// [`Links::Preserve`] a link would be made there, whose text are the bytes of the file.
pub(crate) fn refuse_file_as_link(links: Links, from: &Place, to: &Place) -> Result {
    let is_kept = |key: &str| {
        key.strip_suffix(LINK_SUFFIX).is_some_and(|link| !link.is_empty() && !link.ends_with('/'))
    };
    if links != Links::Preserve
        || !to.is_local()
        || !from.is_local()
        || !is_kept(&to.key)
        || is_local_link(from)
    {
        return Ok(());
    }
    let path = from.file()?.display().to_string();
    Err(Error::Failed(format!(
        "{}: not copied: it is a file, and with --links preserve such a name makes a symbolic link",
        printable(&path)
    )))
}

/// How a path on this machine names a symbolic link that is copied as one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NamedLink {
    /// The path is that of the link.
    ByPath,
    /// The path is that of the link with [`LINK_SUFFIX`], as in listings.
    ByKey,
}

/// How a path on this machine names a link, if it does, with [`Links::Preserve`]. Fails if the path is that of a file,
/// and a link has the name as an object.
pub(super) fn named(path: &Path) -> Result<Option<NamedLink>> {
    match path.symlink_metadata() {
        Ok(found) if found.is_symlink() => Ok(Some(NamedLink::ByPath)),
        _ if !has_link_object(path) => Ok(None),
        Err(_) => Ok(Some(NamedLink::ByKey)),
        Ok(_) => {
            let path = printable(&path.display().to_string()).into_owned();
            Err(Error::Failed(format!(
                "{path}: a file has this name, and a symbolic link has it as an object"
            )))
        }
    }
}

/// Whether a symbolic link has this path as an object.
fn has_link_object(path: &Path) -> bool {
    let link = path.to_str().and_then(|path| path.strip_suffix(LINK_SUFFIX)).map(Path::new);
    link.is_some_and(|link| link.file_name().is_some() && link.is_symlink())
}

/// Whether the file of this key, or the link that the key stands for with [`Links::Preserve`], is below `root`.
pub(crate) fn is_there(root: &Path, key: &str, links: Links) -> bool {
    // Such a key is that of no file, but as a path it may lead to one.
    if !may_be_file(key) {
        return false;
    }
    let preserves = links == Links::Preserve;
    let found = |name: &str| root.join(name).symlink_metadata();
    let link = key.strip_suffix(LINK_SUFFIX).filter(|_| preserves);
    // A directory is no object: what was a file is gone. Nor is a link to one that is followed. Where links have keys of
    // their own, a link is no file.
    let is_elsewhere = match links {
        Links::Follow => root.join(key).is_dir(),
        // What is below a link to a directory is not in the tree, which has the link alone.
        Links::Preserve => key.match_indices('/').any(|(at, _)| root.join(&key[..at]).is_symlink()),
        Links::Files | Links::Skip => false,
    };
    if is_elsewhere {
        return false;
    }
    found(key).is_ok_and(|found| !(found.is_dir() || preserves && found.is_symlink()))
        || link.is_some_and(|link| found(link).is_ok_and(|found| found.is_symlink()))
}

/// Copies a link.
pub(super) async fn copy(
    job: &CopyJob,
    source: String,
    from: &Place,
    to: &Place,
) -> Result<Box<CopiedObject>> {
    let reading = from.store.reader(&from.key);
    let mut counted = vec![reading.progress()];
    let mut reader = reading.await?;
    let object = reader.object().clone();
    let unusable = |why: String| Error::Failed(format!("{source}: {why}"));
    if object.size > LONGEST_LINK {
        return Err(unusable(format!(
            "it has {} bytes, and the text of a symbolic link has at most {LONGEST_LINK}",
            object.size
        )));
    }
    let mut text = Vec::new();
    while let Some(piece) = reader.try_next().await? {
        text.extend_from_slice(&piece);
    }
    if text.is_empty() || text.contains(&0) {
        return Err(unusable("its content is no text of a symbolic link".to_owned()));
    }
    let builder = job.writing.builder(to).strategy(Strategy::Put).size_hint(text.len() as u64);
    let builder = match job.writing.time_of_link(&object, from, to) {
        Some(time) => builder.file_attributes(&attributes(time)),
        None => builder,
    };
    let progress = builder.progress();
    if !to.is_local() {
        counted = vec![progress.clone()];
    }
    let live = job.events.start(StartedTransfer {
        key: &to.key,
        progress: &progress,
        counted,
        sends: true,
        journaled: false,
        bytes: Some(text.len() as u64),
    });
    let mut writer = builder.await?;
    writer.write_bytes(text.into()).await?;
    let written = writer.finish().await?;
    let done = live.done(source, to.url(), written.size, &written);
    verify::read_back(job, to, &written, done.by(Strategy::Put)).await
}

fn attributes(modified: SystemTime) -> FileAttributes {
    FileAttributes { modified: Some(modified), ..FileAttributes::default() }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn what_a_preserved_link_leads_to_is_not_there() {
        let root = tempfile::tempdir().unwrap();
        fs::write(root.path().join("f.rclonelink"), "1").unwrap();
        fs::write(root.path().join("g"), "1").unwrap();
        symlink(".", root.path().join("d")).unwrap();
        for (key, preserves, follows) in [
            ("g", true, true),
            ("d", false, false),
            ("d.rclonelink", true, false),
            ("d/g", false, true),
            ("d/f.rclonelink", false, true),
            ("d/d.rclonelink", false, false),
            ("./g", false, false),
            ("d/../g", false, false),
            ("/g", false, false),
        ] {
            assert_eq!(is_there(root.path(), key, Links::Preserve), preserves, "{key}");
            assert_eq!(is_there(root.path(), key, Links::Follow), follows, "{key}");
        }
    }
}
