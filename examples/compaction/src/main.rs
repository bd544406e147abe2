//! `compaction`: generates sorted tables in an object store, and merges them.

mod arguments;
mod figures;

use std::process::ExitCode;
use std::time::Instant;

use clap::Parser;
use compaction::build::{self, Built};
use compaction::compact::{self, InputReading};
use compaction::outputs::SeriesParameters;
use compaction::{CompactionError, MergePlan, Outputs, Result, TableWay, WrittenTable};
use tidegate::Tidegate;

use crate::arguments::{BuildArgs, CompactArgs, CompactionCommand, CompactionCommandLine, EngineArgs};
use crate::figures::CompactionFigures;

/// The number of worker threads, as in Tidegate's command line.
const WORKERS: usize = 2;

/// The exit code that shells report for a program ended by Ctrl-C.
const INTERRUPTED: u8 = 130;

fn main() -> ExitCode {
    let command = CompactionCommandLine::parse().command;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(WORKERS).enable_all().build();
    let runtime = match runtime {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("compaction: the system gives no threads: {error}");
            return ExitCode::FAILURE;
        }
    };
    match runtime.block_on(run(command)) {
        Ok(figures) => {
            println!("{figures}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("compaction: {error}");
            exit_code(&error)
        }
    }
}

fn exit_code(error: &CompactionError) -> ExitCode {
    match error {
        CompactionError::Interrupted(_) => ExitCode::from(INTERRUPTED),
        CompactionError::LeftBehind { error, .. } => exit_code(error),
        _ => ExitCode::FAILURE,
    }
}

async fn run(command: CompactionCommand) -> Result<CompactionFigures> {
    match command {
        CompactionCommand::Build(arguments) => {
            let tide = engine(&arguments.engine)?;
            let done = build(&tide, &arguments).await;
            settled(&tide, done).await
        }
        CompactionCommand::Compact(arguments) => {
            let tide = engine(&arguments.engine)?;
            let done = compact(&tide, &arguments).await;
            settled(&tide, done).await
        }
    }
}

fn engine(arguments: &EngineArgs) -> Result<Tidegate> {
    let mut builder = Tidegate::builder().memory(arguments.memory);
    if let Some(bytes) = arguments.part_size {
        builder = builder.part_size(bytes);
    }
    Ok(builder.build()?)
}

/// Waits until the sessions of failed uploads are aborted.
async fn settled<T>(tide: &Tidegate, done: Result<T>) -> Result<T> {
    for error in tide.settled().await {
        eprintln!("compaction: {error}");
    }
    done
}

async fn build(tide: &Tidegate, arguments: &BuildArgs) -> Result<CompactionFigures> {
    let store = tide.open(&arguments.to).await?;
    let (began, way) = (Instant::now(), arguments.shape.way);
    // One `Outputs` for all runs: if a later run fails, the tables of the earlier runs are removed too.
    let mut outputs = Outputs::new(store, arguments.shape_of(0), way);
    let done = interruptible(async {
        let mut built = Built::default();
        for run in 0..arguments.runs {
            outputs.reshape(arguments.shape_of(run)).await?;
            let run = build::build(&arguments.made(run), &mut outputs).await?;
            built.entries += run.entries;
            built.tombstones += run.tombstones;
        }
        Ok((built, outputs.finish().await?))
    });
    let (built, written) = all_or_none(done.await, &mut outputs).await?;
    Ok(CompactionFigures::new(tide, began, way, written).with_built(built))
}

async fn compact(tide: &Tidegate, arguments: &CompactArgs) -> Result<CompactionFigures> {
    let (from, to) = (tide.open(&arguments.from).await?, tide.open(&arguments.to).await?);
    if format!("{}/", to.location()).starts_with(&format!("{}/", from.location())) {
        let message = "the outputs go where the inputs are, and would be inputs of the next compaction: \
                       name another prefix";
        return Err(CompactionError::Refused(message.to_owned()));
    }
    let began = Instant::now();
    let (inputs, others) = compact::open(&from, &arguments.table).await?;
    let summaries: Vec<_> = inputs.iter().map(compaction::TableReader::summary).collect();
    let plan = MergePlan::new(&summaries, &others)?;
    let shape = SeriesParameters {
        capacity: arguments.table_size,
        block_size: arguments.shape.block_size as usize,
        sequence: plan.sequence,
        stem: format!("merged-{:06}-", plan.sequence),
    };
    let way = arguments.shape.way;
    let reading = if way == TableWay::Streamed { InputReading::Streamed } else { InputReading::Whole };
    let mut outputs = Outputs::new(to, shape, way);
    let done = interruptible(async {
        let compacted = compact::compact(&inputs, &plan, reading, &mut outputs).await?;
        Ok((compacted, outputs.finish().await?))
    });
    let (compacted, written) = all_or_none(done.await, &mut outputs).await?;
    let read = inputs
        .iter()
        .map(|table| WrittenTable { key: table.object().key.clone(), size: table.object().size });
    Ok(CompactionFigures::new(tide, began, way, written).with_compacted(compacted, read.collect()))
}

/// On an error, removes the outputs already written.
async fn all_or_none<T>(done: Result<T>, outputs: &mut Outputs) -> Result<T> {
    let error = match done {
        Ok(done) => return Ok(done),
        Err(error) => error,
    };
    let why = error.to_string();
    tokio::select! {
        error = outputs.abandon(error) => Err(error),
        _ = tokio::signal::ctrl_c() => {
            let left = "the removal was interrupted: some of what was written may be left";
            Err(CompactionError::Interrupted(format!("{why}; {left}")))
        }
    }
}

/// Runs `work` until it ends or the user presses Ctrl-C. A command should do all its work in one call: between
/// two calls nothing handles Ctrl-C.
async fn interruptible<T>(work: impl Future<Output = Result<T>>) -> Result<T> {
    tokio::select! {
        done = work => done,
        pressed = tokio::signal::ctrl_c() => Err(match pressed {
            Ok(()) => CompactionError::Interrupted("interrupted".to_owned()),
            Err(error) => CompactionError::Refused(format!("can't listen for Ctrl-C: {error}")),
        }),
    }
}
