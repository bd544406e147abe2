//! Runs one seed of pending uploads: processes prepare, crash, commit elsewhere, twice, and after an abandon. Before that,
//! some persist points and crash, and others continue from there, from an older point, or twice from one.
//!
//! Each process writes bytes of its own behind the point that it continues from, so that a mix of two writers' bytes shows.
//! Each process is an engine of its own on the same simulated store, and knows of an upload only its JSON. A crash drops
//! what the process is doing. After the processes, one that never crashes ends each upload on a store without faults, and
//! the model's history shows what was ever visible. Last comes a set.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use fastrand::Rng;
use tidegate::settings::Concurrency;
use tidegate::upload::{Pending, Resumable};
use tidegate::{ErrorKind, Store, Tidegate, Writer};
use tokio::time::{sleep, timeout};

use crate::content::{content, mix};
use crate::faults::RequestTrouble;
use crate::plant::Planted;
use crate::run::{RunReport, Settings};
use crate::scenario::Scenario;
use crate::sets::SetCase;
use crate::store::{SimStore, WRITER, writer_of};
use crate::trace::RunTrace;
use crate::witness::{WatchedWriter, Witness};

/// The processes that prepare, for the bytes that they write; those that persist points are counted from 0.
const FIRST: u64 = 100;
const SECOND: u64 = 101;

/// What a process does with a pending upload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Deed {
    Commit,
    Abandon,
}

/// How a call ended.
#[derive(Clone, Debug)]
enum CallEnd {
    Done,
    Failed(ErrorKind, String),
    /// The process crashed in the middle.
    Crashed,
}

/// One call of a process.
#[derive(Clone, Debug)]
struct PendingCall {
    deed: Deed,
    end: CallEnd,
    /// How many versions of the object there had been when the call ended.
    versions: usize,
}

/// One upload: its plan, and what became of it.
struct Case {
    number: usize,
    key: String,
    size: u64,
    create_only: bool,
    /// The processes before the one that prepares it: each persists a point that the next one may continue from.
    legs: Vec<Leg>,
    /// When the process that prepares it crashes, in virtual milliseconds after its start.
    crash: Option<u64>,
    /// The processes after it: when each starts, what it does, and when it crashes.
    others: Vec<(u64, Deed, Option<u64>)>,
    /// Which deed ends it at last.
    last: Deed,
}

/// A point, and the bytes of the process that persisted it.
struct PersistedPoint {
    point: Resumable,
    written: Bytes,
}

/// A prepared upload as JSON, and the bytes of the object to be.
struct PreparedUpload {
    json: String,
    content: Bytes,
}

/// A process that persists a point.
#[derive(Clone, Debug)]
struct Leg {
    /// How many bytes come before its point, if the one before it was no later.
    to: u64,
    /// To which byte it goes on behind its point.
    beyond: u64,
    persists_again: bool,
    /// Whether the point goes into a checkpoint, which the next process continues from.
    is_kept: bool,
    /// When it crashes, in virtual milliseconds after its start.
    crash: Option<u64>,
}

impl Leg {
    fn draw_some(size: u64, random: &mut Rng) -> Vec<Self> {
        let mut legs: Vec<Self> = (0..random.usize(1..=3))
            .map(|_| Self {
                to: random.u64(0..=size),
                beyond: random.u64(0..=size),
                persists_again: random.bool(),
                is_kept: random.u8(0..4) > 0,
                crash: random.bool().then(|| random.u64(0..=900)),
            })
            .collect();
        legs.sort_by_key(|leg| leg.to);
        legs
    }
}

impl Case {
    fn draw(number: usize, scenario: &Scenario, random: &mut Rng) -> Self {
        let limits = &scenario.capabilities;
        let most = (limits.min_part * 6).min(limits.max_object).min(limits.max_part);
        let size = if random.u8(0..6) == 0 { 0 } else { random.u64(0..=most) };
        let deed = |random: &mut Rng| if random.u8(0..4) == 0 { Deed::Abandon } else { Deed::Commit };
        let crash = |random: &mut Rng| random.bool().then(|| random.u64(0..=600));
        let others = (0..random.usize(0..=4))
            .map(|_| {
                // Mostly at the same time.
                let start = if random.bool() { 0 } else { random.u64(0..=2000) };
                (start, deed(random), crash(random))
            })
            .collect();
        let legs = if random.bool() { Leg::draw_some(size, random) } else { Vec::new() };
        Self {
            number,
            key: format!("key-{number}"),
            size,
            legs,
            create_only: random.bool(),
            crash: if random.u8(0..4) == 0 { Some(random.u64(0..=600)) } else { None },
            others,
            last: deed(random),
        }
    }
}

