//! Credentials and settings as users of a store have them already: from the environment and from files at home.
//!
//! Each case is the very test that asks for it once more, in a process and an environment of its own.

#![allow(clippy::unwrap_used)] // what its tests share is test code as well

mod gcs;
mod s3;

use std::path::Path;
use std::process::Command;

/// Set in that process.
const CASE: &str = "CASE";

/// Whether this is that process.
fn is_case() -> bool {
    std::env::var_os(CASE).is_some()
}

/// Runs the calling test in an environment of these alone, and a home; what it says is the line that begins with
/// `STORED` or `FAULT`.
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
    let said = out.lines().find(|line| line.starts_with("STORED") || line.starts_with("FAULT"));
    said.unwrap_or_else(|| panic!("{out}\n{}", String::from_utf8_lossy(&output.stderr))).to_owned()
}
