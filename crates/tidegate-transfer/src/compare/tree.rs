//! One of the two trees that are compared.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};

use crate::listing::{TreeObject, sorted};
use futures::stream::{self, BoxStream};
use futures::{Stream, StreamExt, future};
use tidegate::backend::local::LINK_SUFFIX;
use tidegate::backend::{Entry, OtherKind};
use tidegate::location::{Location, local_root};
use tidegate::{ErrorKind, Store, Tidegate};

use crate::ahead;
use crate::error::Error;
use crate::links::{LinkRules, Links};
use crate::place::{Place, Stores, address, why_nameless};
use crate::select::{Decision, Kept, KeptKeys, ObjectFilter};
use crate::two_addresses;
use crate::walk::{self, Excepted, LinkIntoExcepted, Missed, OtherTree};

/// One of the two trees: everything below a prefix of a store, or below a local directory.
#[derive(Debug)]
pub struct Tree {
    pub(crate) store: Store,
    /// What the user calls it.
    pub(super) name: Option<String>,
    pub(super) prefix: String,
    /// The directory, if the tree is on this machine.
    pub(super) directory: Option<PathBuf>,
    /// Whether the first write makes the bucket, as in the embedded server.
    pub(super) makes_bucket: bool,
    pub(crate) links: Links,
    pub(super) rules: LinkRules,
    /// Directories that are left out, also if links lead there.
    pub(super) except: Vec<PathBuf>,
    /// The other tree, which this one must not hold, if both are on this machine.
    pub(super) other: Option<OtherTree>,
    /// Whether a listing has had an entry, also one that a filter leaves out.
    has_entries: Arc<AtomicBool>,
    /// The keys that belong to no tree, and that a listing has left out.
    kept: Arc<KeptKeys>,
    /// The path of the directory without links.
    pub(super) resolved: OnceLock<PathBuf>,
}

/// Which keys two trees can both have.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TreeKeys {
    /// Whether one of them is a directory: no file has a name that ends with a slash.
    as_files: bool,
    /// Whether the target is a whole store: there, an object whose key is the source's prefix would have no name.
    without_own: bool,
}

impl TreeKeys {
    pub(crate) fn of(source: &Tree, target: &Tree) -> Self {
        Self { as_files: source.is_local() || target.is_local(), without_own: target.prefix.is_empty() }
    }

    /// Why the trees cannot both have an object of this key below the root; `None` if one can.
    fn refusal(self, key: &str) -> Option<&'static str> {
        // An object whose key is the prefix has no name below the prefix, but stores can have it there.
        let is_own = key.is_empty() && !self.as_files && !self.without_own;
        why_nameless(key, self.as_files).filter(|_| !is_own)
    }
}

/// The objects of a tree in key order, and what could not be listed.
pub(crate) type TreeListing = BoxStream<'static, std::result::Result<TreeObject, Missed>>;

impl Tree {
    /// Everything below `prefix` of a store; of a store that is a directory, everything below the directory. A prefix that
    /// is not empty ends with a slash: it is added if it is not there.
    pub fn new(store: &Store, prefix: impl Into<String>) -> Self {
        let mut prefix = prefix.into();
        if !prefix.is_empty() && !prefix.ends_with('/') {
            prefix.push('/');
        }
        let directory = store.is_local().then(|| local_root(&store.location()).join(&prefix));
        let (store, prefix) = match &directory {
            Some(path) => (Stores::from(store.tide()).files(path, LinkRules::default()), String::new()),
            None => (store.clone(), prefix),
        };
        Self {
            store,
            name: None,
            prefix,
            directory,
            makes_bucket: false,
            links: Links::default(),
            rules: LinkRules::default(),
            except: Vec::new(),
            other: None,
            has_entries: Arc::default(),
            kept: Arc::default(),
            resolved: OnceLock::new(),
        }
    }

    /// Everything below a directory on this machine.
    pub fn directory(tide: &Tidegate, path: impl Into<PathBuf>) -> Self {
        let path = path.into();
        let store = Stores::from(tide).files(&path, LinkRules::default());
        Self { directory: Some(path), ..Self::new(&store, "") }
    }

