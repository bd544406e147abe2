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
//! A file is written beside its place and renamed into it: it is whole or absent. Nothing is
//! synced: it outlives the process, not the machine.

use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

use s3s::crypto::{Checksum as _, Sha256};
use serde::{Deserialize, Serialize};

use super::session::{Session, SessionPiece};
use super::{Bucket, Object, Part, Upload};
use crate::Error;
use crate::storage::Piece;

/// The directory of one server's storage.
#[derive(Debug)]
pub(crate) struct Ledger {
    root: PathBuf,
    /// Held for its lock.
    _lock: File,
}

/// A data file as a record names it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct FileName {
    pub(super) name: String,
    pub(super) length: u64,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Record<T> {
    pub(super) record: T,
    pub(super) files: Vec<FileName>,
}

impl Ledger {
    /// Takes the directory, making it where it is not there.
    pub(crate) fn open(root: &Path) -> Result<Self, Error> {
        for dir in [root.join("data"), root.join("buckets"), root.join("sessions")] {
            fs::create_dir_all(&dir).map_err(Error::storage(dir))?;
        }
        let path = root.join("lock");
        let lock = File::create(&path).map_err(Error::storage(&path))?;
        lock.try_lock().map_err(|error| {
            let source = match error {
                TryLockError::WouldBlock => {
                    io::Error::new(io::ErrorKind::ResourceBusy, "another server is running on this directory")
                }
                TryLockError::Error(source) => source,
            };
            Error::storage(&path)(source)
        })?;
        Ok(Self { root: root.to_owned(), _lock: lock })
    }

    pub(super) fn data(&self) -> PathBuf {
        self.root.join("data")
    }

    pub(super) fn buckets(&self) -> PathBuf {
        self.root.join("buckets")
    }

    pub(super) fn sessions(&self) -> PathBuf {
        self.root.join("sessions")
    }

    pub(super) fn save_bucket(&self, name: &str, bucket: &Bucket) -> Result<(), Error> {
        let dir = self.buckets().join(name);
        for dir in [dir.join("objects"), dir.join("uploads")] {
            fs::create_dir_all(&dir).map_err(Error::storage(dir))?;
        }
        write(&dir.join("bucket.json"), bucket)
    }

    pub(super) fn remove_bucket(&self, name: &str) -> Result<(), Error> {
        let dir = self.buckets().join(name);
        // First what makes it a bucket, so that a half-removed one is none.
        remove(&dir.join("bucket.json"))?;
        fs::remove_dir_all(&dir).map_err(Error::storage(dir))
    }

    pub(super) fn save_object(&self, bucket: &str, object: &Object) -> Result<(), Error> {
        let record = Record { files: object.pieces.iter().filter_map(file_of).collect(), record: object };
        write(&self.object_path(bucket, &object.key), &record)
    }

    pub(super) fn remove_object(&self, bucket: &str, key: &str) -> Result<(), Error> {
        remove(&self.object_path(bucket, key))
    }

    pub(super) fn save_upload(&self, bucket: &str, upload: &Upload) -> Result<(), Error> {
        let dir = self.upload_dir(bucket, &upload.id);
        fs::create_dir_all(&dir).map_err(Error::storage(&dir))?;
        write(&dir.join("upload.json"), upload)
    }

    pub(super) fn save_part(&self, bucket: &str, id: &str, part: &Part) -> Result<(), Error> {
        let record = Record { files: file_of(&part.piece).into_iter().collect(), record: part };
        let name = format!("part-{:05}.json", part.number);
        write(&self.upload_dir(bucket, id).join(name), &record)
    }

    pub(super) fn remove_upload(&self, bucket: &str, id: &str) -> Result<(), Error> {
        let dir = self.upload_dir(bucket, id);
        remove(&dir.join("upload.json"))?;
        fs::remove_dir_all(&dir).map_err(Error::storage(dir))
    }

    pub(super) fn save_session(&self, session: &Session) -> Result<(), Error> {
        let dir = self.sessions().join(&session.id);
        fs::create_dir_all(&dir).map_err(Error::storage(&dir))?;
        write(&dir.join("session.json"), session)
    }

    pub(super) fn save_session_piece(&self, id: &str, piece: &SessionPiece) -> Result<(), Error> {
        let record = Record { files: file_of(&piece.piece).into_iter().collect(), record: piece };
        write(&self.sessions().join(id).join(format!("piece-{:010}.json", piece.number)), &record)
    }

    /// Writes down what became of a session, which has no pieces from then on.
    pub(super) fn end_session(&self, session: &Session) -> Result<(), Error> {
        self.save_session(session)?;
        let dir = self.sessions().join(&session.id);
        for entry in fs::read_dir(&dir).map_err(Error::storage(&dir))? {
            let path = entry.map_err(Error::storage(&dir))?.path();
            if path.file_name().is_some_and(|name| name != "session.json") {
                remove(&path)?;
            }
        }
        Ok(())
    }

    pub(super) fn remove_session(&self, id: &str) -> Result<(), Error> {
        let dir = self.sessions().join(id);
        remove(&dir.join("session.json"))?;
        fs::remove_dir_all(&dir).map_err(Error::storage(dir))
    }

    fn object_path(&self, bucket: &str, key: &str) -> PathBuf {
        let dir = self.buckets().join(bucket).join("objects");
        dir.join(file_name(key))
    }

    fn upload_dir(&self, bucket: &str, id: &str) -> PathBuf {
        self.buckets().join(bucket).join("uploads").join(id)
    }
}

fn file_of(piece: &Piece) -> Option<FileName> {
    match piece {
        Piece::File(file) => Some(FileName { name: file.name().to_owned(), length: file.length() }),
        Piece::Memory(..) | Piece::Void(_) => None,
    }
}

/// A file name for any key: its letters and digits, as far as they help a reader of the
/// directory, and a hash of all of it, which alone tells keys apart.
pub(super) fn file_name(key: &str) -> String {
    let readable: String =
        key.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).take(64).collect();
    let hash = Sha256::checksum(key.as_bytes());
    let hash: String = hash.as_ref()[..16].iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{readable}-{hash}.json")
}

fn write(path: &Path, value: &impl Serialize) -> Result<(), Error> {
    let json = serde_json::to_vec(value)
        .map_err(|error| Error::Metadata { path: path.to_owned(), reason: error.to_string() })?;
    let beside = path.with_extension("tmp");
    fs::write(&beside, json).map_err(Error::storage(&beside))?;
    fs::rename(&beside, path).map_err(Error::storage(path))
}

fn remove(path: &Path) -> Result<(), Error> {
    fs::remove_file(path).map_err(Error::storage(path))
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
