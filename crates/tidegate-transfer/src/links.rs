//! What becomes of symbolic links, in the trees that are read and in those that are written.

use std::path::Path;
use std::sync::Arc;

use tidegate::backend::local::{FilesBelow, LinkPolicy};

use crate::figures::count;

/// What is kept of files beside their bytes, and what becomes of symbolic links.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FileOptions {
    /// Whether the times and permissions of files are kept. They are in the metadata of objects, and files that are
    /// downloaded or copied get them. Metadata of rclone, s3cmd, s3fs and gcloud is understood.
    pub preserve: bool,
    /// What becomes of symbolic links below a directory.
    pub links: Links,
}

/// What becomes of symbolic links below a directory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Links {
    /// A link to a file is copied as that file, a link to a directory is left out, and a broken link is an error.
    /// Nothing is written through a link below the target.
    #[default]
    Files,
    /// All links are left out.
    Skip,
    /// Like files; links to directories are entered too, unless they lead to a parent of their own, and what they lead
    /// to is written to if they are below the target. Nothing is removed through a link.
    Follow,
    /// A link is the object NAME.rclonelink, which holds the link's text, as with `rclone --links`. Downloads make the
    /// links again, after all files.
    Preserve,
}

impl Links {
    /// The rules for a tree that is copied.
    pub fn of_source(self) -> LinkRules {
        let lists = match self {
            Self::Files => LinkPolicy::Files,
            Self::Skip => LinkPolicy::Skip,
            Self::Follow => LinkPolicy::Follow,
            Self::Preserve => LinkPolicy::Objects,
        };
        LinkRules { lists, ..LinkRules::default() }
    }

    /// The files of a tree that is copied, opened on ways without links; `None` if links to directories are followed.
    pub(crate) fn files_of_source(self, root: &Path) -> Option<Arc<FilesBelow>> {
        let follows = match self {
            Self::Follow => return None,
            Self::Files => true,
            Self::Skip | Self::Preserve => false,
        };
        Some(Arc::new(FilesBelow::new(root, follows)))
    }

    /// The rules for a tree that is written to. What a listing does not enter, no write enters either: a bucket could
    /// otherwise write anywhere on the disk, through a link of an earlier command.
    pub fn of_target(self) -> LinkRules {
        let (lists, writes) = match self {
            Self::Files | Self::Skip => (LinkPolicy::Files, WriteLinks::Refuse),
            Self::Follow => (LinkPolicy::Follow, WriteLinks::Follow),
            Self::Preserve => (LinkPolicy::Objects, WriteLinks::Refuse),
        };
        LinkRules { lists, writes }
    }
}

/// What becomes of symbolic links below a directory that a command reads or writes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkRules {
    /// What a listing does with a link.
    pub lists: LinkPolicy,
    /// What a write does where a link is.
    pub writes: WriteLinks,
}

/// What a write does where a symbolic link is in its place, or on the way from the directory that the user named.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WriteLinks {
    /// It replaces what the link leads to: the user named the link, or asked for it (`--links follow`).
    #[default]
    Follow,
    /// It fails.
    Refuse,
}

/// The line about symbolic links that were skipped; `None` if there were none.
pub(crate) fn skipped_links(links: u64) -> Option<String> {
    (links > 0).then(|| format!("{} left out", count(links, "symbolic link")))
}
