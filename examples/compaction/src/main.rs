//! Merges sorted tables in an object store into one table, as a database built on log-structured merge trees does:
//! read as streams of blocks, merged by key, and uploaded while the merge goes on. Memory stays within one budget,
//! however many tables there are and however large they are.
//!
//! ```text
//! N tables ── store.blocks() ──▶ entries ── MergeStream ──▶ blocks ── store.writer() ──▶ one table
//!             read ahead                    by key                    in parts, uploaded meanwhile
//! ```
//!
//! ```text
//! compaction build s3://bucket/in/ --tables 16 --mib 64        # makes tables of random entries
//! compaction merge s3://bucket/in/ s3://bucket/out/merged      # a target that exists is an error
//! compaction merge s3://bucket/in/ s3://bucket/out/merged --whole    # with all tables in memory, to compare
//! ```
//!
//! Of tables that share a key, the one whose name sorts last has the newer value. Each command prints one JSON object,
//! with the peak memory of the process.
//!
//! A table is blocks, then an index, then a footer; all numbers are little-endian:
//!
//! ```text
//! block  = (key length: u16  value length: u32  key  value)+      sorted by key
//! index  = (block length: u32)*                                   the blocks lie one after the other
//! footer = blocks: u32  magic: 4 bytes
//! ```

use std::error::Error;
use std::ops::Range;
use std::process::ExitCode;
use std::time::Instant;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use clap::{Parser, Subcommand};
use futures::stream::{self, BoxStream};
use futures::{StreamExt, TryStreamExt};
use serde_json::{Value, json};
use tidegate::backend::Entry as Listed;
use tidegate::merge::MergeStream;
use tidegate::{Object, Store, Tidegate, Writer};
use tokio::io::AsyncWriteExt;

type Failure = Box<dyn Error + Send + Sync>;
type Result<T, E = Failure> = std::result::Result<T, E>;

/// A block is closed when it has reached this many bytes.
const BLOCK: usize = 64 << 10;
/// No block is longer, so that a damaged index asks for no more memory.
const LONGEST_BLOCK: u32 = 1 << 20;
const FOOTER: u64 = 8;
const MAGIC: &[u8] = b"TIDE";
const MIB: u64 = 1 << 20;

/// Make sorted tables in an object store, and merge them.
#[derive(Parser)]
#[command(version)]
struct CompactionCommandLine {
    #[command(subcommand)]
    command: CompactionCommand,
    /// Memory budget of reads and writes together, in MiB.
    #[arg(long, global = true, default_value_t = 64, value_name = "MIB")]
    memory: u64,
}

#[derive(Subcommand)]
enum CompactionCommand {
    /// Make tables of random entries, with keys that other tables have too.
    Build {
        /// The prefix for the tables.
        to: String,
        /// How many tables.
        #[arg(long, default_value_t = 4)]
        tables: u32,
        /// MiB of each.
        #[arg(long, default_value_t = 64)]
        mib: u64,
    },
    /// Merge all tables below a prefix into one.
    Merge {
        /// The prefix of the tables.
        from: String,
        /// The new table, in another place.
        to: String,
        /// Read every table whole, and make the new one in memory before it is uploaded.
        #[arg(long)]
        whole: bool,
    },
}

