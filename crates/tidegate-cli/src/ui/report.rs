//! The output of `cp`, `mv` and `sync`: the bar, the line at the end, a line for each object.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use futures::StreamExt;
use tidegate_transfer::{CopiedObject, Ends, Event, Run, RunProgress, Transfer};

use super::bar::{Bar, BarFigures};
use super::lines::{CopyLine, ObjectLines, RemoveLine, SkipLine};
use crate::exit::{CommandFailure, Outcome};
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

/// The report of one `cp`.
pub(crate) struct CopyReport<'a> {
    show: CopyDisplay,
    began: Instant,
    stores: &'a Stores,
    bar: Option<Bar>,
    lines: ObjectLines,
    totals: Totals,
    phase: Phase,
    /// What is done with each object: it is "copied" or "moved".
    done: &'static str,
}

/// What the operation does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Copying,
    /// Removes what only the target has. All copies went well.
    Removing,
}

/// The figures of all transfers together.
#[derive(Default)]
struct Totals {
    /// The uploads in flight.
    unfinished: BTreeMap<u64, Begun>,
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
    /// How many objects were skipped.
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

impl<'a> CopyReport<'a> {
    /// The most failures of the shared cause that are printed.
    const ALIKE: u64 = 9;
    /// How often the bar is drawn.
    const BEAT: Duration = Duration::from_millis(100);

    /// A report that shows `show`, and adds each copied object to `lines`.
    pub(crate) fn new(show: CopyDisplay, lines: ObjectLines, stores: &'a Stores) -> Self {
        // Bars of several commands would overwrite each other.
        let show = if stores.is_shared() && show == CopyDisplay::Bar { CopyDisplay::Line } else { show };
        let bar = (show == CopyDisplay::Bar).then(Bar::new);
        Self {
            show,
            began: Instant::now(),
            stores,
            bar,
            lines,
            totals: Totals::default(),
            phase: Phase::Copying,
            done: "copied",
        }
    }

    /// The same for a move if `moves`: an object that was copied but could not be removed was not moved.
    pub(crate) fn moving(self, moves: bool) -> Self {
        Self { done: if moves { "moved" } else { self.done }, ..self }
    }

    /// Whether the total is shown.
    pub(crate) fn wants_total(&self) -> bool {
        self.bar.is_some()
    }

    /// Shows all events of an operation, and the bar meanwhile.
    pub(crate) async fn show(&mut self, run: &mut Run) -> Outcome {
        let mut beat = tokio::time::interval(Self::BEAT);
        loop {
            let event = tokio::select! {
                biased;
                _ = beat.tick(), if self.bar.is_some() => {
                    self.draw(run.progress());
                    continue;
                }
                event = run.next() => event,
            };
            match event {
                Some(event) => self.tell(event).await?,
                None => return Ok(()),
            }
        }
    }

    /// Draws the bar of one transfer until the work is done. No event comes meanwhile.
    pub(crate) async fn drawing<T>(
        &self,
        progress: impl Fn() -> RunProgress,
        work: impl Future<Output = Outcome<T>>,
    ) -> Outcome<T> {
        let mut work = std::pin::pin!(work);
        let mut beat = tokio::time::interval(Self::BEAT);
        loop {
            tokio::select! {
                biased;
                done = &mut work => return done,
                _ = beat.tick(), if self.bar.is_some() => self.draw(progress()),
            }
        }
    }

    /// What an operation came to, whose events were all shown.
    pub(crate) fn ended(&mut self, run: Run) -> Outcome {
        let (report, result) = run.into_parts();
        if self.phase == Phase::Copying {
            // The failure that ends the operation is no event.
            self.totals.failed = report.failed;
        }
        Ok(result?)
    }

