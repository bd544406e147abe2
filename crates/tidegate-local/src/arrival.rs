//! The file of a download, which arrives in pieces, out of order, and can be resumed after a cut.
//!
//! Directories may be shared with users who would like a download to write to their files, or to publish them. So
//! each file has an unpredictable name, and is made with `O_EXCL`. A later download finds the file by its note, whose
//! name anyone can work out. So the note, and the file that it names, are used only if they cannot belong to another
//! user ([`trusted_file`]); otherwise they are left alone, and the download begins with a file of its own.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use rustix::fs::FallocateFlags;

use super::fault::{blocking, fault, invalid};
use super::target::Target;
use super::temp::{Publish, Trace};
use super::waiting::{WaitedWork, Waiter};
use super::write::write_all_at;
use super::{Parents, temp};
use tidegate_core::backend::{Fault, FaultKind};
use tidegate_core::types::object::Object;
use tidegate_core::types::owner_process::OwnerProcess;
use tidegate_core::types::trusted_file;
use tidegate_core::types::trusted_file::{Access, TrustedOwners, UntrustedFile};

mod note_file;
mod queue;
mod small;

use note_file::{NoteFile, NoteSearch};
use queue::WriteQueue;

/// How often opening or making a file is tried while others remove it or its directory.
const TRIES: u32 = 16;

/// The destination of a download.
#[derive(Clone, Debug)]
pub struct Destination {
    /// The path of the finished file.
    pub path: PathBuf,
    /// Identifies the note of an earlier download: 16 hexadecimal digits.
    pub mark: String,
    /// The owners whose notes and partial files are used.
    pub owners: TrustedOwners,
    /// A directory above the file: the download fails if there are links below it on the way to the file.
    pub without_links_below: Option<PathBuf>,
    /// Those of all downloads of the engine: the last of them to fail removes a directory that the first one made. Not
    /// of the process: a forked child would inherit the lock while a thread of its parent holds it.
    pub parents: Arc<Parents>,
}

/// The destination of a file, with the note that an earlier download left for it.
#[derive(Debug)]
pub struct NotedTarget {
    target: Target,
    is_there: bool,
    note: Noted,
    owners: TrustedOwners,
    parents: Arc<Parents>,
}

/// The note by which a later download finds the file.
#[derive(Debug)]
enum Noted {
    /// No note yet; it may be made at this path.
    NotYet(PathBuf),
    /// The note exists, and this download holds its lock.
    There(NoteFile),
    /// This download has no note: another download holds it, it cannot be trusted, or it could not be written.
    Never,
}

impl NotedTarget {
    /// Finds the note named by the destination's mark. If the file there is not trusted, the second value says why.
    pub fn at(
        Destination { path, mark, owners, without_links_below, parents }: Destination,
    ) -> Result<(Self, Option<String>), Fault> {
        let (target, is_there) = target_at(&path, without_links_below.as_deref())?;
        let path = temp::path(&target, &temp::note_id(&mark, target.name()))?;
        let (note, refused) = match NoteFile::find(&path, &owners) {
            NoteSearch::Nothing => (Noted::NotYet(path), None),
            NoteSearch::Busy => (Noted::Never, None),
            NoteSearch::Note(note) => (Noted::There(note), None),
            NoteSearch::Refused(why) => (Noted::Never, Some(format!("{why}; a cut download begins again"))),
        };
        Ok((Self { target, is_there, note, owners, parents }, refused))
    }

    /// The content of the note, at most `most + 1` bytes; `None` if there is none.
    pub fn note(&self, most: u64) -> Result<Option<Vec<u8>>, Fault> {
        match &self.note {
            Noted::There(note) => note.read(most).map_err(|error| at_file(error, &self.target)),
            Noted::NotYet(_) | Noted::Never => Ok(None),
        }
    }

    /// Resumes the file with this token, which must be `size` bytes long. Otherwise returns the place, and why not.
    pub fn resume(self, token: &str, size: u64) -> Result<Arrival, Box<(Self, String)>> {
        let opened = self.part(token).and_then(|(file, path)| match file.metadata() {
            Ok(metadata) if metadata.len() == size => Ok((file, path)),
            Ok(metadata) => Err(format!("{} has {} bytes, not {size}", path.display(), metadata.len())),
            Err(error) => Err(format!("{}: {error}", path.display())),
        });
        match opened {
            Ok((file, path)) => Ok(Arrival::new(file, path, self, true)),
            Err(why) => Err(Box::new((self, why))),
        }
    }

