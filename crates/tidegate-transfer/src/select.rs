//! Which objects of a tree an operation takes.

use futures::stream::BoxStream;
use futures::{StreamExt, TryStreamExt, future};
use tidegate::backend::Entry;
use tidegate::{Object, Result, Store};

mod filter;
mod pattern;
mod source;

pub use filter::ObjectFilter;
pub use pattern::{KeyPattern, Matches};
pub use source::{Source, Wildcards};

/// The objects of a tree that a command takes.
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

    fn matches(&self, key: &str) -> bool {
        self.pattern.as_ref().is_none_or(|pattern| pattern.matches(key))
    }

    /// Lists the objects below `prefix` that the selection takes, and as [`Entry::Other`] what is no object. Sends no
    /// more requests than the pattern needs.
    pub fn list(&self, store: &Store, prefix: &str) -> BoxStream<'static, Result<Entry>> {
        let (beginning, is_shallow) = match &self.pattern {
            Some(pattern) => (pattern.literal_prefix(), pattern.is_shallow()),
            None => ("", false),
        };
        let entries = store.list(format!("{prefix}{beginning}")).recursive(!is_shallow);
        if self.is_everything() {
            return entries.boxed();
        }
        let (selection, root) = (self.clone(), prefix.len());
        let is_taken =
            move |entry: &Entry| !matches!(entry, Entry::Prefix(_)) && selection.takes_entry(entry, root);
        entries.try_filter(move |entry| future::ready(is_taken(entry))).boxed()
    }

    /// Whether it takes an entry of a listing. The keys of the tree begin at `root` of the entry's.
    pub fn takes_entry(&self, entry: &Entry, root: usize) -> bool {
        let key = entry.key().get(root..).unwrap_or_default();
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
