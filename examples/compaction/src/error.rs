//! The errors of this crate.

use crate::format::Damage;

/// The result of this crate's operations.
pub type Result<T, E = CompactionError> = std::result::Result<T, E>;

/// A failed operation.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CompactionError {
    /// A request failed, or the memory budget was exhausted.
    #[error(transparent)]
    Store(#[from] tidegate::Error),
    /// An object is not a valid table.
    #[error("table {table}: {damage}")]
    Damaged {
        /// The table's key.
        table: String,
        /// The damage.
        damage: Damage,
    },
    /// An entry that no table can hold.
    #[error("table {table}: {reason}")]
    Entry {
        /// The key of the table being built.
        table: String,
        /// The reason.
        reason: String,
    },
    /// The request would give wrong results, or none.
    #[error("{0}")]
    Refused(String),
    /// The user interrupted the program.
    #[error("{0}")]
    Interrupted(String),
    /// Something failed, and some of the outputs already written could not be removed.
    #[error("{error}; and of what was written before is left {}: {removal}", left.join(", "))]
    LeftBehind {
        /// The failure.
        error: Box<CompactionError>,
        /// The keys that were not removed.
        left: Vec<String>,
        /// Why they were not removed.
        removal: Box<CompactionError>,
    },
}

impl CompactionError {
    /// Converts an error of a writer's `AsyncWrite`.
    pub(crate) fn of_writer(error: std::io::Error) -> Self {
        match error.downcast::<tidegate::Error>() {
            Ok(error) => Self::Store(error),
            Err(error) => Self::Refused(error.to_string()),
        }
    }
}
