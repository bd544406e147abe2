//! How one attempt of a request is to be made.

/// One attempt of a request: passed to each method that sends something.
///
/// A [`Backend`](super::Backend) that keeps connections heeds [`connection`](Self::connection); other backends need
/// not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Attempt {
    /// Counts the attempts of one request, from 1.
    pub number: u32,
    /// The connection to use.
    pub connection: Connection,
}

/// The connection that an attempt uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Connection {
    /// A kept one, or a new one.
    Any,
    /// A new one, to a freshly resolved address. For a retry after a connection broke or stalled, and for a hedge
    /// beside a request that is far slower than its peers. S3's guide asks for both ("Timeouts and Retries for
    /// Latency-Sensitive Applications").
    New,
}

impl Attempt {
    /// The first attempt, over any connection.
    pub const FIRST: Self = Self { number: 1, connection: Connection::Any };

    /// Attempt `number`, over any connection.
    pub fn nth(number: u32) -> Self {
        Self { number, connection: Connection::Any }
    }

    /// The same attempt over a new connection.
    #[must_use]
    pub fn on_new_connection(self) -> Self {
        Self { connection: Connection::New, ..self }
    }

    /// The same attempt, over a new connection if `is_needed`.
    #[must_use]
    pub fn renewed(self, is_needed: bool) -> Self {
        if is_needed { self.on_new_connection() } else { self }
    }

    /// Whether the attempt is to use a connection that no earlier one has used.
    pub fn wants_new_connection(self) -> bool {
        self.connection == Connection::New
    }
}
