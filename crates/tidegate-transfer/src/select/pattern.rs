//! Patterns of keys: `*` stands for any characters but `/`, `**` for any characters. Every other character stands for
//! itself, because all are legal in keys.

use regex_lite::{Regex, escape};

/// What a match of a pattern stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Matches {
    /// The key itself.
    Key,
    /// The key itself, and every key below it.
    KeyAndBelow,
    /// The last names of a key, whatever directories come before them, and every key below.
    NameAndBelow,
}

/// A pattern of keys.
#[derive(Clone, Debug)]
pub struct KeyPattern {
    text: String,
    matches: Matches,
    compiled: Regex,
}

impl KeyPattern {
    /// # Errors
    /// If the pattern is too long.
    pub fn new(text: &str, matches: Matches) -> Result<Self, String> {
        let compiled = Regex::new(&expression(text, matches))
            .map_err(|_| "this pattern is too long: write a shorter one, with fewer `*`".to_owned())?;
        Ok(Self { text: text.to_owned(), matches, compiled })
    }

    /// Whether it matches a key.
    pub fn matches(&self, key: &str) -> bool {
        self.compiled.is_match(key)
    }

    /// The beginning that all matching keys share.
    pub fn literal_prefix(&self) -> &str {
        self.text.split('*').next().unwrap_or_default()
    }

    /// Whether no matching key has a further `/` after the [literal prefix](Self::literal_prefix).
    pub fn is_shallow(&self) -> bool {
        let rest = &self.text[self.literal_prefix().len()..];
        self.matches == Matches::Key && !rest.contains("**") && !rest.contains('/')
    }
}

/// The regular expression of a pattern.
fn expression(text: &str, matches: Matches) -> String {
    let mut expression = r"(?s)\A".to_owned();
    let mut rest = text;
    if matches == Matches::NameAndBelow {
        match text.strip_prefix('/') {
            Some(anchored) => rest = anchored,
            None => expression += "(?:.*/)?",
        }
    }
    let is_directory = matches == Matches::NameAndBelow && rest.ends_with('/');
    if is_directory {
        rest = &rest[..rest.len() - 1];
    }
    let mut is_name_start = true;
    while !rest.is_empty() {
        let stars = rest.len() - rest.trim_start_matches('*').len();
        if stars == 0 {
            let literal = &rest[..rest.find('*').unwrap_or(rest.len())];
            expression += &escape(literal);
            is_name_start = literal.ends_with('/');
            rest = &rest[literal.len()..];
            continue;
        }
        rest = &rest[stars..];
        expression += match rest.strip_prefix('/') {
            // `a/**/b` also matches `a/b`.
            Some(after) if stars > 1 && is_name_start => {
                rest = after;
                "(?:.*/)?"
            }
            _ if stars > 1 => ".*",
            _ => "[^/]*",
        };
        is_name_start = is_name_start && rest.is_empty();
    }
    expression += match matches {
        Matches::Key => r"\z",
        _ if is_directory => r"/.*\z",
        Matches::KeyAndBelow | Matches::NameAndBelow => r"(?:/.*)?\z",
    };
    expression
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_match(pattern: &str, matches: Matches, key: &str) -> bool {
        KeyPattern::new(pattern, matches).unwrap().matches(key)
    }

    #[test]
    fn stars_are_the_only_characters_with_a_meaning() {
        for (pattern, yes, no) in [
            ("*.gz", &["a.gz", ".gz", "é\n.gz"][..], &["a/b.gz", "a.gz2", "agz"][..]),
            ("a/*/c", &["a/b/c", "a//c"], &["a/c", "a/b/b/c"]),
            ("**", &["", "a", "a/b/c"], &[]),
            ("a/**", &["a/", "a/b", "a/b/c"], &["a", "ab"]),
            ("a/**/z", &["a/z", "a/b/z", "a/b/c/z"], &["a/bz", "az", "z"]),
            ("**/z", &["z", "a/z", "a/b/z"], &["az"]),
            ("a**z", &["az", "a/b/z"], &["a/z/b"]),
            ("a***z", &["az", "a/b/z"], &["b"]),
            ("[a-c]?{x,y}.$^(|)\\d+", &["[a-c]?{x,y}.$^(|)\\d+"], &["b", "a"]),
            ("*a*a*a*a*a*a*a*a*b", &["aaaaaaaab"], &["aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"]),
        ] {
            for key in yes {
                assert!(is_match(pattern, Matches::Key, key), "{pattern} {key}");
            }
            for key in no {
                assert!(!is_match(pattern, Matches::Key, key), "{pattern} {key}");
            }
        }
    }

    #[test]
    fn a_match_can_stand_for_all_that_is_below_it() {
        for (key, expected) in [("tmp-1", true), ("tmp-1/a/b", true), ("tmp", false), ("a/tmp-1", false)] {
            assert_eq!(is_match("tmp-*", Matches::KeyAndBelow, key), expected, "{key}");
        }
    }

    #[test]
    fn the_pattern_of_a_filter_is_a_name_anywhere_unless_it_begins_with_a_slash() {
        for (pattern, yes, no) in [
            ("*.txt", &["a.txt", "b/a.txt", "b.txt/c"][..], &["a.txt2"][..]),
            ("*", &["a", "a/b/c"], &[]),
            ("/*.txt", &["a.txt"], &["b/a.txt"]),
            ("tmp", &["tmp", "tmp/a", "b/tmp/a/c"], &["tmp2", "atmp"]),
            ("tmp/", &["tmp/a", "b/tmp/a/c"], &["tmp", "b/tmp"]),
            ("tmp/*", &["tmp/a", "tmp/a/c", "b/tmp/a"], &["tmp"]),
            ("/a/b", &["a/b", "a/b/c"], &["b", "c/a/b"]),
        ] {
            for key in yes {
                assert!(is_match(pattern, Matches::NameAndBelow, key), "{pattern} {key}");
            }
            for key in no {
                assert!(!is_match(pattern, Matches::NameAndBelow, key), "{pattern} {key}");
            }
        }
    }

    #[test]
    fn a_listing_is_no_larger_than_the_pattern_needs() {
        for (text, matches, prefix, is_shallow) in [
            ("2026-*.gz", Matches::Key, "2026-", true),
            ("2026-*.gz", Matches::KeyAndBelow, "2026-", false),
            ("a/b*", Matches::Key, "a/b", true),
            ("a*/b", Matches::Key, "a", false),
            ("a/**", Matches::Key, "a/", false),
        ] {
            let pattern = KeyPattern::new(text, matches).unwrap();
            assert_eq!((pattern.literal_prefix(), pattern.is_shallow()), (prefix, is_shallow), "{text}");
        }
    }

    #[test]
    fn a_pattern_that_is_too_long_is_refused() {
        assert!(KeyPattern::new(&"*a".repeat(1 << 20), Matches::Key).is_err());
    }
}
