//! Loads the catalog from disk at the start, and removes the leftovers of a killed server.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use serde::de::DeserializeOwned;

use super::ledger::{self, BUCKET, FileName, Ledger, LedgerRecord, SESSION, UPLOAD};
use super::session::{ResumableSession, SessionPiece, SessionState};
use super::{Bucket, Catalog, CatalogObject, CatalogPart, CatalogUpload, ObjectVersion};
use crate::ServerError;
use crate::folder::Folder;
use crate::storage::disk::{DataDir, DataFile};
use crate::storage::{StoredPiece, Vault};

/// Loads the catalog and the data directory of the storage at `root`.
pub(crate) fn load(root: &Path) -> Result<(Catalog, Vault), ServerError> {
    let ledger = Ledger::open(root)?;
    let mut loader = Loader { data: Arc::clone(ledger.data()), referred: HashMap::new() };
    let mut catalog = Catalog::default();
    let buckets = ledger.buckets();
    for name in folders(buckets)? {
        if !s3s::path::check_bucket_name(&name) {
            let path = buckets.path_of(&name);
            tracing::warn!(path = %path.display(), "left alone: a bucket cannot have this name");
            continue;
        }
        let folder = buckets.open(&name)?;
        if !folder.has_file(BUCKET) {
            // A server was killed while it created or removed this bucket.
            ledger.clear_bucket(&name)?;
            continue;
        }
        let mut bucket: Bucket = read(&folder, BUCKET)?;
        let objects = folder.open("objects")?;
        for file in json_files(&objects)? {
            let object = loader.object(&objects, &file)?;
            catalog.generation = catalog.generation.max(object.version.generation);
            bucket.objects.insert(object.key.clone(), Arc::new(object));
        }
        let uploads = folder.open("uploads")?;
        for id in folders(&uploads)? {
            if let Some(upload) = loader.upload(&uploads, &id)? {
                let name = (upload.key.clone(), upload.id.clone());
                bucket.uploads.insert(name, upload);
            }
        }
        catalog.buckets.insert(name, bucket);
    }
    for id in folders(ledger.sessions())? {
        if let Some(session) = loader.session(ledger.sessions(), &id)? {
            catalog.sessions.insert(session.id.clone(), session);
        }
    }
    let next = loader.clear_data()?;
    let dir = DataDir::new(Arc::clone(ledger.data()), next);
    catalog.ledger = Some(ledger);
    Ok((catalog, Vault::Disk(Arc::new(dir))))
}

struct Loader {
    data: Arc<Folder>,
    /// Data files by name, and whether an object uses them.
    referred: HashMap<String, bool>,
}

impl Loader {
    fn object(&mut self, folder: &Folder, file: &str) -> Result<CatalogObject, ServerError> {
        let LedgerRecord { mut record, files } = read::<LedgerRecord<CatalogObject>>(folder, file)?;
        for file in files {
            self.referred.insert(file.name.clone(), true);
            let file = DataFile::existing(Arc::clone(&self.data), file.name, file.length);
            record.pieces.push(StoredPiece::File(Arc::new(file)));
        }
        if record.version.generation == 0 {
            // The record is older than generations.
            record.version =
                ObjectVersion { generation: record.modified.micros(), metageneration: 1, updated: None };
        }
        Ok(record)
    }

    /// Loads the session in the directory `id`, unless its parts belong to an object now or its removal had
    /// begun.
    fn upload(&mut self, uploads: &Folder, id: &str) -> Result<Option<CatalogUpload>, ServerError> {
        let folder = uploads.open(id)?;
        if !folder.has_file(UPLOAD) {
            uploads.remove_folder(id, ledger::is_upload_file)?;
            return Ok(None);
        }
        let mut upload: CatalogUpload = read(&folder, UPLOAD)?;
        agree(&folder, id, &upload.id)?;
        for file in json_files(&folder)? {
            if !file.starts_with("part-") {
                continue;
            }
            let LedgerRecord { mut record, files } = read::<LedgerRecord<CatalogPart>>(&folder, &file)?;
            if !self.is_open(files, &mut record.piece) {
                uploads.remove_folder(id, ledger::is_upload_file)?;
                return Ok(None);
            }
            upload.parts.insert(record.number, record);
        }
        Ok(Some(upload))
    }

