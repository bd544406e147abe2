//! Measures the twelve transfers of `docs/PERFORMANCE.md`: whole commands of one or several builds of the program, in
//! turn, so that other load on the machine affects each build alike.

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, value_parser};
use serde::Serialize;
use tempfile::TempDir;

use crate::Result;
use crate::embedded::Embedded;
use crate::machine::{self, Conditions};
use crate::measure::{self, ProcessUsage};
use crate::process::{Program, installed};
use crate::scratch::{Scratch, first_difference};
use crate::size::{GIB, KIB, MIB};
use crate::stats::RunSpread;
use crate::table::MarkdownTable;
use crate::toxiproxy::{NetworkShape, Toxiproxy};

/// The network of the slow transfers.
const SLOW: NetworkShape = NetworkShape { latency_ms: 20, bandwidth: 40_000_000 };
/// How long one run may take.
const LIMIT: Duration = Duration::from_secs(300);
/// The key, or the prefix, of what is downloaded.
const SOURCE: &str = "source";

#[derive(Clone, Copy, PartialEq, Eq)]
enum TransferKind {
    Up,
    Down,
    Pipe,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Network {
    Plain,
    Slow,
    Tls,
}

#[derive(Clone, Copy)]
struct MeasuredTransfer {
    name: &'static str,
    kind: TransferKind,
    network: Network,
    objects: u64,
    /// Bytes of each object.
    size: u64,
}

impl MeasuredTransfer {
    const fn of(name: &'static str, kind: TransferKind, network: Network, objects: u64, size: u64) -> Self {
        Self { name, kind, network, objects, size }
    }

    /// A thirty-second of the transfer.
    fn small(self) -> Self {
        if self.objects == 1 {
            Self { size: self.size / 32, ..self }
        } else {
            Self { objects: self.objects / 32, ..self }
        }
    }
}

const TRANSFERS: [MeasuredTransfer; 12] = [
    MeasuredTransfer::of("upload", TransferKind::Up, Network::Plain, 1, GIB),
    MeasuredTransfer::of("upload-slow", TransferKind::Up, Network::Slow, 1, GIB),
    MeasuredTransfer::of("upload-tls", TransferKind::Up, Network::Tls, 1, GIB),
    MeasuredTransfer::of("download", TransferKind::Down, Network::Plain, 1, GIB),
    MeasuredTransfer::of("download-slow", TransferKind::Down, Network::Slow, 1, GIB),
    MeasuredTransfer::of("download-tls", TransferKind::Down, Network::Tls, 1, GIB),
    MeasuredTransfer::of("pipe", TransferKind::Pipe, Network::Plain, 1, 2 * GIB),
    MeasuredTransfer::of("pipe-slow", TransferKind::Pipe, Network::Slow, 1, 2 * GIB),
    MeasuredTransfer::of("upload-1000", TransferKind::Up, Network::Plain, 1000, MIB),
    MeasuredTransfer::of("download-1000-slow", TransferKind::Down, Network::Slow, 1000, MIB),
    MeasuredTransfer::of("upload-10000", TransferKind::Up, Network::Plain, 10_000, 4 * KIB),
    MeasuredTransfer::of("download-10000", TransferKind::Down, Network::Plain, 10_000, 4 * KIB),
];

/// Which transfers to measure, and with which programs.
#[derive(Clone, Debug, Args)]
pub struct PerformanceTrial {
    /// Only these transfers.
    #[arg(long, value_delimiter = ',', value_name = "NAME", value_parser = TRANSFERS.map(|transfer| transfer.name))]
    only: Vec<String>,
    /// Measure this build of tidegate; repeat it to compare builds with the first. Default: `target/release/tidegate`,
    /// or what `TIDEGATE_BIN` names.
    #[arg(long, value_name = "FILE")]
    program: Vec<PathBuf>,
    /// Counted runs of each program, after one to warm up.
    #[arg(long, default_value_t = 3, value_parser = value_parser!(u32).range(1..=1000), conflicts_with = "quick")]
    runs: u32,
    /// A small part of each transfer, once, only to check that everything works.
    #[arg(long)]
    quick: bool,
    /// Folder for the files; default: /dev/shm or the system's temporary folder, whichever has room.
    #[arg(long, value_name = "DIR")]
    scratch: Option<PathBuf>,
}

/// All runs of one program in one transfer.
#[derive(Clone, Debug, Serialize)]
struct Line {
    transfer: &'static str,
    program: PathBuf,
    objects: u64,
    bytes: u64,
    /// Of the last run, as the server counted them.
    requests: u64,
    runs: Vec<ProcessUsage>,
}

/// The result of a trial; displays as Markdown.
#[derive(Clone, Debug, Serialize)]
pub struct PerformanceReport {
    lines: Vec<Line>,
    #[serde(flatten)]
    conditions: Conditions,
}

impl PerformanceTrial {
    /// Measures the transfers of each of these programs. Without any, measures those of `tidegate`.
    ///
    /// # Errors
    /// If there is no room, a server does not start, or a transfer fails, takes too long, or leaves something out.
    pub fn hold(&self, tidegate: &Path) -> Result<PerformanceReport> {
        let tidegate_alone = [tidegate.to_owned()];
        let programs = if self.program.is_empty() { &tidegate_alone[..] } else { &self.program[..] };
        let before = machine::load();
        let mut lines = Vec::new();
        let is_wanted =
            |one: &MeasuredTransfer| self.only.is_empty() || self.only.iter().any(|name| name == one.name);
        for transfer in TRANSFERS.into_iter().filter(is_wanted) {
            lines.extend(self.measure(transfer, programs, tidegate)?);
        }
        Ok(PerformanceReport { lines, conditions: Conditions::since(before) })
    }

