//! The output of `cp`: the bar, the line at the end, a line for each object.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tidegate::progress::Snapshot;
use tidegate::{Object, Progress, Strategy};

use crate::bar::{Bar, BarFigures};
use crate::exit::{CommandFailure, Outcome};
use crate::lines::{CopyFigures, CopyLine, ObjectLines, RemoveLine, SkipLine, SkipReason};
use crate::stores::{Begun, Stores};
use crate::{output, text};

/// What to show of a copy on standard error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CopyDisplay {
    /// A bar during the copy, and a line at the end.
    Bar,
    /// A line at the end.
    Line,
    Nothing,
}

/// A completed transfer.
#[derive(Debug)]
pub(crate) struct CompletedCopy {
    source: String,
    target: String,
    bytes: u64,
    /// Boxed, so that what may have failed needs little room for it.
    figures: Box<CopyFigures>,
}

/// The report of one `cp`.
pub(crate) struct CopyReport<'a> {
    show: CopyDisplay,
    began: Instant,
    stores: &'a Stores,
    /// Whether interrupted uploads stay in a journal.
    is_journaled: bool,
    bar: Option<Bar>,
    lines: tokio::sync::Mutex<ObjectLines>,
    /// Objects found so far, if a tree is copied.
    found: Arc<AtomicU64>,
    state: Mutex<Totals>,
}

/// The figures of all transfers together.
struct Totals {
    next: u64,
    live: BTreeMap<u64, (String, Progress)>,
    /// Whether any transfer uploads to a store.
    sends: bool,
    /// Total bytes to transfer; `None` if unknown.
    expected: Option<u64>,
    /// Source and target, of one object or of a whole tree.
    label: Option<(String, String)>,
    is_tree: bool,
    /// How long the last transfer took.
    seconds: f64,
    objects: u64,
    bytes: u64,
    parts: u64,
    requests: u64,
    retries: u64,
    hedges: u64,
    verified: u64,
    failed: u64,
    /// How many objects were skipped because their targets exist.
    skipped: u64,
    /// How many failures have a cause of their own.
    told: u64,
    /// How many later failures share the cause that ended the command.
    alike: u64,
}

/// The result of a `cp` that copied everything.
pub(crate) struct Closed {
    /// The object, or the place that all objects lie below; `None` if there was nothing to copy.
    pub(crate) target: Option<String>,
    /// How many objects were read back.
    pub(crate) verified: u64,
}

/// A transfer in progress, until it is dropped.
pub(crate) struct CopyInProgress<'a> {
    report: &'a CopyReport<'a>,
    id: u64,
    began: Instant,
    counted: Vec<Progress>,
    /// Counts as an unfinished upload until it is dropped.
    _begun: Option<Begun>,
}

impl<'a> CopyReport<'a> {
    /// The most failures of the shared cause that are printed.
    const ALIKE: u64 = 9;
    /// How often the bar is drawn.
    const BEAT: Duration = Duration::from_millis(100);

    /// A report that shows `show`, and adds each copied object to `lines`.
    pub(crate) fn new(show: CopyDisplay, lines: ObjectLines, stores: &'a Stores, is_journaled: bool) -> Self {
        // Bars of several commands would overwrite each other.
        let show = if stores.is_shared() && show == CopyDisplay::Bar { CopyDisplay::Line } else { show };
        let totals = Totals {
            next: 0,
            live: BTreeMap::new(),
            sends: false,
            expected: Some(0),
            label: None,
            is_tree: false,
            seconds: 0.0,
            objects: 0,
            bytes: 0,
            parts: 0,
            requests: 0,
            retries: 0,
            hedges: 0,
            verified: 0,
            failed: 0,
            skipped: 0,
            told: 0,
            alike: 0,
        };
        Self {
            show,
            began: Instant::now(),
            stores,
            is_journaled,
            bar: (show == CopyDisplay::Bar).then(Bar::new),
            lines: lines.into(),
            found: Arc::default(),
            state: Mutex::new(totals),
        }
    }

    fn totals(&self) -> MutexGuard<'_, Totals> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Declares that everything below `source` is copied: the line at the end covers the whole tree.
    pub(crate) fn tree(&self, source: String, target: String) {
        let mut totals = self.totals();
        totals.label = Some((source, target));
        totals.is_tree = true;
    }

    /// Adds to the bytes to transfer; `None` if the number is unknown.
    pub(crate) fn expect(&self, bytes: Option<u64>) {
        let mut totals = self.totals();
        totals.expected = totals.expected.zip(bytes).map(|(before, more)| before.saturating_add(more));
    }

    /// Whether the total is shown.
    pub(crate) fn wants_total(&self) -> bool {
        self.bar.is_some()
    }

