//! The tools: how each is found, called and told where the store is.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::embedded::Endpoint;
use crate::process::Program;

/// The prefix of the object that is downloaded.
pub const OBJECT: &str = "source/";

/// A program that uploads and downloads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tool {
    /// Ours.
    Tidegate,
    /// object_store's `BufWriter`.
    ObjectStore,
    /// AWS's transfer manager for Rust.
    TransferManager,
    /// s5cmd.
    S5cmd,
    /// rclone.
    Rclone,
    /// A bare socket loop: not a tool, but the least that any could take.
    Floor,
}

/// What is moved.
#[derive(Clone, Debug)]
pub enum Source {
    /// One file, into the store.
    File(PathBuf),
    /// All files in a directory, into the store.
    Directory(PathBuf),
    /// One object below [`OBJECT`], out of the store into a file of the tool's own.
    Object {
        /// A file with the same bytes.
        original: PathBuf,
        /// The folder that the tool's file is in.
        into: PathBuf,
    },
}

impl Tool {
    /// What it is called in a table.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Tidegate => "tidegate",
            Self::ObjectStore => "object_store",
            Self::TransferManager => "transfer manager",
            Self::S5cmd => "s5cmd",
            Self::Rclone => "rclone",
            Self::Floor => "(floor)",
        }
    }

    /// The same as a name in a store or a folder.
    #[must_use]
    pub fn file_name(self) -> String {
        self.name().trim_matches(['(', ')']).replace(' ', "-")
    }

    /// Its program, where it is installed.
    #[must_use]
    pub fn find(self) -> Option<PathBuf> {
        match self {
            Self::Tidegate => match std::env::var_os("TIDEGATE_BIN") {
                Some(path) => existing(path.into()),
                None => existing(beside("tidegate")?),
            },
            Self::Floor => existing(beside("peer-floor")?),
            Self::ObjectStore => peer("peer-object-store"),
            Self::TransferManager => peer("peer-transfer-manager"),
            Self::S5cmd => installed("s5cmd"),
            Self::Rclone => installed("rclone"),
        }
    }

    /// How to get it.
    #[must_use]
    pub fn how_to_get(self) -> &'static str {
        match self {
            Self::Tidegate => "cargo build --release",
            Self::Floor => "cargo build --release -p tidegate-bench",
            Self::ObjectStore | Self::TransferManager => {
                "cargo build --release --manifest-path crates/tidegate-bench/peers/Cargo.toml --target-dir target/peers"
            }
            Self::S5cmd => "scripts/install s5cmd",
            Self::Rclone => "scripts/install rclone",
        }
    }

    /// Its version, where it can be known: said by itself, pinned, or noted by `scripts/install`.
    #[must_use]
    pub fn version(self, path: &Path) -> Option<String> {
        match self {
            Self::Tidegate => {
                let output = Command::new(path).arg("--version").stdin(Stdio::null()).output().ok()?;
                String::from_utf8(output.stdout).ok()?.split_whitespace().nth(1).map(str::to_owned)
            }
            Self::ObjectStore => Some("0.14.2".to_owned()),
            Self::TransferManager => Some("0.3.1".to_owned()),
            Self::S5cmd | Self::Rclone => {
                // What they say themselves depends on how they were built.
                let stamps = path.parent()?.parent()?.join("stamps");
                version_in(&std::fs::read_to_string(stamps.join(path.file_name()?)).ok()?)
            }
            Self::Floor => None,
        }
    }

    /// The command that uploads `source` below `prefix`, without a directory's own name; or downloads it, where it is an
    /// object below `prefix`, into the tool's own file.
    #[must_use]
    pub fn program(self, path: &Path, source: &Source, endpoint: &Endpoint, prefix: &str) -> Program {
        let mut program = Program::new(path).variables(self.variables(endpoint));
        let scheme = if self == Self::Rclone { "bench:" } else { "s3://" };
        let url = OsString::from(format!("{scheme}{}/{prefix}", endpoint.bucket));
        let object = OsString::from(format!("{scheme}{}/{prefix}object", endpoint.bucket));
        let [from, to] = match source {
            Source::File(file) => [file.into(), object],
            // Rclone always takes what is in it, the others with a slash behind it.
            Source::Directory(directory) if self == Self::Rclone => [directory.into(), url],
            Source::Directory(directory) => [directory.join("").into(), url],
            Source::Object { into, .. } => [object, into.join(self.file_name()).into()],
        };
        let is_tree = matches!(source, Source::Directory(_));
        let words: &[&str] = match self {
            Self::Tidegate if is_tree => &["cp", "-r"],
            Self::Tidegate => &["cp"],
            Self::S5cmd => &["--endpoint-url", &endpoint.url, "cp"],
            Self::Rclone if is_tree => &["copy"],
            Self::Rclone => &["copyto"],
            Self::ObjectStore | Self::TransferManager | Self::Floor => &[],
        };
        for word in words {
            program = program.arg(word);
        }
        program.arg(from).arg(to)
    }

    fn variables(self, endpoint: &Endpoint) -> Vec<(&'static str, String)> {
        if self != Self::Rclone {
            return endpoint.variables().to_vec();
        }
        let (signer, of) = (&endpoint.signer, |name, value: &str| (name, value.to_owned()));
        vec![
            of("RCLONE_CONFIG", "/dev/null"),
            of("RCLONE_CONFIG_BENCH_TYPE", "s3"),
            of("RCLONE_CONFIG_BENCH_PROVIDER", "Other"),
            of("RCLONE_CONFIG_BENCH_ENDPOINT", &endpoint.url),
            of("RCLONE_CONFIG_BENCH_ACCESS_KEY_ID", &signer.access_key),
            of("RCLONE_CONFIG_BENCH_SECRET_ACCESS_KEY", &signer.secret_key),
            of("RCLONE_CONFIG_BENCH_REGION", &signer.region),
        ]
    }

    /// Every setting that it runs with, default or not.
    #[must_use]
    pub fn settings(self, source: &Source) -> &'static str {
        match source {
            Source::File(_) => self.upload_settings(),
            Source::Directory(_) => self.tree_settings(),
            Source::Object { .. } => self.download_settings(),
        }
    }

    fn upload_settings(self) -> &'static str {
        match self {
            Self::Tidegate => {
                "`tidegate cp FILE URL`, defaults (parts of 16 MiB streamed from the file, CRC64NVME, payload not signed, \
                 concurrency found out, 256 MiB budget)"
            }
            Self::ObjectStore => {
                "BufWriter fed in pieces of 1 MiB read inline, defaults (10 MiB parts, 8 at once, no checksum) but \
                 for: payload not signed, HTTP allowed"
            }
            Self::TransferManager => {
                "upload of a path, defaults (part size, concurrency, runtime and memory chosen by it; the SDK's \
                 checksum) but for: bucket in the path"
            }
            Self::S5cmd => "`s5cmd --endpoint-url … cp FILE URL`, defaults (50 MiB parts, 5 at once)",
            Self::Rclone => "`rclone copyto FILE URL`, defaults (5 MiB parts, 4 at once), provider Other",
            Self::Floor => {
                "8 threads, one connection each, pread into a reused buffer of 256 KiB and write: one PUT an object \
                 of 16 MiB, payload not signed, no checksum, no retry, nothing published as a whole"
            }
        }
    }

    /// Libraries have no word for a tree: they are not asked for one.
    fn tree_settings(self) -> &'static str {
        match self {
            Self::Tidegate => "`tidegate cp -r DIR/ URL`, defaults (CRC64NVME of every object)",
            Self::S5cmd => "`s5cmd --endpoint-url … cp DIR/ URL`, defaults (256 workers)",
            Self::Rclone => "`rclone copy DIR URL`, defaults (4 transfers, 8 checkers), provider Other",
            Self::ObjectStore | Self::TransferManager | Self::Floor => "",
        }
    }

    fn download_settings(self) -> &'static str {
        match self {
            Self::Tidegate => {
                "`tidegate cp URL FILE`, defaults (ranges of 8 MiB written in place, CRC64NVME of the whole compared, \
                 renamed at the end, not synced; concurrency found out, 256 MiB budget)"
            }
            Self::ObjectStore => {
                "HEAD, then `get_range` of 8 MiB, 8 at once, each in a task and written in place inline; no checksum; \
                 defaults but for: HTTP allowed"
            }
            Self::TransferManager => {
                "download written to a path, defaults (part size, concurrency, runtime and memory chosen by it; renamed \
                 at the end) but for: bucket in the path"
            }
            Self::S5cmd => "`s5cmd --endpoint-url … cp URL FILE`, defaults (50 MiB parts, 5 at once)",
            Self::Rclone => {
                "`rclone copyto URL FILE`, defaults (4 streams of chunks of 64 MiB from 256 MiB on), provider Other"
            }
            Self::Floor => "",
        }
    }
}

/// A tool that `scripts/install` built: in `.tools/bin` of the folder that this is run in or was built in, or above.
#[must_use]
pub fn installed(name: &str) -> Option<PathBuf> {
    let starts = [std::env::current_dir().ok(), std::env::current_exe().ok()];
    starts
        .iter()
        .flatten()
        .flat_map(|start| start.ancestors())
        .find_map(|folder| existing(folder.join(".tools/bin").join(name)))
}

/// A program that cargo put beside this one.
fn beside(name: &str) -> Option<PathBuf> {
    Some(std::env::current_exe().ok()?.with_file_name(name))
}

/// A peer that was built into `target/peers`.
fn peer(name: &str) -> Option<PathBuf> {
    let folder = std::env::current_exe().ok()?.parent()?.parent()?.join("peers/release");
    existing(folder.join(name))
}

fn existing(path: PathBuf) -> Option<PathBuf> {
    path.is_file().then_some(path)
}

/// The version in `MODULE@vVERSION PACKAGE`.
fn version_in(stamp: &str) -> Option<String> {
    let (_, version) = stamp.split_once("@v")?;
    version.split_whitespace().next().map(str::to_owned)
}

#[cfg(test)]
mod tests;
