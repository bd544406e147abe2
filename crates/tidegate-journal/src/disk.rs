//! The operations that a journal needs of its file, and their implementation for a real one.

use std::fmt::Debug;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::sync::Arc;

use super::error::JournalError;
use tidegate_core::memory::payload::CachedFile;
use tidegate_core::types::locked_file::LockedFile;

/// Bytes of one read where a whole range is read.
pub(super) const CHUNK: usize = 64 << 10;

/// A journal's file. Everything blocks, except [`read_cached`](Self::read_cached).
///
/// One caller at a time writes; reads and syncs may run at the same time.
pub trait JournalFile: Debug + Send + Sync + 'static {
    /// Its length in bytes.
    fn length(&self) -> io::Result<u64>;

    /// Writes the pieces one after the other, from `offset` on. After an error any of them may be written, whole or
    /// in part.
    fn write(&self, offset: u64, pieces: &[&[u8]]) -> io::Result<()>;

    /// Reads, waiting for the disk; 0 at the end.
    fn read(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize>;

    /// Reads bytes that are in memory, without waiting for a disk; `None` if the bytes are not in memory, or if
    /// that is unknown.
    fn read_cached(&self, buffer: &mut [u8], offset: u64) -> io::Result<Option<usize>>;

    /// The first offset from `offset` on that may not be in a hole; `None` if there are only holes up to the end. A
    /// file system that can't tell has no holes.
    fn next_data(&self, offset: u64) -> io::Result<Option<u64>> {
        Ok(Some(offset))
    }

    /// Cuts the file off at `length`.
    fn truncate(&self, length: u64) -> io::Result<()>;

    /// Returns when everything that was written, and the length, would survive a loss of power: `fdatasync`.
    fn sync(&self) -> io::Result<()>;

    /// Marks the file as in use by a writer or a claim, or takes the mark away, without waiting for the disk.
    ///
    /// # Errors
    /// If there are no such marks on this file system.
    fn set_in_use(&self, in_use: bool) -> io::Result<()> {
        let _ = in_use;
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Gives back the space of a range, which then reads as zeros. The length stays.
    fn punch(&self, range: Range<u64>) -> io::Result<()>;

    /// Reserves space for a range, so that a later write there finds it. The length stays. Cutting the file off
    /// gives the space back.
    fn allocate(&self, range: Range<u64>) -> io::Result<()>;
}

/// Wraps `file`, which is at `path`, for a journal.
#[cfg_attr(
    not(any(test, feature = "testkit")),
    expect(unused_variables, reason = "only tests have other disks")
)]
pub(super) fn of(path: &Path, file: LockedFile) -> Arc<dyn JournalFile> {
    #[cfg(any(test, feature = "testkit"))]
    let file = match super::testkit::simulated(path, file) {
        Ok(simulated) => return simulated,
        Err(file) => file,
    };
    Arc::new(RealFile::new(file))
}

/// A file in a directory.
#[derive(Debug)]
pub(super) struct RealFile(CachedFile<LockedFile>);

impl RealFile {
    pub(super) fn new(file: LockedFile) -> Self {
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
        // Every read and write names its offset, so the file's own position does not matter.
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
        // The bytes of a file without a name are gone when the process ends.
        if self.file().metadata()?.nlink() == 0 {
            return Err(io::Error::new(io::ErrorKind::NotFound, "the file was removed"));
        }
        Ok(())
    }

    fn set_in_use(&self, in_use: bool) -> io::Result<()> {
        self.0.file.set_mark(in_use)
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
