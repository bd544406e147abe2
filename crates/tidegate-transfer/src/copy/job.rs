//! The settings and state that all transfers of one command share.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::SystemTime;

use crate::attributes;
use tidegate::backend::OtherKind;
use tidegate::download::DownloadBuilder;
use tidegate::location::{Location, local_root};
use tidegate::object::FileAttributes;
use tidegate::upload::{CopyBuilder, WriterBuilder};
use tidegate::{Attributes, Object, Strategy};

use super::carried::LeftOut;
use super::emptied::EmptiedDirectories;
use super::link::DeferredLinks;
use crate::event::Events;
use crate::figures::count;
use crate::links::{FileOptions, Links, WriteLinks, skipped_links};
use crate::place::{Place, Stores};
use crate::planted::Plants;
use crate::two_addresses::{self, Distinct};

/// The stores of both sides of an operation.
#[derive(Clone, Debug)]
pub(crate) struct Sides {
    pub(crate) source: Stores,
    pub(crate) target: Stores,
    /// Whether the two sides have settings of their own, so that the target's account may not read the source.
    pub(crate) are_apart: bool,
}

impl Sides {
    /// Whether a source and a target may be reached by different accounts.
    pub(crate) fn are_apart(&self, from: &Place, to: &Place) -> bool {
        let profile = |place: &Place| {
            let location = place.store.location().parse::<Location>().ok()?;
            location.profile().map(str::to_owned)
        };
        self.are_apart || profile(from) != profile(to)
    }
}

/// The shared settings and state of one operation that copies or moves objects.
#[derive(Debug)]
pub(crate) struct CopyJob {
    pub(crate) stores: Sides,
    pub(crate) writing: CopyWriteSettings,
    pub(crate) events: Events,
    /// The journal directories.
    pub(crate) journals: Vec<PathBuf>,
    /// Directories that are never read, by whatever path.
    pub(crate) except: Vec<PathBuf>,
    /// How many files the operation may have open.
    pub(crate) open_files: usize,
    /// Whether each object is read back and compared after it was written.
    pub(crate) verifies: bool,
    /// Whether to say only what would be done.
    pub(crate) is_dry_run: bool,
    /// The links that are made when all files are in place.
    pub(crate) links: DeferredLinks,
    /// The directories that files were moved from.
    pub(crate) emptied: EmptiedDirectories,
    pub(crate) distinct: Distinct,
    pub(crate) plants: Plants,
}

/// What happens to the source of a copy once the target is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AfterCopy {
    /// It stays.
    Keep,
    /// It is removed, unless it has changed meanwhile.
    Remove,
}

/// What to do if the target exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum IfExists {
    /// It is replaced.
    Replace,
    /// The copy fails.
    Fail,
    /// The object is skipped. Takes one request for each object.
    Skip,
}

impl CopyJob {
    pub(crate) fn moves(&self) -> bool {
        self.writing.after == AfterCopy::Remove
    }

    /// Whether a copy must first prove that it does not replace an object of its source by another address.
    pub(crate) fn wants_proof(&self, from: &Place, to: &Place) -> bool {
        if !self.distinct.wants_proof() || from.is_local() || to.is_local() {
            return false;
        }
        match self.moves() {
            true => two_addresses::may_replace_source(from, to),
            false => two_addresses::may_replace_another_source(from, to),
        }
    }

    /// Whether each object is copied, without a look at the target and without anything afterwards.
    pub(crate) fn is_plain(&self) -> bool {
        !self.moves() && !self.is_dry_run && self.writing.if_exists != IfExists::Skip
    }

    /// Reports at the end of the command what was left out of all its objects.
    pub(crate) fn report_left_out(&self) {
        self.writing.warnings().for_each(|line| self.events.warn(line));
        skipped_links(self.writing.skipped_links.load(Relaxed))
            .into_iter()
            .for_each(|line| self.events.say(line));
    }

    /// Reports a name in a directory that is not copied.
    pub(crate) fn leave_out(&self, path: &Path, kind: OtherKind) {
        let follows = self.writing.links() == Links::Follow;
        self.events.leave_out(path, kind, follows, &self.writing.skipped_links);
    }
}

/// How objects are written.
#[derive(Debug)]
pub(crate) struct CopyWriteSettings {
    strategy: Strategy,
    after: AfterCopy,
    pub(crate) if_exists: IfExists,
    /// Whether downloaded files are forced to disk.
    sync: bool,
    /// Whether downloaded files have the times of their objects.
    keep_modified: bool,
    files: FileOptions,
    /// The size that the one source must have.
    pub(crate) expect_size: Option<u64>,
    attributes: Attributes,
    /// The attributes that targets could not hold.
    pub(crate) left_out: LeftOut,
    /// How many times and modes in the metadata of downloaded objects made no sense.
    ignored: AtomicU64,
    /// How many symbolic links were left out, as asked for.
    skipped_links: AtomicU64,
    /// Whether the first copy that the store was to make itself was allowed.
    allows_copies: OnceLock<bool>,
}

impl CopyWriteSettings {
    pub(crate) fn new(
        strategy: Strategy,
        if_exists: IfExists,
        sync: bool,
        expect_size: Option<u64>,
        attributes: Attributes,
    ) -> Self {
        Self {
            strategy,
            after: AfterCopy::Keep,
            if_exists,
            sync,
            keep_modified: false,
            files: FileOptions::default(),
            expect_size,
            attributes,
            left_out: LeftOut::default(),
            ignored: AtomicU64::new(0),
            skipped_links: AtomicU64::new(0),
            allows_copies: OnceLock::new(),
        }
    }

    /// The same settings for a move, or not.
    pub(crate) fn then(self, after: AfterCopy) -> Self {
        Self { after, ..self }
    }

