//! `tidegate complete`: proposes the rest of a word; the scripts of `tidegate completions` call it.

use std::ffi::{OsStr, OsString};
use std::io::Write;
use std::os::unix::ffi::OsStrExt;

use clap::ValueEnum;
use clap_complete::engine::CompletionCandidate;
use tokio::runtime::Handle;

use crate::completion;
use crate::completion::words::{self, Quoting, TypedWord};
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
            let Some(line) = line(self.shell, candidate, &raw, &self.fixed) else { continue };
            out.write_all(line.as_bytes())?;
            out.write_all(b"\n")?;
        }
        out.finish().await
    }
}

/// A candidate in the form that the script of a shell expects; `None` if it cannot be offered.
fn line(
    shell: CompletingShell,
    candidate: &CompletionCandidate,
    raw: &OsStr,
    fixed: &OsStr,
) -> Option<OsString> {
    let value = candidate.get_value();
    match shell {
        CompletingShell::Bash => for_bash(value, raw, fixed),
        CompletingShell::Zsh | CompletingShell::Fish => {
            let mut line = value.to_owned();
            if let Some(help) = candidate.get_help() {
                line.push("\t");
                line.push(help.to_string().lines().next().unwrap_or_default());
            }
            Some(line)
        }
    }
}

/// What bash inserts. bash quotes only names of files itself, and inserts everything else as it is. It replaces the
/// word after a quote that is open, otherwise after `fixed`.
fn for_bash(value: &OsStr, raw: &OsStr, fixed: &OsStr) -> Option<OsString> {
    let (kept, quoting) = match TypedWord::read(raw).open_quote {
        Some((quoting, after)) => (OsStr::from_bytes(&raw.as_bytes()[..after]), quoting),
        None => (fixed, Quoting::Backslashes),
    };
    let kept = TypedWord::read(kept);
    // What the shell puts in place of an expansion is not known, and the rest of `$'…'` has other rules.
    if kept.expands {
        return None;
    }
    let rest = value.as_bytes().strip_prefix(kept.value.as_bytes())?;
    words::quoted_for_bash(OsStr::from_bytes(rest), quoting)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bash_gets_what_it_replaces() {
        for (value, raw, fixed, inserted) in [
            ("s3://bkt/a b", "s3://bk", "s3:", Some(r"//bkt/a\ b")),
            // COMP_WORDBREAKS without a colon.
            ("s3://bkt/", "s3://bk", "", Some("s3://bkt/")),
            ("s3://bkt/a b", "\"s3://bk", "", Some("s3://bkt/a b")),
            ("s3://bkt/$(a)", "\"s3://bk", "", Some(r"s3://bkt/\$(a)")),
            ("s3://bkt/a'$(b)", "'s3://bk", "", Some(r"s3://bkt/a'\''$(b)")),
            // bash keeps what is before the open quote, wherever that is.
            ("s3://bkt/a b", "s3://'bk", "s3:", Some("bkt/a b")),
            ("--prefixed=s3://bkt/", "--prefixed=\"s3:", "--prefixed=", Some("s3://bkt/")),
            // A quotation that has ended protects nothing.
            ("s3://bkt/$(a)", "\"s3://bkt/\"", "", Some(r"s3://bkt/\$\(a\)")),
            ("--prefixed=s3://bkt/", "--prefixed=s3:", "--prefixed=s3:", Some("//bkt/")),
            ("s3://bkt/k", "$'s3://bk", "", None),
            ("s3://bkt/`a`", "\"s3://bk", "", None),
        ] {
            let line =
                line(CompletingShell::Bash, &CompletionCandidate::new(value), raw.as_ref(), fixed.as_ref());
            assert_eq!(line.as_deref(), inserted.map(OsStr::new), "{value} for {raw}");
        }
    }

    #[test]
    fn zsh_and_fish_get_the_help() {
        let candidate = CompletionCandidate::new("cp").help(Some("Copy\nmore".into()));
        for shell in [CompletingShell::Zsh, CompletingShell::Fish] {
            assert_eq!(line(shell, &candidate, OsStr::new("c"), OsStr::new("")).unwrap(), "cp\tCopy");
        }
    }
}
