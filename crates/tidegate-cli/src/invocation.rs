//! What one command line asks for besides its command: the options that every command takes.

use clap::ArgAction;

/// The options of every command.
#[derive(Clone, Copy, Debug, Default, clap::Args)]
#[command(next_help_heading = "Output")]
pub(crate) struct Invocation {
    /// Print a line for each object that is copied or removed, and the causes of an error. Given twice (-vv), also log
    /// retries, hedges and other events. RUST_LOG also turns the log on and sets its filter. Default filter:
    /// tidegate=debug.
    #[arg(short, long, global = true, action = ArgAction::Count)]
    verbose: u8,
}

impl Invocation {
    /// Whether to print a line for each object, and the causes of errors.
    pub(crate) fn is_verbose(&self) -> bool {
        self.verbose > 0
    }

    /// Whether to print the library's log.
    pub(crate) fn logs(&self) -> bool {
        self.verbose > 1
    }
}
