//! Files that this process has locked. A forked child gives the locks up.
//!
//! A `flock` belongs to the open file, and a forked child shares its parent's open files: the lock lasts until both have
//! closed the file. A child that outlives its parent would keep the parent's journals locked, and nobody could resume
//! them. So a process unlocks before it closes, and a child calls [`release_inherited_locks`]. POSIX record locks are not
//! inherited, but a process loses them as soon as it closes any descriptor of the file, as each listing of journals does.

use std::borrow::Borrow;
use std::fs::{File, TryLockError};
use std::mem::ManuallyDrop;
use std::ops::Deref;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::{io, process};

use rustix::io::{FdFlags, dup2, fcntl_setfd};

mod byte_lock;

/// The locked files: the process that has locked each, and its descriptor. 0 is an empty place. Changed without a mutex,
/// which a child could inherit locked. A file for which there is no place is locked all the same, and a child keeps its
/// lock.
static LOCKED: [AtomicU64; 4096] = [const { AtomicU64::new(0) }; 4096];

/// What a place has for a descriptor that this process has locked. No process has the number 0.
fn entry(descriptor: RawFd) -> u64 {
    u64::from(process::id()) << 32 | u64::from(descriptor.cast_unsigned())
}

/// The process and the descriptor of an entry.
fn parts(entry: u64) -> (u64, RawFd) {
    // The lower half is the descriptor.
    #[expect(clippy::cast_possible_truncation, reason = "the upper half is the process")]
    (entry >> 32, (entry as u32).cast_signed())
}

/// A place for a descriptor that will be locked.
fn place(descriptor: RawFd) -> Option<&'static AtomicU64> {
    let entry = entry(descriptor);
    LOCKED.iter().find(|place| place.compare_exchange(0, entry, SeqCst, SeqCst).is_ok())
}

/// A file that is locked until this is dropped.
#[derive(Debug)]
pub struct LockedFile {
    file: ManuallyDrop<File>,
    /// The process that has locked it.
    process: u32,
    place: Option<&'static AtomicU64>,
}

/// A file that was not locked, and why.
#[derive(Debug)]
pub struct NotLocked {
    /// The file, which is open and not locked.
    pub file: File,
    /// Why the file was not locked.
    pub error: TryLockError,
}

impl From<NotLocked> for io::Error {
    fn from(not_locked: NotLocked) -> Self {
        not_locked.error.into()
    }
}

impl LockedFile {
    /// Locks the file, unless somebody else has it.
    pub fn try_exclusive(file: File) -> Result<Self, NotLocked> {
        Self::lock(file, File::try_lock)
    }

    /// Shares the lock of the file, unless somebody has it alone.
    pub fn try_shared(file: File) -> Result<Self, NotLocked> {
        Self::lock(file, File::try_lock_shared)
    }

    /// Waits until it shares the lock of the file.
    pub fn shared(file: File) -> io::Result<Self> {
        Ok(Self::lock(file, |file| file.lock_shared().map_err(TryLockError::Error))?)
    }

    fn lock(file: File, lock: impl FnOnce(&File) -> Result<(), TryLockError>) -> Result<Self, NotLocked> {
        // Before the lock, so that no child inherits a lock that is not listed.
        let place = place(file.as_raw_fd());
        match lock(&file) {
            Ok(()) => Ok(Self { file: ManuallyDrop::new(file), process: process::id(), place }),
            Err(error) => {
                leave(place);
                Err(NotLocked { file, error })
            }
        }
    }

    /// Marks the file as in use, or takes the mark away, without waiting for a disk. Others that can't lock the file
    /// learn by [`is_marked`] whether its owner uses it, or is about to close it.
    ///
    /// # Errors
    /// Those of the system. Not every system and file system knows such marks.
    pub fn set_mark(&self, is_set: bool) -> io::Result<()> {
        // A child shares its parent's mark.
        if self.process == process::id() { byte_lock::set(&self.file, is_set) } else { Ok(()) }
    }
}

/// Whether somebody who opened the same file elsewhere, in this process or in another one, has
/// [marked](LockedFile::set_mark) it.
pub fn is_marked(file: &File) -> io::Result<bool> {
    byte_lock::is_set(file)
}

