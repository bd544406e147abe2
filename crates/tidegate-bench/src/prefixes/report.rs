//! Reports the result of a trial.

use std::fmt;

use serde::Serialize;

use super::listing::{self, ListingRun};
use super::load::{RequestPace, SIZE};
use super::spreading::{self, Spreading};
use super::{Beside, PrefixesLine, PrefixesPart, PrefixesTrial, WRITES};
use crate::machine::Conditions;
use crate::table::MarkdownTable;

/// The result of a trial; displays as Markdown.
#[derive(Clone, Debug, Serialize)]
pub struct PrefixesReport {
    /// The options of the trial.
    pub trial: PrefixesTrial,
    /// The machine and its load.
    #[serde(flatten)]
    pub conditions: Conditions,
    /// Requests a second by prefixes.
    pub lines: Vec<PrefixesLine>,
    /// A hot prefix beside cold ones.
    pub beside: Vec<Beside>,
    /// How evenly keys are spread.
    pub spreading: Vec<Spreading>,
    /// All prefixes listed as one.
    pub listings: Vec<ListingRun>,
}

impl PrefixesReport {
    /// Reports broken claims. With a limit for each prefix, the most prefixes should reach at least half of
    /// their number times the rate of one prefix. Without known limits, they should reach half the rate of one.
    #[must_use]
    pub fn broken(&self) -> Vec<String> {
        let most = self.trial.prefixes();
        let done = |kind, count| {
            let line = self.lines.iter().find(|line| line.kind == kind && line.prefixes == Some(count))?;
            Some(line.pace.per_second)
        };
        let times = if self.trial.is_shaped() { f64::from(most) } else { 1.0 };
        let kinds = ["writes", "reads"].into_iter();
        let slow = kinds.filter_map(|kind| {
            let (one, all) = (done(kind, 1)?, done(kind, most)?);
            let told = || format!("{kind}: {all:.0} a second over {most} prefixes, {one:.0} over one");
            (all < one * times / 2.0).then(told)
        });
        slow.collect()
    }

    /// The store of the requests, as the beginning of a sentence.
    fn store(&self) -> String {
        let PrefixesTrial { to, unshaped, scale, latency_ms, .. } = &self.trial;
        match to {
            Some(url) => format!("requests to {url}, whose limits are its own: no share of them is known"),
            None if *unshaped => "the embedded server, unshaped: no prefix has a limit".to_owned(),
            None => format!(
                "each prefix takes S3's 3,500 writes and 5,500 reads a second divided by {scale}; {latency_ms} ms of\n\
                 latency"
            ),
        }
    }
}

impl fmt::Display for PrefixesReport {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { trial, conditions, lines, beside, spreading, listings } = self;
        if !lines.is_empty() || !beside.is_empty() {
            writeln!(
                out,
                "Objects of {SIZE} bytes; {}; {} s each, after {} s to warm up\n",
                self.store(),
                trial.seconds,
                trial.warm_up
            )?;
        }
        if !lines.is_empty() {
            writeln!(out, "{}", by_prefixes(lines))?;
            writeln!(
                out,
                "503s: answers that there are too many requests, as they came here in the measured time, and before it. Not\n\
                 spread: all keys below one prefix, no lanes.\n"
            )?;
        }
        if !beside.is_empty() {
            let limit = trial.is_shaped().then_some(WRITES / trial.scale);
            writeln!(out, "{}", hot_and_cold(beside, limit))?;
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
        if let (Some(url), true) = (&trial.to, trial.has(PrefixesPart::Listing)) {
            writeln!(
                out,
                "- LEFT OUT: listings of all prefixes as one. They need a store that makes objects by thousands and counts\n  \
                 what it is asked, as the embedded server does, and {url} does not."
            )?;
        }
        for broken in self.broken() {
            writeln!(out, "- DOES NOT HOLD: {broken}")?;
        }
        writeln!(out, "{conditions}")
    }
}

/// Stands for a missing value.
fn none() -> String {
    "–".to_owned()
}

/// A pace in percent of its limit, if there is a limit.
fn of(pace: &RequestPace, limit: Option<f64>) -> String {
    limit.map_or_else(none, |limit| format!("{:.0}%", pace.per_second / limit * 100.0))
}

fn by_prefixes(lines: &[PrefixesLine]) -> MarkdownTable {
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
    let mut table = MarkdownTable::new(columns);
    for PrefixesLine { prefixes, kind, limit, pace } in lines {
        table.row([
            prefixes.map_or("not spread".to_owned(), |count| count.to_string()),
            (*kind).to_owned(),
            limit.map_or_else(none, |limit| format!("{limit:.1}")),
            format!("{:.1}", pace.per_second),
            of(pace, *limit),
            pace.refused.to_string(),
            format!("{:.1}%", pace.share() * 100.0),
            pace.refused_before.to_string(),
        ]);
    }
    table
}

fn hot_and_cold(beside: &[Beside], limit: Option<f64>) -> MarkdownTable {
    let columns = ["writes", "cold a second", "503s", "p99 ms", "hot a second", "503s", "of its limit"];
    let mut table = MarkdownTable::new(columns);
    for Beside { what, cold, hot } in beside {
        let hot_cell = |cell: &dyn Fn(&RequestPace) -> String| hot.as_ref().map_or_else(none, cell);
        table.row([
            (*what).to_owned(),
            format!("{:.1}", cold.per_second),
            cold.refused.to_string(),
            format!("{:.0}", cold.p99 * 1e3),
            hot_cell(&|hot| format!("{:.1}", hot.per_second)),
            hot_cell(&|hot| hot.refused.to_string()),
            hot_cell(&|hot| of(hot, limit)),
        ]);
    }
    table
}
