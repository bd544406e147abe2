//! Words of a shell: what a word on a command line means, and how a value is written as a word.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

/// A word as it was typed: what it means, and the quotation that it ends in.
#[derive(Debug, Default)]
pub(crate) struct TypedWord {
    /// The word without its quotes and backslashes. Expansions stay as they were typed.
    pub(crate) value: OsString,
    /// The quote that is still open at the end, and the position after it.
    pub(crate) open_quote: Option<(Quoting, usize)>,
    /// Whether the shell expands something in it (`$x`, `$(…)`, `` `…` ``, `$'…'`), so that its value is not known.
    pub(crate) expands: bool,
}

/// How the characters that a shell acts on are kept from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Quoting {
    /// By a backslash before each.
    Backslashes,
    /// Between `'` and `'`.
    Single,
    /// Between `"` and `"`.
    Double,
}

impl TypedWord {
    pub(crate) fn read(word: &OsStr) -> Self {
        let (mut read, mut value) = (Self::default(), Vec::new());
        let mut bytes = word.as_bytes().iter().copied().enumerate().peekable();
        while let Some((at, byte)) = bytes.next() {
            let open = read.open_quote.map_or(Quoting::Backslashes, |(open, _)| open);
            match (byte, open) {
                (b'\'', Quoting::Backslashes) => read.open_quote = Some((Quoting::Single, at + 1)),
                (b'"', Quoting::Backslashes) => read.open_quote = Some((Quoting::Double, at + 1)),
                (b'\'', Quoting::Single) | (b'"', Quoting::Double) => read.open_quote = None,
                (b'\\', Quoting::Backslashes) => value.extend(bytes.next().map(|(_, byte)| byte)),
                (b'\\', Quoting::Double) => match bytes.peek() {
                    Some((_, b'"' | b'\\' | b'$' | b'`')) => {
                        value.extend(bytes.next().map(|(_, byte)| byte));
                    }
                    _ => value.push(byte),
                },
                _ => {
                    read.expands |= matches!(byte, b'$' | b'`') && open != Quoting::Single;
                    value.push(byte);
                }
            }
        }
        Self { value: OsString::from_vec(value), ..read }
    }
}

/// The value of a word as it was typed, with its quotes and backslashes. The last quotation may be unfinished.
pub(crate) fn unquoted(word: &OsStr) -> OsString {
    TypedWord::read(word).value
}

/// Writes a value so that bash reads it as it is, after the beginning of a word that ends in `quoting`. `None` if that
/// cannot be written.
pub(crate) fn quoted_for_bash(value: &OsStr, quoting: Quoting) -> Option<OsString> {
    let bytes = value.as_bytes();
    // A command line between backquotes loses its backslashes once more, and bash does not tell of them: then even a
    // protected backquote would begin a command.
    if bytes.contains(&b'`') {
        return None;
    }
    let mut quoted = Vec::with_capacity(bytes.len() + 8);
    match quoting {
        Quoting::Backslashes => {
            for byte in bytes {
                let is_plain =
                    byte.is_ascii_alphanumeric() || !byte.is_ascii() || b"/._-+:=@%,^".contains(byte);
                quoted.extend((!is_plain).then_some(b'\\'));
                quoted.push(*byte);
            }
        }
        // Where the value begins or ends with the quote, bash takes it for the quote of the word.
        Quoting::Single if bytes.starts_with(b"'") || bytes.ends_with(b"'") => return None,
        Quoting::Single => {
            for byte in bytes {
                match byte {
                    b'\'' => quoted.extend_from_slice(br"'\''"),
                    _ => quoted.push(*byte),
                }
            }
        }
        // Between these quotes a `!` recalls a command, and a backslash before it stays.
        Quoting::Double if bytes.contains(&b'!') || bytes.ends_with(b"\"") => return None,
        Quoting::Double => {
            for byte in bytes {
                quoted.extend(br#""\$"#.contains(byte).then_some(b'\\'));
                quoted.push(*byte);
            }
        }
    }
    Some(OsString::from_vec(quoted))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_and_backslashes_are_no_part_of_a_value() {
        for (word, value) in [
            ("s3://b/plain", "s3://b/plain"),
            (r"s3://b/a\ b\\c", r"s3://b/a b\c"),
            (r#""s3://b/a b"#, "s3://b/a b"),
            (r#"s3://b/'a "b'"#, r#"s3://b/a "b"#),
            (r#""a\$b\c'"#, r"a$b\c'"),
            ("end\\", "end"),
            ("", ""),
        ] {
            assert_eq!(unquoted(word.as_ref()), value, "{word}");
        }
    }

    #[test]
    fn the_open_quote_and_expansions_are_found() {
        for (word, open_quote, expands) in [
            ("s3://b/", None, false),
            (r#""s3://b/"#, Some((Quoting::Double, 1)), false),
            ("s3://b/'a", Some((Quoting::Single, 8)), false),
            (r#""s3://b/"x"#, None, false),
            (r#"'it'\''s"#, Some((Quoting::Single, 7)), false),
            (r#"\"a"#, None, false),
            (r#""a\"b"#, Some((Quoting::Double, 1)), false),
            (r#"'"$x"#, Some((Quoting::Single, 1)), false),
            ("$'a", Some((Quoting::Single, 2)), true),
            (r#""$(a"#, Some((Quoting::Double, 1)), true),
            (r#""\$(a"#, Some((Quoting::Double, 1)), false),
        ] {
            let read = TypedWord::read(word.as_ref());
            assert_eq!((read.open_quote, read.expands), (open_quote, expands), "{word}");
        }
    }

    #[test]
    fn what_is_quoted_is_read_as_it_was() {
        let values = [
            "s3://b/k",
            "a b",
            "it's",
            "\"$HOME\" x",
            "a;b&c|d",
            "#x",
            "é (1) [2]*?",
            r"back\slash\",
            "~root",
        ];
        for value in values {
            for (quoting, opening) in
                [(Quoting::Backslashes, ""), (Quoting::Single, "'"), (Quoting::Double, "\"")]
            {
                let mut word = OsString::from(opening);
                word.push(quoted_for_bash(value.as_ref(), quoting).unwrap());
                let read = TypedWord::read(&word);
                assert_eq!(read.value, value, "{word:?}");
                assert!(!read.expands, "{word:?}");
                assert_eq!(read.open_quote.map(|(open, _)| open), (!opening.is_empty()).then_some(quoting));
            }
        }
        assert_eq!(
            quoted_for_bash("s3://b/a b'c".as_ref(), Quoting::Backslashes).unwrap(),
            r"s3://b/a\ b\'c"
        );
    }

    #[test]
    fn a_value_that_cannot_be_written_is_none() {
        for (value, quoting) in [
            ("`a`", Quoting::Backslashes),
            ("`a`", Quoting::Single),
            ("`a`", Quoting::Double),
            ("a!b", Quoting::Double),
            ("a\"", Quoting::Double),
            ("'a", Quoting::Single),
            ("a'", Quoting::Single),
        ] {
            assert_eq!(quoted_for_bash(value.as_ref(), quoting), None, "{value} {quoting:?}");
        }
    }
}
