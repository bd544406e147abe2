//! `tidegate-bench`: uploads by tidegate and by what people would use instead, measured side by side.

use std::ffi::OsString;
use std::fmt::Display;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};
use serde::Serialize;
use tidegate_bench::compaction;
use tidegate_bench::contest::Contest;
use tidegate_bench::embedded::Embedded;
use tidegate_bench::hedge;
use tidegate_bench::journal::{self, uploads::Uploads};
use tidegate_bench::machine::{self, Conditions};
use tidegate_bench::prefixes;
use tidegate_bench::report::{Line, Report};
use tidegate_bench::scratch::Scratch;
use tidegate_bench::size::{self, KIB};
use tidegate_bench::tables;
use tidegate_bench::tool::{Source, Tool, installed};
use tidegate_bench::toxiproxy::{Shape, Toxiproxy};
use tidegate_bench::{Result, measure, process};

/// Measure uploads by tidegate beside those by other tools, all in one run.
#[derive(Debug, Parser)]
#[command(version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// One large file to a server on this machine.
    Upload {
        #[command(flatten)]
        common: Common,
        /// Size of the file.
        #[arg(long, default_value = "1GiB", value_parser = size::parse)]
        size: u64,
    },
    /// One large file through a network with latency and a limit on each connection.
    Shaped {
        #[command(flatten)]
        common: Common,
        /// Size of the file.
        #[arg(long, default_value = "1GiB", value_parser = size::parse)]
        size: u64,
        /// Milliseconds that everything takes, each way.
        #[arg(long, default_value_t = 20)]
        latency_ms: u64,
        /// MB (of 1000000 bytes) a second that one connection moves.
        #[arg(long, default_value_t = 40, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
        megabytes: u64,
    },
    /// A directory of many small files to a server on this machine.
    Small {
        #[command(flatten)]
        common: Common,
        /// How many files.
        #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(1..=999_999))]
        files: u64,
        /// Size of each.
        #[arg(long, default_value = "4KiB", value_parser = size::parse)]
        size: u64,
    },
    /// One upload with some slow parts, each with and without hedging.
    Hedge {
        #[command(flatten)]
        trial: hedge::Trial,
        /// Print one JSON object, with every single run, and no table.
        #[arg(long)]
        json: bool,
    },
    /// Streams of unknown length: journaled, chunked, spooled, in parts; and by Google's client for Java.
    Journal {
        #[command(flatten)]
        trial: journal::Trial,
        /// Print one JSON object, with every single run, and no table.
        #[arg(long)]
        json: bool,
    },
    /// Sorted tables merged: read and written as streams, and whole in memory, with more and more inputs.
    Compaction {
        #[command(flatten)]
        trial: compaction::Trial,
        /// Print one JSON object, with every single run, and no table.
        #[arg(long)]
        json: bool,
    },
    /// Sorted tables built and uploaded to a shaped store: as streams, and whole in memory first.
    Tables {
        #[command(flatten)]
        trial: tables::Trial,
        /// Print one JSON object, with every single run, and no table.
        #[arg(long)]
        json: bool,
    },
    /// Requests over 1 to 128 prefixes, which the store limits each by itself.
    Prefixes {
        #[command(flatten)]
        trial: prefixes::Trial,
        /// Print one JSON object, and no table.
        #[arg(long)]
        json: bool,
    },
    /// Make the uploads of one run of `journal`.
    #[command(name = journal::UPLOADS, hide = true)]
    Uploads {
        #[command(flatten)]
        uploads: Uploads,
    },
    /// Run a program and write what it cost to a file.
    #[command(name = measure::MEASURED, hide = true)]
    Measured {
        report: PathBuf,
        #[arg(last = true, required = true)]
        command: Vec<OsString>,
    },
    /// Become a program that ends with the one that started this.
    #[command(name = process::TIED, hide = true)]
    Tied {
        #[arg(last = true, required = true)]
        command: Vec<OsString>,
    },
}

#[derive(Debug, Args)]
struct Common {
    /// Runs of each tool that count; one more comes before, to warm up.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    runs: u32,
    /// Folder for the source; default: /dev/shm, or the system's temporary one, whichever has room.
    #[arg(long, value_name = "DIR")]
    scratch: Option<PathBuf>,
    /// Seconds that one run of one tool may take.
    #[arg(long, default_value_t = 300, value_name = "SECONDS")]
    limit: u64,
    /// Print one JSON object, with every single run, and no table.
    #[arg(long)]
    json: bool,
}

