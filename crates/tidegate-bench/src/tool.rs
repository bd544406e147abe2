//! The tools: how to find each, and how to give it the store's address.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

mod command;
mod settings;
mod tuning;

pub use tuning::Tuning;

/// The prefix of the objects that are downloaded.
pub const OBJECT: &str = "source/";

/// A program that uploads and downloads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tool {
    /// tidegate.
    Tidegate,
    /// object_store's `BufWriter`.
    ObjectStore,
    /// AWS's transfer manager for Rust.
    TransferManager,
    /// s5cmd.
    S5cmd,
    /// rclone.
    Rclone,
    /// MinIO's client.
    Mc,
    /// AWS's command line, version 1.
    AwsCli,
    /// AWS's library for Python, with its own threads.
    Boto3,
    /// AWS's common runtime in C, through boto3.
    Crt,
    /// object_store as a Python library.
    Obstore,
    /// OpenDAL's writer and reader.
    Opendal,
    /// A bare socket loop: not a tool, but the least cost of moving the bytes.
    Floor,
}

/// The source of a transfer, and its direction.
#[derive(Clone, Debug)]
pub enum TransferSource {
    /// One file, into the store.
    File(PathBuf),
    /// All files in a directory, into the store.
    Directory(PathBuf),
    /// The bytes of a file through a pipe, into the store.
    Pipe(PathBuf),
    /// One object below [`OBJECT`], out of the store into a file of the tool's own.
    Object {
        /// A file with the same bytes, to compare.
        original: PathBuf,
        /// The folder for the tool's file.
        into: PathBuf,
    },
    /// All objects below [`OBJECT`], out of the store into a directory of the tool's own.
    Objects {
        /// A directory of files with the same names and bytes, to compare.
        originals: PathBuf,
        /// The folder for the tool's directory.
        into: PathBuf,
    },
}

impl TransferSource {
    /// Whether the transfer is a download.
    #[must_use]
    pub fn is_download(&self) -> bool {
        matches!(self, Self::Object { .. } | Self::Objects { .. })
    }
}

impl Tool {
    /// All tools, tidegate first and the floor last.
    pub const ALL: [Self; 12] = [
        Self::Tidegate,
        Self::ObjectStore,
        Self::Opendal,
        Self::TransferManager,
        Self::S5cmd,
        Self::Rclone,
        Self::Mc,
        Self::AwsCli,
        Self::Boto3,
        Self::Crt,
        Self::Obstore,
        Self::Floor,
    ];

    /// The name in a table.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Tidegate => "tidegate",
            Self::ObjectStore => "object_store",
            Self::TransferManager => "transfer manager",
            Self::S5cmd => "s5cmd",
            Self::Rclone => "rclone",
            Self::Mc => "mc",
            Self::AwsCli => "aws",
            Self::Boto3 => "boto3",
            Self::Crt => "crt",
            Self::Obstore => "obstore",
            Self::Opendal => "OpenDAL",
            Self::Floor => "(floor)",
        }
    }

    /// The name as a part of a key or a path.
    #[must_use]
    pub fn file_name(self) -> String {
        self.name().trim_matches(['(', ')']).replace(' ', "-").to_lowercase()
    }

    /// The tool's program, if installed.
    #[must_use]
    pub fn find(self) -> Option<PathBuf> {
        match self {
            Self::Tidegate => match std::env::var_os("TIDEGATE_BIN") {
                Some(path) => existing(path.into()),
                None => existing(beside("tidegate")?),
            },
            Self::Floor => existing(beside("peer-floor")?),
            Self::ObjectStore => peer("peer-object-store"),
            Self::Opendal => peer("peer-opendal"),
            Self::TransferManager => peer("peer-transfer-manager"),
            Self::S5cmd => installed("s5cmd"),
            Self::Rclone => installed("rclone"),
            Self::Mc => installed("mc"),
            Self::AwsCli => in_tools("peers/bin/aws"),
            Self::Boto3 | Self::Crt | Self::Obstore => in_tools("peers/bin/python3"),
        }
    }

    /// How to install the tool.
    #[must_use]
    pub fn how_to_get(self) -> &'static str {
        match self {
            Self::Tidegate => "cargo build --release",
            Self::Floor => "cargo build --release -p tidegate-bench",
            Self::ObjectStore | Self::Opendal | Self::TransferManager => {
                "cargo build --release --manifest-path crates/tidegate-bench/peers/Cargo.toml --target-dir target/peers"
            }
            Self::S5cmd => "scripts/install python",
            Self::Rclone => "scripts/install rclone",
            Self::Mc => "scripts/install mc",
            Self::AwsCli | Self::Boto3 | Self::Crt | Self::Obstore => "scripts/install python-peers",
        }
    }

    /// The tool's version, if known: printed by the tool, pinned, or recorded by `scripts/install`.
    #[must_use]
    pub fn version(self, path: &Path) -> Option<String> {
        match self {
            Self::Tidegate => {
                let output = Command::new(path).arg("--version").stdin(Stdio::null()).output().ok()?;
                String::from_utf8(output.stdout).ok()?.split_whitespace().nth(1).map(str::to_owned)
            }
            Self::ObjectStore => Some("0.14.2".to_owned()),
            Self::Opendal => Some("0.59.5".to_owned()),
            Self::TransferManager => Some("0.3.1".to_owned()),
            // As in crates/tidegate-bench/peers/python/requirements.txt.
            Self::AwsCli => Some("1.46.2".to_owned()),
            Self::Boto3 => Some("1.44.5".to_owned()),
            Self::Crt => Some("(of boto3 1.44.5)".to_owned()),
            Self::Obstore => Some("0.12.1".to_owned()),
            Self::S5cmd | Self::Rclone | Self::Mc => {
                // The version that these tools print depends on how they were built.
                let stamps = path.parent()?.parent()?.join("stamps");
                version_in(&std::fs::read_to_string(stamps.join(path.file_name()?)).ok()?)
            }
            Self::Floor => None,
        }
    }
}

/// A tool that `scripts/install` built, in `.tools/bin`: of the current folder, of the folder where this
/// program was built, or of a folder above.
#[must_use]
pub fn installed(name: &str) -> Option<PathBuf> {
    in_tools(&format!("bin/{name}"))
}

/// The file at `path` in `.tools`.
fn in_tools(path: &str) -> Option<PathBuf> {
    let starts = [std::env::current_dir().ok(), std::env::current_exe().ok()];
    starts
        .iter()
        .flatten()
        .flat_map(|start| start.ancestors())
        .find_map(|folder| existing(folder.join(".tools").join(path)))
}

/// A program that cargo built beside this one.
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
