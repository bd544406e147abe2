//! A file that arrives in pieces, out of order, and may be resumed after it was cut.
//!
//! Directories may be shared with users who would have a download write to their files, or publish them. So each file has
//! a name that nobody can foresee, and is made with `O_EXCL`. What an earlier download has left is found by its note,
//! whose name anyone can work out: the note, and the file that it names, are used only where they can be nobody else's
//! ([`trusted_file`]); otherwise they are left alone, and the download begins with a file of its own.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use rustix::fs::FallocateFlags;

use super::fault::{blocking, fault, invalid};
use super::target::{self, Target};
use super::temp::{Publish, Trace};
use super::waiting::{Waiter, Waiting};
use super::write::write_all_at;
use super::{Parents, temp};
use crate::backend::{Fault, FaultKind};
use crate::types::object::Object;
use crate::types::trusted_file::{self, Access, TrustedOwners, UntrustedFile};

mod note_file;
mod queue;
mod small;

use note_file::{Found, NoteFile};
use queue::Queue;

/// Of all downloads of this process: the last of those that fail takes away a directory that the first has made.
static PARENTS: LazyLock<Arc<Parents>> = LazyLock::new(Arc::default);

/// How often a file is opened that others remove meanwhile.
const TRIES: u32 = 16;

/// What a download is made at.
#[derive(Clone, Debug)]
pub(crate) struct Destination {
    /// Where the file is to be.
    pub(crate) path: PathBuf,
    /// By which the note of an earlier download is found: 16 hexadecimal digits.
    pub(crate) mark: String,
    /// Whose notes and partial files are used.
    pub(crate) owners: TrustedOwners,
}

/// Where a file is to be, and the note that an earlier download to there has left.
#[derive(Debug)]
pub(crate) struct Place {
    target: Target,
    is_there: bool,
    note: Noted,
    owners: TrustedOwners,
}

/// What is known of the file that a download is found again by.
#[derive(Debug)]
enum Noted {
    /// There is none yet; it may be made at this path.
    NotYet(PathBuf),
    /// It is there, and locked.
    There(NoteFile),
    /// Another download has it, or what is there can't be trusted, or it could not be written.
    Never,
}

impl Place {
    /// Finds the note named by the destination's mark. If the file there is not trusted, the second value says why.
    pub(crate) fn at(
        Destination { path, mark, owners }: Destination,
    ) -> Result<(Self, Option<String>), Fault> {
        let (target, is_there) = target_at(&path)?;
        let path = temp::path(&target, &temp::note_id(&mark, target.name()))?;
        let (note, refused) = match NoteFile::find(&path, &owners) {
            Found::Nothing => (Noted::NotYet(path), None),
            Found::Busy => (Noted::Never, None),
            Found::Note(note) => (Noted::There(note), None),
            Found::Refused(why) => (Noted::Never, Some(format!("{why}; a cut download begins again"))),
        };
        Ok((Self { target, is_there, note, owners }, refused))
    }

    /// What the note says, up to a byte more than `most`; `None` where there is none.
    pub(crate) fn note(&self, most: u64) -> Result<Option<Vec<u8>>, Fault> {
        match &self.note {
            Noted::There(note) => note.read(most).map_err(|error| at_file(error, &self.target)),
            Noted::NotYet(_) | Noted::Never => Ok(None),
        }
    }

    /// The file that the note names by its token, which must be `size` bytes long; else the place again, and why.
    pub(crate) fn resume(self, token: &str, size: u64) -> Result<Arrival, Box<(Self, String)>> {
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

    /// A new file under a name that nobody can foresee. The file that the note names is removed, and the note is
    /// written anew when there is something to be noted.
    pub(crate) fn begin(mut self) -> Result<Arrival, Fault> {
        self.forget();
        let (file, path) = create(&self.target)?;
        Ok(Arrival::new(file, path, self, false))
    }

    /// Removes what an earlier download has left, and empties its note.
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

    /// Removes what an earlier download has left, and its note.
    fn remove_left(mut self) {
        self.forget();
        if let Noted::There(note) = self.note {
            note.remove();
        }
    }
}

/// A file beside where it will be, locked for as long as this lives. Unless it is published or kept, its name is
/// removed when this is dropped; work on the file that was handed off may still be under way then.
#[derive(Debug)]
pub(crate) struct Arrival {
    file: File,
    path: PathBuf,
    target: Target,
    note: Mutex<Noted>,
    owners: TrustedOwners,
    is_kept: AtomicBool,
    queue: Queue,
}

/// Makes a file for the target, and the directories that it needs. Its mode lets nobody else in, whatever the umask.
fn create(target: &Target) -> Result<(File, PathBuf), Fault> {
    let parents = &*PARENTS;
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
                // A sweep leaves a locked file alone. A file system that knows no locks takes nothing from us.
                let _ = file.try_lock();
                return Ok((file, path));
            }
            // Not made yet, or removed by a neighbour that failed; whether it is there by now says nothing.
            Err(error) if error.kind() == io::ErrorKind::NotFound && tries < TRIES => {
                parents.make(target.directory()).map_err(failed)?;
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && tries < TRIES => {}
            Err(error) => return Err(failed(error)),
        }
    }
}

impl Arrival {
    fn new(file: File, path: PathBuf, place: Place, is_kept: bool) -> Self {
        let Place { target, note, owners, is_there: _ } = place;
        let (note, is_kept, queue) = (note.into(), is_kept.into(), Queue::default());
        Self { file, path, target, note, owners, is_kept, queue }
    }

    /// A new file that is to be at `path`.
    #[cfg(test)]
    pub(crate) fn begin(path: &Path, mark: &str) -> Result<Self, Fault> {
        let (path, mark, owners) = (path.to_owned(), mark.to_owned(), TrustedOwners::default());
        Place::at(Destination { path, mark, owners })?.0.begin()
    }

