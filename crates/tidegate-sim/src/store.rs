//! The simulated store: a [`Model`] behind a network on which things go wrong.

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use fastrand::Rng;
use futures::TryStreamExt;
use tidegate::backend::{Fault, FaultKind, Info, Session, WriteOptions};
use tidegate::payload::Payload;
use tidegate::{Attributes, Operation, Tidegate};
use tokio::time::{Instant, sleep, sleep_until};

use crate::faults::{Fate, Profile, RequestTrouble};
use crate::model::{Model, StoreAnswer, StoreRequest};
use crate::scenario::Scenario;
use crate::trace::RunTrace;
use crate::witness::Witness;

mod backend;
#[cfg(test)]
mod tests;

/// The number, in its metadata, of a writer that wrote hours before the run.
pub const OLD: &str = "foreign, long ago";

/// The metadata name under which a writer stores its number.
pub const WRITER: &str = "writer";

/// A simulated store; a clone is the same store.
#[derive(Clone, Debug)]
pub struct SimStore {
    shared: Arc<SharedStore>,
}

#[derive(Debug)]
struct SharedStore {
    info: Info,
    profile: Profile,
    /// When the store stops answering, and when it answers again.
    stall: Option<(Instant, Instant)>,
    is_contested: bool,
    trace: Arc<RunTrace>,
    engine: OnceLock<Tidegate>,
    state: Mutex<StoreState>,
}

/// Everything that the store holds and has recorded.
#[derive(Debug)]
pub struct StoreState {
    /// Objects and sessions.
    pub model: Model,
    /// The record of all requests.
    pub witness: Witness,
    /// How many requests without a normal answer have still to take effect.
    pub late: usize,
    /// Whether requests are answered without faults for now, whatever the profile.
    pub is_calm: bool,
    random: Rng,
}

/// A request between arrival and answer. Dropped without an answer, the request was given up by the client.
struct ArrivedRequest {
    store: SimStore,
    id: u64,
    label: String,
    /// The command to carry out even if the client gives up now.
    outlives: Option<StoreRequest>,
    answered: bool,
}

/// A request, before its bytes are read.
struct AskedRequest<'a> {
    operation: Operation,
    writers: Vec<usize>,
    label: String,
    session: Option<&'a Session>,
    payload: Option<&'a Payload>,
    /// The part's number and its offset.
    part: Option<(u32, u64)>,
}

impl SimStore {
    /// An empty store.
    pub fn new(scenario: &Scenario, witness: Witness, random: Rng, trace: Arc<RunTrace>) -> Self {
        let (capabilities, profile) = (scenario.capabilities.clone(), scenario.profile.clone());
        let model = Model::new(scenario);
        let state = StoreState { model, witness, late: 0, is_calm: false, random };
        let stall = scenario.stall.map(|(at, length)| {
            let from = Instant::now() + Duration::from_millis(at);
            (from, from + Duration::from_millis(length))
        });
        let (engine, state) = (OnceLock::new(), Mutex::new(state));
        let info = Info::new("sim://store", "sim://", capabilities);
        let is_contested = scenario.is_contested;
        let shared = SharedStore { info, profile, stall, is_contested, trace, engine, state };
        Self { shared: Arc::new(shared) }
    }

    /// Sets the engine whose memory is watched.
    pub fn watch(&self, engine: Tidegate) {
        // Only the first engine is watched.
        let _ = self.shared.engine.set(engine);
    }

    /// The store's state. Lock it only between awaits.
    pub fn state(&self) -> MutexGuard<'_, StoreState> {
        self.shared.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes an object as another client would, without the engine; `is_old` dates it hours before the run.
    pub fn write_foreign(&self, key: &str, bytes: Bytes, is_old: bool) {
        let mut options = WriteOptions::default();
        options
            .attributes
            .metadata
            .insert(WRITER.to_owned(), if is_old { OLD } else { "foreign" }.to_owned());
        self.carry_out("another's put", StoreRequest::Put { key: key.to_owned(), bytes, options });
    }

    /// Waits until no late request has still to take effect.
    pub async fn quiesce(&self) {
        while self.state().late > 0 {
            sleep(Duration::from_secs(1)).await;
        }
    }

