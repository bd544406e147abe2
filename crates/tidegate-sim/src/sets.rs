//! A set of pending uploads in one seed: processes publish it, roll it forward and give it up, at once, and crash. Each upload
//! has its own content. At last a process that never crashes ends the set, and the model's history shows what a reader of the
//! pointer could ever see.

use std::time::Duration;

use fastrand::Rng;
use tidegate::store::Manifest;
use tidegate::{ErrorKind, Store};
use tokio::time::{sleep, timeout};

use crate::content::{content, mix};
use crate::pending::{PendingRun, may_pass};
use crate::run::RunReport;
use crate::scenario::Scenario;
use crate::store::WRITER;
use crate::witness::WatchedWriter;

const POINTER: &str = "set/pointer";
const INTENT: &str = ".tidegate/manifests/set/pointer";

/// What a process does with the set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SetDeed {
    Commit,
    RollForward,
    Abandon,
    /// Ends a set that was begun and cannot be completed.
    End,
    /// Gives up one upload of the set alone.
    LoseOne,
}

impl SetDeed {
    fn draw(random: &mut Rng) -> Self {
        match random.u8(0..10) {
            0..=3 => Self::Commit,
            4..=5 => Self::RollForward,
            6..=7 => Self::Abandon,
            8 => Self::End,
            _ => Self::LoseOne,
        }
    }
}

/// One upload of the set.
#[derive(Clone, Debug)]
struct Member {
    number: usize,
    size: u64,
    create_only: bool,
}

impl Member {
    fn key(&self) -> String {
        format!("set/{}", self.number)
    }
}

/// A set: its plan.
pub(crate) struct SetCase {
    members: Vec<Member>,
    /// When each process starts, what it does, and when it crashes.
    processes: Vec<(u64, SetDeed, Option<u64>)>,
    /// Whether the last process gives the set up, unless it was begun.
    gives_up: bool,
    seed: u64,
}

/// How a process ended.
#[derive(Clone, Debug)]
struct SetCall {
    deed: SetDeed,
    end: SetEnd,
}

#[derive(Clone, Debug)]
enum SetEnd {
    Done,
    Failed(ErrorKind, String),
    Crashed,
}

impl SetCase {
    /// Its writers are numbered from `first` on. Draws from a generator of its own, so that the uploads before it are those that
    /// they were.
    pub(crate) fn draw(first: usize, seed: u64, scenario: &Scenario) -> Self {
        let mut random = Rng::with_seed(mix(seed ^ 0x0000_0073_6574_2121));
        let limits = &scenario.capabilities;
        let most = (limits.min_part * 3).min(limits.max_object).min(limits.max_part);
        let members = (first..first + random.usize(1..=4))
            .map(|number| {
                let size = if random.u8(0..6) == 0 { 0 } else { random.u64(0..=most) };
                Member { number, size, create_only: random.bool() }
            })
            .collect();
        let processes = (0..random.usize(1..=4))
            .map(|_| {
                let start = if random.bool() { 0 } else { random.u64(0..=2000) };
                let crash = random.bool().then(|| random.u64(0..=1500));
                (start, SetDeed::draw(&mut random), crash)
            })
            .collect();
        Self { members, processes, gives_up: random.u8(0..3) == 0, seed: random.u64(..) }
    }

    /// What the witness is to know of its writers.
    pub(crate) fn watched(&self, seed: u64) -> Vec<WatchedWriter> {
        let watched = |member: &Member| WatchedWriter {
            key: member.key(),
            content: content(seed, member.number, member.size),
            parts_in_flight: usize::MAX,
            streamed: true,
            others: Vec::new(),
            resumed: false,
        };
        self.members.iter().map(watched).collect()
    }

