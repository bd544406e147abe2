//! What a command must come to, from the two trees and the command alone, as obvious as can be.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use tidegate_transfer::{Comparison, Extra, IfExists, Links};

use crate::case::{Case, Command, Filter, Piece, Root, What};
use crate::world::{Address, ListingOrder, Moving, Node, Snapshot, World};

const SUFFIX: &str = ".rclonelink";

/// An object of a tree. Its bytes may be those of a file that a link leads to.
#[derive(Clone, Debug)]
struct Object {
    bytes: Vec<u8>,
    modified: SystemTime,
    address: Address,
    /// Whether a link leads to the bytes.
    by_link: bool,
}

#[derive(Debug, Default)]
struct Listing {
    objects: BTreeMap<String, Object>,
    /// Names that are no objects, and that the command leaves out.
    left_out: BTreeSet<String>,
    broken: BTreeSet<String>,
    /// Those of them that are followed links to a directory above.
    ways_back: BTreeSet<String>,
    /// Two objects have one key.
    clashes: bool,
}

/// What a command must come to.
#[derive(Debug, Default)]
pub(crate) struct Plan {
    /// What may be at an address after success; what is not named here does not change.
    pub(crate) allowed: BTreeMap<Address, Vec<Option<Node>>>,
    /// The sources, and where each is moved to.
    pub(crate) sources: Vec<(Address, Node, Option<Address>)>,
    /// What is removed after everything else, and what is removed before its replacement comes.
    pub(crate) extras: BTreeSet<Address>,
    pub(crate) in_the_way: BTreeSet<Address>,
    /// The command can't do all that it names.
    pub(crate) is_impossible: bool,
    /// The command does all that it names, if nothing fails.
    pub(crate) is_sure: bool,
    /// One tree is in the other, or links are written through: only the sources are looked at.
    pub(crate) is_loose: bool,
    /// It fails in a way that the dry run does not see: an object holds no text of a link, or links lead elsewhere.
    pub(crate) is_beyond_the_dry_run: bool,
    /// A store lists in another order than that of keys, which is an error unless the keys happen to be in order.
    pub(crate) is_unordered: bool,
    /// A link in the target may be another object for the next run.
    pub(crate) changes_behind_links: bool,
    /// Something is left out, and said.
    pub(crate) leaves_out: bool,
}

impl Plan {
    pub(crate) fn new(case: &Case, world: &World, before: &Snapshot) -> Self {
        // The user may name a link as the target, and so a place anywhere.
        let is_elsewhere = leads_elsewhere(world, case.target);
        let is_loose = is_elsewhere || case.roots().any(|root| root.overlaps(case.target));
        let mut plan = Self { is_sure: true, is_loose, ..Self::default() };
        match &case.command {
            Command::Sync { extra, max_delete, by, links } => {
                plan.sync(case, world, before, (*extra, *max_delete, *by, *links));
            }
            Command::Copy { what, moves, if_exists, links } => {
                plan.copy(case, world, before, (what, *moves, *if_exists, *links));
            }
            Command::Remove { what } => plan.remove(case, world, before, what),
        }
        plan.is_sure &= !plan.is_impossible && !plan.is_loose;
        if is_elsewhere {
            plan.sources.clear();
        }
        plan
    }

    pub(crate) fn moving(&self) -> Vec<Moving> {
        let moved = self.sources.iter().filter_map(|(source, node, target)| {
            Some(Moving { source: source.clone(), target: target.clone()?, node: node.clone() })
        });
        moved.collect()
    }

    /// An object is to be at the place of `key` in the target.
    fn write(&mut self, root: Root, key: &str, links: Links, object: &Object) -> Address {
        let (address, node) = target(root, key, links, object);
        match self.allowed.get(&address) {
            // Two objects can't be at one place.
            Some(_) => self.is_impossible = true,
            None => _ = self.allowed.insert(address.clone(), vec![Some(node)]),
        }
        address
    }

