//! Errors outside of requests: from starting the server and from calls on it.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

/// Why the server did not start, or a call on it failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServerError {
    /// The listening address cannot be bound.
    #[error("cannot listen on {addr}: {source}")]
    Listen {
        /// The address.
        addr: SocketAddr,
        /// The system's error.
        source: io::Error,
    },
    /// The storage directory cannot be used.
    #[error("storage at {}: {source}", path.display())]
    Storage {
        /// The file or directory.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// A metadata file in the storage directory is malformed.
    #[error("metadata in {}: {reason}", path.display())]
    Metadata {
        /// The file.
        path: PathBuf,
        /// The reason.
        reason: String,
    },
    /// The bucket name is not valid.
    #[error("{0:?} is not a valid bucket name")]
    BucketName(String),
    /// The bucket exists already.
    #[error("bucket {0:?} exists")]
    BucketExists(String),
}

impl ServerError {
    /// Binds a path to an I/O error, for `map_err`.
    pub(crate) fn storage(path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::Storage { path, source }
    }
}
