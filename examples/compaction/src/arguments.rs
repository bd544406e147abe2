//! Parses the command line.

use clap::{Args, Parser, Subcommand, value_parser};
use compaction::TableWay;
use compaction::build::EntryParameters;

const AFTER_HELP: &str = "\
Locations are those of tidegate: s3://BUCKET/PREFIX, gs://BUCKET/PREFIX, a directory; credentials, region
and endpoint are taken from where every S3 user has them (AWS_ACCESS_KEY_ID, AWS_ENDPOINT_URL, ...).

Each command prints one JSON object: what was read and written, seconds, the most memory it had.

Exit codes: 0 done; 1 failed, and what had been written is removed; 2 the command line is wrong;
130 ended by Ctrl-C, and what had been written is removed.

  compaction build s3://bucket/l0/ --runs 16 --run-size 512MiB
  compaction compact s3://bucket/l0/ s3://bucket/l1/ --table-size 64MiB --memory 64MiB";

/// Sorted tables in an object store, and their compaction in constant memory: an example of Tidegate.
#[derive(Debug, Parser)]
#[command(name = "compaction", version, after_help = AFTER_HELP, max_term_width = 100)]
pub(crate) struct CompactionCommandLine {
    #[command(subcommand)]
    pub(crate) command: CompactionCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum CompactionCommand {
    Build(BuildArgs),
    Compact(CompactArgs),
}

/// Make sorted runs of tables from made-up entries.
///
/// The runs have different keys from one key space, with some keys in several runs. Each run is newer than the
/// one before.
#[derive(Debug, Args)]
pub(crate) struct BuildArgs {
    /// Where the tables go, as run-SEQUENCE-NUMBER.table.
    pub(crate) to: String,

    /// Number of runs.
    #[arg(long, default_value_t = 1, value_parser = value_parser!(u32).range(1..=100_000))]
    pub(crate) runs: u32,

    /// Bytes of each run; its last entry may exceed it.
    #[arg(long, default_value = "64MiB", value_name = "SIZE", value_parser = size)]
    run_size: u64,

    /// Close a table when it has reached this size; default: one table per run.
    #[arg(long, value_name = "SIZE", value_parser = size)]
    table_size: Option<u64>,

    /// Bytes of a value.
    #[arg(long, default_value = "256", value_name = "SIZE", value_parser = size)]
    value: u64,

    /// Average distance between neighbouring keys; one in this many keys of a run is also in another run.
    #[arg(long, default_value_t = 16, value_parser = value_parser!(u64).range(1..=1_000_000))]
    apart: u64,

    /// Percentage of entries that are tombstones.
    #[arg(long, default_value_t = 5, value_name = "PERCENT", value_parser = value_parser!(u32).range(0..=100))]
    tombstones: u32,

    /// Sequence of the first run; each further run has the next number, and is newer.
    #[arg(long, default_value_t = 1)]
    sequence: u64,

    /// Seed of the random numbers.
    #[arg(long, default_value_t = 1)]
    seed: u64,

    #[command(flatten)]
    pub(crate) shape: TableArgs,

    #[command(flatten)]
    pub(crate) engine: EngineArgs,
}

impl BuildArgs {
    /// The shape of the tables of one run.
    pub(crate) fn shape_of(&self, run: u32) -> compaction::outputs::SeriesParameters {
        let sequence = self.sequence + u64::from(run);
        compaction::outputs::SeriesParameters {
            capacity: self.table_size.unwrap_or(u64::MAX),
            block_size: self.shape.block_size as usize,
            sequence,
            stem: format!("run-{sequence:06}-"),
        }
    }

    /// The parameters for the entries of one run.
    pub(crate) fn made(&self, run: u32) -> EntryParameters {
        EntryParameters {
            size: self.run_size,
            value: self.value as usize,
            apart: self.apart,
            tombstones: self.tombstones,
            seed: self.seed.wrapping_add(u64::from(run)),
        }
    }
}

/// Merge tables into new ones.
///
/// Of each key the newest entry is kept, according to its table's sequence. A tombstone is dropped if no older
/// table outside the merge can have its key. The inputs stay; the user decides which tables count.
#[derive(Debug, Args)]
pub(crate) struct CompactArgs {
    /// Where the tables are: every object there whose key ends with .table belongs to the same database.
    pub(crate) from: String,

    /// Where the outputs go, as merged-SEQUENCE-NUMBER.table; an output never replaces an object.
    pub(crate) to: String,

    /// Merge only this table, by its key below FROM; repeat for each further table. Default: all.
    #[arg(long, value_name = "KEY")]
    pub(crate) table: Vec<String>,

    /// Close a table when it has reached this size.
    #[arg(long, default_value = "64MiB", value_name = "SIZE", value_parser = size)]
    pub(crate) table_size: u64,

    #[command(flatten)]
    pub(crate) shape: TableArgs,

    #[command(flatten)]
    pub(crate) engine: EngineArgs,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Tables")]
pub(crate) struct TableArgs {
    /// Close a block when it has reached this size.
    #[arg(long, default_value = "64KiB", value_name = "SIZE", value_parser = block_size)]
    pub(crate) block_size: u64,

    /// How tables are built and uploaded. In all ways but `streamed`, `compact` reads its inputs whole into
    /// memory.
    #[arg(long, value_enum, default_value_t)]
    pub(crate) way: TableWay,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Engine")]
pub(crate) struct EngineArgs {
    /// The memory budget for bytes read ahead and bytes on their way to the store. Tables held whole in memory
    /// come on top.
    #[arg(long, default_value = "64MiB", value_name = "SIZE", value_parser = memory)]
    pub(crate) memory: u64,

    /// Size of an uploaded part; default: chosen by Tidegate.
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub(crate) part_size: Option<u64>,
}

/// Parses a size in bytes, with units that are powers of 1024; at least one byte.
fn size(text: &str) -> Result<u64, String> {
    let wrong = || format!("{text}: write a size such as 64KiB, 16MiB or 1GiB");
    let unit_at = text.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(unit_at);
    let shift = match unit {
        "" | "B" => 0,
        "KiB" => 10,
        "MiB" => 20,
        "GiB" => 30,
        "TiB" => 40,
        _ => return Err(wrong()),
    };
    let size = number.parse::<u64>().ok().and_then(|number| number.checked_mul(1 << shift));
    size.filter(|size| *size > 0).ok_or_else(wrong)
}

fn block_size(text: &str) -> Result<u64, String> {
    let largest = compaction::format::LARGEST_BLOCK_SIZE as u64;
    match size(text)? {
        size if size > largest => Err(format!("{text}: a block has 16MiB at most")),
        size => Ok(size),
    }
}

fn memory(text: &str) -> Result<u64, String> {
    match size(text)? {
        size if size < 1 << 20 => Err(format!("{text}: it must be at least 1MiB")),
        size => Ok(size),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_sound() {
        CompactionCommandLine::command().debug_assert();
    }

    #[test]
    fn sizes_have_units() {
        assert_eq!(size("64KiB"), Ok(64 << 10));
        assert_eq!(size("3"), Ok(3));
        for wrong in ["", "0", "-1", "1.5MiB", "1MB", "MiB", "99999999TiB"] {
            assert!(size(wrong).is_err(), "{wrong}");
        }
        assert!(block_size("17MiB").is_err() && memory("64KiB").is_err());
    }
}