/// Runs the pending uploads of one seed.
pub fn run(settings: &Settings) -> RunReport {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    match runtime {
        Ok(runtime) => runtime.block_on(simulate(settings)),
        Err(error) => RunReport {
            seed: settings.seed,
            failures: vec![format!("no runtime: {error}")],
            ..RunReport::default()
        },
    }
}

async fn simulate(settings: &Settings) -> RunReport {
    // A commit, or an abandon, says nothing of an object that was replaced since.
    let scenario = Scenario { is_contested: false, ..Scenario::new(settings.seed) };
    let mut random = Rng::with_seed(mix(settings.seed ^ 0x0070_656e_6469_6e67));
    let trace = Arc::new(RunTrace::new(settings.trace));
    let cases: Vec<Case> =
        (0..random.usize(1..=4)).map(|number| Case::draw(number, &scenario, &mut random)).collect();
    let set = SetCase::draw(cases.len(), settings.seed, &scenario);
    let subjects = cases
        .iter()
        .map(|case| WatchedWriter {
            key: case.key.clone(),
            content: content(settings.seed, case.number, case.size),
            parts_in_flight: usize::MAX,
            streamed: true,
            others: Vec::new(),
            resumed: !case.legs.is_empty(),
        })
        .chain(set.watched(settings.seed))
        .collect();
    let store = SimStore::new(&scenario, Witness::new(subjects, None), random.fork(), trace.clone());
    let mut report = RunReport { seed: settings.seed, ..RunReport::default() };
    let run = PendingRun { settings, scenario: &scenario, store: &store, trace: &trace };
    for case in &cases {
        let seed = random.u64(..);
        if let Err(failure) = run.case(case, seed, &mut report).await {
            report.failures.push(format!("{}: {failure}", case.key));
        }
    }
    if let Err(failure) = set.run(&run, &mut report).await {
        report.failures.push(format!("the set: {failure}"));
    }
    let state = store.state();
    report.failures.extend(state.witness.violations.iter().cloned());
    report.troubles = state.witness.troubles;
    report.requests = state.witness.requests;
    report.elapsed = Duration::from_millis(trace.now());
    (report.hash, report.events, report.trace) = (trace.hash(), trace.events(), trace.lines());
    report
}

/// What all processes of a run share.
pub(crate) struct PendingRun<'a> {
    pub(crate) settings: &'a Settings,
    scenario: &'a Scenario,
    pub(crate) store: &'a SimStore,
    pub(crate) trace: &'a Arc<RunTrace>,
}