    fn sync(
        &mut self,
        case: &Case,
        world: &World,
        before: &Snapshot,
        options: (Extra, Option<u64>, Comparison, Links),
    ) {
        let (extra, max_delete, by, links) = options;
        let as_files = case.source.is_disk() || case.target.is_disk();
        let mut source = list(world, before, case.source, "", links);
        let mut theirs =
            list(world, before, case.target, "", if links == Links::Skip { Links::Files } else { links });
        for (listing, is_source) in [(&mut source, true), (&mut theirs, false)] {
            let is_file = |key: &String| !(as_files && key.ends_with('/'));
            // A marker is no loss, and a name that no file can have is.
            self.is_impossible |= is_source
                && listing.objects.iter().any(|(key, object)| {
                    !is_file(key) && !object.bytes.is_empty() && case.filter.takes_name(key)
                });
            listing.objects.retain(|key, _| is_file(key) && !key.is_empty());
        }
        self.is_impossible |= source.broken.iter().any(|name| case.filter.takes_name(name));
        self.is_loose |= source.clashes || theirs.clashes;
        self.is_unordered = breaks_its_order(case, world);
        self.is_sure &= !self.is_unordered;
        let writes_through_links = links == Links::Follow && has_links(before, case.target);
        self.is_loose |= writes_through_links;
        self.is_beyond_the_dry_run |= writes_through_links;
        // What a link of the target leads to may be removed, replaced or made.
        self.changes_behind_links =
            links != Links::Preserve && case.target.is_disk() && has_links(before, case.target);
        // Such a file stays, and its link comes beside it: then the directory can't be listed.
        self.is_loose |= links == Links::Preserve
            && case.target.is_disk()
            && has_files_named_as_links(before, case.target);
        self.leaves_out = source.left_out.iter().any(|name| case.filter.takes_name(name));
        let takes = |key: &str, object: &Object| case.filter.takes(key, object.bytes.len() as u64);
        let ours: BTreeMap<_, _> = source.objects.iter().filter(|(key, object)| takes(key, object)).collect();
        let is_left_out = |key: &str| beginnings(key).any(|name| source.left_out.contains(name));
        let extras: BTreeMap<_, _> = theirs
            .objects
            .iter()
            .filter(|(key, object)| {
                takes(key, object) && !source.objects.contains_key(*key) && !is_left_out(key)
            })
            .collect();
        self.is_sure &= !ours.is_empty();
        let shares_a_name = case.target.is_disk() && share_a_name(ours.keys(), links);
        self.is_impossible |= shares_a_name;
        for (key, object) in &ours {
            let there = theirs.objects.get(*key);
            let address = self.write(case.target, key, links, object);
            let old = before.get(&address).cloned();
            match there.map_or(Must::Copy, |there| must(case, world, by, object, there)) {
                Must::Copy => {}
                Must::Either => self.allowed.entry(address.clone()).or_default().push(old),
                // In another order than promised, an object of the target may seem to be missing.
                Must::Stay if self.is_unordered => self.allowed.entry(address.clone()).or_default().push(old),
                Must::Stay => _ = self.allowed.insert(address.clone(), vec![old]),
            }
            let deletes = extra != Extra::Keep;
            match in_the_way(world, case, key, links, &extras) {
                Way::Clear => {}
                Way::Blocked => self.is_sure = false,
                Way::By(obstacles) if deletes => self.in_the_way.extend(obstacles),
                Way::By(_) => self.is_sure = false,
            }
            self.is_beyond_the_dry_run |= is_empty_link(case.target, key, links, object);
            if links == Links::Preserve && key.ends_with(SUFFIX) {
                // No link has an empty text. A file of that name on a disk is a file.
                self.is_sure &= !object.bytes.is_empty() && !case.source.is_disk();
            }
            self.sources.push((object.address.clone(), before[&object.address].clone(), None));
        }
        if writes_through_links {
            // One may lead to where a link of the source leads.
            self.sources.clear();
        }
        if extra == Extra::Keep || extras.is_empty() {
            return;
        }
        let is_empty = ours.is_empty() && extra != Extra::RemoveAll;
        if is_empty || max_delete.is_some_and(|most| extras.len() as u64 > most) {
            self.is_impossible = true;
            self.in_the_way.clear();
            return;
        }
        self.is_sure &= !self
            .in_the_way
            .iter()
            .any(|address| extras.values().any(|object| object.by_link && object.address == *address));
        for object in extras.values() {
            // A link to a file that this run replaces has changed since the listing: it stays until the next run.
            self.is_beyond_the_dry_run |= object.by_link;
            let kept = object.by_link.then(|| before.get(&object.address).cloned());
            let values = || [None].into_iter().chain(kept).collect();
            self.allowed.entry(object.address.clone()).or_insert_with(values);
            self.extras.insert(object.address.clone());
        }
    }

