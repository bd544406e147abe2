//! `compaction`: makes sorted tables in an object store, and merges them.

mod arguments;
mod figures;

use std::process::ExitCode;
use std::time::Instant;

use clap::Parser;
use compaction::build::{self, Built};
use compaction::compact::{self, Reading};
use compaction::outputs::Shape;
use compaction::{Error, Outputs, Plan, Result, Way, Written};
use tidegate::Tidegate;

use crate::arguments::{Build, Command, CommandLine, Compact, Engine};
use crate::figures::Figures;

/// As many threads as the command line of Tidegate has.
const WORKERS: usize = 2;

fn main() -> ExitCode {
    let command = CommandLine::parse().command;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(WORKERS).enable_all().build();
    let runtime = match runtime {
        Ok(runtime) => runtime,
        Err(error) => return failed(&format!("the system gives no threads: {error}")),
    };
    match runtime.block_on(run(command)) {
        Ok(figures) => {
            println!("{figures}");
            ExitCode::SUCCESS
        }
        Err(error) => failed(&error.to_string()),
    }
}

fn failed(why: &str) -> ExitCode {
    eprintln!("compaction: {why}");
    ExitCode::FAILURE
}

async fn run(command: Command) -> Result<Figures> {
    match command {
        Command::Build(arguments) => {
            let tide = engine(&arguments.engine)?;
            let done = build(&tide, &arguments).await;
            settled(&tide, done).await
        }
        Command::Compact(arguments) => {
            let tide = engine(&arguments.engine)?;
            let done = compact(&tide, &arguments).await;
            settled(&tide, done).await
        }
    }
}

fn engine(arguments: &Engine) -> Result<Tidegate> {
    let mut builder = Tidegate::builder().memory(arguments.memory);
    if let Some(bytes) = arguments.part_size {
        builder = builder.part_size(bytes);
    }
    Ok(builder.build()?)
}

/// Waits until the sessions of uploads that failed are aborted.
async fn settled<T>(tide: &Tidegate, done: Result<T>) -> Result<T> {
    for error in tide.settled().await {
        eprintln!("compaction: {error}");
    }
    done
}

async fn build(tide: &Tidegate, arguments: &Build) -> Result<Figures> {
    let store = tide.open(&arguments.to).await?;
    let began = Instant::now();
    let (mut built, mut written) = (Built::default(), Vec::new());
    for run in 0..arguments.runs {
        let sequence = arguments.sequence + u64::from(run);
        let shape = Shape {
            capacity: arguments.table_size.unwrap_or(u64::MAX),
            block_size: arguments.shape.block_size as usize,
            sequence,
            stem: format!("run-{sequence:06}-"),
        };
        let mut outputs = Outputs::new(store.clone(), shape, arguments.shape.way);
        let made = arguments.made(run);
        let done = interruptible(build::build(&made, &mut outputs)).await;
        let (run, tables) = finished(done, &mut outputs).await?;
        built.entries += run.entries;
        built.tombstones += run.tombstones;
        written.extend(tables);
    }
    Ok(Figures::new(tide, began, arguments.shape.way, written).with_built(built))
}

async fn compact(tide: &Tidegate, arguments: &Compact) -> Result<Figures> {
    let (from, to) = (tide.open(&arguments.from).await?, tide.open(&arguments.to).await?);
    if format!("{}/", to.location()).starts_with(&format!("{}/", from.location())) {
        let message = "the outputs go where the inputs are, and would be inputs of the next compaction: \
                       name another prefix";
        return Err(Error::Refused(message.to_owned()));
    }
    let began = Instant::now();
    let (inputs, others) = compact::open(&from, &arguments.table).await?;
    let summaries: Vec<_> = inputs.iter().map(compaction::TableReader::summary).collect();
    let plan = Plan::new(&summaries, &others)?;
    let shape = Shape {
        capacity: arguments.table_size,
        block_size: arguments.shape.block_size as usize,
        sequence: plan.sequence,
        stem: format!("merged-{:06}-", plan.sequence),
    };
    let way = arguments.shape.way;
    let reading = if way == Way::Streamed { Reading::Streamed } else { Reading::Whole };
    let mut outputs = Outputs::new(to, shape, way);
    let done = interruptible(compact::compact(&inputs, &plan, reading, &mut outputs)).await;
    let (compacted, written) = finished(done, &mut outputs).await?;
    let read =
        inputs.iter().map(|table| Written { key: table.object().key.clone(), size: table.object().size });
    Ok(Figures::new(tide, began, way, written).with_compacted(compacted, read.collect()))
}

/// Publishes the last outputs, or removes those that are there.
async fn finished<T>(done: Result<T>, outputs: &mut Outputs) -> Result<(T, Vec<Written>)> {
    let finished = match done {
        Ok(done) => interruptible(outputs.finish()).await.map(|written| (done, written)),
        Err(error) => Err(error),
    };
    match finished {
        Ok(finished) => Ok(finished),
        Err(error) => {
            let why = error.to_string();
            tokio::select! {
                error = outputs.abandon(error) => Err(error),
                _ = tokio::signal::ctrl_c() => {
                    Err(Error::Refused(format!("{why}; interrupted again: some of what was written may be left")))
                }
            }
        }
    }
}

/// Ends work at Ctrl-C.
async fn interruptible<T>(work: impl Future<Output = Result<T>>) -> Result<T> {
    tokio::select! {
        done = work => done,
        pressed = tokio::signal::ctrl_c() => Err(Error::Refused(match pressed {
            Ok(()) => "interrupted".to_owned(),
            Err(error) => format!("can't listen for Ctrl-C: {error}"),
        })),
    }
}
