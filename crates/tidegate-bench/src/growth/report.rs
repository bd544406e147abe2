//! Reports a trial: tables, straight lines, and the claims that do not hold.

use std::fmt;

use serde::Serialize;

use super::line::{LineFit, beyond};
use super::writers::WriterFeed;
use super::{GrowthDirection, GrowthReport, GrowthRun, GrowthTrial, TransferRuns, WriterRuns};
use crate::size::{self, GIB, KIB, MIB};
use crate::stats::RunSpread;
use crate::table::MarkdownTable;

/// A straight line through one figure by size.
#[derive(Clone, Debug, Serialize)]
pub struct FigureFit {
    /// The direction or way.
    pub of: String,
    /// The figure.
    pub figure: &'static str,
    /// The unit of the slope.
    pub per: &'static str,
    /// The line through the medians.
    pub fit: LineFit,
}

/// One figure of a process.
type Figure = (&'static str, fn(&GrowthRun) -> f64);

const WALL: Figure = ("wall s", |run| run.usage.wall);
const CPU: Figure = ("CPU s", |run| run.usage.cpu());
const PEAK: Figure = ("peak RSS MiB", |run| run.usage.peak_kib as f64 / KIB as f64);

impl TransferRuns {
    fn gib(&self) -> f64 {
        self.size as f64 / GIB as f64
    }
}

/// The median of each size or number, in order.
fn points<'a>(rows: impl Iterator<Item = (f64, &'a [GrowthRun])>, figure: Figure) -> Vec<(f64, f64)> {
    rows.filter_map(|(x, runs)| Some((x, RunSpread::of(runs.iter().map(figure.1))?.median))).collect()
}

/// All lines with at least two points.
pub(super) fn fits(moved: &[TransferRuns], written: &[WriterRuns]) -> Vec<FigureFit> {
    let mut fits = Vec::new();
    let mut add = |of: &str, per, figure: Figure, points: Vec<(f64, f64)>| {
        fits.extend(LineFit::of(&points).map(|fit| FigureFit {
            of: of.to_owned(),
            figure: figure.0,
            per,
            fit,
        }));
    };
    for direction in GrowthDirection::ALL {
        let rows = moved.iter().filter(|moved| moved.direction == direction);
        for figure in [WALL, CPU, PEAK] {
            let points = points(rows.clone().map(|moved| (moved.gib(), moved.runs.as_slice())), figure);
            add(direction.name(), "GiB", figure, points);
        }
    }
    for way in WriterFeed::ALL {
        let rows = written.iter().filter(|written| written.way == way && written.starved.is_none());
        for figure in [WALL, CPU, PEAK] {
            let thousands = |written: &WriterRuns| f64::from(written.writers) / 1000.0;
            let points =
                points(rows.clone().map(|written| (thousands(written), written.runs.as_slice())), figure);
            add(way.name(), "1,000 writers", figure, points);
        }
    }
    fits
}

/// MiB that a process may use beyond its budget, for its code, its connections and the allocator: about 20 were
/// measured.
const FIXED: f64 = 32.0;
/// KiB that an open writer may use beyond its bytes, for its state and its task: about 4 were measured.
const WRITER: f64 = 8.0;
/// Shorter runs are mostly start-up: the engine opens connections and searches for its limit.
const LEAST_SECONDS: f64 = 5.0;
/// How far, in percent, the last time may be from the line through all times before it.
const NEAR: f64 = 15.0;

impl GrowthReport {
    /// Reports broken claims: time should be a straight line of the size, and memory should stay within its
    /// bound at any size.
    #[must_use]
    pub fn broken(&self) -> Vec<String> {
        let mut broken = Vec::new();
        for direction in GrowthDirection::ALL {
            let rows: Vec<_> = self.moved.iter().filter(|moved| moved.direction == direction).collect();
            let sized: Vec<_> = rows.iter().map(|moved| (moved.gib(), moved.runs.as_slice())).collect();
            broken.extend(not_straight(&sized).map(|why| format!("{}: {why}", direction.name())));
            for moved in rows {
                let why = self.held_too_much(&moved.runs, 0);
                broken.extend(
                    why.map(|why| format!("{} of {}: {why}", direction.name(), size::format(moved.size))),
                );
            }
        }
        for way in WriterFeed::ALL {
            let rows: Vec<_> = self.written.iter().filter(|written| written.way == way).collect();
            let counted: Vec<_> =
                rows.iter().map(|written| (f64::from(written.writers), written.runs.as_slice())).collect();
            // Writers use the spool once memory is full, so their times are a bent line.
            if way == WriterFeed::Tasks {
                broken.extend(not_straight(&counted).map(|why| format!("{}: {why}", way.name())));
            }
            for written in rows {
                let why =
                    self.held_too_much(&written.runs, written.writers).or_else(|| self.stopped(written));
                broken.extend(why.map(|why| format!("{} writers, {}: {why}", written.writers, way.name())));
            }
        }
        broken
    }

    /// Reports any run above the memory bound. Below the bound, peaks may grow with the size: the parts of a
    /// long stream grow, and a longer run is likelier to meet a moment in which the slow store lets the whole
    /// budget fill.
    fn held_too_much(&self, runs: &[GrowthRun], writers: u32) -> Option<String> {
        let budget = self.trial.memory as f64 / MIB as f64;
        let (peak, most) =
            (spread(runs, PEAK)?.max, budget + FIXED + f64::from(writers) * WRITER / KIB as f64);
        (peak > most).then(|| format!("{peak:.0} MiB, where {most:.0} are allowed"))
    }

