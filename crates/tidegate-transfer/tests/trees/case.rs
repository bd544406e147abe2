//! A case: two small trees, a command, and what goes wrong meanwhile. All of it comes from one number.

use std::fs;
use std::os::unix::fs::symlink;

use fastrand::Rng;
use futures::StreamExt;
use futures::stream;
use tidegate::Tidegate;
use tidegate_transfer::{
    AfterCopy, Comparison, CopyTrees, Error, Extra, FileOptions, IfExists, Links, NameList, ObjectFilter,
    Planted, RemoveTrees, Run, Source, SyncTrees, Tree, Wildcards,
};

use crate::world::{Address, Dialect, Fails, ListingOrder, World, time};

/// Names that collide on a disk, in the order of their bytes, or where links have names of their own.
const NAMES: [&str; 14] = [
    "x",
    "x/y",
    "x-",
    "x.rclonelink",
    "x/y/z",
    ".a",
    "é",
    "%41",
    "A",
    "d/",
    "d/f",
    "d/g",
    "d",
    "d/f.rclonelink",
];
/// Trees and patterns among several sources.
const TREES: [&str; 8] = ["", "d", "d/", "x", "x/", "x*", "d/**", "**/y"];
const CONTENTS: [&str; 7] = ["1", "2", "3", "11", "22", "x", ""];
const LINKS: [&str; 7] = ["x", "d", "nowhere", "../out/f", "../out", ".", "x-"];
/// In milliseconds; the first ones are in one second.
const TIMES: [u64; 6] = [5000, 5200, 5900, 3000, 7000, 9100];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Root {
    /// A directory of the case.
    Disk(&'static str),
    Store {
        scheme: &'static str,
        server: usize,
        prefix: &'static str,
    },
}

#[derive(Clone, Debug)]
pub(crate) enum Kind {
    File(&'static str, u64),
    Link(&'static str),
    Directory,
}

#[derive(Clone, Debug)]
pub(crate) struct Named {
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Filter {
    Everything,
    Include(&'static str),
    Exclude(&'static str),
    MaxSize(u64),
}

#[derive(Clone, Debug)]
pub(crate) enum What {
    Tree,
    Pattern {
        pattern: &'static str,
        recursive: bool,
    },
    /// A list of names below the source.
    Below(Vec<String>),
    /// A list of names below the source, each by its whole URL or path.
    Whole(Vec<String>),
    /// Several sources in one command.
    Several {
        pieces: Vec<Piece>,
        recursive: bool,
    },
}

/// One of several sources: an object, a tree or a pattern below a root, which may be another address of the source, or
/// the target.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Piece {
    pub(crate) root: Root,
    pub(crate) name: &'static str,
}

#[derive(Clone, Debug)]
pub(crate) enum Command {
    Sync { extra: Extra, max_delete: Option<u64>, by: Comparison, links: Links },
    Copy { what: What, moves: bool, if_exists: IfExists, links: Links },
    Remove { what: What },
}

/// What happens between a first synchronization and the command.
#[derive(Clone, Debug)]
pub(crate) enum Change {
    Source(Named),
    Target(Named),
    RemoveSource(&'static str),
    RemoveTarget(&'static str),
}

#[derive(Clone, Debug)]
pub(crate) struct Case {
    pub(crate) seed: u64,
    pub(crate) source: Root,
    pub(crate) target: Root,
    source_tree: Vec<Named>,
    target_tree: Vec<Named>,
    pub(crate) filter: Filter,
    pub(crate) command: Command,
    /// The changes after a first synchronization, if there was one.
    pub(crate) changes: Option<Vec<Change>>,
    pub(crate) fails: Option<(u32, Fails)>,
    /// The command is dropped after so many of its steps.
    pub(crate) killed_after: Option<u32>,
    dialects: [Dialect; 2],
    start: u64,
    step: u64,
    pub(crate) pause: u64,
}

fn dialect(rng: &mut Rng) -> Dialect {
    Dialect {
        whole_seconds: rng.bool(),
        opaque_tags: rng.u8(..4) == 0,
        lists_checksums: rng.bool(),
        copies: rng.bool(),
        order: match rng.u8(..24) {
            0 => ListingOrder::PromiseBroken,
            1..4 => ListingOrder::ByDirectory,
            _ => ListingOrder::ByKey,
        },
    }
}

fn pick<T: Clone>(rng: &mut Rng, all: &[T]) -> T {
    all[rng.usize(..all.len())].clone()
}

fn named(rng: &mut Rng, root: Root) -> Named {
    let name = pick(rng, &NAMES);
    let is_disk = matches!(root, Root::Disk(_));
    let kind = match rng.u8(..10) {
        0 | 1 if is_disk => Kind::Link(pick(rng, &LINKS)),
        2 if is_disk => Kind::Directory,
        // A directory's marker is empty.
        _ if name.ends_with('/') => Kind::File("", pick(rng, &TIMES)),
        _ => Kind::File(pick(rng, &CONTENTS), pick(rng, &TIMES)),
    };
    Named { name, kind }
}

fn root(rng: &mut Rng, prefix: &'static str) -> Root {
    match rng.u8(..4) {
        0 | 1 => Root::Disk(prefix.trim_end_matches('/')),
        2 => Root::Store { scheme: "wild", server: 0, prefix },
        _ => Root::Store { scheme: "wild", server: 1, prefix: if rng.bool() { prefix } else { "" } },
    }
}

fn target(rng: &mut Rng, source: Root) -> Root {
    match (rng.u8(..12), source) {
        // Two addresses of one server, and two names of one directory.
        (0, Root::Store { server: 0, .. }) => {
            Root::Store { scheme: "tame", server: 0, prefix: pick(rng, &["s/", "t/", "", "s/x/"]) }
        }
        (1, Root::Store { scheme, server, .. }) => {
            Root::Store { scheme, server, prefix: pick(rng, &["s/", "s/x/", ""]) }
        }
        (0 | 1, Root::Disk(_)) => Root::Disk(pick(rng, &["s", "s2", "s/x", "s2/d"])),
        _ => root(rng, "t/"),
    }
}

fn piece(rng: &mut Rng, source: Root, target: Root) -> Piece {
    let root = match (rng.u8(..8), source) {
        (0, Root::Store { server: 0, scheme, prefix }) => {
            Root::Store { scheme: if scheme == "tame" { "wild" } else { "tame" }, server: 0, prefix }
        }
        (1, _) => target,
        _ => source,
    };
    let name = if rng.bool() { pick(rng, &TREES) } else { pick(rng, &NAMES) };
    Piece { root, name }
}

impl Case {
    pub(crate) fn new(seed: u64) -> Self {
        let rng = &mut Rng::with_seed(seed);
        let source = root(rng, "s/");
        let target = target(rng, source);
        let tree = |rng: &mut Rng, root| (0..rng.usize(..=8)).map(|_| named(rng, root)).collect::<Vec<_>>();
        let (source_tree, mut target_tree) = (tree(rng, source), tree(rng, target));
        if rng.bool() {
            // Much that both sides have.
            target_tree.extend(source_tree.iter().filter(|_| rng.bool()).cloned().collect::<Vec<_>>());
        }
        let filter = match rng.u8(..9) {
            0 => Filter::Include(pick(rng, &["x*", "d", "/x/y", "*"])),
            1 => Filter::Exclude(pick(rng, &["x*", "d", "/x/y", "y", "*.rclonelink"])),
            2 => Filter::MaxSize(1),
            _ => Filter::Everything,
        };
        let links = pick(
            rng,
            &[Links::Files, Links::Files, Links::Skip, Links::Follow, Links::Preserve, Links::Preserve],
        );
        let what = match rng.u8(..8) {
            6 | 7 => {
                let pieces = (0..rng.usize(2..=3)).map(|_| piece(rng, source, target)).collect();
                What::Several { pieces, recursive: rng.u8(..3) > 0 }
            }
            0 => {
                let pattern = pick(rng, &["*", "x*", "**", "x/*", "**/y", "d/**", "x**"]);
                What::Pattern { pattern, recursive: rng.bool() }
            }
            kind @ 1..=3 => {
                let mut names: Vec<String> = source_tree.iter().map(|named| named.name.to_owned()).collect();
                names.retain(|name| !name.ends_with('/') && rng.u8(..5) > 0);
                names.sort();
                names.dedup();
                if rng.u8(..8) == 0 {
                    names.push("missing".to_owned());
                }
                if kind == 1 { What::Whole(names) } else { What::Below(names) }
            }
            _ => What::Tree,
        };
        let if_exists = pick(
            rng,
            &[IfExists::Replace, IfExists::Replace, IfExists::Replace, IfExists::Skip, IfExists::Fail],
        );
        let command = match rng.u8(..10) {
            0..=4 => Command::Sync {
                extra: pick(rng, &[Extra::Keep, Extra::Remove, Extra::Remove, Extra::RemoveAll]),
                max_delete: (rng.u8(..6) == 0).then_some(1),
                by: pick(
                    rng,
                    &[
                        Comparison::Time,
                        Comparison::Time,
                        Comparison::Time,
                        Comparison::Size,
                        Comparison::Checksum,
                    ],
                ),
                links,
            },
            5..=8 => Command::Copy { what, moves: rng.u8(..3) > 0, if_exists, links },
            _ => Command::Remove { what },
        };
        // A list takes no filter.
        let is_listed = matches!(
            command,
            Command::Copy { what: What::Below(_) | What::Whole(_), .. }
                | Command::Remove { what: What::Below(_) | What::Whole(_) }
        );
        let filter = if is_listed { Filter::Everything } else { filter };
        let has_history = matches!(command, Command::Sync { .. }) && rng.u8(..3) == 0;
        let changes = has_history.then(|| {
            let change = |rng: &mut Rng| match rng.u8(..8) {
                0 => Change::RemoveSource(pick(rng, &NAMES)),
                1 => Change::RemoveTarget(pick(rng, &NAMES)),
                2 => Change::Target(named(rng, target)),
                // What was there is replaced.
                3..=5 if !source_tree.is_empty() => {
                    let Named { name, .. } = pick(rng, &source_tree);
                    Change::Source(Named { name, ..named(rng, source) })
                }
                _ => Change::Source(named(rng, source)),
            };
            (0..rng.usize(1..4)).map(|_| change(rng)).collect()
        });
        let goes_wrong = rng.u8(..6);
        let all = [Fails::Denied, Fails::Undone, Fails::Unreachable, Fails::AnswerLost];
        Self {
            seed,
            source,
            target,
            source_tree,
            target_tree,
            filter,
            command,
            changes,
            fails: (goes_wrong == 0).then(|| (rng.u32(1..14), pick(rng, &all))),
            killed_after: (goes_wrong == 1).then(|| rng.u32(1..40)),
            dialects: [dialect(rng), dialect(rng)],
            start: pick(rng, &[9300, 12_000, 60_000]),
            step: pick(rng, &[1, 150, 900]),
            pause: pick(rng, &[0, 300, 3000]),
        }
    }

    /// The roots that the command takes objects of.
    pub(crate) fn roots(&self) -> impl Iterator<Item = Root> {
        let pieces = match &self.command {
            Command::Copy { what: What::Several { pieces, .. }, .. }
            | Command::Remove { what: What::Several { pieces, .. } } => &pieces[..],
            _ => &[],
        };
        let source = pieces.is_empty().then_some(self.source);
        source.into_iter().chain(pieces.iter().map(|piece| piece.root))
    }

    /// The places of the case, with its trees.
    pub(crate) fn world(&self) -> World {
        let world = World::new(self.dialects, self.start, self.step);
        for directory in ["s", "out/d"] {
            fs::create_dir_all(world.path().join(directory)).unwrap();
        }
        symlink("s", world.path().join("s2")).unwrap();
        for name in ["out/f", "out/d/g"] {
            fs::write(world.path().join(name), "out").unwrap();
            let file = fs::File::options().write(true).open(world.path().join(name)).unwrap();
            file.set_modified(time(TIMES[0])).unwrap();
        }
        for server in 0..2 {
            world.put(server, "beside", b"beside", 1000);
        }
        for (root, tree) in [(self.source, &self.source_tree), (self.target, &self.target_tree)] {
            if let Root::Disk(name) = root
                && (!self.seed.is_multiple_of(4) || name != "t")
            {
                let _ = fs::create_dir_all(world.path().join(name));
            }
            tree.iter().for_each(|named| add(&world, root, named));
        }
        world
    }

    pub(crate) fn change(&self, world: &World) {
        for change in self.changes.iter().flatten() {
            let now = world.now();
            let at_now = |named: &Named| match named.kind {
                Kind::File(bytes, _) => Named { kind: Kind::File(bytes, now), ..*named },
                _ => named.clone(),
            };
            match change {
                Change::Source(named) => add(world, self.source, &at_now(named)),
                Change::Target(named) => add(world, self.target, &at_now(named)),
                Change::RemoveSource(name) => remove(world, self.source, name),
                Change::RemoveTarget(name) => remove(world, self.target, name),
            }
            world.wait(100);
        }
    }

    /// The command.
    pub(crate) fn start(
        &self,
        world: &World,
        tide: &Tidegate,
        dry_run: bool,
        planted: Option<Planted>,
    ) -> Result<Run, Error> {
        let source = self.source.url(world);
        let filter = self.filter.object_filter()?;
        let parsed = |text: &str, recursive| Source::parse(text.as_ref(), Wildcards::Pattern, recursive);
        let of = |what: &What| match what {
            What::Tree => Ok((vec![parsed(&source, true)?], None, true)),
            What::Pattern { pattern, recursive } => {
                Ok((vec![parsed(&format!("{source}{pattern}"), *recursive)?], None, *recursive))
            }
            What::Below(names) => Ok((vec![parsed(&source, false)?], Some(list(names.clone())), false)),
            What::Whole(names) => {
                let names = names.iter().map(|name| format!("{source}{name}")).collect();
                Ok::<_, Error>((vec![], Some(list(names)), false))
            }
            What::Several { pieces, recursive } => {
                let text = |piece: &Piece| format!("{}{}", piece.root.url(world), piece.name);
                let sources = pieces.iter().map(|piece| parsed(&text(piece), *recursive));
                Ok((sources.collect::<Result<_, _>>()?, None, *recursive))
            }
        };
        Ok(match &self.command {
            Command::Sync { extra, max_delete, by, links } => {
                let tree = |root| tree(world, tide, root);
                let sync = SyncTrees::new(tree(self.source), tree(self.target)).filter(filter).delete(*extra);
                let files = FileOptions { links: *links, ..FileOptions::default() };
                sync.max_delete(*max_delete)
                    .compare(*by)
                    .files(files)
                    .dry_run(dry_run)
                    .planted(planted)
                    .start()
            }
            Command::Copy { what, moves, if_exists, links } => {
                let target = self.target.url(world).parse()?;
                let (sources, names, recursive) = of(what)?;
                let copy = match names {
                    Some(names) => CopyTrees::listed(tide, sources.into_iter().next(), names, target),
                    None => CopyTrees::new(tide, sources, target).recursive(recursive),
                };
                let files = FileOptions { links: *links, ..FileOptions::default() };
                let after = if *moves { AfterCopy::Remove } else { AfterCopy::Keep };
                let copy = copy.filter(filter).files(files).if_exists(*if_exists).after(after);
                copy.dry_run(dry_run).planted(planted).start()
            }
            Command::Remove { what } => {
                let (sources, names, recursive) = of(what)?;
                let remove = match names {
                    Some(names) => RemoveTrees::listed(tide, sources.into_iter().next(), names),
                    None => RemoveTrees::new(tide, sources).recursive(recursive),
                };
                remove.filter(filter).dry_run(dry_run).start()
            }
        })
    }
}

fn list(names: Vec<String>) -> NameList {
    NameList { from: "the list".to_owned(), names: stream::iter(names.into_iter().map(Ok)).boxed() }
}

fn tree(world: &World, tide: &Tidegate, root: Root) -> Tree {
    match root {
        Root::Disk(name) => Tree::directory(tide, world.path().join(name)),
        Root::Store { prefix, .. } => {
            let url = root.url(world);
            let bucket = url.strip_suffix(prefix).unwrap().trim_end_matches('/').to_owned();
            let store = futures::executor::block_on(tide.open(bucket).into_future()).unwrap();
            Tree::new(&store, prefix)
        }
    }
}

impl Piece {
    pub(crate) fn is_pattern(&self) -> bool {
        self.name.contains('*')
    }
}

impl Root {
    /// The URL or path, with a slash at its end.
    pub(crate) fn url(self, world: &World) -> String {
        match self {
            Self::Disk(name) => format!("{}/", world.path().join(name).display()),
            Self::Store { scheme, server, prefix } => {
                format!("{scheme}://{}/{prefix}", ["one", "two"][server])
            }
        }
    }

    pub(crate) fn is_disk(self) -> bool {
        matches!(self, Self::Disk(_))
    }

    /// Where a name below it is.
    pub(crate) fn address(self, name: &str) -> Address {
        match self {
            Self::Disk(root) => Address::Disk(format!("{}/{name}", root.replacen("s2", "s", 1))),
            Self::Store { server, prefix, .. } => Address::Store(server, format!("{prefix}{name}")),
        }
    }

    /// Whether one of two roots is in the other, or both are one, by whatever address.
    pub(crate) fn overlaps(self, other: Self) -> bool {
        match (self.address(""), other.address("")) {
            (Address::Disk(one), Address::Disk(other)) => one.starts_with(&other) || other.starts_with(&one),
            (Address::Store(server, one), Address::Store(theirs, other)) => {
                server == theirs && (one.starts_with(&other) || other.starts_with(&one))
            }
            _ => false,
        }
    }
}

/// Adds an entry if its name is free, and what it needs too.
fn add(world: &World, root: Root, named: &Named) {
    match (root, &named.kind) {
        (Root::Store { server, prefix, .. }, Kind::File(bytes, modified)) => {
            world.put(server, &format!("{prefix}{}", named.name), bytes.as_bytes(), *modified);
        }
        (Root::Store { .. }, _) => {}
        (Root::Disk(name), kind) => {
            let path = world.path().join(name).join(named.name.trim_end_matches('/'));
            let is_new = path.symlink_metadata().is_err();
            let is_replaced = path.is_file() && !path.is_symlink();
            if named.name.ends_with('/') && !matches!(kind, Kind::Directory)
                || fs::create_dir_all(path.parent().unwrap()).is_err()
                || !path
                    .parent()
                    .unwrap()
                    .canonicalize()
                    .unwrap()
                    .starts_with(world.path().join(name).canonicalize().unwrap())
                || !is_new && !is_replaced
            {
                return;
            }
            if is_replaced {
                fs::remove_file(&path).unwrap();
            }
            match kind {
                Kind::File(bytes, modified) => {
                    fs::write(&path, bytes).unwrap();
                    fs::File::options()
                        .write(true)
                        .open(&path)
                        .unwrap()
                        .set_modified(time(*modified))
                        .unwrap();
                }
                Kind::Link(text) => {
                    symlink(text, &path).unwrap();
                    let since = time(TIMES[0]).duration_since(std::time::UNIX_EPOCH).unwrap();
                    let time = rustix::fs::Timespec { tv_sec: since.as_secs() as i64, tv_nsec: 0 };
                    let times = rustix::fs::Timestamps { last_access: time, last_modification: time };
                    let flags = rustix::fs::AtFlags::SYMLINK_NOFOLLOW;
                    rustix::fs::utimensat(rustix::fs::CWD, &path, &times, flags).unwrap();
                }
                Kind::Directory => fs::create_dir(&path).unwrap(),
            }
        }
    }
}

fn remove(world: &World, root: Root, name: &str) {
    match root {
        Root::Store { server, prefix, .. } => world.remove(server, &format!("{prefix}{name}")),
        Root::Disk(root) => {
            let path = world.path().join(root).join(name.trim_end_matches('/'));
            // A file may become a directory, and a directory a file.
            let _ = fs::remove_file(&path).or_else(|_| fs::remove_dir_all(&path));
        }
    }
}

impl Filter {
    fn object_filter(self) -> Result<ObjectFilter, Error> {
        let filter = ObjectFilter::default();
        match self {
            Self::Everything => Ok(filter),
            Self::Include(pattern) => filter.include(pattern),
            Self::Exclude(pattern) => filter.exclude(pattern),
            Self::MaxSize(most) => Ok(filter.max_size(most)),
        }
    }
}
