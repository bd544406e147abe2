//! A file that arrives in pieces, out of order, and may be gone on with after it was cut.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, LazyLock};

use bytes::Bytes;
use rustix::fs::{FallocateFlags, OFlags};

use super::fault::{blocking, fault, invalid};
use super::target::{self, Target};
use super::temp::{Publish, Trace};
use super::waiting::{Waiter, Waiting};
use super::write::write_all_at;
use super::{Parents, temp};
use crate::backend::{Fault, FaultKind};
use crate::object::Object;

mod queue;
mod small;

use queue::Queue;

/// Of all downloads of this process: the last of those that fail takes away a directory that the first has made.
static PARENTS: LazyLock<Arc<Parents>> = LazyLock::new(Arc::default);

/// How often a file is opened that others remove meanwhile.
const TRIES: u32 = 16;

/// A file beside where it will be, locked for as long as this lives. Unless it is published or kept, its name is
/// removed when this is dropped; work on the file that was handed off may still be under way then.
#[derive(Debug)]
pub(crate) struct Arrival {
    file: File,
    path: PathBuf,
    target: Target,
    /// Where there may be something under the mark that is not gone on with: another process has it, or a download that
    /// was cut just now, or it was not looked for.
    other: Option<PathBuf>,
    is_kept: AtomicBool,
    queue: Queue,
}

impl Arrival {
    /// The file that is to be at `path`: what was left under `mark`, 16 hexadecimal digits, or else a new one.
    /// One that another process has at work is left to it: then it is a new one under another mark.
    pub(crate) fn begin(path: &Path, mark: &str) -> Result<Self, Fault> {
        let (target, _) = target_at(path)?;
        Self::begin_at(target, mark)
    }

    /// The same, where that has been looked at.
    fn begin_at(target: Target, mark: &str) -> Result<Self, Fault> {
        let parents = &*PARENTS;
        let failed = |error| {
            parents.remove_empty(target.directory());
            fault(error, target.directory())
        };
        let (mut mark, mut other, mut tries) = (mark.to_owned(), None, 0);
        loop {
            tries += 1;
            let path = temp::path(&target, &temp::id(&mark, target.name()))?;
            let opened = no_link().create(true).truncate(false).open(&path);
            let file = match opened {
                Ok(file) => file,
                // Not made yet, or removed by a neighbour that failed; whether it is there by now says nothing.
                Err(error) if error.kind() == io::ErrorKind::NotFound && tries < TRIES => {
                    parents.make(target.directory()).map_err(failed)?;
                    continue;
                }
                Err(error) => return Err(failed(error)),
            };
            let is_locked = is_locked(&file);
            if !is_locked && is_named(&file, &path) {
                let (is_kept, queue) = (false.into(), Queue::default());
                return Ok(Self { file, path, target, other, is_kept, queue });
            }
            // Removed between the two looks; or its numbers change from one look to the next.
            if !is_locked && tries >= TRIES {
                let message = format!("{} is never the file that was opened by this name", path.display());
                return Err(Fault::new(FaultKind::Source, message));
            }
            if is_locked {
                other.get_or_insert(path);
                mark = new_mark();
            }
        }
    }

    fn trace(&self) -> Trace {
        let (path, directory) = (self.path.clone(), self.target.directory().to_owned());
        Trace { path, directory, parents: PARENTS.clone() }
    }

    pub(crate) fn len(&self) -> Result<u64, Fault> {
        Ok(self.file.metadata().map_err(|error| self.fault(error))?.len())
    }

