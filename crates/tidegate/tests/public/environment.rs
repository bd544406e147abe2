//! Credentials and settings that users of a store have already: in the environment, and in files in their home.
//!
//! To run a case, a test runs itself once more in a new process with its own environment.

#![allow(clippy::unwrap_used)] // the shared helpers are test code as well

mod gcs;
mod s3;

use std::path::Path;
use std::process::Command;

/// The variable that is set in the new process.
const CASE: &str = "CASE";

/// True in the new process.
fn is_case() -> bool {
    std::env::var_os(CASE).is_some()
}

/// Runs the calling test in a new process with only these variables and a home. Returns its line of output that
/// begins with `STORED`, `URL` or `FAULT`.
fn run(home: &Path, env: &[(&str, &str)]) -> String {
    assert!(!is_case(), "a case runs no other");
    let thread = std::thread::current();
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", thread.name().unwrap(), "--nocapture"])
        .env_clear()
        .env(CASE, "1")
        .env("HOME", home)
        .env("PATH", "/usr/bin:/bin")
        .envs(env.iter().copied())
        .output()
        .unwrap();
    let out = String::from_utf8(output.stdout).unwrap();
    let said = out.lines().find(|line| ["STORED", "URL", "FAULT"].iter().any(|word| line.starts_with(word)));
    said.unwrap_or_else(|| panic!("{out}\n{}", String::from_utf8_lossy(&output.stderr))).to_owned()
}