const FILE_TOOLS: [Tool; 6] =
    [Tool::Tidegate, Tool::ObjectStore, Tool::TransferManager, Tool::S5cmd, Tool::Rclone, Tool::Floor];
const TREE_TOOLS: [Tool; 3] = [Tool::Tidegate, Tool::S5cmd, Tool::Rclone];

fn main() -> ExitCode {
    let done = match Cli::parse().command {
        Command::Upload { common, size } => {
            let title = format!("One file of {}, server on the same machine, unshaped", size::format(size));
            bench(&common, title, 1, size, &FILE_TOOLS, None)
        }
        Command::Shaped { common, size, latency_ms, megabytes } => {
            let title = format!(
                "One file of {} through toxiproxy: {latency_ms} ms each way, {megabytes} MB/s a connection",
                size::format(size)
            );
            let shape = Shape { latency_ms, bandwidth: megabytes * 1_000_000 };
            // A floor of eight connections would be that of eight connections, not of the network.
            bench(&common, title, 1, size, &FILE_TOOLS[..5], Some(shape))
        }
        Command::Small { common, files, size } => {
            let title =
                format!("{files} files of {}, server on the same machine, unshaped", size::format(size));
            bench(&common, title, files, size, &TREE_TOOLS, None)
        }
        Command::Hedge { trial, json } => tidegate().and_then(|path| print(&trial.hold(&path)?, json)),
        Command::Journal { trial, json } => tidegate().and_then(|path| print(&trial.hold(&path)?, json)),
        Command::Compaction { trial, json } => tidegate().and_then(|path| print(&trial.hold(&path)?, json)),
        Command::Tables { trial, json } => tidegate().and_then(|path| print(&trial.hold(&path)?, json)),
        Command::Prefixes { trial, json } => tidegate().and_then(|path| print(&trial.hold(&path)?, json)),
        Command::Uploads { uploads } => uploads.run(),
        Command::Measured { report, command } => measure::run_measured(&report, &command),
        Command::Tied { command } => process::become_tied(&command),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("tidegate-bench: {error}");
            ExitCode::FAILURE
        }
    }
}

fn bench(
    common: &Common,
    title: String,
    count: u64,
    size: u64,
    tools: &[Tool],
    shape: Option<Shape>,
) -> Result<()> {
    let tidegate = tidegate()?;
    // A file takes whole pages.
    let room = count * size.next_multiple_of(4 * KIB);
    let scratch = Scratch::new(common.scratch.as_deref(), room)?;
    scratch.remove_when_interrupted()?;
    let source = match tools.contains(&Tool::ObjectStore) {
        true => Source::File(scratch.file(size)?),
        false => Source::Directory(scratch.files(count, size)?),
    };
    let folder = tempfile::tempdir()?;
    let nothing = measure::floor(folder.path())?;
    let before = machine::load();
    let server = Embedded::start(&tidegate, folder.path())?;
    let mut endpoint = server.endpoint().clone();
    let _proxy = match shape {
        None => None,
        Some(shape) => {
            let program =
                installed("toxiproxy-server").ok_or("there is no toxiproxy-server: scripts/install")?;
            let proxy = Toxiproxy::start(&program, server.address(), shape, folder.path())?;
            endpoint = endpoint.at(proxy.url().to_owned());
            Some(proxy)
        }
    };
    let contest = Contest {
        source,
        objects: count,
        bytes: count * size,
        endpoint,
        server: &server,
        runs: common.runs,
        limit: Duration::from_secs(common.limit),
        folder: folder.path().to_owned(),
    };
    let entrants = contest.hold(tools)?;
    let missing = tools.iter().filter(|tool| entrants.iter().all(|entrant| entrant.tool != **tool));
    let report = Report {
        title,
        objects: count,
        bytes: contest.bytes,
        runs: common.runs,
        conditions: Conditions::since(before),
        scratch: scratch.place().display().to_string(),
        nothing,
        tools: entrants.iter().filter_map(|entrant| Line::of(entrant, &contest.source)).collect(),
        missing: missing.map(|tool| (tool.name(), tool.how_to_get())).collect(),
    };
    print(&report, common.json)
}

/// The program that is measured.
fn tidegate() -> Result<PathBuf> {
    Tool::Tidegate
        .find()
        .ok_or_else(|| "there is no program tidegate: cargo build --release, or TIDEGATE_BIN".into())
}

fn print(report: &(impl Serialize + Display), json: bool) -> Result<()> {
    if json {
        println!("{}", serde_json::to_string(report)?);
    } else {
        print!("{report}");
    }
    Ok(())
}