    fn execute(&self, label: &str, command: StoreRequest) -> Result<StoreAnswer, Fault> {
        let opener = match &command {
            StoreRequest::Open { options, .. } => writer_of(&options.attributes),
            _ => None,
        };
        let mut state = self.state();
        if let StoreRequest::Head { key } = &command {
            state.witness.heads.push((key.clone(), self.shared.trace.now()));
        }
        let answer = state.model.execute(command, self.shared.trace.now());
        match &answer {
            Ok(StoreAnswer::Session(session)) => state.witness.opened(session, opener),
            // The engine must know the store's rules, and never break them.
            Err(fault) if fault.kind == FaultKind::Invalid => {
                state.witness.violation(format!("{label}: {fault}"))
            }
            _ => {}
        }
        drop(state);
        let outcome = match &answer {
            Ok(_) => "done".to_owned(),
            Err(fault) => fault.to_string(),
        };
        self.shared.trace.note(format_args!("{label} carried out: {outcome}"));
        answer
    }

    /// Like `execute`, when no client waits for the answer; the trace records the outcome.
    fn carry_out(&self, label: &str, command: StoreRequest) {
        let _ = self.execute(label, command);
    }

    fn arrive(&self, asked: &AskedRequest<'_>) -> (ArrivedRequest, Fate) {
        let AskedRequest { operation, writers, label, payload, .. } = asked;
        let usage = self.shared.engine.get().map(Tidegate::usage);
        let bytes = payload.map_or(0, |payload| payload.len());
        let mut state = self.state();
        let held = usage.map_or(u64::MAX, |usage| usage.held);
        if let Some(usage) = usage.filter(|usage| usage.held > usage.total) {
            state.witness.violation(format!("{} bytes held of a budget of {}", usage.held, usage.total));
        }
        let part = asked.session.zip(asked.part).map(|(session, (number, _))| (session.id.clone(), number));
        let id = state.witness.arrive(*operation, writers.clone(), label.clone(), part, bytes, held);
        let pieces = usize::try_from(bytes / 1024).unwrap_or(0);
        let mut fate = self.shared.profile.draw(&mut state.random, *operation, pieces);
        if state.is_calm {
            fate.trouble = None;
        }
        if let Some(trouble) = fate.trouble {
            state.witness.injected(*operation, writers, trouble);
        }
        drop(state);
        self.shared.trace.note(format_args!("#{id} {label}, {bytes} bytes, trouble {:?}", fate.trouble));
        let arrival =
            ArrivedRequest { store: self.clone(), id, label: label.clone(), outlives: None, answered: false };
        (arrival, fate)
    }

