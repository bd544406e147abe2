//! A process that writes, seen from the one that kills it.

use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::Stdio;
use std::time::Duration;

use rustix::process::Signal;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};
use tokio::time::{Instant, sleep_until};

use super::Run;
use crate::commands::bench::this_program;
use crate::exit::{Failure, Outcome};
use crate::output;

/// When a process is killed.
#[derive(Clone, Copy, Debug)]
pub(super) enum Limit {
    /// So long after its start.
    Started(Duration),
    /// So long after it began to write.
    Begun(Duration),
    Never,
}

/// What became of one process.
#[derive(Debug, Default)]
pub(super) struct Ended {
    /// Where it began to write; `None` where it never came to it.
    pub(super) begins: Option<u64>,
    /// Bytes whose write had returned.
    pub(super) written: u64,
    /// How long it went on from there.
    pub(super) took: Duration,
    /// The object is there.
    pub(super) is_done: bool,
    pub(super) is_killed: bool,
    /// It had seen the journal before another process went on with it.
    pub(super) is_overtaken: bool,
}

impl Run<'_> {
    /// Starts a process, kills it at its `limit`, and says how far it came.
    pub(super) async fn process(
        &self,
        index: u64,
        size: u64,
        limit: Limit,
        linger: Option<Duration>,
    ) -> Outcome<Ended> {
        let mut child = self.start(index, size, linger)?;
        let mut ended = Ended::default();
        let output = child.stdout.take();
        let output = output.ok_or_else(|| Failure::Failed("a process has no output".to_owned()))?;
        let mut lines = BufReader::new(output).lines();
        let mut begun = Instant::now();
        let mut kill_at = if let Limit::Started(after) = limit { Some(begun + after) } else { None };
        loop {
            let line = tokio::select! {
                line = lines.next_line() => line.map_err(failed("can't be heard"))?,
                () = sleep_until(kill_at.unwrap_or(begun)), if kill_at.is_some() => {
                    child.start_kill().map_err(failed("can't be killed"))?;
                    kill_at = None;
                    continue; // what it had said before is in the pipe yet
                }
            };
            let Some(line) = line else { break };
            match line.split_once(' ') {
                Some(("begins", position)) => {
                    ended.begins = position.parse().ok();
                    ended.written = ended.begins.unwrap_or(0);
                    begun = Instant::now();
                    if let Limit::Begun(after) = limit {
                        kill_at = Some(begun + after);
                    }
                }
                Some(("written", position)) => ended.written = position.parse().unwrap_or(ended.written),
                _ if line == "overtaken" => ended.is_overtaken = true,
                _ if line == "done" => ended.is_done = true,
                _ => output::say(&line),
            }
        }
        let status = child.wait().await.map_err(failed("can't be waited for"))?;
        ended.took = begun.elapsed();
        // It may have ended by itself in the moment when it was to be killed.
        ended.is_killed = status.signal() == Some(Signal::KILL.as_raw());
        if !ended.is_killed && !status.success() {
            return Err(Failure::Failed(format!("the process of object {index} failed by itself: {status}")));
        }
        Ok(ended)
    }

    fn start(&self, index: u64, size: u64, linger: Option<Duration>) -> Outcome<Child> {
        let mut command = Command::new(this_program()?);
        command.args(std::env::args_os().skip(1));
        command.args(["--worker", &index.to_string(), "--size", &size.to_string()]);
        if let Some(linger) = linger {
            command.args(["--linger", &linger.as_millis().to_string()]);
        }
        if self.args.to.is_none() {
            command.args(["--to", &self.to]);
        }
        if self.args.journal.is_none() {
            command.arg("--journal").arg(&self.journal);
        }
        if let Some(embedded) = self.embedded {
            embedded.reach(&mut command);
        }
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::inherit()).kill_on_drop(true);
        command.spawn().map_err(failed("can't be started"))
    }
}

fn failed(what: &str) -> impl FnOnce(io::Error) -> Failure {
    move |error| Failure::Failed(format!("a process {what}: {error}"))
}