    /// Opens and locks the file of that token.
    fn part(&self, token: &str) -> Result<(File, PathBuf), String> {
        let path = temp::path(&self.target, &temp::id(token, self.target.name()));
        let path = path.map_err(|fault| fault.to_string())?;
        let opened = trusted_file::open(&path, Access::ReadWrite, &self.owners);
        let file = opened.map_err(|error| refused(&path, &error))?;
        if is_locked(&file) || !is_named(&file, &path) {
            return Err(format!("{} is used by another process", path.display()));
        }
        Ok((file, path))
    }

    /// Begins a new file with an unpredictable name. Removes the file that the note names; the note is written anew
    /// with its first entry.
    pub fn begin(mut self) -> Result<Arrival, Fault> {
        self.forget();
        let (file, path) = create(&self.target, &self.parents)?;
        Ok(Arrival::new(file, path, self, false))
    }

    /// Removes the file of an earlier download, and empties its note.
    fn forget(&mut self) {
        let Noted::There(note) = &self.note else { return };
        if let Some(token) = note.token()
            && let Ok((_locked, path)) = self.part(&token)
        {
            temp::remove(&path);
        }
        if let Noted::There(note) = &mut self.note
            && let Err(error) = note.clear()
        {
            tracing::warn!(note = %note.path().display(), %error, "the note of a download could not be emptied");
            self.note = Noted::Never;
        }
    }

    /// Removes the file of an earlier download, and its note.
    fn remove_left(mut self) {
        self.forget();
        if let Noted::There(note) = self.note {
            note.remove();
        }
    }
}

/// A partial file beside its destination, locked until this is dropped. Dropping it removes the file's name, unless
/// the file is published or kept; work on the file that was handed off may still run then.
#[derive(Debug)]
pub struct Arrival {
    /// The process that downloads into the file.
    owner: OwnerProcess,
    file: File,
    path: PathBuf,
    target: Target,
    note: Mutex<Noted>,
    owners: TrustedOwners,
    parents: Arc<Parents>,
    is_kept: AtomicBool,
    has_left: AtomicBool,
    queue: WriteQueue,
}

