//! One upload's shared state, whatever the strategy: its session, from opening to abort.

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use futures::FutureExt;
use futures::future::{BoxFuture, Shared};
use tokio::runtime::Handle;
use tokio::task::{JoinError, JoinSet};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::given_up::GivenUp;
use super::plan::Cut;
use super::points::Points;
use super::sink::order::AppendOrder;
use crate::backend::{Backend, FaultKind, PartOrigin, Receipt, Session, WriteOptions};
use crate::engine::Context;
use crate::engine::aborts::{Aborts, Settling, Unsettled};
use crate::engine::records::{self, RecordedSession, Records};
use crate::engine::request::{Failure, Requests};
use crate::types::error::{Error, ErrorKind, Operation, Result};
use crate::types::object::Object;
use crate::types::progress::Progress;
use crate::types::telemetry;

/// The result of one task of an upload.
#[derive(Debug)]
pub(crate) enum Done {
    /// Stored a part.
    Stored(Receipt),
    /// Stored the last part of an object that is published later.
    Prepared(Receipt, Remainder),
    /// Published the object.
    Published(Box<Object>),
}

/// The bytes of a prepared upload that its session does not have.
#[derive(Debug, Default)]
pub(crate) enum Remainder {
    #[default]
    Nothing,
    /// The last bytes of a session that is appended to: its last append would publish the object.
    Tail(Bytes),
    /// All of them: the store has no sessions, and the record has the bytes until the commit copies them.
    Aside,
}

impl Done {
    pub(super) fn published(object: Object) -> Self {
        Self::Published(Box::new(object))
    }
}

/// The requests of an upload that carry bytes or publish the object. Each runs in its own task: it continues
/// when its producer is not polled, so that its memory and its limiter permit come back.
pub(crate) type Tasks = JoinSet<Result<Done>>;

/// The end of an upload that publishes nothing: its requests are cancelled and its session is aborted.
pub(super) type Ending = Shared<BoxFuture<'static, Result<(), Arc<Error>>>>;

type Opening = Shared<BoxFuture<'static, Result<Session, Unopened>>>;

/// Why there is no session id.
#[derive(Clone, Debug)]
pub(crate) enum Unopened {
    /// It could not be opened.
    Failed(Arc<Error>),
    /// The task that opened it ended early: the store may have opened it.
    Lost(Arc<Error>),
}

/// One upload, shared by its writer and the tasks of its parts.
#[derive(Debug)]
pub(crate) struct Upload {
    pub(crate) backend: Arc<dyn Backend>,
    pub(crate) key: String,
    pub(crate) options: WriteOptions,
    pub(crate) requests: Requests,
    /// Whether slow part requests are hedged: sent a second time in parallel.
    pub(crate) hedge: bool,
    pub(crate) runtime: Handle,
    /// Aborts that continue after their writer is gone.
    pub(crate) aborts: Arc<Aborts>,
    /// Cancelled with the upload. A session whose opening has not been sent is then not opened.
    ended: CancellationToken,
    pub(crate) given_up: GivenUp,
    /// Whether a request that publishes the object is in flight, or was given up before the store answered.
    pub(super) publishing: GivenUp,
    tasks: Mutex<Tasks>,
    ending: Mutex<Option<Ending>>,
    /// The session, once its opening was begun.
    pub(crate) opening: Mutex<Option<Opening>>,
    /// The records of this machine's open sessions. The session is listed there for as long as it may exist.
    pub(crate) records: Records,
    /// The record of the session whose opening was begun last.
    entry: Mutex<Option<Arc<RecordedSession>>>,
    /// How much outlasts this process, unless a point is [persisted](Self::persistence).
    pub(super) persists: Persistence,
    /// The points that other processes can continue from.
    pub(super) points: Points,
    /// What the session is to take. [`is_appended`](Self::is_appended) says what an open one takes.
    takes: SessionTakes,
    /// The order of the parts, if the session is appended to.
    order: OnceLock<AppendOrder>,
    /// Whether the key is a place that a layout of prefixes has chosen, and may choose otherwise later.
    pub(super) is_spread: bool,
}

