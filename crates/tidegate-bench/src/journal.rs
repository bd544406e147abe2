//! Re-runs table B, the published table of journaling in Google's Java client.
//!
//! The published figures for chunks of 16 and of 64 MiB imply a stream of about 128 MiB/s, 54 ms for each
//! chunk's commit, and a producer of about 800 MiB/s that waits while a chunk is sent. The embedded server is
//! made to behave like that. If this machine can't carry all streams, one factor lowers all rates and lengthens
//! all times.
//!
//! Each run is a process of its own ([`uploads`]), so that the kernel reports its peak memory.

use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, value_parser};
use serde::Serialize;
use serde_json::{Value, json};

use crate::Result;
use crate::embedded::Embedded;
use crate::machine::{self, Conditions};
use crate::measure;
use crate::scratch::{Scratch, free};
use crate::size::{self, MIB};
use disk::DiskWatch;
use uploads::{JournalDestination, JournalLoad, UploadTimes};
use way::JournalWay;

mod disk;
mod report;
pub mod uploads;
mod way;

pub use report::{JournalLine, JournalReport, JournalRun};
pub use way::UPLOADS;

/// The number of the warm-up run, which does not count: afterwards files, programs and the server are in
/// memory.
const WARM_UP: u32 = 0;

/// Objects of the warm-up run have one part in this many of the size.
const WARM_UP_PART: u64 = 8;

/// By default, each way uploads at least this many objects for each number of streams.
const OBJECTS: u32 = 4;

/// The objects to upload, and the kind of store.
#[derive(Clone, Debug, Serialize, Args)]
pub struct JournalTrial {
    /// Objects uploaded at once, each with its own producer; one table line for each number.
    #[arg(long, value_delimiter = ',', default_value = "1,2,4,8,16,32", value_parser = value_parser!(u32).range(1..=1000))]
    pub streams: Vec<u32>,
    /// Smallest size of an object.
    #[arg(long, default_value = "1GiB", value_parser = size::parse)]
    pub size: u64,
    /// Largest size of an object; sizes are random, and the same for all ways.
    #[arg(long, default_value = "2GiB", value_parser = size::parse)]
    pub largest: u64,
    /// No limits but those of this machine and the producers; --stream-mib and --commit-ms have no effect then.
    #[arg(long, conflicts_with = "to")]
    pub unshaped: bool,
    /// Use a real store, such as s3://BUCKET/PREFIX, with our own ways only. The objects stay there: one for
    /// each stream of each number of streams, and one from the warm-up.
    #[arg(long, value_name = "URL")]
    pub to: Option<String>,
    /// MiB a second of one stream.
    #[arg(long, default_value_t = 128, value_parser = value_parser!(u64).range(1..=1_000_000))]
    pub stream_mib: u64,
    /// Milliseconds of one commit.
    #[arg(long, default_value_t = 54)]
    pub commit_ms: u32,
    /// MiB a second of one producer.
    #[arg(long, default_value_t = 800, value_parser = value_parser!(u64).range(1..=1_000_000))]
    pub producer_mib: u64,
    /// MiB a second that this machine can carry over all streams together; with more streams, all rates go down
    /// and all times go up.
    #[arg(long, default_value_t = 256, value_parser = value_parser!(u64).range(1..=1_000_000))]
    pub most_mib: u64,
    /// Counted runs of each way; default: enough for 4 objects, which is 4 runs of 1 stream, 2 of 2, and 1 of 4
    /// or more.
    #[arg(long, value_parser = value_parser!(u32).range(1..=100))]
    pub runs: Option<u32>,
    /// One run of 1 and 4 streams of 128 to 256 MiB, in the published ways, without warm-up: checks that
    /// everything works, and the order of the ways.
    #[arg(long, conflicts_with_all = ["streams", "size", "largest", "runs"])]
    pub quick: bool,
    /// All rows, which is the default and takes two hours.
    #[arg(long, conflicts_with = "quick")]
    #[serde(skip)]
    pub full: bool,
    /// Only ways whose name begins with one of these words, such as chunked,spool.
    #[arg(long, value_delimiter = ',', value_name = "WORD")]
    pub only: Vec<String>,
    /// Folder for journals and spools; default: the system's temporary folder.
    #[arg(long, value_name = "DIR")]
    pub scratch: Option<PathBuf>,
    /// Seconds that one run may take.
    #[arg(long, default_value_t = 1200, value_name = "SECONDS")]
    pub limit: u64,
}

