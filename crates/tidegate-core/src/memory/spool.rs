//! Spool: local disk that takes bytes when memory is short.
//!
//! Each directory has one nameless file, cut into blocks; spilled bytes keep their blocks until they are dropped.
//! The next bytes go to a directory by its free space, and by how long the bytes queued for it would take at the
//! measured rate.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use bytes::Bytes;
use tokio::sync::Notify;

mod blocks;
mod directory;
mod disk;
#[cfg(any(test, feature = "testkit"))]
pub mod sick;
mod stored;
#[cfg(test)]
mod tests;

use directory::Directory;
pub use disk::{DirectoryDisk, Disk, Space};
pub use stored::Stored;

/// The spool directories of an engine; clones share them.
#[derive(Clone, Debug)]
pub struct Spool {
    directories: Arc<[Arc<Directory>]>,
    freed: Arc<Notify>,
    draining: Arc<AtomicUsize>,
}

/// Counts a part on its way out of the spool; ends on drop.
#[derive(Debug)]
pub struct Draining(Arc<AtomicUsize>);

impl Drop for Draining {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

/// Why bytes could not be spooled. They stay where they were.
#[derive(Clone, Debug, thiserror::Error)]
pub enum SpoolError {
    /// The directories have no space left for these bytes.
    #[error("no spool directory has room: {0}")]
    Full(String),
    /// A directory failed.
    #[error("spool directory {directory}: {source}")]
    Failed {
        /// The path of the directory.
        directory: String,
        /// Why it failed.
        source: Arc<io::Error>,
    },
}

impl SpoolError {
    /// A directory that failed, and why.
    pub fn failed(directory: String, source: io::Error) -> Self {
        Self::Failed { directory, source: Arc::new(source) }
    }
}

impl Spool {
    /// Spools onto these disks, at least one.
    pub fn new(disks: Vec<Arc<dyn Disk>>) -> Self {
        let freed = Arc::new(Notify::new());
        let directories = disks.into_iter().map(|disk| Directory::new(disk, freed.clone()));
        Self { directories: directories.collect(), freed, draining: Arc::default() }
    }

    /// Opens a file in each of these directories; the error names the directory that can't be used.
    pub fn open(directories: &[PathBuf]) -> Result<Vec<Arc<dyn Disk>>, SpoolError> {
        let open = |directory: &PathBuf| match DirectoryDisk::open(directory) {
            Ok(disk) => Ok(Arc::new(disk) as Arc<dyn Disk>),
            Err(source) => Err(SpoolError::failed(directory.display().to_string(), source)),
        };
        directories.iter().map(open).collect()
    }

    /// Writes `pieces` after the bytes of `stored`; the result has both. If it fails or is cancelled, `stored` is
    /// as it was.
    pub async fn store(&self, stored: &Stored, pieces: &[Bytes]) -> Result<Stored, SpoolError> {
        let extended = self.extended(stored, pieces).await?;
        extended.is_whole();
        Ok(extended)
    }

    async fn extended(&self, stored: &Stored, pieces: &[Bytes]) -> Result<Stored, SpoolError> {
        let bytes: u64 = pieces.iter().map(|piece| piece.len() as u64).sum();
        // A part continues in the directory where it began, if that has room, so that it is one run of blocks where
        // possible.
        let mut failed = None;
        for directory in self.order(stored, bytes).filter(|directory| directory.has_room(bytes)) {
            match stored.extended(directory, pieces).await {
                Ok(extended) => return Ok(extended),
                Err(source) => failed = Some((directory.name(), source)),
            }
        }
        // No directory takes all of it alone. If all directories together have no room for it either, nothing is
        // written.
        if self.room() >= bytes {
            match self.spread(stored, pieces, bytes).await {
                Ok(extended) if extended.len() == stored.len() + bytes => return Ok(extended),
                Ok(_) => {}
                Err(error) => failed = Some(error),
            }
        }
        Err(match failed {
            Some((directory, source)) if !directory::is_full(&source) => {
                SpoolError::failed(directory, source)
            }
            _ => SpoolError::Full(self.fullness()),
        })
    }

    /// The directories in the order in which they are tried for `bytes` more after `stored`: first the one in which
    /// it ends, then the others, the soonest done first.
    fn order(&self, stored: &Stored, bytes: u64) -> impl Iterator<Item = &Arc<Directory>> {
        let begun = stored.last().cloned();
        let is_begun =
            |directory: &Arc<Directory>| begun.as_ref().is_some_and(|it| Arc::ptr_eq(it, directory));
        let mut order: Vec<_> = self
            .directories
            .iter()
            .map(|directory| (!is_begun(directory), directory.cost(bytes), directory))
            .collect();
        order.sort_by(|one, other| one.0.cmp(&other.0).then(one.1.total_cmp(&other.1)));
        order.into_iter().map(|(.., directory)| directory)
    }

    /// Writes to each directory as much as it has room for, until all of `pieces` is written.
    async fn spread(
        &self,
        stored: &Stored,
        pieces: &[Bytes],
        bytes: u64,
    ) -> Result<Stored, (String, io::Error)> {
        let (mut spread, mut rest) = (stored.clone(), pieces.to_vec());
        for directory in self.order(stored, bytes) {
            let fits = cut(&mut rest, directory.room());
            if !fits.is_empty() {
                let extended = spread.extended(directory, &fits).await;
                spread = extended.map_err(|source| (directory.name(), source))?;
            }
        }
        Ok(spread)
    }

    /// Bytes that all directories together have room for.
    fn room(&self) -> u64 {
        self.directories.iter().fold(0, |sum, directory| sum.saturating_add(directory.room()))
    }

    /// Whether some directory takes at least a block.
    pub fn has_room(&self) -> bool {
        self.directories.iter().any(|directory| directory.has_room(1))
    }

    /// Whether a write is under way.
    pub(crate) fn is_writing(&self) -> bool {
        self.directories.iter().any(|directory| directory.is_writing())
    }

    /// A part begins its way out of the spool, which ends when the guard is dropped.
    pub fn drain(&self) -> Draining {
        self.draining.fetch_add(1, Relaxed);
        Draining(self.draining.clone())
    }

    /// How many spooled parts are being sent, or wait for the memory to be sent through.
    pub fn draining(&self) -> usize {
        self.draining.load(Relaxed)
    }

    /// Bytes of blocks in use.
    pub fn used(&self) -> u64 {
        self.directories.iter().map(|directory| directory.used()).sum()
    }

    /// How full each directory is, as part of a sentence.
    pub(crate) fn fullness(&self) -> String {
        let each: Vec<_> = self.directories.iter().map(|directory| directory.fullness()).collect();
        each.join("; ")
    }

    /// Notified whenever blocks are given back.
    pub fn freed(&self) -> &Notify {
        &self.freed
    }
}

/// Cuts at most `most` bytes off the front of `pieces`.
fn cut(pieces: &mut Vec<Bytes>, most: u64) -> Vec<Bytes> {
    let mut left = usize::try_from(most).unwrap_or(usize::MAX);
    let mut front = Vec::new();
    while left > 0
        && let Some(piece) = pieces.first_mut()
    {
        front.push(piece.split_to(left.min(piece.len())));
        left -= front.last().map_or(0, Bytes::len);
        if piece.is_empty() {
            pieces.remove(0);
        }
    }
    front
}