    /// Reports writers that starved but should not. One task without a spool can't feed writers whose objects
    /// together are larger than memory: memory is full before any object is complete, and less than a part
    /// can't be sent. Half of the memory, because memory is given out in slabs, and room for a part is kept.
    fn stopped(&self, written: &WriterRuns) -> Option<String> {
        let bytes = u64::from(written.writers) * self.trial.writer_size;
        let may_stop = written.way == WriterFeed::Turns && bytes > self.trial.memory / 2;
        written.starved.clone().filter(|_| !may_stop)
    }
}

/// Reports a last time that differs from the line through the times before it by more than the noise.
fn not_straight(rows: &[(f64, &[GrowthRun])]) -> Option<String> {
    let last = spread(rows.last()?.1, WALL)?;
    let times = beyond(&points(rows.iter().copied(), WALL))?;
    let far = (times - 1.0) * 100.0;
    (last.median >= LEAST_SECONDS && far.abs() > NEAR.max(last.noise_percent())).then(|| {
        let how = if far > 0.0 { "more" } else { "less" };
        format!(
            "{:.1} s for the largest, {:.0}% {how} than the line of the others says",
            last.median,
            far.abs()
        )
    })
}

fn spread(runs: &[GrowthRun], (_, value): Figure) -> Option<RunSpread> {
    RunSpread::of(runs.iter().map(value))
}

fn cells(runs: &[GrowthRun], gib: f64) -> [String; 5] {
    let shown = |spread: Option<RunSpread>, digits: usize| {
        spread.map_or_else(String::new, |RunSpread { median, min, max }| {
            format!("{median:.digits$} ({min:.digits$}–{max:.digits$})")
        })
    };
    let requests = RunSpread::of(runs.iter().map(|run| run.requests as f64));
    [
        shown(spread(runs, WALL), 2),
        shown(spread(runs, CPU), 2),
        shown(spread(runs, CPU).map(|cpu| cpu.per(gib)), 2),
        shown(spread(runs, PEAK), 0),
        requests.map_or_else(String::new, |requests| format!("{:.0}", requests.median)),
    ]
}

const COLUMNS: [&str; 5] = ["wall s", "CPU s", "CPU s/GiB", "peak RSS MiB", "requests"];

impl GrowthReport {
    fn moved(&self) -> MarkdownTable {
        let mut table = MarkdownTable::new(["moved", "size"].into_iter().chain(COLUMNS));
        for moved in &self.moved {
            let names = [moved.direction.name().to_owned(), size::format(moved.size)];
            table.row(names.into_iter().chain(cells(&moved.runs, moved.gib())));
        }
        table
    }

    fn written(&self) -> MarkdownTable {
        let columns = ["fed by", "writers", "in all"].into_iter().chain(COLUMNS).chain(["published"]);
        let mut table = MarkdownTable::new(columns);
        for written in &self.written {
            let bytes = u64::from(written.writers) * self.trial.writer_size;
            let names = [written.way.name().to_owned(), written.writers.to_string(), size::format(bytes)];
            let published = if written.starved.is_some() { "none: starved" } else { "all" };
            let cells = cells(&written.runs, bytes as f64 / GIB as f64);
            table.row(names.into_iter().chain(cells).chain([published.to_owned()]));
        }
        table
    }

    fn lines(&self) -> MarkdownTable {
        let mut table = MarkdownTable::new(["line", "figure", "slope", "by", "at 0", "farthest from it"]);
        for FigureFit { of, figure, per, fit } in &self.fits {
            let LineFit { slope, intercept, farthest_percent } = fit;
            table.row([
                of.clone(),
                (*figure).to_owned(),
                format!("{slope:.3}"),
                (*per).to_owned(),
                format!("{intercept:.2}"),
                format!("{farthest_percent:.1}%"),
            ]);
        }
        table
    }
}

impl fmt::Display for GrowthReport {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let GrowthTrial { writer_size, turn_size, memory, runs, .. } = &self.trial;
        let [writer, turn, memory] = [*writer_size, *turn_size, *memory].map(size::format);
        writeln!(out, "{}", self.moved())?;
        writeln!(
            out,
            "Median (least–most) of {runs} runs. Upload: zeros through a pipe into `tidegate cp - URL`; download: the same \
             objects by `tidegate cat URL`, to /dev/null; a budget of {memory}.\n"
        )?;
        writeln!(out, "{}", self.written())?;
        writeln!(
            out,
            "All writers open at once on one engine with {memory}; each writes {writer}, {turn} a turn. Published: as the \
             server has counted.\n"
        )?;
        writeln!(out, "{}", self.lines())?;
        writeln!(
            out,
            "Straight lines by least squares through the medians; how far the farthest point is from its line, in percent \
             of the largest.\n"
        )?;
        for WriterRuns { way, writers, starved, .. } in &self.written {
            if let Some(starved) = starved {
                writeln!(out, "- {writers} writers, {}: {starved}", way.name())?;
            }
        }
        for broken in self.broken() {
            writeln!(out, "- DOES NOT HOLD: {broken}")?;
        }
        writeln!(out, "{}", self.conditions)
    }
}