    /// Begins an upload of `name`. The bar shows `progress`; the requests of `counted` are counted.
    pub(crate) fn upload(
        &'a self,
        name: &str,
        progress: &Progress,
        counted: Vec<Progress>,
    ) -> CopyInProgress<'a> {
        self.totals().sends = true;
        self.begin(name, progress, counted, Some(self.stores.unfinished().begin(self.is_journaled)))
    }

    /// Begins a read of `name`, which leaves nothing unfinished.
    pub(crate) fn read(&'a self, name: &str, progress: &Progress) -> CopyInProgress<'a> {
        self.begin(name, progress, vec![progress.clone()], None)
    }

    /// Begins a download of `name` into a file.
    pub(crate) fn download(&'a self, name: &str, progress: &Progress) -> CopyInProgress<'a> {
        self.begin(name, progress, vec![progress.clone()], None)
    }

    /// Counts the objects of a tree as they are found, before they are copied.
    pub(crate) fn found(&self) -> Arc<AtomicU64> {
        self.found.clone()
    }

    fn begin(
        &'a self,
        name: &str,
        progress: &Progress,
        counted: Vec<Progress>,
        begun: Option<Begun>,
    ) -> CopyInProgress<'a> {
        let mut totals = self.totals();
        let id = totals.next;
        totals.next += 1;
        totals.live.insert(id, (name.to_owned(), progress.clone()));
        drop(totals);
        CopyInProgress { report: self, id, began: Instant::now(), counted, _begun: begun }
    }

    /// Records a completed transfer.
    pub(crate) async fn done(&self, done: CompletedCopy) -> Outcome {
        self.lines.lock().await.print(&done.line()).await?;
        let mut totals = self.totals();
        totals.objects += 1;
        totals.bytes = totals.bytes.saturating_add(done.bytes); // saturating, because a store may report any size
        let figures = &done.figures;
        totals.seconds = figures.seconds;
        totals.parts += figures.parts;
        totals.requests += figures.requests;
        totals.retries += figures.retries;
        totals.hedges += figures.hedges;
        totals.verified += u64::from(figures.verified);
        if !totals.is_tree {
            totals.label = Some((done.source, done.target));
        }
        Ok(())
    }

    /// Prints what a dry run would copy.
    pub(crate) async fn would_copy(&self, source: &str, target: &str, bytes: Option<u64>) -> Outcome {
        self.lines.lock().await.print(&CopyLine::planned(source, target, bytes)).await
    }

    /// Prints that the source of a move was removed, or in a dry run would be.
    pub(crate) async fn removed(&self, url: &str, dry_run: bool) -> Outcome {
        self.lines.lock().await.print(&RemoveLine { url, dry_run }).await
    }

    /// Counts an object that was skipped because its target exists.
    pub(crate) async fn skipped(&self, source: &str, target: &str, dry_run: bool) -> Outcome {
        let line = SkipLine { source, target, reason: SkipReason::Exists, dry_run };
        self.lines.lock().await.print(&line).await?;
        self.totals().skipped += 1;
        Ok(())
    }

    /// Records a failed transfer among many, and prints why.
    pub(crate) fn failed(&self, failure: &CommandFailure) {
        let mut totals = self.totals();
        totals.failed += 1;
        totals.told += 1;
        drop(totals);
        output::fail(failure);
    }

    /// Whether a transfer has failed.
    pub(crate) fn has_failures(&self) -> bool {
        self.totals().failed > 0
    }

    /// Counts the transfer whose failure ends the whole command. Its error is printed at the end.
    pub(crate) fn failed_first(&self) {
        self.totals().failed += 1;
    }

    /// Counts a transfer that was in flight then and failed for the same cause. A few are printed, all are counted.
    pub(crate) fn failed_too(&self, failure: &CommandFailure) {
        let mut totals = self.totals();
        totals.failed += 1;
        totals.alike += 1;
        let is_told = totals.alike <= Self::ALIKE;
        drop(totals);
        if is_told {
            output::fail(failure);
        }
    }

    /// Prints a notice on standard error, above the bar.
    pub(crate) fn say(&self, line: &str) {
        output::say(line);
    }

    /// Prints a warning on standard error, above the bar.
    pub(crate) fn warn(&self, line: &str) {
        output::warn(line);
    }

    /// Draws the bar until the future is dropped.
    pub(crate) async fn watch(&self) -> Infallible {
        let Some(bar) = &self.bar else { return std::future::pending().await };
        let mut beat = tokio::time::interval(Self::BEAT);
        loop {
            beat.tick().await;
            let waiting = self.stores.tide().progress().snapshot().waiting;
            let totals = self.totals();
            let (mut moved, mut stored) = (totals.bytes, totals.bytes);
            for (_, live) in totals.live.values() {
                let live = live.snapshot();
                moved += live.sent.max(live.acknowledged);
                stored += live.acknowledged;
            }
            let name = totals.live.values().next().map_or_else(String::new, |(name, _)| name.clone());
            let done = totals.objects + totals.failed;
            let found = self.found.load(Relaxed).max(done + totals.live.len() as u64);
            let state = BarFigures {
                name,
                moved,
                stored: totals.sends.then_some(stored),
                expected: totals.expected,
                objects: totals.is_tree.then_some((done, found)),
                waiting,
            };
            drop(totals);
            bar.show(&state);
        }
    }

    /// Prints the last lines and returns the result of the whole `cp`, whose transfers ended as `copied` says.
    pub(crate) async fn close(self, copied: Outcome) -> Outcome<Closed> {
        let Self { show, began, bar, lines, state, .. } = self;
        drop(bar);
        let totals = state.into_inner().unwrap_or_else(PoisonError::into_inner);
        // For a single object, the time of the transfer alone, without the start and the read-back.
        let seconds = if totals.is_tree { began.elapsed().as_secs_f64() } else { totals.seconds };
        if matches!(show, CopyDisplay::Bar | CopyDisplay::Line)
            && totals.objects > 0
            && let Some(line) = totals.line(seconds)
        {
            output::say(&line);
        }
        lines.into_inner().finish().await?;
        let all = text::count(totals.objects + totals.failed, "object");
        match copied {
            Ok(()) if totals.failed == 0 => {
                Ok(Closed { target: totals.label.map(|(_, target)| target), verified: totals.verified })
            }
            Ok(()) => Err(CommandFailure::Failed(format!("{} of {all} could not be copied", totals.failed))),
            // Nothing was copied, so the exit code is that of the cause.
            Err(cause) if totals.objects == 0 && totals.told == 0 => Err(cause),
            Err(cause) => Err(match cause.sentence() {
                Some(why) if totals.is_tree => {
                    let copied = totals.objects;
                    CommandFailure::Failed(format!("stopped: {why}; {copied} of {all} were copied"))
                }
                _ => cause,
            }),
        }
    }
}