    pub(crate) async fn run(&self, run: &PendingRun<'_>, report: &mut RunReport) -> Result<(), String> {
        let prepared = self.prepare(run).await?;
        run.store.quiesce().await;
        if !self.visible(run).is_empty() {
            return Err("an object was visible before the set was published".to_owned());
        }
        let Some(json) = prepared else {
            *report.outcomes.entry("set: not prepared".to_owned()).or_default() += 1;
            return Ok(());
        };
        for member in &self.members {
            run.store.state().witness.seen[member.number].finishing = true;
        }
        let mut processes = Vec::new();
        for (number, (start, deed, crash)) in self.processes.iter().copied().enumerate() {
            let process = run.process(self.seed.wrapping_add(number as u64))?;
            let json = &json;
            processes.push(async move {
                sleep(Duration::from_millis(start)).await;
                self.call(run, &process, json, deed, crash).await
            });
        }
        let calls: Result<Vec<SetCall>, String> =
            futures::future::join_all(processes).await.into_iter().collect();
        let calls = calls?;
        for call in &calls {
            *report.outcomes.entry(format!("set, {:?}: {}", call.deed, name_of(&call.end))).or_default() += 1;
        }
        let last = run.process(self.seed ^ 0xff)?;
        run.store.quiesce().await;
        run.store.state().is_calm = true;
        let was_ended =
            calls.iter().any(|call| call.deed == SetDeed::End && !matches!(call.end, SetEnd::Failed(..)));
        let ended = self.end(run, &last, &json, was_ended).await;
        run.store.state().is_calm = false;
        let ended = ended.map_err(|failure| format!("{failure}: {calls:#?}"))?;
        *report.outcomes.entry(format!("set: {ended}")).or_default() += 1;
        self.check(run, &calls).map_err(|failure| format!("{failure}: {calls:#?}"))
    }

    async fn prepare(&self, run: &PendingRun<'_>) -> Result<Option<String>, String> {
        let process = run.process(self.seed ^ 0xf)?;
        let prepare = async {
            let mut uploads = Vec::new();
            for member in &self.members {
                let builder = process.writer(member.key()).metadata(WRITER, member.number.to_string());
                let builder = if member.create_only { builder.create_only() } else { builder };
                let mut writer = builder.await?;
                writer.write_bytes(content(run.settings.seed, member.number, member.size)).await?;
                uploads.push(writer.prepare());
            }
            process.prepare_all(POINTER, uploads).await
        };
        let prepared = match prepare.await {
            Ok(manifest) => Some(manifest.to_json()),
            Err(error) if may_pass(error.kind()) || error.kind() == ErrorKind::SessionLost => None,
            Err(error) => return Err(format!("it was not prepared, without a reason: {error}")),
        };
        process.tide().settled().await;
        Ok(prepared)
    }

    async fn call(
        &self,
        run: &PendingRun<'_>,
        process: &Store,
        json: &str,
        deed: SetDeed,
        crash: Option<u64>,
    ) -> Result<SetCall, String> {
        let manifest = Manifest::from_json(json).map_err(|error| error.to_string())?;
        run.trace.note(format_args!("set: {deed:?} begins"));
        let call = async {
            match deed {
                SetDeed::Commit => process.commit_all(&manifest).await.map(drop),
                SetDeed::RollForward => process.roll_forward(POINTER).await.map(drop),
                SetDeed::Abandon => process.abandon_all(&manifest).await,
                SetDeed::End => process.abandon_set(POINTER).await.map(drop),
                SetDeed::LoseOne => process.abandon(&manifest.pending()[0]).await,
            }
        };
        let limit = crash.map_or(Duration::MAX, Duration::from_millis);
        let end = match timeout(limit, call).await {
            Ok(Ok(())) => SetEnd::Done,
            Ok(Err(error)) => SetEnd::Failed(error.kind(), error.to_string()),
            Err(_) => SetEnd::Crashed,
        };
        run.trace.note(format_args!("set: {deed:?} ends: {}", name_of(&end)));
        let is_published =
            matches!(end, SetEnd::Done) && matches!(deed, SetDeed::Commit | SetDeed::RollForward);
        if is_published && !self.is_complete(run) {
            return Err(format!("{deed:?} has succeeded, and the set is not complete"));
        }
        Ok(SetCall { deed, end })
    }

