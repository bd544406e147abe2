//! The files below a directory, found in a thread while the first ones are sent already.

use std::path::{Path, PathBuf};

use futures::Stream;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use walkdir::{DirEntry, WalkDir};

use crate::exit::Failure;
use crate::listing;
use crate::stores::not_utf8;

/// Files that are found and wait.
const WAITING: usize = 1024;

/// A file and what it is called below the directory, as a key.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) path: PathBuf,
    pub(super) key: String,
    pub(super) size: u64,
}

/// What is not copied.
#[derive(Debug)]
pub(super) enum Missed {
    /// Could not be looked at, or has no key.
    Failed(Failure),
    /// No file: a socket, a device, a named pipe.
    NoFile(PathBuf),
}

/// The files below `root`, but none below `except`. Links are followed, not round in circles, and where one
/// leads to the directory of `journals` all ends with that.
pub(super) fn files(
    root: PathBuf,
    except: Option<PathBuf>,
    journals: &[PathBuf],
) -> impl Stream<Item = Result<Found, Missed>> {
    let (found, waiting) = mpsc::channel(WAITING);
    let journals = journals.to_owned();
    let mut task = JoinSet::new();
    task.spawn_blocking(move || {
        let walk = WalkDir::new(&root).min_depth(1).follow_links(true).into_iter();
        let is_kept =
            |entry: &DirEntry| !(entry.file_type().is_dir() && is_same(entry.path(), except.as_deref()));
        // One that can't be looked at now takes no journal either, and that is told.
        let journals: Vec<_> = journals.iter().filter_map(|journal| journal.canonicalize().ok()).collect();
        for entry in walk.filter_entry(is_kept) {
            if let Some(failure) = entry.as_ref().ok().and_then(|entry| refused(entry, &journals)) {
                let _ = found.blocking_send(Err(Missed::Failed(failure)));
                return;
            }
            let Some(file) = look_at(&root, entry) else { continue };
            if found.blocking_send(file).is_err() {
                return; // nobody waits any more
            }
        }
    });
    listing::found(waiting, task)
}

fn is_same(path: &Path, except: Option<&Path>) -> bool {
    except.is_some_and(|except| {
        path.file_name() == except.file_name()
            && path.canonicalize().is_ok_and(|canonical| canonical == except)
    })
}

/// What is said of an entry that is in a directory of journals: they change while they are copied, and those of
/// the copies of them would, too.
fn refused(entry: &DirEntry, journals: &[PathBuf]) -> Option<Failure> {
    // What is no directory is in the one that was met before, unless a link leads to it.
    if journals.is_empty() || !(entry.file_type().is_dir() || entry.path_is_symlink()) {
        return None;
    }
    let canonical = entry.path().canonicalize().ok()?;
    let journal = journals.iter().find(|journal| canonical.starts_with(journal))?;
    let (path, journal) = (entry.path().display(), journal.display());
    Some(Failure::Usage(format!(
        "--journal {journal}: {path} leads to it, which is to be copied: choose another, or copy without that link"
    )))
}

fn look_at(root: &Path, entry: walkdir::Result<DirEntry>) -> Option<Result<Found, Missed>> {
    let entry = match entry {
        Ok(entry) => entry,
        Err(error) => return Some(Err(Missed::Failed(failure(root, &error)))),
    };
    let kind = entry.file_type();
    if kind.is_dir() {
        return None;
    }
    let size = match entry.metadata() {
        Ok(metadata) => metadata.len(),
        Err(error) => return Some(Err(Missed::Failed(failure(root, &error)))),
    };
    let path = entry.into_path();
    if !kind.is_file() {
        return Some(Err(Missed::NoFile(path)));
    }
    let key = path.strip_prefix(root).unwrap_or(&path).to_str().map(str::to_owned);
    Some(match key {
        Some(key) => Ok(Found { path, key, size }),
        // One of many: the others are copied all the same.
        None => Err(Missed::Failed(Failure::Failed(not_utf8(&path)))),
    })
}

