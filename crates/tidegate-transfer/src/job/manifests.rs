//! The manifests of attempts. Each attempt has a key of its own, and what is written there first holds: the manifest of its
//! files, or the mark that it was given up, after which no manifest is written there, however late.

use std::collections::BTreeMap;

use bytes::Bytes;
use futures::{StreamExt, TryStreamExt, stream};
use tidegate::{ErrorKind, Object};

use super::record::{AttemptState, TaskManifest};
use super::work_path::{AT_ONCE, Expected};
use super::{Job, Result};

/// The most bytes that the manifests of a job have together: the driver holds them in memory. A file has about 650, and 180 for
/// each part.
pub(super) const MOST_MANIFESTS: u64 = if cfg!(test) { 4 << 20 } else { 64 << 20 };

impl Job {
    pub(super) fn manifests(&self) -> String {
        format!("{}tasks/", self.work_path())
    }

    pub(super) fn manifest_key(&self, task: &str, attempt: &str) -> String {
        format!("{}{task}/{attempt}.json", self.manifests())
    }

    /// Writes the manifest, unless the key already has a manifest with the same files, or the mark that the attempt was given
    /// up. Returns how far the attempt is now. Fails if no driver would read it.
    pub(super) async fn hand_in(&self, manifest: &TaskManifest) -> Result<AttemptState> {
        let (key, json) =
            (self.manifest_key(&manifest.task, &manifest.attempt), Bytes::from(manifest.to_json()));
        let bytes = json.len() as u64;
        if bytes > MOST_MANIFESTS {
            let message = format!(
                "the manifest of the attempt has {bytes} bytes, and a driver reads up to {MOST_MANIFESTS} of all attempts: \
                 write fewer files, or larger parts"
            );
            return Err(self.refused_object(ErrorKind::TooLarge, &key, message));
        }
        let mut state = AttemptState::Committed;
        let hand_in = |there: Option<&[u8]>| {
            let Some(text) = there else { return Ok(Some(json.clone())) };
            let there = self.manifest_of(&key, text)?;
            state = there.state;
            let is_new = state == AttemptState::Committed && !there.has_files_of(manifest);
            Ok(is_new.then(|| json.clone()))
        };
        self.change(&key, Expected::Nothing, hand_in).await?;
        Ok(state)
    }

    /// Has an attempt not count: marks it as given up. Returns how far it is now, and the mark if this call has written it.
    pub(super) async fn withdraw(&self, task: &str, attempt: &str) -> Result<(Option<Object>, AttemptState)> {
        let key = self.manifest_key(task, attempt);
        let mut state = AttemptState::GivenUp;
        let withdraw = |there: Option<&[u8]>| {
            let marked = match there.map(|text| self.manifest_of(&key, text)).transpose()? {
                None => TaskManifest {
                    job: self.id.clone(),
                    task: task.to_owned(),
                    attempt: attempt.to_owned(),
                    state: AttemptState::GivenUp,
                    written: 0,
                    files: Vec::new(),
                },
                // The files stay in it: an abort of the job looks for all that a driver may have read.
                Some(there) if there.state == AttemptState::Committed => {
                    TaskManifest { state: AttemptState::Withdrawn, ..there }
                }
                Some(there) => {
                    state = there.state;
                    return Ok(None);
                }
            };
            state = marked.state;
            Ok(Some(marked.to_json().into()))
        };
        let written = self.change(&key, Expected::Nothing, withdraw).await?;
        Ok((written, state))
    }

    /// Describes and reads a manifest; `None` if it is not there.
    pub(super) async fn read_manifest(&self, key: &str) -> Result<Option<(Object, TaskManifest)>> {
        let Some((object, text)) = self.describe_and_read(key).await? else { return Ok(None) };
        Ok(Some((object, self.manifest_of(key, &text)?)))
    }

    pub(super) fn manifest_of(&self, key: &str, text: &[u8]) -> Result<TaskManifest> {
        let is_ours = |manifest: &TaskManifest| {
            manifest.job == self.id && self.manifest_key(&manifest.task, &manifest.attempt) == key
        };
        TaskManifest::from_json(text).filter(is_ours).ok_or_else(|| {
            let message = "this is no manifest of an attempt of this job, or it is one of a later version of Tidegate: \
                 nothing is published";
            self.refused_object(ErrorKind::InvalidInput, key, message)
        })
    }

    /// Reads the manifests of all attempts, as the store lists them; `None` in place of one that is gone since.
    pub(super) async fn read_manifests(&self) -> Result<Vec<Option<(Object, TaskManifest)>>> {
        let listed = self.list(&self.manifests()).await?;
        let bytes: u64 = listed.iter().map(|object| object.size).sum();
        if bytes > MOST_MANIFESTS {
            let message = format!(
                "the manifests of its attempts have {bytes} bytes, and a driver reads up to {MOST_MANIFESTS}: write fewer files"
            );
            return Err(self.refused(ErrorKind::TooLarge, message));
        }
        let reads: Vec<_> = listed.iter().map(|object| self.read_manifest(&object.key)).collect();
        let read: Vec<_> = stream::iter(reads).buffered(AT_ONCE).try_collect().await?;
        let read = read.into_iter().map(|read| read.map(|(_, manifest)| manifest));
        Ok(listed.into_iter().zip(read).map(|(listed, manifest)| Some((listed, manifest?))).collect())
    }

    /// The manifests that count: for each task, that of the last attempt that was committed and not given up. `None` if one
    /// that was listed is gone, because another process removes the work path.
    pub(super) async fn read_tasks(&self) -> Result<Option<Vec<TaskManifest>>> {
        let read = self.read_manifests().await?.into_iter().collect::<Option<Vec<_>>>();
        Ok(read.map(|read| {
            let mut last = BTreeMap::new();
            for (object, manifest) in read {
                if manifest.state != AttemptState::Committed {
                    continue;
                }
                // The store's times may be in whole seconds.
                let when = (object.modified, manifest.written);
                match last.get(&manifest.task) {
                    Some((latest, _)) if *latest > when => {}
                    _ => drop(last.insert(manifest.task.clone(), (when, manifest))),
                }
            }
            last.into_values().map(|(_, manifest)| manifest).collect()
        }))
    }
}
