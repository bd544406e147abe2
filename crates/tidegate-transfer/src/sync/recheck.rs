//! A last look at what `sync --delete` is about to remove.

use std::panic::resume_unwind;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use tidegate::{ErrorKind, Store};

use super::extra::ExtraObject;
use crate::compare::Trees;
use crate::copy::link::is_there;
use crate::event::{Events, Step};
use crate::links::Links;

/// Looks again, before a removal, at what may have changed since the listing. Only what is on this machine is looked
/// at: a store would take a request for each object.
pub(super) struct Recheck {
    source: Option<PathBuf>,
    links: Links,
    /// The target's store, if it is a directory. A file written since the listing has another ETag; so has one
    /// whose name differs only in case, where the file system ignores case.
    target: Option<Store>,
    prefix: String,
    events: Events,
    /// How many are not removed: because they have changed, and because they could not be described.
    pub(super) changed: AtomicU64,
    pub(super) failed: AtomicU64,
}

impl Recheck {
    pub(super) fn of(trees: &Trees, events: Events) -> Self {
        let target = trees.target.is_local().then(|| trees.target.store.clone());
        Self {
            source: trees.source.path(""),
            links: trees.source.links,
            target,
            prefix: trees.target.place("").key,
            events,
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
            let is_same = match &self.target {
                Some(store) => match store.head(&key).await {
                    Ok(now) => now.etag.as_deref() == Some(&*extra.etag),
                    Err(error) if error.kind() == ErrorKind::NotFound => false,
                    Err(error) => {
                        self.events.failed(Step::Remove, error.into());
                        failed += 1;
                        false
                    }
                },
                None => true,
            };
            keys.extend(is_same.then_some(key));
        }
        self.failed.fetch_add(failed, Relaxed);
        self.changed.fetch_add((all - keys.len()) as u64 - failed, Relaxed);
        keys
    }
}
