//! Where the objects of a tree are copied to, and whether that overlaps the tree.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

use futures::stream::{self, BoxStream};
use futures::{Stream, StreamExt};
use tidegate::Store;
use tidegate::location::{Location, local_root};
use tidegate::text::printable;

use crate::copy::copies::CopyOutcome;
use crate::copy::job::CopyJob;
use crate::copy::naming;
use crate::error::{Error, Result};
use crate::links::{LinkRules, Links, WriteLinks};
use crate::place::{Place, address};
use crate::resolved::resolved;
use crate::select::Source;
use crate::two_addresses::{self, DevicePath, overlap, shared_by_mount};

/// The store and prefix that the objects of a tree are copied to.
pub(in crate::copy) struct CopyTarget {
    pub(super) store: Store,
    prefix: String,
    links: WriteLinks,
    /// Where the source is in the target, if it is below: what the names of objects must not begin with. The copy of
    /// such an object could replace another that is still to be copied.
    source_below: Option<String>,
}

impl CopyTarget {
    /// The target of everything below a source, or of what matches its pattern.
    pub(super) async fn of_tree(job: &CopyJob, source: &Source, target: &Location) -> Result<Self> {
        if source.pattern.is_some() {
            return Self::of_contents(job, target).await;
        }
        let named = naming::of_tree(&source.location, target)?;
        if let (Location::Local { path: directory }, Location::Local { path }) = (target, &named)
            && let Ok(below) = path.strip_prefix(directory)
            && !below.as_os_str().is_empty()
        {
            // The user named the directory, and not a link in it that has the tree's name.
            let contents = Self::of_contents(job, target).await?;
            match below.to_str() {
                Some(name) => return Ok(Self { prefix: format!("{name}/"), ..contents }),
                // Such a name can't be a key.
                None if contents.links == WriteLinks::Refuse && path.is_symlink() => {
                    let link = path.display();
                    let message = format!("{link} is a symbolic link, and nothing is written through links");
                    return Err(Error::Failed(printable(&message).into_owned()));
                }
                None => {}
            }
        }
        Self::of_contents(job, &named).await
    }

    /// The target of one object. Below a directory, nothing is written through a link that has the copy's name: the
    /// user named the directory, and not the link.
    pub(in crate::copy) async fn of_one(
        job: &CopyJob,
        source: &Location,
        target: &Location,
    ) -> Result<Place> {
        let rules = match naming::is_container(target) {
            true => job.writing.links().of_target(),
            false => LinkRules::default(),
        };
        let place = job.stores.target.object_with(&naming::of_one(source, target)?, rules).await?;
        if !naming::is_container(target) {
            place.refuse_directory().await?;
        }
        Ok(place)
    }

    pub(super) async fn of_contents(job: &CopyJob, target: &Location) -> Result<Self> {
        let rules = job.writing.links().of_target();
        let (store, prefix) = job.stores.target.tree_with(target, rules).await?;
        Ok(Self { store, prefix, links: rules.writes, source_below: None })
    }

    /// Refuses an object whose copy would lie in the source.
    pub(super) fn refuse_within_source(&self, key: &str) -> Result<(), CopyOutcome> {
        match &self.source_below {
            Some(below) if key.starts_with(&**below) => {
                let target = printable(&self.place(key).url()).into_owned();
                Err(CopyOutcome::Failed(Error::Failed(format!(
                    "{target}: not copied: it is in the source, and could replace what is still to be copied"
                ))))
            }
            _ => Ok(()),
        }
    }

    pub(super) fn place(&self, key: &str) -> Place {
        Place { store: self.store.clone(), key: format!("{}{key}", self.prefix), links: self.links }
    }

    /// The URLs (or absolute paths) of the source, which is below `prefix` of `from`, and of this target. If one of the
    /// two places lies in the other, its text begins with the other's. `None` if the two cannot overlap.
    fn comparable(&self, from: &Store, prefix: &str) -> Option<(String, String)> {
        let text = |store: &Store, prefix: &str| format!("{}/{prefix}", address(store.location()));
        match (!from.is_local(), self.directory()) {
            (true, None) if from.shares_endpoint_with(&self.store) => {
                Some((text(from, prefix), text(&self.store, &self.prefix)))
            }
            (false, Some(target)) => {
                // A mount may lead from one to the other.
                let (source, target) =
                    (DevicePath::of(&local_root(&from.location())), DevicePath::of(&target));
                let text = |at: DevicePath| format!("{}/", at.to_string().trim_end_matches('/'));
                Some((text(source), text(target)))
            }
            _ => None,
        }
    }

    /// How the target of a list of names may overlap their source, which is below `prefix` of `from`. On this machine, a
    /// name may lead anywhere by links.
    pub(super) fn overlap(&self, from: &Store, prefix: &str, links: Links) -> Option<ListOverlap> {
        if from.is_local() && self.store.is_local() {
            let root = local_root(&from.location()).join(prefix);
            return Some(ListOverlap::Files { root, links, names: HashMap::new() });
        }
        let (source, target) = self.comparable(from, prefix)?;
        let way = match target.strip_prefix(&source) {
            Some(down) => Way::Down(down.to_owned()),
            None => Way::Up(source.strip_prefix(&target)?.to_owned()),
        };
        Some(ListOverlap::Keys { way, names: HashSet::new() })
    }

