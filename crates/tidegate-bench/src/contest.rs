//! All tools in turn, several times.

use std::path::Path;
use std::path::PathBuf;
use std::time::Duration;

use serde::Serialize;

use crate::embedded::{Counts, Embedded, Endpoint};
use crate::measure::{self, Usage};
use crate::scratch::first_difference;
use crate::tool::{OBJECT, Source, Tool};
use crate::{Error, Result};

/// What is measured.
#[derive(Debug)]
pub struct Contest<'a> {
    /// What every tool moves.
    pub source: Source,
    /// How many objects that makes or reads.
    pub objects: u64,
    /// How many bytes that is.
    pub bytes: u64,
    /// Where to or from.
    pub endpoint: Endpoint,
    /// The server behind that, for its counts.
    pub server: &'a Embedded,
    /// How often each tool runs and counts; once more before, to warm up.
    pub runs: u32,
    /// How long one run may take.
    pub limit: Duration,
    /// Where logs are kept meanwhile.
    pub folder: PathBuf,
}

/// One run of one tool.
#[derive(Clone, Debug, Serialize)]
pub struct Run {
    /// What it cost.
    pub usage: Usage,
    /// What the server was asked.
    pub counts: Counts,
    /// CPU seconds of the server meanwhile.
    pub server_cpu: f64,
}

/// One tool and its runs.
#[derive(Clone, Debug)]
pub struct Entrant {
    /// Which.
    pub tool: Tool,
    /// Its program.
    pub path: PathBuf,
    /// The runs that count.
    pub runs: Vec<Run>,
}

impl Contest<'_> {
    /// Runs all tools that are installed, interleaved (A B C A B C …), the first round uncounted.
    pub fn hold(&self, tools: &[Tool]) -> Result<Vec<Entrant>> {
        let installed = tools.iter().filter_map(|tool| Some((*tool, tool.find()?)));
        let mut entrants: Vec<_> =
            installed.map(|(tool, path)| Entrant { tool, path, runs: Vec::new() }).collect();
        for round in 0..=self.runs {
            for entrant in &mut entrants {
                let run = self.run(entrant.tool, &entrant.path, round)?;
                let what = if round == 0 { "warm-up".to_owned() } else { format!("run {round}") };
                let (wall, cpu) = (run.usage.wall, run.usage.cpu());
                eprintln!("{what}: {}: {wall:.3} s, {cpu:.3} CPU s", entrant.tool.name());
                if round > 0 {
                    entrant.runs.push(run);
                }
            }
        }
        Ok(entrants)
    }

    fn run(&self, tool: Tool, path: &Path, round: u32) -> Result<Run> {
        let prefix = match self.source {
            Source::Object { .. } => OBJECT.to_owned(),
            // A prefix of its own: some tools leave out what is there already.
            Source::File(_) | Source::Directory(_) | Source::Pipe(_) => {
                format!("{}-{round}/", tool.file_name())
            }
        };
        let program = tool.program(path, &self.source, &self.endpoint, &prefix);
        self.server.forget()?;
        let before = self.server.cpu()?;
        let usage = measure::measure(&program, &self.folder.join("tool.log"), self.limit)?;
        let server_cpu = self.server.cpu()? - before;
        let counts = self.server.counts()?;
        match &self.source {
            Source::Object { original, into } => self.check_download(tool, &counts, original, into)?,
            Source::File(_) | Source::Directory(_) | Source::Pipe(_) => self.check_upload(tool, &counts)?,
        }
        Ok(Run { usage, counts, server_cpu })
    }

    /// Whether everything was sent; for ours, in the fewest requests that could be.
    fn check_upload(&self, tool: Tool, counts: &Counts) -> Result<()> {
        let name = tool.name();
        if counts.bytes_in < self.bytes {
            let sent = counts.bytes_in;
            return Err(format!("{name} ended well, but sent {sent} of {} bytes", self.bytes).into());
        }
        let puts = counts.of("PutObject");
        if tool == Tool::Tidegate && matches!(self.source, Source::Directory(_)) && puts != self.objects {
            return Err(Error::from(format!("{name} made {puts} PutObject for {} objects", self.objects)));
        }
        Ok(())
    }

    /// Whether everything was fetched, and arrived; then the file is removed.
    fn check_download(&self, tool: Tool, counts: &Counts, original: &Path, into: &Path) -> Result<()> {
        let name = tool.name();
        if counts.bytes_out < self.bytes {
            let sent = counts.bytes_out;
            return Err(format!("{name} ended well, but was sent {sent} of {} bytes", self.bytes).into());
        }
        remove_copy(original, into, &tool.file_name())
            .map_err(|error| format!("{name} ended well, but {error}").into())
    }
}

/// Removes the file `name` in `into`, which must have the bytes of `original` and be all that is there.
fn remove_copy(original: &Path, into: &Path, name: &str) -> Result<()> {
    let copy = into.join(name);
    if let Some(place) = first_difference(original, &copy)? {
        return Err(format!("its file is another from byte {place} on").into());
    }
    std::fs::remove_file(&copy)?;
    match std::fs::read_dir(into)?.next() {
        None => Ok(()),
        Some(left) => Err(format!("it left {} behind", left?.path().display()).into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_must_be_one_and_leave_nothing_beside_it() {
        let folder = tempfile::tempdir().unwrap();
        let (original, into) = (folder.path().join("original"), folder.path().join("into"));
        std::fs::write(&original, "bytes").unwrap();
        std::fs::create_dir(&into).unwrap();
        assert!(remove_copy(&original, &into, "copy").is_err());
        std::fs::write(into.join("copy"), "byteS").unwrap();
        let refused = remove_copy(&original, &into, "copy").unwrap_err();
        assert!(refused.to_string().contains("from byte 4 on"), "{refused}");

        std::fs::write(into.join("copy"), "bytes").unwrap();
        remove_copy(&original, &into, "copy").unwrap();
        assert!(!into.join("copy").exists());

        std::fs::write(into.join("copy"), "bytes").unwrap();
        std::fs::write(into.join("copy.part"), "").unwrap();
        let refused = remove_copy(&original, &into, "copy").unwrap_err();
        assert!(refused.to_string().contains("copy.part"), "{refused}");
    }
}
