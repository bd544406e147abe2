//! Ends the uploads of a job by their records, and removes its work path.

use std::collections::{BTreeMap, HashSet};
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use futures::{StreamExt, TryStreamExt, stream};
use tidegate::location::Location;
use tidegate::sweep::{Process, Unfinished};
use tidegate::upload::{Pending, Unpublished};
use tidegate::{ErrorKind, Object};

use super::record::{UploadRecord, UploadState};
use super::work_path::{AT_ONCE, read};
use super::{Job, Result};
use crate::copy::emptied::EmptiedDirectories;

/// Times of a store's objects and sessions may be in whole seconds.
const COARSE: Duration = Duration::from_secs(2);

/// The longest time between the record of an upload and the session that is opened for it. The ten attempts of a request that
/// opens it take up to 60 seconds each, and the pauses up to 20 ([`RetryPolicy`](tidegate::options::RetryPolicy)): 13 minutes.
const LONGEST_OPENING: Duration = Duration::from_secs(15 * 60);

/// What became of the uploads of some records.
#[derive(Debug, Default)]
pub(super) struct EndedUploads {
    /// How many are abandoned now, or were before.
    pub(super) abandoned: u64,
    /// How many had been published, and stay.
    pub(super) visible: u64,
    /// The keys of records that can't be read.
    pub(super) unreadable: Vec<String>,
    /// Records of uploads that may have been opened, and the keys of their files.
    pub(super) opening: Vec<(Object, String)>,
}

/// The end of one upload.
enum Ended {
    Abandoned,
    Visible,
    Unreadable(String),
    Opening(Box<Object>, String),
    /// The record is gone: another process has ended its upload.
    Gone,
}

impl Job {
    /// Abandons every upload of the job but those of the records in `kept`, and removes the work path.
    ///
    /// What an executor writes meanwhile stays, and names its upload to the process that ends the job again. Only if the
    /// executor opens a session after the sessions were listed, and dies before it writes the id, is the session left to sweeps.
    pub(super) async fn clean_up(&self, kept: &HashSet<String>) -> Result<EndedUploads> {
        let listed = self.list(&self.work_path()).await?;
        let ended = self.remove(&listed, kept).await?;
        let last = self.last_keys();
        for key in &last {
            self.store.delete(key).await?;
        }
        self.remove_directories(listed.iter().map(|object| &object.key).chain(&last)).await;
        Ok(ended)
    }

    /// Abandons the uploads of those of these objects that are records, but for those in `kept`, and removes the objects, but
    /// for the settings and the pointer.
    pub(super) async fn remove(&self, listed: &[Object], kept: &HashSet<String>) -> Result<EndedUploads> {
        let is_due =
            |object: &&Object| object.key.starts_with(&self.records()) && !kept.contains(&object.key);
        let due: Vec<Object> = listed.iter().filter(is_due).cloned().collect();
        let mut ended = self.end_recorded(&due).await?;
        ended.abandoned += self.end_unknown(&ended.opening).await?;
        let last = self.last_keys();
        let alone: HashSet<&String> =
            ended.opening.iter().map(|(record, _)| &record.key).chain(&last).collect();
        let others = listed.iter().map(|object| &object.key).filter(|key| !alone.contains(key)).cloned();
        self.store.delete_many(others).await.into_result()?;
        Ok(ended)
    }

    /// The settings and the pointer, which tell other processes how far the job is, see `state`.
    fn last_keys(&self) -> [String; 2] {
        [self.settings_key(), self.pointer()]
    }

    /// On a disk, removes the directories of the work path that these files have left empty.
    pub(super) async fn remove_directories(&self, files: impl Iterator<Item = &String>) {
        if !self.store.is_local() {
            return;
        }
        let root = PathBuf::from(self.store.location());
        let emptied = EmptiedDirectories::default();
        files.for_each(|file| emptied.add_parent_of(&root.join(file)));
        let work_path = Location::Local { path: root.join(self.work_path()) };
        if let Err(error) = emptied.remove(&work_path, false).await {
            tracing::warn!(%error, "directories of a job that has ended could not be removed");
        }
    }