/// What the session of an upload takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SessionTakes {
    /// Parts in any order; or appended bytes, if the server has no such sessions.
    Parts(PartOrigin),
    /// Parts in any order, and nothing else.
    OnlyParts,
    /// Bytes that are appended to those that it has. The last of them publish the object.
    AppendedBytes,
}

impl From<Cut> for SessionTakes {
    fn from(cut: Cut) -> Self {
        if cut.appends() { Self::AppendedBytes } else { Self::Parts(PartOrigin::Sent) }
    }
}

/// How much of an upload outlasts its process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Persistence {
    /// Nothing: where the upload fails, its session is aborted.
    Process,
    /// The bytes are in a journal, or a point is persisted. The session is kept where the upload can be resumed.
    Resumable,
    /// The same, and an earlier process may have published the object. So even a refused first attempt is checked by
    /// asking for the object.
    MayBePublished,
}

impl Persistence {
    pub(super) fn may_be_published(self) -> bool {
        self == Self::MayBePublished
    }
}

impl Settling for Upload {
    fn unsettled(&self) -> Unsettled {
        let opening = self.lock().clone();
        let session =
            opening.and_then(|opening| opening.peek().and_then(|opened| opened.as_ref().ok().cloned()));
        Unsettled {
            object: self.requests.object.clone(),
            session: session.map(|session| session.id),
            may_be_there: self.publishing.is_set(),
        }
    }
}

impl Upload {
    /// An upload to `key`; guesses the content type from the key where none is set.
    pub(crate) fn new(context: &Context, key: &str, mut options: WriteOptions, progress: Progress) -> Self {
        let engine = context.engine();
        if options.attributes.content_type.is_none() {
            options.attributes.content_type = mime_guess::from_path(key).first_raw().map(str::to_owned);
        }
        let mut requests = context.requests(key, progress);
        requests.span = telemetry::upload(&requests.object);
        Self {
            requests,
            key: context.full_key(key),
            backend: context.backend().clone(),
            hedge: engine.hedge && context.backend().capabilities().hedge,
            options,
            runtime: Handle::current(),
            aborts: engine.aborts.clone(),
            ended: CancellationToken::new(),
            given_up: GivenUp::default(),
            publishing: GivenUp::default(),
            tasks: Mutex::default(),
            ending: Mutex::default(),
            opening: Mutex::default(),
            records: engine.records.clone(),
            entry: Mutex::default(),
            persists: Persistence::Process,
            points: Points::default(),
            takes: SessionTakes::Parts(PartOrigin::Sent),
            order: OnceLock::new(),
            is_spread: context.keys().is_some(),
        }
    }

    /// The same upload, with another kind of session.
    pub(super) fn into_session_of(self, takes: SessionTakes) -> Self {
        Self { takes, ..self }
    }

    /// How much of the upload outlasts this process now.
    pub(super) fn persistence(&self) -> Persistence {
        match self.persists {
            Persistence::Process if self.points.are_kept() => Persistence::Resumable,
            persists => persists,
        }
    }

    pub(super) fn order(&self) -> &AppendOrder {
        self.order.get_or_init(|| AppendOrder::new(self.backend.capabilities().checksum))
    }

    /// Whether bytes are appended to the session that is open, or to the one that will be.
    pub(super) fn appends(&self) -> bool {
        let opened = self.lock().as_ref().and_then(|opening| opening.peek()?.as_ref().ok().cloned());
        match opened {
            Some(session) => self.is_appended(&session),
            None => self.takes == SessionTakes::AppendedBytes,
        }
    }

    /// Resumes a session that an earlier process has opened.
    pub(crate) async fn go_on_with(&self, id: String) {
        self.enter().await.opened(&id).await;
        self.adopt(id);
    }

    /// Uses a session that belongs to no process: it is not in this machine's records.
    pub(crate) fn adopt(&self, id: String) {
        let session = Session { key: self.key.clone(), id };
        *self.lock() = Some(futures::future::ready(Ok(session)).boxed().shared());
    }