    /// Makes it `size` bytes long, with room for all of them where the file system can: a full disk is known before
    /// a byte is asked for. What is in it stays where it is.
    pub(crate) fn reserve(&self, size: u64) -> Result<(), Fault> {
        use rustix::io::Errno;
        self.file.set_len(size).map_err(|error| self.fault(error))?;
        if size == 0 {
            return Ok(());
        }
        let reserved = match self.room_in_memory() {
            // It would be given page by page, which takes as long as to fill them.
            Some(room) if room < size => Err(Errno::NOSPC),
            Some(_) => Ok(()),
            None => rustix::fs::fallocate(&self.file, FallocateFlags::empty(), 0, size),
        };
        match reserved {
            Ok(()) | Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL) => Ok(()),
            Err(error) => Err(self.fault(error.into())),
        }
    }

    /// How much a file system has room for that lies in memory; `None` where it is another one.
    fn room_in_memory(&self) -> Option<u64> {
        const TMPFS_MAGIC: u64 = 0x0102_1994; // linux/magic.h
        let found = rustix::fs::fstatfs(&self.file).ok()?;
        let is_in_memory = u64::try_from(found.f_type) == Ok(TMPFS_MAGIC);
        // One without a limit says that it has no blocks at all.
        let room =
            if found.f_blocks == 0 { u64::MAX } else { found.f_bavail.saturating_mul(found.f_bsize as u64) };
        is_in_memory.then_some(room)
    }

    pub(crate) fn write(&self, pieces: &[Bytes], at: u64) -> Result<(), Fault> {
        write_all_at(&self.file, pieces, at).map(|_| ()).map_err(|error| self.fault(error))
    }

    /// Fills `buffer` from byte `at` on; whether there was as much.
    pub(crate) fn read(&self, buffer: &mut [u8], at: u64) -> Result<bool, Fault> {
        use std::os::unix::fs::FileExt;
        match self.file.read_exact_at(buffer, at) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
            Err(error) => Err(self.fault(error)),
        }
    }

    /// Leaves the file where it is when this is dropped, or not. One that could not be found again is never kept.
    pub(crate) fn keep(&self, is_kept: bool) {
        self.is_kept.store(is_kept && self.other.is_none(), Relaxed);
    }

    /// Nobody waits for it any more: its name is removed at once, unless it is kept. Work that was handed off goes on
    /// in a file without a name.
    pub(crate) fn leave(&self) {
        if !self.is_kept.load(Relaxed) && is_named(&self.file, &self.path) {
            temp::remove(&self.path);
        }
        PARENTS.remove_empty(self.target.directory());
    }

    /// Cuts it to `size` and gives it its name; not where nobody waits for it any more.
    pub(crate) async fn publish(self: Arc<Self>, size: u64, how: Publish) -> Result<Object, Fault> {
        let waiter = Waiter::default();
        let waiting = waiter.waiting();
        let published = blocking(move || self.publish_now(size, how, &waiting)).await;
        waiter.done();
        published
    }

    fn publish_now(&self, size: u64, how: Publish, waiting: &Waiting) -> Result<Object, Fault> {
        if how.sync {
            // What takes long comes before the record is cut off, without which nothing could be gone on with.
            self.file.sync_data().map_err(|error| self.fault(error))?;
        }
        waiting.check()?;
        // Without its record it can't be gone on with.
        self.is_kept.store(false, Relaxed);
        self.file.set_len(size).map_err(|error| self.fault(error))?;
        // By its name it is renamed: another's file that has come there is none of ours.
        if !is_named(&self.file, &self.path) {
            return Err(Fault::new(FaultKind::Source, "the file that was written was removed meanwhile"));
        }
        let published = temp::publish(&PARENTS, &self.file, &self.path, &self.target, how, waiting)?;
        self.is_kept.store(true, Relaxed);
        self.other.iter().for_each(|other| remove_left(other));
        Ok(published)
    }

    fn fault(&self, error: io::Error) -> Fault {
        at_file(error, &self.target)
    }
}

/// Where a file is to be, and whether there is one already.
fn target_at(path: &Path) -> Result<(Target, bool), Fault> {
    let nameless = || invalid("it names no file");
    let name = path.file_name().and_then(|name| name.to_str()).ok_or_else(nameless)?;
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let root = std::path::absolute(directory.unwrap_or(Path::new("."))).map_err(|_| nameless())?;
    let target = Target::to_write(&root, name)?.relative(path.is_relative()).behind_links()?;
    target.check_directories()?;
    match std::fs::metadata(target.path()) {
        Ok(metadata) => target::check_regular(&metadata).map(|()| (target, true)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok((target, false)),
        Err(error) => Err(fault(error, target.directory())),
    }
}

/// What an error at the file means: a disk that fails is no store to be asked again.
fn at_file(error: io::Error, target: &Target) -> Fault {
    let mut fault = fault(error, target.directory());
    if fault.kind.is_retriable() {
        fault.kind = FaultKind::Source;
    }
    fault
}

/// What lies under a mark is of no use any more, unless somebody is still at work on it.
fn remove_left(left: &Path) {
    if let Ok(file) = no_link().open(left)
        && !is_locked(&file)
        && is_named(&file, left)
    {
        temp::remove(left); // while it is locked, so that nobody finds it
    }
}

impl Drop for Arrival {
    fn drop(&mut self) {
        self.leave();
    }
}

/// Opens a file, not through a link, which is none of ours. To write as well: NFS locks no other.
fn no_link() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.read(true).write(true).custom_flags(OFlags::NOFOLLOW.bits() as i32);
    options
}

/// Whether another holds the file; if not, this one does. Where the file system knows no locks, nobody is at work on it
/// as far as can be known.
fn is_locked(file: &File) -> bool {
    matches!(file.try_lock(), Err(std::fs::TryLockError::WouldBlock))
}

/// A mark that nothing was left under.
fn new_mark() -> String {
    format!("{:016x}", fastrand::u64(..))
}

/// Whether `path` is this file's name.
fn is_named(file: &File, path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let place = |metadata: std::fs::Metadata| (metadata.dev(), metadata.ino());
    match (file.metadata(), std::fs::metadata(path)) {
        (Ok(ours), Ok(there)) => place(ours) == place(there),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_files_at_once_may_need_the_same_new_directory() {
        let directory = tempfile::tempdir().unwrap();
        for round in 0..100 {
            let new = directory.path().join(format!("{round}/new"));
            let begin = |name: &str| Arrival::begin(&new.join(name), &"0".repeat(16)).map(drop);
            let begun: Vec<_> = std::thread::scope(|scope| {
                let threads: Vec<_> =
                    ["a", "b", "c", "d"].map(|name| scope.spawn(move || begin(name))).into_iter().collect();
                threads.into_iter().map(|thread| thread.join().unwrap()).collect()
            });
            assert!(begun.iter().all(Result::is_ok), "{begun:?}");
            assert!(!new.exists(), "nobody has put anything there");
        }
    }
}
