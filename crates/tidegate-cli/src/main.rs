//! `tidegate`: moves byte streams into and out of object storage.
//!
//! Each command has one file in `commands/`. The code that commands share is beside this file.

mod allocator;
mod commands;
mod completion;
mod dev;
mod exit;
mod file_options;
mod help;
mod interrupt;
mod invocation;
mod jobs;
mod label;
mod messages;
mod notices;
mod options;
mod other_tools;
mod output;
mod pending_files;
mod runtime;
mod select;
mod shared_output;
mod spread;
mod standard;
mod stores;
mod text;
mod transfer;
mod tree_options;
mod ui;
mod values;
mod version;

use std::ffi::{OsStr, OsString};
use std::io::Write;
use std::process::ExitCode;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use tidegate::text::without_passwords;

use crate::commands::{
    abandon, cat, check, commit, complete, completions, cp, doctor, du, journal, lifecycle, ls, man, mb, mv,
    prefix, presign, rb, rm, run, serve, sessions, stat, sweep, sync,
};
use crate::exit::{CommandFailure, Outcome};
use crate::invocation::{Invocation, OutputFormat};

/// Move byte streams into and out of object storage, fast and in a fixed amount of memory.
#[derive(Debug, Parser)]
#[command(name = "tidegate", version = version::SHORT, long_version = version::long(), max_term_width = 100)]
struct CommandLine {
    #[command(subcommand)]
    command: Command,

    #[command(flatten)]
    invocation: Invocation,
}

#[derive(Debug, Subcommand)]
enum Command {
    Cp(Box<cp::CpArgs>),
    Mv(Box<mv::MvArgs>),
    Sync(Box<sync::SyncArgs>),
    Check(check::CheckArgs),
    Cat(cat::CatArgs),
    Ls(ls::LsArgs),
    Du(du::DuArgs),
    Rm(rm::RmArgs),
    Stat(stat::StatArgs),
    Presign(presign::PresignArgs),
    Mb(mb::MbArgs),
    Rb(rb::RbArgs),
    Doctor(doctor::DoctorArgs),
    Run(run::RunArgs),
    Commit(commit::CommitArgs),
    Abandon(abandon::AbandonArgs),
    #[command(subcommand)]
    Sessions(sessions::SessionsCommand),
    Sweep(sweep::SweepArgs),
    #[command(subcommand)]
    Journal(journal::JournalCommand),
    #[command(subcommand)]
    Lifecycle(lifecycle::LifecycleCommand),
    #[command(subcommand)]
    Prefix(prefix::PrefixCommand),
    Serve(Box<serve::ServeArgs>),
    Completions(completions::CompletionsArgs),
    Man(man::ManArgs),
    #[command(hide = true)]
    Complete(complete::CompleteArgs),
}

impl Command {
    async fn run(self, invocation: &Invocation) -> Outcome {
        match self {
            Self::Cp(args) => args.run(invocation).await,
            Self::Mv(args) => args.run(invocation).await,
            Self::Sync(args) => args.run(invocation).await,
            Self::Check(args) => args.run(invocation).await,
            Self::Cat(args) => args.run(invocation).await,
            Self::Ls(args) => args.run(invocation).await,
            Self::Du(args) => args.run(invocation).await,
            Self::Rm(args) => args.run(invocation).await,
            Self::Stat(args) => args.run(invocation).await,
            Self::Presign(args) => args.run(invocation).await,
            Self::Mb(args) => args.run(invocation).await,
            Self::Rb(args) => args.run(invocation).await,
            Self::Doctor(args) => args.run(invocation).await,
            Self::Run(args) => args.run(invocation).await,
            Self::Commit(args) => args.run(invocation).await,
            Self::Abandon(args) => args.run(invocation).await,
            Self::Sessions(command) => command.run(invocation).await,
            Self::Sweep(args) => args.run(invocation).await,
            Self::Journal(command) => command.run(invocation).await,
            Self::Lifecycle(command) => command.run(invocation).await,
            Self::Prefix(command) => command.run(invocation).await,
            Self::Serve(args) => args.run(invocation).await,
            Self::Completions(args) => args.run(invocation).await,
            Self::Man(args) => args.run(invocation).await,
            Self::Complete(args) => args.run(invocation).await,
        }
    }
}

/// The definition of the command line, with its help.
pub(crate) fn command_line() -> clap::Command {
    help::arranged(CommandLine::command())
}