    /// Leaves out what lies below a directory, by whatever path.
    #[must_use]
    pub fn without(mut self, directory: &Path) -> Self {
        self.except.extend(directory.canonicalize());
        self
    }

    /// As a target, counts as empty if its bucket does not exist: the first write makes the bucket.
    #[must_use]
    pub fn makes_bucket(self) -> Self {
        Self { makes_bucket: true, ..self }
    }

    /// The same tree with these rules for the links below its directory.
    pub(super) fn with_links(mut self, links: Links, rules: LinkRules) -> Self {
        if let Some(path) = &self.directory {
            self.store = Stores::from(self.store.tide()).files(path, rules);
        }
        Self { links, rules, ..self }
    }

    /// The path of the directory, or the URL without the slash at its end.
    pub(crate) fn name(&self) -> String {
        match (&self.name, &self.directory) {
            (Some(name), _) => name.clone(),
            (None, Some(path)) => path.display().to_string(),
            (None, None) => self.place("").url(),
        }
    }

    /// The same tree, by the name that its user gave it in messages.
    #[must_use]
    pub fn called(self, name: impl Into<String>) -> Self {
        Self { name: Some(name.into()), ..self }
    }

    /// Whether the tree is all of its store.
    pub(crate) fn is_whole_store(&self) -> bool {
        let location: Option<Location> = self.place("").url().parse().ok();
        location.and_then(|location| location.in_store().map(|(_, _, key)| key.is_empty())).unwrap_or(true)
    }

    pub(crate) fn is_local(&self) -> bool {
        self.directory.is_some()
    }

    /// Where the object of a key below the root is.
    pub(crate) fn place(&self, key: &str) -> Place {
        Place { store: self.store.clone(), key: format!("{}{key}", self.prefix), links: self.rules.writes }
    }

    /// The path of the file of a key below the root; `None` in a store.
    pub(crate) fn path(&self, key: &str) -> Option<PathBuf> {
        self.directory.as_ref().map(|directory| directory.join(key))
    }

    /// The text of the symbolic link that the object of this key stands for; `None` if it is another object.
    pub(super) fn text_of_link(&self, key: &str) -> Option<Vec<u8>> {
        let link = key.strip_suffix(LINK_SUFFIX).filter(|_| self.links == Links::Preserve)?;
        let text = std::fs::read_link(self.path(link)?).ok()?;
        Some(text.into_os_string().into_encoded_bytes())
    }

    /// The URL of the tree, or the path of the directory.
    pub(crate) fn url(&self) -> String {
        format!("{}/{}", self.store.location(), self.prefix)
    }

    /// Whether one of the trees lies in the other, or both are the same.
    pub(crate) fn overlaps(&self, other: &Self) -> bool {
        match (&self.directory, &other.directory) {
            (Some(ours), Some(theirs)) => two_addresses::are_nested(ours, theirs),
            (None, None) => {
                // With the slash behind the bucket: the name of one may begin with that of the other.
                let text = |tree: &Self| format!("{}/{}", address(tree.store.location()), tree.prefix);
                let (ours, theirs) = (text(self), text(other));
                self.store.shares_endpoint_with(&other.store)
                    && (ours.starts_with(&theirs) || theirs.starts_with(&ours))
            }
            _ => false,
        }
    }

