//! The options that choose objects: patterns in URLs, lists of names, and filters.

use std::ffi::OsStr;

use tidegate_transfer::{Source, Wildcards};

use crate::exit::Outcome;

mod filter;
mod names;

pub(crate) use filter::FilterOptions;
pub(crate) use names::NamesOption;

/// Whether URLs may be patterns.
#[derive(Clone, Copy, Debug, Default, clap::Args)]
#[command(next_help_heading = "Which objects")]
pub(crate) struct PatternOption {
    /// Take `*` in a URL as a character of the key. Without this, `*` stands for any characters but `/`, and `**` for
    /// any characters; with -r, a pattern also takes everything below its matches. Quote patterns, so that the shell
    /// leaves them alone. An existing local file whose name has a `*` is taken by that name.
    #[arg(long)]
    literal: bool,
}

impl PatternOption {
    /// Whether `*` is a character like others.
    pub(crate) fn is_literal(self) -> bool {
        self.literal
    }

    /// Parses a source. If it `is_recursive`, a pattern also takes everything below its matches.
    pub(crate) fn parse(self, text: &OsStr, is_recursive: bool) -> Outcome<Source> {
        let wildcards = if self.literal { Wildcards::Literal } else { Wildcards::Pattern };
        Ok(Source::parse(text, wildcards, is_recursive)?)
    }
}
