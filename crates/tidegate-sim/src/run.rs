//! Runs one seed from beginning to end: the engine, the simulated store and the writers.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use fastrand::Rng;
use futures::TryStreamExt;
use tidegate::backend::Backend;
use tidegate::settings::Concurrency;
use tidegate::{Progress, Store, Tidegate};
use tokio::time::timeout;

use crate::actor::{Actor, WriterOutcome, feed};
use crate::checks::{self, EndedWriter};
use crate::content::{content, mix};
use crate::curtain::Curtain;
use crate::disk::SimDisk;
use crate::faults::NAMES;
use crate::model::VisibleObject;
use crate::plant::{Plant, Planted};
use crate::scenario::{Scenario, WriterSource};
use crate::store::SimStore;
use crate::trace::RunTrace;
use crate::witness::{WatchedWriter, Witness};

/// Virtual time after which a run counts as stuck.
const LONGEST: Duration = Duration::from_secs(24 * 3600);

/// The settings of a run.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The seed that decides everything.
    pub seed: u64,
    /// The bug to plant.
    pub plant: Option<Plant>,
    /// Whether the trace's lines are kept.
    pub trace: bool,
}

impl Settings {
    /// A run of `seed` without a planted bug.
    pub fn new(seed: u64) -> Self {
        Self { seed, plant: None, trace: false }
    }
}

/// The result of a run.
#[derive(Clone, Debug, Default)]
pub struct RunReport {
    /// The seed.
    pub seed: u64,
    /// The violations; empty when all is well.
    pub failures: Vec<String>,
    /// The hash of all events.
    pub hash: u64,
    /// How many events there were.
    pub events: u64,
    /// The events, if the trace kept them.
    pub trace: Vec<String>,
    /// Faults injected, in the order of [`NAMES`].
    pub troubles: [u64; NAMES.len()],
    /// How many writers had each outcome.
    pub outcomes: BTreeMap<String, u64>,
    /// Requests that reached the store.
    pub requests: u64,
    /// Hedges: slow parts that were sent again.
    pub hedges: u64,
    /// Bytes of memory that were brought back by the spool.
    pub spilled: u64,
    /// Bytes in committed objects.
    pub committed: u64,
    /// Virtual time that passed.
    pub elapsed: Duration,
}

/// Runs one seed.
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

/// A started writer, watched in case the run gets stuck.
struct Started {
    status: Arc<Mutex<&'static str>>,
    progress: Arc<Mutex<Option<Progress>>>,
}

async fn simulate(settings: &Settings) -> RunReport {
    let scenario = Scenario::new(settings.seed);
    let trace = Arc::new(RunTrace::new(settings.trace));
    trace.note(format_args!("{scenario:?}"));
    let subjects = subjects(&scenario);
    let mut random = Rng::with_seed(mix(settings.seed ^ 0x0073_746f_7265));
    let witness = Witness::new(subjects.clone(), scenario.concurrency);
    let store = SimStore::new(&scenario, witness, random.fork(), trace.clone());
    let built = Tidegate::builder()
        .memory(scenario.memory)
        .slab(scenario.slab)
        .concurrency(scenario.concurrency.map_or(Concurrency::Auto, Concurrency::Fixed))
        .parts_in_flight(scenario.parts_in_flight)
        .retry(scenario.retry.clone())
        .memory_wait(if settings.plant == Some(Plant::Impatience) {
            scenario.memory_wait / 2
        } else {
            scenario.memory_wait
        })
        .aborts_on_writers_runtime()
        .seed(settings.seed);
    let disks = disks(&scenario, settings, &mut random, &trace);
    let built = disks.iter().fold(built, |built, disk| built.spool_disk(Arc::new(disk.clone()))).build();
    let tide = match built {
        Ok(tide) => tide,
        Err(error) => {
            let failures = vec![format!("the engine refuses its settings: {error}")];
            return RunReport { seed: settings.seed, failures, ..RunReport::default() };
        }
    };
    store.watch(tide.clone());
    let backend: Arc<dyn Backend> = match settings.plant {
        None => Arc::new(store.clone()),
        Some(plant) => Arc::new(Planted::new(store.clone(), plant)),
    };
    let bucket = tide.store(backend);
    let going_on = scenario.writers.iter().filter(|plan| plan.ending.holds().is_none()).count();
    let curtain = Arc::new(Curtain::new(going_on));
    let (mut writers, mut actors, mut tasks) = (Vec::new(), Vec::new(), BTreeMap::<_, Vec<Actor>>::new());
    for (number, plan) in scenario.writers.iter().enumerate() {
        let status = Arc::new(Mutex::new("not started"));
        let progress = Arc::new(Mutex::new(None));
        let actor = Actor {
            number,
            plan: plan.clone(),
            content: subjects[number].content.clone(),
            bucket: bucket.clone(),
            tide: tide.clone(),
            store: store.clone(),
            trace: trace.clone(),
            random: random.fork(),
            status: status.clone(),
            progress: progress.clone(),
            curtain: curtain.clone(),
            moved: 0,
            cancelled: 0,
        };
        writers.push(Started { status, progress });
        match plan.task.filter(|_| matches!(plan.source, WriterSource::Producer(_))) {
            Some(task) => tasks.entry(task).or_default().push(actor),
            None => actors.push(tokio::spawn(async move { vec![(number, actor.run().await)] })),
        }
    }
    actors.extend(tasks.into_values().map(|actors| tokio::spawn(feed(actors))));
    for (key, at) in scenario.foreign.clone() {
        let (store, seed) = (store.clone(), settings.seed);
        let write = async move {
            tokio::time::sleep(Duration::from_millis(at)).await;
            store.write_foreign(&key, content(seed, usize::MAX - 1, at % 1000), at == 0);
        };
        tokio::spawn(write);
    }

    let mut report = RunReport { seed: settings.seed, ..RunReport::default() };
    let mut outcomes = BTreeMap::new();
    let all = async {
        for actor in actors {
            match actor.await {
                Ok(ended) => outcomes.extend(ended),
                Err(ended) => report.failures.push(format!("a writer panicked: {ended}")),
            }
        }
        tide.settled().await;
    };
    if timeout(longest(&scenario), all).await.is_err() {
        report.failures.push(stuck(&writers, &store, &tide));
    }
    let at_settled: Vec<String> = store.state().model.sessions().map(|session| session.id).collect();
    quiesce(&disks).await;
    let usage = tide.usage();
    store.quiesce().await;

    let mut seen = Vec::new();
    for (number, outcome) in outcomes {
        *report.outcomes.entry(outcome.name()).or_default() += 1;
        if matches!(outcome, WriterOutcome::Committed(_)) {
            report.committed += scenario.writers[number].size;
        }
        let progress = writers[number].progress.lock().unwrap_or_else(PoisonError::into_inner).clone();
        seen.push(EndedWriter { outcome, progress: progress.map(|progress| progress.snapshot()) });
    }
    report.spilled = tide.progress().snapshot().spilled;
    if report.failures.is_empty() {
        let whole = tide.progress().snapshot();
        report.failures =
            checks::check(&scenario, &subjects, &seen, &store.state(), &at_settled, usage, whole);
    }
    if report.failures.is_empty() {
        let read = timeout(LONGEST, read_back(&bucket, &store)).await;
        report.failures = read.unwrap_or_else(|_| vec!["reading the objects back does not end".to_owned()]);
    }
    let state = store.state();
    report.failures.extend(state.witness.violations.iter().cloned());
    report.failures.extend(disks.iter().flat_map(SimDisk::violations));
    report.troubles = state.witness.troubles;
    report.requests = state.witness.requests;
    report.hedges = tide.progress().snapshot().hedges;
    report.elapsed = Duration::from_millis(trace.now());
    report.hash = trace.hash();
    report.events = trace.events();
    report.trace = trace.lines();
    report
}

