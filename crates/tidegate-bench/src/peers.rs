//! What people would use instead: all contests, one after the other, into a folder.

use std::path::{Path, PathBuf};

use clap::{Args, value_parser};

use crate::Result;
use crate::size::{GIB, KIB, MIB};
use crate::transfer::{Common, Network, Transfer};

/// How much, and where to.
#[derive(Clone, Debug, Args)]
pub struct Trial {
    /// Of each contest a small part, once, after once to warm up: whether it works, and no figures.
    #[arg(long)]
    pub quick: bool,
    /// All of it, which is the default.
    #[arg(long, conflicts_with = "quick")]
    pub full: bool,
    /// Runs of each tool that count; one more comes before, to warm up.
    #[arg(long, default_value_t = 3, value_parser = value_parser!(u32).range(1..=1000), conflicts_with = "quick")]
    pub runs: u32,
    /// Folder for what is measured: NAME.md and NAME.json of each contest.
    #[arg(long, value_name = "DIR", default_value = "bench-results")]
    pub to: PathBuf,
    /// Folder for the tools' files; default: /dev/shm, or the system's temporary one, whichever has room.
    #[arg(long, value_name = "DIR")]
    pub scratch: Option<PathBuf>,
    /// Seconds that one run of one tool may take.
    #[arg(long, default_value_t = 300, value_name = "SECONDS")]
    pub limit: u64,
    /// Only contests whose name has this in it.
    #[arg(long)]
    pub only: Option<String>,
}

impl Trial {
    /// Holds them against the server of the program `tidegate`.
    ///
    /// # Errors
    /// The first of a contest; those before it are in the folder.
    pub fn hold(&self, tidegate: &Path) -> Result<()> {
        std::fs::create_dir_all(&self.to)?;
        let (scratch, limit) = (self.scratch.clone(), self.limit);
        let common = Common { runs: if self.quick { 1 } else { self.runs }, scratch, limit, json: false };
        for (name, transfer) in self.contests() {
            eprintln!("## {name}");
            let report = transfer.hold(&common, tidegate)?;
            let said = report.to_string();
            println!("## {name}\n\n{said}");
            std::fs::write(self.to.join(format!("{name}.md")), said)?;
            std::fs::write(self.to.join(format!("{name}.json")), serde_json::to_vec(&report)?)?;
        }
        Ok(())
    }

    fn contests(&self) -> Vec<(&'static str, Transfer)> {
        let by = if self.quick { 32 } else { 1 };
        let network = Some(Network { latency_ms: 20, megabytes: 40 });
        let all = [
            ("upload", Transfer::upload(GIB / by, None)),
            ("shaped", Transfer::upload(GIB / by, network)),
            ("pipe", Transfer::pipe(2 * GIB / by, None)),
            ("pipe-shaped", Transfer::pipe(2 * GIB / by, network)),
            ("download", Transfer::download(GIB / by, None)),
            ("download-shaped", Transfer::download(GIB / by, network)),
            ("middling", Transfer::small(1000 / by, MIB)),
            ("small", Transfer::small(10_000 / by, 4 * KIB)),
        ];
        let is_wanted = |name: &str| self.only.as_ref().is_none_or(|only| name.contains(only));
        all.into_iter().filter(|(name, _)| is_wanted(name)).collect()
    }
}
