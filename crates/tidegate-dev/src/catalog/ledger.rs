//! The catalog on disk: one small JSON file a bucket, object, session and part.
//!
//! ```text
//! lock                                     held while a server runs here
//! data/<number>                            the bytes of one request
//! buckets/<bucket>/bucket.json
//! buckets/<bucket>/objects/<name>.json     the name is made from the key, see `file_name`
//! buckets/<bucket>/uploads/<id>/upload.json
//! buckets/<bucket>/uploads/<id>/part-00001.json
//! sessions/<id>/session.json               a resumable upload of Google's
//! sessions/<id>/piece-0000000000.json
//! ```
//!
//! Each file is written under a temporary name and renamed: it is whole or absent. Nothing is synced: the
//! records survive the end of the process, not a crash of the machine.

use std::fs::{File, TryLockError};
use std::io;
use std::path::Path;
use std::sync::Arc;

use s3s::crypto::{Checksum as _, Sha256};
use serde::{Deserialize, Serialize};

use super::session::{ResumableSession, SessionPiece};
use super::{Bucket, CatalogObject, CatalogPart, CatalogUpload};
use crate::ServerError;
use crate::folder::Folder;
use crate::storage::StoredPiece;

/// The directory of one server's storage.
#[derive(Debug)]
pub(crate) struct Ledger {
    data: Arc<Folder>,
    buckets: Folder,
    sessions: Folder,
    /// Kept open to hold its lock.
    _lock: File,
}

/// A data file, as named in a record.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct FileName {
    pub(super) name: String,
    pub(super) length: u64,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct LedgerRecord<T> {
    pub(super) record: T,
    pub(super) files: Vec<FileName>,
}

impl Ledger {
    /// Opens and locks the directory, creating it if missing.
    pub(crate) fn open(path: &Path) -> Result<Self, ServerError> {
        let root = Folder::root(path)?;
        let lock = root.create("lock")?;
        lock.try_lock().map_err(|error| {
            let source = match error {
                TryLockError::WouldBlock => {
                    io::Error::new(io::ErrorKind::ResourceBusy, "another server is running on this directory")
                }
                TryLockError::Error(source) => source,
            };
            ServerError::storage(root.path_of("lock"))(source)
        })?;
        let (data, buckets, sessions) = (root.make("data")?, root.make("buckets")?, root.make("sessions")?);
        Ok(Self { data: Arc::new(data), buckets, sessions, _lock: lock })
    }

    pub(super) fn data(&self) -> &Arc<Folder> {
        &self.data
    }

    pub(super) fn buckets(&self) -> &Folder {
        &self.buckets
    }

    pub(super) fn sessions(&self) -> &Folder {
        &self.sessions
    }

    pub(super) fn save_bucket(&self, name: &str, bucket: &Bucket) -> Result<(), ServerError> {
        let folder = self.buckets.make(name)?;
        folder.make("objects")?;
        folder.make("uploads")?;
        write(&folder, BUCKET, bucket)
    }

    pub(super) fn remove_bucket(&self, name: &str) -> Result<(), ServerError> {
        // Remove the record first: without it the folder is no bucket, so that a half-removed bucket is not
        // listed.
        self.buckets.open(name)?.remove(BUCKET)?;
        self.clear_bucket(name)
    }

    /// Removes the directory of a bucket without a record, and everything that a server created in it. Other
    /// files stay.
    pub(super) fn clear_bucket(&self, name: &str) -> Result<(), ServerError> {
        let folder = self.buckets.open(name)?;
        for entry in folder.entries()? {
            match entry.name.as_str() {
                "uploads" if entry.is_folder => {
                    let uploads = folder.open("uploads")?;
                    for upload in uploads.entries()?.iter().filter(|entry| entry.is_folder) {
                        uploads.remove_folder(&upload.name, is_upload_file)?;
                    }
                    folder.remove_empty("uploads")?;
                }
                "objects" if entry.is_folder => folder.remove_folder("objects", is_left_unwritten)?,
                _ => {}
            }
        }
        self.buckets.remove_folder(name, is_left_unwritten)
    }

    pub(super) fn save_object(&self, bucket: &str, object: &CatalogObject) -> Result<(), ServerError> {
        let record =
            LedgerRecord { files: object.pieces.iter().filter_map(file_of).collect(), record: object };
        write(&self.objects(bucket)?, &file_name(&object.key), &record)
    }

    pub(super) fn remove_object(&self, bucket: &str, key: &str) -> Result<(), ServerError> {
        self.objects(bucket)?.remove(&file_name(key))
    }

