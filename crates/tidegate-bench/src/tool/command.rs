//! Builds the command line of each tool.

use std::ffi::OsString;
use std::path::Path;

use super::{Tool, TransferSource, Tuning};
use crate::embedded::StoreEndpoint;
use crate::process::Program;

impl Tool {
    /// The command that uploads `source` below `prefix`, without the name of a directory itself; or downloads
    /// everything below `prefix` into the tool's own file or directory.
    #[must_use]
    pub fn program(
        self,
        path: &Path,
        source: &TransferSource,
        endpoint: &StoreEndpoint,
        prefix: &str,
        tuning: Option<Tuning>,
    ) -> Program {
        let words = tuning.and_then(|tuning| self.words(source, tuning)).unwrap_or_default();
        let mut program = Program::new(path).variables(self.variables(endpoint)).variables(words.variables);
        if self == Self::S5cmd {
            program = program.arg("--endpoint-url").arg(&endpoint.url);
        }
        program = words.first.into_iter().fold(program, Program::arg);
        program = self.verb(source).iter().fold(program, Program::arg);
        program = words.own.into_iter().fold(program, Program::arg);
        if matches!(self, Self::Boto3 | Self::Crt | Self::Obstore) {
            let script = concat!(env!("CARGO_MANIFEST_DIR"), "/peers/python/peer.py");
            program = program.arg(script).arg(self.name());
        }
        if let TransferSource::Pipe(file) = source {
            program.stdin = Some(file.clone());
        }
        let [from, to] = self.places(source, endpoint.bucket, prefix);
        from.into_iter().chain(to).fold(program, Program::arg)
    }

    /// The tool's subcommand.
    fn verb(self, source: &TransferSource) -> &'static [&'static str] {
        let is_pipe = matches!(source, TransferSource::Pipe(_));
        let is_tree = matches!(source, TransferSource::Directory(_) | TransferSource::Objects { .. });
        match self {
            Self::Tidegate if is_tree => &["cp", "-r"],
            Self::S5cmd | Self::Mc if is_pipe => &["pipe"],
            Self::Tidegate | Self::S5cmd => &["cp"],
            Self::Rclone if is_pipe => &["rcat"],
            Self::Rclone if is_tree => &["copy"],
            Self::Rclone => &["copyto"],
            Self::Mc if is_tree => &["cp", "--recursive"],
            Self::Mc => &["cp"],
            Self::AwsCli if is_tree => &["s3", "cp", "--recursive"],
            Self::AwsCli => &["s3", "cp"],
            Self::Boto3
            | Self::Crt
            | Self::Obstore
            | Self::ObjectStore
            | Self::Opendal
            | Self::TransferManager
            | Self::Floor => &[],
        }
    }

    /// The arguments for source and destination.
    fn places(self, source: &TransferSource, bucket: &str, prefix: &str) -> [Option<OsString>; 2] {
        let scheme = match self {
            Self::Rclone => "bench:",
            Self::Mc => "bench/",
            _ => "s3://",
        };
        let url = OsString::from(format!("{scheme}{bucket}/{prefix}"));
        let object = OsString::from(format!("{scheme}{bucket}/{prefix}object"));
        let [from, to] = match source {
            TransferSource::File(file) => [file.into(), object],
            TransferSource::Pipe(_) => {
                let from = match self {
                    // These subcommands take no source argument.
                    Self::S5cmd | Self::Rclone | Self::Mc => return [None, Some(object)],
                    Self::Tidegate | Self::AwsCli | Self::Boto3 | Self::Crt | Self::Obstore => "-",
                    Self::ObjectStore | Self::Opendal | Self::TransferManager | Self::Floor => "/dev/stdin",
                };
                [from.into(), object]
            }
            // Rclone always copies the contents of a directory, the others only if its name ends in a slash.
            TransferSource::Directory(directory) if self == Self::Rclone => [directory.into(), url],
            TransferSource::Directory(directory) => [directory.join("").into(), url],
            TransferSource::Object { into, .. } => [object, into.join(self.file_name()).into()],
            TransferSource::Objects { into, .. } => {
                let from =
                    if self == Self::S5cmd { format!("{scheme}{bucket}/{prefix}*").into() } else { url };
                [from, into.join(self.file_name()).join("").into()]
            }
        };
        [Some(from), Some(to)]
    }

    fn variables(self, endpoint: &StoreEndpoint) -> Vec<(&'static str, String)> {
        let (signer, of) = (&endpoint.signer, |name, value: &str| (name, value.to_owned()));
        let mut variables = endpoint.variables();
        if self == Self::Mc {
            let (scheme, address) = endpoint.url.split_once("://").unwrap_or(("http", &endpoint.url));
            let (key, secret) = (&signer.access_key, &signer.secret_key);
            variables.push(("MC_HOST_bench", format!("{scheme}://{key}:{secret}@{address}")));
        }
        if self == Self::Rclone {
            variables.extend([
                of("RCLONE_CONFIG", "/dev/null"),
                of("RCLONE_CONFIG_BENCH_TYPE", "s3"),
                of("RCLONE_CONFIG_BENCH_PROVIDER", "Other"),
                of("RCLONE_CONFIG_BENCH_ENDPOINT", &endpoint.url),
                of("RCLONE_CONFIG_BENCH_ACCESS_KEY_ID", &signer.access_key),
                of("RCLONE_CONFIG_BENCH_SECRET_ACCESS_KEY", &signer.secret_key),
                of("RCLONE_CONFIG_BENCH_REGION", &signer.region),
            ]);
        }
        variables
    }
}
