//! `tidegate run`: runs many commands at the same time, with one memory budget.

use std::ffi::OsString;
use std::fs::File;
use std::io::{BufReader, Seek};
use std::path::{Path, PathBuf};

use clap::CommandFactory;
use futures::future::LocalBoxFuture;
use futures::stream::FuturesUnordered;
use futures::{FutureExt, StreamExt};
use tidegate::settings::{Concurrency, RetryPolicy};
use tidegate::text::printable;
use tidegate::{ErrorKind, Tidegate, TidegateBuilder};

use tidegate_transfer::Reach;

use crate::exit::{self, CommandFailure, Outcome};
use crate::invocation::Invocation;
use crate::label::{self, labelled};
use crate::options::Owners;
use crate::stores::{SharedEngine, Stores};
use crate::transfer::choices::{DurabilityChoice, Hedge};
use crate::{CommandLine, output, runtime, shared_output, standard, text, values};

mod lines;
mod parse;

use lines::{Line, Lines};
use parse::ParsedLine;

/// The heading of options in the help.
const TRANSFER: &str = "How objects are transferred";

/// Run many commands at the same time, one a line of a file or of standard input
///
///     tidegate run list.txt
///     generate-commands | tidegate run -
///
///     # list.txt: empty lines and comments are skipped
///     cp 'big file.tar' s3://BUCKET/
///     cp -r s3://PROFILE@BUCKET/tables/ s3://OTHER/tables/
///     rm s3://BUCKET/old
///
/// A line is a command with its options. Quotes and backslashes work as in a shell; variables
/// and the shell's wildcards do not. Tidegate's own patterns (`*`, `**`) do. Lines run in any
/// order, so none may need what another one writes. All share one memory budget and one limit
/// of requests: options such as --memory belong to `tidegate run`, and those of the account
/// and the endpoint to each line. To copy many files, `tidegate cp --files-from` is simpler,
/// and safe for every file name.
///
/// If a line of a file is wrong, nothing is done (exit code 2). A pipe may never end: its
/// lines run as they arrive, and a wrong one counts as failed. A failed command does not
/// stop the others, and its message begins with FILE:LINE. But if 100 in a row fail because
/// a store is not reached or refuses the credentials, no more are begun. The exit code is 1
/// if any command failed, or the commands' own code if all failed with the same one.
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct RunArgs {
    /// A file with one command a line, or - for standard input.
    #[arg(value_name = "FILE")]
    file: OsString,

    /// Run at most this many commands at once.
    #[arg(long, default_value_t = 64, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    parallel: u16,

    /// Hold at most this many bytes in buffers, for all commands together.
    #[arg(long, default_value = "256MiB", value_parser = values::memory, value_name = "SIZE", help_heading = TRANSFER)]
    memory: u64,

    /// Allow this many requests in flight to each endpoint. The limit is for all commands together; with auto, it
    /// adapts.
    #[arg(long, default_value = "auto", value_parser = values::concurrency, value_name = "N", help_heading = TRANSFER)]
    concurrency: Concurrency,

    /// Upload in parts of this size, from 5MiB to 5GiB.
    #[arg(long, value_parser = values::size_above_zero, value_name = "SIZE", help_heading = TRANSFER)]
    part_size: Option<u64>,

    /// Send each request at most this many times, from 1.
    #[arg(long, default_value_t = RetryPolicy::default().attempts, value_name = "N", value_parser = clap::value_parser!(u32).range(1..), help_heading = TRANSFER)]
    attempts: u32,

    /// Send very slow parts again.
    #[arg(long, value_enum, default_value_t, value_name = "WHEN", help_heading = TRANSFER)]
    hedge: Hedge,

    /// Ask again for the rest of a response that is slower than this. 0 turns this off. Default: 1KiB.
    #[arg(long, value_parser = values::rate, value_name = "RATE", help_heading = TRANSFER)]
    min_rate: Option<u64>,

    /// Move at most this many bytes a second, such as 50MB/s. The limit is for all commands together.
    #[arg(long, value_parser = values::rate_above_zero, value_name = "RATE", help_heading = TRANSFER)]
    bandwidth: Option<u64>,

    /// Spill bytes that do not fit into memory to this directory. Repeat it for several directories.
    #[arg(long, value_name = "DIR", help_heading = TRANSFER)]
    spool: Vec<PathBuf>,

    /// Keep the journals of commands with --strategy journal in this directory. Repeat it for several directories.
    #[arg(long, value_name = "DIR", help_heading = TRANSFER)]
    journal: Vec<PathBuf>,

    /// Choose when journals are forced to disk.
    #[arg(long, value_enum, default_value_t, value_name = "WHEN", help_heading = TRANSFER)]
    durability: DurabilityChoice,

    #[command(flatten)]
    owners: Owners,
}