    /// The place, to begin again there with another object; this file is removed.
    pub(crate) fn begin_again(&self) -> Result<Self, Fault> {
        let note = std::mem::replace(&mut *self.noted(), Noted::Never);
        self.is_kept.store(false, Relaxed);
        self.leave();
        let (target, owners) = (self.target.clone(), self.owners.clone());
        Place { target, is_there: false, note, owners }.begin()
    }

    fn noted(&self) -> MutexGuard<'_, Noted> {
        self.note.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The token in its name.
    pub(crate) fn token(&self) -> String {
        let name = self.path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        temp::token(name).unwrap_or_default().to_owned()
    }

    /// Writes `entries` to the note, each where it belongs, and makes the note, which begins with `head` and is `len`
    /// bytes long, where there is none yet. With the first entry the file is worth keeping: it stays when this is
    /// dropped. False where there can be no note: the download goes on without.
    pub(crate) fn note(&self, head: &[u8], len: u64, entries: &[(u64, Vec<u8>)]) -> bool {
        let mut noted = self.noted();
        if let Noted::NotYet(path) = &*noted {
            *noted = match NoteFile::create(path) {
                Ok(Some(note)) => Noted::There(note),
                // Another download to the same place has come first.
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
        Trace { path, directory, parents: PARENTS.clone() }
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

    /// Whether the file stays when this is dropped.
    pub(crate) fn is_kept(&self) -> bool {
        self.is_kept.load(Relaxed)
    }

    /// What is in the file is of no use: it is removed when this is dropped, with its note.
    pub(crate) fn give_up(&self) {
        self.is_kept.store(false, Relaxed);
        if let Noted::There(note) = std::mem::replace(&mut *self.noted(), Noted::Never) {
            note.remove();
        }
    }

    /// Where the file has bytes from byte `at` on, up to `end`: first the hole, then the bytes behind it.
    #[cfg(target_os = "linux")]
    pub(crate) fn next_bytes(&self, at: u64, end: u64) -> Result<Range<u64>, Fault> {
        use rustix::fs::{SeekFrom, seek};
        use rustix::io::Errno;
        let start = match seek(&self.file, SeekFrom::Data(at)) {
            Ok(start) => start.min(end),
            Err(Errno::NXIO) => return Ok(end..end),
            // A file system that tells of no holes.
            Err(_) => return Ok(at..end),
        };
        let stop = seek(&self.file, SeekFrom::Hole(start)).map_or(end, |stop| stop.min(end));
        Ok(start..stop)
    }

    #[cfg(not(target_os = "linux"))]
    pub(crate) fn next_bytes(&self, at: u64, end: u64) -> Result<Range<u64>, Fault> {
        Ok(at..end)
    }

    /// Nobody waits for it any more: its name is removed at once, unless it is kept. Work that was handed off goes on
    /// in a file without a name.
    pub(crate) fn leave(&self) {
        if !self.is_kept() {
            if is_named(&self.file, &self.path) {
                temp::remove(&self.path);
            }
            if let Noted::There(note) = std::mem::replace(&mut *self.noted(), Noted::Never) {
                note.remove();
            }
        }
        PARENTS.remove_empty(self.target.directory());
        // Work that was handed off may hold the file for a while, and changes nothing that is noted: the next download
        // need not wait for it. A file system that knows no locks has none to give back.
        let _ = self.file.unlock();
        if let Noted::There(note) = &*self.noted() {
            note.unlock();
        }
    }

    /// Gives it its name; not where nobody waits for it any more. What is in it is `size` bytes.
    pub(crate) async fn publish(self: Arc<Self>, size: u64, how: Publish) -> Result<Object, Fault> {
        let waiter = Waiter::default();
        let waiting = waiter.waiting();
        let published = blocking(move || self.publish_now(size, how, &waiting)).await;
        waiter.done();
        published
    }

    fn publish_now(&self, size: u64, how: Publish, waiting: &Waiting) -> Result<Object, Fault> {
        if how.sync {
            // What takes long comes before it is too late to be cut.
            self.file.sync_data().map_err(|error| self.fault(error))?;
        }
        waiting.check()?;
        self.file.set_len(size).map_err(|error| self.fault(error))?;
        // By its name it is renamed: another's file that has come there is none of ours.
        if !is_named(&self.file, &self.path) {
            self.give_up();
            return Err(Fault::new(FaultKind::Source, "the file that was written was removed meanwhile"));
        }
        let published = temp::publish(&PARENTS, &self.file, &self.path, &self.target, how, waiting);
        let is_there = match &published {
            Ok(_) => true,
            Err(fault) => fault.kind == FaultKind::Unsynced,
        };
        if is_there {
            // The name that it had is gone.
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

impl Drop for Arrival {
    fn drop(&mut self) {
        self.leave();
    }
}

/// Why a file is not used, with its name.
fn refused(path: &Path, error: &io::Error) -> String {
    match UntrustedFile::of(error) {
        Some(refused) => refused.to_string(),
        None => format!("{}: {error}", path.display()),
    }
}

/// Whether another holds the file; if not, this one does. Where the file system knows no locks, nobody is at work on it
/// as far as can be known.
fn is_locked(file: &File) -> bool {
    matches!(file.try_lock(), Err(std::fs::TryLockError::WouldBlock))
}

/// A token that nobody can foresee.
fn new_token() -> String {
    use std::hash::{BuildHasher, RandomState};
    // Keyed by the system's own random numbers.
    format!("{:016x}", RandomState::new().hash_one(fastrand::u64(..)))
}

/// Whether `path` is this file's name, and no link to it.
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
