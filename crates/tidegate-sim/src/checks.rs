//! Checks the invariants that must hold after every run.

use tidegate::backend::FaultKind;
use tidegate::progress::{Snapshot, Usage};
use tidegate::{ErrorKind, Operation, Strategy};

use crate::actor::{WriterFailure, WriterOutcome};
use crate::faults::RequestTrouble;
use crate::model::VisibleObject;
use crate::scenario::{Ending, Scenario, WriterPlan, WriterSource};
use crate::store::{self, StoreState};
use crate::witness::WatchedWriter;

mod certainty;
mod counts;
mod pressure;

/// How one writer ended, and its final progress.
#[derive(Clone, Debug)]
pub struct EndedWriter {
    /// How the writer ended.
    pub outcome: WriterOutcome,
    /// The writer's progress at the end.
    pub progress: Option<Snapshot>,
}

/// Checks a run and returns the violations. `at_settled` lists the sessions that were open when the engine
/// reported that everything was settled.
pub fn check(
    scenario: &Scenario,
    subjects: &[WatchedWriter],
    writers: &[EndedWriter],
    state: &StoreState,
    at_settled: &[String],
    usage: Usage,
    whole: Snapshot,
) -> Vec<String> {
    let mut run = RunChecks { scenario, subjects, state, failures: Vec::new() };
    run.check_history();
    run.check_sessions(at_settled);
    run.check_memory(usage);
    let requests = state.witness.requests;
    run.hold(whole.requests == requests, || format!("{} requests counted, {requests} seen", whole.requests));
    run.hold(whole.in_flight == 0, || format!("{} bytes are in flight in the end", whole.in_flight));
    for (number, writer) in writers.iter().enumerate() {
        run.check_outcome(number, &writer.outcome);
        if let Some(progress) = writer.progress {
            run.check_progress(number, &writer.outcome, progress);
        }
        let hedges = writer.progress.map_or(0, |progress| progress.hedges);
        run.check_counts(number, &writer.outcome, hedges);
    }
    run.failures
}

struct RunChecks<'a> {
    scenario: &'a Scenario,
    subjects: &'a [WatchedWriter],
    state: &'a StoreState,
    failures: Vec<String>,
}