/// Options that belong to `tidegate run` instead of its lines.
const ENGINE_OPTIONS: [&str; 11] = [
    "memory",
    "concurrency",
    "part_size",
    "attempts",
    "hedge",
    "min_rate",
    "spool",
    "journal",
    "durability",
    "owners",
    "bandwidth",
];

/// How many commands in a row may fail because a store is not reached or refuses the credentials.
const ALIKE: u64 = 100;
/// The most wrong lines of a file that are printed.
const SHOWN: u64 = 100;

/// How the commands have ended so far.
#[derive(Debug, Default)]
struct LineTally {
    ended: u64,
    failed: u64,
    /// The exit code of all that failed, if it is one.
    codes: CommonCode,
    /// How many failed in a row for a cause that others share.
    alike: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum CommonCode {
    #[default]
    None,
    One(u8),
    Several,
}

impl RunArgs {
    pub(crate) async fn run(self, invocation: &Invocation) -> Outcome {
        let name = if self.file == "-" { "-".to_owned() } else { self.file.display().to_string() };
        let name = printable(&name).into_owned();
        let file = self.open(&name)?;
        shared_output::begin();
        Stores::with(invocation, self.engine(), async |stores| {
            let lines = Lines::of(file)?;
            self.run_all(&SharedEngine::of(stores), invocation, &name, lines).await
        })
        .await
    }

    fn engine(&self) -> TidegateBuilder {
        let mut retry = RetryPolicy::default();
        retry.attempts = self.attempts;
        retry.min_rate = self.min_rate.unwrap_or(retry.min_rate);
        let engine = self
            .owners
            .trusted(Tidegate::builder())
            .memory(self.memory)
            .retry(retry)
            .concurrency(self.concurrency)
            .hedge(self.hedge == Hedge::On)
            .spool(self.spool.clone())
            .journal(self.journal.clone())
            .durability(self.durability.setting());
        let engine = match self.bandwidth {
            Some(bytes_per_second) => engine.bandwidth(bytes_per_second),
            None => engine,
        };
        match self.part_size {
            Some(bytes) => engine.part_size(bytes),
            None => engine,
        }
    }

    /// Opens the list. All lines of a regular file are checked.
    fn open(&self, name: &str) -> Outcome<File> {
        if self.file == "-" {
            return standard::input();
        }
        let path = Path::new(&self.file);
        let unreadable = |error| CommandFailure::of_file(path, &error);
        let mut file = File::open(path).map_err(unreadable)?;
        if !file.metadata().map_err(unreadable)?.is_file() {
            return Ok(file);
        }
        let mut command = CommandLine::command();
        let (mut all, mut wrong) = (0, 0);
        for line in lines::read(BufReader::new(&file)) {
            let Line { number, text } = line.map_err(unreadable)?;
            let parsed = text.and_then(|text| parse::line(&mut command, &text));
            all += u64::from(!matches!(parsed, Ok(None)));
            let Err(message) = parsed else { continue };
            wrong += 1;
            if wrong <= SHOWN {
                label::labelled_now(format!("{name}:{number}: "), || {
                    output::fail(&CommandFailure::Usage(message))
                });
            }
        }
        file.rewind().map_err(unreadable)?;
        match wrong {
            0 => Ok(file),
            _ => Err(CommandFailure::Usage(format!(
                "{name}: {wrong} of {} are wrong; nothing was done",
                text::count(all, "command")
            ))),
        }
    }

    /// Runs the lines, at most `parallel` at once. Lines that are wrong count as failed.
    async fn run_all(
        &self,
        engine: &SharedEngine,
        invocation: &Invocation,
        name: &str,
        mut lines: Lines,
    ) -> Outcome {
        let mut command = CommandLine::command();
        let mut running = FuturesUnordered::new();
        let (mut tally, mut has_ended, mut unread) = (LineTally::default(), false, None);
        loop {
            runtime::share_open_files(running.len());
            has_ended |= tally.is_hopeless();
            let line = tokio::select! {
                biased;
                Some(ended) = running.next() => {
                    tally.add(ended)?;
                    continue;
                }
                line = lines.next(), if !has_ended && running.len() < usize::from(self.parallel) => line,
                else => break,
            };
            let Line { number, text } = match line {
                Some(Ok(line)) => line,
                Some(Err(error)) => {
                    unread = Some(CommandFailure::of_file(Path::new(&self.file), &error));
                    has_ended = true;
                    continue;
                }
                None => {
                    has_ended = true;
                    continue;
                }
            };
            let label = format!("{name}:{number}: ");
            match text.and_then(|text| parse::line(&mut command, &text)) {
                Ok(Some(parsed)) => {
                    let command = self.begin(parsed, engine, invocation);
                    running.push(labelled(label, command));
                }
                Ok(None) => {}
                Err(message) => {
                    let failure = CommandFailure::Usage(message);
                    label::labelled_now(label, || exit::say(&failure, false));
                    tally.add(Err(failure))?;
                }
            }
        }
        match unread {
            None => tally.outcome(),
            Some(failure) if tally.ended == 0 => Err(failure),
            Some(failure) => {
                exit::say(&failure, invocation.is_verbose());
                Err(CommandFailure::Failed(format!("{}, and the rest could not be read", tally.sentence())))
            }
        }
    }

