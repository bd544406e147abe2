//! A source as its user names it: an object, a tree, or a pattern of objects.

use std::ffi::OsStr;
use std::path::Path;

use tidegate::location::Location;

use super::pattern::{KeyPattern, Matches};
use super::{ObjectFilter, Selection};
use crate::error::{Error, Result};

/// What `*` stands for in the name of a source.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Wildcards {
    /// `*` is a character of the key.
    #[default]
    Literal,
    /// `*` stands for any characters but `/`, and `**` for any characters. An existing local file whose name has a `*` is
    /// taken by that name.
    Pattern,
}

/// A source as the user named it: an object, a tree, or a pattern of the objects of a tree.
#[derive(Clone, Debug)]
pub struct Source {
    /// The object or the tree; of a pattern, the directory or prefix before the name with the first `*`.
    pub location: Location,
    /// The pattern of keys below the location.
    pub pattern: Option<KeyPattern>,
    /// The source in the user's words.
    text: String,
}

impl Source {
    /// Parses a source: a path or a URL, or a pattern of them. If it `is_recursive`, a pattern also takes everything
    /// below its matches.
    ///
    /// # Errors
    /// If the text is no location, or its pattern is in the name of a bucket, or too long.
    pub fn parse(text: &OsStr, wildcards: Wildcards, is_recursive: bool) -> Result<Self> {
        let shown = text.to_string_lossy().into_owned();
        let split =
            text.to_str().filter(|text| wildcards == Wildcards::Pattern && is_pattern(text)).and_then(split);
        let Some((root, pattern)) = split else {
            return Ok(Self { location: Location::try_from(text)?, pattern: None, text: shown });
        };
        if root.ends_with("://") {
            let message = format!("{shown}: a bucket's name can't be a pattern: write it out");
            return Err(Error::Refused(message));
        }
        let matches = if is_recursive { Matches::KeyAndBelow } else { Matches::Key };
        let pattern =
            KeyPattern::new(pattern, matches).map_err(|why| Error::Refused(format!("{shown}: {why}")))?;
        Ok(Self { location: root.parse()?, pattern: Some(pattern), text: shown })
    }

    /// The source in the user's words.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The location as Tidegate writes it, or the pattern in the user's words.
    pub fn name(&self) -> String {
        if self.pattern.is_some() { self.text.clone() } else { self.location.to_string() }
    }

    /// The objects to take from the tree at the source's location.
    pub fn selection(&self, filter: &ObjectFilter) -> Selection {
        Selection::new(self.pattern.clone(), filter.clone())
    }

    /// The failure if nothing matches the pattern.
    pub fn no_match(&self) -> Error {
        Error::NotFound(format!(
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

    fn parse(text: &str) -> Result<Source> {
        Source::parse(text.as_ref(), Wildcards::Pattern, false)
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
            assert!(matches!(parse(bucket), Err(Error::Refused(_))), "{bucket}");
        }
    }

    #[test]
    fn literal_turns_patterns_off() {
        let source = Source::parse("s3://bkt/a*".as_ref(), Wildcards::Literal, true).unwrap();
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
