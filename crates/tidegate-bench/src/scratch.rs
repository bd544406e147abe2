//! A temporary folder for random source files and for everything that a run writes; removed afterwards.

use std::fs::File;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use tempfile::TempDir;

use crate::size::{self, MIB};
use crate::{Error, Result};

/// The folders to remove when this process is interrupted.
static FOLDERS: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// A folder for sources and logs, removed on drop.
#[derive(Debug)]
pub struct Scratch {
    folder: TempDir,
}

impl Scratch {
    /// Creates a folder in `chosen`, or where there is room for `room` bytes: in memory (`/dev/shm`) or in the
    /// system's folder for temporary files.
    pub fn new(chosen: Option<&Path>, room: u64) -> Result<Self> {
        let room = room + 64 * MIB;
        let places = match chosen {
            Some(place) => vec![place.to_owned()],
            None => vec![PathBuf::from("/dev/shm"), std::env::temp_dir()],
        };
        let place =
            places.iter().find(|place| free(place).is_ok_and(|free| free >= room)).ok_or_else(|| {
                let names: Vec<_> = places.iter().map(|place| place.display().to_string()).collect();
                let needed = size::format(room.next_multiple_of(MIB));
                Error::from(format!("{} free are needed, not to be had in {}", needed, names.join(" or ")))
            })?;
        Ok(Self { folder: tempfile::Builder::new().prefix("tidegate-bench-").tempdir_in(place)? })
    }

    /// Removes the folder on Ctrl-C; the processes that were started end with this process.
    pub fn remove_when_interrupted(&self) -> Result<()> {
        let folders = || FOLDERS.lock().unwrap_or_else(PoisonError::into_inner);
        let mut known = folders();
        if known.is_empty() {
            // A process can set only one handler.
            ctrlc::set_handler(move || {
                for folder in folders().iter() {
                    // A program may write to the folder at this moment: a second removal finds the rest. Or the
                    // folder is gone already.
                    let _ = std::fs::remove_dir_all(folder).or_else(|_| std::fs::remove_dir_all(folder));
                }
                std::process::exit(130);
            })?;
        }
        known.push(self.path().to_owned());
        Ok(())
    }

    /// The folder.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Creates a folder inside.
    pub fn folder(&self, name: &str) -> Result<PathBuf> {
        let path = self.path().join(name);
        std::fs::create_dir(&path)?;
        Ok(path)
    }

    /// Creates a file of `size` random bytes.
    pub fn file(&self, size: u64) -> Result<PathBuf> {
        let path = self.path().join("source");
        write(&path, size, &mut fastrand::Rng::with_seed(1))?;
        Ok(path)
    }

    /// Creates a directory of `count` files of `size` random bytes.
    pub fn files(&self, count: u64, size: u64) -> Result<PathBuf> {
        let path = self.folder("sources")?;
        let mut random = fastrand::Rng::with_seed(1);
        for number in 0..count {
            write(&path.join(format!("{number:06}")), size, &mut random)?;
        }
        Ok(path)
    }
}

fn write(path: &Path, size: u64, random: &mut fastrand::Rng) -> Result<()> {
    let mut file = File::create_new(path)?;
    let mut piece = vec![0; size.min(MIB) as usize];
    let mut left = size;
    while left > 0 {
        random.fill(&mut piece);
        let now = left.min(MIB);
        file.write_all(&piece[..now as usize])?;
        left -= now;
    }
    Ok(())
}

/// The offset at which two files first differ, or one ends; `None` if both are the same.
pub fn first_difference(one: &Path, other: &Path) -> Result<Option<u64>> {
    let (mut one, mut other) = (File::open(one)?, File::open(other)?);
    let (mut left, mut right) = (vec![0; MIB as usize], vec![0; MIB as usize]);
    let mut at = 0;
    loop {
        let (read, of_other) = (fill(&mut one, &mut left)?, fill(&mut other, &mut right)?);
        let pairs = left[..read].iter().zip(&right[..of_other]);
        if left[..read] != right[..of_other] {
            let same = pairs.take_while(|(one, other)| one == other).count();
            return Ok(Some(at + same as u64));
        }
        if read == 0 {
            return Ok(None);
        }
        at += read as u64;
    }
}

/// Reads until the buffer is full or the file ends.
fn fill(file: &mut File, buffer: &mut [u8]) -> Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match file.read(&mut buffer[filled..])? {
            0 => break,
            read => filled += read,
        }
    }
    Ok(filled)
}

/// Free bytes below `place`.
///
/// # Errors
/// If there is no such place.
pub(crate) fn free(place: &Path) -> Result<u64> {
    let facts = rustix::fs::statvfs(place).map_err(|error| format!("{}: {error}", place.display()))?;
    Ok(facts.f_bavail * facts.f_frsize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_have_their_size_and_go_with_the_folder() {
        let scratch = Scratch::new(Some(&std::env::temp_dir()), 0).unwrap();
        let file = scratch.file(MIB + 1).unwrap();
        assert_eq!(std::fs::metadata(&file).unwrap().len(), MIB + 1);
        let files = scratch.files(3, 5).unwrap();
        let sizes: Vec<_> =
            files.read_dir().unwrap().map(|entry| entry.unwrap().metadata().unwrap().len()).collect();
        assert_eq!(sizes, [5, 5, 5]);
        drop(scratch);
        assert!(!file.exists() && !files.exists());
    }

    #[test]
    fn more_than_one_is_removed_when_interrupted() {
        let scratches = [0, 1].map(|_| Scratch::new(Some(&std::env::temp_dir()), 0).unwrap());
        for scratch in &scratches {
            scratch.remove_when_interrupted().unwrap();
            assert!(FOLDERS.lock().unwrap().contains(&scratch.path().to_owned()));
        }
    }

    #[test]
    fn the_first_difference_is_found() {
        let scratch = Scratch::new(Some(&std::env::temp_dir()), 0).unwrap();
        let original = scratch.file(2 * MIB + 3).unwrap();
        let bytes = std::fs::read(&original).unwrap();
        let differs = |bytes: &[u8]| {
            let copy = scratch.path().join("copy");
            std::fs::write(&copy, bytes).unwrap();
            let found = first_difference(&original, &copy).unwrap();
            assert_eq!(first_difference(&copy, &original).unwrap(), found);
            found
        };
        assert_eq!(differs(&bytes), None);
        assert_eq!(differs(&bytes[..7]), Some(7));
        assert_eq!(differs(&[]), Some(0));
        assert_eq!(differs(&[&bytes[..], b"more"].concat()), Some(2 * MIB + 3));
        let mut other = bytes.clone();
        other[MIB as usize + 5] ^= 1;
        assert_eq!(differs(&other), Some(MIB + 5));
    }

    #[test]
    fn without_room_there_is_no_folder() {
        let refused = Scratch::new(Some(&std::env::temp_dir()), u64::MAX / 2).unwrap_err();
        assert!(refused.to_string().contains("are needed"), "{refused}");
    }
}
