//! `_SUCCESS`, the object that says that a job is complete.

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use tidegate::Store;
use tidegate::store::PointedObject;
use tidegate::upload::Pending;

use super::commit::CommittedJob;
use super::record::{VERSION, versioned};
use super::work_path::{Expected, read};
use super::{Job, Result};

/// The key, in the output directory, of the object that is written when all files of a job are published. Its JSON has the
/// job's id, the numbers of files and bytes, and the key, size and checksum of each file.
pub const SUCCESS: &str = "_SUCCESS";

/// The content of `_SUCCESS`.
#[derive(Serialize, Deserialize)]
struct SuccessText {
    version: u32,
    job: String,
    /// When the job was set up, in seconds since 1970.
    #[serde(default)]
    created: u64,
    files: u64,
    bytes: u64,
    objects: Vec<PublishedFile>,
}

/// A file that a job has published.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct PublishedFile {
    /// In the bucket.
    key: String,
    size: u64,
    checksum: String,
}

impl From<&Pending> for PublishedFile {
    fn from(pending: &Pending) -> Self {
        Self { key: pending.key().to_owned(), size: pending.size(), checksum: pending.checksum().to_string() }
    }
}

impl From<PointedObject> for PublishedFile {
    fn from(object: PointedObject) -> Self {
        Self { key: object.key, size: object.size, checksum: object.checksum }
    }
}

/// The id of the job that has written the `_SUCCESS` of `out`; `None` if there is none, or another program's.
///
/// # Errors
/// Those of the store.
pub async fn last_completed(out: &Store) -> Result<Option<String>> {
    let text = read(out, SUCCESS).await?;
    Ok(text.and_then(|text| versioned::<SuccessText>(&text)).map(|success| success.job))
}

impl CommittedJob {
    pub(super) fn of(files: &[PublishedFile]) -> Self {
        let bytes = files.iter().map(|file| file.size).sum();
        Self { objects: files.len() as u64, bytes, abandoned: 0, unreadable: Vec::new() }
    }
}

impl Job {
    /// Writes `_SUCCESS`, unless a job has written it that was set up after this one: a late end must not hide that.
    pub(super) async fn write_success(&self, created: u64, files: Vec<PublishedFile>) -> Result {
        let CommittedJob { objects, bytes, .. } = CommittedJob::of(&files);
        let text = SuccessText {
            version: VERSION,
            job: self.id.clone(),
            created,
            files: objects,
            bytes,
            objects: files,
        };
        let text = Bytes::from(serde_json::to_string(&text).unwrap_or_default());
        let is_later = |there: SuccessText| there.job != self.id && there.created > created;
        let write = |there: Option<&[u8]>| {
            let keeps = there.and_then(versioned::<SuccessText>).is_some_and(is_later);
            Ok((!keeps).then(|| text.clone()))
        };
        self.change(SUCCESS, Expected::Something, write).await.map(drop)
    }

    /// What `_SUCCESS` says, if it is that of this job.
    pub(super) async fn read_success(&self) -> Result<Option<CommittedJob>> {
        let Some(text) = read(&self.store, SUCCESS).await? else { return Ok(None) };
        // Other programs write an empty object of this name, and other jobs of this directory one of theirs.
        let ours = versioned::<SuccessText>(&text).filter(|success| success.job == self.id);
        Ok(ours.map(|success| CommittedJob::of(&success.objects)))
    }
}