/// Makes a file for the target, and the directories that it needs. Only its owner has access, whatever the umask.
fn create(target: &Target, parents: &Parents) -> Result<(File, PathBuf), Fault> {
    let failed = |error| {
        parents.remove_empty(target.directory());
        fault(error, target.directory())
    };
    let mut tries = 0;
    loop {
        tries += 1;
        let path = temp::path(target, &temp::id(&new_token(), target.name()))?;
        match trusted_file::create_new(&path, Access::ReadWrite) {
            Ok(file) => {
                // A sweep leaves a locked file alone. On a file system without locks, do without.
                let _ = file.try_lock();
                return Ok((file, path));
            }
            // The directory is not made yet, or a failed neighbour removed it. Whether it exists by now proves
            // nothing.
            Err(error) if error.kind() == io::ErrorKind::NotFound && tries < TRIES => {
                parents.make(target.directory()).map_err(failed)?;
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && tries < TRIES => {}
            Err(error) => return Err(failed(error)),
        }
    }
}

impl Arrival {
    fn new(file: File, path: PathBuf, place: NotedTarget, is_kept: bool) -> Self {
        let NotedTarget { target, note, owners, parents, is_there: _ } = place;
        let (note, is_kept, queue) = (note.into(), is_kept.into(), WriteQueue::default());
        let has_left = AtomicBool::new(false);
        let (owner, target) = (OwnerProcess::this(), target.close_directory());
        Self { owner, file, path, target, note, owners, parents, is_kept, has_left, queue }
    }

    /// Begins a new file for `path`.
    #[cfg(any(test, feature = "testkit"))]
    pub fn begin(path: &Path, mark: &str) -> Result<Self, Fault> {
        Self::begin_among(path, mark, Arc::default())
    }

    /// Begins a new file for `path`, beside other downloads of the engine that `parents` belongs to.
    #[cfg(any(test, feature = "testkit"))]
    fn begin_among(path: &Path, mark: &str, parents: Arc<Parents>) -> Result<Self, Fault> {
        let (path, mark, owners) = (path.to_owned(), mark.to_owned(), TrustedOwners::default());
        NotedTarget::at(Destination { path, mark, owners, without_links_below: None, parents })?.0.begin()
    }

    /// Removes this file, and begins a new one at the same place for another object.
    pub fn begin_again(&self) -> Result<Self, Fault> {
        let note = std::mem::replace(&mut *self.noted(), Noted::Never);
        self.is_kept.store(false, Relaxed);
        self.leave();
        // A drop may have left the file meanwhile, to be kept.
        if is_named(&self.file, &self.path) {
            temp::remove(&self.path);
        }
        let (target, owners) = (self.target.clone(), self.owners.clone());
        NotedTarget { target, is_there: false, note, owners, parents: self.parents.clone() }.begin()
    }

    fn noted(&self) -> MutexGuard<'_, Noted> {
        self.note.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The token in the file's name.
    pub fn token(&self) -> String {
        let name = self.path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        temp::token(name).unwrap_or_default().to_owned()
    }

    /// Writes `entries` to the note, each at its offset. If there is no note yet, makes one that begins with `head`
    /// and is `len` bytes long. The first entry makes the file worth keeping: it stays when this is dropped. False if
    /// there can be no note: the download continues without one.
    pub fn note(&self, head: &[u8], len: u64, entries: &[(u64, Vec<u8>)]) -> bool {
        let mut noted = self.noted();
        if let Noted::NotYet(path) = &*noted {
            *noted = match NoteFile::create(path) {
                Ok(Some(note)) => Noted::There(note),
                // Another download to the same place came first.
                Ok(None) => Noted::Never,
                Err(error) => {
                    tracing::warn!(note = %path.display(), %error, "the note of a download could not be made");
                    Noted::Never
                }
            };
        }
        let Noted::There(note) = &mut *noted else { return false };
        if let Err(error) = note.write(head, len, entries) {
            tracing::warn!(note = %note.path().display(), %error, "the note of a download could not be written");
            return false;
        }
        self.is_kept.fetch_or(!entries.is_empty(), Relaxed);
        true
    }

    fn trace(&self) -> Trace {
        let (path, directory) = (self.path.clone(), self.target.directory().to_owned());
        Trace { owner: self.owner, path, directory, parents: self.parents.clone() }
    }

    /// Makes the file `size` bytes long and reserves the space if the file system can, so that a full disk is known
    /// before a byte is requested. Bytes already in the file stay.
    pub fn reserve(&self, size: u64) -> Result<(), Fault> {
        use rustix::io::Errno;
        self.file.set_len(size).map_err(|error| self.fault(error))?;
        if size == 0 {
            return Ok(());
        }
        let reserved = match self.room_in_memory() {
            // `fallocate` would fill the memory page by page, which takes as long as writing it.
            Some(room) if room < size => Err(Errno::NOSPC),
            Some(_) => Ok(()),
            None => rustix::fs::fallocate(&self.file, FallocateFlags::empty(), 0, size),
        };
        match reserved {
            Ok(()) | Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL) => Ok(()),
            Err(error) => Err(self.fault(error.into())),
        }
    }

    /// The free space of a file system in memory; `None` for other file systems.
    fn room_in_memory(&self) -> Option<u64> {
        const TMPFS_MAGIC: u64 = 0x0102_1994; // linux/magic.h
        let found = rustix::fs::fstatfs(&self.file).ok()?;
        let is_in_memory = u64::try_from(found.f_type) == Ok(TMPFS_MAGIC);
        // Without a limit, such a file system reports no blocks at all.
        let room =
            if found.f_blocks == 0 { u64::MAX } else { found.f_bavail.saturating_mul(found.f_bsize as u64) };
        is_in_memory.then_some(room)
    }

    /// Writes the pieces, one after the other, from the offset `at` on.
    pub fn write(&self, pieces: &[Bytes], at: u64) -> Result<(), Fault> {
        write_all_at(&self.file, pieces, at).map(|_| ()).map_err(|error| self.fault(error))
    }

    /// Fills `buffer` from byte `at` on; false if the file ends before that.
    pub fn read(&self, buffer: &mut [u8], at: u64) -> Result<bool, Fault> {
        use std::os::unix::fs::FileExt;
        match self.file.read_exact_at(buffer, at) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
            Err(error) => Err(self.fault(error)),
        }
    }

    /// Whether this is a forked child, whose parent downloads into the file.
    pub fn is_inherited(&self) -> bool {
        self.owner.is_parent()
    }

    /// Whether the file stays when this is dropped.
    pub fn is_kept(&self) -> bool {
        self.is_kept.load(Relaxed)
    }

    /// Discards the content: removes the note now, and the file when this is dropped.
    pub fn give_up(&self) {
        self.is_kept.store(false, Relaxed);
        if let Noted::There(note) = std::mem::replace(&mut *self.noted(), Noted::Never) {
            note.remove();
        }
    }

    /// The next range of the file that has bytes, from `at` on and up to `end`; a hole may come before it.
    #[cfg(target_os = "linux")]
    pub fn next_bytes(&self, at: u64, end: u64) -> Result<Range<u64>, Fault> {
        use rustix::fs::{SeekFrom, seek};
        use rustix::io::Errno;
        let start = match seek(&self.file, SeekFrom::Data(at)) {
            Ok(start) => start.min(end),
            Err(Errno::NXIO) => return Ok(end..end),
            // The file system does not report holes.
            Err(_) => return Ok(at..end),
        };
        let stop = seek(&self.file, SeekFrom::Hole(start)).map_or(end, |stop| stop.min(end));
        Ok(start..stop)
    }

    #[cfg(not(target_os = "linux"))]
    pub fn next_bytes(&self, at: u64, end: u64) -> Result<Range<u64>, Fault> {
        Ok(at..end)
    }

    /// Called when the file has its final name: frees it, and asks nothing of the disk.
    pub fn release(&self) {
        self.has_left.store(true, Relaxed);
        // On a file system without locks there is nothing to unlock.
        let _ = self.file.unlock();
    }

    /// Called when nobody waits for the file any more: removes its name at once, unless it is kept. Work that was
    /// handed off continues in a file without a name. Has no effect when called again, nor in a forked child.
    pub fn leave(&self) {
        if self.is_inherited() || self.has_left.swap(true, Relaxed) {
            return;
        }
        if !self.is_kept() {
            if is_named(&self.file, &self.path) {
                temp::remove(&self.path);
            }
            if let Noted::There(note) = std::mem::replace(&mut *self.noted(), Noted::Never) {
                note.remove();
            }
        }
        self.parents.remove_empty(self.target.directory());
        // Work that was handed off may hold the file for a while, but changes nothing that is noted: the next
        // download need not wait for it. On a file system without locks there is nothing to unlock.
        let _ = self.file.unlock();
        if let Noted::There(note) = &*self.noted() {
            note.unlock();
        }
    }

    /// Gives the file its final name, unless nobody waits for it any more. The content is `size` bytes.
    pub async fn publish(self: Arc<Self>, size: u64, how: Publish) -> Result<Object, Fault> {
        let waiter = Waiter::default();
        let waiting = waiter.waiting();
        let published = blocking(move || self.publish_now(size, how, &waiting)).await;
        waiter.done();
        published
    }

    fn publish_now(&self, size: u64, how: Publish, waiting: &WaitedWork) -> Result<Object, Fault> {
        if how.sync {
            // Sync first, because it takes long: up to the rename, the download can still be cut.
            self.file.sync_data().map_err(|error| self.fault(error))?;
        }
        waiting.check()?;
        self.file.set_len(size).map_err(|error| self.fault(error))?;
        // The rename goes by name, so it must not publish another file that has come there.
        if !is_named(&self.file, &self.path) {
            self.give_up();
            return Err(Fault::new(FaultKind::Source, "the file that was written was removed meanwhile"));
        }
        let published = temp::publish(&self.parents, &self.file, &self.path, &self.target, how, waiting);
        let is_there = match &published {
            Ok(_) => true,
            Err(fault) => fault.kind == FaultKind::Unsynced,
        };
        if is_there {
            // The temporary name is gone.
            self.is_kept.store(true, Relaxed);
            if let Noted::There(note) = std::mem::replace(&mut *self.noted(), Noted::Never) {
                note.remove();
            }
        } else if matches!(&published, Err(fault) if fault.kind == FaultKind::Exists) {
            self.give_up();
        }
        published
    }

    fn fault(&self, error: io::Error) -> Fault {
        at_file(error, &self.target)
    }
}

