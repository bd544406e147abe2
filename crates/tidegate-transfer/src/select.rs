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
mod pattern;
mod source;

pub use filter::ObjectFilter;
pub use pattern::{KeyPattern, Matches};
pub use source::{Source, Wildcards};

/// Tidegate's own keys, of uploads that are not published yet. They belong to no tree.
const OWN_KEYS: &str = ".tidegate/";

/// Whether a key is one of Tidegate's own, and the tree whose keys begin at `root` is not one of them.
pub(crate) fn is_own_key(key: &str, root: usize) -> bool {
    let (prefix, below) = key.split_at_checked(root).unwrap_or(("", key));
    !prefix.starts_with(OWN_KEYS)
        && (key.starts_with(OWN_KEYS) || below.starts_with(OWN_KEYS) || Store::is_probe(below))
}

/// The objects of a tree that a command takes. Keys below `.tidegate/` are taken only if the tree or the pattern names
/// them.
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

    fn names_own(&self) -> bool {
        self.pattern.as_ref().is_some_and(|pattern| pattern.literal_prefix().starts_with(OWN_KEYS))
    }

    fn matches(&self, key: &str) -> bool {
        self.pattern.as_ref().is_none_or(|pattern| pattern.matches(key))
    }

    /// Lists the objects below `prefix` that the selection takes, and as [`Entry::Other`] what is no object. Sends no
    /// more requests than the pattern needs.
    pub fn list(&self, store: &Store, prefix: &str) -> BoxStream<'static, Result<Entry>> {
        self.list_noting(store, prefix, &Arc::default())
    }

    /// The same, with notes of what it does not take.
    pub(crate) fn list_noting(
        &self,
        store: &Store,
        prefix: &str,
        notes: &Arc<ListingNotes>,
    ) -> BoxStream<'static, Result<Entry>> {
        let (beginning, is_shallow) = match &self.pattern {
            Some(pattern) => (pattern.literal_prefix(), pattern.is_shallow()),
            None => ("", false),
        };
        let entries = store.list(format!("{prefix}{beginning}")).recursive(!is_shallow);
        let (selection, root, takes_all) = (self.clone(), prefix.len(), self.is_everything());
        let notes = notes.clone();
        let is_taken = move |entry: &Entry| match takes_all {
            true => {
                let is_own = is_own_key(entry.key(), root);
                notes.has_own_keys.fetch_or(is_own, Relaxed);
                !is_own
            }
            false => {
                selection.note(entry, root, &notes);
                !matches!(entry, Entry::Prefix(_)) && selection.takes_entry(entry, root)
            }
        };
        let filter = self.filter.clone();
        let is_taken = move |entry: &Result<Entry>| match entry {
            Ok(entry) => is_taken(entry),
            Err(error) => !filter.leaves_out_unlisted(error),
        };
        entries.filter(move |entry| future::ready(is_taken(entry))).boxed()
    }

    fn note(&self, entry: &Entry, root: usize, notes: &ListingNotes) {
        let key = entry.key().get(root..).unwrap_or_default();
        let name = if matches!(entry, Entry::Object(_)) { key } else { key.strip_suffix('/').unwrap_or(key) };
        if !self.matches(name) {
            return;
        }
        if is_own_key(entry.key(), root) {
            notes.has_own_keys.fetch_or(self.filter.takes_name(name) && !self.names_own(), Relaxed);
            return;
        }
        notes.has_matches.store(true, Relaxed);
        if matches!(entry, Entry::Prefix(_)) && self.filter.takes_name(name) {
            notes.directories.fetch_add(1, Relaxed);
        }
    }

    /// Whether it takes an entry of a listing. The keys of the tree begin at `root` of the entry's.
    pub fn takes_entry(&self, entry: &Entry, root: usize) -> bool {
        let key = entry.key().get(root..).unwrap_or_default();
        if is_own_key(entry.key(), root) && !self.names_own() {
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
    /// Whether keys below `.tidegate/` are left out.
    has_own_keys: AtomicBool,
}

impl ListingNotes {
    /// Whether there was something for a filter to leave out.
    pub(crate) fn has_matches(&self) -> bool {
        self.has_matches.load(Relaxed)
    }

    /// The lines about what is left out of `source`.
    pub(crate) fn lines(&self, source: &Source) -> impl Iterator<Item = String> {
        // In a store, these are of uploads that are not published yet, which no command on trees is about.
        let own_keys = match &source.location {
            Location::Local { path } if self.has_own_keys.load(Relaxed) => {
                Some(own_keys_line(&path.display().to_string()))
            }
            _ => None,
        };
        self.directories_line(source).into_iter().chain(own_keys)
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

/// The line about keys below `.tidegate/` of a directory, which are left out.
pub(crate) fn own_keys_line(directory: &str) -> String {
    let line = format!(
        "left out: {}/{OWN_KEYS}, because such keys are kept for uploads that are not published yet",
        directory.trim_end_matches('/')
    );
    printable(&line).into_owned()
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
