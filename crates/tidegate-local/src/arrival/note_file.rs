//! The file of a note, by which a download that was cut is found again. The holder of its lock owns the download.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use super::{TRIES, is_locked, is_named, refused};
use crate::temp;
use tidegate_core::types::trusted_file;
use tidegate_core::types::trusted_file::{Access, TrustedOwners};

/// The place in the note of the partial file's token (`download/into_file/note.rs` of `tidegate` has the format).
const TOKEN: std::ops::Range<u64> = 8..24;

/// A note, locked for as long as this lives.
#[derive(Debug)]
pub(super) struct NoteFile {
    file: File,
    path: PathBuf,
    /// Whether the note has no useful content.
    is_blank: bool,
}

/// The result of looking for a note.
#[derive(Debug)]
pub(super) enum NoteSearch {
    Nothing,
    /// Another download holds the note.
    Busy,
    Note(NoteFile),
    /// The file may belong to another user, and is left alone.
    Refused(String),
}

impl NoteFile {
    pub(super) fn find(path: &Path, owners: &TrustedOwners) -> NoteSearch {
        for _ in 0..TRIES {
            match trusted_file::open(path, Access::ReadWrite, owners) {
                Ok(file) if is_locked(&file) => return NoteSearch::Busy,
                Ok(file) if is_named(&file, path) => {
                    return NoteSearch::Note(Self { file, path: path.to_owned(), is_blank: false });
                }
                // Removed between opening and checking it.
                Ok(_) => {}
                Err(error)
                    if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) =>
                {
                    return NoteSearch::Nothing;
                }
                Err(error) => return NoteSearch::Refused(refused(path, &error)),
            }
        }
        NoteSearch::Refused(format!("{} is never the file that was opened by this name", path.display()))
    }

    /// Makes a new note; `None` if another download came first.
    pub(super) fn create(path: &Path) -> io::Result<Option<Self>> {
        let file = match trusted_file::create_new(path, Access::ReadWrite) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Ok(None),
            Err(error) => return Err(error),
        };
        let is_ours = !is_locked(&file) && is_named(&file, path);
        Ok(is_ours.then(|| Self { file, path: path.to_owned(), is_blank: true }))
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Reads the note, at most `most + 1` bytes, so that the caller notices a note that is too long. `None` if it
    /// is empty.
    pub(super) fn read(&self, most: u64) -> io::Result<Option<Vec<u8>>> {
        let length = self.file.metadata()?.len().min(most + 1);
        if length == 0 {
            return Ok(None);
        }
        let mut bytes = vec![0; length as usize];
        match self.file.read_exact_at(&mut bytes, 0) {
            Ok(()) => Ok(Some(bytes)),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The token in the note, whatever else the note contains.
    pub(super) fn token(&self) -> Option<String> {
        let mut token = [0; (TOKEN.end - TOKEN.start) as usize];
        self.file.read_exact_at(&mut token, TOKEN.start).ok()?;
        let is_token = token.iter().all(u8::is_ascii_hexdigit);
        String::from_utf8(token.to_vec()).ok().filter(|_| is_token)
    }

    /// Writes entries at their offsets. A blank note first gets `head`, and room up to `len`.
    pub(super) fn write(&mut self, head: &[u8], len: u64, entries: &[(u64, Vec<u8>)]) -> io::Result<()> {
        if self.is_blank {
            self.file.set_len(0)?;
            self.file.write_all_at(head, 0)?;
            self.file.set_len(len)?;
            self.is_blank = false;
        }
        entries.iter().try_for_each(|(at, entry)| self.file.write_all_at(entry, *at))
    }

    /// Empties the note.
    pub(super) fn clear(&mut self) -> io::Result<()> {
        self.is_blank = true;
        self.file.set_len(0)
    }

    /// Frees the note for another download.
    pub(super) fn unlock(&self) {
        // On a file system without locks there is nothing to unlock.
        let _ = self.file.unlock();
    }

    /// Removes the note, unless it was [unlocked](Self::unlock) and another download has it now.
    pub(super) fn remove(self) {
        if !is_locked(&self.file) && is_named(&self.file, &self.path) {
            temp::remove(&self.path); // while it is locked, so that nobody finds it
        }
    }
}
