//! All tools in turn, several times.

mod best;

use std::path::Path;
use std::path::PathBuf;
use std::time::Duration;

use serde::Serialize;

use crate::embedded::{Counts, Embedded, Endpoint};
use crate::measure::{self, Usage};
use crate::scratch::first_difference;
use crate::tool::{OBJECT, Source, Tool, Tuning};
use crate::{Error, Result};

pub use best::AGAIN;

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
    /// How often each tool runs and counts; once more before, to warm up, where nothing was tried before.
    pub runs: u32,
    /// A tool that has taken as long in all its runs has no more of them; one run at least counts.
    pub enough: Duration,
    /// How many connections the floor has, and the size of its parts.
    pub floor: Tuning,
    /// Whether each has its best settings instead of its defaults.
    pub best: bool,
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
    /// What it is told; nothing in its defaults.
    pub tuning: Option<Tuning>,
    /// The runs that count.
    pub runs: Vec<Run>,
    /// Why it ran no more.
    pub failed: Option<String>,
}

impl Contest<'_> {
    /// Runs all tools that are installed, interleaved (A B C A B C …), the first round uncounted.
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
                    Err(error) => self.fail(entrant, error)?,
                }
            }
        }
        let enough = self.enough.as_secs_f64();
        let mut spent = vec![0.0; entrants.len()];
        for round in 0..=self.runs {
            for (entrant, spent) in entrants.iter_mut().zip(&mut spent) {
                // What was tried has warmed up.
                if round == 0 && self.best && !entrant.tool.tried(&self.source).is_empty() {
                    continue;
                }
                if entrant.failed.is_some() || *spent >= enough {
                    continue;
                }
                let what = if round == 0 { "warm-up".to_owned() } else { format!("run {round}") };
                match self.run(entrant, entrant.tuning, &what) {
                    Ok(run) => {
                        *spent += run.usage.wall;
                        if round > 0 || *spent >= enough {
                            entrant.runs.push(run);
                        }
                    }
                    Err(error) => self.fail(entrant, error)?,
                }
            }
        }
        Ok(entrants)
    }

    /// A peer that fails runs no more; ours may not.
    fn fail(&self, entrant: &mut Entrant, error: Error) -> Result<()> {
        if entrant.tool == Tool::Tidegate {
            return Err(error);
        }
        eprintln!("{}: {error}", entrant.tool.name());
        entrant.failed = Some(error.to_string());
        self.clear()
    }

    /// Removes what a tool has left that did not come to its end: nobody else is to find it.
    fn clear(&self) -> Result<()> {
        if let Source::Object { into, .. } | Source::Objects { into, .. } = &self.source {
            std::fs::remove_dir_all(into)?;
            std::fs::create_dir(into)?;
        }
        Ok(())
    }

    fn run(&self, entrant: &Entrant, tuning: Option<Tuning>, what: &str) -> Result<Run> {
        let late = || format!("{} was not done after {} s", entrant.tool.name(), self.limit.as_secs()).into();
        self.run_within(entrant, tuning, what, self.limit)?.ok_or_else(late)
    }

    /// One run; `None` where it was not done within `limit`, and was stopped.
    fn run_within(
        &self,
        entrant: &Entrant,
        tuning: Option<Tuning>,
        what: &str,
        limit: Duration,
    ) -> Result<Option<Run>> {
        let tool = entrant.tool;
        // Each run has a prefix of its own: some tools leave out what is there already.
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
            // In place of one in the user's home.
            program = program.variables([("MC_CONFIG_DIR", self.folder.join("mc").display().to_string())]);
        }
        if let Source::Objects { into, .. } = &self.source {
            std::fs::create_dir(into.join(tool.file_name()))?;
        }
        self.server.forget()?;
        let before = self.server.cpu()?;
        let Some(usage) = measure::measure_within(&program, &self.folder.join("tool.log"), limit)? else {
            eprintln!("{what}: {}: stopped after {:.3} s", tool.name(), limit.as_secs_f64());
            self.settle()?;
            self.clear()?;
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
        Ok(Some(Run { usage, counts, server_cpu }))
    }

    /// Waits until the server is asked nothing more: what a tool had under way when it was stopped is not to be found
    /// among what the next one asks.
    fn settle(&self) -> Result<()> {
        // Each question comes over a connection of its own.
        let asked = || self.server.counts().map(|counts| Counts { connections: 0, ..counts });
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

    /// Whether everything was sent and stored; for ours, in the fewest requests that could be.
    fn check_upload(&self, tool: Tool, counts: &Counts) -> Result<()> {
        let name = tool.name();
        check_stored(name, counts, self.objects, self.bytes)?;
        let puts = counts.of("PutObject");
        if tool == Tool::Tidegate && matches!(self.source, Source::Directory(_)) && puts != self.objects {
            return Err(Error::from(format!("{name} made {puts} PutObject for {} objects", self.objects)));
        }
        Ok(())
    }

    /// Whether everything was fetched, and arrived; then the tool's copy is removed.
    fn check_download(&self, tool: Tool, counts: &Counts) -> Result<()> {
        let name = tool.name();
        if counts.bytes_out < self.bytes {
            let sent = counts.bytes_out;
            return Err(format!("{name} ended well, but was sent {sent} of {} bytes", self.bytes).into());
        }
        let removed = match &self.source {
            Source::Object { original, into } => {
                let copy = into.join(tool.file_name());
                check_copy(original, &copy)
                    .and_then(|()| Ok(std::fs::remove_file(copy)?))
                    .and_then(|()| check_empty(into))
            }
            Source::Objects { originals, into } => {
                let copies = into.join(tool.file_name());
                remove_copies(originals, &copies).and_then(|()| check_empty(into))
            }
            Source::File(_) | Source::Directory(_) | Source::Pipe(_) => Ok(()),
        };
        removed.map_err(|error| format!("{name} ended well, but {error}").into())
    }
}

