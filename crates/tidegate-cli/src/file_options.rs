//! Options about files and their attributes, which the commands that walk directories share.

use clap::ValueEnum;
use tidegate_transfer::Links;

/// What is kept of files beside their bytes, and what becomes of symbolic links.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::Args)]
pub(crate) struct FileOptions {
    /// Keep the times and permissions of files. They are in the metadata of objects, and files that are downloaded or
    /// copied get them. Metadata of rclone, s3cmd and s3fs is understood. sync and check take one request for each
    /// object that is newer than its file, to compare the time in its metadata.
    #[arg(long, help_heading = "What the object carries")]
    preserve: bool,

    /// Choose what becomes of symbolic links below a directory.
    #[arg(long, value_enum, default_value_t, value_name = "HOW", help_heading = "Which objects")]
    links: LinkChoice,
}

/// What becomes of symbolic links below a directory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum LinkChoice {
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

impl From<FileOptions> for tidegate_transfer::FileOptions {
    fn from(FileOptions { preserve, links }: FileOptions) -> Self {
        let links = match links {
            LinkChoice::Files => Links::Files,
            LinkChoice::Skip => Links::Skip,
            LinkChoice::Follow => Links::Follow,
            LinkChoice::Preserve => Links::Preserve,
        };
        Self { preserve, links }
    }
}