fn main() -> ExitCode {
    let arguments = CompactionCommandLine::parse();
    match run(arguments) {
        Ok(figures) => {
            println!("{figures}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("compaction: {error}");
            ExitCode::FAILURE
        }
    }
}

#[tokio::main(worker_threads = 2)]
async fn run(arguments: CompactionCommandLine) -> Result<Value> {
    let tide = Tidegate::builder().memory(arguments.memory * MIB).build()?;
    let began = Instant::now();
    let work = async {
        match &arguments.command {
            CompactionCommand::Build { to, tables, mib } => build(&tide, to, *tables, mib * MIB).await,
            CompactionCommand::Merge { from, to, whole } => merge(&tide, from, to, *whole).await,
        }
    };
    // Work that is dropped publishes nothing and aborts its upload.
    let done = tokio::select! {
        done = work => done,
        _ = tokio::signal::ctrl_c() => Err("interrupted".into()),
    };
    for error in tide.settled().await {
        eprintln!("compaction: {error}");
    }
    let mut figures = done?;
    figures["seconds"] = json!(began.elapsed().as_secs_f64());
    figures["peak_memory_mib"] = json!(peak_memory());
    Ok(figures)
}

async fn build(tide: &Tidegate, to: &str, tables: u32, size: u64) -> Result<Value> {
    let store = tide.open(to).await?;
    let mut random = fastrand::Rng::with_seed(1);
    let mut entries = 0_u64;
    for number in 0..tables {
        let mut table = TableBuilder::default();
        let mut writer = store.writer(format!("{number:04}.table")).create_only().await?;
        let (mut key, mut value) = (0_u64, [0; 256]);
        while table.size < size {
            // Every key has a neighbour that other tables leave out.
            key += random.u64(1..=2);
            random.fill(&mut value);
            let entry = TableEntry::new(format!("{key:016x}").into(), Bytes::copy_from_slice(&value));
            table.add(&entry, Target::Stream(&mut writer)).await?;
            entries += 1;
        }
        table.end(Target::Stream(&mut writer)).await?;
        writer.finish().await?;
    }
    Ok(json!({"tables": tables, "entries": entries}))
}

async fn merge(tide: &Tidegate, from: &str, to: &str, whole: bool) -> Result<Value> {
    let from = tide.open(from).await?;
    let (to, name) =
        to.rsplit_once('/').ok_or_else(|| format!("{to}: a key is needed, such as s3://bucket/key"))?;
    let to = tide.open(to).await?;
    let listed = from.list("").try_filter_map(async |entry| {
        Ok(match entry {
            Listed::Object(object) if object.key.ends_with(".table") => Some(object),
            _ => None,
        })
    });
    let mut tables: Vec<Object> = listed.try_collect().await?;
    // The newest first: of equal keys, a merge gives that of the earlier input first.
    tables.sort_by(|one, other| other.key.cmp(&one.key));
    let mut inputs = Vec::new();
    for table in &tables {
        inputs.push(if whole {
            read_whole(&from, table).await?
        } else {
            read_streamed(&from, table).await?
        });
    }
    let mut merge = MergeStream::new(inputs, |one: &TableEntry, other: &TableEntry| one.key.cmp(&other.key));
    let mut writer = to.writer(name).create_only().await?;
    let (mut table, mut buffer) = (TableBuilder::default(), Vec::new());
    let (mut last, mut entries) = (None, 0_u64);
    while let Some(merged) = merge.try_next().await.map_err(|error| error.error)? {
        let entry = merged.item;
        if last.as_ref() == Some(&entry.key) {
            continue; // an older value
        }
        let target = if whole { Target::Memory(&mut buffer) } else { Target::Stream(&mut writer) };
        table.add(&entry, target).await?;
        entries += 1;
        // Copied, so that one key does not keep its whole block in memory.
        last = Some(Bytes::copy_from_slice(&entry.key));
    }
    if whole {
        table.end(Target::Memory(&mut buffer)).await?;
        writer.write_bytes(buffer.into()).await?;
    } else {
        table.end(Target::Stream(&mut writer)).await?;
    }
    let object = writer.finish().await?;
    let bytes_in: u64 = tables.iter().map(|table| table.size).sum();
    Ok(json!({"tables": tables.len(), "bytes_in": bytes_in, "entries": entries, "bytes_out": object.size}))
}

/// The entries of a table, in order. Blocks are read ahead under the memory budget; of a table, no more than these
/// blocks and its index are in memory.
async fn read_streamed(store: &Store, table: &Object) -> Result<BoxStream<'static, Result<TableEntry>>> {
    let blocks = index(store, table).await?;
    let blocks = store.blocks(&table.key, blocks).if_unchanged(table).await?;
    let key = table.key.clone();
    let entries = blocks.map_err(Failure::from).map_ok(move |block| entries(block.bytes, &key)).try_flatten();
    Ok(entries.boxed())
}

/// The entries of a table that is read into memory first.
async fn read_whole(store: &Store, table: &Object) -> Result<BoxStream<'static, Result<TableEntry>>> {
    let blocks = index(store, table).await?;
    let bytes = store.get(&table.key).await?;
    let key = table.key.clone();
    let block = move |block: Range<u64>| entries(bytes.slice(block.start as usize..block.end as usize), &key);
    Ok(stream::iter(blocks.into_iter().map(block)).flatten().boxed())
}