impl PendingRun<'_> {
    /// A process: an engine of its own.
    pub(crate) fn process(&self, seed: u64) -> Result<Store, String> {
        let scenario = self.scenario;
        let tide = Tidegate::builder()
            .memory(scenario.memory.max(4 * scenario.capabilities.min_part))
            .slab(scenario.slab)
            .concurrency(scenario.concurrency.map_or(Concurrency::Auto, Concurrency::Fixed))
            .retry(scenario.retry.clone())
            .part_size(scenario.capabilities.min_part)
            .aborts_on_writers_runtime()
            .seed(seed)
            .build();
        let tide = tide.map_err(|error| format!("the engine refuses its settings: {error}"))?;
        Ok(match self.settings.plant {
            Some(plant) => tide.store(Arc::new(Planted::new(self.store.clone(), plant))),
            None => tide.store(Arc::new(self.store.clone())),
        })
    }

    /// How many versions of the object were ever visible.
    fn versions(&self, case: &Case) -> usize {
        let state = self.store.state();
        let ours = |version: &&crate::model::VisibleObject| {
            writer_of(&version.object.attributes) == Some(case.number)
        };
        state.model.history(&case.key).iter().filter(ours).count()
    }

    async fn case(&self, case: &Case, seed: u64, report: &mut RunReport) -> Result<(), String> {
        let point = self.persist(case, seed).await?;
        let mut prepared = self.prepare(case, point.as_ref(), seed, FIRST).await?;
        let mut is_replaced = false;
        self.store.quiesce().await;
        if let Some(point) = point.as_ref().filter(|_| prepared.is_none() || case.number.is_multiple_of(2)) {
            // Another process continues from the same point, and what it prepares counts. If it does not get that far, it may
            // have replaced parts of the first.
            let again = self.prepare(case, Some(point), seed ^ 0xff00, SECOND).await?;
            is_replaced = again.is_none();
            prepared = again.or(prepared);
            self.store.quiesce().await;
        }
        if self.versions(case) > 0 {
            return Err("it was visible before a commit".to_owned());
        }
        let name = match (&prepared, &point) {
            (Some(_), Some(_)) => "prepared from a point",
            (Some(_), None) => "prepared",
            (None, _) => "not prepared",
        };
        *report.outcomes.entry(name.to_owned()).or_default() += 1;
        let point = point.map(|persisted| persisted.point);
        let Some(PreparedUpload { json, content }) = prepared else {
            return match point {
                Some(point) => self.give_up(case, &point, seed).await,
                None => Ok(()),
            };
        };
        self.store.state().witness.seen[case.number].finishing = true;
        let mut calls = self.others(case, seed, &json).await?;
        let last = self.process(seed ^ 0xff)?;
        self.store.quiesce().await;
        self.store.state().is_calm = true;
        calls.push(self.call(&last, case, &json, case.last, None).await?);
        let is_done = matches!(calls.last().map(|call| &call.end), Some(CallEnd::Done));
        let checked = match point.filter(|_| is_done) {
            Some(point) => self.check_gone(&last, &point).await,
            None => Ok(()),
        };
        self.store.state().is_calm = false;
        checked?;
        self.check(case, &calls, &content, is_replaced, report)
    }

    /// Gives up an upload that has a point and was not prepared.
    async fn give_up(&self, case: &Case, point: &Resumable, seed: u64) -> Result<(), String> {
        let process = self.process(seed ^ 0xfff)?;
        self.store.state().is_calm = true;
        let abandoned = process.abandon(point).await;
        let checked = self.check_gone(&process, point).await;
        self.store.state().is_calm = false;
        abandoned.map_err(|error| format!("{}: its point was not given up: {error}", case.key))?;
        checked
    }

    /// Nothing continues from a point of an upload that has ended, and nothing is left of it.
    async fn check_gone(&self, process: &Store, point: &Resumable) -> Result<(), String> {
        match process.resume(point).await {
            Err(error) if error.kind() == ErrorKind::SessionLost => {}
            Err(error) => return Err(format!("a point of an upload that has ended: {error}")),
            Ok(_) => return Err("an upload that has ended was continued".to_owned()),
        }
        let state = self.store.state();
        let is_left = |key: &&str| {
            key.starts_with(".tidegate/") && key.contains(point.token()) && state.model.current(key).is_some()
        };
        match state.model.keys().filter(is_left).count() {
            0 => Ok(()),
            left => Err(format!("{left} records or tails are left of an upload that has ended")),
        }
    }

    /// The object as a process writes it: the bytes before its point, and behind them bytes of its own.
    fn content_of(&self, case: &Case, point: Option<&PersistedPoint>, process: u64) -> Bytes {
        let base = content(self.settings.seed, case.number, case.size);
        let before =
            point.map_or(0, |persisted| usize::try_from(persisted.point.size()).unwrap_or(usize::MAX));
        let before = before.min(base.len());
        let mark = (mix(process) as u8) | 1;
        let mut bytes: Vec<u8> = base.iter().map(|byte| byte ^ mark).collect();
        if let Some(persisted) = point {
            bytes[..before].copy_from_slice(&persisted.written[..before]);
        }
        let bytes = Bytes::from(bytes);
        let mut state = self.store.state();
        state.witness.also_writes(case.number, bytes.clone());
        if point.is_some() {
            state.model.share(&case.key);
        }
        bytes
    }

    /// Begins the upload, or continues it from a point; gives the writer all bytes up to `to`.
    async fn write(
        &self,
        process: &Store,
        case: &Case,
        point: Option<&Resumable>,
        bytes: &Bytes,
        to: u64,
    ) -> tidegate::Result<Writer> {
        let mut writer = match point {
            Some(point) => process.resume(point).await?,
            None => {
                let builder = process.writer(case.key.clone()).metadata(WRITER, case.number.to_string());
                if case.create_only { builder.create_only().await? } else { builder.await? }
            }
        };
        let from = usize::try_from(writer.position()).unwrap_or(usize::MAX).min(bytes.len());
        let to = usize::try_from(to).unwrap_or(usize::MAX).clamp(from, bytes.len());
        writer.write_bytes(bytes.slice(from..to)).await?;
        Ok(writer)
    }

    /// The processes that persist points. Each may crash, also after it went on behind its point. The last point that went
    /// into a checkpoint is the result.
    async fn persist(&self, case: &Case, seed: u64) -> Result<Option<PersistedPoint>, String> {
        let mut last: Option<PersistedPoint> = None;
        for (number, leg) in case.legs.iter().enumerate() {
            let process = self.process(seed ^ ((number as u64 + 1) << 32))?;
            let persisted = Mutex::new(None);
            let bytes = self.content_of(case, last.as_ref(), number as u64);
            let from = last.as_ref().map(|last| &last.point);
            let run = async {
                let mut writer = self.write(&process, case, from, &bytes, leg.to).await?;
                let point = writer.persist().await?;
                *persisted.lock().unwrap_or_else(PoisonError::into_inner) = Some(point.to_json());
                let more = leg.beyond.saturating_sub(writer.position());
                let from = usize::try_from(writer.position()).unwrap_or(usize::MAX).min(bytes.len());
                let to = bytes.len().min(from + usize::try_from(more).unwrap_or(usize::MAX));
                writer.write_bytes(bytes.slice(from..to)).await?;
                if leg.persists_again {
                    writer.persist().await?;
                }
                Ok::<(), tidegate::Error>(())
            };
            let limit = leg.crash.map_or(Duration::MAX, Duration::from_millis);
            let ended = match timeout(limit, run).await {
                Ok(Ok(())) => "done".to_owned(),
                Ok(Err(error)) if last.is_some() => self.explained(&error)?,
                Ok(Err(error)) => format!("{:?}", error.kind()),
                Err(_) => "crashed".to_owned(),
            };
            self.trace.note(format_args!("{}: a process that persists has ended: {ended}", case.key));
            process.tide().settled().await;
            // What it had sent may arrive later, and replace what the next process sends.
            self.store.quiesce().await;
            let persisted = persisted.into_inner().unwrap_or_else(PoisonError::into_inner);
            if let Some(json) = persisted.filter(|_| leg.is_kept) {
                let point = Resumable::from_json(&json).map_err(|error| error.to_string())?;
                if point.size() < leg.to.min(case.size) {
                    return Err(format!("a point at {} is to be at {}", point.size(), leg.to));
                }
                last = Some(PersistedPoint { point, written: bytes });
            }
        }
        Ok(last)
    }

    /// The error of a process that continues from a point. A point is lost only with its session.
    fn explained(&self, error: &tidegate::Error) -> Result<String, String> {
        match error.kind() {
            ErrorKind::SessionLost if !self.may_lose_sessions() => {
                Err(format!("a point is lost, and nobody has ended its upload: {error}"))
            }
            kind if may_pass(kind) || kind == ErrorKind::SessionLost => Ok(format!("{kind:?}")),
            _ => Err(format!("a point is not continued, without a reason: {error}")),
        }
    }

    /// The last process of those that write: prepares the upload, unless it crashes or fails.
    async fn prepare(
        &self,
        case: &Case,
        point: Option<&PersistedPoint>,
        seed: u64,
        who: u64,
    ) -> Result<Option<PreparedUpload>, String> {
        let process = self.process(seed)?;
        let content = self.content_of(case, point, who);
        let prepare = async {
            let from = point.map(|persisted| &persisted.point);
            let writer = self.write(&process, case, from, &content, case.size).await?;
            writer.prepare().await
        };
        let limit = case.crash.map_or(Duration::MAX, Duration::from_millis);
        let prepared = match timeout(limit, prepare).await {
            Ok(Ok(pending)) => Some(PreparedUpload { json: pending.to_json(), content: content.clone() }),
            Ok(Err(error)) => {
                self.trace.note(format_args!("{} was not prepared: {:?}", case.key, error.kind()));
                if point.is_some() {
                    self.explained(&error)?;
                }
                None
            }
            Err(_) => None,
        };
        process.tide().settled().await;
        Ok(prepared)
    }

    /// The processes that commit or abandon it, some at once.
    async fn others(&self, case: &Case, seed: u64, json: &str) -> Result<Vec<PendingCall>, String> {
        let mut processes = Vec::new();
        for (number, (start, deed, crash)) in case.others.iter().copied().enumerate() {
            let process = self.process(seed.wrapping_add(number as u64 + 1))?;
            processes.push(async move {
                sleep(Duration::from_millis(start)).await;
                self.call(&process, case, json, deed, crash).await
            });
        }
        futures::future::join_all(processes).await.into_iter().collect()
    }

    async fn call(
        &self,
        process: &Store,
        case: &Case,
        json: &str,
        deed: Deed,
        crash: Option<u64>,
    ) -> Result<PendingCall, String> {
        let pending = Pending::from_json(json).map_err(|error| error.to_string())?;
        self.trace.note(format_args!("{}: {deed:?} begins", case.key));
        let call = async {
            match deed {
                Deed::Commit => process.commit(&pending).await.map(|object| object.size),
                Deed::Abandon => process.abandon(&pending).await.map(|()| case.size),
            }
        };
        let limit = crash.map_or(Duration::MAX, Duration::from_millis);
        let end = match timeout(limit, call).await {
            Ok(Ok(size)) if size != case.size => {
                return Err(format!("{size} bytes were committed of {}", case.size));
            }
            Ok(Ok(_)) => CallEnd::Done,
            Ok(Err(error)) => CallEnd::Failed(error.kind(), error.to_string()),
            Err(_) => CallEnd::Crashed,
        };
        self.trace.note(format_args!("{}: {deed:?} ends: {}", case.key, name_of(&end)));
        Ok(PendingCall { deed, end, versions: self.versions(case) })
    }

    /// `content` is that of the upload; `is_replaced` says that another process may have replaced parts of it.
    fn check(
        &self,
        case: &Case,
        calls: &[PendingCall],
        content: &Bytes,
        is_replaced: bool,
        report: &mut RunReport,
    ) -> Result<(), String> {
        let versions = self.versions(case);
        for call in calls {
            *report.outcomes.entry(format!("{:?}: {}", call.deed, name_of(&call.end))).or_default() += 1;
        }
        let failure = |what: &str| Err(format!("{what}: {versions} versions, {calls:#?}"));
        if versions > 1 {
            return failure("it was published more than once");
        }
        {
            let state = self.store.state();
            if state.model.history(&case.key).iter().any(|version| version.pieces.concat() != *content) {
                return failure("a torn object was visible");
            }
        }
        let began = |deed| calls.iter().any(|call| call.deed == deed);
        for call in calls {
            match (&call.end, call.deed) {
                (CallEnd::Done, Deed::Commit) if call.versions != 1 => {
                    return failure("a commit has succeeded, and no object was there");
                }
                (CallEnd::Done, Deed::Abandon) if versions != 0 => {
                    return failure("it was abandoned, and published");
                }
                (CallEnd::Failed(ErrorKind::SessionLost, _), Deed::Commit) if versions != 0 => {
                    return failure("a commit says that nothing is published, and it was");
                }
                (CallEnd::Failed(ErrorKind::SessionLost, _), Deed::Commit)
                    if !began(Deed::Abandon) && !self.may_lose_sessions() && !is_replaced =>
                {
                    return failure("it is lost, and nobody has abandoned it");
                }
                (CallEnd::Failed(ErrorKind::Closed, _), Deed::Abandon) if call.versions != 1 => {
                    return failure("an abandon says that it was committed, and it was not");
                }
                (CallEnd::Failed(kind, said), _) if !is_explained(*kind, call.deed) => {
                    return failure(&format!("an error without a reason, {said}"));
                }
                _ => {}
            }
        }
        let last = calls.last().map(|call| &call.end);
        if matches!(last, Some(CallEnd::Failed(kind, _)) if may_pass(*kind)) {
            return failure("it could not be ended");
        }
        report.committed += if versions == 1 { case.size } else { 0 };
        Ok(())
    }

    /// Whether the store may have ended a session itself, or have replaced a part by a late copy of it.
    pub(crate) fn may_lose_sessions(&self) -> bool {
        let troubles = &self.store.state().witness.troubles;
        troubles[RequestTrouble::Expired.index()] > 0 || self.scenario.copies_differ
    }
}

/// Whether a later call may succeed after this error.
pub(crate) fn may_pass(kind: ErrorKind) -> bool {
    use ErrorKind::{Integrity, PermissionDenied, Throttled, Timeout, Unavailable, Uncertain};
    matches!(kind, Integrity | PermissionDenied | Throttled | Timeout | Unavailable | Uncertain)
}

/// Whether the store's faults, or what other processes did, explain this error.
fn is_explained(kind: ErrorKind, deed: Deed) -> bool {
    match deed {
        Deed::Commit => may_pass(kind) || kind == ErrorKind::SessionLost,
        Deed::Abandon => may_pass(kind) || kind == ErrorKind::Closed,
    }
}

fn name_of(end: &CallEnd) -> String {
    match end {
        CallEnd::Done => "done".to_owned(),
        CallEnd::Failed(kind, _) => format!("{kind:?}"),
        CallEnd::Crashed => "crashed".to_owned(),
    }
}
