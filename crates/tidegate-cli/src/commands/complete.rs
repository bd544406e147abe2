//! `tidegate complete`: proposes the rest of a word; the scripts of `tidegate completions` call it.

use std::ffi::{OsStr, OsString};
use std::io::Write;
use std::os::unix::ffi::OsStrExt;

use clap::ValueEnum;
use clap_complete::engine::CompletionCandidate;
use tokio::runtime::Handle;

use crate::completion::{self, words};
use crate::exit::Outcome;
use crate::invocation::{Invocation, OutputFormat};
use crate::output;

/// Propose the rest of a word of a command line, for the scripts of `tidegate completions`
#[derive(Debug, clap::Args)]
pub(crate) struct CompleteArgs {
    /// The shell that asks.
    #[arg(value_enum)]
    shell: CompletingShell,

    /// The word to complete, counted from 0.
    #[arg(long)]
    index: usize,

    /// The beginning of the word, which the shell does not replace.
    #[arg(long, default_value = "", allow_hyphen_values = true)]
    fixed: OsString,

    /// The words of the command line, as they were typed.
    #[arg(last = true)]
    words: Vec<OsString>,
}

/// A shell whose script asks this program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum CompletingShell {
    Bash,
    Zsh,
    Fish,
}

impl CompleteArgs {
    pub(crate) async fn run(self, _invocation: &Invocation) -> Outcome {
        // Without a terminal, no helper of credentials can ask for a password. A process that leads its group keeps the
        // terminal: then the shell did not start it for a completion.
        if let Err(errno) = rustix::process::setsid() {
            tracing::debug!(%errno, "the terminal is kept");
        }
        let mut typed = self.words;
        if self.index > typed.len() {
            return Ok(()); // no shell asks so
        }
        typed.resize(typed.len().max(self.index + 1), OsString::new());
        let raw = typed[self.index].clone();
        let words = typed.iter().map(|word| words::unquoted(word)).collect();
        let handle = Handle::current();
        // On this thread, the main one, because the stacks of the others are too small for commands.
        let found = tokio::task::block_in_place(|| completion::candidates(words, self.index, handle));
        let mut out = output::text(OutputFormat::Text)?;
        for candidate in &found {
            out.write_all(line(self.shell, candidate, &raw, &self.fixed).as_bytes())?;
            out.write_all(b"\n")?;
        }
        out.finish().await
    }
}

/// A candidate in the form that the script of a shell expects.
fn line(shell: CompletingShell, candidate: &CompletionCandidate, raw: &OsStr, fixed: &OsStr) -> OsString {
    let value = candidate.get_value();
    match shell {
        // bash quotes what it inserts only if these are names of files; within quotes, it inserts them as they are.
        CompletingShell::Bash if words::begins_with_quote(raw) => value.to_owned(),
        CompletingShell::Bash => {
            let fixed = words::unquoted(fixed);
            let rest = value.as_bytes().strip_prefix(fixed.as_bytes());
            words::quoted_for_bash(rest.map_or(value, OsStr::from_bytes))
        }
        CompletingShell::Zsh | CompletingShell::Fish => {
            let mut line = value.to_owned();
            if let Some(help) = candidate.get_help() {
                line.push("\t");
                line.push(help.to_string().lines().next().unwrap_or_default());
            }
            line
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bash_gets_what_it_replaces() {
        let line = |value: &str, raw: &str, fixed: &str| {
            line(CompletingShell::Bash, &CompletionCandidate::new(value), raw.as_ref(), fixed.as_ref())
        };
        assert_eq!(line("s3://bkt/a b", "s3://bk", "s3:"), r"//bkt/a\ b");
        assert_eq!(line("s3://bkt/", "s3://bk", ""), "s3://bkt/", "COMP_WORDBREAKS without a colon");
        assert_eq!(line("s3://bkt/a b", "\"s3://bk", ""), "s3://bkt/a b");
        assert_eq!(line("--prefixed=s3://bkt/", "--prefixed=s3:", "--prefixed=s3:"), "//bkt/");
    }

    #[test]
    fn zsh_and_fish_get_the_help() {
        let candidate = CompletionCandidate::new("cp").help(Some("Copy\nmore".into()));
        for shell in [CompletingShell::Zsh, CompletingShell::Fish] {
            assert_eq!(line(shell, &candidate, OsStr::new("c"), OsStr::new("")), "cp\tCopy");
        }
    }
}
