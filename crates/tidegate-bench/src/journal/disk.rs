//! What is in use of a disk meanwhile.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// How often it is looked at.
const EVERY: Duration = Duration::from_millis(20);

/// Looks at the files of one directory until it is asked for the most that they had.
#[derive(Debug)]
pub(super) struct Watched {
    most: Arc<AtomicU64>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Watched {
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

    /// The most bytes that were in use at a time, as far as was seen.
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
            // It can't panic: what it does not find it does not count.
            let _ = thread.join();
        }
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        self.end();
    }
}

/// Bytes that the files in a directory have on the disk; one that goes meanwhile has none.
fn used(directory: &PathBuf) -> u64 {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.metadata().ok()).map(|metadata| metadata.blocks() * 512).sum()
}
