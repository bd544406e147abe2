//! Reads the catalog back at the start, and clears away what a killed server left.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::de::DeserializeOwned;

use super::ledger::{FileName, Ledger, Record};
use super::session::{Session, SessionPiece, State};
use super::{Bucket, Catalog, Object, Part, Upload, Version};
use crate::Error;
use crate::storage::disk::{DataDir, DataFile};
use crate::storage::{Piece, Vault};

/// The catalog and the data directory of the storage at `root`.
pub(crate) fn load(root: &Path) -> Result<(Catalog, Vault), Error> {
    let ledger = Ledger::open(root)?;
    let mut loader = Loader { data: ledger.data(), referred: HashMap::new() };
    let mut catalog = Catalog::default();
    for dir in entries(&ledger.buckets())? {
        let path = dir.join("bucket.json");
        if !path.exists() {
            // A server was killed while it removed this bucket.
            fs::remove_dir_all(&dir).map_err(Error::storage(dir))?;
            continue;
        }
        let mut bucket: Bucket = read(&path)?;
        for path in json_files(&dir.join("objects"))? {
            let object = loader.object(&path)?;
            catalog.generation = catalog.generation.max(object.version.generation);
            bucket.objects.insert(object.key.clone(), Arc::new(object));
        }
        for dir in entries(&dir.join("uploads"))? {
            if let Some(upload) = loader.upload(&dir)? {
                let name = (upload.key.clone(), upload.id.clone());
                bucket.uploads.insert(name, upload);
            }
        }
        catalog.buckets.insert(name_of(&dir), bucket);
    }
    for dir in entries(&ledger.sessions())? {
        if let Some(session) = loader.session(&dir)? {
            catalog.sessions.insert(session.id.clone(), session);
        }
    }
    let next = loader.clear_data()?;
    catalog.ledger = Some(ledger);
    let dir = DataDir::new(root.join("data"), next);
    Ok((catalog, Vault::Disk(Arc::new(dir))))
}

struct Loader {
    data: PathBuf,
    /// Data files by name, and whether an object is made of them.
    referred: HashMap<String, bool>,
}

impl Loader {
    fn object(&mut self, path: &Path) -> Result<Object, Error> {
        let Record { mut record, files } = read::<Record<Object>>(path)?;
        for file in files {
            self.referred.insert(file.name.clone(), true);
            let file = DataFile::existing(&self.data, file.name, file.length);
            record.pieces.push(Piece::File(Arc::new(file)));
        }
        if record.version.generation == 0 {
            // It is from before generations were written down.
            record.version =
                Version { generation: record.modified.micros(), metageneration: 1, updated: None };
        }
        Ok(record)
    }

    /// The session in `dir`, unless its parts have become an object's or it was being removed.
    fn upload(&mut self, dir: &Path) -> Result<Option<Upload>, Error> {
        let path = dir.join("upload.json");
        if !path.exists() {
            fs::remove_dir_all(dir).map_err(Error::storage(dir))?;
            return Ok(None);
        }
        let mut upload: Upload = read(&path)?;
        for path in json_files(dir)? {
            if !name_of(&path).starts_with("part-") {
                continue;
            }
            let Record { mut record, files } = read::<Record<Part>>(&path)?;
            if !self.is_open(files, &mut record.piece) {
                fs::remove_dir_all(dir).map_err(Error::storage(dir))?;
                return Ok(None);
            }
            upload.parts.insert(record.number, record);
        }
        Ok(Some(upload))
    }

    /// Whether none of an unfinished upload's data has become an object's; `piece` is in it then.
    fn is_open(&mut self, files: Vec<FileName>, piece: &mut Piece) -> bool {
        for file in files {
            if self.referred.get(&file.name) == Some(&true) {
                return false;
            }
            self.referred.insert(file.name.clone(), false);
            *piece = Piece::File(Arc::new(DataFile::existing(&self.data, file.name, file.length)));
        }
        true
    }

    /// The session in `dir`, unless it was being removed. One whose pieces are an object's has been
    /// finished, though nobody came to write that down: it is gone, and the object tells of it.
    fn session(&mut self, dir: &Path) -> Result<Option<Session>, Error> {
        let path = dir.join("session.json");
        let mut session: Session = if path.exists() {
            read(&path)?
        } else {
            fs::remove_dir_all(dir).map_err(Error::storage(dir))?;
            return Ok(None);
        };
        for path in json_files(dir)? {
            if !name_of(&path).starts_with("piece-") {
                continue;
            }
            if !matches!(session.state, State::Open) {
                fs::remove_file(&path).map_err(Error::storage(path))?;
                continue;
            }
            let Record { mut record, files } = read::<Record<SessionPiece>>(&path)?;
            if !self.is_open(files, &mut record.piece) {
                fs::remove_dir_all(dir).map_err(Error::storage(dir))?;
                return Ok(None);
            }
            session.pieces.push(record);
        }
        session.pieces.sort_by_key(|piece| piece.number);
        Ok(Some(session))
    }

    /// Removes data that no record names; says the first number that is free.
    fn clear_data(&self) -> Result<u64, Error> {
        let mut next = 0;
        for path in entries(&self.data)? {
            let name = name_of(&path);
            if !self.referred.contains_key(&name) {
                fs::remove_file(&path).map_err(Error::storage(path))?;
            } else if let Ok(number) = u64::from_str_radix(&name, 16) {
                next = next.max(number + 1);
            }
        }
        Ok(next)
    }
}

fn entries(dir: &Path) -> Result<Vec<PathBuf>, Error> {
    let list = || -> io::Result<Vec<PathBuf>> {
        fs::read_dir(dir)?.map(|entry| entry.map(|entry| entry.path())).collect()
    };
    list().map_err(Error::storage(dir))
}

/// The records in `dir`; what a killed server was still writing is removed.
fn json_files(dir: &Path) -> Result<Vec<PathBuf>, Error> {
    let mut files = Vec::new();
    for path in entries(dir)? {
        if path.extension().is_some_and(|extension| extension == "tmp") {
            fs::remove_file(&path).map_err(Error::storage(path))?;
        } else {
            files.push(path);
        }
    }
    Ok(files)
}

fn read<T: DeserializeOwned>(path: &Path) -> Result<T, Error> {
    let json = fs::read(path).map_err(Error::storage(path))?;
    serde_json::from_slice(&json)
        .map_err(|error| Error::Metadata { path: path.to_owned(), reason: error.to_string() })
}

fn name_of(path: &Path) -> String {
    path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}
