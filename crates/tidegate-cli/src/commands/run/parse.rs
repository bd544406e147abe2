//! Parses a line of a list as a command line.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;

use clap::parser::ValueSource;
use clap::{ArgMatches, FromArgMatches};

use super::ENGINE_OPTIONS;
use crate::invocation::Invocation;
use crate::{Command, CommandLine, foreign_command};

/// Commands that cannot be lines, and why.
const REFUSED: [(&str, &str); 5] = [
    ("run", "a list runs no other list"),
    ("serve", "the server never ends"),
    ("completions", "it prints a script"),
    ("cat", "objects of several lines would mix on standard output"),
    ("journal", "it needs an engine of its own: run it alone"),
];

/// A command with its options.
#[derive(Debug)]
pub(super) struct ParsedLine {
    pub(super) command: Command,
    pub(super) invocation: Invocation,
}

/// Parses a line by `command`, which may be used for many lines. `None` for an empty line or a comment. The error is
/// one sentence.
pub(super) fn line(command: &mut clap::Command, text: &[u8]) -> Result<Option<ParsedLine>, String> {
    let words = shlex::bytes::split(text).ok_or(
        "a quote is not closed, or the last backslash has nothing after it (names with them need quotes)",
    )?;
    let mut words: Vec<OsString> = words.into_iter().map(OsString::from_vec).collect();
    if words.first().is_some_and(|word| word == "tidegate") {
        words.remove(0);
    } else if words.is_empty() {
        return Ok(None);
    }
    let program = [OsString::from("tidegate")];
    let matches = command.try_get_matches_from_mut(program.iter().chain(&words));
    let matches = matches.map_err(|error| sentence(&error, &words))?;
    if let Some((name, options)) = matches.subcommand() {
        if let Some((_, why)) = REFUSED.iter().find(|(refused, _)| *refused == name) {
            return Err(format!("`{name}` can't be a line of a list: {why}"));
        }
        let is_given = |option| options.ids().any(|id| id == option) && options.get_flag(option);
        if name == "cp"
            && let Some(option) = ["from_command", "to_command"].into_iter().find(|option| is_given(option))
        {
            let option = option.replace('_', "-");
            return Err(format!(
                "--{option}: a command of a line would share standard input and output with the list"
            ));
        }
        if let Some(option) = engine_option(options) {
            let option = option.strip_suffix('s').filter(|_| option == "owners").unwrap_or(option);
            let option = option.replace('_', "-");
            return Err(format!(
                "--{option} holds for all lines together: give it to `tidegate run` instead"
            ));
        }
    }
    if let Some(word) = words.iter().find(|word| is_standard(word)) {
        let word = word.display();
        return Err(format!("{word}: lines of a list can't read standard input or write to standard output"));
    }
    let parsed = CommandLine::from_arg_matches(&matches).map_err(|error| sentence(&error, &words))?;
    let CommandLine { command, invocation } = parsed;
    if invocation.is_json() || invocation.is_quiet() {
        return Err(
            "--json and --quiet hold for all lines together: give them to `tidegate run` instead".to_owned()
        );
    }
    Ok(Some(ParsedLine { command, invocation }))
}

/// Whether a word stands for standard input or output.
fn is_standard(word: &OsString) -> bool {
    let Some(word) = word.to_str() else { return false };
    let word = word.strip_prefix("--files-from=").unwrap_or(word);
    let descriptor = word.strip_prefix("/dev/fd/").or_else(|| word.strip_prefix("/proc/self/fd/"));
    matches!(word, "-" | "/dev/stdin" | "/dev/stdout") || matches!(descriptor, Some("0" | "1"))
}

/// The first option on the line that belongs to the engine.
fn engine_option(matches: &ArgMatches) -> Option<&'static str> {
    let is_given = |option: &&str| {
        matches.ids().any(|id| id == *option)
            && matches.value_source(option) == Some(ValueSource::CommandLine)
    };
    let nested = || matches.subcommand().and_then(|(_, matches)| engine_option(matches));
    ENGINE_OPTIONS.iter().copied().find(|option| is_given(option)).or_else(nested)
}

/// clap's message in one sentence, without its usage and tips.
fn sentence(error: &clap::Error, words: &[OsString]) -> String {
    if !error.use_stderr() {
        return "help and version are for the command line, not for lines of a list".to_owned();
    }
    let words: Vec<String> = words.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    foreign_command(error, &words).unwrap_or_else(|| crate::sentence(error))
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    fn parsed(text: &str) -> Result<Option<ParsedLine>, String> {
        line(&mut CommandLine::command(), text.as_bytes())
    }

    #[test]
    fn empty_lines_and_comments_are_skipped() {
        for empty in ["", "   ", "# cp a b", "  # rm x"] {
            assert!(parsed(empty).unwrap().is_none(), "{empty:?}");
        }
    }

    #[test]
    fn words_are_those_of_a_shell() {
        for text in [
            r#"cp 'a b' "s3://bkt/it's""#,
            r"tidegate cp a\ b s3://bkt/#x",
            "-v ls -r s3://bkt # all of it",
            "cp --profile p --region r --strategy spool a s3://p@bkt/k",
        ] {
            assert!(parsed(text).unwrap().is_some(), "{text}");
        }
        let mut command = CommandLine::command();
        for text in ["rm s3://bkt/1", "rm --recursive s3://bkt/2", "rm s3://bkt/3"] {
            let parsed = line(&mut command, text.as_bytes()).unwrap().unwrap();
            let Command::Rm(args) = parsed.command else { panic!("{text}") };
            assert_eq!(
                format!("{args:?}").contains("recursive: true"),
                text.contains("--recursive"),
                "{text}"
            );
        }
    }

    #[test]
    fn what_is_wrong_is_one_sentence() {
        for (text, message) in [
            ("cp 'a b", "a quote is not closed"),
            ("cp --from-command s3://bkt/k -- date", "--from-command: a command of a line would share"),
            ("du", "the following required arguments were not provided: <URL>"),
            ("tidegate", "a command is missing"),
            ("ls --lots s3://bkt", "unexpected argument '--lots' found"),
            ("get s3://bkt/k", "there is no command `get`: use"),
            ("ls --help", "help and version are for the command line"),
            ("run other.txt", "`run` can't be a line"),
            ("cat s3://bkt/k", "`cat` can't be a line"),
            ("journal resume /j", "`journal` can't be a line"),
            ("cp - s3://bkt/k", "-: lines of a list can't read standard input"),
            ("cp s3://bkt/k /dev/stdout", "/dev/stdout: lines of a list"),
            ("cp --memory 1GiB a s3://bkt/k", "--memory holds for all lines together"),
            ("cp --part-size=8MiB a s3://bkt/k", "--part-size holds for all lines together"),
            ("ls --min-rate 0 s3://bkt", "--min-rate holds for all lines together"),
            ("sweep --owner 0 s3://bkt", "--owner holds for all lines together"),
        ] {
            let wrong = parsed(text).unwrap_err();
            assert!(wrong.starts_with(message) && !wrong.contains('\n'), "{text}: {wrong}");
        }
    }

    #[test]
    fn every_option_of_the_engine_is_one_of_run() {
        let command = CommandLine::command();
        let run = command.find_subcommand("run").unwrap();
        for option in run.get_arguments().map(|argument| argument.get_id().as_str()) {
            let is_own = ["file", "parallel", "verbose", "help"].contains(&option);
            assert!(is_own || ENGINE_OPTIONS.contains(&option), "{option}");
        }
    }
}
