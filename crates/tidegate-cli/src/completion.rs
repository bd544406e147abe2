//! Completion of a command line while it is typed: commands, options and their values, buckets, keys and paths.
//!
//! A script in the shell (`tidegate completions`) calls `tidegate complete`, which answers with candidates for one
//! word. Whatever fails, the answer only has fewer candidates.

use std::ffi::{OsStr, OsString};

use clap::{Arg, ArgMatches, Command};
use clap_complete::engine::{
    ArgValueCompleter, CompletionCandidate, PathCompleter, ValueCompleter, complete,
};
use tidegate::text::printable;
use tokio::runtime::Handle;

use crate::options::ConnectionOptions;
use crate::spread::PrefixedOption;
use crate::{command_line, help};

mod places;
mod profiles;
pub(crate) mod words;

use places::PlaceCompleter;

/// The candidates for the word at `index` of a command line, which begins with the program's name. Blocks for a short
/// time while a store is asked, so it must run where blocking is allowed. `handle` is that of a runtime with threads
/// of its own.
pub(crate) fn candidates(words: Vec<OsString>, index: usize, handle: Handle) -> Vec<CompletionCandidate> {
    let places = PlaceCompleter::new(&words, handle);
    let typed = words.get(index).cloned().unwrap_or_default();
    let mut command = with_completers(command_line(), &places);
    let directory = std::env::current_dir().ok();
    let mut found = match complete(&mut command, words, index, directory.as_deref()) {
        Ok(found) => found,
        Err(error) => {
            tracing::debug!(%error, "no completion");
            return Vec::new();
        }
    };
    // Without a dash, nobody looks for options; and a directory is not completed to itself.
    let is_option = |value: &OsStr| value.as_encoded_bytes().starts_with(b"-") && value != "-";
    let wants_options = is_option(&typed) || typed == "-";
    found.retain(|candidate| {
        let value = candidate.get_value();
        (wants_options || !is_option(value)) && value != "." && is_harmless(value)
    });
    found
}

/// Whether a shell can show a value as it is: as one line, with no character that a terminal acts on. A byte of 80 to 9f
/// that is no part of a character is a control character where text is not UTF-8.
fn is_harmless(value: &OsStr) -> bool {
    value.as_encoded_bytes().utf8_chunks().all(|chunk| {
        printable(chunk.valid()) == chunk.valid()
            && !chunk.invalid().iter().any(|byte| (0x80..0xa0).contains(byte))
    })
}

/// The command with a completer for each argument whose values clap does not know.
fn with_completers(command: Command, places: &PlaceCompleter) -> Command {
    command
        .mut_args(|arg| match completer(&arg, places) {
            Some(completer) => arg.add(completer),
            None => arg,
        })
        .mut_subcommands(|below| with_completers(below, places))
}

/// The completer of an argument; `None` if clap knows the values (an enum, a path), or nothing can be proposed.
fn completer(arg: &Arg, places: &PlaceCompleter) -> Option<ArgValueCompleter> {
    if !arg.get_action().takes_values() {
        return None;
    }
    let value_name = arg.get_value_names().and_then(|names| names.first()).map_or("", |name| name.as_str());
    Some(match (arg.get_id().as_str(), value_name) {
        ("profile" | "source_profile", _) => one_of(profiles::names),
        ("prefixed", _) => ArgValueCompleter::new(places.clone()),
        (_, "URL" | "SRC" | "DST" | "SRC... DST" | "ROOT") if arg.is_positional() => {
            ArgValueCompleter::new(places.clone())
        }
        (_, "COMMAND") => one_of(help::page_names),
        ("strategy", _) => one_of_these(&STRATEGIES),
        ("checksum", _) => one_of_these(&CHECKSUMS),
        ("naming", _) => one_of_these(&NAMINGS),
        ("concurrency", _) => one_of_these(&["auto"]),
        ("sse", _) => one_of_these(&["AES256", "aws:kms", "aws:kms:"]),
        ("storage_class", _) => one_of_these(&STORAGE_CLASSES),
        ("storage", _) => ArgValueCompleter::new(storages),
        (_, "FILE" | "FILE|-") => ArgValueCompleter::new(PathCompleter::file()),
        (_, "JSON|@FILE") => {
            ArgValueCompleter::new(|current: &OsStr| paths_after("@", PathCompleter::file(), current))
        }
        _ => return None,
    })
}

const STRATEGIES: [&str; 6] = ["auto", "put", "chunked", "parallel", "spool", "journal"];
const CHECKSUMS: [&str; 2] = ["crc64nvme", "crc32c"];
const NAMINGS: [&str; 3] = ["base2", "decimal", "decimal-id"];
/// Those of S3 and of Google.
const STORAGE_CLASSES: [&str; 10] = [
    "STANDARD",
    "STANDARD_IA",
    "ONEZONE_IA",
    "INTELLIGENT_TIERING",
    "GLACIER_IR",
    "GLACIER",
    "DEEP_ARCHIVE",
    "NEARLINE",
    "COLDLINE",
    "ARCHIVE",
];

fn one_of_these(values: &'static [&'static str]) -> ArgValueCompleter {
    one_of(|| values.iter().map(|value| (*value).to_owned()).collect())
}

fn one_of(values: impl Fn() -> Vec<String> + Send + Sync + 'static) -> ArgValueCompleter {
    ArgValueCompleter::new(move |current: &OsStr| beginning_with(current, values()))
}

fn beginning_with(current: &OsStr, values: Vec<String>) -> Vec<CompletionCandidate> {
    let Some(current) = current.to_str() else { return Vec::new() };
    values.into_iter().filter(|value| value.starts_with(current)).map(CompletionCandidate::new).collect()
}

/// The storages of `tidegate serve`.
fn storages(current: &OsStr) -> Vec<CompletionCandidate> {
    let mut found = paths_after("disk:", PathCompleter::dir(), current);
    if found.is_empty() {
        found = beginning_with(current, ["memory", "discard", "disk:"].map(str::to_owned).to_vec());
    }
    found
}

/// Paths that follow `before` in the same word; none if the word does not begin so.
fn paths_after(before: &'static str, paths: PathCompleter, current: &OsStr) -> Vec<CompletionCandidate> {
    let Some(path) = current.to_str().and_then(|text| text.strip_prefix(before)) else { return Vec::new() };
    let found = paths.complete(path.as_ref()).into_iter();
    found.filter(|path| path.get_value() != ".").map(|path| path.add_prefix(before)).collect()
}

/// The options of type `T` on a command line that may be unfinished or wrong: those that can be read.
fn options_of<T: clap::Args + Default>(words: &[OsString]) -> T {
    let mut command = command_line().ignore_errors(true);
    let Ok(matches) = command.try_get_matches_from_mut(words) else { return T::default() };
    let (mut command, mut matches): (&Command, &ArgMatches) = (&command, &matches);
    while let Some((name, below)) = matches.subcommand() {
        let Some(subcommand) = command.find_subcommand(name) else { return T::default() };
        (command, matches) = (subcommand, below);
    }
    let is_known = |wanted: &Arg| command.get_arguments().any(|arg| arg.get_id() == wanted.get_id());
    match T::augment_args(Command::new("options")).get_arguments().all(is_known) {
        true => T::from_arg_matches(matches).unwrap_or_default(),
        false => T::default(),
    }
}

#[cfg(test)]
mod tests;