/// Reads every visible object through the engine, and returns the differences.
async fn read_back(bucket: &Store, store: &SimStore) -> Vec<String> {
    let mut failures = Vec::new();
    let current: Vec<VisibleObject> = {
        let state = store.state();
        state.model.keys().filter_map(|key| state.model.current(key)).cloned().collect()
    };
    for version in current {
        let key = version.object.key.clone();
        let read: Result<Vec<Bytes>, _> = match bucket.reader(key.clone()).await {
            Ok(reader) => reader.try_collect().await,
            Err(error) => Err(error),
        };
        match read {
            Ok(pieces) if pieces.concat() == version.pieces.concat() => {}
            Ok(_) => failures.push(format!("{key} reads as other bytes than it has")),
            Err(error) => failures.push(format!("{key} can't be read back: {error}")),
        }
    }
    failures
}

/// Virtual time limit of a run: the waits for memory of all writers may follow one another.
fn longest(scenario: &Scenario) -> Duration {
    let waits = u32::try_from(scenario.writers.len()).unwrap_or(u32::MAX);
    LONGEST + scenario.memory_wait * waits
}

/// Waits until the spool disks are quiet: a write outlives its caller, and holds memory and blocks. After a
/// failed write the engine tries the next disk, so the disks must be quiet three times in a row.
async fn quiesce(disks: &[SimDisk]) {
    let mut quiet = 0;
    while quiet < 3 {
        tokio::time::sleep(Duration::from_millis(1)).await;
        quiet = if disks.iter().all(SimDisk::is_quiet) { quiet + 1 } else { 0 };
    }
}

fn disks(scenario: &Scenario, settings: &Settings, random: &mut Rng, trace: &Arc<RunTrace>) -> Vec<SimDisk> {
    let disks = scenario.disks.iter().enumerate();
    disks
        .map(|(number, plan)| {
            SimDisk::new(number, plan.clone(), random.fork(), trace.clone(), settings.plant)
        })
        .collect()
}

fn subjects(scenario: &Scenario) -> Vec<WatchedWriter> {
    let writers = scenario.writers.iter().enumerate();
    writers
        .map(|(number, plan)| WatchedWriter {
            key: plan.key.clone(),
            content: content(scenario.seed, number, plan.size),
            parts_in_flight: match plan.strategy {
                tidegate::Strategy::Chunked => 1,
                // All parts are spooled before the first is sent, so any number may be in flight.
                tidegate::Strategy::Spool if !matches!(plan.source, WriterSource::File { .. }) => usize::MAX,
                _ => plan.parts_in_flight.unwrap_or(scenario.parts_in_flight),
            },
            streamed: matches!(plan.source, WriterSource::File { .. }) || !scenario.disks.is_empty(),
            others: Vec::new(),
            resumed: false,
        })
        .collect()
}

/// Describes the writers and the requests that have not ended.
fn stuck(writers: &[Started], store: &SimStore, tide: &Tidegate) -> String {
    let mut dump =
        format!("not over after {} virtual hours; memory: {:?}", LONGEST.as_secs() / 3600, tide.usage());
    for (number, writer) in writers.iter().enumerate() {
        let status = *writer.status.lock().unwrap_or_else(PoisonError::into_inner);
        if status != "ended" {
            let progress = writer.progress.lock().unwrap_or_else(PoisonError::into_inner).clone();
            let figures = progress.map(|progress| progress.snapshot());
            dump.push_str(&format!("\n  writer {number} is {status}: {figures:?}"));
        }
    }
    for (id, flight) in &store.state().witness.flights {
        dump.push_str(&format!("\n  in flight: #{id} {}", flight.label));
    }
    dump
}
