//! `tidegate-sim`: runs many seeds of the simulation, or replays one.

use std::io::{IsTerminal, Write};
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use tidegate_sim::campaign::{Campaign, CampaignSummary, replay_command};
use tidegate_sim::{Plant, Settings, pending, run};

/// Most failed seeds that are shown in full.
const SHOWN: usize = 10;

/// Deterministic simulation of the Tidegate engine.
#[derive(Debug, Parser)]
#[command(name = "tidegate-sim", version)]
struct SimCommandLine {
    #[command(subcommand)]
    command: SimCommand,
}

#[derive(Debug, Subcommand)]
enum SimCommand {
    /// Run many seeds; fails if any of them fails.
    Run {
        /// Number of seeds.
        #[arg(long, default_value_t = 10_000)]
        seeds: u64,
        /// First seed.
        #[arg(long, default_value_t = 0)]
        start: u64,
        /// Step from one seed to the next.
        #[arg(long, default_value_t = 1)]
        step: u64,
        /// Number of threads; one per core by default.
        #[arg(long)]
        jobs: Option<usize>,
        /// Plant a bug, to check that the simulation finds it.
        #[arg(long)]
        plant: Option<Plant>,
        /// Run the seeds of pending uploads.
        #[arg(long)]
        pending: bool,
    },
    /// Run one seed again.
    Replay {
        /// The seed.
        #[arg(long)]
        seed: u64,
        /// Print every event.
        #[arg(long)]
        trace: bool,
        /// Plant a bug, to check that the simulation finds it.
        #[arg(long)]
        plant: Option<Plant>,
        /// Run the seed of pending uploads.
        #[arg(long)]
        pending: bool,
    },
}

fn main() -> ExitCode {
    match SimCommandLine::parse().command {
        SimCommand::Run { seeds, start, step, jobs, plant, pending } => {
            let cores = std::thread::available_parallelism().map_or(1, usize::from);
            run_all(&Campaign { start, step, seeds, jobs: jobs.unwrap_or(cores), plant, pending })
        }
        SimCommand::Replay { seed, trace, plant, pending } => {
            replay(&Settings { seed, plant, trace }, pending)
        }
    }
}

fn run_all(campaign: &Campaign) -> ExitCode {
    let terminal = std::io::stderr().is_terminal();
    let line = |summary: &CampaignSummary| {
        let failed = summary.failed.len();
        let _ = write!(std::io::stderr(), "\r{} of {} seeds, {failed} failed", summary.seeds, campaign.seeds);
    };
    let progress = |summary: &CampaignSummary| {
        if terminal {
            line(summary);
        }
    };
    let summary = campaign.run(progress, |seed| {
        println!("seed {seed} is stuck in real time; replay: {}", replay_of(campaign, seed));
        std::process::exit(1);
    });
    if terminal {
        let _ = write!(std::io::stderr(), "\r\x1b[K");
    }
    for (seed, failures) in summary.failed.iter().take(SHOWN) {
        println!("seed {seed} failed; replay: {}", replay_of(campaign, *seed));
        for failure in failures {
            println!("  {failure}");
        }
    }
    println!("{summary}");
    if summary.failed.is_empty() {
        return ExitCode::SUCCESS;
    }
    let seeds: Vec<String> = summary.failed.keys().take(100).map(u64::to_string).collect();
    println!("failed seeds: {}", seeds.join(" "));
    ExitCode::FAILURE
}

/// The command that runs one of the campaign's seeds again.
fn replay_of(campaign: &Campaign, seed: u64) -> String {
    let pending = if campaign.pending { " --pending" } else { "" };
    format!("{}{pending}", replay_command(seed, campaign.plant))
}

fn replay(settings: &Settings, pending: bool) -> ExitCode {
    let report = if pending { pending::run(settings) } else { run(settings) };
    for event in &report.trace {
        println!("{event}");
    }
    let (seed, hash) = (report.seed, report.hash);
    println!("seed {seed}: {} events, hash {hash:016x}, {:?} of virtual time", report.events, report.elapsed);
    for failure in &report.failures {
        println!("  {failure}");
    }
    if report.failures.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