    fn copy(
        &mut self,
        case: &Case,
        world: &World,
        before: &Snapshot,
        options: (&What, bool, IfExists, Links),
    ) {
        let (what, moves, if_exists, links) = options;
        let taken = match what {
            What::Several { pieces, recursive } => several(case, world, before, pieces, *recursive, links),
            _ => select(case, world, before, what, links),
        };
        self.is_impossible |= taken.is_refused;
        self.is_sure &= !taken.misses && !taken.items.is_empty() && !(moves && links == Links::Follow);
        // What lies behind a link is not looked at; a move may take the link away.
        let leads_through_links =
            names_lead_through_links(case, world, what) || is_below_a_link(world, case.source, what.below());
        self.is_beyond_the_dry_run |= leads_through_links;
        self.is_loose |= leads_through_links
            || taken.clashes
            || links == Links::Follow && case.target.is_disk() && has_links(before, case.target);
        self.is_impossible |= taken.is_broken;
        self.leaves_out |= taken.leaves_out;
        let mut names = Vec::new();
        for Item { key, name, object } in &taken.items {
            let name = &**name;
            let is_nameless = name.is_empty() && case.target.address("") == Address::Store(1, String::new());
            if is_nameless || case.target.is_disk() && (name.is_empty() || name.ends_with('/')) {
                self.is_impossible |= !object.bytes.is_empty();
                self.leaves_out = true;
                continue;
            }
            let address = self.write(case.target, name, links, object);
            self.is_beyond_the_dry_run |= is_empty_link(case.target, name, links, object);
            let exists = match &address {
                Address::Disk(path) => world.path().join(path).symlink_metadata().is_ok(),
                Address::Store(..) => before.contains_key(&address),
            };
            let is_kept = exists && if_exists != IfExists::Replace;
            if is_kept {
                self.allowed.insert(address.clone(), vec![before.get(&address).cloned()]);
                self.is_impossible |= if_exists == IfExists::Fail;
            }
            self.is_sure &= matches!(in_the_way(world, case, name, links, &BTreeMap::new()), Way::Clear);
            self.is_sure &=
                !(moves && object.by_link) && !(key.ends_with(SUFFIX) && links == Links::Preserve);
            let moved_to = (moves && !is_kept).then_some(address);
            if moved_to.is_some() && !self.is_loose {
                self.is_impossible |= self.allowed.insert(object.address.clone(), vec![None]).is_some();
            }
            // Of a link that is not copied as one, the bytes are those of its file.
            let node = match object.by_link {
                true => Node::File { bytes: object.bytes.clone(), modified: object.modified },
                false => before[&object.address].clone(),
            };
            let node =
                if links == Links::Preserve { target(case.target, name, links, object).1 } else { node };
            self.sources.push((object.address.clone(), node, moved_to));
            names.push(name.to_owned());
        }
        if leads_through_links && matches!(what, What::Several { .. }) {
            self.sources.clear();
        }
        if links == Links::Follow && case.target.is_disk() && has_links(before, case.target) {
            // The user asked for writes through links; one may lead to where a link of the source leads.
            self.sources.retain(|(.., target)| target.is_some());
        }
        if case.target.is_disk() && share_a_name(names.iter(), links) {
            // One of them may come first, and the other is skipped.
            self.is_loose |= if_exists == IfExists::Skip;
            self.is_impossible = true;
        }
    }