/// Where the blocks of a table lie.
async fn index(store: &Store, table: &Object) -> Result<Vec<Range<u64>>> {
    let damaged = || format!("{}: not a table, or damaged", table.key);
    let end = table.size.checked_sub(FOOTER).ok_or_else(damaged)?;
    let mut footer = store.get_range(&table.key, end..).await?;
    let blocks = u64::from(footer.get_u32_le());
    let start = end.checked_sub(4 * blocks).filter(|_| footer == MAGIC).ok_or_else(damaged)?;
    if blocks == 0 {
        return Ok(Vec::new());
    }
    let mut lengths = store.get_range(&table.key, start..end).await?;
    let (mut ranges, mut at) = (Vec::with_capacity(blocks as usize), 0);
    while lengths.has_remaining() {
        let length = lengths.get_u32_le();
        if length > LONGEST_BLOCK {
            return Err(damaged().into());
        }
        ranges.push(at..at + u64::from(length));
        at += u64::from(length);
    }
    if at == start { Ok(ranges) } else { Err(damaged().into()) }
}

/// The entries of a block, which share its memory.
fn entries(mut block: Bytes, table: &str) -> BoxStream<'static, Result<TableEntry>> {
    let damaged = format!("{table}: a block is damaged");
    let read = move || -> Option<Result<TableEntry>> {
        if block.is_empty() {
            return None;
        }
        let entry = TableEntry::split(&mut block);
        if entry.is_none() {
            block.clear();
        }
        Some(entry.ok_or_else(|| damaged.clone().into()))
    };
    stream::iter(std::iter::from_fn(read)).boxed()
}

struct TableEntry {
    key: Bytes,
    value: Bytes,
}

impl TableEntry {
    fn new(key: Bytes, value: Bytes) -> Self {
        Self { key, value }
    }

    /// Takes the first entry off a block; `None` if it does not fit in there.
    fn split(block: &mut Bytes) -> Option<Self> {
        let key = usize::from(block.try_get_u16_le().ok()?);
        let value = block.try_get_u32_le().ok()? as usize;
        (key + value <= block.len()).then(|| Self::new(block.split_to(key), block.split_to(value)))
    }
}

/// Where the bytes of a new table go.
enum Target<'a> {
    Stream(&'a mut Writer),
    Memory(&'a mut Vec<u8>),
}

impl Target<'_> {
    async fn write(self, bytes: &[u8]) -> Result<()> {
        match self {
            // Waits while the memory budget is used up by parts that are being sent.
            Self::Stream(writer) => writer.write_all(bytes).await?,
            Self::Memory(buffer) => buffer.extend_from_slice(bytes),
        }
        Ok(())
    }
}

/// Builds a table block by block; holds one block and the index.
#[derive(Default)]
struct TableBuilder {
    block: BytesMut,
    index: BytesMut,
    size: u64,
}

impl TableBuilder {
    async fn add(&mut self, entry: &TableEntry, target: Target<'_>) -> Result<()> {
        let key = u16::try_from(entry.key.len())?;
        self.block.put_u16_le(key);
        self.block.put_u32_le(u32::try_from(entry.value.len())?);
        self.block.extend_from_slice(&entry.key);
        self.block.extend_from_slice(&entry.value);
        if self.block.len() >= BLOCK { self.close(target).await } else { Ok(()) }
    }

    async fn close(&mut self, target: Target<'_>) -> Result<()> {
        self.index.put_u32_le(u32::try_from(self.block.len())?);
        self.size += self.block.len() as u64;
        target.write(&self.block).await?;
        self.block.clear();
        Ok(())
    }

    async fn end(mut self, target: Target<'_>) -> Result<()> {
        let mut end = std::mem::take(&mut self.block);
        if !end.is_empty() {
            self.index.put_u32_le(u32::try_from(end.len())?);
        }
        let blocks = u32::try_from(self.index.len() / 4)?;
        end.unsplit(self.index);
        end.put_u32_le(blocks);
        end.extend_from_slice(MAGIC);
        target.write(&end).await
    }
}

/// The most memory that this process has had, in MiB, as Linux counts it.
fn peak_memory() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().split(' ').next()?.parse::<u64>().ok().map(|kib| kib / 1024)
}
