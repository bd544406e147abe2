//! Tells the program the commit that it was built from, for `tidegate --version`.
//!
//! The commit comes from `TIDEGATE_COMMIT`, which `scripts/release` sets, or from the file that `cargo package` adds to a
//! crate. A build in a working tree names no commit: its files may differ from the commit, and every commit would build
//! the program again.

use std::path::Path;

/// Written by `cargo package`: `{"git": {"sha1": "…", "dirty": true}, …}`, without `dirty` if all was committed.
const PACKAGED_FROM: &str = ".cargo_vcs_info.json";

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=TIDEGATE_COMMIT");
    // Only if the file exists: cargo runs a build script again and again for a file that does not.
    if Path::new(PACKAGED_FROM).exists() {
        println!("cargo::rerun-if-changed={PACKAGED_FROM}");
    }
    let version = std::env::var("CARGO_PKG_VERSION").expect("cargo sets the version");
    let version = match released().or_else(packaged) {
        Some(commit) => format!("{version} (commit {commit})"),
        None => version,
    };
    println!("cargo::rustc-env=TIDEGATE_VERSION={version}");
}

fn released() -> Option<String> {
    std::env::var("TIDEGATE_COMMIT").ok().filter(|commit| !commit.is_empty())
}

fn packaged() -> Option<String> {
    let text = std::fs::read_to_string(PACKAGED_FROM).ok()?;
    let (_, after) = text.split_once("\"sha1\"")?;
    let commit: String =
        after.trim_start_matches([':', ' ', '"']).chars().take_while(char::is_ascii_hexdigit).collect();
    if commit.is_empty() {
        return None;
    }
    let is_dirty = text
        .split_once("\"dirty\"")
        .is_some_and(|(_, after)| after.trim_start_matches([':', ' ']).starts_with("true"));
    Some(if is_dirty { commit + "-dirty" } else { commit })
}