/// Parses a command line, which begins with the name of the program.
fn parse(words: impl IntoIterator<Item = impl Into<OsString> + Clone>) -> Result<CommandLine, clap::Error> {
    let mut definition = command_line();
    let matches = definition.try_get_matches_from_mut(words)?;
    CommandLine::from_arg_matches(&matches).map_err(|error| error.format(&mut definition))
}

fn main() -> ExitCode {
    allocator::configure();
    let CommandLine { command, invocation } = match parse(std::env::args_os()) {
        Ok(parsed) => parsed,
        Err(wrong) if wrong.use_stderr() => refuse(&wrong),
        Err(help) => return exit::end(show(&help), false),
    };
    output::set_messages(invocation.format(), invocation.is_quiet());
    log(&invocation);
    exit::end(runtime::run(command.run(&invocation)), invocation.is_verbose())
}

/// Prints the text of `--help` or `--version`.
fn show(help: &clap::Error) -> Outcome {
    // `print` reports success even if standard output was closed before the start, so check that first.
    standard::output()?;
    help.print()?;
    Ok(std::io::stdout().flush()?)
}

/// Prints why the arguments are wrong, and exits.
fn refuse(error: &clap::Error) -> ! {
    let arguments: Vec<String> =
        std::env::args_os().skip(1).map(|argument| argument.to_string_lossy().into_owned()).collect();
    let is_json =
        arguments.iter().take_while(|argument| *argument != "--").any(|argument| argument == "--json");
    if is_json {
        output::set_messages(OutputFormat::Json, false);
    }
    if let Some(sentence) = foreign_command(error, &arguments).or_else(|| foreign_option(error)) {
        output::fail(&CommandFailure::Usage(sentence));
    } else if is_json {
        output::fail(&CommandFailure::Usage(sentence(error)));
    } else {
        match refusal(&error.to_string(), arguments.into_iter()) {
            // clap prints its own message, with its colors.
            None => error.exit(),
            Some(lines) => lines.iter().for_each(|line| output::say(line)),
        }
    }
    output::flush();
    std::process::exit(error.exit_code())
}

/// What is wrong, from clap's message, without the usage that follows it.
fn sentence(error: &clap::Error) -> String {
    if error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        return "a command is missing: `tidegate --help` lists them".to_owned();
    }
    let message = error.to_string();
    let message = message.strip_prefix("error: ").unwrap_or(&message);
    let end = ["\n\nUsage: ", "\n\nFor more information"].iter().filter_map(|end| message.find(end)).min();
    let paragraphs = message[..end.unwrap_or(message.len())].split("\n\n");
    let lines: Vec<String> =
        paragraphs.map(|paragraph| paragraph.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
    lines.join("; ")
}

/// The sentence to print if the command is one of another tool. `None` leaves it to clap, which suggests names that are
/// nearly the same.
fn foreign_command(error: &clap::Error, arguments: &[String]) -> Option<String> {
    if error.kind() != ErrorKind::InvalidSubcommand {
        return None;
    }
    let Some(ContextValue::String(name)) = error.get(ContextKind::InvalidSubcommand) else { return None };
    // Options before the command take no values. Any other word before `name` is a command with commands of its own,
    // such as `journal`.
    let command = arguments.iter().find(|argument| !argument.starts_with('-'))?;
    let instead = other_tools::instead_of(name).filter(|_| command == name)?;
    Some(format!("there is no command `{name}`: {instead}"))
}

/// The sentence to print if an option is one of another tool.
fn foreign_option(error: &clap::Error) -> Option<String> {
    if error.kind() != ErrorKind::UnknownArgument {
        return None;
    }
    let Some(ContextValue::String(option)) = error.get(ContextKind::InvalidArg) else { return None };
    let instead = other_tools::instead_of_option(option)?;
    Some(format!("there is no option `{option}` here: {instead}"))
}

/// The lines to print in place of clap's message, which quotes arguments as they are. `None` if the message can be
/// printed as it is. If an argument has characters that a terminal acts on, the message becomes one (escaped) line;
/// if the message has passwords, they are removed.
fn refusal(message: &str, mut arguments: impl Iterator<Item = String>) -> Option<Vec<String>> {
    if arguments.any(|argument| output::line(&argument) != argument) {
        return Some(vec![message.trim().to_owned()]);
    }
    let shown = without_passwords(message);
    (shown != message).then(|| shown.trim().lines().map(str::to_owned).collect())
}

