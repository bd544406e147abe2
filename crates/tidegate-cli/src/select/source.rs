//! The sources that a command line names.

use std::ffi::OsStr;
use std::path::Path;

use tidegate::location::Location;

use super::pattern::{KeyPattern, Matches};
use super::{ObjectFilter, Selection};
use crate::exit::{CommandFailure, Outcome};

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

/// A source as the user named it: an object, a tree, or a pattern of the objects of a tree.
#[derive(Clone, Debug)]
pub(crate) struct SourceArgument {
    /// The object or the tree; of a pattern, the directory or prefix before the name with the first `*`.
    pub(crate) location: Location,
    /// The pattern of keys below the location.
    pub(crate) pattern: Option<KeyPattern>,
    /// The source in the user's words.
    text: String,
}

impl PatternOption {
    /// Whether `*` is a character like others.
    pub(crate) fn is_literal(self) -> bool {
        self.literal
    }

    /// Parses a source. If it `is_recursive`, a pattern also takes everything below its matches.
    pub(crate) fn parse(self, text: &OsStr, is_recursive: bool) -> Outcome<SourceArgument> {
        let shown = text.to_string_lossy().into_owned();
        let split = text.to_str().filter(|text| !self.literal && is_pattern(text)).and_then(split);
        let Some((root, pattern)) = split else {
            return Ok(SourceArgument { location: Location::try_from(text)?, pattern: None, text: shown });
        };
        if root.ends_with("://") {
            let message = format!("{shown}: a bucket's name can't be a pattern: write it out");
            return Err(CommandFailure::Usage(message));
        }
        let matches = if is_recursive { Matches::KeyAndBelow } else { Matches::Key };
        let pattern = KeyPattern::new(pattern, matches)
            .map_err(|why| CommandFailure::Usage(format!("{shown}: {why}")))?;
        Ok(SourceArgument { location: root.parse()?, pattern: Some(pattern), text: shown })
    }
}

impl SourceArgument {
    /// The source in the user's words.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// The location as Tidegate writes it, or the pattern in the user's words.
    pub(crate) fn name(&self) -> String {
        if self.pattern.is_some() { self.text.clone() } else { self.location.to_string() }
    }

    /// The objects to take from the tree at the source's location.
    pub(crate) fn selection(&self, filter: &ObjectFilter) -> Selection {
        Selection::new(self.pattern.clone(), filter.clone())
    }

    /// The failure if nothing matches the pattern.
    pub(crate) fn no_match(&self) -> CommandFailure {
        CommandFailure::NotFound(format!(
            "{}: no object matches this pattern; `**` also stands for characters after a `/`, and --literal takes `*` as \
             a character",
            self.text
        ))
    }
}

/// Whether the text has a `*`, and is not the name of a local file that is there: a shell passes the names that match
/// its own patterns, and such a name may have a `*`.
fn is_pattern(text: &str) -> bool {
    text.contains('*') && !(matches!(text.parse(), Ok(Location::Local { path }) if is_there(&path)))
}

fn is_there(path: &Path) -> bool {
    path.symlink_metadata().is_ok()
}

/// Splits before the name with the first `*`: the location of the tree, and the pattern of keys below it.
fn split(text: &str) -> Option<(&str, &str)> {
    let star = text.find('*')?;
    Some(match text[..star].rfind('/') {
        Some(slash) => text.split_at(slash + 1),
        None => ("./", text),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Outcome<SourceArgument> {
        PatternOption::default().parse(text.as_ref(), false)
    }

    #[test]
    fn a_pattern_is_split_before_the_name_with_the_first_star() {
        for (text, location, pattern) in [
            ("s3://bkt/logs/2026-*/x.gz", "s3://bkt/logs/", Some("2026-")),
            ("s3://bkt/*", "s3://bkt/", Some("")),
            ("no such dir/a*", "no such dir/", Some("a")),
            ("no such*", "./", Some("no such")),
            ("s3://bkt/what?[1]", "s3://bkt/what?[1]", None),
        ] {
            let source = parse(text).unwrap();
            assert_eq!(source.location, location.parse().unwrap(), "{text}");
            assert_eq!(source.pattern.as_ref().map(KeyPattern::literal_prefix), pattern, "{text}");
            assert_eq!(source.text(), text);
        }
        for bucket in ["s3://*", "s3://b*/key", "gs://**"] {
            assert_eq!(parse(bucket).unwrap_err().code(), 2, "{bucket}");
        }
    }

    #[test]
    fn literal_turns_patterns_off() {
        let source = PatternOption { literal: true }.parse("s3://bkt/a*".as_ref(), true).unwrap();
        assert!(source.pattern.is_none());
        assert_eq!(source.location, "s3://bkt/a*".parse().unwrap());
    }

    #[test]
    fn a_file_that_is_there_is_no_pattern() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a*b");
        assert!(parse(path.to_str().unwrap()).unwrap().pattern.is_some());
        std::fs::write(&path, "1").unwrap();
        assert!(parse(path.to_str().unwrap()).unwrap().pattern.is_none());
    }
}
