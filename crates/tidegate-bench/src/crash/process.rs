//! Starts worker processes, follows their output, and kills them.

use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::Stdio;
use std::time::Duration;

use rustix::process::Signal;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};
use tokio::time::{Instant, sleep_until};

use super::{CrashRun, WORKER};
use crate::process::remove_foreign;
use crate::{Error, Result};

/// When a process is killed.
#[derive(Clone, Copy, Debug)]
pub(super) enum Limit {
    /// This long after its start.
    Started(Duration),
    /// This long after it began to write.
    Begun(Duration),
    Never,
}

/// The result of one process.
#[derive(Debug, Default)]
pub(super) struct WorkerOutcome {
    /// The position where it began to write; `None` if it never began.
    pub(super) begins: Option<u64>,
    /// Bytes whose write had returned.
    pub(super) written: u64,
    /// How long it ran after it began to write; after its start, if it never began.
    pub(super) took: Duration,
    /// The object has been published.
    pub(super) is_done: bool,
    pub(super) is_killed: bool,
    /// Another process resumed the journal between this process's listing and its claim.
    pub(super) is_overtaken: bool,
}

impl CrashRun<'_> {
    /// Starts a process, kills it at its `limit`, and returns its result.
    pub(super) async fn process(
        &self,
        index: u64,
        size: u64,
        limit: Limit,
        linger: Option<Duration>,
    ) -> Result<WorkerOutcome> {
        let mut child = self.start(index, size, linger)?;
        let mut ended = WorkerOutcome::default();
        let output = child.stdout.take();
        let output = output.ok_or("a process has no output")?;
        let mut lines = BufReader::new(output).lines();
        let mut begun = Instant::now();
        let mut kill_at = if let Limit::Started(after) = limit { Some(begun + after) } else { None };
        loop {
            let line = tokio::select! {
                line = lines.next_line() => line.map_err(failed("can't be heard"))?,
                () = sleep_until(kill_at.unwrap_or(begun)), if kill_at.is_some() => {
                    child.start_kill().map_err(failed("can't be killed"))?;
                    kill_at = None;
                    continue; // lines printed before the kill are still in the pipe
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
                _ => eprintln!("{line}"),
            }
        }
        let status = child.wait().await.map_err(failed("can't be waited for"))?;
        ended.took = begun.elapsed();
        // The process may have ended by itself just before the kill.
        ended.is_killed = status.signal() == Some(Signal::KILL.as_raw());
        if !ended.is_killed && !status.success() {
            return Err(format!("the process of object {index} failed by itself: {status}").into());
        }
        Ok(ended)
    }

    fn start(&self, index: u64, size: u64, linger: Option<Duration>) -> Result<Child> {
        let mut command = Command::new(std::env::current_exe()?);
        command.arg(WORKER).args([
            "--to",
            &self.to,
            "--object",
            &index.to_string(),
            "--size",
            &size.to_string(),
        ]);
        command.arg("--journal").arg(&self.journal);
        if let Some(linger) = linger {
            command.args(["--linger", &linger.as_millis().to_string()]);
        }
        if self.is_over_grpc {
            command.arg("--grpc");
        }
        if let Some(embedded) = self.embedded {
            remove_foreign(command.as_std_mut());
            command.envs(embedded.endpoint().variables());
        }
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::inherit()).kill_on_drop(true);
        command.spawn().map_err(failed("can't be started"))
    }
}

fn failed(what: &str) -> impl FnOnce(io::Error) -> Error {
    move |error| format!("a process {what}: {error}").into()
}
