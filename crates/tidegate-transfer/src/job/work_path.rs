//! The work path of a job: its keys, the settings, and how far the job is.

use std::time::{Duration, SystemTime};

use bytes::Bytes;
use futures::TryStreamExt;
use serde::{Deserialize, Serialize};
use tidegate::store::SetProgress;
use tidegate::{Entry, Error as StoreError, ErrorKind, Object, Store};

use super::record::{VERSION, versioned};
use super::{Job, JobError, Result};

/// The beginning of the name of a work path.
pub(super) const WORK_PATH: &str = "__tidegate_";

/// Objects of the work path that are read, and uploads that are ended, at the same time; the engine's limits hold as well.
pub(super) const AT_ONCE: usize = 64;

/// How often a process looks again because others are at work on the job.
pub(super) const TRIES: u32 = 7;

/// The content of `job.json`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Settings {
    version: u32,
    job: String,
    /// In seconds since 1970.
    pub(super) created: u64,
    until: u64,
    pub(super) success_marker: bool,
    pub(super) phase: JobPhase,
}

/// What the job's processes are to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum JobPhase {
    /// Tasks write; a driver may commit.
    Open,
    /// The job is being given up: no attempt is committed any more, and no driver begins the set.
    BeingAborted,
}

impl Settings {
    pub(super) fn new(job: &str, lifetime: Duration, success_marker: bool) -> Self {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs();
        let until = now.saturating_add(lifetime.as_secs());
        Self {
            version: VERSION,
            job: job.to_owned(),
            created: now,
            until,
            success_marker,
            phase: JobPhase::Open,
        }
    }

    /// When the uploads of the job end.
    pub(super) fn until(&self) -> SystemTime {
        let since = Duration::from_secs(self.until);
        SystemTime::UNIX_EPOCH.checked_add(since).unwrap_or(SystemTime::UNIX_EPOCH)
    }

    /// How far the job is whose set is not begun.
    fn state(self) -> JobState {
        match self.phase {
            JobPhase::Open => JobState::Open,
            JobPhase::BeingAborted => JobState::BeingAborted,
        }
    }

    pub(super) fn to_json(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }
}

/// How far a job is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum JobState {
    /// Its set is not begun.
    Open,
    /// Its set is begun or complete.
    Begun,
    BeingAborted,
    /// It has no settings: it was completed, given up, or never set up.
    Gone,
}

impl Job {
    pub(super) fn work_path(&self) -> String {
        format!("{WORK_PATH}{}/", self.id)
    }

    pub(super) fn settings_key(&self) -> String {
        format!("{}job.json", self.work_path())
    }

    pub(super) fn pointer(&self) -> String {
        format!("{}commit.json", self.work_path())
    }

    /// The beginning of the keys of all records.
    pub(super) fn records(&self) -> String {
        format!("{}attempts/", self.work_path())
    }

