//! Options about files and their attributes, which the commands that walk directories share.

/// What is kept of files beside their bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::Args)]
pub(crate) struct FileOptions {
    /// Keep the modification time and the permissions of files in the metadata of objects, and give them to files that are
    /// downloaded or copied. Metadata of rclone, s3cmd and s3fs is understood. sync and check take one request for each
    /// object that is newer than its file, to compare the time in its metadata.
    #[arg(long, help_heading = "What the object carries")]
    pub(crate) preserve: bool,
}
