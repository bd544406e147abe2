//! Options about files and their attributes, which the commands that walk directories share.

use clap::ValueEnum;
use tidegate::backend::local::LinkPolicy;

use crate::text;

/// What is kept of files beside their bytes, and what becomes of symbolic links.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::Args)]
pub(crate) struct FileOptions {
    /// Keep the times and permissions of files. They are in the metadata of objects, and files that are downloaded or
    /// copied get them. Metadata of rclone, s3cmd and s3fs is understood. sync and check take one request for each
    /// object that is newer than its file, to compare the time in its metadata.
    #[arg(long, help_heading = "What the object carries")]
    pub(crate) preserve: bool,

    /// Choose what becomes of symbolic links below a directory.
    #[arg(long, value_enum, default_value_t, value_name = "HOW", help_heading = "Which objects")]
    pub(crate) links: LinkChoice,
}

/// What becomes of symbolic links below a directory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum LinkChoice {
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

impl LinkChoice {
    /// The rules for a tree that is copied.
    pub(crate) fn of_source(self) -> LinkRules {
        let lists = match self {
            Self::Files => LinkPolicy::Files,
            Self::Skip => LinkPolicy::Skip,
            Self::Follow => LinkPolicy::Follow,
            Self::Preserve => LinkPolicy::Objects,
        };
        LinkRules { lists, ..LinkRules::default() }
    }

    /// The rules for a tree that is written to. What a listing does not enter, no write enters either: a bucket could
    /// otherwise write anywhere on the disk, through a link of an earlier command.
    pub(crate) fn of_target(self) -> LinkRules {
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
pub(crate) struct LinkRules {
    pub(crate) lists: LinkPolicy,
    pub(crate) writes: WriteLinks,
}

/// What a write does where a symbolic link is in its place, or on the way from the directory that the user named.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum WriteLinks {
    /// It replaces what the link leads to: the user named the link, or asked for it (`--links follow`).
    #[default]
    Follow,
    /// It fails.
    Refuse,
}

/// The line about symbolic links that were skipped; `None` if there were none.
pub(crate) fn skipped_links(links: u64) -> Option<String> {
    (links > 0).then(|| format!("{} left out", text::count(links, "symbolic link")))
}