    fn remove(&mut self, case: &Case, world: &World, before: &Snapshot, what: &What) {
        self.is_loose = names_lead_through_links(case, world, what);
        // The sources, each of a root and what of it.
        let parts: Vec<(Address, What)> = match what {
            What::Several { pieces, recursive } => {
                pieces.iter().map(|piece| piece.removed(world, *recursive)).collect()
            }
            _ => vec![(case.source.address(what.below()), what.clone())],
        };
        for (address, node) in before {
            let bytes = match (node, address) {
                (Node::File { bytes, .. }, _) => Some(bytes.clone()),
                (Node::Link(_), Address::Disk(path)) => fs::read(world.path().join(path)).ok(),
                _ => None,
            };
            let size = bytes.map(|bytes| bytes.len() as u64);
            let is_named = |(root, what): &(Address, What)| {
                let Some(name) = root.name_of(address) else { return false };
                match what {
                    What::Below(names) | What::Whole(names) => {
                        names.iter().any(|named| named == name)
                            && size.is_none_or(|size| case.filter.takes(last(name), size))
                    }
                    _ => takes(case, what, name, size),
                }
            };
            match parts.iter().filter(|part| is_named(part)).count() {
                0 => {}
                times => {
                    self.is_beyond_the_dry_run |= times > 1;
                    self.allowed.insert(address.clone(), vec![None]);
                }
            }
        }
        self.is_sure = !self.allowed.is_empty() && matches!(what, What::Tree | What::Pattern { .. });
        // Without the file that a link leads to, the link has no size.
        self.is_sure &= !(matches!(case.filter, Filter::MaxSize(_)) && has_links(before, case.source));
        self.is_beyond_the_dry_run |= parts.iter().enumerate().any(|(at, (root, what))| {
            let others = parts.iter().enumerate().filter(|(other, _)| *other != at);
            others.into_iter().any(|(_, (other, its))| match (what, its) {
                (What::Below(names), What::Below(others)) => root == other && names == others,
                (What::Below(names), _) => {
                    names.iter().any(|name| other.name_of(&root.below(name)).is_some())
                }
                _ => other.name_of(root).is_some(),
            })
        });
        if let What::Several { pieces, recursive } = what {
            let has_single = pieces.iter().any(|piece| !piece.is_pattern());
            if !recursive && has_single && case.filter != Filter::Everything {
                self.allowed.clear(); // refused
            }
        }
    }
}

fn last(name: &str) -> &str {
    name.rsplit('/').next().unwrap_or_default()
}

impl Piece {
    /// The root and what of it a removal takes.
    fn removed(&self, world: &World, recursive: bool) -> (Address, What) {
        let is_directory = match self.root {
            Root::Disk(root) => world.path().join(root).join(self.name).is_dir(),
            Root::Store { .. } => true,
        };
        if self.is_pattern() {
            let what = What::Pattern { pattern: self.name, recursive };
            return (self.root.address(what.below()), what);
        }
        if recursive && is_directory {
            let name = self.name.trim_end_matches('/');
            let below = if name.is_empty() { String::new() } else { format!("{name}/") };
            return (self.root.address(&below), What::Tree);
        }
        (self.root.address(""), What::Below(vec![self.name.to_owned()]))
    }
}

enum Must {
    Copy,
    Either,
    Stay,
}

/// Whether an object that both sides have is copied.
fn must(case: &Case, world: &World, by: Comparison, ours: &Object, theirs: &Object) -> Must {
    let copies = |is_other| if is_other { Must::Copy } else { Must::Either };
    let second = |time: SystemTime| time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs();
    if ours.bytes.len() != theirs.bytes.len() {
        return Must::Copy;
    }
    match by {
        Comparison::Size => Must::Either,
        Comparison::Checksum => copies(ours.bytes != theirs.bytes),
        Comparison::Time if ours.modified + Duration::from_secs(3) < theirs.modified => Must::Stay,
        Comparison::Time => {
            let is_newer = ours.modified > theirs.modified;
            // A file may have the time of an object in whole seconds. That it is older shows only if the tool has
            // written both.
            let shows = second(ours.modified) > second(theirs.modified)
                || is_newer
                    && (!case.source.is_disk() && !case.target.is_disk()
                        || case.changes.is_some() && is_fresh(world, ours));
            copies(ours.bytes != theirs.bytes && is_newer && shows)
        }
    }
}