    /// Lists the objects that `names` takes, and what is no object, ahead of the consumer. The embedded server's own
    /// files are left out.
    ///
    /// An object whose key the trees cannot have by these rules is [`Missed`].
    pub(crate) fn list(&self, names: &ObjectFilter, keys: TreeKeys) -> TreeListing {
        if let Some(directory) = &self.directory {
            let is_written = self.other.as_ref().is_some_and(OtherTree::is_written);
            let links_into = if is_written { LinkIntoExcepted::Fails } else { LinkIntoExcepted::IsFile };
            let except = Excepted { directories: self.except.clone(), links: links_into };
            let links = self.links;
            let files = walk::files(self.named(names), directory.clone(), except, &[], links);
            let files = walk::without(files, directory.clone(), self.other.clone());
            let object =
                |file: walk::FoundFile| TreeObject { key: file.object.key.clone(), object: file.object };
            return files.map(move |file| file.map(object)).boxed();
        }
        let (prefix, root) = (self.prefix.clone(), self.store.location());
        let entries = ahead::ahead(self.named(names));
        let found = entries.filter_map(move |entry| {
            future::ready(match entry {
                Ok(Entry::Object(object)) => {
                    let key = object.key.strip_prefix(&prefix).unwrap_or(&object.key).to_owned();
                    let is_empty = object.known_size() == Some(0);
                    match keys.refusal(&key) {
                        // In place of the directory of the tree itself, which is not below it.
                        _ if is_empty && key.is_empty() => None,
                        None => Some(Ok(TreeObject { key, object })),
                        Some(_) if is_empty => Some(Err(Missed::Marker(format!("{root}/{}", object.key)))),
                        Some(why) => Some(Err(nameless(&root, &object.key, why))),
                    }
                }
                Ok(_) => None,
                Err(error) => Some(Err(Missed::Failed(error.into()))),
            })
        });
        if self.store.lists_in_key_order() {
            found.boxed()
        } else {
            sorted::by_key(self.url(), found.boxed())
        }
    }

    /// The entries of the tree without the objects that `names` leaves out. What is no object stays: the target keeps
    /// what it has below such a name.
    pub(super) fn named(
        &self,
        names: &ObjectFilter,
    ) -> impl Stream<Item = tidegate::Result<Entry>> + Send + use<> {
        let (names, root) = (names.clone(), self.prefix.len());
        let (has_entries, kept_keys) = (self.has_entries.clone(), self.kept.clone());
        self.kept.leave_out(&self.store, self.store.list(&self.prefix), move |entry| {
            let entry = match entry {
                Ok(entry) => entry,
                Err(error) => return Decision::take(!names.leaves_out_unlisted(error)),
            };
            has_entries.store(true, Relaxed);
            let is_link = matches!(entry, Entry::Other { kind, .. } if *kind != OtherKind::BrokenLink);
            let key = entry.key().get(root..).unwrap_or_default();
            let is_taken = is_link || names.takes_name(key.strip_suffix('/').unwrap_or(key));
            match Kept::of(entry.key(), root).filter(|_| is_taken) {
                Some(Kept::Own) => {
                    kept_keys.note_own();
                    Decision::LeaveOut
                }
                Some(Kept::OfJob(directory)) => Decision::TakeUnlessOfJob(directory.to_owned()),
                None => Decision::take(is_taken),
            }
        })
    }

    /// Whether a listing of the tree has had an entry.
    pub(super) fn has_entries(&self) -> bool {
        self.has_entries.load(Relaxed)
    }

    /// The lines about jobs whose work paths listings have left out.
    pub(super) fn job_lines(&self) -> Vec<String> {
        self.kept.lines(None)
    }

    /// The lines about all keys that belong to no tree, and that listings have left out.
    pub(super) fn kept_lines(&self) -> Vec<String> {
        let directory = self.is_local().then(|| self.name());
        self.kept.lines(directory.as_deref())
    }

    /// As [`list`](Self::list), for a target: a directory, or a bucket of the embedded server, that does not exist yet
    /// is empty.
    pub(crate) fn list_target(&self, names: &ObjectFilter, keys: TreeKeys) -> TreeListing {
        match &self.directory {
            Some(directory) if directory.symlink_metadata().is_err_and(|error| is_missing(&error)) => {
                stream::empty().boxed()
            }
            None if self.makes_bucket => {
                let listed = self.list(names, keys).filter(|entry| future::ready(!is_no_bucket(entry)));
                listed.boxed()
            }
            _ => self.list(names, keys),
        }
    }
}

/// The key of a path below the directory of a tree.
pub(crate) fn key_of<'a>(directory: Option<&Path>, path: &'a Path) -> Option<&'a str> {
    path.strip_prefix(directory?).ok()?.to_str()
}

fn is_no_bucket(entry: &std::result::Result<TreeObject, Missed>) -> bool {
    matches!(entry, Err(Missed::Failed(Error::Store(error))) if error.kind() == ErrorKind::NoBucket)
}