    /// Begins to open the session. Once the request is sent, it is not cancelled with the writer: only a session
    /// whose id is known can be aborted.
    pub(crate) fn open(self: &Arc<Self>) {
        let upload = self.clone();
        // A runtime that is shut down drops the task at its next wait, but the session is known from here on.
        let known = Arc::<OnceLock<Session>>::default();
        let answered = known.clone();
        let open = async move {
            let entry = upload.enter().await;
            let opened = upload.send_open().await;
            match &opened {
                Ok(session) => {
                    answered.get_or_init(|| session.clone());
                    entry.opened(&session.id).await;
                }
                Err(_) => entry.ended().await,
            }
            opened
        };
        let open = self.aborts.spawn_opening(open, &self.runtime);
        let object = self.requests.object.clone();
        let opening = async move {
            match open.await {
                Ok(opened) => opened.map_err(|error| Unopened::Failed(Arc::new(error))),
                Err(ended) => {
                    if let Some(session) = known.get() {
                        return Ok(session.clone());
                    }
                    let message = if ended.is_panic() {
                        "the task that opens the session panicked"
                    } else {
                        "the runtime was shut down while the session was opened"
                    };
                    let error = Error::new(ErrorKind::Closed, Operation::Open, object, message);
                    Err(Unopened::Lost(Arc::new(error.with_source(ended))))
                }
            }
        };
        *self.lock() = Some(opening.boxed().shared());
    }

    async fn send_open(&self) -> Result<Session> {
        let turn = self.ended.run_until_cancelled(self.requests.turn()).await;
        let Some(permit) = turn.filter(|_| !self.ended.is_cancelled()) else {
            return Err(self.error(ErrorKind::Closed, Operation::Open, "the upload ended before"));
        };
        let open = |attempt| async move {
            let (key, options) = (&self.key, &self.options);
            if self.takes == SessionTakes::OnlyParts {
                return self.backend.need_parts()?.open(key, options, PartOrigin::Sent, attempt).await;
            }
            if let SessionTakes::Parts(origin) = self.takes {
                let opened = self.backend.need_parts()?.open(key, options, origin, attempt).await;
                let is_lacking = opened.as_ref().is_err_and(|fault| fault.kind == FaultKind::Unsupported);
                if !is_lacking || origin != PartOrigin::Sent || self.backend.appending().is_none() {
                    return opened;
                }
            }
            self.backend.need_append()?.open(key, options, attempt).await
        };
        let sent = self.requests.send(Operation::Open, None, Some(permit), open);
        sent.await.map_err(|failure| failure.into_error(Operation::Open, &self.requests.object))
    }

    /// Records that a session is about to be opened. Each session has its own record, so that the open
    /// session stays recorded when earlier ones have ended.
    async fn enter(&self) -> Arc<RecordedSession> {
        let place = records::place(&*self.backend, &self.key);
        let entry = Arc::new(self.records.begin(self.backend.endpoint(), place).await);
        *self.entry.lock().unwrap_or_else(PoisonError::into_inner) = Some(entry.clone());
        entry
    }

