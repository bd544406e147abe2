//! The work path of a job: its keys, the settings, and how far the job is.

use std::time::{Duration, SystemTime};

use bytes::Bytes;
use futures::TryStreamExt;
use serde::{Deserialize, Serialize};
use tidegate::store::SetProgress;
use tidegate::{Entry, Error as StoreError, ErrorKind, Object, Store};
use tokio::time::sleep;

use super::record::{VERSION, versioned};
use super::{Job, JobError, Result};

/// The beginning of the name of a work path.
pub(crate) const WORK_PATH: &str = "__tidegate_";

/// The settings, in the work path.
const SETTINGS: &str = "job.json";
/// The pointer of the job's set, in the work path.
const POINTER: &str = "commit.json";

/// Objects of the work path that are read, and uploads that are ended, at the same time; the engine's limits hold as well.
pub(super) const AT_ONCE: usize = 64;

/// How often a process looks again because others are at work on the job.
pub(super) const TRIES: u32 = 7;

/// After so many more looks, three seconds, the process that gives up uploads is taken for dead.
const PATIENCE: u32 = 4;

/// The pause after the first look at the job.
const FIRST_PAUSE: Duration = Duration::from_millis(if cfg!(test) { 1 } else { 100 });

/// The largest object that is read whole, in bytes: more than manifests and the settings have. A larger one is another
/// program's.
const LARGEST: u64 = 256 << 20;

/// What a process expects at a key that it is about to change.
#[derive(Clone, Copy, Debug)]
pub(super) enum Expected {
    Nothing,
    Something,
}

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
    /// The set is complete: no file is opened any more.
    Ending,
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
            // It was completed after it was looked for.
            JobPhase::Ending => JobState::Begun,
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
        format!("{}{SETTINGS}", self.work_path())
    }

    pub(super) fn pointer(&self) -> String {
        format!("{}{POINTER}", self.work_path())
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
            if object.known_size().is_some_and(|size| size > LARGEST) {
                return Ok((object, text));
            }
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
    /// again. Where the object is `expected` to be there, it is read first; otherwise only after a first write was refused.
    /// Returns what it has written; `None` if `change` leaves the object as it is.
    pub(super) async fn change(
        &self,
        key: &str,
        expected: Expected,
        mut change: impl FnMut(Option<&[u8]>) -> Result<Option<Bytes>> + Send,
    ) -> Result<Option<Object>> {
        for attempt in 0..TRIES {
            let there = match (attempt, expected) {
                (0, Expected::Nothing) => None,
                _ => self.describe_and_read(key).await?,
            };
            let Some(json) = change(there.as_ref().map(|(_, text)| &**text))? else { return Ok(None) };
            let put = self.store.put(key, json).content_type("application/json");
            let written = match there {
                None => put.create_only().await,
                Some((object, _)) => put.replaces(object).await,
            };
            let has_changed = |error: &StoreError| {
                matches!(error.kind(), ErrorKind::AlreadyExists | ErrorKind::Replaced | ErrorKind::NotFound)
            };
            if !written.as_ref().is_err_and(has_changed) {
                return Ok(Some(written?));
            }
        }
        Err(self.refused_object(ErrorKind::Timeout, key, OTHERS))
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

    /// Has every process know that an open job is in this phase. Returns the settings as they are now; `None` if there are
    /// none, and nothing is done.
    pub(super) async fn enter(&self, phase: JobPhase) -> Result<Option<Settings>> {
        let mut now = None;
        let enter = |text: Option<&[u8]>| {
            now = text.map(|text| self.settings_of(text)).transpose()?;
            let open = now.as_mut().filter(|settings| settings.phase == JobPhase::Open);
            Ok(open.map(|settings| {
                settings.phase = phase;
                settings.to_json().into()
            }))
        };
        match self.change(&self.settings_key(), Expected::Something, enter).await {
            // A store that replaces no object on condition. The set is complete: nobody sets another phase any more.
            Err(JobError::Store(error))
                if phase == JobPhase::Ending
                    && matches!(error.kind(), ErrorKind::Unsupported | ErrorKind::InvalidInput) =>
            {
                if let Some(settings) = &now {
                    self.write(&self.settings_key(), settings.to_json()).await?;
                }
            }
            changed => drop(changed?),
        }
        Ok(now)
    }

    /// How far the job is. The set is looked for before the settings, because a job that is complete loses its settings
    /// before its pointer: if there is no set, and then there are settings, the set was not begun when it was looked for.
    ///
    /// While the job is being given up, its uploads are left to the process that does so.
    pub(super) async fn state(&self) -> Result<JobState> {
        let mut set = self.store.find_set(&self.pointer()).await?;
        if matches!(set, SetProgress::BeingAbandoned(_)) {
            if !self.store.exists(&self.pointer()).await? {
                let settings = self.settings().await?;
                if settings.is_some_and(|settings| settings.phase == JobPhase::BeingAborted) {
                    return Ok(JobState::BeingAborted);
                }
            }
            set = self.unclaimed_set().await?;
        }
        let SetProgress::NotBegun = set else { return Ok(JobState::Begun) };
        Ok(self.settings().await?.map_or(JobState::Gone, Settings::state))
    }

    /// Fails once the end of the job may have listed the records: the end writes the phase before it lists, and removes the
    /// settings after. So, if this call succeeds, the end sees every record that was written before it.
    pub(super) async fn check_not_ended(&self) -> Result {
        self.require_open(self.settings().await?.map_or(JobState::Gone, Settings::state))
    }

    /// Fails for an attempt or a driver that comes too late.
    pub(super) fn require_open(&self, state: JobState) -> Result {
        let why = match state {
            JobState::Open => return Ok(()),
            JobState::Begun => "the job is being committed, or is complete",
            JobState::BeingAborted => "the job is being given up: `tidegate abandon --job` ends that",
            JobState::Gone => NO_SUCH_JOB,
        };
        Err(self.refused(ErrorKind::Closed, why))
    }

    /// How far the set is. An abort, or an attempt that came too late, holds the set's pointer while it abandons uploads. This
    /// call waits for that process; if the process seems dead, this call ends what it has begun.
    pub(super) async fn unclaimed_set(&self) -> Result<SetProgress> {
        for look in 0.. {
            match self.store.find_set(&self.pointer()).await? {
                SetProgress::BeingAbandoned(_) if look < TRIES => {}
                SetProgress::BeingAbandoned(_) => break,
                progress => return Ok(progress),
            }
            // Others may wait as well: not all of them end it at once.
            sleep(pause_after(look).mul_f64(0.5 + fastrand::f64())).await;
            if look >= PATIENCE {
                self.store.end_abandoning(&self.pointer()).await?;
            }
        }
        Err(self.refused(ErrorKind::Timeout, OTHERS))
    }
}

/// The pause after the first look at the job (0), or a later one. It doubles up to the fifth: six seconds in all.
pub(super) fn pause_after(look: u32) -> Duration {
    FIRST_PAUSE * (1 << look.min(PATIENCE))
}

/// Whether the directory, whose name begins with [`WORK_PATH`], is the work path of a job that has not ended.
pub(crate) async fn is_of_job(store: &Store, directory: &str) -> tidegate::Result<bool> {
    Ok(store.exists(&format!("{directory}/{SETTINGS}")).await?
        || store.exists(&format!("{directory}/{POINTER}")).await?)
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