/// Whether an object has changed since the clock of the case began.
fn is_fresh(world: &World, object: &Object) -> bool {
    object.modified + Duration::from_secs(2) > crate::world::time(world.now())
}

/// Whether a directory of a root is behind a link below that root.
fn is_below_a_link(world: &World, root: Root, below: &str) -> bool {
    let Root::Disk(root) = root else { return false };
    beginnings(below.trim_end_matches('/')).any(|name| world.path().join(root).join(name).is_symlink())
}

fn leads_elsewhere(world: &World, root: Root) -> bool {
    let Address::Disk(path) = root.address("") else { return false };
    let path = world.path().join(path.trim_end_matches('/'));
    path.canonicalize().is_ok_and(|canonical| canonical != path)
}

fn breaks_its_order(case: &Case, world: &World) -> bool {
    [case.source, case.target].iter().any(|root| match root {
        Root::Store { server, .. } => world.dialect(*server).order == ListingOrder::PromiseBroken,
        Root::Disk(_) => false,
    })
}

fn has_files_named_as_links(before: &Snapshot, root: Root) -> bool {
    let Address::Disk(root) = root.address("") else { return false };
    before.iter().any(|(address, node)| {
        matches!((address, node), (Address::Disk(path), Node::File { .. }) if path.starts_with(&root) && path.ends_with(SUFFIX))
    })
}

pub(crate) fn has_links(before: &Snapshot, root: Root) -> bool {
    let Address::Disk(root) = root.address("") else { return false };
    before.iter().any(|(address, node)| {
        matches!((address, node), (Address::Disk(path), Node::Link(_)) if path.starts_with(&root))
    })
}

/// The object of a key in the target: what it is there, and where.
fn target(root: Root, key: &str, links: Links, object: &Object) -> (Address, Node) {
    let file = Node::File { bytes: object.bytes.clone(), modified: object.modified };
    match key.strip_suffix(SUFFIX).filter(|_| root.is_disk() && links == Links::Preserve) {
        Some(link) => {
            let text = String::from_utf8(object.bytes.clone()).unwrap_or_default();
            (root.address(link), Node::Link(text))
        }
        None => (root.address(key), file),
    }
}

fn is_empty_link(target: Root, key: &str, links: Links, object: &Object) -> bool {
    target.is_disk() && links == Links::Preserve && key.ends_with(SUFFIX) && object.bytes.is_empty()
}

/// The names of a key and of the directories above it.
fn beginnings(key: &str) -> impl Iterator<Item = &str> {
    key.match_indices('/').map(|(end, _)| &key[..end]).chain([key])
}

/// Whether two keys can't both be files on one disk.
fn share_a_name<'a>(keys: impl Iterator<Item = impl AsRef<str> + 'a>, links: Links) -> bool {
    let name = |key: &str| match links {
        Links::Preserve => key.strip_suffix(SUFFIX).unwrap_or(key).to_owned(),
        _ => key.to_owned(),
    };
    let names: Vec<String> = keys.map(|key| name(key.as_ref())).collect();
    let all: BTreeSet<&str> = names.iter().map(|name| &**name).collect();
    let has_one_above = |name: &&String| beginnings(name).any(|above| above != **name && all.contains(above));
    all.len() < names.len() || names.iter().any(|name| has_one_above(&name))
}

enum Way {
    Clear,
    /// What only the target has.
    By(Vec<Address>),
    Blocked,
}