impl JournalTrial {
    /// Runs the trial against the server of the program `tidegate`: all ways in turn for each number of
    /// streams.
    ///
    /// # Errors
    /// If a way is not known, the disk has no room, the server does not start, or an upload fails or takes
    /// longer than the limit.
    pub fn hold(&self, tidegate: &Path) -> Result<JournalReport> {
        if self.largest < self.size {
            return Err("--largest is less than --size".into());
        }
        let is_unknown = |word: &&String| !JournalWay::ALL.iter().any(|way| way.begins_with(word));
        if let Some(word) = self.only.iter().find(is_unknown) {
            let names = JournalWay::ALL.map(JournalWay::name).join("; ");
            return Err(format!("--only {word}: there is no way whose name begins so, but {names}").into());
        }
        let mut trial = self.clone();
        if trial.quick {
            (trial.streams, trial.size, trial.largest, trial.runs) =
                (vec![1, 4], 128 * MIB, 256 * MIB, Some(1));
        }
        trial.hold_all(tidegate)
    }

    fn hold_all(&self, tidegate: &Path) -> Result<JournalReport> {
        let ways = self.ways();
        let place = self.scratch.clone().unwrap_or_else(std::env::temp_dir);
        self.check_room(&ways, &place)?;
        let scratch = Scratch::new(Some(&place), 0)?;
        scratch.remove_when_interrupted()?;
        let folder = tempfile::tempdir()?;
        let server = match self.to {
            Some(_) => None,
            None => Some(Embedded::start(tidegate, folder.path())?),
        };
        let before = machine::load();
        let program = std::env::current_exe()?;
        let mut lines = Vec::new();
        for &streams in &self.streams {
            let scale = self.scale(streams);
            if let (Some(server), true) = (&server, self.is_shaped()) {
                server.behave(&self.shape(scale))?;
            }
            let place = self.place(server.as_ref(), streams);
            let mut runs: Vec<_> = ways.iter().map(|way| (*way, Vec::new())).collect();
            for number in self.numbers(streams) {
                for (way, runs) in &mut runs {
                    let name = format!("{}, {streams} at once, run {number}", way.name());
                    let sizes = self.sizes(streams, number);
                    let run = self.run(*way, &program, &place, scratch.path(), (sizes, scale))?;
                    let longest = run.seconds.iter().copied().fold(0.0, f64::max);
                    eprintln!("{name}: {longest:.2} s");
                    if number != WARM_UP {
                        runs.push(run);
                    }
                }
            }
            lines.extend(
                runs.into_iter().filter_map(|(way, runs)| JournalLine::of(way, streams, scale, runs)),
            );
        }
        Ok(JournalReport { trial: self.clone(), conditions: Conditions::since(before), lines })
    }

    /// The ways that the options select.
    fn ways(&self) -> Vec<JournalWay> {
        let is_wanted = |way: &JournalWay| {
            (self.only.is_empty() || self.only.iter().any(|word| way.begins_with(word)))
                && (!self.quick || way.published(1).is_some())
                && self.to.as_deref().is_none_or(|url| way.goes_to(url))
        };
        JournalWay::ALL.into_iter().filter(is_wanted).collect()
    }

    /// The run numbers of each way with this number of streams.
    fn numbers(&self, streams: u32) -> RangeInclusive<u32> {
        let first = if self.quick { 1 } else { WARM_UP };
        first..=self.runs.unwrap_or(OBJECTS.div_ceil(streams))
    }

    /// The most bytes that one of these ways has on the disk at a time, and the number of streams with which it
    /// does.
    fn on_disk(&self, ways: &[JournalWay]) -> (u64, u32) {
        let ahead = 1.0 - self.stream_mib as f64 / self.producer_mib as f64;
        let ahead = if self.is_shaped() { ahead.max(0.0) } else { 1.0 };
        let share = ways.iter().map(|way| way.share_on_disk(ahead)).fold(0.0, f64::max);
        let bytes = |streams, number| self.sizes(streams, number).iter().sum::<u64>();
        let most = |streams: u32| self.numbers(streams).map(|number| bytes(streams, number)).max();
        let all = self.streams.iter().filter_map(|&streams| Some((most(streams)?, streams)));
        let (bytes, streams) = all.max().unwrap_or_default();
        ((bytes as f64 * share) as u64, streams)
    }

