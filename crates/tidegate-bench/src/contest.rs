//! Runs all tools of a contest in turn, several times.

mod best;
mod check;
mod rounds;

use std::path::PathBuf;
use std::time::Duration;

use serde::Serialize;

use crate::embedded::{Embedded, ServerCounts, StoreEndpoint};
use crate::measure::{self, ProcessUsage};
use crate::tool::{OBJECT, Tool, TransferSource, Tuning};
use crate::{Error, Result};

pub use best::AGAIN;
use check::{check_copy, check_empty, check_stored, remove_copies};
pub use rounds::Rounds;

/// A contest.
#[derive(Debug)]
pub struct Contest<'a> {
    /// The source that every tool moves.
    pub source: TransferSource,
    /// How many objects a run makes or reads.
    pub objects: u64,
    /// How many bytes a run moves.
    pub bytes: u64,
    /// The store to upload to or download from.
    pub endpoint: StoreEndpoint,
    /// The server behind the store, for its counts.
    pub server: &'a Embedded,
    /// How often each tool runs.
    pub rounds: Rounds,
    /// The number of connections of the floor, and the size of its parts.
    pub floor: Tuning,
    /// Whether each tool has its best settings instead of its defaults.
    pub best: bool,
    /// How long one run may take.
    pub limit: Duration,
    /// The folder for logs during the contest.
    pub folder: PathBuf,
}

/// One run of one tool.
#[derive(Clone, Debug, Serialize)]
pub struct ContestRun {
    /// The cost of the process.
    pub usage: ProcessUsage,
    /// The server's counts.
    pub counts: ServerCounts,
    /// CPU seconds of the server during the run.
    pub server_cpu: f64,
}

/// One tool and its runs.
#[derive(Clone, Debug)]
pub struct Entrant {
    /// The tool.
    pub tool: Tool,
    /// The tool's program.
    pub path: PathBuf,
    /// The tool's settings; `None` for the defaults.
    pub tuning: Option<Tuning>,
    /// The counted runs.
    pub runs: Vec<ContestRun>,
    /// The error after which the tool ran no more.
    pub failed: Option<String>,
}

impl Entrant {
    /// A peer that fails runs no more; a failure of tidegate ends the contest.
    fn fail(&mut self, error: Error) -> Result<()> {
        if self.tool == Tool::Tidegate {
            return Err(error);
        }
        eprintln!("{}: {error}", self.tool.name());
        self.failed = Some(error.to_string());
        Ok(())
    }
}