/// All bytes must have come, and as many objects be there: a body has its framing among its bytes, and may be one of a
/// session that nobody completed.
fn check_stored(name: &str, counts: &Counts, objects: u64, bytes: u64) -> Result<()> {
    let sent = counts.bytes_in;
    if sent < bytes {
        return Err(format!("{name} ended well, but sent {sent} of {bytes} bytes").into());
    }
    let stored: u64 = counts.checksums.values().sum();
    if stored < objects {
        return Err(format!("{name} ended well, but stored {stored} of {objects} objects").into());
    }
    Ok(())
}

/// A copy must have the original's bytes.
fn check_copy(original: &Path, copy: &Path) -> Result<()> {
    match first_difference(original, copy)? {
        Some(place) => Err(format!("its file is another from byte {place} on").into()),
        None => Ok(()),
    }
}

/// Nothing else may be left.
fn check_empty(folder: &Path) -> Result<()> {
    match std::fs::read_dir(folder)?.next() {
        None => Ok(()),
        Some(left) => Err(format!("it left {} behind", left?.path().display()).into()),
    }
}

/// Removes the directory `copies`, which must have all files of `originals` and no others.
fn remove_copies(originals: &Path, copies: &Path) -> Result<()> {
    for original in std::fs::read_dir(originals)? {
        let original = original?;
        let copy = copies.join(original.file_name());
        let name = original.file_name();
        check_copy(&original.path(), &copy).map_err(|why| format!("{}: {why}", name.display()))?;
        std::fs::remove_file(copy)?;
    }
    check_empty(copies)?;
    Ok(std::fs::remove_dir(copies)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_that_are_sent_must_be_stored_as_objects() {
        let counts = |bytes_in, none: u64, crc32: u64| Counts {
            bytes_in,
            checksums: [("none".to_owned(), none), ("CRC32".to_owned(), crc32)].into(),
            ..Counts::default()
        };
        let check = |counts| check_stored("x", &counts, 3, 100).map_err(|error| error.to_string());
        assert_eq!(check(counts(100, 1, 2)), Ok(()));
        assert_eq!(check(counts(99, 1, 2)).unwrap_err(), "x ended well, but sent 99 of 100 bytes");
        assert_eq!(check(counts(150, 0, 2)).unwrap_err(), "x ended well, but stored 2 of 3 objects");
    }

    #[test]
    fn copies_must_be_those_and_leave_nothing_beside_them() {
        let folder = tempfile::tempdir().unwrap();
        let [originals, copies] = ["originals", "copies"].map(|name| {
            let path = folder.path().join(name);
            std::fs::create_dir(&path).unwrap();
            path
        });
        let refused = || remove_copies(&originals, &copies).unwrap_err().to_string();
        let put = |directory: &Path, name: &str, bytes: &str| {
            std::fs::write(directory.join(name), bytes).unwrap();
        };
        put(&originals, "one", "bytes");
        assert!(refused().contains("one"), "it is not there");
        put(&copies, "one", "byteS");
        assert!(refused().contains("one: its file is another from byte 4 on"), "{}", refused());

        put(&copies, "one", "bytes");
        put(&copies, "one.part", "");
        let said = refused();
        assert!(said.contains("one.part"), "{said}");

        put(&copies, "one", "bytes");
        std::fs::remove_file(copies.join("one.part")).unwrap();
        remove_copies(&originals, &copies).unwrap();
        assert!(!copies.exists());
    }
}
