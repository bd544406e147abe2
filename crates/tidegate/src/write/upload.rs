//! What the strategies share: the session, the requests of one upload, and its commit.

use std::ops::Range;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use futures::FutureExt;
use futures::future::{BoxFuture, Shared};
use tokio::runtime::Handle;
use tokio::task::JoinSet;
use tokio_util::task::TaskTracker;
use tracing::{debug, warn};

use crate::backend::{Backend, FaultKind, Receipt, Session, WriteOptions};
use crate::checksum::Checksum;
use crate::error::{Error, ErrorKind, Operation, Result};
use crate::limiter::Permit;
use crate::object::Object;
use crate::payload::Payload;
use crate::records::{self, Entry, Records};
use crate::request::{Failure, Requests};

type Opening = Shared<BoxFuture<'static, Result<Session, Arc<Error>>>>;

/// One upload, shared by its writer and the tasks of its parts.
#[derive(Debug)]
pub(crate) struct Upload {
    pub(crate) backend: Arc<dyn Backend>,
    pub(crate) key: String,
    pub(crate) options: WriteOptions,
    pub(crate) requests: Requests,
    /// Whether slow parts are sent again beside themselves.
    pub(crate) hedge: bool,
    pub(crate) runtime: Handle,
    /// Aborts that go on after their writer is gone.
    pub(crate) aborts: TaskTracker,
    /// The session, once it was asked for.
    pub(crate) opening: Mutex<Option<Opening>>,
    /// Where the session is written down, for as long as it may be there.
    pub(crate) records: Records,
    pub(crate) entry: OnceLock<Entry>,
}