    /// The runs of all programs, in turn.
    fn measure(
        &self,
        transfer: MeasuredTransfer,
        programs: &[PathBuf],
        tidegate: &Path,
    ) -> Result<Vec<Line>> {
        let (transfer, runs) = if self.quick { (transfer.small(), 1) } else { (transfer, self.runs) };
        let course = Course::prepare(transfer, self, tidegate)?;
        let line = |program: &PathBuf| Line {
            transfer: transfer.name,
            program: program.clone(),
            objects: transfer.objects,
            bytes: transfer.objects * transfer.size,
            requests: 0,
            runs: vec![],
        };
        let mut lines: Vec<_> = programs.iter().map(line).collect();
        for round in 0..=runs {
            for line in &mut lines {
                let (usage, requests) = course.run(&line.program)?;
                eprintln!("{}, {}: {:.3} s", transfer.name, line.program.display(), usage.wall);
                if round > 0 {
                    line.runs.push(usage);
                    line.requests = requests;
                }
            }
        }
        Ok(lines)
    }
}

/// One transfer with its server, its network and its files.
struct Course {
    transfer: MeasuredTransfer,
    server: Embedded,
    proxy: Option<Toxiproxy>,
    scratch: Scratch,
    /// The file, or the directory of files, that is uploaded, or was uploaded before.
    source: PathBuf,
    logs: TempDir,
}

impl Course {
    fn prepare(transfer: MeasuredTransfer, trial: &PerformanceTrial, tidegate: &Path) -> Result<Self> {
        let MeasuredTransfer { kind, network, objects, size, .. } = transfer;
        // Room for the source and a copy; a file takes whole pages.
        let room = 2 * objects * size.next_multiple_of(4 * KIB);
        let scratch = Scratch::new(trial.scratch.as_deref(), room)?;
        scratch.remove_when_interrupted()?;
        let logs = tempfile::tempdir()?;
        // Only objects that are read again must be kept.
        let storage = if kind == TransferKind::Down { "memory" } else { "discard" };
        let start = if network == Network::Tls { Embedded::storing_over_tls } else { Embedded::storing };
        let server = start(tidegate, logs.path(), storage)?;
        let mut proxy = None;
        if network == Network::Slow {
            let program =
                installed("toxiproxy-server").ok_or("there is no toxiproxy-server: scripts/install")?;
            proxy = Some(Toxiproxy::start(&program, server.address(), SLOW, logs.path())?);
        }
        let source = if objects == 1 { scratch.file(size)? } else { scratch.files(objects, size)? };
        let course = Self { transfer, server, proxy, scratch, source, logs };
        if kind == TransferKind::Down {
            let put =
                course.copy(tidegate).arg(course.place(course.source.display())).arg(course.object(SOURCE));
            measure::measure(&put, &course.logs.path().join("put.log"), LIMIT)?;
        }
        Ok(course)
    }