    /// The same settings with these options about files.
    pub(crate) fn with_files(self, files: FileOptions) -> Self {
        Self { files, ..self }
    }

    /// The settings of `sync`: objects are replaced, and downloaded files have the times of their objects.
    pub(crate) fn of_sync(attributes: Attributes, fsync: bool) -> Self {
        Self { keep_modified: true, ..Self::new(Strategy::Auto, IfExists::Replace, fsync, None, attributes) }
    }

    /// Whether an object that exists is never replaced.
    fn creates_only(&self) -> bool {
        self.if_exists != IfExists::Replace
    }

    pub(crate) fn is_journaled(&self) -> bool {
        self.strategy == Strategy::Journal
    }

    /// A writer for `place` with the user's settings.
    pub(crate) fn builder(&self, place: &Place) -> WriterBuilder {
        let builder = place.store.writer(&place.key).strategy(self.strategy);
        let builder = builder.attributes(self.attributes.clone());
        if self.creates_only() { builder.create_only() } else { builder }
    }

    /// The same for the upload of a file.
    pub(crate) fn file_builder(&self, place: &Place) -> WriterBuilder {
        self.builder(place).preserve(self.files.preserve)
    }

    /// Whether times and permissions of files are preserved.
    pub(crate) fn preserves(&self) -> bool {
        self.files.preserve
    }

    /// The time that is kept of a link: in the metadata of its object, or as the time of the link that is made.
    pub(crate) fn time_of_link(&self, object: &Object, from: &Place, to: &Place) -> Option<SystemTime> {
        let is_download = to.is_local() && !from.is_local();
        let kept = match self.files.preserve {
            true if from.is_local() => object.modified,
            true => FileAttributes::from_metadata(&object.attributes.metadata).0.modified,
            false => None,
        };
        kept.or(object.modified.filter(|_| is_download && self.keep_modified))
    }

    /// A download of `place` to the file `path` at `to`, with the user's settings.
    pub(crate) fn download(&self, place: &Place, to: &Place, path: PathBuf) -> DownloadBuilder {
        let builder =
            place.store.download(&place.key, path).sync(self.sync).keep_modified(self.keep_modified);
        let builder = builder.preserve(self.files.preserve);
        // Through a link, the file of one object could replace that of another, whose source a move has removed.
        let builder = match (to.links, self.after) {
            (WriteLinks::Refuse, _) | (WriteLinks::Follow, AfterCopy::Remove) => {
                builder.refuse_links_below(local_root(&to.store.location()))
            }
            (WriteLinks::Follow, AfterCopy::Keep) => builder,
        };
        if self.creates_only() { builder.create_only() } else { builder }
    }

    /// A writer for a copy to `to` of an object with the attributes `theirs`: attributes that the user did not set
    /// are taken over.
    pub(crate) fn builder_like(&self, to: &Place, theirs: Attributes) -> WriterBuilder {
        let mut attributes = self.attributes.clone();
        attributes.content_type = attributes.content_type.or(theirs.content_type);
        attributes.cache_control = attributes.cache_control.or(theirs.cache_control);
        attributes.content_encoding = theirs.content_encoding;
        attributes.content_disposition = theirs.content_disposition;
        attributes.content_language = theirs.content_language;
        attributes.expires = theirs.expires;
        attributes.storage_class = attributes.storage_class.or(theirs.storage_class);
        if attributes.metadata.is_empty() {
            attributes.metadata = theirs.metadata;
        }
        if attributes.tags.is_empty() {
            attributes.tags = theirs.tags;
        }
        self.builder(to).attributes(attributes)
    }

    /// A copy that the store makes itself: `None` unless both places are on one store that can, and the user chose no
    /// strategy.
    pub(crate) fn copy_within(&self, from: &Place, to: &Place) -> Option<CopyBuilder> {
        if self.allows_copies.get() == Some(&false)
            || self.strategy != Strategy::Auto
            || !from.store.is_one_with(&to.store)
        {
            return None;
        }
        let copy = from.store.copy(&from.key, &to.store, &to.key).attributes(self.attributes.clone());
        Some(if self.creates_only() { copy.create_only() } else { copy })
    }

    /// Counts what a file does not hold of the object that was downloaded to it.
    pub(crate) fn downloaded(&self, object: &Object) {
        if self.files.preserve {
            self.ignored.fetch_add(FileAttributes::from_metadata(&object.attributes.metadata).1, Relaxed);
        }
        self.left_out.add(attributes::lost_on_disk(object, self.files.preserve));
    }

    /// What becomes of symbolic links.
    pub(crate) fn links(&self) -> Links {
        self.files.links
    }

    /// The warnings at the end of a command: what was left out of all its objects.
    fn warnings(&self) -> impl Iterator<Item = String> {
        let ignored = match self.ignored.load(Relaxed) {
            0 => None,
            ignored => Some(format!(
                "--preserve ignored {} in the metadata, which {} no time or mode of a file",
                count(ignored, "value"),
                if ignored == 1 { "is" } else { "are" },
            )),
        };
        self.left_out.line().into_iter().chain(ignored)
    }

    /// Records whether the store made a copy or denied it. If it denied the first one, this process transfers the
    /// bytes of all others: the account of the target may not read the source.
    pub(crate) fn copy_ended(&self, is_allowed: bool) {
        self.allows_copies.get_or_init(|| is_allowed);
    }

    /// The strategy of a file's upload: for `auto`, the number of parts shows which one it was.
    pub(crate) fn of_file(&self, parts: u64) -> Strategy {
        match self.strategy {
            Strategy::Auto if parts == 0 => Strategy::Put,
            Strategy::Auto => Strategy::Parallel,
            asked => asked,
        }
    }
}
