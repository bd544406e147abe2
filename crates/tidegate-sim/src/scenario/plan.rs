//! The plan of one writer.

use tidegate::Strategy;

/// The plan of one writer.
#[derive(Clone, Debug)]
pub struct WriterPlan {
    /// The object's key.
    pub key: String,
    /// The object's size in bytes.
    pub size: u64,
    /// The upload strategy.
    pub strategy: Strategy,
    /// The part size, if the writer sets one.
    pub part_size: Option<u64>,
    /// The size hint, which may be wrong.
    pub hint: Option<u64>,
    /// The writer's own limit of parts in flight.
    pub parts_in_flight: Option<usize>,
    /// Whether the write must fail if the key already has an object.
    pub create_only: bool,
    /// Virtual milliseconds before the writer starts.
    pub start_after: u64,
    /// The source of the bytes.
    pub source: WriterSource,
    /// How the writer ends.
    pub ending: Ending,
    /// How many milliseconds the writer may be idle while others wait for its memory.
    pub idle_limit: Option<u64>,
    /// The number of the task that feeds this writer and others in turn; `None` for a task of its own.
    pub task: Option<usize>,
}

/// The source of a writer's bytes.
#[derive(Clone, Debug, PartialEq)]
pub enum WriterSource {
    /// A task that writes.
    Producer(ProducerPlan),
    /// A file.
    File {
        /// Milliseconds after which the file is truncated, if ever.
        truncate_after: Option<u64>,
    },
}

/// How a producer writes.
#[derive(Clone, Debug, PartialEq)]
pub struct ProducerPlan {
    /// The face to use; `None` draws one for each piece.
    pub face: Option<Face>,
    /// Least and most bytes of a piece.
    pub piece: (usize, usize),
    /// Share of pieces after which it pauses, and the longest pause in milliseconds.
    pub pause: (f64, u64),
    /// The producer cancels a write after this many milliseconds, and continues.
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
    /// `finish`, cancelled after this many milliseconds.
    DropInFinish(u64),
    /// The source fails at this offset.
    SourceFails(u64),
    /// The producer stops at this offset for good; the writer is dropped when all others are done.
    Abandon(u64),
    /// The producer stops at this offset until all others are done, and then continues.
    Return(u64),
}

impl Ending {
    /// The same ending, its offset limited to an object of `size` bytes.
    pub(super) fn within(self, size: u64) -> Self {
        match self {
            Self::Abort(at) => Self::Abort(at.min(size)),
            Self::Drop(at) => Self::Drop(at.min(size)),
            Self::SourceFails(at) => Self::SourceFails(at.min(size)),
            other => other,
        }
    }

    /// The offset at which the producer stops and keeps the writer, if it does.
    pub fn holds(self) -> Option<u64> {
        match self {
            Self::Abandon(at) | Self::Return(at) => Some(at),
            _ => None,
        }
    }
}
