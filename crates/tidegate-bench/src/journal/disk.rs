//! Watches the disk space that a run uses.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// How often the directory is read.
const EVERY: Duration = Duration::from_millis(20);

/// Watches the files of one directory until the peak is read.
#[derive(Debug)]
pub(super) struct DiskWatch {
    most: Arc<AtomicU64>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl DiskWatch {
    pub(super) fn new(directory: &Path) -> Self {
        let (most, stop) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
        let (directory, seen, end) = (directory.to_owned(), most.clone(), stop.clone());
        let thread = std::thread::spawn(move || {
            while !end.load(Ordering::Relaxed) {
                seen.fetch_max(used(&directory), Ordering::Relaxed);
                std::thread::sleep(EVERY);
            }
        });
        Self { most, stop, thread: Some(thread) }
    }

    /// The highest number of bytes in use that was seen.
    pub(super) fn most(mut self) -> u64 {
        self.end();
        self.so_far()
    }

    pub(super) fn so_far(&self) -> u64 {
        self.most.load(Ordering::Relaxed)
    }

    fn end(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // The thread can't panic: missing files count as zero.
            let _ = thread.join();
        }
    }
}

impl Drop for DiskWatch {
    fn drop(&mut self) {
        self.end();
    }
}

/// Bytes on disk of the files in a directory; a file that is removed meanwhile counts as zero.
fn used(directory: &PathBuf) -> u64 {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.metadata().ok()).map(|metadata| metadata.blocks() * 512).sum()
}