fn failure(root: &Path, error: &walkdir::Error) -> Failure {
    let path = error.path().unwrap_or(root).display();
    Failure::Failed(match (error.loop_ancestor(), error.io_error()) {
        (Some(ancestor), _) => {
            format!("{path}: this link leads back to {}, which it is in", ancestor.display())
        }
        (None, Some(error)) => format!("{path}: {error}"),
        (None, None) => format!("{path}: can't be looked at"),
    })
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use futures::StreamExt;

    use super::*;

    async fn keys(root: &Path, except: Option<PathBuf>) -> (Vec<String>, Vec<Missed>) {
        keys_beside(root, except, &[]).await
    }

    async fn keys_beside(
        root: &Path,
        except: Option<PathBuf>,
        journals: &[PathBuf],
    ) -> (Vec<String>, Vec<Missed>) {
        let (mut keys, mut missed) = (Vec::new(), Vec::new());
        let mut files = Box::pin(files(root.to_owned(), except, journals));
        while let Some(file) = files.next().await {
            match file {
                Ok(found) => keys.push(found.key),
                Err(file) => missed.push(file),
            }
        }
        keys.sort();
        (keys, missed)
    }

    #[tokio::test]
    async fn links_to_files_are_files() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir_all(root.path().join("a/b")).unwrap();
        fs::write(root.path().join("a/b/file"), "1").unwrap();
        symlink("a/b/file", root.path().join("link")).unwrap();
        let (keys, missed) = keys(root.path(), None).await;
        assert_eq!(keys, ["a/b/file", "link"]);
        assert!(missed.is_empty(), "{missed:?}");
    }

    #[tokio::test]
    async fn circles_and_broken_links_are_told() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir(root.path().join("a")).unwrap();
        fs::write(root.path().join("a/file"), "1").unwrap();
        symlink("..", root.path().join("a/up")).unwrap();
        symlink("nowhere", root.path().join("broken")).unwrap();
        let (keys, missed) = keys(root.path(), None).await;
        assert_eq!(keys, ["a/file"]);
        assert_eq!(missed.len(), 2, "{missed:?}");
    }

    #[tokio::test]
    async fn the_exception_is_left_out() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir(root.path().join("store")).unwrap();
        fs::write(root.path().join("store/file"), "1").unwrap();
        fs::write(root.path().join("file"), "1").unwrap();
        let except = root.path().join("store").canonicalize().unwrap();
        assert_eq!(keys(root.path(), Some(except)).await.0, ["file"]);
    }

    #[tokio::test]
    async fn a_link_to_where_journals_are_ends_the_walk() {
        let (root, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let journal = elsewhere.path().join("disk/journal");
        fs::create_dir_all(&journal).unwrap();
        fs::write(journal.join("1.journal"), "1").unwrap();
        fs::write(elsewhere.path().join("disk/file"), "1").unwrap();
        fs::create_dir(root.path().join("a")).unwrap();
        let link = root.path().join("a/link");
        let targets = ["disk", "disk/journal", "disk/journal/1.journal"];
        for (target, named) in targets.into_iter().zip([link.join("journal"), link.clone(), link.clone()]) {
            symlink(elsewhere.path().join(target), &link).unwrap();
            let (keys, missed) = keys_beside(root.path(), None, std::slice::from_ref(&journal)).await;
            assert!(keys.iter().all(|key| key == "a/link/file"), "{keys:?}");
            let [Missed::Failed(Failure::Usage(sentence))] = &missed[..] else { panic!("{missed:?}") };
            for path in [&named, &journal] {
                assert!(sentence.contains(path.to_str().unwrap()), "{sentence}");
            }
            fs::remove_file(&link).unwrap();
        }
        symlink(elsewhere.path().join("disk/file"), &link).unwrap();
        let (keys, missed) = keys_beside(root.path(), None, &[journal]).await;
        assert!(keys == ["a/link"] && missed.is_empty(), "{keys:?} {missed:?}");
    }
}
