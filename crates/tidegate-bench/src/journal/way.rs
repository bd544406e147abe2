//! The ways that table B compares: our strategies, the bare stream, and Google's Java client.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use tidegate::Strategy;

use super::uploads::{How, JournalDestination, JournalLoad};
use crate::process::Program;
use crate::size::MIB;

/// The hidden subcommand of this program that runs [`Uploads`](super::uploads::Uploads).
pub const UPLOADS: &str = "uploads";

/// How the objects of a run are uploaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum JournalWay {
    Ours { how: How, chunk: Option<u64>, grpc: bool },
    Java { chunk: Option<u64> },
}

impl JournalWay {
    pub(super) const JOURNAL: Self =
        Self::Ours { how: How::Strategy(Strategy::Journal), chunk: None, grpc: false };
    pub(super) const STREAM: Self = Self::Ours { how: How::Stream, chunk: None, grpc: false };
    pub(super) const CHUNKED: [Self; 2] = [
        Self::Ours { how: How::Strategy(Strategy::Chunked), chunk: Some(16 * MIB), grpc: false },
        Self::Ours { how: How::Strategy(Strategy::Chunked), chunk: Some(64 * MIB), grpc: false },
    ];
    const SPOOL: Self = Self::Ours { how: How::Strategy(Strategy::Spool), chunk: None, grpc: false };
    pub(super) const ALL: [Self; 9] = [
        Self::CHUNKED[0],
        Self::CHUNKED[1],
        Self::SPOOL,
        Self::Ours { how: How::Strategy(Strategy::Parallel), chunk: None, grpc: false },
        Self::JOURNAL,
        Self::Ours { how: How::Strategy(Strategy::Journal), chunk: None, grpc: true },
        Self::STREAM,
        Self::Java { chunk: Some(16 * MIB) },
        Self::Java { chunk: None },
    ];

    pub(super) fn name(self) -> String {
        match self {
            Self::Ours { how: How::Stream, .. } => "(bare stream)".to_owned(),
            Self::Ours { how: How::Strategy(Strategy::Chunked), chunk, .. } => {
                format!("chunked, {} MiB", chunk.unwrap_or_default() / MIB)
            }
            Self::Ours { how, grpc, .. } => {
                format!("{}{}", how.name(), if grpc { ", gRPC" } else { "" })
            }
            Self::Java { chunk: Some(chunk) } => format!("Java: chunked, {} MiB", chunk / MIB),
            Self::Java { chunk: None } => "Java: journaling".to_owned(),
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

    /// Whether the way can upload to any store of this address: the bare stream and Google's client only upload
    /// to the embedded server.
    pub(super) fn goes_to(self, url: &str) -> bool {
        match self {
            Self::Ours { how: How::Strategy(_), grpc, .. } => !grpc || url.starts_with("gs:"),
            Self::Ours { how: How::Stream, .. } | Self::Java { .. } => false,
        }
    }

    /// The largest share of an object on disk, if the producer is ahead of its stream by the share `ahead`.
    pub(super) fn share_on_disk(self, ahead: f64) -> f64 {
        match self {
            // Google's client removes a journal only after its object is published.
            Self::Ours { how: How::Strategy(Strategy::Spool), .. } | Self::Java { chunk: None } => 1.0,
            // Our journal frees the space of uploaded bytes.
            Self::Ours { how: How::Strategy(Strategy::Journal), .. } => ahead,
            Self::Ours { .. } | Self::Java { .. } => 0.0,
        }
    }

    /// The program of this way, if it is built.
    pub(super) fn find(self) -> Option<PathBuf> {
        match self {
            Self::Ours { .. } => std::env::current_exe().ok(),
            Self::Java { .. } => folder().join("peer-gcs.jar").is_file().then(|| PathBuf::from("java")),
        }
    }

    /// The program with the arguments for this load; its journals or spools go to `scratch`.
    pub(super) fn program(self, path: &Path, load: &JournalLoad, scratch: &Path) -> Program {
        let JournalLoad { place: JournalDestination { store, url, bucket, prefix }, sizes, produce } = load;
        let mut program = Program::new(path);
        let (how, chunk, grpc) = match self {
            Self::Ours { how, chunk, grpc } => {
                program = program.arg(UPLOADS).arg("--store").arg(store);
                (how.name(), chunk, grpc)
            }
            Self::Java { chunk } => {
                // The default is a quarter of the machine's memory, which is not enough for 32 chunks of 64
                // MiB.
                program = program.arg("-Xmx8g").arg("-cp").arg(java()).arg("dev.tidegate.bench.PeerGcs");
                (if chunk.is_some() { "chunked" } else { "journal" }, chunk, false)
            }
        };
        let sizes: Vec<_> = sizes.iter().map(u64::to_string).collect();
        for (name, value) in [("--url", url), ("--bucket", bucket), ("--prefix", prefix)] {
            program = program.arg(name).arg(value);
        }
        program = program.arg("--how").arg(how).arg("--sizes").arg(sizes.join(","));
        program = program.arg("--produce").arg(produce.to_string());
        if let Some(chunk) = chunk {
            program = program.arg("--chunk").arg(chunk.to_string());
        }
        if grpc {
            program = program.arg("--grpc");
        }
        if !matches!(self, Self::Java { chunk: Some(_) }) {
            program = program.arg("--scratch").arg(scratch);
        }
        if url.is_empty() {
            program.is_elsewhere = true;
            return program;
        }
        program
            .variables([("STORAGE_EMULATOR_HOST", url.clone()), ("STORAGE_EMULATOR_HOST_GRPC", url.clone())])
    }
}

/// The class path of the Java client, once it is built.
fn java() -> OsString {
    let mut path = folder().join("peer-gcs.jar").into_os_string();
    path.push(":");
    path.push(folder().join("lib/*"));
    path
}

fn folder() -> PathBuf {
    let built = std::env::current_exe().ok().and_then(|exe| Some(exe.parent()?.parent()?.join("peers/java")));
    built.unwrap_or_default()
}