impl Upload {
    /// Asks for the session. It is not cancelled with the writer: one that was opened must be known
    /// to be aborted.
    pub(crate) fn open(self: &Arc<Self>) {
        let upload = self.clone();
        let open = self.runtime.spawn(async move {
            let options = &upload.options;
            let place = records::place(&*upload.backend, &upload.key);
            let entry = upload.records.begin(upload.backend.endpoint(), place).await;
            let entry = upload.entry.get_or_init(|| entry);
            let sent = upload
                .requests
                .send(Operation::Open, None, None, || upload.backend.open(&upload.key, options))
                .await;
            match &sent {
                Ok(session) => entry.opened(&session.id).await,
                Err(_) => entry.ended().await,
            }
            sent
        });
        let object = self.requests.object.clone();
        let opening = async move {
            match open.await {
                Ok(Ok(session)) => Ok(session),
                Ok(Err(failure)) => Err(Arc::new(failure.into_error(Operation::Open, &object))),
                Err(ended) => {
                    let message = "the runtime was shut down while the session was opened";
                    Err(Arc::new(
                        Error::new(ErrorKind::Closed, Operation::Open, object, message).with_source(ended),
                    ))
                }
            }
        };
        *self.lock() = Some(opening.boxed().shared());
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<Opening>> {
        self.opening.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The session; waits until it is open.
    pub(crate) async fn session(&self) -> Result<Session> {
        let opening = self.lock().clone();
        match opening {
            Some(opening) => opening.await.map_err(|error| error.again()),
            None => Err(self.error(ErrorKind::Closed, Operation::Open, "no session was asked for")),
        }
    }

    /// Stores one part, as often as it takes.
    pub(crate) async fn part(
        &self,
        number: u32,
        range: Range<u64>,
        payload: Payload,
        permit: Option<Permit>,
    ) -> Result<Receipt> {
        let session = self.session().await?;
        let receipt = self
            .requests
            .send_part(&payload, permit, self.hedge, |payload| {
                self.backend.part(&session, number, range.start, payload)
            })
            .await
            .map_err(|failure| self.failed(failure, Operation::Part).at_part(number, range))?;
        self.requests.progress.acknowledged(payload.len());
        self.requests.progress.part_stored();
        Ok(receipt)
    }

    /// Writes the whole object in one request.
    pub(crate) async fn put(&self, payload: Payload) -> Result<Object> {
        let sent = self
            .requests
            .send(Operation::Put, Some(&payload), None, || {
                self.backend.put(&self.key, payload.clone(), &self.options)
            })
            .await;
        let object = match sent {
            Ok(object) => object,
            Err(failure) if failure.is_unsettled() => {
                Box::pin(self.settle(failure, Operation::Put, payload.len(), payload.checksum())).await?
            }
            Err(failure) => return Err(self.failed(failure, Operation::Put)),
        };
        self.requests.progress.acknowledged(payload.len());
        self.verify(object, payload.len(), payload.checksum(), Operation::Put)
    }

    /// Publishes the object from its parts.
    pub(crate) async fn complete(&self, parts: Vec<Receipt>, checksum: Checksum) -> Result<Object> {
        let session = self.session().await?;
        let sent = self.publish(&session, parts, &checksum).await;
        let size = checksum.covers();
        let object = match sent {
            Ok(object) => object,
            Err(failure) if failure.is_unsettled() => {
                Box::pin(self.settle(failure, Operation::Complete, size, Some(checksum))).await?
            }
            Err(failure) => return Err(self.failed(failure, Operation::Complete)),
        };
        self.session_ended().await;
        self.verify(object, size, Some(checksum), Operation::Complete)
    }

    async fn session_ended(&self) {
        if let Some(entry) = self.entry.get() {
            entry.ended().await;
        }
    }

    /// Asks the store whether the object that is there is ours.
    async fn settle(
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

    fn verify(
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

    /// Ends the session, if one was asked for: `true` where it was there, `false` where it was gone.
    pub(crate) async fn abort_session(&self) -> Result<bool> {
        if self.lock().is_none() {
            return Ok(true);
        }
        // What could not be opened need not be aborted.
        let Ok(session) = self.session().await else { return Ok(true) };
        let sent = self.requests.send(Operation::Abort, None, None, || self.backend.abort(&session)).await;
        match sent {
            Ok(()) => {
                self.session_ended().await;
                Ok(true)
            }
            Err(failure) if failure.fault.kind == FaultKind::NoSession => {
                self.session_ended().await;
                Ok(false)
            }
            Err(failure) => {
                if let Some(entry) = self.entry.get() {
                    entry.left().await;
                }
                Err(self.failed(failure, Operation::Abort))
            }
        }
    }

    /// Cancels the parts in flight, then ends the session. It goes on where its writer can't wait.
    pub(crate) fn abort(
        self: &Arc<Self>,
        parts: JoinSet<Result<Receipt>>,
    ) -> impl Future<Output = Result<()>> + use<> {
        let upload = self.clone();
        let task = async move {
            stop(parts).await;
            let aborted = upload.abort_session().await;
            if let Err(error) = &aborted {
                warn!(%error, "the session could not be aborted; a sweep will find it");
            }
            aborted.map(|_| ())
        };
        let task = self.lock().is_some().then(|| self.aborts.spawn_on(task, &self.runtime));
        let upload = self.clone();
        async move {
            let Some(task) = task else { return Ok(()) };
            task.await.unwrap_or_else(|ended| {
                let message = "the runtime was shut down before the session was aborted";
                Err(upload.error(ErrorKind::Closed, Operation::Abort, message).with_source(ended))
            })
        }
    }

    pub(crate) fn error(&self, kind: ErrorKind, operation: Operation, message: impl Into<String>) -> Error {
        Error::new(kind, operation, self.requests.object.clone(), message)
    }

    fn failed(&self, failure: Failure, operation: Operation) -> Error {
        failure.into_error(operation, &self.requests.object)
    }
}

/// What the store has where an object may have been written.
enum There {
    Ours(Box<Object>),
    Another,
    Nothing,
}

/// Cancels the requests of parts and waits until they are gone, so that none arrives after an abort.
async fn stop(mut parts: JoinSet<Result<Receipt>>) {
    parts.abort_all();
    while parts.join_next().await.is_some() {}
}
