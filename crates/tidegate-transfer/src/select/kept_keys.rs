//! Keys that lie in trees and belong to none: those of uploads that are not published yet, and of jobs that have not ended.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

use futures::future::{Either, ready};
use futures::{Stream, StreamExt};
use tidegate::backend::Entry;
use tidegate::text::printable;
use tidegate::{Result, Store};

use crate::job::{WORK_PATH, is_name, is_of_job};
use crate::place::{Place, address};

/// Tidegate's own keys, of uploads that are not published yet.
const OWN_KEYS: &str = ".tidegate/";

/// Why a key may belong to no tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kept<'a> {
    /// It is one of Tidegate's own.
    Own,
    /// It is below a directory with the name of a work path: it belongs to no tree if there is such a job, whose uploads only
    /// the objects of its work path name.
    OfJob(&'a str),
}

impl<'a> Kept<'a> {
    /// Why a key may belong to no tree. The keys of the tree begin at `root`; a tree below such a directory has its keys.
    pub(crate) fn of(key: &'a str, root: usize) -> Option<Self> {
        let (prefix, below) = key.split_at_checked(root).unwrap_or(("", key));
        let is_own = key.starts_with(OWN_KEYS) || below.starts_with(OWN_KEYS) || Store::is_probe(below);
        if is_own && !prefix.starts_with(OWN_KEYS) {
            return Some(Self::Own);
        }
        let directory = key.match_indices(WORK_PATH).find_map(|(at, _)| {
            let end = at + key[at..].find('/')?;
            let is_whole_name = at == 0 || key[..at].ends_with('/');
            let is_work_path = is_whole_name && end >= root && is_name(&key[at + WORK_PATH.len()..end]);
            is_work_path.then_some(&key[..end])
        })?;
        Some(Self::OfJob(directory))
    }
}

/// What a listing does with an entry.
pub(crate) enum Decision {
    Take,
    LeaveOut,
    /// Takes it, unless this directory is the work path of a job.
    TakeUnlessOfJob(String),
}

impl Decision {
    pub(crate) fn take(takes: bool) -> Self {
        if takes { Self::Take } else { Self::LeaveOut }
    }
}

/// The kept keys that listings have left out.
#[derive(Debug, Default)]
pub(crate) struct KeptKeys {
    has_own: AtomicBool,
    /// The output directories of jobs, by their URLs.
    outs: Mutex<BTreeSet<String>>,
    /// The directory that was looked at last, and whether it is the work path of a job.
    last: Mutex<Option<(String, bool)>>,
}

impl KeptKeys {
    /// The entries of a listing of `store` that `decide` takes.
    pub(crate) fn leave_out<S, D>(
        self: &Arc<Self>,
        store: &Store,
        entries: S,
        decide: D,
    ) -> impl Stream<Item = Result<Entry>> + Send + use<S, D>
    where
        S: Stream<Item = Result<Entry>> + Send,
        D: Fn(&Result<Entry>) -> Decision + Send,
    {
        let (kept, store) = (self.clone(), store.clone());
        entries.filter_map(move |entry| match decide(&entry) {
            Decision::Take => Either::Left(ready(Some(entry))),
            Decision::LeaveOut => Either::Left(ready(None)),
            Decision::TakeUnlessOfJob(directory) => {
                let (kept, store) = (kept.clone(), store.clone());
                Either::Right(async move {
                    match kept.notes_job(&store, directory).await {
                        Ok(true) => None,
                        Ok(false) => Some(entry),
                        Err(error) => Some(Err(error)),
                    }
                })
            }
        })
    }

    /// Notes that a key of Tidegate's own was left out.
    pub(crate) fn note_own(&self) {
        self.has_own.store(true, Relaxed);
    }

    /// Whether a directory is the work path of a job, which is noted then.
    async fn notes_job(&self, store: &Store, directory: String) -> Result<bool> {
        let known = locked(&self.last).as_ref().filter(|(last, _)| *last == directory).map(|(_, is)| *is);
        if let Some(is_of_job) = known {
            return Ok(is_of_job);
        }
        let is_of_job = is_of_job(store, &directory).await?;
        if is_of_job {
            let out = directory.rsplit_once('/').map_or("", |(out, _)| out);
            locked(&self.outs).insert(address(Place::named(store.clone(), out).url()));
        }
        *locked(&self.last) = Some((directory, is_of_job));
        Ok(is_of_job)
    }

    /// Whether work paths of jobs were left out.
    pub(crate) fn has_jobs(&self) -> bool {
        !locked(&self.outs).is_empty()
    }

    /// The lines about what is left out. In a store, no command on trees is about Tidegate's own keys: `directory` is the
    /// name of a local one.
    pub(crate) fn lines(&self, directory: Option<&str>) -> Vec<String> {
        let own = directory.filter(|_| self.has_own.load(Relaxed)).map(|directory| {
            format!(
                "left out: {}/{OWN_KEYS}, because such keys are kept for uploads that are not published yet",
                directory.trim_end_matches('/')
            )
        });
        let outs = locked(&self.outs);
        let jobs = outs.iter().map(|out| {
            format!(
                "left out: the work path of a job that has not ended, in {out}: `tidegate commit --job` or `tidegate \
                 abandon --job` ends the job"
            )
        });
        own.into_iter().chain(jobs).map(|line| printable(&line).into_owned()).collect()
    }
}

fn locked<T>(value: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    value.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_that_may_be_of_a_work_path_are_found_unless_the_tree_is_below_it() {
        let job = Kept::OfJob;
        for (key, root, kept) in [
            ("__tidegate_a/job.json", 0, Some(job("__tidegate_a"))),
            ("out/__tidegate_a/", 0, Some(job("out/__tidegate_a"))),
            ("out/__tidegate_a/tasks/t/x.json", 4, Some(job("out/__tidegate_a"))),
            ("out/__tidegate_a/tasks/t/x.json", 17, None),
            ("out/__tidegate_a/tasks/__tidegate_b/x", 17, Some(job("out/__tidegate_a/tasks/__tidegate_b"))),
            ("out/__tidegate_a", 0, None),
            ("out/x__tidegate_a/b", 0, None),
            ("out/__tidegate_/b", 0, None),
            ("out/__tidegate_my notes/b", 0, None),
            (".tidegate/manifests/out/__tidegate_a/commit.json", 0, Some(Kept::Own)),
            ("out/a", 0, None),
        ] {
            assert_eq!(Kept::of(key, root), kept, "{key} from {root}");
        }
    }
}
