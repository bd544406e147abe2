//! What came of a trial.

use std::fmt;

use serde::Serialize;

use super::listing::{self, Listing};
use super::load::{Pace, SIZE};
use super::spreading::{self, Spreading};
use super::{Beside, Line, Trial, WRITES};
use crate::machine::Conditions;
use crate::table::Table;

/// What came of a trial; it displays as Markdown.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// What was asked for.
    pub trial: Trial,
    /// Where and when.
    #[serde(flatten)]
    pub conditions: Conditions,
    /// Requests a second by prefixes.
    pub lines: Vec<Line>,
    /// A hot prefix and cold ones.
    pub beside: Vec<Beside>,
    /// How keys are spread.
    pub spreading: Vec<Spreading>,
    /// All prefixes listed as one.
    pub listings: Vec<Listing>,
}

impl Report {
    /// What does not hold of what the table is to show: that the most prefixes do at least half of what so many times one
    /// prefix would.
    #[must_use]
    pub fn broken(&self) -> Vec<String> {
        let most = self.trial.prefixes();
        let done = |kind, count| {
            let line = self.lines.iter().find(|line| line.kind == kind && line.prefixes == Some(count))?;
            Some(line.pace.per_second)
        };
        let kinds = ["writes", "reads"].into_iter();
        let slow = kinds.filter_map(|kind| {
            let (one, all) = (done(kind, 1)?, done(kind, most)?);
            let told = || format!("{kind}: {all:.0} a second over {most} prefixes, {one:.0} over one");
            (all < one * f64::from(most) / 2.0).then(told)
        });
        slow.collect()
    }
}

impl fmt::Display for Report {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { trial, conditions, lines, beside, spreading, listings } = self;
        if !lines.is_empty() || !beside.is_empty() {
            writeln!(
                out,
                "Objects of {SIZE} bytes; each prefix takes S3's 3,500 writes and 5,500 reads a second divided by {}; {} ms of\n\
                 latency; {} s each, after {} s to warm up\n",
                trial.scale, trial.latency_ms, trial.seconds, trial.warm_up
            )?;
        }
        if !lines.is_empty() {
            writeln!(out, "{}", by_prefixes(lines))?;
            writeln!(
                out,
                "503s: of the measured time, and before it. Not spread: all keys below one prefix, no lanes.\n"
            )?;
        }
        if !beside.is_empty() {
            writeln!(out, "{}", hot_and_cold(beside, WRITES / trial.scale))?;
        }
        if !spreading.is_empty() {
            writeln!(out, "{}", spreading::table(spreading))?;
        }
        if !listings.is_empty() {
            writeln!(out, "{}", listing::table(listings))?;
            writeln!(
                out,
                "`tidegate ls -r` over {} prefixes. As one: every key came, once, in order. Requests are the server's count.\n",
                trial.prefixes()
            )?;
        }
        for broken in self.broken() {
            writeln!(out, "- DOES NOT HOLD: {broken}")?;
        }
        writeln!(out, "{conditions}")
    }
}

fn by_prefixes(lines: &[Line]) -> Table {
    let columns = [
        "prefixes",
        "requests",
        "limit a second",
        "done a second",
        "of the limit",
        "503s",
        "share",
        "503s before",
    ];
    let mut table = Table::new(columns);
    for Line { prefixes, kind, limit, pace } in lines {
        table.row([
            prefixes.map_or("not spread".to_owned(), |count| count.to_string()),
            (*kind).to_owned(),
            format!("{limit:.1}"),
            format!("{:.1}", pace.per_second),
            format!("{:.0}%", pace.per_second / limit * 100.0),
            pace.refused.to_string(),
            format!("{:.1}%", pace.share() * 100.0),
            pace.refused_before.to_string(),
        ]);
    }
    table
}

fn hot_and_cold(beside: &[Beside], limit: f64) -> Table {
    let columns = ["writes", "cold a second", "503s", "p99 ms", "hot a second", "503s", "of its limit"];
    let mut table = Table::new(columns);
    for Beside { what, cold, hot } in beside {
        let hot_cell = |cell: &dyn Fn(&Pace) -> String| hot.as_ref().map_or_else(|| "–".to_owned(), cell);
        table.row([
            (*what).to_owned(),
            format!("{:.1}", cold.per_second),
            cold.refused.to_string(),
            format!("{:.0}", cold.p99 * 1e3),
            hot_cell(&|hot| format!("{:.1}", hot.per_second)),
            hot_cell(&|hot| hot.refused.to_string()),
            hot_cell(&|hot| format!("{:.0}%", hot.per_second / limit * 100.0)),
        ]);
    }
    table
}
