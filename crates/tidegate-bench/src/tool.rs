//! The tools: how each is found, called and told where the store is.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::embedded::Endpoint;
use crate::process::Program;

/// A program that uploads.
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

/// What is uploaded.
#[derive(Clone, Debug)]
pub enum Source {
    /// One file.
    File(PathBuf),
    /// All files in a directory.
    Directory(PathBuf),
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

    /// The command that uploads `source` below `prefix`, without a directory's own name.
    #[must_use]
    pub fn program(self, path: &Path, source: &Source, endpoint: &Endpoint, prefix: &str) -> Program {
        let url = format!("s3://{}/{prefix}", endpoint.bucket);
        let program = Program::new(path).variables(self.variables(endpoint));
        match (self, source) {
            (Self::Tidegate, Source::File(file)) => program.arg("cp").arg(file).arg(format!("{url}object")),
            (Self::Tidegate, Source::Directory(directory)) => {
                program.arg("cp").arg("-r").arg(with_slash(directory)).arg(url)
            }
            (Self::S5cmd, source) => {
                let program = program.arg("--endpoint-url").arg(&endpoint.url).arg("cp");
                match source {
                    Source::File(file) => program.arg(file).arg(format!("{url}object")),
                    Source::Directory(directory) => program.arg(with_slash(directory)).arg(url),
                }
            }
            (Self::Rclone, source) => {
                let url = format!("bench:{}/{prefix}", endpoint.bucket);
                match source {
                    Source::File(file) => program.arg("copyto").arg(file).arg(format!("{url}object")),
                    Source::Directory(directory) => program.arg("copy").arg(directory).arg(url),
                }
            }
            (_, Source::File(file) | Source::Directory(file)) => {
                program.arg(file).arg(format!("{url}object"))
            }
        }
    }

    fn variables(self, endpoint: &Endpoint) -> Vec<(&'static str, String)> {
        let signer = &endpoint.signer;
        let named = |url, key, secret, region| {
            vec![
                (url, endpoint.url.clone()),
                (key, signer.access_key.clone()),
                (secret, signer.secret_key.clone()),
                (region, signer.region.clone()),
            ]
        };
        if self == Self::Rclone {
            let of = |name, value: &str| (name, value.to_owned());
            let mut variables = named(
                "RCLONE_CONFIG_BENCH_ENDPOINT",
                "RCLONE_CONFIG_BENCH_ACCESS_KEY_ID",
                "RCLONE_CONFIG_BENCH_SECRET_ACCESS_KEY",
                "RCLONE_CONFIG_BENCH_REGION",
            );
            variables.extend([
                of("RCLONE_CONFIG", "/dev/null"),
                of("RCLONE_CONFIG_BENCH_TYPE", "s3"),
                of("RCLONE_CONFIG_BENCH_PROVIDER", "Other"),
            ]);
            return variables;
        }
        named("AWS_ENDPOINT_URL", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_REGION")
    }

    /// Every setting that it runs with, default or not.
    #[must_use]
    pub fn settings(self, source: &Source) -> &'static str {
        let tree = matches!(source, Source::Directory(_));
        match self {
            Self::Tidegate if tree => "`tidegate cp -r DIR/ URL`, defaults (CRC64NVME of every object)",
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
            Self::S5cmd if tree => "`s5cmd --endpoint-url … cp DIR/ URL`, defaults (256 workers)",
            Self::S5cmd => "`s5cmd --endpoint-url … cp FILE URL`, defaults (50 MiB parts, 5 at once)",
            Self::Rclone if tree => {
                "`rclone copy DIR URL`, defaults (4 transfers, 8 checkers), provider Other"
            }
            Self::Rclone => "`rclone copyto FILE URL`, defaults (5 MiB parts, 4 at once), provider Other",
            Self::Floor => {
                "8 threads, one connection each, pread into a reused buffer of 256 KiB and write: one PUT an object \
                 of 16 MiB, payload not signed, no checksum, no retry, nothing published as a whole"
            }
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

fn with_slash(directory: &Path) -> PathBuf {
    directory.join("")
}

/// The version in `MODULE@vVERSION PACKAGE`.
fn version_in(stamp: &str) -> Option<String> {
    let (_, version) = stamp.split_once("@v")?;
    version.split_whitespace().next().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sign::Signer;

    fn line(tool: Tool, source: &Source) -> (String, Vec<(String, String)>) {
        let signer =
            Signer { access_key: "k".to_owned(), secret_key: "s".to_owned(), region: "r".to_owned() };
        let endpoint = Endpoint { url: "http://h:1".to_owned(), signer, bucket: "b" };
        let program = tool.program(Path::new("/x"), source, &endpoint, "p/");
        let words: Vec<_> = program.arguments.iter().map(|word| word.to_string_lossy()).collect();
        (words.join(" "), program.variables.clone())
    }

    #[test]
    fn a_file_goes_to_a_key() {
        let file = Source::File("/f".into());
        assert_eq!(line(Tool::Tidegate, &file).0, "cp /f s3://b/p/object");
        assert_eq!(line(Tool::S5cmd, &file).0, "--endpoint-url http://h:1 cp /f s3://b/p/object");
        assert_eq!(line(Tool::Rclone, &file).0, "copyto /f bench:b/p/object");
        assert_eq!(line(Tool::ObjectStore, &file).0, "/f s3://b/p/object");
    }

    #[test]
    fn a_directory_goes_below_a_prefix() {
        let directory = Source::Directory("/d".into());
        assert_eq!(line(Tool::Tidegate, &directory).0, "cp -r /d/ s3://b/p/");
        assert_eq!(line(Tool::S5cmd, &directory).0, "--endpoint-url http://h:1 cp /d/ s3://b/p/");
        assert_eq!(line(Tool::Rclone, &directory).0, "copy /d bench:b/p/");
    }

    #[test]
    fn each_is_told_where_in_its_own_words() {
        let file = Source::File("/f".into());
        let told = |tool, name: &str| {
            line(tool, &file).1.into_iter().find(|(found, _)| found == name).map(|(_, v)| v)
        };
        assert_eq!(told(Tool::Tidegate, "AWS_ENDPOINT_URL").as_deref(), Some("http://h:1"));
        assert_eq!(told(Tool::Rclone, "RCLONE_CONFIG_BENCH_ENDPOINT").as_deref(), Some("http://h:1"));
        assert_eq!(told(Tool::Rclone, "RCLONE_CONFIG_BENCH_PROVIDER").as_deref(), Some("Other"));
        assert_eq!(told(Tool::Rclone, "AWS_ENDPOINT_URL"), None);
    }

    #[test]
    fn versions_are_found() {
        assert_eq!(version_in("host/path/v2@v2.3.0 .\n").as_deref(), Some("2.3.0"));
        assert_eq!(version_in("nothing"), None);
    }
}
