//! The JSON of a work path: the record of one upload, and the manifest of one attempt.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tidegate::upload::{Pending, Resumable};

/// The version of the JSON that this version writes, and the latest that it reads.
pub(super) const VERSION: u32 = 1;

/// What is known of one upload of an attempt, in one object. Each state replaces the one before it.
#[derive(Clone, Debug)]
pub(super) struct UploadRecord {
    /// Relative to the output directory.
    pub(super) key: String,
    pub(super) state: UploadState,
}

#[derive(Clone, Debug)]
pub(super) enum UploadState {
    /// Its session may have been opened; the id is not known.
    Opening,
    /// Its session is open.
    Open(Resumable),
    /// All its bytes are at the store.
    Closed(Pending),
}

/// An upload record as JSON.
#[derive(Serialize, Deserialize)]
struct RecordText {
    version: u32,
    key: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    open: Option<serde_json::Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    closed: Option<serde_json::Value>,
}

impl UploadRecord {
    pub(super) fn to_json(&self) -> String {
        let (mut open, mut closed) = (None, None);
        match &self.state {
            UploadState::Opening => {}
            UploadState::Open(point) => open = Some(value(&point.to_json())),
            UploadState::Closed(pending) => closed = Some(value(&pending.to_json())),
        }
        let text = RecordText { version: VERSION, key: self.key.clone(), open, closed };
        serde_json::to_string(&text).unwrap_or_default()
    }

    /// `None` if the text is no record that this version reads.
    pub(super) fn from_json(text: &[u8]) -> Option<Self> {
        let RecordText { key, open, closed, .. } = versioned(text)?;
        let state = match (open, closed) {
            (_, Some(pending)) => UploadState::Closed(Pending::from_json(&pending.to_string()).ok()?),
            (Some(point), None) => UploadState::Open(Resumable::from_json(&point.to_string()).ok()?),
            (None, None) => UploadState::Opening,
        };
        Some(Self { key, state })
    }
}

/// A file of a task: an upload, and the key of its record.
#[derive(Clone, Debug)]
pub(super) struct TaskFile {
    pub(super) record: String,
    pub(super) pending: Pending,
}

/// What an attempt of a task has written, and whether it counts.
#[derive(Clone, Debug)]
pub(super) struct TaskManifest {
    pub(super) job: String,
    pub(super) task: String,
    pub(super) attempt: String,
    pub(super) state: AttemptState,
    /// When the attempt was committed, by its own clock, in nanoseconds since 1970. Tells attempts apart that the store's
    /// clock does not.
    pub(super) written: u64,
    pub(super) files: Vec<TaskFile>,
}

/// How far an attempt is that is not at work any more. The last two never change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum AttemptState {
    Committed,
    /// It was given up before it was committed: no driver has read its files.
    GivenUp,
    /// It was given up after it was committed: a driver may have read its files.
    Withdrawn,
}

/// A manifest as JSON.
#[derive(Serialize, Deserialize)]
struct ManifestText {
    version: u32,
    job: String,
    task: String,
    attempt: String,
    state: AttemptState,
    written: u64,
    files: Vec<FileText>,
}

#[derive(Serialize, Deserialize)]
struct FileText {
    record: String,
    pending: serde_json::Value,
}

impl TaskManifest {
    pub(super) fn to_json(&self) -> String {
        let file = |file: &TaskFile| FileText {
            record: file.record.clone(),
            pending: value(&file.pending.to_json()),
        };
        let text = ManifestText {
            version: VERSION,
            job: self.job.clone(),
            task: self.task.clone(),
            attempt: self.attempt.clone(),
            state: self.state,
            written: self.written,
            files: self.files.iter().map(file).collect(),
        };
        serde_json::to_string(&text).unwrap_or_default()
    }

    /// `None` if the text is no manifest that this version reads.
    pub(super) fn from_json(text: &[u8]) -> Option<Self> {
        let ManifestText { job, task, attempt, state, written, files, .. } = versioned(text)?;
        let file = |file: FileText| {
            let pending = Pending::from_json(&file.pending.to_string()).ok()?;
            Some(TaskFile { record: file.record, pending })
        };
        let files = files.into_iter().map(file).collect::<Option<_>>()?;
        Some(Self { job, task, attempt, state, written, files })
    }

    /// Whether both have the same uploads, in one order.
    pub(super) fn has_files_of(&self, other: &Self) -> bool {
        fn records(manifest: &TaskManifest) -> impl Iterator<Item = &String> {
            manifest.files.iter().map(|file| &file.record)
        }
        records(self).eq(records(other))
    }
}

/// Reads JSON of a version that this version knows.
pub(super) fn versioned<T: DeserializeOwned>(text: &[u8]) -> Option<T> {
    #[derive(Deserialize)]
    struct Versioned {
        version: u32,
    }
    let Versioned { version } = serde_json::from_slice(text).ok()?;
    if version > VERSION {
        return None;
    }
    serde_json::from_slice(text).ok()
}

fn value(json: &str) -> serde_json::Value {
    serde_json::from_str(json).unwrap_or_default()
}
