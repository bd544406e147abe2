//! `tidegate bench`: puts the engine under a load, and measures this very process.

use crate::exit::Outcome;

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
