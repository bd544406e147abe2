//! Directories whose journals are on a disk that loses power. Directory entries are durable at once on this disk:
//! syncs of directories are not tested here.

use std::collections::BTreeMap;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use fastrand::Rng;

use super::super::disk::JournalFile;
use super::disk::SimFile;
use tidegate_core::types::locked_file::LockedFile;

static DISKS: Mutex<BTreeMap<PathBuf, Disk>> = Mutex::new(BTreeMap::new());

#[derive(Debug)]
struct Disk {
    random: Rng,
    files: BTreeMap<PathBuf, Arc<SimFile>>,
}

fn disks() -> MutexGuard<'static, BTreeMap<PathBuf, Disk>> {
    DISKS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Puts the journals of a directory on a simulated disk until it is dropped.
#[derive(Debug)]
pub struct SimDisk(PathBuf);

impl SimDisk {
    pub fn under(directory: &Path, random: Rng) -> Self {
        disks().insert(directory.to_owned(), Disk { random, files: BTreeMap::new() });
        Self(directory.to_owned())
    }

    fn files(&self) -> Vec<Arc<SimFile>> {
        disks().get(&self.0).into_iter().flat_map(|disk| disk.files.values().cloned()).collect()
    }

    /// Makes the power fail after `changes` more changes of a file.
    pub fn fail_after(&self, changes: u32) {
        for file in self.files() {
            file.faults(|faults| faults.power = Some(1 + changes));
        }
    }

    /// Makes the next sync of each file fail, once; its data is on the disk or never will be.
    pub fn fail_sync(&self) {
        for file in self.files() {
            file.faults(|faults| faults.sync = Some(0));
        }
    }

    /// True if the power has failed: the process that ran then is dead.
    pub fn is_off(&self) -> bool {
        self.files().iter().any(|file| file.is_off())
    }

    /// The power fails and comes back.
    pub fn lose_power(&self) {
        for file in self.files() {
            file.lose_power();
        }
    }
}

impl Drop for SimDisk {
    fn drop(&mut self) {
        disks().remove(&self.0);
    }
}

/// The simulated file for `path`, if its directory is on a simulated disk; otherwise returns `file`.
pub(crate) fn simulated(path: &Path, file: LockedFile) -> Result<Arc<dyn JournalFile>, LockedFile> {
    let mut disks = disks();
    let Some(disk) = path.parent().and_then(|directory| disks.get_mut(directory)) else { return Err(file) };
    let random = disk.random.fork();
    let simulated = disk.files.entry(path.to_owned()).or_insert_with(|| SimFile::new(random));
    Ok(Arc::new(Held { file: simulated.clone(), locked: file }))
}

/// A simulated file that is open, and locked by the real file.
#[derive(Debug)]
struct Held {
    file: Arc<SimFile>,
    locked: LockedFile,
}

impl JournalFile for Held {
    fn length(&self) -> io::Result<u64> {
        self.file.length()
    }

    fn write(&self, offset: u64, pieces: &[&[u8]]) -> io::Result<()> {
        self.file.write(offset, pieces)
    }

    fn read(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.file.read(buffer, offset)
    }

    fn read_cached(&self, buffer: &mut [u8], offset: u64) -> io::Result<Option<usize>> {
        self.file.read_cached(buffer, offset)
    }

    fn truncate(&self, length: u64) -> io::Result<()> {
        self.file.truncate(length)
    }

    fn sync(&self) -> io::Result<()> {
        self.file.sync()
    }

    fn set_in_use(&self, in_use: bool) -> io::Result<()> {
        self.locked.set_mark(in_use)
    }

    fn punch(&self, range: Range<u64>) -> io::Result<()> {
        self.file.punch(range)
    }

    fn allocate(&self, range: Range<u64>) -> io::Result<()> {
        self.file.allocate(range)
    }
}
