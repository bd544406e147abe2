//! What one writer does.

use tidegate::Strategy;

/// What one writer does.
#[derive(Clone, Debug)]
pub struct WriterPlan {
    /// Its object.
    pub key: String,
    /// Bytes of it.
    pub size: u64,
    /// How.
    pub strategy: Strategy,
    /// Its part size, where it sets one.
    pub part_size: Option<u64>,
    /// What it believes its size to be.
    pub hint: Option<u64>,
    /// Its own bound of parts in flight.
    pub parts_in_flight: Option<usize>,
    /// Only where there is no object.
    pub create_only: bool,
    /// Virtual milliseconds before it starts.
    pub start_after: u64,
    /// Where its bytes come from.
    pub source: Source,
    /// How it ends.
    pub ending: Ending,
    /// How many milliseconds it may be idle while others wait for what it holds.
    pub idle_limit: Option<u64>,
    /// Which task feeds it, together with all others of the same number; one of its own where `None`.
    pub task: Option<usize>,
}

/// Where the bytes come from.
#[derive(Clone, Debug, PartialEq)]
pub enum Source {
    /// A task that writes.
    Producer(Producer),
    /// A file; truncated after so many milliseconds where that is set.
    File {
        /// When.
        truncate_after: Option<u64>,
    },
}

/// How a task writes.
#[derive(Clone, Debug, PartialEq)]
pub struct Producer {
    /// By which face; by a drawn one for each piece where it is `None`.
    pub face: Option<Face>,
    /// Least and most bytes of a piece.
    pub piece: (usize, usize),
    /// Share of pieces after which it pauses, and the longest pause in milliseconds.
    pub pause: (f64, u64),
    /// It cancels a write after so many milliseconds, and goes on.
    pub impatience: Option<u64>,
}

/// A way to give bytes to a writer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Face {
    /// `write`.
    Bytes,
    /// `AsyncWrite`.
    AsyncWrite,
    /// `Sink`.
    Sink,
    /// `read_from`.
    ReadFrom,
}

/// How a writer ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// `finish`.
    Finish,
    /// `abort` at this offset.
    Abort(u64),
    /// Dropped at this offset.
    Drop(u64),
    /// `finish`, dropped after so many milliseconds.
    DropInFinish(u64),
    /// Its source fails at this offset.
    SourceFails(u64),
    /// Its producer stops at this offset and never comes back; dropped when all others are done.
    Abandon(u64),
    /// Its producer stops at this offset until all others are done, and then goes on.
    Return(u64),
}

impl Ending {
    /// The same for an object of `size` bytes.
    pub(super) fn within(self, size: u64) -> Self {
        match self {
            Self::Abort(at) => Self::Abort(at.min(size)),
            Self::Drop(at) => Self::Drop(at.min(size)),
            Self::SourceFails(at) => Self::SourceFails(at.min(size)),
            other => other,
        }
    }

    /// Where its producer stops and keeps the writer.
    pub fn holds(self) -> Option<u64> {
        match self {
            Self::Abandon(at) | Self::Return(at) => Some(at),
            _ => None,
        }
    }
}