/// What is in the way of the object `key` on the target's disk.
fn in_the_way(
    world: &World,
    case: &Case,
    key: &str,
    links: Links,
    extras: &BTreeMap<&String, &Object>,
) -> Way {
    let Root::Disk(root) = case.target else { return Way::Clear };
    let link = key.strip_suffix(SUFFIX).filter(|_| links == Links::Preserve);
    let name = link.unwrap_or(key);
    let extra = |name: &str| {
        let address = case.target.address(name);
        let is_extra = extras.values().any(|object| object.address == address);
        match is_extra {
            true => Way::By(vec![address]),
            false => Way::Blocked,
        }
    };
    for above in beginnings(name) {
        let path = world.path().join(root).join(above);
        let Ok(found) = path.symlink_metadata() else { return Way::Clear };
        match (above == name, found.is_dir()) {
            (false, true) => {}
            (false, false) => return extra(above),
            (true, true) => {
                let mut below = Vec::new();
                nodes(world, &path, &mut below);
                let is_extra = |address: &Address| extras.values().any(|object| object.address == *address);
                let all = below.iter().all(is_extra) && case.filter.takes_name(name);
                return if all { Way::By(below) } else { Way::Blocked };
            }
            (true, false) if found.is_symlink() && link.is_some() => return Way::Clear,
            (true, false) if found.is_symlink() || link.is_some() => return extra(name),
            (true, false) => return Way::Clear,
        }
    }
    Way::Clear
}

/// All that is below a directory but directories.
fn nodes(world: &World, directory: &Path, found: &mut Vec<Address>) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        match path.symlink_metadata().unwrap().is_dir() {
            true => nodes(world, &path, found),
            false => found.push(address(world, &path)),
        }
    }
}

fn address(world: &World, path: &Path) -> Address {
    let path = path.parent().unwrap().canonicalize().unwrap().join(path.file_name().unwrap());
    Address::Disk(path.strip_prefix(world.path()).unwrap().to_str().unwrap().to_owned())
}

/// The objects below a name of a tree.
fn list(world: &World, before: &Snapshot, root: Root, below: &str, links: Links) -> Listing {
    let mut listing = Listing::default();
    match root {
        Root::Store { server, prefix, .. } => {
            for (address, node) in before {
                if let (Address::Store(at, key), Node::File { bytes, modified }) = (address, node)
                    && let Some(key) = key.strip_prefix(prefix).and_then(|key| key.strip_prefix(below))
                    && *at == server
                {
                    let object = Object {
                        bytes: bytes.clone(),
                        modified: *modified,
                        address: address.clone(),
                        by_link: false,
                    };
                    listing.objects.insert(key.to_owned(), object);
                }
            }
        }
        Root::Disk(name) => {
            let path = world.path().join(name).join(below);
            if path.is_dir() {
                listing.walk(world, &path, "", links, &mut Vec::new());
            }
        }
    }
    listing
}

impl Listing {
    fn walk(&mut self, world: &World, directory: &Path, below: &str, links: Links, above: &mut Vec<PathBuf>) {
        above.push(directory.canonicalize().unwrap());
        for entry in fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            let key = format!("{below}{}", path.file_name().unwrap().to_str().unwrap());
            let is_link = path.is_symlink();
            if is_link && links == Links::Skip {
                self.left_out.insert(key);
            } else if is_link && links == Links::Preserve {
                let text = fs::read_link(&path).unwrap().to_str().unwrap().as_bytes().to_vec();
                self.add(world, format!("{key}{SUFFIX}"), &path, text, false);
            } else if !path.exists() {
                self.broken.insert(key);
            } else if path.is_file() {
                let bytes = fs::read(&path).unwrap();
                self.add(world, key, &path, bytes, is_link);
            } else if is_link && links != Links::Follow {
                self.left_out.insert(key);
            } else if above.contains(&path.canonicalize().unwrap())
                || path.canonicalize().is_ok_and(|path| world.path().starts_with(path))
            {
                self.ways_back.insert(key.clone());
                self.left_out.insert(key);
            } else {
                self.walk(world, &path, &format!("{key}/"), links, above);
            }
        }
        above.pop();
    }

    fn add(&mut self, world: &World, key: String, path: &Path, bytes: Vec<u8>, by_link: bool) {
        let modified = match by_link {
            true => path.metadata().unwrap().modified().unwrap(),
            false => path.symlink_metadata().unwrap().modified().unwrap(),
        };
        // Behind a followed link, the object is a file elsewhere.
        let object = Object { bytes, modified, address: address(world, path), by_link };
        self.clashes |= self.objects.insert(key, object).is_some();
    }
}

