//! Defines a contest: what every tool moves, from where to where, through which network, and how often.

mod entered;
mod words;

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, value_parser};

use crate::Result;
use crate::contest::{Contest, Rounds};
use crate::embedded::Embedded;
use crate::machine::{self, Conditions};
use crate::measure;
use crate::report::{ContestLine, ContestReport};
use crate::scratch::Scratch;
use crate::size::{self, KIB, MIB};
use crate::tool::{OBJECT, Tool, TransferSource, Tuning, installed};
use crate::toxiproxy::{NetworkShape, Toxiproxy};
use entered::entered;

/// How often and where the tools run, and how the result is printed.
#[derive(Clone, Debug, Args)]
pub struct Common {
    /// Counted runs of each tool, after one warm-up run.
    #[arg(long, default_value_t = 5, value_parser = value_parser!(u32).range(1..=1000))]
    pub runs: u32,
    /// Folder for the tools' files; default: /dev/shm or the system's temporary folder, whichever has room.
    #[arg(long, value_name = "DIR")]
    pub scratch: Option<PathBuf>,
    /// Seconds that one run of one tool may take.
    #[arg(long, default_value_t = LIMIT, value_name = "SECONDS")]
    pub limit: u64,
    /// Seconds after which a tool has no more runs, counted over all its runs and the warm-up; at least one run
    /// counts.
    #[arg(long, default_value_t = ENOUGH, value_name = "SECONDS")]
    pub enough: u64,
    /// Print one JSON object with every single run, instead of a table.
    #[arg(long)]
    pub json: bool,
}

/// Default limit of one run, in seconds.
pub const LIMIT: u64 = 300;
/// Default of `enough`, in seconds.
pub const ENOUGH: u64 = 20;

/// A network that is slower than the machine.
#[derive(Clone, Copy, Debug, Args)]
pub struct Network {
    /// Latency in milliseconds, each way.
    #[arg(long, default_value_t = 20)]
    pub latency_ms: u64,
    /// MB (of 1000000 bytes) a second of one connection.
    #[arg(long, default_value_t = 40, value_parser = value_parser!(u64).range(1..=1_000_000))]
    pub megabytes: u64,
}

/// The download of one object into a file.
#[derive(Clone, Debug, Args)]
#[command(mut_arg("latency_ms", |arg| arg.requires("shaped")), mut_arg("megabytes", |arg| arg.requires("shaped")))]
pub struct Download {
    /// How often and where the tools run, and how the result is printed.
    #[command(flatten)]
    pub common: Common,
    /// Size of the object.
    #[arg(long, default_value = "1GiB", value_parser = size::parse)]
    pub size: u64,
    /// Download through a network with latency and a limit on each connection; only then do --latency-ms and
    /// --megabytes have an effect.
    #[arg(long)]
    pub shaped: bool,
    /// The network of --shaped.
    #[command(flatten)]
    pub network: Network,
    /// Run each tool once with an object of 64 MiB, only to check that everything works; the figures mean
    /// nothing.
    #[arg(long, conflicts_with_all = ["runs", "size"])]
    pub quick: bool,
}

/// The kind of source that every tool moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TransferLoad {
    File,
    Files(u64),
    Object,
    Objects(u64),
    Pipe,
}

/// The network between the tools and the server.
#[derive(Clone, Copy, Debug)]
pub enum TransferNetwork {
    /// Only the machine itself.
    Plain,
    /// A slower network.
    Shaped(Network),
    /// TLS, with a certificate that the benchmark makes.
    Tls,
}

/// One contest.
#[derive(Clone, Debug)]
pub struct ContestPlan {
    load: TransferLoad,
    /// Size of each file or object.
    size: u64,
    way: TransferNetwork,
    best: bool,
}

impl ContestPlan {
    /// Uploads a file.
    #[must_use]
    pub fn upload(size: u64) -> Self {
        Self::of(TransferLoad::File, size)
    }

    /// Uploads `count` files.
    #[must_use]
    pub fn uploads(files: u64, size: u64) -> Self {
        Self::of(TransferLoad::Files(files), size)
    }

    /// Downloads an object.
    #[must_use]
    pub fn download(size: u64) -> Self {
        Self::of(TransferLoad::Object, size)
    }

    /// Downloads `count` objects.
    #[must_use]
    pub fn downloads(objects: u64, size: u64) -> Self {
        Self::of(TransferLoad::Objects(objects), size)
    }

    /// Uploads a file that comes through a pipe.
    #[must_use]
    pub fn pipe(size: u64) -> Self {
        Self::of(TransferLoad::Pipe, size)
    }

    fn of(load: TransferLoad, size: u64) -> Self {
        Self { load, size, way: TransferNetwork::Plain, best: false }
    }

    /// The same contest over another network.
    #[must_use]
    pub fn by(self, way: TransferNetwork) -> Self {
        Self { way, ..self }
    }

    /// The same contest with each tool's best settings instead of its defaults.
    #[must_use]
    pub fn at_best(self) -> Self {
        Self { best: true, ..self }
    }

