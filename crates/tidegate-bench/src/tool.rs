//! The tools: how each is found, called and told where the store is.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::embedded::Endpoint;
use crate::process::Program;

mod settings;

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
    /// MinIO's client.
    Mc,
    /// AWS's command line, version 1.
    AwsCli,
    /// AWS's library for Python, with its own threads.
    Boto3,
    /// The same over AWS's common runtime in C.
    Boto3Crt,
    /// object_store as a Python library.
    Obstore,
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
    /// The bytes of a file through a pipe, into the store.
    Pipe(PathBuf),
    /// One object below [`OBJECT`], out of the store into a file of the tool's own.
    Object {
        /// A file with the same bytes.
        original: PathBuf,
        /// The folder that the tool's file is in.
        into: PathBuf,
    },
}

impl Tool {
    /// All of them, ours first and the floor last.
    pub const ALL: [Self; 11] = [
        Self::Tidegate,
        Self::ObjectStore,
        Self::TransferManager,
        Self::S5cmd,
        Self::Rclone,
        Self::Mc,
        Self::AwsCli,
        Self::Boto3,
        Self::Boto3Crt,
        Self::Obstore,
        Self::Floor,
    ];

    /// What it is called in a table.
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
            Self::Boto3Crt => "boto3-crt",
            Self::Obstore => "obstore",
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
            Self::Mc => installed("mc"),
            Self::AwsCli => in_tools("peers/bin/aws"),
            Self::Boto3 | Self::Boto3Crt | Self::Obstore => in_tools("peers/bin/python3"),
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
            Self::Mc => "scripts/install mc",
            Self::AwsCli | Self::Boto3 | Self::Boto3Crt | Self::Obstore => "scripts/install python-peers",
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
            // As crates/tidegate-bench/peers/python/requirements.txt has them.
            Self::AwsCli => Some("1.46.2".to_owned()),
            Self::Boto3 | Self::Boto3Crt => Some("1.44.5".to_owned()),
            Self::Obstore => Some("0.12.1".to_owned()),
            Self::S5cmd | Self::Rclone | Self::Mc => {
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
        let scheme = match self {
            Self::Rclone => "bench:",
            Self::Mc => "bench/",
            _ => "s3://",
        };
        let url = OsString::from(format!("{scheme}{}/{prefix}", endpoint.bucket));
        let object = OsString::from(format!("{scheme}{}/{prefix}object", endpoint.bucket));
        let [from, to] = match source {
            Source::File(file) => [file.into(), object],
            Source::Pipe(file) => {
                program.stdin = Some(file.clone());
                // Some have a word for it that takes no name of a source.
                let words: &[&str] = match self {
                    Self::Tidegate => &["cp", "-"],
                    Self::S5cmd => &["--endpoint-url", &endpoint.url, "pipe"],
                    Self::Rclone => &["rcat"],
                    Self::Mc => &["pipe"],
                    Self::AwsCli => &["s3", "cp", "-"],
                    Self::Boto3 | Self::Boto3Crt | Self::Obstore => {
                        return self.python(program).arg("-").arg(object);
                    }
                    Self::ObjectStore | Self::TransferManager | Self::Floor => &["/dev/stdin"],
                };
                return words.iter().fold(program, |program, word| program.arg(word)).arg(object);
            }
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
            Self::Mc if is_tree => &["cp", "--recursive"],
            Self::Mc => &["cp"],
            Self::AwsCli if is_tree => &["s3", "cp", "--recursive"],
            Self::AwsCli => &["s3", "cp"],
            Self::Boto3 | Self::Boto3Crt | Self::Obstore => {
                program = self.python(program);
                &[]
            }
            Self::ObjectStore | Self::TransferManager | Self::Floor => &[],
        };
        for word in words {
            program = program.arg(word);
        }
        program.arg(from).arg(to)
    }

    /// The script that calls a Python library.
    fn python(self, program: Program) -> Program {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/peers/python/peer.py");
        program.arg(script).arg(self.name())
    }

    fn variables(self, endpoint: &Endpoint) -> Vec<(&'static str, String)> {
        let (signer, of) = (&endpoint.signer, |name, value: &str| (name, value.to_owned()));
        if self == Self::Mc {
            let address = endpoint.url.trim_start_matches("http://");
            let (key, secret) = (&signer.access_key, &signer.secret_key);
            return vec![("MC_HOST_bench", format!("http://{key}:{secret}@{address}"))];
        }
        if self != Self::Rclone {
            return endpoint.variables().to_vec();
        }
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
}

/// A tool that `scripts/install` built: in `.tools/bin` of the folder that this is run in or was built in, or above.
#[must_use]
pub fn installed(name: &str) -> Option<PathBuf> {
    in_tools(&format!("bin/{name}"))
}

/// What lies at `path` in `.tools`.
fn in_tools(path: &str) -> Option<PathBuf> {
    let starts = [std::env::current_dir().ok(), std::env::current_exe().ok()];
    starts
        .iter()
        .flatten()
        .flat_map(|start| start.ancestors())
        .find_map(|folder| existing(folder.join(".tools").join(path)))
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
