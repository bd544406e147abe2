//! The published tables, one after the other, into a folder: each as the Markdown that its command prints and as the JSON
//! that a page is made of.

use std::fmt::{self, Display};
use std::path::{Path, PathBuf};

use clap::{Args, Parser};
use serde::Serialize;

use crate::parts::{self, Published};
use crate::{Result, compaction, growth, journal, prefixes, tables};

/// Which tables, and how much of them.
#[derive(Clone, Debug, Args)]
pub struct Trial {
    /// How much.
    #[command(flatten)]
    pub extent: Extent,
    /// These only.
    #[arg(long, value_enum, value_delimiter = ',', value_name = "TABLE", default_value = "a,b,c,d,growth")]
    pub only: Vec<Letter>,
}

/// How much of each table, and where to.
#[derive(Clone, Debug, Args)]
pub struct Extent {
    /// A few small rows: whether all works, and whether the order of the ways is as it should be. All tables take about
    /// four minutes.
    #[arg(long)]
    pub quick: bool,
    /// All rows, which is the default; all tables take hours.
    #[arg(long, conflicts_with = "quick")]
    pub full: bool,
    /// Folder for what is measured: NAME.md and NAME.json of each table. (The tables' own --to is a real store.)
    #[arg(long, value_name = "DIR", default_value = "bench-results", value_parser = folder)]
    pub to: PathBuf,
}

/// A folder of figures. A store's address would be one, too, and be taken for what is measured.
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
    /// Sorted tables: written and merged as streams, and operations by prefixes.
    D,
    /// No published one: time and memory by size.
    Growth,
}

/// What measures a table of that name, and says what does not hold of it.
type Measure = fn(&Extent, &str, &Path) -> Result<Vec<String>>;

impl Letter {
    /// Its tables in their order: what each and its files are called, and what measures it.
    fn tables(self) -> &'static [(&'static str, Measure)] {
        match self {
            Self::A => &[("a", |extent, name, tidegate| extent.parts(name, Published::Async, tidegate))],
            Self::B => &[("b", |extent, name, tidegate| {
                extent.keep(name, extent.of::<journal::Trial>()?.hold(tidegate)?, journal::Report::broken)
            })],
            Self::C => &[("c", |extent, name, tidegate| extent.parts(name, Published::Threaded, tidegate))],
            Self::D => &[
                ("compaction", Extent::compaction),
                ("tables", |extent, name, tidegate| {
                    extent.keep(name, extent.of::<tables::Trial>()?.hold(tidegate)?, tables::Report::broken)
                }),
                ("prefixes", |extent, name, tidegate| {
                    let report = extent.of::<prefixes::Trial>()?.hold(tidegate)?;
                    extent.keep(name, report, prefixes::Report::broken)
                }),
            ],
            Self::Growth => &[("growth", |extent, name, tidegate| {
                extent.keep(name, extent.of::<growth::Trial>()?.hold(tidegate)?, growth::Report::broken)
            })],
        }
    }
}

const NOT_SHOWN: &str = "a table does not show what it is to show";

/// A table's report with what does not hold of it: the JSON has both; what is displayed is the report, which says it too.
#[derive(Clone, Debug, Serialize)]
pub struct Judged<R> {
    #[serde(flatten)]
    report: R,
    broken: Vec<String>,
}

impl<R> Judged<R> {
    /// A report, and what this says of it.
    #[must_use]
    pub fn of(report: R, broken: fn(&R) -> Vec<String>) -> Self {
        Self { broken: broken(&report), report }
    }
}

impl<R> Judged<R> {
    /// Whether it shows what it is to show.
    ///
    /// # Errors
    /// Where it does not.
    pub fn verdict(&self) -> Result<()> {
        if self.broken.is_empty() { Ok(()) } else { Err(NOT_SHOWN.into()) }
    }
}

impl<R: Display> Display for Judged<R> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.report.fmt(out)
    }
}

/// What came of the tables.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// What does not hold of what they are to show.
    pub broken: Vec<String>,
    /// Those that could not run, and why.
    pub failed: Vec<(&'static str, String)>,
}

impl Outcome {
    /// Measures one after the other. One that can't run keeps none of the others from it.
    fn of<F: FnOnce() -> Result<Vec<String>>>(tables: impl IntoIterator<Item = (&'static str, F)>) -> Self {
        let mut outcome = Self::default();
        for (name, measure) in tables {
            match measure() {
                Ok(broken) => outcome.broken.extend(broken.iter().map(|broken| format!("{name}: {broken}"))),
                Err(error) => {
                    // The end, where it is said again, may be hours away.
                    eprintln!("tidegate-bench: {name} could not run: {error}");
                    outcome.failed.push((name, error.to_string()));
                }
            }
        }
        outcome
    }

    /// Whether all is as it should be.
    ///
    /// # Errors
    /// Where a table could not run, or does not show what it is to show.
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

impl Display for Outcome {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { broken, failed } = self;
        if broken.is_empty() && failed.is_empty() {
            return writeln!(out, "All tables show what they are to show.");
        }
        broken.iter().try_for_each(|broken| writeln!(out, "DOES NOT HOLD: {broken}"))?;
        failed.iter().try_for_each(|(name, why)| writeln!(out, "COULD NOT RUN: {name}: {why}"))
    }
}

impl Trial {
    /// Measures them, and says what came of it.
    ///
    /// # Errors
    /// Where there can be no such folder.
    pub fn hold(&self, tidegate: &Path) -> Result<Outcome> {
        let extent = &self.extent;
        std::fs::create_dir_all(&extent.to)?;
        let tables = self.only.iter().flat_map(|letter| letter.tables());
        Ok(Outcome::of(tables.map(|&(name, measure)| (name, move || measure(extent, name, tidegate)))))
    }
}

impl Extent {
    fn parts(&self, name: &str, table: Published, tidegate: &Path) -> Result<Vec<String>> {
        let trial = parts::Trial { table, extent: self.of()? };
        self.keep(name, trial.hold(|| Ok(tidegate.to_owned()))?, parts::Report::broken)
    }

    fn compaction(&self, name: &str, tidegate: &Path) -> Result<Vec<String>> {
        let report = self.of::<compaction::Trial>()?.hold(tidegate)?;
        let memory = report.memory().to_string();
        let broken = self.keep(name, report, compaction::Report::broken)?;
        std::fs::write(self.to.join("memory.json"), memory)?;
        Ok(broken)
    }

    /// What a command of that would be told.
    fn of<T: Args>(&self) -> Result<T> {
        #[derive(Parser)]
        struct Line<T: Args> {
            #[command(flatten)]
            trial: T,
        }
        Ok(Line::try_parse_from(["bench"].into_iter().chain(self.quick.then_some("--quick")))?.trial)
    }

    /// Prints a report and writes both its files, and says what does not hold of it.
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
