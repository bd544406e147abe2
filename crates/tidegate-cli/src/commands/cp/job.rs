//! What every transfer of one `cp` shares.

use std::path::PathBuf;

use tidegate::{Attributes, Concurrency, CopyBuilder, DownloadBuilder, Strategy, WriterBuilder};

use super::carried::LeftOut;
use super::report::Report;
use crate::stores::{Place, Stores};

/// One `cp`.
pub(super) struct Job<'a> {
    pub(super) stores: &'a Stores,
    pub(super) writing: Writing,
    pub(super) report: Report<'a>,
    /// How many requests may fly at once.
    pub(super) concurrency: Concurrency,
    /// The directories for journals.
    pub(super) journals: &'a [PathBuf],
}

/// How objects are written.
pub(super) struct Writing {
    strategy: Strategy,
    create_only: bool,
    /// Whether files that are downloaded are forced to disk.
    sync: bool,
    /// The size that the one source is to have.
    pub(super) expect_size: Option<u64>,
    attributes: Attributes,
    /// What the targets could not hold of the objects that were copied.
    pub(super) left_out: LeftOut,
}

impl Writing {
    pub(super) fn new(
        strategy: Strategy,
        create_only: bool,
        sync: bool,
        expect_size: Option<u64>,
        attributes: Attributes,
    ) -> Self {
        Self { strategy, create_only, sync, expect_size, attributes, left_out: LeftOut::default() }
    }

    pub(super) fn is_journaled(&self) -> bool {
        self.strategy == Strategy::Journal
    }

    /// A writer of `place` with what was asked for.
    pub(super) fn builder(&self, place: &Place) -> WriterBuilder {
        let builder = place.store.writer(&place.key).strategy(self.strategy);
        let builder = builder.attributes(self.attributes.clone());
        if self.create_only { builder.create_only() } else { builder }
    }

    /// A download of `place` to a file, with what was asked for.
    pub(super) fn download(&self, place: &Place, path: PathBuf) -> DownloadBuilder {
        let builder = place.store.download(&place.key, path).sync(self.sync);
        if self.create_only { builder.create_only() } else { builder }
    }

    /// A writer of `to` for a copy of an object that carries `theirs`: what was not asked for is taken over.
    pub(super) fn builder_like(&self, to: &Place, theirs: Attributes) -> WriterBuilder {
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

    /// A copy that the store makes itself, where the two are of one that does and nothing is asked of how the
    /// bytes travel.
    pub(super) fn copy_within(&self, from: &Place, to: &Place) -> Option<CopyBuilder> {
        if self.strategy != Strategy::Auto || !from.store.is_one_with(&to.store) {
            return None;
        }
        let copy = from.store.copy(&from.key, &to.store, &to.key).attributes(self.attributes.clone());
        Some(if self.create_only { copy.create_only() } else { copy })
    }

    /// The strategy that a file's upload took, by what it came to.
    pub(super) fn of_file(&self, parts: u64) -> Strategy {
        match self.strategy {
            Strategy::Auto if parts == 0 => Strategy::Put,
            Strategy::Auto => Strategy::Parallel,
            asked => asked,
        }
    }
}
