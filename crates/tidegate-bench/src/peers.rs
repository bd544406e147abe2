//! Runs all contests with other tools, one after the other, and writes the results to a folder.

use std::path::{Path, PathBuf};

use clap::{Args, value_parser};

use crate::Result;
use crate::published::folder;
use crate::size::{GIB, KIB, MIB};
use crate::transfer::{Common, ContestPlan, ENOUGH, LIMIT, Network, TransferNetwork};

/// A source: its name, its description, and the contest with the size divided by a number.
type Load = (&'static str, &'static str, fn(u64) -> ContestPlan);
const LOADS: [Load; 7] = [
    ("upload", "one large file", |by| ContestPlan::upload(GIB / by)),
    ("pipe", "bytes through a pipe", |by| ContestPlan::pipe(2 * GIB / by)),
    ("download", "one large object", |by| ContestPlan::download(GIB / by)),
    ("upload-1000", "a thousand files of 1 MiB", |by| ContestPlan::uploads(1000 / by, MIB)),
    ("download-1000", "a thousand objects of 1 MiB", |by| ContestPlan::downloads(1000 / by, MIB)),
    ("upload-10000", "many small files", |by| ContestPlan::uploads(10_000 / by, 4 * KIB)),
    ("download-10000", "many small objects", |by| ContestPlan::downloads(10_000 / by, 4 * KIB)),
];
/// The networks.
const WAYS: [(&str, &str, TransferNetwork); 3] = [
    ("", "", TransferNetwork::Plain),
    (
        "-shaped",
        ", through a slow network",
        TransferNetwork::Shaped(Network { latency_ms: 20, megabytes: 40 }),
    ),
    ("-tls", ", over TLS", TransferNetwork::Tls),
];

/// Default number of runs of each tool.
const RUNS: u32 = 3;

/// The suffix of the name of a contest in which each tool has its best settings.
const BEST: &str = "-best";

/// One contest.
#[derive(Debug)]
pub struct Named {
    /// The name of the contest and of its files.
    pub name: String,
    /// The contest in words.
    pub about: String,
    best: bool,
    way: TransferNetwork,
    load: fn(u64) -> ContestPlan,
}

impl Named {
    /// All contests, in order.
    pub fn all() -> impl Iterator<Item = Self> {
        [false, true].into_iter().flat_map(|best| {
            WAYS.into_iter().flat_map(move |way| LOADS.into_iter().map(move |load| Self::of(load, way, best)))
        })
    }

    fn of(load: Load, way: (&str, &str, TransferNetwork), best: bool) -> Self {
        let (suffix, settings) = if best { (BEST, ", each tool at its best settings") } else { ("", "") };
        Self {
            name: format!("{}{}{suffix}", load.0, way.0),
            about: format!("{}{}{settings}", load.1, way.1),
            best,
            way: way.2,
            load: load.2,
        }
    }

    fn transfer(&self, by: u64) -> ContestPlan {
        let transfer = (self.load)(by).by(self.way);
        if self.best { transfer.at_best() } else { transfer }
    }
}

/// How much of each contest to run, and the folder for the results.
#[derive(Clone, Debug, Args)]
pub struct PeersTrial {
    /// Run a small part of each contest once, after one warm-up run, only to check that everything works; the
    /// figures mean nothing.
    #[arg(long)]
    pub quick: bool,
    /// All of each contest, which is the default.
    #[arg(long, conflicts_with = "quick")]
    pub full: bool,
    /// Also run each tool with its best settings: the fastest of its defaults and of some part sizes and
    /// concurrencies, which are tried before.
    #[arg(long, conflicts_with = "only")]
    pub best: bool,
    /// Counted runs of each tool, after one warm-up run.
    #[arg(long, default_value_t = RUNS, value_parser = value_parser!(u32).range(1..=1000), conflicts_with = "quick")]
    pub runs: u32,
    /// Folder for the results: NAME.md and NAME.json of each contest.
    #[arg(long, value_name = "DIR", default_value = "bench-results", value_parser = folder)]
    pub to: PathBuf,
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
    /// Only these contests.
    #[arg(long, value_name = "NAME", value_delimiter = ',', value_parser = known)]
    pub only: Vec<String>,
}