    /// Runs the contest: all installed tools, and the program `tidegate`.
    ///
    /// # Errors
    /// If there is no room, a server does not start, or a tool fails or leaves something out.
    pub fn hold(&self, common: &Common, tidegate: &Path) -> Result<ContestReport> {
        let scratch = Scratch::new(common.scratch.as_deref(), self.room())?;
        scratch.remove_when_interrupted()?;
        let source = self.source(&scratch)?;
        let folder = tempfile::tempdir()?;
        let nothing = measure::floor(folder.path())?;
        let before = machine::load();
        let limit = Duration::from_secs(common.limit);
        // Only objects that are read again must be kept.
        let storage = if source.is_download() { "memory" } else { "discard" };
        let server = match self.way {
            TransferNetwork::Tls => Embedded::storing_over_tls(tidegate, folder.path(), storage)?,
            TransferNetwork::Plain | TransferNetwork::Shaped(_) => {
                Embedded::storing(tidegate, folder.path(), storage)?
            }
        };
        let original = match &source {
            TransferSource::Object { original, .. } => Some(TransferSource::File(original.clone())),
            TransferSource::Objects { originals, .. } => Some(TransferSource::Directory(originals.clone())),
            TransferSource::File(_) | TransferSource::Directory(_) | TransferSource::Pipe(_) => None,
        };
        if let Some(original) = original {
            let program = Tool::Tidegate.program(tidegate, &original, server.endpoint(), OBJECT, None);
            measure::measure(&program, &folder.path().join("put.log"), limit)?;
        }
        let mut endpoint = server.endpoint().clone();
        let proxy = self.proxy(&server, folder.path())?;
        if let Some(proxy) = &proxy {
            endpoint = endpoint.at(proxy.url().to_owned());
        }
        let contest = Contest {
            source,
            objects: self.count(),
            bytes: self.count() * self.size,
            endpoint,
            server: &server,
            rounds: Rounds { runs: common.runs, enough: Duration::from_secs(common.enough) },
            floor: self.floor(),
            best: self.best,
            limit,
            folder: folder.path().to_owned(),
        };
        let (tools, left_out) = entered(&contest.source);
        let entrants = contest.hold(&tools)?;
        let missing = tools.iter().filter(|tool| entrants.iter().all(|entrant| entrant.tool != **tool));
        let report = ContestReport {
            title: self.title(),
            objects: contest.objects,
            bytes: contest.bytes,
            runs: common.runs,
            enough: common.enough,
            best: self.best,
            conditions: Conditions::since(before),
            source: self.told(&scratch),
            nothing,
            tools: entrants
                .iter()
                .filter_map(|entrant| ContestLine::of(entrant, &contest.source, self.best))
                .collect(),
            failed: entrants
                .iter()
                .filter_map(|entrant| Some((entrant.tool.name(), entrant.failed.clone()?)))
                .collect(),
            missing: missing.map(|tool| (tool.name(), tool.how_to_get())).collect(),
            left_out,
            command: None,
            losses: Vec::new(),
        };
        Ok(report.judged())
    }

    fn count(&self) -> u64 {
        if let TransferLoad::Files(count) | TransferLoad::Objects(count) = self.load { count } else { 1 }
    }

    /// The settings of the floor. A network that limits each connection would make eight connections the limit.
    fn floor(&self) -> Tuning {
        let at_once = if matches!(self.way, TransferNetwork::Shaped(_)) { 64 } else { 8 };
        Tuning { part_mib: 16, at_once }
    }

    /// Bytes of room needed. A file takes whole pages; a download also needs room for one tool's copy.
    fn room(&self) -> u64 {
        let copies = if matches!(self.load, TransferLoad::Object | TransferLoad::Objects(_)) { 2 } else { 1 };
        copies * self.count() * self.size.next_multiple_of(4 * KIB)
    }

    fn source(&self, scratch: &Scratch) -> Result<TransferSource> {
        Ok(match self.load {
            TransferLoad::File => TransferSource::File(scratch.file(self.size)?),
            TransferLoad::Pipe => TransferSource::Pipe(scratch.file(self.size)?),
            TransferLoad::Files(count) => TransferSource::Directory(scratch.files(count, self.size)?),
            TransferLoad::Object => {
                TransferSource::Object { original: scratch.file(self.size)?, into: scratch.folder("copies")? }
            }
            TransferLoad::Objects(count) => TransferSource::Objects {
                originals: scratch.files(count, self.size)?,
                into: scratch.folder("copies")?,
            },
        })
    }

    fn proxy(&self, server: &Embedded, folder: &Path) -> Result<Option<Toxiproxy>> {
        let TransferNetwork::Shaped(Network { latency_ms, megabytes }) = self.way else { return Ok(None) };
        let shape = NetworkShape { latency_ms, bandwidth: megabytes * 1_000_000 };
        let program = installed("toxiproxy-server").ok_or("there is no toxiproxy-server: scripts/install")?;
        Toxiproxy::start(&program, server.address(), shape, folder).map(Some)
    }
}

impl Download {
    /// Runs the contest.
    ///
    /// # Errors
    /// As [`ContestPlan::hold`].
    pub fn hold(&self, tidegate: &Path) -> Result<ContestReport> {
        let (mut common, mut size) = (self.common.clone(), self.size);
        if self.quick {
            (common.runs, size) = (1, 64 * MIB);
        }
        let way = if self.shaped { TransferNetwork::Shaped(self.network) } else { TransferNetwork::Plain };
        ContestPlan::download(size).by(way).hold(&common, tidegate)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_downloaded_needs_room_for_the_originals_and_a_copy() {
        assert_eq!(ContestPlan::download(4 * KIB + 1).room(), 16 * KIB);
        assert_eq!(ContestPlan::downloads(3, 1).room(), 24 * KIB);
        assert_eq!(ContestPlan::uploads(3, 1).room(), 12 * KIB);
    }
}