    /// Ends the set on a store without faults. `was_ended` says that another process may have ended it in the middle.
    async fn end(
        &self,
        run: &PendingRun<'_>,
        process: &Store,
        json: &str,
        was_ended: bool,
    ) -> Result<&'static str, String> {
        let manifest = Manifest::from_json(json).map_err(|error| error.to_string())?;
        if self.gives_up {
            match process.abandon_all(&manifest).await {
                Ok(()) => {
                    self.check_nothing_left(run)?;
                    return Ok("given up");
                }
                Err(error) if error.kind() == ErrorKind::Closed => {}
                Err(error) => return Err(format!("it was not given up: {error}")),
            }
        }
        let committed = match process.commit_all(&manifest).await {
            // A request of a process that crashed wrote the same intent meanwhile: the contract is to commit again.
            Err(error) if error.kind() == ErrorKind::Uncertain => process.commit_all(&manifest).await,
            committed => committed,
        };
        match committed {
            Ok(_) => {
                self.check_nothing_left(run)?;
                return if self.is_complete(run) {
                    Ok("published")
                } else {
                    Err("it is not complete".to_owned())
                };
            }
            Err(error) if error.kind() == ErrorKind::SessionLost => {}
            Err(error) => return Err(format!("it was not published: {error}")),
        }
        match process.abandon_set(POINTER).await {
            Ok(_) => {}
            // It was not begun, or was ended before.
            Err(error) if error.kind() == ErrorKind::NotFound => match process.abandon_all(&manifest).await {
                Ok(()) => {}
                Err(error) if error.kind() == ErrorKind::Closed && was_ended => {}
                Err(error) => return Err(format!("it was not given up: {error}")),
            },
            Err(error) => return Err(format!("it was not ended: {error}")),
        }
        self.check_nothing_left(run)?;
        Ok(if self.visible(run).is_empty() { "lost" } else { "ended in the middle" })
    }

    fn check_nothing_left(&self, run: &PendingRun<'_>) -> Result<(), String> {
        match run.store.state().model.current(INTENT) {
            Some(_) => Err("the intent is left of a set that has ended".to_owned()),
            None => Ok(()),
        }
    }

    /// When each object of the set became visible first.
    fn visible(&self, run: &PendingRun<'_>) -> Vec<u64> {
        let state = run.store.state();
        let first = |member: &Member| state.model.history(&member.key()).first().map(|version| version.at);
        self.members.iter().filter_map(first).collect()
    }

    fn is_complete(&self, run: &PendingRun<'_>) -> bool {
        self.visible(run).len() == self.members.len() && run.store.state().model.current(POINTER).is_some()
    }

    fn check(&self, run: &PendingRun<'_>, calls: &[SetCall]) -> Result<(), String> {
        let (visible, may_lose_sessions) = (self.visible(run), run.may_lose_sessions());
        let state = run.store.state();
        for member in &self.members {
            let content = content(run.settings.seed, member.number, member.size);
            let history = state.model.history(&member.key());
            if history.len() > 1 || history.iter().any(|version| version.pieces.concat() != content) {
                return Err(format!("{} was published twice, or torn", member.key()));
            }
        }
        let pointed = state.model.history(POINTER).first().map(|version| version.at);
        let last = visible.iter().max().copied();
        if let Some(pointed) = pointed
            && (visible.len() < self.members.len() || last.is_some_and(|last| last > pointed))
        {
            return Err("a reader of the pointer could see a part of the set".to_owned());
        }
        let began = state.model.history(INTENT).first().map(|version| version.at);
        if visible.iter().min().is_some_and(|first| began.is_none_or(|began| began > *first)) {
            return Err("an object was visible before the intent".to_owned());
        }
        let was_lost = calls.iter().any(|call| call.deed == SetDeed::LoseOne);
        for SetCall { deed, end } in calls {
            match (deed, end) {
                (SetDeed::Abandon, SetEnd::Done) if !visible.is_empty() => {
                    return Err("it was given up, and objects of it are visible".to_owned());
                }
                (SetDeed::End, SetEnd::Done) if pointed.is_some() => {
                    return Err("it was ended, and its pointer is visible".to_owned());
                }
                (SetDeed::Commit | SetDeed::RollForward, SetEnd::Failed(ErrorKind::SessionLost, said))
                    if !was_lost
                        && !may_lose_sessions
                        && !calls.iter().any(|call| matches!(call.deed, SetDeed::Abandon | SetDeed::End)) =>
                {
                    return Err(format!("it is lost, and nobody has given it up: {said}"));
                }
                // The store has ended the session in which the intent was written.
                (_, SetEnd::Failed(ErrorKind::SessionLost, _)) if may_lose_sessions => {}
                (deed, SetEnd::Failed(kind, said)) if !is_explained(*deed, *kind) => {
                    return Err(format!("{deed:?}: an error without a reason, {said}"));
                }
                _ => {}
            }
        }
        Ok(())
    }
}

/// Whether the store's faults, or what other processes did, explain this error.
fn is_explained(deed: SetDeed, kind: ErrorKind) -> bool {
    use ErrorKind::{Closed, NotFound, SessionLost};
    may_pass(kind)
        || match deed {
            SetDeed::Commit => kind == SessionLost,
            SetDeed::RollForward => matches!(kind, SessionLost | NotFound | Closed),
            SetDeed::Abandon | SetDeed::LoseOne => kind == Closed,
            SetDeed::End => matches!(kind, Closed | NotFound),
        }
}

fn name_of(end: &SetEnd) -> String {
    match end {
        SetEnd::Done => "done".to_owned(),
        SetEnd::Failed(kind, _) => format!("{kind:?}"),
        SetEnd::Crashed => "crashed".to_owned(),
    }
}
