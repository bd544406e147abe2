//! The directories that a move empties.

use std::collections::{BTreeMap, BTreeSet};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::{Mutex, MutexGuard, PoisonError};

use futures::StreamExt;
use tidegate::location::Location;

use crate::error::{Error, Result};
use crate::place::Place;

/// The directories that files and objects were moved from. Other directories are left alone, also if they are empty.
#[derive(Debug, Default)]
pub(crate) struct EmptiedDirectories {
    of_files: Mutex<BTreeSet<PathBuf>>,
    of_objects: Mutex<BTreeMap<String, NamedDirectory>>,
}

/// A directory that a store has under a name of its own, as Azure does.
#[derive(Debug)]
struct NamedDirectory {
    place: Place,
    /// Whether an object was moved from the directory, or from one below it.
    has_moved: bool,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl EmptiedDirectories {
    /// Adds the directory of a file that was moved.
    pub(crate) fn add_parent_of(&self, file: &Path) {
        lock(&self.of_files).extend(file.parent().map(Path::to_owned));
    }

    /// Adds a directory that the store has under a name of its own, before objects are moved from it.
    pub(crate) fn add_named(&self, place: Place) {
        lock(&self.of_objects).insert(place.url(), NamedDirectory { place, has_moved: false });
    }

    /// Marks the directories above an object that was moved.
    pub(crate) fn add_parents_of(&self, object: &Place) {
        let mut directories = lock(&self.of_objects);
        // Most stores have no such directories.
        if directories.is_empty() {
            return;
        }
        let url = object.url();
        for (end, _) in url.match_indices('/') {
            if let Some(directory) = directories.get_mut(&url[..end]) {
                directory.has_moved = true;
            }
        }
    }

    /// Removes those directories below `source` that have nothing left, and their parents if they become empty so;
    /// `source` itself, too, unless it `stays`.
    pub(crate) async fn remove(&self, source: &Location, stays: bool) -> Result {
        let Location::Local { path: root } = source else { return Ok(()) };
        let is_below = |directory: &&PathBuf| directory.starts_with(root);
        let emptied: Vec<PathBuf> = lock(&self.of_files).iter().filter(is_below).cloned().collect();
        let root = root.clone();
        let removed = tokio::task::spawn_blocking(move || remove(emptied, &root, stays)).await;
        removed.map_err(|ended| Error::Failed(ended.to_string()))?
    }

    /// Removes the directories that stores have under names of their own and that have nothing left.
    pub(crate) async fn remove_named(&self) -> Result {
        let directories = std::mem::take(&mut *lock(&self.of_objects));
        let emptied = directories.into_values().filter(|directory| directory.has_moved);
        // A directory comes before those below it: from the end, each is empty before its parent is tried.
        for NamedDirectory { place, .. } in emptied.rev() {
            if place.is_directory().await? && !has_entries(&place).await? {
                place.store.delete(&place.key).await?;
            }
        }
        Ok(())
    }
}

async fn has_entries(directory: &Place) -> Result<bool> {
    let mut below = pin!(directory.store.list(format!("{}/", directory.key)));
    Ok(below.next().await.transpose()?.is_some())
}

fn remove(emptied: Vec<PathBuf>, root: &Path, root_stays: bool) -> Result {
    // A directory comes before those below it: from the end, each is empty before its parent is tried.
    for directory in emptied.iter().rev() {
        for directory in directory.ancestors().take_while(|directory| directory.starts_with(root)) {
            if directory == root && root_stays {
                break;
            }
            match std::fs::remove_dir(directory) {
                Ok(()) => {}
                // It has something left, or it was removed already: its parents may be empty all the same.
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                Err(error) if error.kind() == ErrorKind::DirectoryNotEmpty => break,
                // The working directory by the name `.`, a link to a directory, or the root of a file system: these
                // stay.
                Err(error) if directory == root && is_kept(&error) => break,
                Err(error) => return Err(Error::of_file(directory, &error)),
            }
        }
    }
    Ok(())
}

fn is_kept(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::InvalidInput | ErrorKind::NotADirectory | ErrorKind::ResourceBusy)
}

#[cfg(test)]
mod tests {
    use std::fs::{create_dir_all, remove_file, write};

    use super::*;

    #[tokio::test]
    async fn only_what_was_emptied_is_removed() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().join("root");
        let emptied = EmptiedDirectories::default();
        for file in ["a/b/c/1", "a/b/c/2", "a/kept/1", "x/1"] {
            let file = root.join(file);
            create_dir_all(file.parent().unwrap()).unwrap();
            write(&file, "1").unwrap();
            remove_file(&file).unwrap();
            emptied.add_parent_of(&file);
        }
        write(root.join("a/kept/new"), "1").unwrap();
        create_dir_all(root.join("empty/before")).unwrap();
        let location = |path: &Path| Location::Local { path: path.to_owned() };
        emptied.remove(&location(&root), false).await.unwrap();
        assert!(!root.join("a/b").exists() && !root.join("x").exists());
        assert!(root.join("a/kept/new").exists() && root.join("empty/before").exists());
        remove_file(root.join("a/kept/new")).unwrap();
        std::fs::remove_dir_all(root.join("empty")).unwrap();
        emptied.remove(&location(&root), true).await.unwrap();
        assert!(root.exists());
        emptied.remove(&location(&root), false).await.unwrap();
        assert!(!root.exists() && directory.path().exists());
    }
}
