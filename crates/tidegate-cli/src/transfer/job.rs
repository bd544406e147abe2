//! The settings and state that all transfers of one command share.

use std::path::PathBuf;
use std::sync::OnceLock;

use tidegate::download::DownloadBuilder;
use tidegate::upload::{CopyBuilder, WriterBuilder};
use tidegate::{Attributes, Strategy};

use super::carried::LeftOut;
use super::report::CopyReport;
use crate::stores::{ObjectPlace, Stores};

/// The shared settings and state of one command that copies or moves objects.
pub(crate) struct CopyJob<'a> {
    pub(crate) stores: &'a Stores,
    pub(crate) writing: CopyWriteSettings,
    pub(crate) report: CopyReport<'a>,
    /// The journal directories.
    pub(crate) journals: &'a [PathBuf],
    pub(crate) after: AfterCopy,
    /// Whether to say only what would be done.
    pub(crate) is_dry_run: bool,
}

/// What happens to the source of a copy once the target is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AfterCopy {
    Keep,
    /// It is removed, unless it has changed meanwhile.
    Remove,
}

/// What to do if the target exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IfExists {
    Replace,
    Fail,
    Skip,
}

impl CopyJob<'_> {
    pub(crate) fn moves(&self) -> bool {
        self.after == AfterCopy::Remove
    }

    /// Whether each object is copied, without a look at the target and without anything afterwards.
    pub(crate) fn is_plain(&self) -> bool {
        !self.moves() && !self.is_dry_run && self.writing.if_exists != IfExists::Skip
    }
}

/// How objects are written.
pub(crate) struct CopyWriteSettings {
    strategy: Strategy,
    pub(crate) if_exists: IfExists,
    /// Whether downloaded files are forced to disk.
    sync: bool,
    /// Whether downloaded files have the times of their objects.
    keep_modified: bool,
    /// The size that the one source must have.
    pub(crate) expect_size: Option<u64>,
    attributes: Attributes,
    /// The attributes that targets could not hold.
    pub(crate) left_out: LeftOut,
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
        let left_out = LeftOut::default();
        Self {
            strategy,
            if_exists,
            sync,
            keep_modified: false,
            expect_size,
            attributes,
            left_out,
            allows_copies: OnceLock::new(),
        }
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
    pub(crate) fn builder(&self, place: &ObjectPlace) -> WriterBuilder {
        let builder = place.store.writer(&place.key).strategy(self.strategy);
        let builder = builder.attributes(self.attributes.clone());
        if self.creates_only() { builder.create_only() } else { builder }
    }

    /// A download of `place` to a file, with the user's settings.
    pub(crate) fn download(&self, place: &ObjectPlace, path: PathBuf) -> DownloadBuilder {
        let builder =
            place.store.download(&place.key, path).sync(self.sync).keep_modified(self.keep_modified);
        if self.creates_only() { builder.create_only() } else { builder }
    }

    /// A writer for a copy to `to` of an object with the attributes `theirs`: attributes that the user did not set
    /// are taken over.
    pub(crate) fn builder_like(&self, to: &ObjectPlace, theirs: Attributes) -> WriterBuilder {
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
    pub(crate) fn copy_within(&self, from: &ObjectPlace, to: &ObjectPlace) -> Option<CopyBuilder> {
        if self.allows_copies.get() == Some(&false)
            || self.strategy != Strategy::Auto
            || !from.store.is_one_with(&to.store)
        {
            return None;
        }
        let copy = from.store.copy(&from.key, &to.store, &to.key).attributes(self.attributes.clone());
        Some(if self.creates_only() { copy.create_only() } else { copy })
    }

    /// Records whether the store made a copy or denied it. If it denied the first one, this process transfers the bytes of
    /// all others: the account of the target may not read the source.
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
