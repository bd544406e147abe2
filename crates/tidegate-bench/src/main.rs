//! `tidegate-bench`: measures transfers by tidegate.

use std::ffi::OsString;
use std::fmt::Display;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use serde::Serialize;
use tidegate_bench::crash::{CrashTrial, WORKER, Worker};
use tidegate_bench::growth::{
    self,
    writers::{WRITERS, Writers},
};
use tidegate_bench::hedge;
use tidegate_bench::interrupt::InterruptedRun;
use tidegate_bench::journal::{self, uploads::Uploads};
use tidegate_bench::parts::{self, Published};
use tidegate_bench::performance::PerformanceTrial;
use tidegate_bench::prefixes;
use tidegate_bench::published::{self, Judged};
use tidegate_bench::writers::{OpenWriters, WritersFigures};
use tidegate_bench::{Result, measure, process};

/// Measure transfers by tidegate.
#[derive(Debug, Parser)]
#[command(version)]
struct BenchCommandLine {
    #[command(subcommand)]
    command: BenchCommand,
}

#[derive(Debug, Subcommand)]
enum BenchCommand {
    /// The twelve transfers of docs/PERFORMANCE.md, by one or several builds of the program in turn.
    Performance {
        #[command(flatten)]
        trial: PerformanceTrial,
        /// Print one JSON object with every single run, instead of a table.
        #[arg(long)]
        json: bool,
    },
    /// Make one upload with some slow parts, each with and without hedging.
    Hedge {
        #[command(flatten)]
        trial: hedge::HedgeTrial,
        /// Print one JSON object with every single run, instead of a table.
        #[arg(long)]
        json: bool,
    },
    /// Table A: objects of 4 MiB to 2 GiB, part by part, with parts uploaded while the next is written, and as
    /// the library chooses.
    A {
        #[command(flatten)]
        extent: parts::PartsExtent,
        /// Print one JSON object with every single run, instead of a table.
        #[arg(long)]
        json: bool,
    },
    /// Table B: streams of unknown length: journaled, chunked, spooled, in parts; and by Google's Java client.
    #[command(visible_alias = "journal")]
    B {
        #[command(flatten)]
        trial: journal::JournalTrial,
        /// Print one JSON object with every single run, instead of a table.
        #[arg(long)]
        json: bool,
    },
    /// Table C: objects of 64 KiB to 150 MiB in one request, part by part, with parts in parallel, and as the
    /// library chooses.
    C {
        #[command(flatten)]
        extent: parts::PartsExtent,
        /// Print one JSON object with every single run, instead of a table.
        #[arg(long)]
        json: bool,
    },
    /// Tables A to D and `growth`, written to one folder; checks that they show the expected results.
    All {
        #[command(flatten)]
        trial: published::PublishedTrial,
    },
    /// Table D: requests over 1 to 128 prefixes, each with its own limit in the embedded server; and list all
    /// prefixes as one.
    #[command(visible_alias = "d")]
    Prefixes {
        #[command(flatten)]
        trial: prefixes::PrefixesTrial,
        /// Print one JSON object instead of a table.
        #[arg(long)]
        json: bool,
    },
    /// Measure time and memory by size: objects up to 64 GiB, and up to 10,000 writers open at once.
    Growth {
        #[command(flatten)]
        trial: growth::GrowthTrial,
        /// Print one JSON object with every single run, instead of a table.
        #[arg(long)]
        json: bool,
    },
    /// Kill processes that upload through a journal at random moments, let others resume, and count what is lost.
    Crash {
        #[command(flatten)]
        crash: CrashTrial,
        /// Print one JSON object instead of a table.
        #[arg(long)]
        json: bool,
    },
    /// Open many writers at once on one engine, and measure memory, time and correctness.
    Writers {
        #[command(flatten)]
        writers: OpenWriters,
        /// Print one JSON object instead of a table.
        #[arg(long)]
        json: bool,
    },
    /// Make the uploads of one run of `journal`.
    #[command(name = journal::UPLOADS, hide = true)]
    Uploads(Uploads),
    /// Write the objects of one run of writers of `growth`.
    #[command(name = WRITERS, hide = true)]
    GrowthWriters(Writers),
    /// Write one object of `crash`.
    #[command(name = WORKER, hide = true)]
    CrashWorker(Worker),
    /// Run a program and write its cost to a file.
    #[command(name = measure::MEASURED, hide = true)]
    Measured {
        report: PathBuf,
        #[arg(last = true, required = true)]
        command: Vec<OsString>,
    },
    /// Become a program that ends with its parent process.
    #[command(name = process::TIED, hide = true)]
    Tied {
        #[arg(last = true, required = true)]
        command: Vec<OsString>,
    },
}