    /// Abandons the uploads of these records. All are tried before the first error is returned.
    pub(super) async fn end_recorded(&self, records: &[Object]) -> Result<EndedUploads> {
        let ends: Vec<_> = records.iter().map(|record| self.end(record)).collect();
        let ends: Vec<Result<Ended>> = stream::iter(ends).buffer_unordered(AT_ONCE).collect().await;
        let mut ended = EndedUploads::default();
        for end in ends {
            match end? {
                Ended::Abandoned => ended.abandoned += 1,
                Ended::Visible => ended.visible += 1,
                Ended::Unreadable(key) => ended.unreadable.push(key),
                Ended::Opening(record, key) => ended.opening.push((*record, key)),
                Ended::Gone => {}
            }
        }
        ended.unreadable.sort_unstable();
        Ok(ended)
    }

    async fn end(&self, record: &Object) -> Result<Ended> {
        let Some(text) = read(&self.store, &record.key).await? else { return Ok(Ended::Gone) };
        let Some(UploadRecord { key, state }) = UploadRecord::from_json(&text) else {
            return Ok(Ended::Unreadable(record.key.clone()));
        };
        match state {
            UploadState::Opening => Ok(Ended::Opening(Box::new(record.clone()), key)),
            UploadState::Open(point) => self.abandon((&point).into()).await,
            UploadState::Closed(pending) => self.abandon((&pending).into()).await,
        }
    }

    async fn abandon(&self, upload: Unpublished<'_>) -> Result<Ended> {
        match self.store.abandon(upload).await {
            Ok(()) => Ok(Ended::Abandoned),
            Err(error) if error.kind() == ErrorKind::Closed => Ok(Ended::Visible),
            Err(error) => Err(error.into()),
        }
    }

    /// Aborts the sessions that processes may have opened for these records, and died before they wrote down the ids; removes
    /// the records. Returns how many sessions there were.
    async fn end_unknown(&self, opening: &[(Object, String)]) -> Result<u64> {
        let mut of_keys = BTreeMap::<&str, Vec<&Object>>::new();
        for (record, key) in opening {
            of_keys.entry(key).or_default().push(record);
        }
        let ends: Vec<_> = of_keys.iter().map(|(key, records)| self.end_unknown_of(key, records)).collect();
        let aborted: Vec<u64> = stream::iter(ends).buffer_unordered(AT_ONCE).try_collect().await?;
        Ok(aborted.iter().sum())
    }

    /// Aborts the sessions of a key that began within [`LONGEST_OPENING`] after one of its records, that wait for no commit,
    /// and that no process on this machine is at work on.
    async fn end_unknown_of(&self, key: &str, records: &[&Object]) -> Result<u64> {
        let found = match self.store.unfinished(key).try_collect::<Vec<_>>().await {
            // The store lists no uploads, and discards those that are not committed.
            Err(error) if error.kind() == ErrorKind::Unsupported => Vec::new(),
            found => found?,
        };
        let may_be_of_one = |started| {
            records.iter().filter_map(|record| record.modified).any(|written| may_be_of(written, started))
        };
        let mut aborted = 0;
        for Unfinished { open, process, .. } in found {
            let is_ours = open.session.key == key
                && open.started.is_some_and(may_be_of_one)
                && open.kept_until.is_none_or(|until| until < SystemTime::now())
                && !matches!(process, Process::Live(_));
            if !is_ours {
                continue;
            }
            match self.store.abort_session(&open.session).await {
                Ok(()) => aborted += 1,
                Err(error) if error.kind() == ErrorKind::SessionLost => {}
                Err(error) => return Err(error.into()),
            }
        }
        for record in records {
            self.remove_unchanged(&record.key, record).await?;
        }
        Ok(aborted)
    }

    /// Abandons those of these uploads that are not published; returns how many are.
    pub(super) async fn abandon_unpublished(&self, uploads: impl Iterator<Item = &Pending>) -> Result<usize> {
        let mut published = 0;
        for pending in uploads {
            published += usize::from(matches!(self.abandon(pending.into()).await?, Ended::Visible));
        }
        Ok(published)
    }
}

/// Whether a session that was opened at `started` may be that of a record which was written at `written`.
pub(super) fn may_be_of(written: SystemTime, started: SystemTime) -> bool {
    match started.duration_since(written) {
        Ok(later) => later <= LONGEST_OPENING,
        Err(earlier) => earlier.duration() <= COARSE,
    }
}
