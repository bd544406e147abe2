//! `tidegate`: moves byte streams into and out of object storage.
//!
//! One file a command, in `commands/`; what they share is beside this file.

mod allocator;
mod bar;
mod commands;
mod common_cause;
mod dev;
mod exit;
mod interrupt;
mod listing;
mod notices;
mod options;
mod output;
mod runtime;
mod spread;
mod standard;
mod stores;
mod text;
mod values;

use std::io::Write;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::commands::{
    bench, cat, completions, cp, journal, lifecycle, ls, prefix, rm, serve, sessions, stat, sweep,
};
use crate::exit::Outcome;

const AFTER_HELP: &str = "\
Locations:
  s3://BUCKET/KEY       an object of Amazon S3 or of a store that speaks its protocol
  gs://BUCKET/KEY       an object of Google Cloud Storage
  dev://BUCKET/KEY      an object of the embedded server, kept in .tidegate-dev here
  PATH, file:///PATH    a file on this machine
  -                     standard input or output

Exit codes:
  0         everything was done
  1         it failed, or was done in part only
  2         the command line or its input is wrong; nothing was sent
  3         not found: no such object, bucket, directory or file, or nothing below the prefix
  4         denied: by the store, for want of valid credentials, or by this machine
  5         the store could not be reached: no connection, or no answer in time
  130       interrupted by Ctrl-C; unfinished uploads were aborted, those with a journal left in it
  129, 143  ended by SIGHUP or SIGTERM; unfinished uploads were aborted, those with a journal left in it";

/// Moves byte streams into and out of object storage, fast and in a fixed amount of memory.
#[derive(Debug, Parser)]
#[command(name = "tidegate", version, after_help = AFTER_HELP, max_term_width = 100)]
struct CommandLine {
    #[command(subcommand)]
    command: Command,

    /// Say on standard error what is done; RUST_LOG chooses more finely.
    #[arg(short, long, global = true)]
    verbose: bool,
}

#[derive(Debug, Subcommand)]
enum Command {
    Cp(Box<cp::Args>),
    Cat(cat::Args),
    Ls(ls::Args),
    Rm(rm::Args),
    Stat(stat::Args),
    #[command(subcommand)]
    Sessions(sessions::Command),
    Sweep(sweep::Args),
    #[command(subcommand)]
    Journal(journal::Command),
    #[command(subcommand)]
    Lifecycle(lifecycle::Command),
    #[command(subcommand)]
    Prefix(prefix::Command),
    Serve(Box<serve::Args>),
    #[command(subcommand)]
    Bench(bench::Command),
    Completions(completions::Args),
}

impl Command {
    async fn run(self) -> Outcome {
        match self {
            Self::Cp(args) => args.run().await,
            Self::Cat(args) => args.run().await,
            Self::Ls(args) => args.run().await,
            Self::Rm(args) => args.run().await,
            Self::Stat(args) => args.run().await,
            Self::Sessions(command) => command.run().await,
            Self::Sweep(args) => args.run().await,
            Self::Journal(command) => command.run().await,
            Self::Lifecycle(command) => command.run().await,
            Self::Prefix(command) => command.run().await,
            Self::Serve(args) => args.run().await,
            Self::Bench(command) => command.run().await,
            Self::Completions(args) => args.run().await,
        }
    }
}

fn main() -> ExitCode {
    allocator::configure();
    let CommandLine { command, verbose } = match CommandLine::try_parse() {
        Ok(parsed) => parsed,
        Err(wrong) if wrong.use_stderr() => refuse(&wrong),
        Err(help) => return exit::end(show(&help), false),
    };
    log(verbose);
    exit::end(runtime::run(command.run()), verbose)
}

/// Shows what `--help` or `--version` asked for.
fn show(help: &clap::Error) -> Outcome {
    // `print` takes a standard output that is closed for one that it has written to.
    standard::output()?;
    help.print()?;
    Ok(std::io::stdout().flush()?)
}

/// Says why the arguments are wrong, and ends.
fn refuse(error: &clap::Error) -> ! {
    let is_unsafe = |argument: std::ffi::OsString| {
        let argument = argument.to_string_lossy();
        output::line(&argument) != *argument
    };
    if !std::env::args_os().skip(1).any(is_unsafe) {
        error.exit();
    }
    // The message quotes the arguments, line ends and all: here it is one line.
    output::say(error.to_string().trim());
    output::flush();
    std::process::exit(error.exit_code())
}

/// Shows what the library waits for, and with `verbose` or `RUST_LOG` what it does.
fn log(verbose: bool) {
    use tracing_subscriber::filter::filter_fn;
    use tracing_subscriber::layer::{Layer, SubscriberExt};
    use tracing_subscriber::util::SubscriberInitExt;
    use tracing_subscriber::{EnvFilter, fmt};
    let notices = notices::Notices::default().with_filter(filter_fn(notices::is_notice));
    let log = (verbose || std::env::var_os(EnvFilter::DEFAULT_ENV).is_some()).then(|| {
        let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("tidegate=debug"));
        fmt::layer().with_ansi(false).with_writer(|| output::Log).with_filter(filter)
    });
    tracing_subscriber::registry().with(notices).with(log).init();
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        super::CommandLine::command().debug_assert();
    }
}
