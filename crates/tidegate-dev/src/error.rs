//! What can go wrong outside of requests: starting the server and its convenience calls.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

/// Why the server did not start, or a call on it failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The listening address could not be taken.
    #[error("cannot listen on {addr}: {source}")]
    Listen {
        /// The address asked for.
        addr: SocketAddr,
        /// What the system said.
        source: io::Error,
    },
    /// The storage directory cannot be used.
    #[error("storage at {}: {source}", path.display())]
    Storage {
        /// The file or directory in question.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A metadata file in the storage directory cannot be understood.
    #[error("metadata in {}: {reason}", path.display())]
    Metadata {
        /// The file in question.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// The name is not one that a bucket may have.
    #[error("{0:?} is not a valid bucket name")]
    BucketName(String),
    /// The bucket is there already.
    #[error("bucket {0:?} exists")]
    BucketExists(String),
}

impl Error {
    /// Binds a path to an I/O error, for `map_err`.
    pub(crate) fn storage(path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::Storage { path, source }
    }
}