    /// The path without links, if it is a directory on this machine.
    pub(super) fn directory(&self) -> Option<PathBuf> {
        self.store.is_local().then(|| resolved(&local_root(&self.store.location()).join(&self.prefix)))
    }

    pub(super) fn url(&self) -> String {
        format!("{}/{}", self.store.location(), self.prefix)
    }

    /// Refuses a target below the source: the listing would find the copies, and never end. A move is also refused if
    /// the source is below the target: an object could replace another that is still to be moved.
    pub(super) async fn refuse_overlap(
        &mut self,
        job: &CopyJob,
        source: &Source,
        from: &Store,
        prefix: &str,
        is_recursive: bool,
    ) -> Result {
        let pattern = source.pattern.as_ref();
        let literal = pattern.map_or("", |pattern| pattern.literal_prefix());
        // A pattern of one level finds none of the objects below it.
        let is_shallow = !is_recursive && pattern.is_some_and(|pattern| pattern.is_shallow());
        let Some((source_tree, target_tree)) = self.comparable(from, prefix) else {
            if !job.distinct.wants_proof() || is_shallow {
                return Ok(());
            }
            let source_tree = Place::named(from.clone(), format!("{prefix}{literal}"));
            return two_addresses::refuse_nested(
                &source_tree,
                &Place::named(self.store.clone(), &*self.prefix),
            )
            .await;
        };
        if let Some(target) = self.directory()
            && let Some((ours, theirs)) = shared_by_mount(&local_root(&from.location()), &target)
        {
            return Err(overlap(&ours, &theirs));
        }
        let (source_name, target_name) = (source.name(), self.url());
        let refused = |why: String| Err(Error::Refused(why));
        if job.moves() && source_tree == target_tree {
            return refused(format!("{source_name}: source and target are the same"));
        }
        if is_shallow {
            return Ok(());
        }
        let beginning = source_tree.clone() + literal;
        if target_tree.starts_with(&beginning) {
            return refused(format!("{target_name}: this is in {source_name}, which is to be copied"));
        }
        if job.moves() && beginning.starts_with(&target_tree) {
            return refused(format!(
                "{source_name}: this is in {target_name}, the target: move it elsewhere first"
            ));
        }
        self.source_below = beginning.strip_prefix(&target_tree).map(str::to_owned);
        Ok(())
    }
}

/// A list of names, where the copy of one object could replace another that is still to be read.
pub(super) enum ListOverlap {
    /// Keys of one bucket.
    Keys { way: Way, names: HashSet<String> },
    /// Files below `root`: their names, by the paths without links of what is read.
    Files { root: PathBuf, links: Links, names: HashMap<PathBuf, String> },
}

/// Where the target is, seen from the source.
pub(super) enum Way {
    /// Below the source, at this prefix of its names.
    Down(String),
    /// Above the source, which is at this prefix of the target's names.
    Up(String),
}

impl ListOverlap {
    /// Reads all names, which stay in memory.
    pub(super) async fn with_names<'a>(
        mut self,
        names: impl Stream<Item = Result<String>> + Send + 'a,
    ) -> (BoxStream<'a, Result<String>>, Option<Self>) {
        let all: Vec<_> = names.collect().await;
        let plain = |name: &String| name.strip_prefix("./").unwrap_or(name).to_owned();
        match &mut self {
            Self::Keys { names, .. } => *names = all.iter().flatten().map(plain).collect(),
            Self::Files { root, links, names } => {
                let read = |name: String| (file_of(&root.join(&name), *links == Links::Preserve), name);
                *names = all.iter().flatten().map(plain).map(read).collect();
            }
        }
        (stream::iter(all).boxed(), Some(self))
    }

    /// The listed name, if any, of the object that the copy of `name` to `target` would replace.
    pub(super) fn replaced_by(&self, name: &str, target: &Place) -> Option<&str> {
        match self {
            Self::Keys { way, names } => {
                let target = match way {
                    Way::Down(prefix) => format!("{prefix}{name}"),
                    Way::Up(prefix) => name.strip_prefix(&**prefix)?.to_owned(),
                };
                names.get(&target).filter(|replaced| *replaced != name).map(String::as_str)
            }
            Self::Files { root, links, names } => {
                let path = local_root(&target.store.location()).join(&target.key);
                let written = file_of(&path, target.links == WriteLinks::Refuse);
                // Of two names of one file, one is remembered.
                let read = file_of(&root.join(name), *links == Links::Preserve);
                names.get(&written).filter(|_| written != read).map(String::as_str)
            }
        }
    }
}

/// The path without links; `is_itself` if a link in the last place is meant itself, and not what the link leads to.
fn file_of(path: &Path, is_itself: bool) -> PathBuf {
    match (path.parent(), path.file_name()) {
        (Some(directory), Some(name)) if is_itself => resolved(directory).join(name),
        _ => resolved(path),
    }
}