impl Contest<'_> {
    /// Runs all installed tools, interleaved as [`Rounds`] defines.
    pub fn hold(&self, tools: &[Tool]) -> Result<Vec<Entrant>> {
        let installed = tools.iter().filter_map(|tool| Some((*tool, tool.find()?)));
        let of = |(tool, path)| {
            let tuning = (tool == Tool::Floor).then_some(self.floor);
            Entrant { tool, path, tuning, runs: Vec::new(), failed: None }
        };
        let mut entrants: Vec<_> = installed.map(of).collect();
        if self.best {
            for entrant in &mut entrants {
                match self.best_of(entrant) {
                    Ok(best) => entrant.tuning = best,
                    Err(error) => entrant.fail(error)?,
                }
            }
        }
        // A tool whose settings were tried has warmed up.
        let is_warm = |tool: Tool| self.best && !tool.tried(&self.source).is_empty();
        self.rounds.hold(&mut entrants, is_warm, |entrant, what| self.run(entrant, entrant.tuning, what))?;
        Ok(entrants)
    }

    /// Removes the files of a tool that did not finish, so that the next tool does not find them.
    fn clear(&self) -> Result<()> {
        if let TransferSource::Object { into, .. } | TransferSource::Objects { into, .. } = &self.source {
            std::fs::remove_dir_all(into)?;
            std::fs::create_dir(into)?;
        }
        Ok(())
    }

    fn run(&self, entrant: &Entrant, tuning: Option<Tuning>, what: &str) -> Result<ContestRun> {
        let late = || format!("{} was not done after {} s", entrant.tool.name(), self.limit.as_secs()).into();
        self.run_within(entrant, tuning, what, self.limit)?.ok_or_else(late)
    }

    /// One run; `None` if the tool did not finish within `limit` and was stopped. A run that did not finish
    /// leaves no files.
    fn run_within(
        &self,
        entrant: &Entrant,
        tuning: Option<Tuning>,
        what: &str,
        limit: Duration,
    ) -> Result<Option<ContestRun>> {
        let ran = self.attempt(entrant, tuning, what, limit);
        if matches!(ran, Ok(Some(_))) {
            return ran;
        }
        let cleared = self.clear();
        ran.and_then(|none| cleared.map(|()| none))
    }

    fn attempt(
        &self,
        entrant: &Entrant,
        tuning: Option<Tuning>,
        what: &str,
        limit: Duration,
    ) -> Result<Option<ContestRun>> {
        let tool = entrant.tool;
        // Each run has a prefix of its own: some tools skip objects that exist already.
        let prefix = if self.source.is_download() {
            OBJECT.to_owned()
        } else {
            format!("{}-{}/", tool.file_name(), fastrand::u64(..))
        };
        let mut program = tool.program(&entrant.path, &self.source, &self.endpoint, &prefix, tuning);
        if let Some(text) = tuning.and_then(|tuning| tool.configuration(tuning)) {
            let file = self.folder.join("configuration");
            std::fs::write(&file, text)?;
            program = program.variables([("AWS_CONFIG_FILE", file.display().to_string())]);
        }
        if tool == Tool::Mc {
            // Instead of the configuration in the user's home.
            program = program.variables([("MC_CONFIG_DIR", self.folder.join("mc").display().to_string())]);
        }
        if let TransferSource::Objects { into, .. } = &self.source {
            std::fs::create_dir(into.join(tool.file_name()))?;
        }
        self.server.forget()?;
        let before = self.server.cpu()?;
        let Some(usage) = measure::measure_within(&program, &self.folder.join("tool.log"), limit)? else {
            eprintln!("{what}: {}: stopped after {:.3} s", tool.name(), limit.as_secs_f64());
            self.settle()?;
            return Ok(None);
        };
        let server_cpu = self.server.cpu()? - before;
        let counts = self.server.counts()?;
        if self.source.is_download() {
            self.check_download(tool, &counts)?;
        } else {
            self.check_upload(tool, &counts)?;
        }
        eprintln!("{what}: {}: {:.3} s, {:.3} CPU s", tool.name(), usage.wall, usage.cpu());
        Ok(Some(ContestRun { usage, counts, server_cpu }))
    }

    /// Waits until the server gets no more requests: requests that a stopped tool still had in flight must not
    /// count for the next tool.
    fn settle(&self) -> Result<()> {
        // Each question of this loop opens a connection of its own.
        let asked = || self.server.counts().map(|counts| ServerCounts { connections: 0, ..counts });
        let mut before = asked()?;
        loop {
            std::thread::sleep(Duration::from_millis(200));
            let now = asked()?;
            if now == before {
                return Ok(());
            }
            before = now;
        }
    }

    /// Checks that everything was sent and stored; for tidegate with a directory, in the fewest possible
    /// requests.
    fn check_upload(&self, tool: Tool, counts: &ServerCounts) -> Result<()> {
        let name = tool.name();
        check_stored(name, counts, self.objects, self.bytes)?;
        let puts = counts.of("PutObject");
        if tool == Tool::Tidegate
            && matches!(self.source, TransferSource::Directory(_))
            && puts != self.objects
        {
            return Err(Error::from(format!("{name} made {puts} PutObject for {} objects", self.objects)));
        }
        Ok(())
    }

    /// Checks that everything was sent and arrived, then removes the tool's copy.
    fn check_download(&self, tool: Tool, counts: &ServerCounts) -> Result<()> {
        let name = tool.name();
        if counts.bytes_out < self.bytes {
            let sent = counts.bytes_out;
            return Err(format!("{name} ended well, but was sent {sent} of {} bytes", self.bytes).into());
        }
        let removed = match &self.source {
            TransferSource::Object { original, into } => {
                let copy = into.join(tool.file_name());
                check_copy(original, &copy)
                    .and_then(|()| Ok(std::fs::remove_file(copy)?))
                    .and_then(|()| check_empty(into))
            }
            TransferSource::Objects { originals, into } => {
                let copies = into.join(tool.file_name());
                remove_copies(originals, &copies).and_then(|()| check_empty(into))
            }
            TransferSource::File(_) | TransferSource::Directory(_) | TransferSource::Pipe(_) => Ok(()),
        };
        removed.map_err(|error| format!("{name} ended well, but {error}").into())
    }
}