    pub(super) fn save_upload(&self, bucket: &str, upload: &CatalogUpload) -> Result<(), ServerError> {
        write(&self.uploads(bucket)?.make(&upload.id)?, UPLOAD, upload)
    }

    pub(super) fn save_part(&self, bucket: &str, id: &str, part: &CatalogPart) -> Result<(), ServerError> {
        let record = LedgerRecord { files: file_of(&part.piece).into_iter().collect(), record: part };
        write(&self.uploads(bucket)?.open(id)?, &format!("part-{:05}.json", part.number), &record)
    }

    pub(super) fn remove_upload(&self, bucket: &str, id: &str) -> Result<(), ServerError> {
        let uploads = self.uploads(bucket)?;
        uploads.open(id)?.remove(UPLOAD)?;
        uploads.remove_folder(id, is_upload_file)
    }

    pub(super) fn save_session(&self, session: &ResumableSession) -> Result<(), ServerError> {
        write(&self.sessions.make(&session.id)?, SESSION, session)
    }

    pub(super) fn save_session_piece(&self, id: &str, piece: &SessionPiece) -> Result<(), ServerError> {
        let record = LedgerRecord { files: file_of(&piece.piece).into_iter().collect(), record: piece };
        write(&self.sessions.open(id)?, &format!("piece-{:010}.json", piece.number), &record)
    }

    /// Records the end of a session and removes its pieces' records.
    pub(super) fn end_session(&self, session: &ResumableSession) -> Result<(), ServerError> {
        self.save_session(session)?;
        let folder = self.sessions.open(&session.id)?;
        for entry in folder.entries()? {
            if entry.name != SESSION && is_session_file(&entry.name) {
                folder.remove(&entry.name)?;
            }
        }
        Ok(())
    }

    pub(super) fn remove_session(&self, id: &str) -> Result<(), ServerError> {
        self.sessions.open(id)?.remove(SESSION)?;
        self.sessions.remove_folder(id, is_session_file)
    }

    fn objects(&self, bucket: &str) -> Result<Folder, ServerError> {
        self.buckets.open(bucket)?.open("objects")
    }

    fn uploads(&self, bucket: &str) -> Result<Folder, ServerError> {
        self.buckets.open(bucket)?.open("uploads")
    }
}

/// The records that mark a directory as a bucket, an upload or a session.
pub(super) const BUCKET: &str = "bucket.json";
pub(super) const UPLOAD: &str = "upload.json";
pub(super) const SESSION: &str = "session.json";

/// Whether this file was left by a server that was killed before it renamed the file.
pub(super) fn is_left_unwritten(name: &str) -> bool {
    name.ends_with(".tmp")
}

/// Whether a server created this file in the directory of an upload.
pub(super) fn is_upload_file(name: &str) -> bool {
    name == UPLOAD || is_left_unwritten(name) || (name.starts_with("part-") && name.ends_with(".json"))
}

/// Whether a server created this file in the directory of a session.
pub(super) fn is_session_file(name: &str) -> bool {
    name == SESSION || is_left_unwritten(name) || (name.starts_with("piece-") && name.ends_with(".json"))
}

fn file_of(piece: &StoredPiece) -> Option<FileName> {
    match piece {
        StoredPiece::File(file) => Some(FileName { name: file.name().to_owned(), length: file.length() }),
        StoredPiece::Memory(..) | StoredPiece::Void(_) => None,
    }
}

/// A file name for any key: its letters and digits, for human readers of the directory, and a hash of the whole
/// key, which alone distinguishes keys.
pub(super) fn file_name(key: &str) -> String {
    let readable: String =
        key.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).take(64).collect();
    let hash = Sha256::checksum(key.as_bytes());
    let hash: String = hash.as_ref()[..16].iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{readable}-{hash}.json")
}

fn write(folder: &Folder, name: &str, value: &impl Serialize) -> Result<(), ServerError> {
    let json = serde_json::to_vec(value)
        .map_err(|error| ServerError::Metadata { path: folder.path_of(name), reason: error.to_string() })?;
    folder.replace(name, &json)
}

#[cfg(test)]
mod tests {
    use super::file_name;

    #[test]
    fn keys_have_names_of_their_own_that_lead_nowhere() {
        let long = "x".repeat(1024);
        let keys = ["a", "a/", "A", "a/b", "a_b", "../../up", ".", "", "\0", &long];
        let names: Vec<String> = keys.iter().map(|key| file_name(key)).collect();
        for (index, name) in names.iter().enumerate() {
            assert!(name.len() < 128 && !name.contains('/') && !name.starts_with('.'));
            assert!(!names[..index].contains(name), "{name}");
        }
    }
}
