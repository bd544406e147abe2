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
    #[default]
    Files,
    /// All links are left out.
    Skip,
    /// Like files; links to directories are entered too, unless they lead to a parent of their own.
    Follow,
    /// A link is the object NAME.rclonelink, which holds the link's text, as with `rclone --links`. Downloads make the
    /// links again, after all files, and write nothing through a link below the target.
    Preserve,
}

impl LinkChoice {
    /// The policy for a tree that is copied.
    pub(crate) fn of_source(self) -> LinkPolicy {
        match self {
            Self::Files => LinkPolicy::Files,
            Self::Skip => LinkPolicy::Skip,
            Self::Follow => LinkPolicy::Follow,
            Self::Preserve => LinkPolicy::Objects,
        }
    }

    /// The policy for a tree that is written to: nothing is removed there through a link.
    pub(crate) fn of_target(self) -> LinkPolicy {
        match self {
            Self::Files | Self::Skip | Self::Follow => LinkPolicy::Files,
            Self::Preserve => LinkPolicy::Objects,
        }
    }
}

/// The line about symbolic links that were skipped; `None` if there were none.
pub(crate) fn skipped_links(links: u64) -> Option<String> {
    (links > 0).then(|| format!("{} left out", text::count(links, "symbolic link")))
}