impl PeersTrial {
    /// Runs the contests against the server of the program `tidegate`.
    ///
    /// # Errors
    /// The first error of a contest; the results of earlier contests are in the folder.
    pub fn hold(&self, tidegate: &Path) -> Result<()> {
        std::fs::create_dir_all(&self.to)?;
        let common = Common {
            runs: if self.quick { 1 } else { self.runs },
            scratch: self.scratch.clone(),
            limit: self.limit,
            enough: self.enough,
            json: false,
        };
        for contest in Named::all().filter(|contest| self.has(contest)) {
            let name = &contest.name;
            eprintln!("## {name}");
            let mut report = contest.transfer(if self.quick { 32 } else { 1 }).hold(&common, tidegate)?;
            report.command = (!self.quick).then(|| self.command(name));
            let said = report.to_string();
            println!("## {name}\n\n{said}");
            std::fs::write(self.to.join(format!("{name}.md")), said)?;
            std::fs::write(self.to.join(format!("{name}.json")), serde_json::to_vec(&report)?)?;
        }
        Ok(())
    }

    /// The command that repeats the contest `name`: every option that is not a default, except the folder for
    /// the results.
    fn command(&self, name: &str) -> String {
        let mut command = format!("tidegate-bench peers --only {name}");
        let numbers = [
            ("runs", u64::from(self.runs), u64::from(RUNS)),
            ("limit", self.limit, LIMIT),
            ("enough", self.enough, ENOUGH),
        ];
        for (option, value, default) in numbers {
            if value != default {
                command += &format!(" --{option} {value}");
            }
        }
        if let Some(scratch) = &self.scratch {
            let scratch = scratch.display().to_string();
            let quote = if scratch.contains(char::is_whitespace) { "'" } else { "" };
            command += &format!(" --scratch {quote}{scratch}{quote}");
        }
        command
    }

    fn has(&self, contest: &Named) -> bool {
        if self.only.is_empty() { self.best || !contest.best } else { self.only.contains(&contest.name) }
    }
}

fn known(name: &str) -> std::result::Result<String, String> {
    let names: Vec<_> = Named::all().map(|contest| contest.name).collect();
    if names.iter().any(|known| known == name) {
        return Ok(name.to_owned());
    }
    Err(format!("there is no such contest; there are {}", names.join(", ")))
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Cli {
        #[command(flatten)]
        trial: PeersTrial,
    }

    fn command<'a>(words: impl IntoIterator<Item = &'a str>) -> String {
        Cli::try_parse_from(words).unwrap().trial.command("pipe")
    }

    #[test]
    fn what_is_not_the_default_is_in_the_command() {
        let bare = "tidegate-bench peers --only pipe";
        assert_eq!(command(["peers"]), bare);
        assert_eq!(command("peers --full --to x --runs 3 --limit 300 --enough 20".split(' ')), bare);
        let all = "tidegate-bench peers --only pipe --runs 2 --limit 60 --enough 10 --scratch /x";
        assert_eq!(command(all.split(' ').skip(1)), all);
        let spaced = command(["peers", "--scratch", "/x y"]);
        assert_eq!(spaced, format!("{bare} --scratch '/x y'"));
        // The other options select contests, name the folder, or ask for no figures.
        let options = PeersTrial::augment_args(clap::Command::new("peers"));
        let names = options.get_arguments().filter_map(clap::Arg::get_long);
        for name in names.filter(|name| !["quick", "full", "best", "only", "to"].contains(name)) {
            assert!(all.contains(&format!(" --{name} ")), "{name}");
        }
    }

    #[test]
    fn contests_have_names_of_their_own() {
        let names: Vec<_> = Named::all().map(|contest| contest.name).collect();
        assert_eq!(names.len(), 42);
        assert!(names.iter().collect::<std::collections::BTreeSet<_>>().len() == names.len());
        for name in ["upload", "pipe-shaped", "download-10000-tls", "upload-1000-shaped-best"] {
            assert_eq!(known(name), Ok(name.to_owned()));
        }
        assert!(known("uploads").unwrap_err().contains("upload-1000-tls,"));
    }
}