fn is_missing(error: &std::io::Error) -> bool {
    error.kind() == std::io::ErrorKind::NotFound
}

fn nameless(root: &str, key: &str, why: &str) -> Missed {
    let message = format!("{root}/{key}: {why}");
    Missed::Failed(Error::Failed(message))
}

#[cfg(test)]
mod tests {
    use std::ops::Range;

    use tidegate::Object;
    use tidegate::backend::memory::Memory;
    use tidegate::backend::{Attempt, Backend, Body, Fault, Info, Listing, WriteOptions};
    use tidegate::payload::Payload;

    use super::*;

    /// A store that a program has made itself, and that keeps its objects in memory. It lists these keys, if there are any.
    #[derive(Debug)]
    struct Own(Memory, Info, Vec<String>);

    #[async_trait::async_trait]
    impl Backend for Own {
        fn info(&self) -> &Info {
            &self.1
        }

        async fn put(
            &self,
            key: &str,
            payload: Payload,
            options: &WriteOptions,
            at: Attempt,
        ) -> Result<Object, Fault> {
            self.0.put(key, payload, options, at).await
        }

        async fn head(&self, key: &str, at: Attempt) -> Result<Object, Fault> {
            self.0.head(key, at).await
        }

        async fn get(
            &self,
            key: &str,
            range: Option<Range<u64>>,
            same: Option<&Object>,
            at: Attempt,
        ) -> Result<Body, Fault> {
            self.0.get(key, range, same, at).await
        }

        async fn delete(&self, key: &str, same: Option<&Object>, at: Attempt) -> Result<(), Fault> {
            self.0.delete(key, same, at).await
        }

        fn list(&self, prefix: &str, recursive: bool) -> Listing<Entry> {
            if self.2.is_empty() {
                return self.0.list(prefix, recursive);
            }
            let object = |key: &String| {
                let mut object = Object::default();
                object.key.clone_from(key);
                Ok(Entry::Object(object))
            };
            Listing::Items(stream::iter(self.2.iter().map(object).collect::<Vec<_>>()).boxed())
        }
    }

    /// Longer than what is sorted in memory.
    #[tokio::test]
    async fn a_long_listing_in_another_order_is_compared() {
        let tide = Tidegate::builder().build().unwrap();
        let mut keys: Vec<_> = (0..40_000).map(|number| format!("{}-{number}", number % 7)).collect();
        let store = |name: &str, in_order: bool, keys: &[String]| {
            let memory = Memory::new(name);
            let mut info = Info::new(format!("{name}://b"), name, memory.info().capabilities.clone());
            info.capabilities.lists_in_key_order = in_order;
            tide.store(Arc::new(Own(memory, info, keys.to_vec())))
        };
        let shuffled = store("shuffled", false, &keys);
        keys.push("0-0/more".to_owned());
        keys.sort();
        let sorted = store("sorted", true, &keys);
        for (source, target) in [(&shuffled, &sorted), (&sorted, &shuffled)] {
            let check = crate::CheckTrees::new(Tree::new(source, ""), Tree::new(target, ""));
            let check = check.compare(crate::Comparison::Size).await.unwrap();
            assert_eq!((check.compared, check.unchanged, check.different), (40_001, 40_000, 1));
        }
    }

    #[tokio::test]
    async fn a_store_of_ones_own_is_no_directory_whatever_its_location() {
        let tide = Tidegate::builder().build().unwrap();
        let memory = Memory::new("own");
        let info = Info::new("cache", "cache", memory.info().capabilities.clone());
        let own = tide.store(Arc::new(Own(memory, info, Vec::new())));
        own.put("k", "1").await.unwrap();
        let tree = Tree::new(&own, "");
        assert!(!tree.is_local() && Tree::directory(&tide, "cache").is_local());
        let keys = TreeKeys::of(&tree, &tree);
        let keys: Vec<_> = tree.list(&ObjectFilter::default(), keys).collect().await;
        assert!(matches!(&keys[..], [Ok(TreeObject { key, .. })] if key == "k"), "{keys:?}");
    }
}
