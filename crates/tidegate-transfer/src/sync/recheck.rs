//! A last look at what `sync --delete` is about to remove.

use std::panic::resume_unwind;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use tidegate::text::printable;
use tidegate::{ErrorKind, Store};

use super::extra::ExtraObject;
use crate::compare::Trees;
use crate::copy::empty_names::{self, EmptyNames};
use crate::copy::job::CopyJob;
use crate::copy::link::is_there;
use crate::error::{Error, Result};
use crate::event::{Events, Step};
use crate::links::Links;

/// Looks again, before a removal, at what may have changed since the listing. Of a store, it looks only at keys that
/// may be another name of an object that was just copied: each look is a request.
pub(super) struct Recheck {
    source: Option<PathBuf>,
    links: Links,
    /// The target's store. In a directory, a file written since the listing has another ETag; so has one whose name
    /// differs only in case, where the file system ignores case.
    target: Store,
    is_local: bool,
    empty_names: Arc<EmptyNames>,
    prefix: String,
    events: Events,
    /// How many are not removed: because they have changed, and because they could not be described.
    pub(super) changed: AtomicU64,
    pub(super) failed: AtomicU64,
}

impl Recheck {
    pub(super) fn of(trees: &Trees, job: &CopyJob) -> Self {
        Self {
            source: trees.source.path(""),
            links: trees.source.links,
            target: trees.target.store.clone(),
            is_local: trees.target.is_local(),
            empty_names: job.empty_names.clone(),
            prefix: trees.target.place("").key,
            events: job.events.clone(),
            changed: AtomicU64::default(),
            failed: AtomicU64::default(),
        }
    }

    /// The keys, in the target's store, of the objects that still only the target has.
    pub(super) async fn still_extra(&self, batch: Vec<ExtraObject>) -> Vec<String> {
        let all = batch.len();
        let batch = match self.source.clone() {
            Some(source) => {
                let links = self.links;
                let is_missing = move |extra: &ExtraObject| !is_there(&source, &extra.key, links);
                let missing = move || batch.into_iter().filter(is_missing).collect();
                tokio::task::spawn_blocking(missing).await.unwrap_or_else(|ended| {
                    resume_unwind(ended.try_into_panic().unwrap_or_else(|ended| Box::new(ended)))
                })
            }
            None => batch,
        };
        let (mut keys, mut failed) = (Vec::with_capacity(batch.len()), 0);
        for extra in batch {
            let key = format!("{}{}", self.prefix, extra.key);
            match self.is_still_extra(&key, &extra).await {
                Ok(is_extra) => keys.extend(is_extra.then_some(key)),
                Err(error) => {
                    self.events.failed(Step::Remove, error);
                    failed += 1;
                }
            }
        }
        self.failed.fetch_add(failed, Relaxed);
        self.changed.fetch_add((all - keys.len()) as u64 - failed, Relaxed);
        keys
    }

    async fn is_still_extra(&self, key: &str, extra: &ExtraObject) -> Result<bool> {
        if self.is_local {
            return match self.target.head(key).await {
                Ok(now) => Ok(now.etag.as_deref() == Some(&*extra.etag)),
                Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
                Err(error) => Err(error.into()),
            };
        }
        if self.empty_names.has(key) && empty_names::is_kept_as_another(&self.target, key).await? {
            let url = format!("{}/{key}", self.target.location());
            let why = "the store keeps this key and the one of an object that was copied as one";
            return Err(Error::NotRemoved(format!("{}: {why}", printable(&url))));
        }
        Ok(true)
    }
}
