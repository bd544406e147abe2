//! Measures the published tables one after the other and writes them to a folder: each as the Markdown that its
//! command prints, and as JSON.

use std::fmt::{self, Display};
use std::path::{Path, PathBuf};

use clap::{Args, Parser};
use serde::Serialize;

use crate::parts::{self, Published};
use crate::{Result, growth, journal, prefixes};

/// Which tables to measure, and how much of them.
#[derive(Clone, Debug, Args)]
pub struct PublishedTrial {
    /// How much of each table.
    #[command(flatten)]
    pub extent: PublishedExtent,
    /// Measure only these tables.
    #[arg(long, value_enum, value_delimiter = ',', value_name = "TABLE", default_value = "a,b,c,d,growth")]
    pub only: Vec<Letter>,
}

/// How much of each table to measure, and the folder for the results.
#[derive(Clone, Debug, Args)]
pub struct PublishedExtent {
    /// A few small rows, to check that everything works, and the order of the ways. All tables take about four
    /// minutes.
    #[arg(long)]
    pub quick: bool,
    /// All rows, which is the default; all tables take hours.
    #[arg(long, conflicts_with = "quick")]
    pub full: bool,
    /// Folder for the results: NAME.md and NAME.json of each table. (The --to of a single table is a real
    /// store.)
    #[arg(long, value_name = "DIR", default_value = "bench-results", value_parser = folder)]
    pub to: PathBuf,
}

/// Parses a folder for results. The address of a store is rejected: it would be taken for a folder.
pub(crate) fn folder(text: &str) -> Result<PathBuf, String> {
    if text.contains("://") {
        return Err(
            "this is where figures go, a folder; a store is named to one table, such as `a --to URL`"
                .to_owned(),
        );
    }
    Ok(PathBuf::from(text))
}

/// A published table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Letter {
    /// Parts uploaded while the next is written.
    A,
    /// Strategies by number of streams.
    B,
    /// Objects whole, in parts, and in parts at once.
    C,
    /// Operations by prefixes.
    D,
    /// Not a published table: time and memory by size.
    Growth,
}

/// Measures one table and returns the claims that do not hold.
type Measure = fn(&PublishedExtent, &str, &Path) -> Result<Vec<String>>;

impl Letter {
    /// The measurements of a table, in order: the name of each and of its files, and its function.
    fn tables(self) -> &'static [(&'static str, Measure)] {
        match self {
            Self::A => &[("a", |extent, name, tidegate| extent.parts(name, Published::Async, tidegate))],
            Self::B => &[("b", |extent, name, tidegate| {
                extent.keep(
                    name,
                    extent.of::<journal::JournalTrial>()?.hold(tidegate)?,
                    journal::JournalReport::broken,
                )
            })],
            Self::C => &[("c", |extent, name, tidegate| extent.parts(name, Published::Threaded, tidegate))],
            Self::D => &[("prefixes", |extent, name, tidegate| {
                let report = extent.of::<prefixes::PrefixesTrial>()?.hold(tidegate)?;
                extent.keep(name, report, prefixes::PrefixesReport::broken)
            })],
            Self::Growth => &[("growth", |extent, name, tidegate| {
                extent.keep(
                    name,
                    extent.of::<growth::GrowthTrial>()?.hold(tidegate)?,
                    growth::GrowthReport::broken,
                )
            })],
        }
    }
}

const NOT_SHOWN: &str = "a table does not show what it is to show";

/// A table's report with the claims that do not hold. The JSON has both; the display is the report, which lists
/// them too.
#[derive(Clone, Debug, Serialize)]
pub struct Judged<R> {
    #[serde(flatten)]
    report: R,
    broken: Vec<String>,
}

impl<R> Judged<R> {
    /// A report with its broken claims.
    #[must_use]
    pub fn of(report: R, broken: fn(&R) -> Vec<String>) -> Self {
        Self { broken: broken(&report), report }
    }
}

impl<R> Judged<R> {
    /// Whether the report shows the expected results.
    ///
    /// # Errors
    /// If a claim does not hold.
    pub fn verdict(&self) -> Result<()> {
        if self.broken.is_empty() { Ok(()) } else { Err(NOT_SHOWN.into()) }
    }
}

