//! What a directory makes of the symbolic links in it.

/// What a [`Local`](super::Local) store makes of the symbolic links below its root.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum LinkPolicy {
    /// A link to a file is listed as that file; other links are listed as [`Entry::Other`](crate::backend::Entry::Other),
    /// and never entered.
    #[default]
    Files,
    /// Listings show every link as [`OtherKind::Link`](crate::backend::OtherKind::Link), wherever it leads.
    Skip,
    /// As `Files`, and listings enter links to directories. A directory that leads back to one above it is listed as
    /// [`OtherKind::WayBack`](crate::backend::OtherKind::WayBack), and not entered again. Nothing is removed through a link.
    Follow,
}