/// The target for `path`, and whether there is a file already. Refuses links below the directory `without_links_below`.
fn target_at(path: &Path, without_links_below: Option<&Path>) -> Result<(Target, bool), Fault> {
    let nameless = || invalid("it names no file");
    let name = path.file_name().and_then(|name| name.to_str()).ok_or_else(nameless)?;
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let root = std::path::absolute(directory.unwrap_or(Path::new("."))).map_err(|_| nameless())?;
    let target = Target::to_write(&root, name)?.relative(path.is_relative());
    let target = match without_links_below {
        Some(above) => {
            let key = path.strip_prefix(above).ok().and_then(Path::to_str);
            let outside = || invalid(format!("it is not below {}", above.display()));
            target.without_links(above, key.ok_or_else(outside)?)
        }
        None => target,
    };
    target.find_to_make().map(|(target, found)| (target, found.is_some()))
}

/// The fault for an error at the file. A failing disk is not a store: it is not retried.
fn at_file(error: io::Error, target: &Target) -> Fault {
    let mut fault = fault(error, target.directory());
    if fault.kind.is_retriable() {
        fault.kind = FaultKind::Source;
    }
    fault
}

impl Drop for Arrival {
    fn drop(&mut self) {
        self.leave();
    }
}

/// Says why a file is not used, with its name.
fn refused(path: &Path, error: &io::Error) -> String {
    match UntrustedFile::of(error) {
        Some(refused) => refused.to_string(),
        None => format!("{}: {error}", path.display()),
    }
}

