//! What one command line asks for besides its command: the options that every command takes.

use clap::ArgAction;

use crate::stores::SharedEngine;

/// The options of every command.
#[derive(Clone, Debug, Default, clap::Args)]
#[command(next_help_heading = "Output")]
pub(crate) struct Invocation {
    /// Print a line for each object that is copied or removed, and the causes of an error. Given twice (-vv), also log
    /// retries, hedges and other events. RUST_LOG also turns the log on and sets its filter. Default filter:
    /// tidegate=debug.
    #[arg(short, long, global = true, action = ArgAction::Count)]
    verbose: u8,

    /// The engine of `tidegate run`, if the command is one of its lines.
    #[arg(skip)]
    engine: Option<SharedEngine>,
}

impl Invocation {
    /// Whether to print a line for each object, and the causes of errors.
    pub(crate) fn is_verbose(&self) -> bool {
        self.verbose > 0
    }

    /// The same options for a line of the `tidegate run` that `outer` started, which runs on this engine.
    pub(crate) fn on(mut self, engine: SharedEngine, outer: &Self) -> Self {
        self.verbose = self.verbose.max(outer.verbose);
        self.engine = Some(engine);
        self
    }

    /// The engine that the command shares with others, if any.
    pub(crate) fn engine(&self) -> Option<&SharedEngine> {
        self.engine.as_ref()
    }

    /// Whether to print the library's log.
    pub(crate) fn logs(&self) -> bool {
        self.verbose > 1
    }
}