/// Prints notices of what the library waits for, and with `-v` of what servers lack. With `-vv` or `RUST_LOG`, also
/// prints the library's log.
fn log(invocation: &Invocation) {
    use tracing_subscriber::filter::{LevelFilter, Targets};
    use tracing_subscriber::fmt;
    use tracing_subscriber::layer::{Layer, SubscriberExt};
    use tracing_subscriber::util::SubscriberInitExt;
    let notices = notices::Notices::new(invocation.is_verbose()).with_filter(notices::filter());
    let set = std::env::var_os("RUST_LOG").filter(|set| !set.is_empty());
    let log = (invocation.logs() || set.is_some()).then(|| {
        let set = set.as_deref().and_then(OsStr::to_str).and_then(|set| set.parse().ok());
        let filter = set.unwrap_or_else(|| Targets::new().with_target("tidegate", LevelFilter::DEBUG));
        fmt::layer().with_ansi(false).with_writer(|| output::LogWriter).with_filter(filter)
    });
    let registry = tracing_subscriber::registry().with(notices);
    match log {
        Some(log) => registry.with(log).init(),
        // A layer that is `None` has no filter, so that the library would make a span for every request.
        None => registry.init(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        command_line().debug_assert();
    }

    #[test]
    fn a_command_of_another_tool_is_answered_with_ours() {
        let answer = |words: &[&str]| {
            let wrong = parse([&["tidegate"], words].concat()).unwrap_err();
            let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
            foreign_command(&wrong, &words)
        };
        let get = "there is no command `get`: use `tidegate cp s3://BUCKET/KEY FILE`";
        assert_eq!(answer(&["get", "s3://bkt/k"]).as_deref(), Some(get));
        assert_eq!(answer(&["-v", "get", "s3://bkt/k", "--force"]).as_deref(), Some(get));
        for left_to_clap in
            [&["lss"][..], &["frobnicate"], &["journal", "list"], &["help", "get"], &["ls", "a", "b"]]
        {
            assert_eq!(answer(left_to_clap), None, "{left_to_clap:?}");
        }
    }

    #[test]
    fn an_option_of_another_tool_is_answered_with_ours() {
        let answer = |words: &[&str]| foreign_option(&parse([&["tidegate"], words].concat()).unwrap_err());
        let skips = "there is no option `--no-clobber` here: use `--if-absent`";
        assert_eq!(answer(&["cp", "--no-clobber", "a", "s3://bkt/k"]).as_deref(), Some(skips));
        assert!(answer(&["sync", "a", "s3://bkt/", "--transfers=8"]).unwrap().contains("--concurrency"));
        assert!(answer(&["cp", "a", "b", "--size-only"]).unwrap().contains("`tidegate sync --size-only`"));
        for left_to_clap in [&["ls", "--frob"][..], &["ls", "a", "b"], &["stat"], &["get"]] {
            assert_eq!(answer(left_to_clap), None, "{left_to_clap:?}");
        }
    }

    #[test]
    fn what_is_wrong_is_one_message_for_a_program() {
        let said = |words: &[&str]| sentence(&parse([&["tidegate"], words].concat()).unwrap_err());
        let tip = "tip: to pass '--frob' as a value, use '-- --frob'";
        assert_eq!(said(&["ls", "--frob"]), format!("unexpected argument '--frob' found; {tip}"));
        assert!(said(&[]).starts_with("a command is missing"));
        let missing = said(&["stat"]);
        assert!(missing.contains("<URL>") && !missing.contains("Usage"), "{missing}");
    }

    #[test]
    fn a_wrong_command_line_is_quoted_without_passwords() {
        let refused = |words: &[&str]| {
            let wrong = parse([&["tidegate"], words].concat()).unwrap_err();
            refusal(&wrong.to_string(), words.iter().map(|word| (*word).to_owned()))
        };
        assert_eq!(refused(&["ls", "s3://bkt/", "s3://other/"]), None);
        for words in [
            ["ls", "s3://bkt/", "http://user:sec/ret@h/k"],
            ["ls", "s3://bkt/", "user:secret@h/k"],
            ["ls", "s3://bkt/", "--min-rate=http://user:secret@h"],
            ["ls", "s3://bkt/", "--addressing=user:secret@h"],
        ] {
            let lines = refused(&words).unwrap();
            assert!(lines.len() > 1 && lines[0].contains("…@h"), "{lines:?}");
            assert!(!lines.iter().any(|line| line.contains("ret@")), "{lines:?}");
        }
        assert_eq!(refused(&["ls", "s3://bkt/", "a\nb"]).unwrap().len(), 1);
    }
}