/// An object that a command takes, and its name in the target.
struct Item {
    key: String,
    name: String,
    object: Object,
}

/// The objects that a command takes.
#[derive(Default)]
struct Taken {
    items: Vec<Item>,
    /// Some that the command names are missing.
    misses: bool,
    /// A tree is named without `-r`.
    is_refused: bool,
    /// Two of them have one key, or one of them is named twice.
    clashes: bool,
    is_broken: bool,
    leaves_out: bool,
}

fn select(case: &Case, world: &World, before: &Snapshot, what: &What, links: Links) -> Taken {
    let listing = list(world, before, case.source, what.below(), links);
    let mut taken = Taken { clashes: listing.clashes, ..Taken::default() };
    if let What::Below(names) | What::Whole(names) = what {
        let mut keys = BTreeSet::new();
        for name in names {
            // A directory is left out, also where a link has its name as an object.
            if let Address::Disk(path) = case.source.address(name)
                && world.path().join(&path).is_dir()
                && !(links == Links::Preserve && world.path().join(&path).is_symlink())
            {
                taken.misses = true;
                continue;
            }
            let link = format!("{name}{SUFFIX}");
            let is_link = links == Links::Preserve
                && listing
                    .objects
                    .get(&link)
                    .is_some_and(|object| object.address == case.source.address(name));
            let key = if is_link { &link } else { name };
            taken.misses |= !listing.objects.contains_key(key) || !keys.insert(key.clone());
        }
        let items = keys.into_iter().filter_map(|key| {
            let last = key.rsplit('/').next().unwrap_or_default();
            let name = if matches!(what, What::Whole(_)) { last.to_owned() } else { key.clone() };
            Some(Item { object: listing.objects.get(&key)?.clone(), key, name })
        });
        taken.items = items.collect();
    } else {
        taken.add(case, what, &listing, "");
    }
    taken
}

impl Taken {
    /// Adds what a tree or a pattern takes of a listing, with names below `to`.
    fn add(&mut self, case: &Case, what: &What, listing: &Listing, to: &str) {
        let takes_name = |name: &String| takes(case, what, name, None);
        self.is_broken |= listing.broken.iter().any(takes_name);
        // A pattern of one level names no directories.
        let names_directories = !matches!(what, What::Pattern { recursive: false, .. });
        self.leaves_out |= listing
            .left_out
            .iter()
            .any(|name| takes_name(name) && (names_directories || !listing.ways_back.contains(name)));
        self.clashes |= listing.clashes;
        for (key, object) in &listing.objects {
            if takes(case, what, key, Some(object.bytes.len() as u64)) {
                self.items.push(Item {
                    key: key.clone(),
                    name: format!("{to}{key}"),
                    object: object.clone(),
                });
            }
        }
    }
}

/// What several sources take: each an object, a tree or a pattern.
fn several(
    case: &Case,
    world: &World,
    before: &Snapshot,
    pieces: &[Piece],
    recursive: bool,
    links: Links,
) -> Taken {
    let mut taken = Taken::default();
    for Piece { root, name } in pieces {
        let items = taken.items.len();
        let is_directory = match root {
            Root::Disk(root) => world.path().join(root).join(name).is_dir(),
            Root::Store { .. } => true,
        };
        let last = last(name);
        if name.contains('*') {
            let what = What::Pattern { pattern: name, recursive };
            taken.add(case, &what, &list(world, before, *root, what.below(), links), "");
        } else if recursive && is_directory {
            let (below, to) = match name.is_empty() || name.ends_with('/') {
                true => ((*name).to_owned(), String::new()),
                false => (format!("{name}/"), format!("{last}/")),
            };
            taken.add(case, &What::Tree, &list(world, before, *root, &below, links), &to);
        } else if name.is_empty() || name.ends_with('/') || root.is_disk() && is_directory {
            taken.is_refused = true;
        } else {
            let is_link = links == Links::Preserve
                && matches!(root, Root::Disk(root) if world.path().join(root).join(name).is_symlink());
            let suffix = if is_link { SUFFIX } else { "" };
            let key = format!("{name}{suffix}");
            if let Some(object) = list(world, before, *root, "", links).objects.get(&key)
                && case.filter.takes(last, object.bytes.len() as u64)
            {
                let name = format!("{last}{suffix}");
                taken.items.push(Item { key, name, object: object.clone() });
            }
        }
        taken.misses |= taken.items.len() == items;
    }
    let addresses: BTreeSet<_> = taken.items.iter().map(|item| &item.object.address).collect();
    taken.clashes |= addresses.len() < taken.items.len();
    taken
}