    /// Describes and reads an object; `None` if it is not there.
    pub(super) async fn describe_and_read(&self, key: &str) -> Result<Option<(Object, Vec<u8>)>> {
        let read = async {
            let mut reader = self.store.reader(key).await?;
            let (object, mut text) = (reader.object().clone(), Vec::<u8>::new());
            while let Some(piece) = reader.try_next().await? {
                text.extend_from_slice(&piece);
            }
            Ok::<_, StoreError>((object, text))
        };
        match read.await {
            Ok(found) => Ok(Some(found)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Writes an object, whatever was there.
    pub(super) async fn write(&self, key: &str, json: String) -> Result {
        Ok(self.store.put(key, json).content_type("application/json").await.map(drop)?)
    }

    /// Writes what `change` makes of the object, or of nothing, unless another process changes the object first: then tries
    /// again. Returns what it has written; `None` if `change` leaves the object as it is.
    pub(super) async fn change(
        &self,
        key: &str,
        mut change: impl FnMut(Option<&[u8]>) -> Result<Option<String>> + Send,
    ) -> Result<Option<Object>> {
        let put = |json| self.store.put(key, json).content_type("application/json");
        for _ in 0..TRIES {
            let created = change(None)?;
            let may_create = created.is_some();
            if let Some(json) = created {
                match put(json).create_only().await {
                    Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                    written => return Ok(Some(written?)),
                }
            }
            let Some((object, text)) = self.describe_and_read(key).await? else {
                match may_create {
                    true => continue,
                    false => return Ok(None),
                }
            };
            let Some(json) = change(Some(&text))? else { return Ok(None) };
            match put(json).replaces(object).await {
                Err(error) if matches!(error.kind(), ErrorKind::Replaced | ErrorKind::NotFound) => {}
                written => return Ok(Some(written?)),
            }
        }
        Err(self.refused_object(ErrorKind::Closed, key, OTHERS))
    }

    /// Removes an object, if it is still this one.
    pub(super) async fn remove_unchanged(&self, key: &str, object: &Object) -> Result {
        match self.store.delete_if_unchanged(key, object).await {
            Err(error) if matches!(error.kind(), ErrorKind::Replaced | ErrorKind::NotFound) => Ok(()),
            // A store whose answers name no version of an object.
            Err(error) if error.kind() == ErrorKind::Unsupported => Ok(self.store.delete(key).await?),
            removed => Ok(removed?),
        }
    }

    /// The objects whose keys begin with `prefix`.
    pub(super) async fn list(&self, prefix: &str) -> Result<Vec<Object>> {
        let objects = self.store.list(prefix).try_filter_map(async |entry| {
            Ok(match entry {
                Entry::Object(object) => Some(object),
                _ => None,
            })
        });
        Ok(objects.try_collect().await?)
    }

    pub(super) async fn settings(&self) -> Result<Option<Settings>> {
        let text = read(&self.store, &self.settings_key()).await?;
        text.map(|text| self.settings_of(&text)).transpose()
    }

    fn settings_of(&self, text: &[u8]) -> Result<Settings> {
        let ours = versioned::<Settings>(text).filter(|settings| settings.job == self.id);
        ours.ok_or_else(|| {
            let message = "this is not the job's settings, or they are those of a later version of Tidegate";
            self.refused_object(ErrorKind::InvalidInput, &self.settings_key(), message)
        })
    }

    /// Has every process know that the job is being given up. Does nothing if there are no settings.
    pub(super) async fn close(&self) -> Result {
        let close = |text: Option<&[u8]>| {
            let Some(text) = text else { return Ok(None) };
            let settings = self.settings_of(text)?;
            let closed = Settings { phase: JobPhase::BeingAborted, ..settings.clone() };
            Ok((settings.phase == JobPhase::Open).then(|| closed.to_json()))
        };
        self.change(&self.settings_key(), close).await.map(drop)
    }

    /// How far the job is. The set is looked for before the settings, because a job that is complete loses its settings
    /// before its pointer: if there is no set, and then there are settings, the set was not begun when it was looked for.
    pub(super) async fn state(&self) -> Result<JobState> {
        let SetProgress::NotBegun = self.unclaimed_set().await? else { return Ok(JobState::Begun) };
        Ok(self.settings().await?.map_or(JobState::Gone, Settings::state))
    }

    /// Fails if the end of the job may have listed the records. It begins before that, and this looks in the same order as
    /// [`state`](Self::state), and not for a set that is begun: a complete one has the pointer, and loses the settings first.
    /// So the end of the job sees every record that was written before a call that succeeds.
    pub(super) async fn check_not_ended(&self) -> Result {
        let state = match self.store.exists(&self.pointer()).await? {
            true => JobState::Begun,
            false => self.settings().await?.map_or(JobState::Gone, Settings::state),
        };
        self.refusal(state).map_or(Ok(()), Err)
    }

    /// The error of an attempt or a driver that comes too late; `None` while the job is open.
    pub(super) fn refusal(&self, state: JobState) -> Option<JobError> {
        let why = match state {
            JobState::Open => return None,
            JobState::Begun => "the job is being committed, or is complete",
            JobState::BeingAborted => "the job is being given up: `tidegate abandon --job` ends that",
            JobState::Gone => NO_SUCH_JOB,
        };
        Some(self.refused(ErrorKind::Closed, why))
    }

    /// How far the set is. An attempt that came too late, or an abort, has the set's pointer while it gives up uploads, and
    /// may have died: what it has begun is ended first.
    pub(super) async fn unclaimed_set(&self) -> Result<SetProgress> {
        for _ in 0..TRIES {
            let uploads = match self.store.find_set(&self.pointer()).await? {
                SetProgress::BeingAbandoned(uploads) => uploads,
                progress => return Ok(progress),
            };
            match self.store.abandon_all(&uploads).await {
                // A set was begun meanwhile, or files of these were published alone.
                Err(error) if error.kind() == ErrorKind::Closed => {}
                ended => ended?,
            }
        }
        Err(self.refused(ErrorKind::Closed, OTHERS))
    }
}

/// Reads an object; `None` if it is not there.
pub(super) async fn read(store: &Store, key: &str) -> Result<Option<Bytes>> {
    match store.get(key).await {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error.into()),
    }
}

pub(super) const NO_SUCH_JOB: &str = "there is no such job: it was completed, given up, or never set up";

pub(super) const OTHERS: &str =
    "other processes commit the job or give it up, all the while: repeat the operation";
