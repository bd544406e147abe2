//! The ways that table B compares: our strategies, and the bare stream.

use std::path::Path;

use tidegate::Strategy;

use super::uploads::{How, JournalDestination, JournalLoad};
use crate::process::Program;
use crate::size::MIB;

/// The hidden subcommand of this program that runs [`Uploads`](super::uploads::Uploads).
pub const UPLOADS: &str = "uploads";

/// How the objects of a run are uploaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct JournalWay {
    how: How,
    chunk: Option<u64>,
    grpc: bool,
}

impl JournalWay {
    pub(super) const JOURNAL: Self = Self { how: How::Strategy(Strategy::Journal), chunk: None, grpc: false };
    pub(super) const STREAM: Self = Self { how: How::Stream, chunk: None, grpc: false };
    pub(super) const CHUNKED: [Self; 2] = [
        Self { how: How::Strategy(Strategy::Chunked), chunk: Some(16 * MIB), grpc: false },
        Self { how: How::Strategy(Strategy::Chunked), chunk: Some(64 * MIB), grpc: false },
    ];
    const SPOOL: Self = Self { how: How::Strategy(Strategy::Spool), chunk: None, grpc: false };
    pub(super) const ALL: [Self; 7] = [
        Self::CHUNKED[0],
        Self::CHUNKED[1],
        Self::SPOOL,
        Self { how: How::Strategy(Strategy::Parallel), chunk: None, grpc: false },
        Self::JOURNAL,
        Self { how: How::Strategy(Strategy::Journal), chunk: None, grpc: true },
        Self::STREAM,
    ];

    pub(super) fn name(self) -> String {
        match self {
            Self { how: How::Stream, .. } => "(bare stream)".to_owned(),
            Self { how: How::Strategy(Strategy::Chunked), chunk, .. } => {
                format!("chunked, {} MiB", chunk.unwrap_or_default() / MIB)
            }
            Self { how, grpc, .. } => format!("{}{}", how.name(), if grpc { ", gRPC" } else { "" }),
        }
    }

    /// Whether the way's name begins with `word`, not counting a bracket in front.
    pub(super) fn begins_with(self, word: &str) -> bool {
        self.name().trim_start_matches('(').starts_with(word)
    }

    /// The published mean in MiB/s with this number of threads.
    pub(super) fn published(self, threads: u32) -> Option<f64> {
        let [one, many] = match self {
            way if way == Self::CHUNKED[0] => [79.941, 72.923],
            way if way == Self::CHUNKED[1] => [100.410, 93.151],
            way if way == Self::SPOOL => [104.728, 89.134],
            Self::JOURNAL => [125.820, 104.557],
            _ => return None,
        };
        match threads {
            1 => Some(one),
            32 => Some(many),
            _ => None,
        }
    }

    /// Whether the way can upload to any store of this address: the bare stream only uploads to the embedded
    /// server.
    pub(super) fn goes_to(self, url: &str) -> bool {
        matches!(self.how, How::Strategy(_)) && (!self.grpc || url.starts_with("gs:"))
    }

    /// The largest share of an object on disk, if the producer is ahead of its stream by the share `ahead`.
    pub(super) fn share_on_disk(self, ahead: f64) -> f64 {
        match self.how {
            How::Strategy(Strategy::Spool) => 1.0,
            // The journal frees the space of uploaded bytes.
            How::Strategy(Strategy::Journal) => ahead,
            _ => 0.0,
        }
    }

    /// This program with the arguments for this load; its journals or spools go to `scratch`.
    pub(super) fn program(self, path: &Path, load: &JournalLoad, scratch: &Path) -> Program {
        let JournalLoad { place: JournalDestination { store, url, bucket, prefix }, sizes, produce } = load;
        let mut program = Program::new(path).arg(UPLOADS).arg("--store").arg(store);
        let sizes: Vec<_> = sizes.iter().map(u64::to_string).collect();
        for (name, value) in [("--url", url), ("--bucket", bucket), ("--prefix", prefix)] {
            program = program.arg(name).arg(value);
        }
        program = program.arg("--how").arg(self.how.name()).arg("--sizes").arg(sizes.join(","));
        program = program.arg("--produce").arg(produce.to_string());
        if let Some(chunk) = self.chunk {
            program = program.arg("--chunk").arg(chunk.to_string());
        }
        if self.grpc {
            program = program.arg("--grpc");
        }
        program = program.arg("--scratch").arg(scratch);
        if url.is_empty() {
            program.is_elsewhere = true;
            return program;
        }
        program
            .variables([("STORAGE_EMULATOR_HOST", url.clone()), ("STORAGE_EMULATOR_HOST_GRPC", url.clone())])
    }
}
