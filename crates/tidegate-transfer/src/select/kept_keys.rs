//! Keys that lie in trees and belong to none: those of uploads that are not published yet, and of jobs that have not ended.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

use tidegate::Store;
use tidegate::text::printable;

use crate::job::WORK_PATH;
use crate::place::{Place, address};

/// Tidegate's own keys, of uploads that are not published yet.
pub(super) const OWN_KEYS: &str = ".tidegate/";

/// Why a key belongs to no tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kept<'a> {
    /// It is one of Tidegate's own.
    Own,
    /// It is in the work path of a job with this output directory, whose uploads only the objects of the work path name.
    OfJob(&'a str),
}

impl<'a> Kept<'a> {
    /// Whether a key belongs to no tree. The keys of the tree begin at `root`, and it is not one of these keys itself.
    pub(crate) fn of(key: &'a str, root: usize) -> Option<Self> {
        let (prefix, below) = key.split_at_checked(root).unwrap_or(("", key));
        let is_own = key.starts_with(OWN_KEYS) || below.starts_with(OWN_KEYS) || Store::is_probe(below);
        if is_own && !prefix.starts_with(OWN_KEYS) {
            return Some(Self::Own);
        }
        let mut names = key.match_indices(WORK_PATH).filter(|(at, _)| *at == 0 || key[..*at].ends_with('/'));
        let (at, _) = names.find(|(at, _)| key[*at..].find('/').is_some_and(|end| at + end >= root))?;
        Some(Self::OfJob(key[..at].trim_end_matches('/')))
    }
}

/// The kept keys that a listing has left out.
#[derive(Debug, Default)]
pub(crate) struct KeptKeys {
    has_own: AtomicBool,
    /// The output directories of jobs, by their URLs.
    outs: Mutex<BTreeSet<String>>,
}

impl KeptKeys {
    /// Notes a key that is left out.
    pub(crate) fn note(&self, store: &Store, kept: Kept<'_>) {
        match kept {
            Kept::Own => self.has_own.store(true, Relaxed),
            Kept::OfJob(out) => {
                let url = address(Place::named(store.clone(), out).url());
                self.outs.lock().unwrap_or_else(PoisonError::into_inner).insert(url);
            }
        }
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
        let outs = self.outs.lock().unwrap_or_else(PoisonError::into_inner);
        let jobs = outs.iter().map(|out| {
            format!(
                "left out: the work path of a job that has not ended, in {out}: `tidegate commit --job` or `tidegate \
                 abandon --job` ends the job"
            )
        });
        own.into_iter().chain(jobs).map(|line| printable(&line).into_owned()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_work_paths_belong_to_no_tree_unless_the_tree_is_one() {
        let job = Kept::OfJob;
        for (key, root, kept) in [
            ("__tidegate_a/job.json", 0, Some(job(""))),
            ("out/__tidegate_a/", 0, Some(job("out"))),
            ("out/__tidegate_a/tasks/t/x.json", 4, Some(job("out"))),
            ("out/__tidegate_a/tasks/t/x.json", 17, None),
            ("out/__tidegate_a/tasks/__tidegate_b/x", 17, Some(job("out/__tidegate_a/tasks"))),
            ("out/__tidegate_a", 0, None),
            ("out/x__tidegate_a/b", 0, None),
            (".tidegate/manifests/out/__tidegate_a/commit.json", 0, Some(Kept::Own)),
            ("out/a", 0, None),
        ] {
            assert_eq!(Kept::of(key, root), kept, "{key} from {root}");
        }
    }
}
