//! The options of every command that transfers objects.

use tidegate::checksum::Algorithm;
use tidegate::location::Location;
use tidegate::settings::{Concurrency, RetryPolicy};
use tidegate::{Tidegate, TidegateBuilder};

use super::choices::{Hedge, ProgressChoice};
use crate::exit::Outcome;
use crate::invocation::Invocation;
use crate::options::{ConnectionOptions, Owners, SourceOptions};
use crate::stores::Stores;
use crate::ui::bar;
use crate::ui::report::CopyDisplay;
use crate::values;

/// How objects are transferred, and what is shown of it.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "How objects are transferred")]
pub(crate) struct TransferOptions {
    /// Upload in parts of this size, from 5MiB to 5GiB. Parts grow for very large objects. Default: 16MiB; 8MiB with
    /// a journal; less for a file of up to 64MiB, and for a pipe that waits for memory.
    #[arg(long, value_parser = values::size_above_zero, value_name = "SIZE")]
    part_size: Option<u64>,

    /// Allow this many requests in flight. With auto, the number adapts. Of a tree, 64 objects are in flight, or a
    /// quarter more than requests (up to 1024, but 64 with a journal).
    #[arg(long, default_value = "auto", value_parser = values::concurrency, value_name = "N")]
    concurrency: Concurrency,

    /// Move at most this many bytes a second, such as 50MB/s. It holds for uploads and downloads of this command
    /// together, spread evenly over time. Copies from disk to disk and copies inside a store are not limited. A part
    /// is then never sent again because it is slow.
    #[arg(long, value_parser = values::rate_above_zero, value_name = "RATE")]
    bandwidth: Option<u64>,

    /// Send each request at most this many times, from 1. Failures that may pass are retried.
    #[arg(long, default_value_t = RetryPolicy::default().attempts, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    attempts: u32,

    /// Send very slow parts again. A part is hedged if it is far slower than its peers; at most one in twenty is, and
    /// none while the store throttles.
    #[arg(long, value_enum, default_value_t, value_name = "WHEN")]
    hedge: Hedge,

    /// Hold at most this many bytes in buffers. The limit is for all transfers together.
    #[arg(long, default_value = "256MiB", value_parser = values::memory, value_name = "SIZE")]
    memory: u64,

    /// Choose how progress is shown. Notices are printed in any case: see --quiet.
    #[arg(long, value_enum, default_value_t, value_name = "WHEN", help_heading = "Output")]
    progress: ProgressChoice,

    #[command(flatten)]
    owners: Owners,

    #[command(flatten)]
    connection: ConnectionOptions,

    #[command(flatten)]
    source: SourceOptions,
}

impl TransferOptions {
    /// An engine with these settings, which computes and sends this checksum.
    pub(crate) fn engine(&self, checksum: Algorithm) -> TidegateBuilder {
        let mut retry = self.connection.retry();
        retry.attempts = self.attempts;
        let engine = self
            .owners
            .trusted(Tidegate::builder())
            .memory(self.memory)
            .retry(retry)
            .concurrency(self.concurrency)
            .hedge(self.hedge == Hedge::On)
            .s3(self.connection.settings_with(checksum))
            .gcs(self.connection.gcs_settings())
            .azure(self.connection.azure_settings());
        let engine = match self.bandwidth {
            Some(bytes_per_second) => engine.bandwidth(bytes_per_second),
            None => engine,
        };
        match self.part_size {
            Some(bytes) => engine.part_size(bytes),
            None => engine,
        }
    }

    /// Makes `stores` reach the sources by their own options, if any are given. `reads_input`: a source is standard
    /// input.
    pub(crate) fn reach_source(&self, stores: &Stores, sources: &[&Location], reads_input: bool) -> Outcome {
        self.source.reach(stores, &self.connection, sources, reads_input)
    }

    /// What to show; `to_terminal` says that the objects themselves go to a terminal, where a bar would mix with them.
    pub(crate) fn display(&self, invocation: &Invocation, to_terminal: bool) -> CopyDisplay {
        match self.progress {
            _ if invocation.is_json() || invocation.is_quiet() => CopyDisplay::Nothing,
            ProgressChoice::Never => CopyDisplay::Nothing,
            ProgressChoice::Auto if to_terminal => CopyDisplay::Nothing,
            // The lines of -v would mix with a bar.
            ProgressChoice::Auto if invocation.is_verbose() => CopyDisplay::Line,
            ProgressChoice::Auto if bar::is_terminal(std::io::stderr()) => CopyDisplay::Bar,
            ProgressChoice::Auto => CopyDisplay::Line,
        }
    }
}
