//! What can go wrong.

use crate::format::Damage;

/// The result of this crate's operations.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// A failed operation.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A request failed, or memory was not to be had.
    #[error(transparent)]
    Store(#[from] tidegate::Error),
    /// A table's bytes are not those of a table.
    #[error("table {table}: {damage}")]
    Damaged {
        /// Its key.
        table: String,
        /// What is wrong.
        damage: Damage,
    },
    /// An entry that no table takes.
    #[error("table {table}: {reason}")]
    Entry {
        /// The table that was being made.
        table: String,
        /// Why not.
        reason: String,
    },
    /// What was asked for would give wrong answers, or nothing.
    #[error("{0}")]
    Refused(String),
    /// The user ended it.
    #[error("{0}")]
    Interrupted(String),
    /// Something failed, and what had been written before could not be removed.
    #[error("{error}; and of what was written before is left {}: {removal}", left.join(", "))]
    LeftBehind {
        /// The failure.
        error: Box<Error>,
        /// Keys that are still there.
        left: Vec<String>,
        /// Why.
        removal: Box<Error>,
    },
}

impl Error {
    /// What a writer said through the face of `AsyncWrite`.
    pub(crate) fn of_writer(error: std::io::Error) -> Self {
        match error.downcast::<tidegate::Error>() {
            Ok(error) => Self::Store(error),
            Err(error) => Self::Refused(error.to_string()),
        }
    }
}
