//! Settings other than the defaults: the size of parts, and the number of parts in flight.

use std::fmt;

use super::{Tool, TransferSource};
use crate::peer::{AT_ONCE, PART_MIB};

/// A part size, and the number of parts in flight; for many small files or objects, the number of files in
/// flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tuning {
    /// MiB of a part.
    pub part_mib: u64,
    /// Parts in flight.
    pub at_once: u64,
}

impl fmt::Display for Tuning {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} × {} MiB", self.at_once, self.part_mib)
    }
}

/// A tool's options for a tuning.
#[derive(Debug, Default)]
pub(super) struct Words {
    /// Options before the subcommand.
    pub(super) first: Vec<String>,
    /// Options after the subcommand.
    pub(super) own: Vec<String>,
    pub(super) variables: Vec<(&'static str, String)>,
}

impl Words {
    fn own<const N: usize>(words: [&str; N]) -> Self {
        Self { own: words.map(str::to_owned).into(), ..Self::default() }
    }

    fn variables<const N: usize>(variables: [(&'static str, String); N]) -> Self {
        Self { variables: variables.into(), ..Self::default() }
    }
}

impl Tuning {
    fn all(source: &TransferSource) -> &'static [Self] {
        const fn of(at_once: u64, part_mib: u64) -> Tuning {
            Tuning { part_mib, at_once }
        }
        match source {
            TransferSource::Directory(_) | TransferSource::Objects { .. } => {
                const { &[of(8, 8), of(32, 8), of(64, 8), of(128, 8)] }
            }
            TransferSource::File(_) | TransferSource::Pipe(_) | TransferSource::Object { .. } => {
                const { &[of(4, 64), of(8, 16), of(16, 8), of(32, 16), of(64, 16)] }
            }
        }
    }
}

impl Tool {
    /// The settings to try beside a tool's defaults: those that the tool has options for, without duplicates
    /// among the options.
    #[must_use]
    pub fn tried(self, source: &TransferSource) -> Vec<Tuning> {
        let mut tried: Vec<(String, Tuning)> = Vec::new();
        for tuning in Tuning::all(source) {
            if let Some(told) = self.told(source, *tuning)
                && tried.iter().all(|(other, _)| *other != told)
            {
                tried.push((told, *tuning));
            }
        }
        tried.into_iter().map(|(_, tuning)| tuning).collect()
    }

    /// The tool's options for a tuning: arguments, variables, or lines of a configuration file.
    #[must_use]
    pub fn told(self, source: &TransferSource, tuning: Tuning) -> Option<String> {
        if let Some(configuration) = self.configuration(tuning) {
            let lines = configuration.lines().map(str::trim).filter(|line| line.contains(" = "));
            return Some(lines.collect::<Vec<_>>().join(", "));
        }
        let Words { first, own, variables } = self.words(source, tuning)?;
        let variables = variables.into_iter().map(|(name, value)| format!("{name}={value}"));
        Some(first.into_iter().chain(own).chain(variables).collect::<Vec<_>>().join(" "))
    }

    /// The configuration file for a tuning, if the tool needs one.
    #[must_use]
    pub fn configuration(self, tuning: Tuning) -> Option<String> {
        let Tuning { part_mib, at_once } = tuning;
        (self == Self::AwsCli).then(|| {
            format!("[default]\ns3 =\n  max_concurrent_requests = {at_once}\n  multipart_chunksize = {part_mib}MB\n")
        })
    }

    pub(super) fn words(self, source: &TransferSource, tuning: Tuning) -> Option<Words> {
        let is_tree = matches!(source, TransferSource::Directory(_) | TransferSource::Objects { .. });
        let part = tuning.part_mib.to_string();
        let at_once = tuning.at_once.to_string();
        Some(match self {
            Self::Tidegate => Words::own(["--part-size", &format!("{part}MiB"), "--concurrency", &at_once]),
            Self::S5cmd if is_tree => {
                Words { first: vec!["--numworkers".to_owned(), at_once], ..Words::default() }
            }
            Self::S5cmd => Words::own(["--part-size", &part, "--concurrency", &at_once]),
            Self::Rclone if is_tree => Words::own(["--transfers", &at_once, "--checkers", &at_once]),
            Self::Rclone if matches!(source, TransferSource::Object { .. }) => {
                let part = format!("{part}Mi");
                Words::own(["--multi-thread-streams", &at_once, "--multi-thread-chunk-size", &part])
            }
            Self::Rclone => {
                let part = format!("{part}Mi");
                Words::own(["--s3-upload-concurrency", &at_once, "--s3-chunk-size", &part])
            }
            Self::Mc if matches!(source, TransferSource::Pipe(_)) => {
                Words::own(["--concurrent", &at_once, "--part-size", &format!("{part}MiB")])
            }
            Self::Mc if matches!(source, TransferSource::File(_)) => Words::variables([
                ("MC_UPLOAD_MULTIPART_SIZE", format!("{part}MiB")),
                ("MC_UPLOAD_MULTIPART_THREADS", at_once),
            ]),
            Self::Crt => Words::variables([(PART_MIB, part)]),
            Self::Boto3
            | Self::Obstore
            | Self::ObjectStore
            | Self::Opendal
            | Self::TransferManager
            | Self::Floor => Words::variables([(PART_MIB, part), (AT_ONCE, at_once)]),
            Self::Mc | Self::AwsCli => return None,
        })
    }
}
