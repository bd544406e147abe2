//! The work path of a job: its keys, the settings, and how far the job is.

use std::time::{Duration, SystemTime};

use futures::TryStreamExt;
use serde::{Deserialize, Serialize};
use tidegate::store::SetProgress;
use tidegate::{Entry, Error as StoreError, ErrorKind, Object};

use super::record::{VERSION, versioned};
use super::{Job, Result};

/// The beginning of the name of a work path.
pub(super) const WORK_PATH: &str = "__tidegate_";

/// Objects of the work path that are read, and uploads that are ended, at the same time; the engine's limits hold as well.
pub(super) const AT_ONCE: usize = 64;

/// How often a process looks again because others are at work on the job, and the pause before the second time, which
/// doubles: six seconds in all.
pub(super) const TRIES: u32 = 7;
pub(super) const FIRST_PAUSE: Duration = Duration::from_millis(100);

/// After so many tries, a process ends what another one has begun to give up, and may have died.
pub(super) const PATIENCE: u32 = 3;

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

    pub(super) fn to_json(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }
}

/// How far a job is.
#[derive(Clone, Debug)]
pub(super) enum JobState {
    /// Its set is not begun.
    Open(Settings),
    /// Its set is begun or complete.
    Begun,
    /// An attempt that came too late gives up its uploads, and has the set's pointer meanwhile. The job may be open.
    PointerClaimed,
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

    /// Reads an object of the work path; `None` if it is not there.
    pub(super) async fn read(&self, key: &str) -> Result<Option<bytes::Bytes>> {
        match self.store.get(key).await {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Describes and reads an object of the work path; `None` if it is not there.
    pub(super) async fn find(&self, key: &str) -> Result<Option<(Object, Vec<u8>)>> {
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

    /// Writes an object of the work path, whatever was there.
    pub(super) async fn write(&self, key: &str, json: String) -> Result<Object> {
        Ok(self.store.put(key, json).content_type("application/json").await?)
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
        Ok(self.find_settings().await?.map(|(_, settings)| settings))
    }

    /// Describes and reads the settings.
    pub(super) async fn find_settings(&self) -> Result<Option<(Object, Settings)>> {
        let key = self.settings_key();
        let Some((object, text)) = self.find(&key).await? else { return Ok(None) };
        match versioned::<Settings>(&text).filter(|settings| settings.job == self.id) {
            Some(settings) => Ok(Some((object, settings))),
            None => {
                let message =
                    "this is not the job's settings, or they are those of a later version of Tidegate";
                Err(self.refused_object(ErrorKind::InvalidInput, &key, message))
            }
        }
    }

    /// How far the job is. The set is looked for before the settings, because a job that is complete loses its settings
    /// before its pointer: if there is no set, and then there are settings, the set was not begun when it was looked for.
    pub(super) async fn state(&self) -> Result<JobState> {
        let is_claimed = match self.store.find_set(&self.pointer()).await? {
            SetProgress::NotBegun => false,
            SetProgress::BeingAbandoned(_) => true,
            _ => return Ok(JobState::Begun),
        };
        Ok(match self.settings().await? {
            Some(settings) if settings.phase == JobPhase::Open && is_claimed => JobState::PointerClaimed,
            Some(settings) if settings.phase == JobPhase::Open => JobState::Open(settings),
            Some(_) => JobState::BeingAborted,
            None => JobState::Gone,
        })
    }

    /// How far the set is when nobody gives up uploads with its pointer: ends that first.
    pub(super) async fn unclaimed_set(&self) -> Result<SetProgress> {
        for _ in 0..TRIES {
            match self.store.find_set(&self.pointer()).await? {
                SetProgress::BeingAbandoned(_) => self.end_claim().await?,
                progress => return Ok(progress),
            }
        }
        Err(self.refused(ErrorKind::Closed, OTHERS))
    }

    /// Ends what another process has begun to give up with the set's pointer.
    pub(super) async fn end_claim(&self) -> Result {
        match self.store.abandon_set(&self.pointer()).await {
            Err(error) if matches!(error.kind(), ErrorKind::Closed | ErrorKind::NotFound) => Ok(()),
            ended => ended.map(drop).map_err(Into::into),
        }
    }
}

pub(super) const OTHERS: &str =
    "other processes commit the job or give it up, all the while: repeat the operation";
