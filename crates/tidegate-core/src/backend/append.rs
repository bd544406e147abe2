//! Uploads by appending: a session takes bytes in order, and its last bytes publish the object.

use std::fmt::Debug;

use async_trait::async_trait;

use super::{Appended, Attempt, Fault, Session, WriteOptions};
use crate::memory::payload::{Payload, Unending};
use crate::types::checksum::Checksum;

/// A store's sessions that bytes are appended to (Google's resumable uploads). Every append but the last must be a
/// multiple of [`Capabilities::append`](super::Capabilities::append) bytes.
#[async_trait]
pub trait Append: Debug + Send + Sync {
    /// Opens a session that takes appended bytes.
    async fn open(&self, key: &str, options: &WriteOptions, attempt: Attempt) -> Result<Session, Fault>;

    /// Appends bytes at `offset`, which must be the session's position. With `whole`, the checksum of all bytes of
    /// the object, these are the last bytes: the object is published with them, and the store is asked to compare the
    /// checksum.
    ///
    /// The store may accept fewer bytes than were sent; the caller sends the rest again from the position in the
    /// answer. After a fault the session's position is unknown.
    async fn append(
        &self,
        session: &Session,
        offset: u64,
        payload: Payload,
        whole: Option<&Checksum>,
        attempt: Attempt,
    ) -> Result<Appended, Fault>;

    /// Streams bytes to the session from `offset` on, which must be the session's position. The request stays open
    /// and never publishes the object, because `bytes` never end. It ends when its future is dropped, with a fault,
    /// or when the store takes no more bytes; then [`position`](Self::position) gives the session's position.
    async fn stream(
        &self,
        session: &Session,
        offset: u64,
        bytes: Unending,
        attempt: Attempt,
    ) -> Result<Appended, Fault>;

    /// The position of a session. May be called while an append is in flight; then it counts only the bytes that the
    /// store has committed. The position never goes back.
    async fn position(&self, session: &Session, attempt: Attempt) -> Result<Appended, Fault>;

    /// Aborts a session. [`NoSession`](super::FaultKind::NoSession) if there is no such session.
    async fn abort(&self, session: &Session, attempt: Attempt) -> Result<(), Fault>;

    /// Whether the store tells the [position](Self::position) of a session; some emulators do not. If not, that method
    /// fails with [`NoSession`](super::FaultKind::NoSession), so that a session is lost with the answer to an append,
    /// and nothing can be [streamed](Self::stream).
    fn tells_position(&self, session: &Session) -> bool {
        let _ = session;
        true
    }

    /// Whether a session is of this kind, by its id alone. A session that was left behind is known by nothing else.
    fn has(&self, session: &Session) -> bool;
}