    /// Runs a command, and prints why it fails.
    fn begin(
        &self,
        line: ParsedLine,
        engine: &SharedEngine,
        outer: &Invocation,
    ) -> LocalBoxFuture<'static, Outcome> {
        let ParsedLine { mut command, invocation } = line;
        if let crate::Command::Cp(args) = &mut command {
            args.keep_journals(&self.journal);
        }
        let invocation = invocation.on(engine.clone(), outer);
        async move {
            let verbose = invocation.is_verbose();
            command.run(&invocation).await.inspect_err(|failure| exit::say(failure, verbose))
        }
        .boxed_local()
    }
}

impl LineTally {
    /// Counts a command.
    ///
    /// # Errors
    /// If nobody reads standard output any more, which ends all commands.
    fn add(&mut self, ended: Outcome) -> Outcome {
        self.ended += 1;
        let Err(failure) = ended else {
            self.alike = 0;
            return Ok(());
        };
        if matches!(failure, CommandFailure::NobodyReads | CommandFailure::Interrupted(_)) {
            return Err(failure);
        }
        // A missing bucket concerns the lines of that bucket only.
        let is_of_a_store = matches!(&failure, CommandFailure::Store(error) if error.kind() != ErrorKind::NoBucket)
            && failure.reach() != Reach::One;
        self.count(failure.code(), is_of_a_store);
        Ok(())
    }

    /// Counts a failure; `is_of_a_store` says that the store was not reached, or refused every request.
    fn count(&mut self, code: u8, is_of_a_store: bool) {
        self.failed += 1;
        self.codes = match self.codes {
            CommonCode::None => CommonCode::One(code),
            CommonCode::One(first) if first == code => CommonCode::One(code),
            _ => CommonCode::Several,
        };
        self.alike = if is_of_a_store { self.alike + 1 } else { 0 };
    }

    /// Whether the other commands would most likely fail, too.
    fn is_hopeless(&self) -> bool {
        self.alike >= ALIKE
    }

    fn sentence(&self) -> String {
        format!("{} of {} failed", self.failed, text::count(self.ended, "command"))
    }

    fn outcome(&self) -> Outcome {
        let mut sentence = self.sentence();
        if self.is_hopeless() {
            sentence += &format!(", and no more were begun, as the last {ALIKE} failed alike");
        }
        match self.codes {
            CommonCode::None => Ok(()),
            CommonCode::One(code) if self.failed == self.ended => Err(CommandFailure::All(code, sentence)),
            CommonCode::One(_) | CommonCode::Several => Err(CommandFailure::Failed(sentence)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused() -> CommandFailure {
        CommandFailure::NotFound("there is no such file".to_owned())
    }

    #[test]
    fn the_exit_code_is_that_of_all_or_one() {
        let code = |outcomes: Vec<Outcome>| {
            let mut tally = LineTally::default();
            outcomes.into_iter().for_each(|outcome| tally.add(outcome).unwrap());
            tally.outcome().map_err(|failure| (failure.code(), failure.sentence().unwrap()))
        };
        let said = |code, sentence: &str| Err((code, sentence.to_owned()));
        assert_eq!(code(vec![]), Ok(()));
        assert_eq!(code(vec![Ok(()), Ok(())]), Ok(()));
        assert_eq!(code(vec![Err(refused()), Err(refused())]), said(3, "2 of 2 commands failed"));
        assert_eq!(code(vec![Err(refused()), Ok(())]), said(1, "1 of 2 commands failed"));
        let usage = CommandFailure::Usage("wrong".to_owned());
        assert_eq!(code(vec![Err(refused()), Err(usage)]), said(1, "2 of 2 commands failed"));
    }

    #[test]
    fn only_failures_in_a_row_to_reach_stores_end_the_list() {
        let mut tally = LineTally::default();
        (1..ALIKE).for_each(|_| tally.count(5, true));
        assert!(!tally.is_hopeless());
        tally.add(Ok(())).unwrap();
        tally.count(5, true);
        assert!(!tally.is_hopeless());
        (0..ALIKE).for_each(|_| tally.add(Err(refused())).unwrap());
        assert!(!tally.is_hopeless());
        (0..ALIKE).for_each(|_| tally.count(5, true));
        assert!(tally.is_hopeless());
        assert!(tally.add(Err(CommandFailure::NobodyReads)).is_err());
    }
}