fn main() -> ExitCode {
    let done = match BenchCommandLine::parse().command {
        BenchCommand::Performance { trial, json } => {
            tidegate().and_then(|path| print(&trial.hold(&path)?, json))
        }
        BenchCommand::Hedge { trial, json } => tidegate().and_then(|path| print(&trial.hold(&path)?, json)),
        BenchCommand::A { extent, json } => parts(Published::Async, extent, json),
        BenchCommand::B { trial, json } => {
            table(tidegate().and_then(|path| trial.hold(&path)), journal::JournalReport::broken, json)
        }
        BenchCommand::C { extent, json } => parts(Published::Threaded, extent, json),
        BenchCommand::All { trial } => all(&trial),
        BenchCommand::Prefixes { trial, json } => {
            table(tidegate().and_then(|path| trial.hold(&path)), prefixes::PrefixesReport::broken, json)
        }
        BenchCommand::Growth { trial, json } => {
            table(tidegate().and_then(|path| trial.hold(&path)), growth::GrowthReport::broken, json)
        }
        BenchCommand::Uploads(uploads) => uploads.run(),
        BenchCommand::Crash { crash: run, json } => crash(&run, json),
        BenchCommand::Writers { writers, json } => {
            writers.run(tidegate).and_then(|figures| judged(figures, json))
        }
        BenchCommand::GrowthWriters(writers) => writers.run(),
        BenchCommand::CrashWorker(worker) => worker.run(),
        BenchCommand::Measured { report, command } => measure::run_measured(&report, &command),
        BenchCommand::Tied { command } => process::become_tied(&command),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("tidegate-bench: {error}");
            error.downcast_ref().map_or(ExitCode::FAILURE, |InterruptedRun { exit_code }| (*exit_code).into())
        }
    }
}

fn crash(run: &CrashTrial, json: bool) -> Result<()> {
    let figures = run.run(tidegate)?;
    print(&figures, json)?;
    figures.verdict()
}

/// Prints the figures of writers. Writers that did not commit are an error.
fn judged(figures: WritersFigures, json: bool) -> Result<()> {
    print(&figures, json)?;
    figures.verdict()
}

fn parts(which: Published, extent: parts::PartsExtent, json: bool) -> Result<()> {
    table(parts::PartsTrial { table: which, extent }.hold(tidegate), parts::PartsReport::broken, json)
}

/// Prints a table; with `json`, as JSON with the claims that do not hold. A broken claim is an error.
fn table<R: Serialize + Display>(held: Result<R>, broken: fn(&R) -> Vec<String>, json: bool) -> Result<()> {
    let judged = Judged::of(held?, broken);
    print(&judged, json)?;
    judged.verdict()
}

fn all(trial: &published::PublishedTrial) -> Result<()> {
    let outcome = trial.hold(&tidegate()?)?;
    print!("{outcome}");
    outcome.verdict()
}

/// The `tidegate` program to measure: what `TIDEGATE_BIN` names, or the one that was built beside this program.
fn tidegate() -> Result<PathBuf> {
    let path = match std::env::var_os("TIDEGATE_BIN") {
        Some(path) => path.into(),
        None => std::env::current_exe()?.with_file_name("tidegate"),
    };
    if !path.is_file() {
        let path = path.display();
        return Err(format!("there is no program {path}: cargo build --release, or TIDEGATE_BIN").into());
    }
    Ok(path)
}

fn print(report: &(impl Serialize + Display), json: bool) -> Result<()> {
    if json {
        println!("{}", serde_json::to_string(report)?);
    } else {
        print!("{report}");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_sound() {
        BenchCommandLine::command().debug_assert();
        for subcommand in BenchCommandLine::command().get_subcommands() {
            let required = subcommand.get_arguments().any(|argument| argument.is_required_set());
            if !required {
                let parsed = BenchCommandLine::try_parse_from(["tidegate-bench", subcommand.get_name()]);
                assert!(parsed.is_ok(), "the defaults of {}: {parsed:?}", subcommand.get_name());
            }
        }
    }

    #[test]
    fn quick_is_instead_of_figures() {
        for words in [
            ["performance", "--runs", "5"],
            ["prefixes", "--list", "5"],
            ["prefixes", "--seconds", "5"],
            ["prefixes", "--warm-up", "5"],
            ["prefixes", "--most", "4"],
        ] {
            let words = ["tidegate-bench"].iter().chain(&words);
            assert!(BenchCommandLine::try_parse_from(words.clone()).is_ok());
            assert!(BenchCommandLine::try_parse_from(words.chain(&["--quick"])).is_err());
        }
    }

    /// In the form in which a report records the command.
    #[test]
    fn ways_are_named_in_a_list() {
        let cli =
            BenchCommandLine::try_parse_from(["tidegate-bench", "b", "--only", "chunked,spool"]).unwrap();
        let BenchCommand::B { trial, .. } = cli.command else { panic!("another command") };
        assert_eq!(trial.only, ["chunked", "spool"]);
    }

    #[test]
    fn scales_are_numbers_within_reason() {
        for scale in ["0", "-1", "4000", "nan"] {
            assert!(
                BenchCommandLine::try_parse_from(["tidegate-bench", "prefixes", "--scale", scale]).is_err(),
                "{scale}"
            );
        }
    }
}
