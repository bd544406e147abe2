//! Which objects of a tree an operation takes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use futures::stream::BoxStream;
use futures::{StreamExt, future};
use tidegate::backend::Entry;
use tidegate::location::Location;
use tidegate::text::printable;
use tidegate::{Object, Result, Store};

mod filter;
mod kept_keys;
mod pattern;
mod source;

pub use filter::ObjectFilter;
pub(crate) use kept_keys::{Decision, Kept, KeptKeys};
pub use pattern::{KeyPattern, Matches};
pub use source::{Source, Wildcards};

/// The objects of a tree that a command takes. Keys below `.tidegate/` are taken only if the tree or the pattern names them;
/// so are those in the work path of a [job](crate::job), except for a plain listing.
#[derive(Clone, Debug, Default)]
pub struct Selection {
    /// The pattern of the URL, for keys below the tree's root.
    pattern: Option<KeyPattern>,
    filter: ObjectFilter,
}

impl Selection {
    /// The objects that match the pattern, if there is one, and that the filter takes.
    pub fn new(pattern: Option<KeyPattern>, filter: ObjectFilter) -> Self {
        Self { pattern, filter }
    }

    /// Whether the selection takes everything.
    pub fn is_everything(&self) -> bool {
        self.pattern.is_none() && self.filter.is_everything()
    }

    /// Whether more than a pattern decides.
    pub fn is_filtered(&self) -> bool {
        !self.filter.is_everything()
    }

    /// Whether it takes an object whose key below the tree's root is `key`.
    pub fn takes(&self, key: &str, object: &Object) -> bool {
        self.matches(key) && self.filter.takes(key, object)
    }

    /// Whether it takes an object of this key below the tree's root, whatever its time and size.
    pub fn takes_name(&self, key: &str) -> bool {
        self.matches(key) && self.filter.takes_name(key)
    }

    /// Why an entry may belong to no tree, unless the pattern names such keys.
    fn kept<'a>(&self, entry: &'a Entry, root: usize) -> Option<Kept<'a>> {
        let kept = Kept::of(entry.key(), root)?;
        let named = self.pattern.as_ref().and_then(|pattern| Kept::of(pattern.literal_prefix(), 0));
        match (kept, named) {
            (Kept::Own, Some(Kept::Own)) | (Kept::OfJob(_), Some(Kept::OfJob(_))) => None,
            _ => Some(kept),
        }
    }

    /// Lists the objects below `prefix` that the selection takes, those of work paths among them, and as [`Entry::Other`] what
    /// is no object. Sends no more requests than the pattern needs.
    pub fn list(&self, store: &Store, prefix: &str) -> BoxStream<'static, Result<Entry>> {
        let (selection, root) = (self.clone(), prefix.len());
        self.listed(store, prefix)
            .filter(move |entry| {
                let is_taken = entry.as_ref().map_or(true, |entry| {
                    selection.takes_entry(entry, root)
                        && (selection.is_everything() || !matches!(entry, Entry::Prefix(_)))
                });
                future::ready(is_taken)
            })
            .boxed()
    }

    /// The same without what belongs to no tree, and with notes of what is not taken.
    pub(crate) fn list_noting(
        &self,
        store: &Store,
        prefix: &str,
        notes: &Arc<ListingNotes>,
    ) -> BoxStream<'static, Result<Entry>> {
        let (selection, root, of) = (self.clone(), prefix.len(), notes.clone());
        let decide = move |entry: &Result<Entry>| match entry {
            Ok(entry) => selection.decide(entry, root, &of),
            Err(_) => Decision::Take,
        };
        notes.kept.leave_out(store, self.listed(store, prefix), decide).boxed()
    }

    /// Lists below `prefix` what the pattern may match.
    fn listed(&self, store: &Store, prefix: &str) -> BoxStream<'static, Result<Entry>> {
        let (beginning, is_shallow) = match &self.pattern {
            Some(pattern) => (pattern.literal_prefix(), pattern.is_shallow()),
            None => ("", false),
        };
        let entries = store.list(format!("{prefix}{beginning}")).recursive(!is_shallow);
        let filter = self.filter.clone();
        let is_listed = move |entry: &Result<Entry>| {
            entry.as_ref().err().is_none_or(|error| !filter.leaves_out_unlisted(error))
        };
        entries.filter(move |entry| future::ready(is_listed(entry))).boxed()
    }

    /// Whether to take an entry, with a note if it is not.
    fn decide(&self, entry: &Entry, root: usize, notes: &ListingNotes) -> Decision {
        let key = entry.key().get(root..).unwrap_or_default();
        let name = if matches!(entry, Entry::Object(_)) { key } else { key.strip_suffix('/').unwrap_or(key) };
        if !self.matches(name) {
            return Decision::LeaveOut;
        }
        let kept = self.kept(entry, root);
        if kept == Some(Kept::Own) {
            if self.filter.takes_name(name) {
                notes.kept.note_own();
            }
            return Decision::LeaveOut;
        }
        let is_directory = matches!(entry, Entry::Prefix(_)) && !self.is_everything();
        notes.has_matches.store(true, Relaxed);
        if is_directory && self.filter.takes_name(name) {
            notes.directories.fetch_add(1, Relaxed);
        }
        match (!is_directory && self.takes_entry(entry, root), kept) {
            (true, Some(Kept::OfJob(directory))) => Decision::TakeUnlessOfJob(directory.to_owned()),
            (takes, _) => Decision::take(takes),
        }
    }

    fn matches(&self, key: &str) -> bool {
        self.pattern.as_ref().is_none_or(|pattern| pattern.matches(key))
    }

    /// Whether it takes an entry of a listing, also one of a work path. The keys of the tree begin at `root` of the entry's.
    pub fn takes_entry(&self, entry: &Entry, root: usize) -> bool {
        let key = entry.key().get(root..).unwrap_or_default();
        if self.kept(entry, root) == Some(Kept::Own) {
            return false;
        }
        match entry {
            Entry::Object(object) => self.takes(key, object),
            // What is no object has no time and size to choose it by.
            _ if self.filter.looks_at_objects() => false,
            _ => {
                let name = key.strip_suffix('/').unwrap_or(key);
                self.matches(name) && self.filter.takes_name(name)
            }
        }
    }
}