    /// One request, from its arrival to its answer.
    async fn exchange(
        &self,
        asked: AskedRequest<'_>,
        command: impl FnOnce(Bytes) -> StoreRequest + Send,
    ) -> Result<StoreAnswer, Fault> {
        let (mut arrival, fate) = self.arrive(&asked);
        let label = asked.label.clone();
        sleep(fate.before).await;
        if let Some((_, until)) = self.shared.stall.filter(|(from, _)| *from <= Instant::now()) {
            sleep_until(until).await;
        }
        if let (Some(RequestTrouble::Expired), Some(session)) = (fate.trouble, asked.session) {
            self.state().model.expire(session);
        }
        let mut bytes = Bytes::new();
        if let Some(payload) = asked.payload {
            let stop_after = match fate.trouble {
                Some(RequestTrouble::Reset(pieces)) => pieces,
                _ => usize::MAX,
            };
            match receive(payload, stop_after, fate.pace).await {
                Ok(Some(received)) => bytes = received,
                Ok(None) => {}
                Err(fault) => return arrival.answer(Err(fault)),
            }
            if !matches!(fate.trouble, Some(RequestTrouble::Reset(_))) {
                self.state().witness.received(&asked.writers, &label, asked.part, &bytes);
            }
        }
        let command = command(bytes);
        match fate.trouble {
            Some(
                RequestTrouble::LostRequest
                | RequestTrouble::Throttled(_)
                | RequestTrouble::Reset(_)
                | RequestTrouble::Integrity
                | RequestTrouble::OkWithError
                | RequestTrouble::Denied,
            ) => {
                sleep(fate.after).await;
                let fault = fate.trouble.and_then(RequestTrouble::fault);
                return arrival.answer(fault.map_or(Ok(StoreAnswer::Done), Err));
            }
            Some(RequestTrouble::Silence) => return std::future::pending().await,
            Some(RequestTrouble::Late(after)) => {
                self.spawn_late(label, command, Duration::from_millis(after));
                return std::future::pending().await;
            }
            Some(RequestTrouble::Cut(after)) => {
                self.spawn_late(label, command, Duration::from_millis(after));
                sleep(fate.after).await;
                let fault = fate.trouble.and_then(RequestTrouble::fault);
                return arrival.answer(fault.map_or(Ok(StoreAnswer::Done), Err));
            }
            Some(RequestTrouble::LostAnswer | RequestTrouble::Slow | RequestTrouble::Expired) | None => {}
        }
        arrival.outlives = fate.outlives_client.then(|| command.clone());
        sleep(fate.work).await;
        arrival.outlives = None;
        let published = match &command {
            StoreRequest::Put { key, .. } => Some(key.clone()),
            StoreRequest::Complete { session, .. } => Some(session.key.clone()),
            _ => None,
        };
        let answer = self.execute(&label, command);
        if self.shared.is_contested
            && fate.trouble == Some(RequestTrouble::LostAnswer)
            && let (Some(key), Ok(_)) = (published, &answer)
        {
            self.write_foreign(&key, Bytes::from_static(b"the other writer's"), false);
        }
        sleep(fate.after).await;
        match fate.trouble.and_then(RequestTrouble::fault) {
            Some(fault) => arrival.answer(Err(fault)),
            None => arrival.answer(answer),
        }
    }

    fn spawn_late(&self, label: String, command: StoreRequest, after: Duration) {
        self.state().late += 1;
        let store = self.clone();
        tokio::spawn(async move {
            sleep(after).await;
            store.carry_out(&format!("late {label}"), command);
            store.state().late -= 1;
        });
    }
}

impl ArrivedRequest {
    fn answer(&mut self, answer: Result<StoreAnswer, Fault>) -> Result<StoreAnswer, Fault> {
        self.answered = true;
        let trace = self.store.shared.trace.clone();
        match &answer {
            Ok(_) => trace.note(format_args!("#{} {} ok", self.id, self.label)),
            Err(fault) => trace.note(format_args!("#{} {} failed: {fault}", self.id, self.label)),
        }
        let mut state = self.store.state();
        state.witness.answer(self.id, &answer);
        if let Ok(StoreAnswer::Session(session)) = &answer
            && let Some(seen) = state.witness.sessions.get_mut(&session.id)
        {
            seen.delivered = true;
        }
        answer
    }
}

impl Drop for ArrivedRequest {
    fn drop(&mut self) {
        let answered = self.answered;
        self.store.state().witness.ended(self.id, answered);
        if answered {
            return;
        }
        self.store.shared.trace.note(format_args!("#{} {} given up by the client", self.id, self.label));
        if let Some(command) = self.outlives.take() {
            self.store.carry_out(&self.label, command);
        }
    }
}

/// Reads a payload; `None` if the connection was reset after `stop_after` pieces.
async fn receive(payload: &Payload, stop_after: usize, pace: Duration) -> Result<Option<Bytes>, Fault> {
    let mut bytes = BytesMut::new();
    let mut stream = payload.stream();
    let mut pieces = 0;
    loop {
        if pieces >= stop_after {
            return Ok(None);
        }
        match stream.try_next().await {
            Ok(Some(piece)) => bytes.extend_from_slice(&piece),
            Ok(None) => return Ok(Some(bytes.freeze())),
            Err(error) => return Err(Fault::new(FaultKind::Source, error.to_string()).with_source(error)),
        }
        pieces += 1;
        if !pace.is_zero() {
            sleep(pace).await;
        }
    }
}

/// The writer whose number these attributes carry.
pub fn writer_of(attributes: &Attributes) -> Option<usize> {
    attributes.metadata.get(WRITER)?.parse().ok()
}
