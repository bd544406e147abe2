//! `tidegate bench`: puts the engine under a load, and measures this very process.

use std::path::PathBuf;

use crate::exit::{Failure, Outcome};

mod content;
mod crash;
mod embedded;
mod writers;

/// Put the engine under a load, against an embedded server of its own or another store, and measure.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    Writers(Box<writers::Args>),
    Crash(Box<crash::Args>),
}

impl Command {
    pub(crate) async fn run(self) -> Outcome {
        match self {
            Self::Writers(args) => args.run().await,
            Self::Crash(args) => args.run().await,
        }
    }
}

/// To be started as another process.
fn this_program() -> Outcome<PathBuf> {
    std::env::current_exe().map_err(|error| Failure::Failed(format!("this program can't be found: {error}")))
}