fn leave(place: Option<&AtomicU64>) {
    if let Some(place) = place {
        place.store(0, SeqCst);
    }
}

impl Deref for LockedFile {
    type Target = File;

    fn deref(&self) -> &File {
        &self.file
    }
}

impl Borrow<File> for LockedFile {
    fn borrow(&self) -> &File {
        &self.file
    }
}

impl Drop for LockedFile {
    #[expect(unsafe_code, reason = "only the process that has locked the file closes it")]
    fn drop(&mut self) {
        // A child leaves the descriptor open: to unlock would end its parent's lock.
        if self.process == process::id() {
            // Closing would not end a lock that a child shares.
            let _ = self.file.unlock();
            leave(self.place);
            // SAFETY: `self` is being dropped, and nothing uses the file after this.
            unsafe { ManuallyDrop::drop(&mut self.file) };
        }
    }
}

/// Gives up the locks of journals and records that this process, a forked child, has inherited; otherwise nobody could
/// resume its parent's uploads after the parent has died, as long as this process lives. To be called by a child before
/// anything else. In its parent, and a second time, this does nothing.
///
/// The writers that the child has inherited are of no use to it any more: their journals are empty files here.
///
/// ```
/// // In the child, right after the fork:
/// tidegate::fork::release_inherited_locks()?;
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// # Errors
/// If `/dev/null` can't be opened, or the system refuses to replace a descriptor.
#[expect(unsafe_code, reason = "descriptors that files own are replaced")]
pub fn release_inherited_locks() -> io::Result<()> {
    let ours = u64::from(process::id());
    let inherited = |entry: u64| entry != 0 && parts(entry).0 != ours;
    if !LOCKED.iter().any(|place| inherited(place.load(SeqCst))) {
        return Ok(());
    }
    let null = File::open("/dev/null")?;
    for place in &LOCKED {
        let entry = place.load(SeqCst);
        if !inherited(entry) || place.compare_exchange(entry, 0, SeqCst, SeqCst).is_err() {
            continue;
        }
        // SAFETY: The descriptor is open: its `LockedFile` was locked by another process, and leaves its place before it
        // closes the file; in this process it never closes the file. Here the descriptor is not closed, either, but made
        // to refer to another file in one step. So its owner keeps an open descriptor, and no other file has its number.
        let mut locked = ManuallyDrop::new(unsafe { OwnedFd::from_raw_fd(parts(entry).1) });
        dup2(&null, &mut locked)?;
        fcntl_setfd(&*locked, FdFlags::CLOEXEC)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_ends_although_another_descriptor_shares_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let locked = LockedFile::try_exclusive(File::create(&path).unwrap()).unwrap();
        // As a forked child has it.
        let shared = locked.try_clone().unwrap();
        assert!(LockedFile::try_shared(File::open(&path).unwrap()).is_err());
        drop(locked);
        assert!(LockedFile::try_exclusive(File::open(&path).unwrap()).is_ok());
        drop(shared);
    }

    #[test]
    fn a_mark_is_seen_by_whoever_opens_the_file_and_ends_before_the_lock() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let locked = LockedFile::try_exclusive(File::create(&path).unwrap()).unwrap();
        let marked = || is_marked(&File::open(&path).unwrap()).unwrap();
        assert!(!marked());
        locked.set_mark(true).unwrap();
        // The process keeps the mark whatever else it closes.
        assert!(marked() && marked());
        locked.set_mark(false).unwrap();
        assert!(!marked() && LockedFile::try_shared(File::open(&path).unwrap()).is_err());
        locked.set_mark(true).unwrap();
        drop(locked);
        assert!(!marked());
    }

    #[test]
    fn nothing_is_released_in_the_process_that_has_locked() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let locked = LockedFile::try_exclusive(File::create(&path).unwrap()).unwrap();
        release_inherited_locks().unwrap();
        assert!(LockedFile::try_shared(File::open(&path).unwrap()).is_err());
        let number = locked.as_raw_fd();
        assert_eq!(parts(entry(number)), (process::id().into(), number));
    }
}