    /// Fails if the ways need more room than the disk has.
    fn check_room(&self, ways: &[JournalWay], place: &Path) -> Result<()> {
        let ((needed, streams), free) = (self.on_disk(ways), free(place)?);
        if needed > free {
            let (needed, free, place) = (needed.div_ceil(MIB), free / MIB, place.display());
            return Err(format!(
                "{streams} streams have up to {needed} MiB in journals or spools, and {place} has {free} MiB free: \
                 another --scratch, or less by --streams, --largest or --only"
            )
            .into());
        }
        Ok(())
    }

    /// Whether the store is made to behave as the published figures imply.
    fn is_shaped(&self) -> bool {
        !self.unshaped && self.to.is_none()
    }

    fn scale(&self, streams: u32) -> f64 {
        let wanted = (u64::from(streams) * self.stream_mib) as f64;
        if self.is_shaped() { (wanted / self.most_mib as f64).max(1.0) } else { 1.0 }
    }

    /// The server's behaviour.
    fn shape(&self, scale: f64) -> Value {
        json!({
            "bandwidth": {"stream_in": ((self.stream_mib * MIB) as f64 / scale) as u64},
            "commit_latency": {"fixed_ms": f64::from(self.commit_ms) * scale},
        })
    }

    /// A producer's rate in bytes a second.
    fn produce(&self, scale: f64) -> u64 {
        ((self.producer_mib * MIB) as f64 / scale) as u64
    }

    fn place(&self, server: Option<&Embedded>, streams: u32) -> JournalDestination {
        let prefix = format!("{streams}-");
        match server.map(Embedded::endpoint) {
            Some(endpoint) => JournalDestination {
                store: format!("gs://{}/", endpoint.bucket),
                url: endpoint.url.clone(),
                bucket: endpoint.bucket.to_owned(),
                prefix,
            },
            None => {
                let store = self.to.as_deref().unwrap_or_default().trim_end_matches('/');
                JournalDestination {
                    store: format!("{store}/"),
                    url: String::new(),
                    bucket: String::new(),
                    prefix,
                }
            }
        }
    }

    /// The sizes of the objects of one run.
    fn sizes(&self, streams: u32, number: u32) -> Vec<u64> {
        let mut random = fastrand::Rng::with_seed(u64::from(streams) << 32 | u64::from(number));
        let part = if number == WARM_UP { WARM_UP_PART } else { 1 };
        (0..streams).map(|_| random.u64(self.size..=self.largest).div_ceil(part)).collect()
    }

    fn run(
        &self,
        way: JournalWay,
        program: &Path,
        place: &JournalDestination,
        folder: &Path,
        (sizes, scale): (Vec<u64>, f64),
    ) -> Result<JournalRun> {
        let (scratch, logs) = (tempfile::tempdir_in(folder)?, tempfile::tempdir()?);
        let load = JournalLoad { place: place.clone(), sizes, produce: self.produce(scale) };
        let program = way.program(program, &load, scratch.path());
        let (log, disk) = (logs.path().join("uploads.log"), DiskWatch::new(scratch.path()));
        let usage = measure::measure(&program, &log, Duration::from_secs(self.limit))?;
        Ok(JournalRun {
            seconds: seconds(&log, load.sizes.len())?,
            sizes: load.sizes,
            usage,
            disk: disk.most(),
        })
    }
}

/// Reads the seconds that a process printed at its end.
fn seconds(log: &Path, streams: usize) -> Result<Vec<f64>> {
    let said = std::fs::read_to_string(log)?;
    let done = said.lines().rev().find_map(|line| serde_json::from_str::<UploadTimes>(line).ok());
    let seconds = done.ok_or_else(|| format!("no figures were said, but: {said}"))?.seconds;
    if seconds.len() != streams {
        return Err(format!("figures of {} objects, not {streams}", seconds.len()).into());
    }
    Ok(seconds)
}

#[cfg(test)]
mod tests;