    /// Whether an unfinished upload is still open: none of its data files belong to an object. Sets `piece` to
    /// the file.
    fn is_open(&mut self, files: Vec<FileName>, piece: &mut StoredPiece) -> bool {
        for file in files {
            if self.referred.get(&file.name) == Some(&true) {
                return false;
            }
            self.referred.insert(file.name.clone(), false);
            *piece = StoredPiece::File(Arc::new(DataFile::existing(
                Arc::clone(&self.data),
                file.name,
                file.length,
            )));
        }
        true
    }

    /// Loads the session in the directory `id`, unless its removal had begun. If its pieces belong to an
    /// object, the session was finished, although the server was killed before it recorded that.
    fn session(&mut self, sessions: &Folder, id: &str) -> Result<Option<ResumableSession>, ServerError> {
        let folder = sessions.open(id)?;
        if !folder.has_file(SESSION) {
            sessions.remove_folder(id, ledger::is_session_file)?;
            return Ok(None);
        }
        let mut session: ResumableSession = read(&folder, SESSION)?;
        agree(&folder, id, &session.id)?;
        for file in json_files(&folder)? {
            if !file.starts_with("piece-") {
                continue;
            }
            if !matches!(session.state, SessionState::Open) {
                folder.remove(&file)?;
                continue;
            }
            let LedgerRecord { mut record, files } = read::<LedgerRecord<SessionPiece>>(&folder, &file)?;
            if !self.is_open(files, &mut record.piece) {
                sessions.remove_folder(id, ledger::is_session_file)?;
                return Ok(None);
            }
            session.pieces.push(record);
        }
        session.pieces.sort_by_key(|piece| piece.number);
        Ok(Some(session))
    }

    /// Removes data files that no record names; returns a number above those of all remaining data files.
    fn clear_data(&self) -> Result<u64, ServerError> {
        let mut next = 0;
        for entry in self.data.entries()? {
            let Some(number) = DataDir::number_of(&entry.name).filter(|_| entry.is_file) else { continue };
            if self.referred.contains_key(&entry.name) {
                next = next.max(number.saturating_add(1));
            } else {
                self.data.remove(&entry.name)?;
            }
        }
        Ok(next)
    }
}

/// Checks that a record's name matches its directory's name, by which it is looked up.
fn agree(folder: &Folder, name: &str, recorded: &str) -> Result<(), ServerError> {
    if name == recorded {
        return Ok(());
    }
    Err(ServerError::Metadata {
        path: folder.path_of(""),
        reason: format!("its record is that of {recorded:?}"),
    })
}

fn folders(folder: &Folder) -> Result<Vec<String>, ServerError> {
    let entries = folder.entries()?.into_iter().filter(|entry| entry.is_folder);
    Ok(entries.map(|entry| entry.name).collect())
}

/// Lists the records in a directory; removes the temporary files of a killed server.
fn json_files(folder: &Folder) -> Result<Vec<String>, ServerError> {
    let mut files = Vec::new();
    for entry in folder.entries()?.into_iter().filter(|entry| entry.is_file) {
        if ledger::is_left_unwritten(&entry.name) {
            folder.remove(&entry.name)?;
        } else if entry.name.ends_with(".json") {
            files.push(entry.name);
        }
    }
    Ok(files)
}

fn read<T: DeserializeOwned>(folder: &Folder, name: &str) -> Result<T, ServerError> {
    let json = folder.read(name)?;
    serde_json::from_slice(&json)
        .map_err(|error| ServerError::Metadata { path: folder.path_of(name), reason: error.to_string() })
}
