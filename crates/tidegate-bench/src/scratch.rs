//! What is uploaded, random bytes in files, and what is written meanwhile: gone afterwards.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use crate::size::{self, MIB};
use crate::{Error, Result};

/// A folder for sources and logs, removed when this is dropped.
#[derive(Debug)]
pub struct Scratch {
    folder: TempDir,
}

impl Scratch {
    /// A new folder in `chosen`, or where there is `room` for so many bytes: in memory (`/dev/shm`) or in the
    /// system's folder for temporary files.
    pub fn new(chosen: Option<&Path>, room: u64) -> Result<Self> {
        let room = room + 64 * MIB;
        let places = match chosen {
            Some(place) => vec![place.to_owned()],
            None => vec![PathBuf::from("/dev/shm"), std::env::temp_dir()],
        };
        let place =
            places.iter().find(|place| free(place).is_some_and(|free| free >= room)).ok_or_else(|| {
                let names: Vec<_> = places.iter().map(|place| place.display().to_string()).collect();
                let needed = size::format(room.next_multiple_of(MIB));
                Error::from(format!("{} free are needed, not to be had in {}", needed, names.join(" or ")))
            })?;
        Ok(Self { folder: tempfile::Builder::new().prefix("tidegate-bench-").tempdir_in(place)? })
    }

    /// Ctrl-C leaves nothing of it behind; what was started ends with this process. Once a process.
    pub fn remove_when_interrupted(&self) -> Result<()> {
        let folder = self.path().to_owned();
        ctrlc::set_handler(move || {
            // It may be written to at this moment; then a second look finds the rest.
            let _ = std::fs::remove_dir_all(&folder).or_else(|_| std::fs::remove_dir_all(&folder));
            std::process::exit(130);
        })?;
        Ok(())
    }

    /// The folder.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// The place that the folder was made in.
    #[must_use]
    pub fn place(&self) -> &Path {
        self.path().parent().unwrap_or(self.path())
    }

    /// A file of `size` random bytes.
    pub fn file(&self, size: u64) -> Result<PathBuf> {
        let path = self.path().join("source");
        write(&path, size, &mut fastrand::Rng::with_seed(1))?;
        Ok(path)
    }

    /// A directory of `count` files of `size` random bytes.
    pub fn files(&self, count: u64, size: u64) -> Result<PathBuf> {
        let path = self.path().join("sources");
        std::fs::create_dir(&path)?;
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

/// Bytes that may still be written below `place`.
fn free(place: &Path) -> Option<u64> {
    let facts = rustix::fs::statvfs(place).ok()?;
    Some(facts.f_bavail * facts.f_frsize)
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
    fn without_room_there_is_no_folder() {
        let refused = Scratch::new(Some(&std::env::temp_dir()), u64::MAX / 2).unwrap_err();
        assert!(refused.to_string().contains("are needed"), "{refused}");
    }
}
