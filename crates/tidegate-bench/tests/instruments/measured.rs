//! What is measured of programs whose cost is known.

#![allow(clippy::unwrap_used, reason = "it is all tests")]

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use tidegate_bench::measure::{MEASURED, ProcessUsage};

fn command(report: &Path, program: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate-bench"));
    command.arg(MEASURED).arg(report).arg("--").args(program);
    command
}

fn measured(program: &[&str]) -> ProcessUsage {
    let folder = tempfile::tempdir().unwrap();
    let report = folder.path().join("usage");
    assert!(command(&report, program).status().unwrap().success());
    serde_json::from_slice(&std::fs::read(report).unwrap()).unwrap()
}

#[test]
fn a_program_that_does_nothing_costs_next_to_nothing() {
    let usage = measured(&["true"]);
    assert_eq!(usage.exit, Some(0));
    assert!(usage.cpu() < 0.5 && usage.peak_kib < 32 * 1024, "{usage:?}");
}

#[test]
fn memory_is_that_of_the_program() {
    let usage = measured(&["dd", "if=/dev/zero", "of=/dev/null", "bs=64M", "count=1", "status=none"]);
    let mib = usage.peak_kib / 1024;
    assert!((64..100).contains(&mib), "{usage:?}");
}

#[test]
fn how_it_ended_is_known() {
    assert_eq!(measured(&["sh", "-c", "exit 3"]).exit, Some(3));
    let killed = measured(&["sh", "-c", "kill -9 $$"]);
    assert_eq!((killed.exit, killed.signal), (None, Some(9)));
}

#[test]
fn a_program_ends_with_the_one_that_measures_it() {
    let folder = tempfile::tempdir().unwrap();
    let told = folder.path().join("pid");
    let script = format!("echo $$ > {0}.new && mv {0}.new {0} && exec sleep 60", told.display());
    let mut child = command(&folder.path().join("usage"), &["sh", "-c", &script]).spawn().unwrap();
    let deadline = Instant::now() + Duration::from_secs(20);
    let until = |what: &dyn Fn() -> bool| {
        while !what() {
            assert!(Instant::now() < deadline, "still not so");
            std::thread::sleep(Duration::from_millis(5));
        }
    };
    until(&|| told.exists());
    let pid = std::fs::read_to_string(&told).unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    // A process that ended may still be there to be waited for.
    let stat = format!("/proc/{}/stat", pid.trim());
    until(&|| std::fs::read_to_string(&stat).map_or(true, |text| text.contains(") Z ")));
}