    fn entry(&self) -> Option<Arc<RecordedSession>> {
        self.entry.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Option<Opening>> {
        self.opening.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The session; waits until it is open.
    pub(crate) async fn session(&self) -> Result<Session> {
        let opening = self.lock().clone();
        match opening {
            Some(opening) => {
                opening.await.map_err(|(Unopened::Failed(error) | Unopened::Lost(error))| error.again())
            }
            None => Err(self.error(ErrorKind::Closed, Operation::Open, "no session was asked for")),
        }
    }

    pub(super) async fn session_ended(&self) {
        if let Some(entry) = self.entry() {
            entry.ended().await;
        }
    }

    /// Aborts the session: `false` where the store had no such session any more. `true` also where no session
    /// was opened, and where the store aborts none.
    pub(crate) async fn abort_session(&self) -> Result<bool> {
        self.abort_session_by(&self.requests).await
    }

    /// Like `abort_session`, for an upload that was abandoned. Takes turns from the aborts' own limiter: a runtime that
    /// is blocked may hold all of the endpoint's turns.
    pub(super) async fn abort_session_beside(&self) -> Result<bool> {
        match self.aborts.patience() {
            Some(_) => self.abort_session_by(&self.requests.beside()).await,
            None => self.abort_session().await,
        }
    }

    async fn abort_session_by(&self, requests: &Requests) -> Result<bool> {
        let opening = self.lock().clone();
        let Some(opening) = opening else { return Ok(true) };
        let session = match opening.await {
            Ok(session) => session,
            // A session that could not be opened need not be aborted.
            Err(Unopened::Failed(_)) => return Ok(true),
            Err(Unopened::Lost(error)) => {
                if let Some(entry) = self.entry() {
                    entry.left().await;
                }
                let message = "the store may have opened a session, whose id is not known";
                return Err(self.error(ErrorKind::Closed, Operation::Abort, message).with_source(error));
            }
        };
        if !self.backend.capabilities().aborts {
            // Nothing can be done about the parts, which the store discards itself.
            self.session_ended().await;
            return Ok(true);
        }
        let abort = |attempt| self.backend.abort(&session, attempt);
        let sent = requests.send(Operation::Abort, None, None, abort).await;
        match sent {
            Ok(()) => {
                self.session_ended().await;
                Ok(true)
            }
            Err(failure) if failure.fault.kind == FaultKind::NoSession => {
                self.session_ended().await;
                Ok(false)
            }
            Err(failure)
                if failure.fault.kind == FaultKind::NotAStore && self.is_gone(&session, requests).await =>
            {
                self.session_ended().await;
                Ok(false)
            }
            Err(failure) => {
                if let Some(entry) = self.entry() {
                    entry.left().await;
                }
                Err(self.failed(failure, Operation::Abort).and(&format!("upload id {}", session.shown_id())))
            }
        }
    }

    /// Whether the store itself answers that the session does not exist.
    async fn is_gone(&self, session: &Session, requests: &Requests) -> bool {
        let held = |attempt| async move { self.backend.need_admin()?.held(session, attempt).await };
        let held = requests.send(Operation::List, None, None, held).await;
        held.is_err_and(|asked| asked.fault.kind == FaultKind::NoSession && asked.fault.answered)
    }

    /// The requests in flight that the driver waits for.
    pub(super) fn tasks(&self) -> MutexGuard<'_, Tasks> {
        self.tasks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends an upload that publishes nothing. All callers wait for the same abort; after a failed abort, the next call
    /// tries once more.
    pub(super) fn discard(self: &Arc<Self>) -> Ending {
        let mut ending = self.ending.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(begun) = &*ending
            && !matches!(begun.peek(), Some(Err(_)))
        {
            return begun.clone();
        }
        self.ended.cancel();
        let ended = match self.points.are_kept() {
            true => self.leave().boxed(),
            false => self.abort().boxed(),
        };
        let ended = async move { ended.await.map_err(Arc::new) }.boxed().shared();
        ending.insert(ended).clone()
    }

    /// Cancels the requests in flight, and leaves the session to those who have a point of it.
    fn leave(self: &Arc<Self>) -> impl Future<Output = Result<()>> + use<> {
        let mut tasks = std::mem::take(&mut *self.tasks());
        tasks.abort_all();
        if let Some(entry) = self.entry() {
            entry.end_now();
        }
        let patience = self.aborts.patience();
        let wait = async move {
            within(patience, ended(&mut tasks)).await;
            Ok(())
        };
        let task = self.aborts.spawn(wait, None, &self.runtime);
        async move {
            if let Some(task) = task {
                // It only waits, so there is nothing to report if its runtime is shut down.
                let _ = task.await;
            }
            Ok(())
        }
    }

    /// Takes in that nobody continues this upload any more: from here on it is aborted like any other, even if it was left
    /// before. Whether it had points.
    pub(super) fn forget_points(&self) -> bool {
        let had_points = self.points.forget();
        if had_points {
            *self.ending.lock().unwrap_or_else(PoisonError::into_inner) = None;
        }
        had_points
    }

    /// Cancels the requests in flight, then aborts the session; another one may be opened in its stead. Runs in its own
    /// task, so that it continues where the writer can't wait.
    pub(crate) fn abort(self: &Arc<Self>) -> impl Future<Output = Result<()>> + use<> {
        let mut tasks = std::mem::take(&mut *self.tasks());
        // Now, so that no request is sent any more that was not sent yet.
        tasks.abort_all();
        let upload = self.clone();
        // A single PUT has no session, but the end of its request must be awaited. What a forked process inherits is
        // its parent's.
        let is_needed = (!tasks.is_empty() || self.lock().is_some()) && !self.aborts.is_inherited();
        let under_way = is_needed.then(|| self.aborts.begin(self.clone()));
        let awaited = is_needed.then(|| self.aborts.awaited());
        let task = async move {
            let is_stopped = within(upload.aborts.patience(), ended(&mut tasks)).await.is_some();
            let had_session = upload.lock().is_some();
            let mut aborted = upload.abort_session_beside().await;
            // A session that still existed has published nothing, unless the store has not aborted it.
            let aborts = upload.backend.capabilities().aborts;
            let is_unpublished = matches!(aborted, Ok(true)) && had_session && aborts;
            if !is_stopped {
                // The runtime of the requests stands still, perhaps in the very drop that waits for this abort.
                drop(awaited);
                within(Some(STANDSTILL), ended(&mut tasks)).await;
            }
            if is_unpublished && (upload.given_up.is_set() || !is_stopped) {
                // A part request that was given up may have reached the store after the abort.
                aborted = upload.abort_session_beside().await;
            }
            let is_certain = aborted.is_ok() && (is_unpublished || !upload.publishing.is_set());
            if let Some(under_way) = under_way.filter(|_| is_certain) {
                under_way.end_certain();
            }
            aborted.map(|_| ())
        };
        let not_aborted = |object: String| {
            let message = "the runtime was shut down before the session was aborted";
            Error::new(ErrorKind::Closed, Operation::Abort, object, message)
        };
        // Not the upload itself: it keeps the returned future, and would never be freed.
        let object = self.requests.object.clone();
        let lost = self.lock().is_some().then(|| not_aborted(object.clone()));
        let task = is_needed.then(|| self.aborts.spawn(task, lost, &self.runtime)).flatten();
        async move {
            let Some(task) = task else { return Ok(()) };
            task.await.unwrap_or_else(|ended| Err(not_aborted(object).with_source(ended)))
        }
    }

    /// The error of a task that ended without a result: its runtime was shut down, or the task panicked. If
    /// the task sent the request of `commit`, the outcome of the commit is unknown.
    pub(super) fn ended_early(&self, commit: Option<Operation>, ended: JoinError) -> Error {
        let error = match commit {
            Some(operation) => {
                let message = "the task of the commit ended early; the store may have carried it out";
                self.error(ErrorKind::Uncertain, operation, message)
            }
            None => self.error(ErrorKind::Closed, Operation::Part, "the task of a part ended early"),
        };
        error.with_source(ended)
    }

    /// Fails in a process that has inherited the upload.
    pub(super) fn check_owner(&self, operation: Operation) -> Result<()> {
        self.aborts.owner.check(operation, || self.requests.object.clone())
    }

    pub(crate) fn error(&self, kind: ErrorKind, operation: Operation, message: impl Into<String>) -> Error {
        Error::new(kind, operation, self.requests.object.clone(), message)
    }

    pub(super) fn failed(&self, mut failure: Failure, operation: Operation) -> Error {
        if failure.fault.kind == FaultKind::Exists && self.options.replaces.is_some() {
            failure.fault.kind = FaultKind::Replaced;
        }
        failure.into_error(operation, &self.requests.object)
    }
}

/// Longest wait for requests on a runtime that stands still, before their session is aborted once more.
const STANDSTILL: Duration = Duration::from_secs(10);

/// Waits until all tasks have ended.
async fn ended<T: 'static>(tasks: &mut JoinSet<T>) {
    while tasks.join_next().await.is_some() {}
}

/// Waits for `awaited`, for `longest` at most, if there is a limit.
pub(super) async fn within<T>(longest: Option<Duration>, awaited: impl Future<Output = T>) -> Option<T> {
    match longest {
        Some(longest) => timeout(longest, awaited).await.ok(),
        None => Some(awaited.await),
    }
}