    /// Shows one event.
    pub(crate) async fn tell(&mut self, event: Event) -> Outcome {
        let totals = &mut self.totals;
        match event {
            Event::Trees { source, target } => {
                totals.label = Some((source, target));
                totals.is_tree = true;
            }
            Event::Started(Transfer { id, sends: true, journaled, .. }) => {
                totals.unfinished.insert(id, self.stores.unfinished().begin(journaled));
            }
            Event::Ended(id) => drop(totals.unfinished.remove(&id)),
            Event::Copied(copied) => {
                self.lines.print(&CopyLine::done(&copied)).await?;
                self.totals.add(*copied);
            }
            Event::WouldCopy { source, target, bytes } => {
                self.lines.print(&CopyLine::planned(&source, &target, bytes)).await?;
            }
            Event::Removed { url } => self.lines.print(&RemoveLine { url: &url, dry_run: false }).await?,
            Event::WouldRemove { url } => self.lines.print(&RemoveLine { url: &url, dry_run: true }).await?,
            Event::Skipped { source, target, reason, dry_run } => {
                totals.skipped += 1;
                let line = SkipLine { source: &source, target: &target, reason, dry_run };
                self.lines.print(&line).await?;
            }
            Event::Removing => {
                self.say_copied();
                self.phase = Phase::Removing;
            }
            Event::Failed(failure) => {
                totals.failed += u64::from(self.phase == Phase::Copying);
                let is_told = match failure.ends {
                    Ends::Nothing => {
                        totals.told += 1;
                        true
                    }
                    Ends::SameCause => {
                        totals.alike += 1;
                        totals.alike <= Self::ALIKE
                    }
                };
                if is_told {
                    output::fail(&failure.error.into());
                }
            }
            event => super::tell(event),
        }
        Ok(())
    }

    fn draw(&self, progress: RunProgress) {
        let Some(bar) = &self.bar else { return };
        let RunProgress { key, moved, stored, expected, sends, done, in_flight, found, .. } = progress;
        bar.show(&BarFigures {
            name: key.unwrap_or_default(),
            moved,
            stored: sends.then_some(stored),
            expected,
            objects: self.totals.is_tree.then_some((done, found.max(done + in_flight))),
            waiting: self.stores.tide().progress().snapshot().waiting,
        });
    }

    /// Prints the line about all copies.
    fn say_copied(&mut self) {
        self.bar = None;
        let totals = &self.totals;
        // For a single object, the time of the transfer alone, without the start and the read-back.
        let seconds = if totals.is_tree { self.began.elapsed().as_secs_f64() } else { totals.seconds };
        if matches!(self.show, CopyDisplay::Bar | CopyDisplay::Line)
            && totals.objects > 0
            && let Some(line) = totals.line(seconds)
        {
            output::say(&line);
        }
        if matches!(self.show, CopyDisplay::Bar | CopyDisplay::Line) && totals.skipped > 0 {
            output::say(&format!(
                "{} skipped, because their targets exist",
                text::count(totals.skipped, "object")
            ));
        }
    }

    /// Prints the last lines and returns the result of the whole `cp`, whose transfers ended as `copied` says.
    pub(crate) async fn close(mut self, copied: Outcome) -> Outcome<Closed> {
        if self.phase == Phase::Copying {
            self.say_copied();
        }
        let Self { bar, lines, totals, phase, done, .. } = self;
        drop(bar);
        lines.finish().await?;
        let copied = match (phase, copied) {
            (Phase::Removing, Err(cause)) => return Err(cause),
            (_, copied) => copied,
        };
        match copied {
            Ok(()) if totals.failed == 0 => {
                Ok(Closed { target: totals.label.map(|(_, target)| target), verified: totals.verified })
            }
            Ok(()) => {
                let all = text::count(totals.objects + totals.failed, "object");
                Err(CommandFailure::Failed(format!("{} of {all} could not be {done}", totals.failed)))
            }
            // Nothing was copied, so the exit code is that of the cause.
            Err(cause) if totals.objects == 0 && totals.told == 0 => Err(cause),
            Err(cause) => Err(match cause.sentence() {
                Some(why) if totals.is_tree => {
                    CommandFailure::Failed(format!("stopped: {why}; {}", totals.until_stopped(done)))
                }
                _ => cause,
            }),
        }
    }
}

impl Totals {
    fn add(&mut self, copied: CopiedObject) {
        self.objects += 1;
        self.bytes = self.bytes.saturating_add(copied.bytes); // saturating, because a store may report any size
        self.seconds = copied.seconds;
        self.parts += copied.parts;
        self.requests += copied.requests;
        self.retries += copied.retries;
        self.hedges += copied.hedges;
        self.verified += u64::from(copied.verified);
        if !self.is_tree {
            self.label = Some((copied.source, copied.target));
        }
    }

    /// How far the work has come. How many objects there are was not found out.
    fn until_stopped(&self, done: &str) -> String {
        let were = if self.objects == 1 { "was" } else { "were" };
        let mut line = format!("{} {were} {done}", text::count(self.objects, "object"));
        if self.failed > 0 {
            line += &format!(", {} could not be", self.failed);
        }
        line
    }

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
