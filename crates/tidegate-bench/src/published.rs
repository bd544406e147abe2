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
    /// A few small rows: whether all works, and whether the order of the ways is as it should be. Of all tables in about
    /// four minutes.
    #[arg(long)]
    pub quick: bool,
    /// All rows, which is the default and takes hours.
    #[arg(long, conflicts_with = "quick")]
    pub full: bool,
    /// Folder for what is measured: NAME.md and NAME.json of each table.
    #[arg(long, value_name = "DIR", default_value = "bench-results")]
    pub to: PathBuf,
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

/// What does not hold of what the tables are to show.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Broken(pub Vec<String>);

impl Display for Broken {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.as_slice() {
            [] => writeln!(out, "All tables show what they are to show."),
            broken => broken.iter().try_for_each(|broken| writeln!(out, "DOES NOT HOLD: {broken}")),
        }
    }
}

impl Trial {
    /// Measures them, and says what does not hold.
    ///
    /// # Errors
    /// The first of a table; those before it are in the folder.
    pub fn hold(&self, tidegate: &Path) -> Result<Broken> {
        std::fs::create_dir_all(&self.extent.to)?;
        let mut broken = Broken::default();
        for letter in &self.only {
            match letter {
                Letter::A => self.parts("a", Published::Async, tidegate, &mut broken)?,
                Letter::B => {
                    let report = self.of::<journal::Trial>()?.hold(tidegate)?;
                    self.keep("b", &report, report.broken(), &mut broken)?;
                }
                Letter::C => self.parts("c", Published::Threaded, tidegate, &mut broken)?,
                Letter::D => {
                    let report = self.of::<compaction::Trial>()?.hold(tidegate)?;
                    self.keep("compaction", &report, report.broken(), &mut broken)?;
                    std::fs::write(self.extent.to.join("memory.json"), report.memory().to_string())?;
                    let report = self.of::<tables::Trial>()?.hold(tidegate)?;
                    self.keep("tables", &report, report.broken(), &mut broken)?;
                    let report = self.of::<prefixes::Trial>()?.hold(tidegate)?;
                    self.keep("prefixes", &report, report.broken(), &mut broken)?;
                }
                Letter::Growth => {
                    let report = self.of::<growth::Trial>()?.hold(tidegate)?;
                    self.keep("growth", &report, report.broken(), &mut broken)?;
                }
            }
        }
        Ok(broken)
    }

    fn parts(&self, name: &str, table: Published, tidegate: &Path, broken: &mut Broken) -> Result<()> {
        let trial = parts::Trial { table, extent: self.of()? };
        let report = trial.hold(|| Ok(tidegate.to_owned()))?;
        self.keep(name, &report, report.broken(), broken)
    }

    /// What a command of that would be told.
    fn of<T: Args>(&self) -> Result<T> {
        #[derive(Parser)]
        struct Line<T: Args> {
            #[command(flatten)]
            trial: T,
        }
        Ok(Line::try_parse_from(["bench"].into_iter().chain(self.extent.quick.then_some("--quick")))?.trial)
    }

    fn keep(
        &self,
        name: &str,
        report: &(impl Serialize + Display),
        found: Vec<String>,
        broken: &mut Broken,
    ) -> Result<()> {
        let said = report.to_string();
        println!("## {name}\n\n{said}");
        std::fs::write(self.extent.to.join(format!("{name}.md")), said)?;
        std::fs::write(self.extent.to.join(format!("{name}.json")), serde_json::to_vec(report)?)?;
        broken.0.extend(found.into_iter().map(|found| format!("{name}: {found}")));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        trial: Trial,
    }

    fn parsed(words: &[&str]) -> Result<Trial, clap::Error> {
        Line::try_parse_from(["all"].iter().chain(words)).map(|line| line.trial)
    }

    #[test]
    fn it_is_said_how_much_is_wanted() {
        assert!(parsed(&["--quick", "--full"]).is_err());
        assert!(!parsed(&[]).unwrap().extent.quick);
        assert_eq!(parsed(&["--full"]).unwrap().only.len(), 5);
        assert_eq!(parsed(&["--only", "growth"]).unwrap().only, [Letter::Growth]);
        assert_eq!(parsed(&["--quick", "--only", "a,d"]).unwrap().only, [Letter::A, Letter::D]);
    }

    #[test]
    fn each_table_is_told() {
        for (words, is_quick) in [(&["--quick"], true), (&["--full"], false)] {
            let trial = parsed(words).unwrap();
            let quick = [
                trial.of::<parts::Extent>().unwrap().quick,
                trial.of::<journal::Trial>().unwrap().quick,
                trial.of::<compaction::Trial>().unwrap().quick,
                trial.of::<tables::Trial>().unwrap().quick,
                trial.of::<prefixes::Trial>().unwrap().quick,
                trial.of::<growth::Trial>().unwrap().quick,
            ];
            assert_eq!(quick, [is_quick; 6]);
        }
    }

    #[test]
    fn what_does_not_hold_is_told() {
        assert!(Broken::default().to_string().starts_with("All tables"));
        let broken = Broken(vec!["a: one".to_owned(), "b: two".to_owned()]);
        assert_eq!(broken.to_string(), "DOES NOT HOLD: a: one\nDOES NOT HOLD: b: two\n");
    }
}