impl RunChecks<'_> {
    fn hold(&mut self, holds: bool, otherwise: impl FnOnce() -> String) {
        if !holds {
            self.failures.push(otherwise());
        }
    }

    /// Every version that was ever visible is whole, and was written by a writer of that key.
    fn check_history(&mut self) {
        for key in self.state.model.keys() {
            for version in self.state.model.history(key) {
                let Some(number) = writer_of(version) else { continue };
                let subject = &self.subjects[number];
                let equal = version.pieces.concat() == subject.content;
                self.hold(equal && subject.key == key, || {
                    format!(
                        "{key} at {} ms is not what writer {number} wrote: {:?}",
                        version.at, version.object
                    )
                });
            }
        }
    }

    fn versions_of(&self, number: usize) -> Vec<&VisibleObject> {
        let history = self.state.model.history(&self.subjects[number].key);
        history.iter().filter(|version| writer_of(version) == Some(number)).collect()
    }

    fn check_outcome(&mut self, number: usize, outcome: &WriterOutcome) {
        let plan = &self.scenario.writers[number];
        let versions = self.versions_of(number).len();
        let refusal = self.scenario.refusal(plan);
        match outcome {
            WriterOutcome::Committed(object) => {
                self.hold(versions > 0, || {
                    format!("writer {number} says committed, and no object was there")
                });
                self.hold(versions == 1 || !plan.create_only, || {
                    format!("writer {number} created its object {versions} times")
                });
                let first = self.state.model.history(&plan.key).first().and_then(writer_of);
                self.hold(!plan.create_only || first == Some(number), || {
                    format!("writer {number} says that it created {}, and another was there before", plan.key)
                });
                if let Some(object) = object {
                    self.hold(object.size == plan.size && object.key == plan.key, || {
                        format!("writer {number} describes another object: {object:?}")
                    });
                }
                let commits =
                    matches!(plan.ending, Ending::Finish | Ending::DropInFinish(_) | Ending::Return(_));
                self.hold(commits && refusal.is_none(), || {
                    format!("writer {number} committed, and was to end by {:?} or {refusal:?}", plan.ending)
                });
            }
            WriterOutcome::Failed(failed) => {
                let uncertain = failed.kind == ErrorKind::Uncertain;
                self.hold(versions == 0 || uncertain, || {
                    format!("writer {number} failed ({}), and its object was visible", failed.text)
                });
                let explained = self.explains(number, plan, failed);
                self.hold(explained, || {
                    format!("writer {number} failed without a reason: {failed:?} of {plan:?}")
                });
                let used_up = failed.text.contains("no more retries");
                let tried = !is_retried(failed) || used_up || failed.attempts >= self.scenario.retry.attempts;
                self.hold(tried, || {
                    format!("writer {number} gave up after {} attempts: {failed:?}", failed.attempts)
                });
            }
            WriterOutcome::Aborted(failed) => {
                self.hold(versions == 0, || {
                    format!("writer {number} was aborted, and its object was visible")
                });
                if let Some(failed) = failed {
                    let explained = self.explains(number, plan, failed);
                    self.hold(explained, || {
                        format!("the abort of writer {number} failed without a reason: {failed:?}")
                    });
                }
            }
            WriterOutcome::Dropped => {
                let finishing = self.state.witness.seen[number].finishing;
                self.hold(versions == 0 || finishing, || {
                    format!("writer {number} was dropped, and its object was visible")
                });
            }
        }
    }

    /// Whether an injected fault, or the writer's own plan, explains this error.
    fn explains(&self, number: usize, plan: &WriterPlan, failed: &WriterFailure) -> bool {
        let seen = &self.state.witness.seen[number];
        let told = |kind| seen.injected.contains(&kind);
        match failed.kind {
            ErrorKind::TooLarge => self.scenario.refusal(plan) == Some(ErrorKind::TooLarge),
            ErrorKind::AlreadyExists => {
                let history = self.state.model.history(&plan.key);
                plan.create_only && history.iter().any(|version| writer_of(version) != Some(number))
            }
            ErrorKind::Source => {
                matches!(plan.ending, Ending::SourceFails(_))
                    || matches!(plan.source, WriterSource::File { truncate_after: Some(_) })
                    || self.spool_forgets()
                    || (plan.strategy == Strategy::Spool && self.spool_fails())
            }
            ErrorKind::Starved | ErrorKind::Idle | ErrorKind::NoSpace => {
                self.lacks_memory(number, plan, failed)
            }
            ErrorKind::PermissionDenied => told(FaultKind::Denied),
            ErrorKind::Throttled => told(FaultKind::Throttled),
            ErrorKind::Timeout => told(FaultKind::Timeout),
            ErrorKind::Unavailable => told(FaultKind::Transient),
            ErrorKind::Integrity => told(FaultKind::Integrity),
            ErrorKind::SessionLost => {
                // Every completion, up to the last attempt, met a part that a late copy had replaced.
                let lags = failed.operation == Operation::Complete
                    && failed.attempts >= self.scenario.retry.attempts
                    && told(FaultKind::Timeout);
                // An `InvalidPart` answer does not mean that the session is gone, unless the store said so when
                // the engine then listed the parts.
                let named_others =
                    failed.text.contains("InvalidPart") && !failed.text.contains("listing the parts");
                lags || (told(FaultKind::NoSession) && !named_others)
            }
            ErrorKind::Uncertain => seen.doubt && self.is_open(number, failed),
            _ => false,
        }
    }

    /// Every session whose id reached the client must be gone when all is settled, unless the store did not let
    /// the engine abort the session.
    fn check_sessions(&mut self, at_settled: &[String]) {
        let attempts = self.scenario.retry.attempts;
        for id in at_settled {
            let Some(seen) = self.state.witness.sessions.get(id) else { continue };
            // With a small retry reserve, the engine may give up an abort sooner.
            let tried = seen.aborts >= attempts || (seen.aborts > 0 && self.scenario.retry.reserve < 10);
            let excused = !seen.delivered || tried || seen.abort_denied;
            self.hold(excused, || format!("{id} is left behind: {seen:?}"));
        }
        let lost = self.state.witness.sessions.values().filter(|seen| !seen.delivered).count() as u64;
        let troubles = [
            RequestTrouble::LostAnswer,
            RequestTrouble::Cut(0),
            RequestTrouble::Late(0),
            RequestTrouble::Late(1),
        ];
        let possible: u64 = troubles.iter().map(|trouble| self.state.witness.troubles[trouble.index()]).sum();
        let possible = possible + self.state.witness.given_up;
        self.hold(lost <= possible, || {
            format!("{lost} sessions were never told to the client, of {possible} lost answers")
        });
    }

    fn check_memory(&mut self, usage: Usage) {
        self.hold(usage.peak <= usage.total, || format!("memory: {usage:?}"));
        let aside = self.scenario.memory - self.scenario.free_memory();
        let empty = usage.held == aside && usage.half_filled == 0 && usage.waiting == 0 && usage.spooled == 0;
        self.hold(empty, || format!("memory is held in the end: {usage:?}"));
    }

    fn check_progress(&mut self, number: usize, outcome: &WriterOutcome, progress: Snapshot) {
        let size = self.scenario.writers[number].size;
        let still = progress.in_flight == 0 && progress.waiting.is_none();
        self.hold(still, || format!("writer {number} has ended, and its progress goes on: {progress:?}"));
        self.hold(progress.accepted <= size, || {
            format!("writer {number} took too much: {progress:?} of {size}")
        });
        if matches!(outcome, WriterOutcome::Committed(_)) {
            let whole = progress.accepted == size && progress.acknowledged == size;
            self.hold(whole, || format!("writer {number} committed {size} bytes: {progress:?}"));
        }
    }
}

/// Whether the engine reports this error only after the last attempt of a request.
fn is_retried(failed: &WriterFailure) -> bool {
    let kinds = [ErrorKind::Throttled, ErrorKind::Timeout, ErrorKind::Unavailable, ErrorKind::Integrity];
    kinds.contains(&failed.kind) && failed.operation != Operation::Write
}

fn writer_of(version: &VisibleObject) -> Option<usize> {
    store::writer_of(&version.object.attributes)
}
