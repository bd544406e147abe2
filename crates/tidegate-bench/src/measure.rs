//! Measures the cost of one run of a program, as the kernel counts it.
//!
//! A second process of this program ([`MEASURED`]) stands between this program and the measured one. That
//! process starts the measured program, waits for it, and reports the rusage of its only child. The process is
//! also small: the kernel starts a process's peak memory at the size of its parent. To see this floor, measure
//! `true`.

use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;
use serde::{Deserialize, Serialize};

use crate::Result;
use crate::process::{self, Program, TIED, end_with_parent};

/// The hidden subcommand of this program that runs another program through [`run_measured`].
pub const MEASURED: &str = "measured";

/// The cost of one run.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct ProcessUsage {
    /// From the start to the end, in seconds.
    pub wall: f64,
    /// CPU seconds in the program.
    pub user: f64,
    /// CPU seconds in the kernel on its behalf.
    pub system: f64,
    /// Peak resident memory, in KiB.
    pub peak_kib: u64,
    /// The exit code; `None` if a signal ended the program.
    pub exit: Option<i32>,
    /// The signal that ended the program.
    pub signal: Option<i32>,
}

impl ProcessUsage {
    /// CPU seconds of both kinds.
    #[must_use]
    pub fn cpu(&self) -> f64 {
        self.user + self.system
    }
}

/// Runs `command` as the only child of this process. Writes the cost to `report`.
pub fn run_measured(report: &Path, command: &[OsString]) -> Result<()> {
    end_with_parent()?;
    let began = Instant::now();
    let mut child = Command::new(std::env::current_exe()?).arg(TIED).arg("--").args(command).spawn()?;
    let status = child.wait()?;
    let wall = began.elapsed().as_secs_f64();
    let rusage = getrusage(UsageWho::RUSAGE_CHILDREN)?;
    let seconds = |time: nix::sys::time::TimeVal| time.num_microseconds() as f64 / 1e6;
    let usage = ProcessUsage {
        wall,
        user: seconds(rusage.user_time()),
        system: seconds(rusage.system_time()),
        peak_kib: u64::try_from(rusage.max_rss())?,
        exit: status.code(),
        signal: status.signal(),
    };
    Ok(std::fs::write(report, serde_json::to_vec(&usage)?)?)
}

/// Runs a program to its end and returns its cost; the program must succeed within `limit`. Its output goes to
/// `log`, and an error contains the end of that.
pub fn measure(program: &Program, log: &Path, limit: Duration) -> Result<ProcessUsage> {
    let report = log.with_extension("usage");
    let subcommand = [MEASURED.into(), report.clone().into_os_string()];
    let mut child = program.through(&subcommand, log)?.spawn()?;
    if let Some(file) = &program.stdin {
        process::feed(&mut child, file, program.stdin_most)?;
    }
    let began = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        if began.elapsed() > limit {
            child.kill()?; // the kernel then kills the measured program
            child.wait()?;
            return Err(failed(program, &format!("was not done after {} s", limit.as_secs()), log));
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    if !status.success() {
        return Err(failed(program, "could not be measured", log));
    }
    let usage: ProcessUsage = serde_json::from_slice(&std::fs::read(report)?)?;
    match usage {
        ProcessUsage { exit: Some(0), .. } => Ok(usage),
        ProcessUsage { exit: Some(code), .. } => {
            Err(failed(program, &format!("ended with exit code {code}"), log))
        }
        ProcessUsage { signal, .. } => {
            Err(failed(program, &format!("was ended by signal {}", signal.unwrap_or(0)), log))
        }
    }
}

fn failed(program: &Program, how: &str, log: &Path) -> crate::Error {
    let said = std::fs::read_to_string(log).unwrap_or_default();
    let lines: Vec<&str> = said.lines().collect();
    let end = lines[lines.len().saturating_sub(10)..].join("\n");
    let arguments: Vec<_> = program.arguments.iter().map(|word| word.to_string_lossy()).collect();
    format!("{} {} {how}:\n{end}", program.path.display(), arguments.join(" ")).into()
}