impl What {
    /// The directory that the names of a pattern are below.
    fn below(&self) -> &str {
        let Self::Pattern { pattern, .. } = self else { return "" };
        let literal = pattern.split('*').next().unwrap_or_default();
        &pattern[..literal.rfind('/').map_or(0, |slash| slash + 1)]
    }
}

/// Whether a list names files behind links.
fn names_lead_through_links(case: &Case, world: &World, what: &What) -> bool {
    if let What::Several { pieces, .. } = what {
        return pieces.iter().any(|piece| match piece.root {
            Root::Disk(root) => {
                beginnings(piece.name).any(|name| world.path().join(root).join(name).is_symlink())
            }
            Root::Store { .. } => false,
        });
    }
    let (What::Below(names) | What::Whole(names), Root::Disk(root)) = (what, case.source) else {
        return false;
    };
    let root = world.path().join(root);
    let is_behind =
        |name: &String| beginnings(name).any(|above| above != name && root.join(above).is_symlink());
    names.iter().any(is_behind)
}

/// Whether a command takes a name; what is no object has no size.
fn takes(case: &Case, what: &What, name: &str, size: Option<u64>) -> bool {
    let matches = match what {
        What::Pattern { pattern, recursive } => {
            let pattern = &pattern[what.below().len()..];
            glob(pattern, name) || *recursive && beginnings(name).any(|name| glob(pattern, name))
        }
        _ => true,
    };
    matches
        && match size {
            Some(size) => case.filter.takes(name, size),
            None => !matches!(case.filter, Filter::MaxSize(_)) && case.filter.takes_name(name),
        }
}

impl Filter {
    fn takes(self, key: &str, size: u64) -> bool {
        self.takes_name(key) && !matches!(self, Self::MaxSize(most) if size > most)
    }

    fn takes_name(self, key: &str) -> bool {
        let matches = |pattern: &str| match pattern.strip_prefix('/') {
            Some(pattern) => beginnings(key).any(|name| glob(pattern, name)),
            None => {
                let starts = key.match_indices('/').map(|(at, _)| at + 1).chain([0]);
                starts.into_iter().any(|start| beginnings(&key[start..]).any(|name| glob(pattern, name)))
            }
        };
        match self {
            Self::Include(pattern) => matches(pattern),
            Self::Exclude(pattern) => !matches(pattern),
            Self::Everything | Self::MaxSize(_) => true,
        }
    }
}

/// `*` stands for anything but `/`, and `**` for anything.
fn glob(pattern: &str, text: &str) -> bool {
    let ends = || (0..=text.len()).filter(|end| text.is_char_boundary(*end));
    if let Some(rest) = pattern.strip_prefix("**/") {
        return glob(rest, text) || text.match_indices('/').any(|(at, _)| glob(rest, &text[at + 1..]));
    }
    if let Some(rest) = pattern.strip_prefix("**") {
        return ends().any(|end| glob(rest, &text[end..]));
    }
    if let Some(rest) = pattern.strip_prefix('*') {
        return ends().any(|end| !text[..end].contains('/') && glob(rest, &text[end..]));
    }
    match (pattern.chars().next(), text.chars().next()) {
        (None, None) => true,
        (Some(one), Some(other)) if one == other => {
            glob(&pattern[one.len_utf8()..], &text[other.len_utf8()..])
        }
        _ => false,
    }
}
