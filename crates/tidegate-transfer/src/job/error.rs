//! Why something was not done with a job.

use tidegate::text::printable;
use tidegate::{Error as StoreError, ErrorKind};

use crate::error::sentence_of;

/// Why something was not done with a job.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum JobError {
    /// The state of the job, or an argument, does not allow it.
    #[error("{}: {message}", printable(object))]
    Refused {
        /// As of an error of a store: `InvalidInput`, `NotFound`, `Closed`, `TooLarge`, and `Timeout` if
        /// other processes are at work on the job all the while.
        kind: ErrorKind,
        /// The job, or the URL of an object of its work path.
        object: String,
        /// Why, and what to do.
        message: String,
    },
    /// The set of the job was begun, and one of its uploads can't be published.
    #[error(
        "{}. To end the job: `tidegate abandon --manifest {}`, then `tidegate abandon --job`",
        sentence_of(error),
        printable(pointer)
    )]
    CannotComplete {
        /// The URL of the set's pointer.
        pointer: String,
        /// What the store says of the upload.
        #[source]
        error: StoreError,
    },
    /// An error of the store.
    #[error("{}", sentence_of(_0))]
    Store(#[from] StoreError),
}

impl JobError {
    /// The kind, as of an error of a store.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Refused { kind, .. } => *kind,
            Self::CannotComplete { error, .. } | Self::Store(error) => error.kind(),
        }
    }

    /// The job or the URL of the object that it concerns.
    pub fn object(&self) -> &str {
        match self {
            Self::Refused { object, .. } => object,
            Self::CannotComplete { error, .. } | Self::Store(error) => error.object(),
        }
    }
}

impl From<JobError> for crate::Error {
    fn from(error: JobError) -> Self {
        let object = error.object().to_owned();
        let sentence = error.to_string();
        let error = match error {
            JobError::Store(error) => return Self::Store(error),
            JobError::Refused { kind: ErrorKind::InvalidInput | ErrorKind::TooLarge, .. } => {
                Self::Refused(sentence)
            }
            JobError::Refused { kind: ErrorKind::NotFound, .. } => Self::NotFound(sentence),
            JobError::Refused { .. } | JobError::CannotComplete { .. } => Self::Failed(sentence),
        };
        Self::At { object, error: error.into() }
    }
}