    /// `tidegate cp`, with the address that the transfer goes to.
    fn copy(&self, program: &Path) -> Program {
        let endpoint = self.server.endpoint();
        let url = self.proxy.as_ref().map_or(&*endpoint.url, Toxiproxy::url);
        let endpoint = endpoint.at(url.to_owned());
        let program = Program::new(program).arg("cp").variables(endpoint.variables());
        if self.transfer.objects > 1 { program.arg("-r") } else { program }
    }

    /// A path or URL, with the slash of a directory or prefix where there are many objects.
    fn place(&self, name: impl fmt::Display) -> String {
        format!("{name}{}", if self.transfer.objects > 1 { "/" } else { "" })
    }

    fn object(&self, key: impl fmt::Display) -> String {
        self.place(format!("s3://{}/{key}", self.server.endpoint().bucket))
    }

    /// Makes the transfer once; its cost, and the server's number of requests.
    fn run(&self, program: &Path) -> Result<(ProcessUsage, u64)> {
        let target = self.scratch.path().join("copy");
        let copy = self.copy(program);
        // Each upload has a key of its own: a copy skips what is there already.
        let new = self.object(fastrand::u64(..));
        let copy = match self.transfer.kind {
            TransferKind::Down => copy.arg(self.object(SOURCE)).arg(self.place(target.display())),
            TransferKind::Up => copy.arg(self.place(self.source.display())).arg(new),
            TransferKind::Pipe => Program { stdin: Some(self.source.clone()), ..copy.arg("-").arg(new) },
        };
        self.server.forget()?;
        let usage = measure::measure(&copy, &self.logs.path().join("run.log"), LIMIT)?;
        let counts = self.server.counts()?;
        // Bytes alone are not enough: they may belong to a session that was never completed.
        let (sent, stored) = (counts.bytes_in, counts.checksums.values().sum::<u64>());
        if self.transfer.kind == TransferKind::Down {
            self.compare(&target)?;
        } else if sent < self.transfer.objects * self.transfer.size || stored < self.transfer.objects {
            return Err(format!("{}: {sent} bytes and {stored} objects arrived", self.transfer.name).into());
        }
        Ok((usage, counts.total()))
    }

    /// Checks that the copy has the source's files and bytes and nothing else, and removes it.
    fn compare(&self, copy: &Path) -> Result<()> {
        if self.transfer.objects == 1 {
            return same(&self.source, copy);
        }
        for original in std::fs::read_dir(&self.source)? {
            let original = original?;
            same(&original.path(), &copy.join(original.file_name()))?;
        }
        // Fails if anything else is left.
        Ok(std::fs::remove_dir(copy)?)
    }
}

/// Removes the copy if it has the original's bytes; else that is an error.
fn same(original: &Path, copy: &Path) -> Result<()> {
    match first_difference(original, copy)? {
        Some(at) => Err(format!("{}: other bytes than the source from byte {at} on", copy.display()).into()),
        None => Ok(std::fs::remove_file(copy)?),
    }
}

impl fmt::Display for PerformanceReport {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let columns = "transfer,program,wall s,× first,CPU s/GiB,× first,peak MiB,× first,requests";
        let mut table = MarkdownTable::new(columns.split(','));
        for line in &self.lines {
            let first = self.lines.iter().find(|first| first.transfer == line.transfer).unwrap_or(line);
            let figure = |value: fn(&ProcessUsage) -> f64, per: f64| {
                let spread = |line: &Line| RunSpread::of(line.runs.iter().map(value));
                let (Some(spread), Some(first)) = (spread(line), spread(first)) else {
                    return <[String; 2]>::default();
                };
                let RunSpread { median, min, max } = spread.per(per);
                [format!("{median:.2} ({min:.2}–{max:.2})"), format!("{:.2}", spread.times(&first))]
            };
            let gib = if line.objects == 1 { line.bytes as f64 / GIB as f64 } else { 1.0 };
            let figures = [
                figure(|usage| usage.wall, 1.0),
                figure(ProcessUsage::cpu, gib),
                figure(|usage| usage.peak_kib as f64, 1024.0),
            ];
            let names = [line.transfer.to_owned(), line.program.display().to_string()];
            table.row(
                names.into_iter().chain(figures.into_iter().flatten()).chain([line.requests.to_string()]),
            );
        }
        writeln!(out, "{table}\nMedian (least–most). CPU of a tree: for all objects.\n")?;
        writeln!(out, "{}", self.conditions)
    }
}