/// Whether another holds the file's lock; if not, this takes it. On a file system without locks, nobody is known to
/// use the file.
fn is_locked(file: &File) -> bool {
    matches!(file.try_lock(), Err(std::fs::TryLockError::WouldBlock))
}

/// An unpredictable token.
fn new_token() -> String {
    use std::hash::{BuildHasher, RandomState};
    // The hasher's keys are random numbers from the system.
    format!("{:016x}", RandomState::new().hash_one(fastrand::u64(..)))
}

/// Whether `path` is this file's name, and not a link to it.
fn is_named(file: &File, path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let place = |metadata: std::fs::Metadata| (metadata.dev(), metadata.ino());
    match (file.metadata(), path.symlink_metadata()) {
        (Ok(ours), Ok(there)) => place(ours) == place(there),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(path: &Path) -> NotedTarget {
        let (path, mark, owners) = (path.to_owned(), "0".repeat(16), TrustedOwners::default());
        let parents = Arc::default();
        NotedTarget::at(Destination { path, mark, owners, without_links_below: None, parents }).unwrap().0
    }

    fn names(directory: &Path) -> Vec<String> {
        let entries = std::fs::read_dir(directory).unwrap();
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }

    /// A download that is dropped at this moment has found its file to be kept, and has not unlocked it yet.
    #[test]
    fn a_file_of_another_object_is_removed_although_a_drop_leaves_it() {
        let directory = tempfile::tempdir().unwrap();
        let arrival = at(&directory.path().join("out")).begin().unwrap();
        assert!(arrival.note(b"head", 100, &[(50, vec![1; 24])]));
        arrival.has_left.store(true, Relaxed);
        let anew = arrival.begin_again().unwrap();
        assert!(!arrival.path.exists(), "{:?}", names(directory.path()));
        drop((arrival, anew));
        assert_eq!(names(directory.path()), [""; 0]);
    }

    #[test]
    fn the_note_of_a_file_that_was_left_belongs_to_whoever_has_locked_it() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("out");
        let arrival = at(&path).begin().unwrap();
        assert!(arrival.note(b"head", 100, &[(50, vec![1; 24])]));
        arrival.leave();
        let next = at(&path);
        let Noted::There(note) = &next.note else { panic!("{next:?}") };
        // As at the end of work that was handed off.
        arrival.give_up();
        assert!(note.path().exists());
    }

    #[test]
    fn many_files_at_once_may_need_the_same_new_directory() {
        let directory = tempfile::tempdir().unwrap();
        for round in 0..100 {
            let new = directory.path().join(format!("{round}/new"));
            let parents = Arc::<Parents>::default();
            let begin = |name: &str| {
                Arrival::begin_among(&new.join(name), &"0".repeat(16), parents.clone()).map(drop)
            };
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
