//! Keys that a store keeps as one: they differ only in empty names, as `a//b` and `a/b` do. MinIO drops slashes at the
//! beginning of a key, versitygw drops every empty name; S3 keeps such keys apart.
//!
//! If a command has objects for two such keys, the second one waits until all others are copied. Then the store's answers
//! tell whether it would replace the first.

use std::sync::{Mutex, MutexGuard, PoisonError};

use tidegate::Store;

use super::copies::{self, CopyOutcome};
use super::item::{self, CopyItem};
use super::job::CopyJob;
use crate::error::{Error, Result};
use crate::hashed::HashedNames;

/// The target keys of a command that other ones may be kept as.
#[derive(Debug, Default)]
pub(crate) struct EmptyNames(Mutex<Targets>);

#[derive(Debug, Default)]
struct Targets {
    /// Keys with empty names, without these.
    odd: HashedNames,
    has_odd: bool,
    /// Other keys that may come before one with empty names.
    early: HashedNames,
    keeps_all: bool,
    waiting: Vec<CopyItem>,
}

impl EmptyNames {
    /// The targets come in any order. Otherwise they come in that of their keys.
    pub(crate) fn in_any_order(&self) {
        self.locked().keeps_all = true;
    }

    /// The item, if it may be copied now; keeps one whose target may be that of an item before.
    pub(super) fn admit(&self, item: CopyItem) -> Option<CopyItem> {
        let key = &item.to.key;
        let is_odd = has_empty_name(key);
        let mut targets = self.locked();
        let may_be_taken = if is_odd {
            let key = without_empty_names(key);
            targets.has_odd = true;
            !targets.odd.add(&key) || targets.early.has(&key)
        } else {
            // In the order of keys, another slash puts a key behind its own only before these names.
            if targets.keeps_all || key.split('/').any(|name| name.as_bytes().first() < Some(&b'/')) {
                targets.early.add(&**key);
            }
            targets.has_odd && targets.odd.has(&**key)
        };
        if !may_be_taken {
            return Some(item);
        }
        targets.waiting.push(item);
        None
    }

    /// Whether an object that is copied has this key but for empty names.
    pub(crate) fn has(&self, key: &str) -> bool {
        let targets = self.locked();
        targets.has_odd && targets.odd.has(&without_empty_names(key))
    }

    fn locked(&self) -> MutexGuard<'_, Targets> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Copies the items that waited, one after another, except those that would replace another object of the command.
pub(crate) async fn copy_waiting(job: &CopyJob) -> Result {
    let waiting = std::mem::take(&mut job.empty_names.locked().waiting);
    let Some(first) = waiting.first() else { return Ok(()) };
    let stores = [first.source.place().store.clone()];
    let stores: Vec<_> = stores.iter().filter(|_| !first.source.place().is_local()).collect();
    for item in waiting {
        let copy = async {
            match is_kept_as_another(&item.to.store, &item.to.key).await {
                Ok(false) => item::copy_now(job, item).await,
                Ok(true) => {
                    let (source, target) = (item.source.name(), item.to.url());
                    CopyOutcome::Failed(Error::Failed(format!(
                        "{source}: not copied to {target}: the store keeps that key and the one of another object of this \
                         command as one"
                    )))
                }
                Err(error) => CopyOutcome::Failed(error),
            }
        };
        copies::all(job, &stores, futures::stream::iter([Box::pin(copy)])).await?;
    }
    Ok(())
}

/// Whether the store has one object for this key and for one that differs only in empty names.
pub(crate) async fn is_kept_as_another(store: &Store, key: &str) -> Result<bool> {
    let folded = without_empty_names(key);
    for other in [folded.clone(), format!("/{folded}"), folded.replacen('/', "//", 1)] {
        if other != key && store.is_one_place(key, store, &other).await? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Whether the key has an empty name; the one after a last slash does not count.
fn has_empty_name(key: &str) -> bool {
    key.starts_with('/') || key.contains("//")
}

fn without_empty_names(key: &str) -> String {
    let names: Vec<_> = key.split('/').filter(|name| !name.is_empty()).collect();
    let end = if key.ends_with('/') { "/" } else { "" };
    format!("{}{end}", names.join("/"))
}
