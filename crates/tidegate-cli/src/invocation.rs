//! What one command line asks for besides its command: the options that every command takes.

use clap::ArgAction;

use crate::exit::{CommandFailure, Outcome};
use crate::stores::SharedEngine;

/// The options of every command.
#[derive(Clone, Debug, Default, clap::Args)]
#[command(next_help_heading = "Output")]
pub(crate) struct Invocation {
    /// Print JSON, one object a line, on standard output and standard error. The `type` of an object says what it is;
    /// docs/json-lines.schema.json describes them.
    #[arg(long, global = true)]
    json: bool,

    /// Print no progress, no summary and no notices. Results, errors, and warnings of what was left out are still
    /// printed.
    #[arg(short, long, global = true, conflicts_with = "verbose")]
    quiet: bool,

    /// Print a line for each object, and the causes of errors. Objects are those that are copied or removed. Given
    /// twice (-vv), also log retries, hedges and other events. RUST_LOG also turns the log on and sets its filter.
    /// Default filter: tidegate=debug.
    #[arg(short, long, global = true, action = ArgAction::Count)]
    verbose: u8,

    /// The engine of `tidegate run`, if the command is one of its lines.
    #[arg(skip)]
    engine: Option<SharedEngine>,
}

/// How standard output and standard error are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum OutputFormat {
    /// Text for people.
    #[default]
    Text,
    /// One JSON object on each line.
    Json,
}

impl Invocation {
    pub(crate) fn format(&self) -> OutputFormat {
        if self.json { OutputFormat::Json } else { OutputFormat::Text }
    }

    pub(crate) fn is_json(&self) -> bool {
        self.json
    }

    /// Whether to print nothing but results, errors and warnings.
    pub(crate) fn is_quiet(&self) -> bool {
        self.quiet
    }

    /// Whether to print a line for each object, and the causes of errors.
    pub(crate) fn is_verbose(&self) -> bool {
        self.verbose > 0
    }

    /// The same options for a line of the `tidegate run` that `outer` started, which runs on this engine.
    pub(crate) fn on(mut self, engine: SharedEngine, outer: &Self) -> Self {
        self.json |= outer.json;
        self.quiet |= outer.quiet;
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

    /// Refuses `--json` for a command whose standard output is `what`.
    pub(crate) fn refuse_json(&self, what: &str) -> Outcome {
        match self.json {
            true => Err(CommandFailure::Usage(format!("--json: standard output is {what}: leave it out"))),
            false => Ok(()),
        }
    }
}
