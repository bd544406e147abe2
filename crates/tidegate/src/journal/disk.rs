//! What a journal needs of its file, and the real one.

use std::fmt::Debug;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::sync::Arc;

use super::error::JournalError;
use crate::memory::payload::CachedFile;

/// How much is read at once where all is read.
pub(super) const CHUNK: usize = 64 << 10;

/// A journal's file. Everything blocks, but for [`read_cached`](Self::read_cached).
///
/// One caller at a time writes; reads and syncs go on beside that.
pub trait JournalFile: Debug + Send + Sync + 'static {
    /// Its length in bytes.
    fn length(&self) -> io::Result<u64>;

    /// Writes the pieces one behind the other, from `offset` on. After an error any of them may be
    /// written, or parts of them.
    fn write(&self, offset: u64, pieces: &[&[u8]]) -> io::Result<()>;

    /// Reads, waiting for the disk; 0 at the end.
    fn read(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize>;

    /// Reads what is in memory without waiting for a disk; `None` where that is nothing, or unknown.
    fn read_cached(&self, buffer: &mut [u8], offset: u64) -> io::Result<Option<usize>>;

    /// The next offset from `offset` on where there may be something else than a hole; `None` where there is none up to
    /// the end. A file system that does not say has no holes.
    fn next_data(&self, offset: u64) -> io::Result<Option<u64>> {
        Ok(Some(offset))
    }

    /// Cuts it off.
    fn truncate(&self, length: u64) -> io::Result<()>;

    /// Returns when all that was written, and the length, would survive a loss of power: `fdatasync`.
    fn sync(&self) -> io::Result<()>;

    /// Gives the space of a range back, which reads as zeros then. The length stays.
    fn punch(&self, range: Range<u64>) -> io::Result<()>;

    /// Sets space aside for a range, so that what is written there finds it. The length stays. Cutting
    /// the file off gives it back.
    fn allocate(&self, range: Range<u64>) -> io::Result<()>;
}

/// What `file`, at `path`, is to a journal.
#[cfg_attr(not(test), expect(unused_variables, reason = "only tests have other disks"))]
pub(super) fn of(path: &Path, file: File) -> Arc<dyn JournalFile> {
    #[cfg(test)]
    let file = match super::tests::power::simulated(path, file) {
        Ok(simulated) => return simulated,
        Err(file) => file,
    };
    Arc::new(RealFile::new(file))
}

/// A file in a directory.
#[derive(Debug)]
pub(super) struct RealFile(CachedFile);

impl RealFile {
    pub(super) fn new(file: File) -> Self {
        Self(CachedFile::new(file))
    }

    fn file(&self) -> &File {
        &self.0.file
    }
}

impl JournalFile for RealFile {
    fn length(&self) -> io::Result<u64> {
        Ok(self.file().metadata()?.len())
    }

    fn write(&self, mut offset: u64, pieces: &[&[u8]]) -> io::Result<()> {
        // Linux takes 1,024 pieces at once: UIO_MAXIOV, writev(2).
        for some in pieces.chunks(1024) {
            let mut slices: Vec<_> = some.iter().map(|piece| io::IoSlice::new(piece)).collect();
            let mut rest = &mut slices[..];
            io::IoSlice::advance_slices(&mut rest, 0);
            while !rest.is_empty() {
                match rustix::io::pwritev(self.file(), rest, offset) {
                    Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                    Ok(written) => {
                        offset += written as u64;
                        io::IoSlice::advance_slices(&mut rest, written);
                    }
                    Err(rustix::io::Errno::INTR) => {}
                    Err(error) => return Err(error.into()),
                }
            }
        }
        Ok(())
    }

    fn read(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.file().read_at(buffer, offset)
    }

    fn read_cached(&self, buffer: &mut [u8], offset: u64) -> io::Result<Option<usize>> {
        self.0.read_cached(buffer, offset)
    }

    #[cfg(any(target_os = "linux", target_os = "android"))]
    fn next_data(&self, offset: u64) -> io::Result<Option<u64>> {
        // What is read and written says where, so the file's own position is of no matter.
        match rustix::fs::seek(self.file(), rustix::fs::SeekFrom::Data(offset)) {
            Ok(next) => Ok(Some(next)),
            Err(rustix::io::Errno::NXIO) => Ok(None),
            Err(rustix::io::Errno::INVAL) => Ok(Some(offset)),
            Err(error) => Err(error.into()),
        }
    }

    fn truncate(&self, length: u64) -> io::Result<()> {
        self.file().set_len(length)
    }

    fn sync(&self) -> io::Result<()> {
        self.file().sync_data()?;
        // What is in a file without a name is gone with the process.
        if self.file().metadata()?.nlink() == 0 {
            return Err(io::Error::new(io::ErrorKind::NotFound, "the file was removed"));
        }
        Ok(())
    }

    #[cfg(any(target_os = "linux", target_os = "android"))]
    fn punch(&self, range: Range<u64>) -> io::Result<()> {
        use rustix::fs::{FallocateFlags, fallocate};
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        Ok(fallocate(self.file(), flags, range.start, range.end - range.start)?)
    }

    #[cfg(any(target_os = "linux", target_os = "android"))]
    fn allocate(&self, range: Range<u64>) -> io::Result<()> {
        use rustix::fs::{FallocateFlags, fallocate};
        loop {
            match fallocate(self.file(), FallocateFlags::KEEP_SIZE, range.start, range.end - range.start) {
                Err(rustix::io::Errno::INTR) => {}
                done => return Ok(done?),
            }
        }
    }

    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    fn punch(&self, _: Range<u64>) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    fn allocate(&self, _: Range<u64>) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

/// Fills `buffer` from `offset` on.
pub(super) fn read_full(
    path: &Path,
    file: &dyn JournalFile,
    buffer: &mut [u8],
    offset: u64,
) -> Result<(), JournalError> {
    let mut done = 0;
    while done < buffer.len() {
        match file.read(&mut buffer[done..], offset + done as u64) {
            Ok(0) => return Err(JournalError::damaged(path, offset, "it became shorter while it was read")),
            Ok(read) => done += read,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(JournalError::io(path, "reading", error)),
        }
    }
    Ok(())
}
