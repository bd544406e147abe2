//! What became of a commit: asked of the store where its answer was lost, compared where it came.

use tokio::time::Instant;
use tracing::debug;

use super::upload::Upload;
use crate::backend::FaultKind;
use crate::checksum::Checksum;
use crate::error::{ErrorKind, Operation, Result};
use crate::object::Object;
use crate::request::Failure;

impl Upload {
    /// Asks the store whether the object that is there is ours.
    pub(super) async fn settle(
        &self,
        failure: Failure,
        operation: Operation,
        size: u64,
        checksum: Option<Checksum>,
    ) -> Result<Object> {
        let (attempts, elapsed, asked) = (failure.attempts, failure.elapsed, Instant::now());
        self.ask(failure, operation, size, checksum)
            .await
            .map_err(|error| error.after(attempts, elapsed + asked.elapsed()))
    }

    async fn ask(
        &self,
        failure: Failure,
        operation: Operation,
        size: u64,
        checksum: Option<Checksum>,
    ) -> Result<Object> {
        debug!(object = %self.requests.object, fault = %failure.fault, "asking the store whether it was committed");
        let there = match self.there(size, checksum, operation).await? {
            There::Ours(object) => return Ok(*object),
            There::Nothing => false,
            // The store's condition stopped us, and not by an object of our own.
            There::Another if failure.fault.kind == FaultKind::Exists => {
                return Err(self.failed(failure, operation));
            }
            There::Another => true,
        };
        if operation == Operation::Put {
            // No session that could be aborted: what came before another's object, or comes yet, is
            // not for this side to know.
            let why = match (there, failure.late) {
                (true, _) => "the object that is there now is another's, and may have replaced this one",
                (false, true) => "the store may write the object yet",
                (false, false) => return Err(self.failed(failure, operation)),
            };
            return Err(self.error(ErrorKind::Uncertain, operation, format!("{}; {why}", failure.fault)));
        }
        // Not there yet: a request that is still on its way could publish it. Once the session is
        // aborted it can't. Not every store tells an abort that came too late from one in time (MinIO
        // does not), so it is asked for the object once more.
        let in_time = match self.abort_session().await {
            // An abort can't be in time for a session that was said to be gone.
            Ok(in_time) => in_time && failure.fault.kind != FaultKind::NoSession,
            Err(error) => {
                let message = "the session could neither be completed nor aborted";
                return Err(self.error(ErrorKind::Uncertain, operation, message).with_source(error));
            }
        };
        match self.there(size, checksum, operation).await? {
            There::Ours(object) => Ok(*object),
            There::Another | There::Nothing if in_time => Err(self.failed(failure, operation)),
            There::Another | There::Nothing => {
                let message = "the session has ended, and the object that is there now is not this one";
                Err(self.error(ErrorKind::Uncertain, operation, message))
            }
        }
    }

    /// Whose object the store has.
    async fn there(&self, size: u64, checksum: Option<Checksum>, operation: Operation) -> Result<There> {
        let head = self.requests.send(Operation::Head, None, None, || self.backend.head(&self.key)).await;
        let object = match head {
            Ok(object) => object,
            Err(failure) if failure.fault.kind == FaultKind::NotFound => return Ok(There::Nothing),
            Err(failure) => {
                let message =
                    format!("the answer was lost, and asking for the object failed: {}", failure.fault);
                return Err(self.error(ErrorKind::Uncertain, operation, message));
            }
        };
        let same_token = object.token.is_some() && object.token == self.options.token;
        let same_bytes =
            object.size == size && checksum.is_none_or(|sum| object.matches(&sum) != Some(false));
        Ok(if same_token && same_bytes { There::Ours(Box::new(object)) } else { There::Another })
    }

    pub(super) fn verify(
        &self,
        object: Object,
        size: u64,
        checksum: Option<Checksum>,
        operation: Operation,
    ) -> Result<Object> {
        if object.size != size {
            let message = format!("the store has {} bytes where {size} were sent", object.size);
            return Err(self.error(ErrorKind::Integrity, operation, message));
        }
        if let Some(checksum) = checksum
            && object.matches(&checksum) == Some(false)
        {
            let message = format!("the store's checksum is not {checksum}, that of the bytes that were sent");
            return Err(self.error(ErrorKind::Integrity, operation, message));
        }
        Ok(object)
    }
}

/// What the store has where an object may have been written.
enum There {
    Ours(Box<Object>),
    Another,
    Nothing,
}