/// What a listing has seen of entries that a selection does not take.
#[derive(Debug, Default)]
pub(crate) struct ListingNotes {
    /// Whether the pattern matches an entry, or, without a pattern, there is one.
    has_matches: AtomicBool,
    /// How many directories a pattern of one level matches.
    directories: AtomicU64,
    /// The keys that belong to no tree.
    kept: Arc<KeptKeys>,
}

impl ListingNotes {
    /// Whether there was something for a filter to leave out.
    pub(crate) fn has_matches(&self) -> bool {
        self.has_matches.load(Relaxed)
    }

    /// Whether work paths of jobs were left out.
    pub(crate) fn has_jobs(&self) -> bool {
        self.kept.has_jobs()
    }

    /// The lines about what is left out of `source`.
    pub(crate) fn lines(&self, source: &Source) -> impl Iterator<Item = String> {
        let directory = match &source.location {
            Location::Local { path } => Some(path.display().to_string()),
            _ => None,
        };
        self.directories_line(source).into_iter().chain(self.kept.lines(directory.as_deref()))
    }

    /// The line about directories that the pattern of `source` matches, and that are left out; `None` if there are none.
    fn directories_line(&self, source: &Source) -> Option<String> {
        let all = Some(self.directories.load(Relaxed)).filter(|all| *all > 0)?;
        let (all, directories, is) = match all {
            1 => (all, "directory that matches", "is"),
            _ => (all, "directories that match", "are"),
        };
        let source = source.text();
        Some(
            printable(&format!("{all} {directories} {source} {is} left out: add -r for what is below"))
                .into_owned(),
        )
    }
}

#[cfg(test)]
mod tests {
    use futures::TryStreamExt;
    use tidegate::Tidegate;

    use super::*;

    #[tokio::test]
    async fn keys_of_pending_uploads_belong_to_no_tree_unless_it_names_them() {
        let tide = Tidegate::builder().build().unwrap();
        let store = tide.open("memory://own").await.unwrap();
        let probe = "a//.tidegate-probe-0123456789abcdef";
        let keys =
            [".tidegate/pending/1", ".tidegate-x", "a/.tidegate/2", "a/b", probe, "c/.tidegate-probe-1"];
        for key in keys {
            store.put(key, "1").await.unwrap();
        }
        let list = async |prefix: &str, pattern: Option<&str>| {
            let pattern = pattern.map(|text| KeyPattern::new(text, Matches::Key).unwrap());
            let entries = Selection::new(pattern, ObjectFilter::default()).list(&store, prefix);
            let entries: Vec<Entry> = entries.try_collect().await.unwrap();
            entries.iter().map(|entry| entry.key().to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(list("", None).await, [".tidegate-x", "a/.tidegate/2", "a/b", "c/.tidegate-probe-1"]);
        assert_eq!(list("a/", None).await, ["a/b"]);
        assert_eq!(
            list("", Some("**")).await,
            [".tidegate-x", "a/.tidegate/2", "a/b", "c/.tidegate-probe-1"]
        );
        assert_eq!(list(".tidegate/", None).await, [".tidegate/pending/1"]);
        assert_eq!(list("", Some(".tidegate/**")).await, [".tidegate/pending/1"]);
    }
}
