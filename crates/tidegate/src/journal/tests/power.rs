//! Directories whose journals are on a disk that loses power. What a directory says of its files is durable at
//! once there: it is synced where it has to be, and that is not what this tries.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use fastrand::Rng;

use super::super::disk::JournalFile;
use super::disk::SimFile;

static DISKS: Mutex<BTreeMap<PathBuf, Disk>> = Mutex::new(BTreeMap::new());

#[derive(Debug)]
struct Disk {
    random: Rng,
    files: BTreeMap<PathBuf, Arc<SimFile>>,
}

fn disks() -> MutexGuard<'static, BTreeMap<PathBuf, Disk>> {
    DISKS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The journals of a directory are on such a disk until this is dropped.
#[derive(Debug)]
pub(crate) struct SimDisk(PathBuf);

impl SimDisk {
    pub(crate) fn under(directory: &Path, random: Rng) -> Self {
        disks().insert(directory.to_owned(), Disk { random, files: BTreeMap::new() });
        Self(directory.to_owned())
    }

    fn files(&self) -> Vec<Arc<SimFile>> {
        disks().get(&self.0).into_iter().flat_map(|disk| disk.files.values().cloned()).collect()
    }

    /// The power fails after so many more changes of a file.
    pub(crate) fn fail_after(&self, changes: u32) {
        for file in self.files() {
            file.faults(|faults| faults.power = Some(1 + changes));
        }
    }

    /// The next sync of each file fails, once, and what it was to write is on the disk or never will be.
    pub(crate) fn fail_sync(&self) {
        for file in self.files() {
            file.faults(|faults| faults.sync = Some(0));
        }
    }

    /// Whether it has failed: whoever ran then is gone.
    pub(crate) fn is_off(&self) -> bool {
        self.files().iter().any(|file| file.is_off())
    }

    /// The power is gone and comes back.
    pub(crate) fn lose_power(&self) {
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

/// What stands for a file on such a disk.
pub(in crate::journal) fn simulated(path: &Path, file: File) -> Result<Arc<dyn JournalFile>, File> {
    let mut disks = disks();
    let Some(disk) = path.parent().and_then(|directory| disks.get_mut(directory)) else { return Err(file) };
    let random = disk.random.fork();
    let simulated = disk.files.entry(path.to_owned()).or_insert_with(|| SimFile::new(random));
    Ok(Arc::new(Held { file: simulated.clone(), _locked: file }))
}

/// Open, and locked as the real file is.
#[derive(Debug)]
struct Held {
    file: Arc<SimFile>,
    _locked: File,
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

    fn punch(&self, range: Range<u64>) -> io::Result<()> {
        self.file.punch(range)
    }

    fn allocate(&self, range: Range<u64>) -> io::Result<()> {
        self.file.allocate(range)
    }
}