impl<R: Display> Display for Judged<R> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.report.fmt(out)
    }
}

/// The results of all tables.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PublishedOutcome {
    /// The claims that do not hold.
    pub broken: Vec<String>,
    /// Tables that could not run, and why.
    pub failed: Vec<(&'static str, String)>,
}

impl PublishedOutcome {
    /// Measures one table after the other; a table that can't run does not stop the others.
    fn of<F: FnOnce() -> Result<Vec<String>>>(tables: impl IntoIterator<Item = (&'static str, F)>) -> Self {
        let mut outcome = Self::default();
        for (name, measure) in tables {
            match measure() {
                Ok(broken) => outcome.broken.extend(broken.iter().map(|broken| format!("{name}: {broken}"))),
                Err(error) => {
                    // Printed at once, because the summary at the end may be hours away.
                    eprintln!("tidegate-bench: {name} could not run: {error}");
                    outcome.failed.push((name, error.to_string()));
                }
            }
        }
        outcome
    }

    /// Whether all tables ran and show the expected results.
    ///
    /// # Errors
    /// If a table could not run, or a claim does not hold.
    pub fn verdict(&self) -> Result<()> {
        let mut wrong = Vec::new();
        if !self.failed.is_empty() {
            let names: Vec<_> = self.failed.iter().map(|(name, _)| *name).collect();
            wrong.push(format!("of the tables these could not run: {}", names.join(", ")));
        }
        if !self.broken.is_empty() {
            wrong.push(NOT_SHOWN.to_owned());
        }
        if wrong.is_empty() { Ok(()) } else { Err(wrong.join("; ").into()) }
    }
}

impl Display for PublishedOutcome {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { broken, failed } = self;
        if broken.is_empty() && failed.is_empty() {
            return writeln!(out, "All tables show what they are to show.");
        }
        broken.iter().try_for_each(|broken| writeln!(out, "DOES NOT HOLD: {broken}"))?;
        failed.iter().try_for_each(|(name, why)| writeln!(out, "COULD NOT RUN: {name}: {why}"))
    }
}

impl PublishedTrial {
    /// Measures the tables and returns the outcome.
    ///
    /// # Errors
    /// If the folder can't be created.
    pub fn hold(&self, tidegate: &Path) -> Result<PublishedOutcome> {
        let extent = &self.extent;
        std::fs::create_dir_all(&extent.to)?;
        let tables = self.only.iter().flat_map(|letter| letter.tables());
        Ok(PublishedOutcome::of(
            tables.map(|&(name, measure)| (name, move || measure(extent, name, tidegate))),
        ))
    }
}

impl PublishedExtent {
    fn parts(&self, name: &str, table: Published, tidegate: &Path) -> Result<Vec<String>> {
        let trial = parts::PartsTrial { table, extent: self.of()? };
        self.keep(name, trial.hold(|| Ok(tidegate.to_owned()))?, parts::PartsReport::broken)
    }

    /// The options of a table's command for this extent.
    fn of<T: Args>(&self) -> Result<T> {
        #[derive(Parser)]
        struct TrialCommandLine<T: Args> {
            #[command(flatten)]
            trial: T,
        }
        Ok(TrialCommandLine::try_parse_from(["bench"].into_iter().chain(self.quick.then_some("--quick")))?
            .trial)
    }

    /// Prints a report, writes both files, and returns the claims that do not hold.
    fn keep<R: Serialize + Display>(
        &self,
        name: &str,
        report: R,
        broken: fn(&R) -> Vec<String>,
    ) -> Result<Vec<String>> {
        let judged = Judged::of(report, broken);
        let said = judged.to_string();
        println!("## {name}\n\n{said}");
        std::fs::write(self.to.join(format!("{name}.md")), said)?;
        std::fs::write(self.to.join(format!("{name}.json")), serde_json::to_vec(&judged)?)?;
        Ok(judged.broken)
    }
}

#[cfg(test)]
mod tests;