impl Totals {
    fn line(&self, seconds: f64) -> Option<String> {
        let (source, target) = self.label.as_ref()?;
        let mut line = format!("{source} -> {target}: ");
        if self.is_tree {
            line += &match self.failed {
                0 => format!("{}, ", text::count(self.objects, "object")),
                failed => {
                    format!("{} of {}, ", self.objects, text::count(self.objects + failed, "object"))
                }
            };
        }
        let (size, rate) = (text::size(self.bytes), text::rate(self.bytes, seconds));
        line += &format!("{size} in {} ({rate})", text::seconds(seconds));
        for (number, what) in [(self.parts, "part"), (self.requests, "request")] {
            if number > 0 {
                line += &format!(", {}", text::count(number, what));
            }
        }
        match self.retries {
            0 => {}
            1 => line += ", 1 retry",
            retries => line += &format!(", {retries} retries"),
        }
        if self.hedges > 0 {
            line += &format!(", {}", text::count(self.hedges, "hedge"));
        }
        Some(line)
    }
}

impl CopyInProgress<'_> {
    /// The record of the completed transfer. `object` is the target store's description, or else the source store's.
    pub(crate) fn done(self, source: String, target: String, bytes: u64, object: &Object) -> CompletedCopy {
        let sum = |figure: fn(&Snapshot) -> u64| {
            self.counted.iter().map(|progress| figure(&progress.snapshot())).sum()
        };
        CompletedCopy {
            source,
            target,
            bytes,
            figures: Box::new(CopyFigures {
                seconds: self.began.elapsed().as_secs_f64(),
                strategy: None,
                parts: sum(|snapshot| snapshot.parts),
                requests: sum(|snapshot| snapshot.requests),
                retries: sum(|snapshot| snapshot.retries),
                hedges: sum(|snapshot| snapshot.hedges),
                checksum: checksum(object),
                peak_buffered_bytes: self.report.stores.tide().usage().peak,
                verified: false,
            }),
        }
    }
}

impl Drop for CopyInProgress<'_> {
    fn drop(&mut self) {
        self.report.totals().live.remove(&self.id);
    }
}

impl CompletedCopy {
    pub(crate) fn by(mut self, strategy: Strategy) -> Self {
        self.figures.strategy = Some(strategy.name());
        self
    }

    /// Marks a copy that the store made itself.
    pub(crate) fn by_store(mut self) -> Self {
        self.figures.strategy = Some("copy");
        self
    }

    pub(crate) fn parts(&self) -> u64 {
        self.figures.parts
    }

    pub(crate) fn verified(&mut self) {
        self.figures.verified = true;
    }

    fn line(&self) -> CopyLine<'_> {
        let Self { source, target, bytes, figures } = self;
        CopyLine { source, target, bytes: Some(*bytes), dry_run: false, figures: Some(figures) }
    }
}

/// The checksum of the whole object, as the store reported it.
fn checksum(object: &Object) -> Option<String> {
    let named = |name: &str, sum: &Option<String>| sum.as_ref().map(|sum| format!("{name}:{sum}"));
    named("crc64nvme", &object.crc64nvme).or_else(|| named("crc32c", &object.crc32c))
}
