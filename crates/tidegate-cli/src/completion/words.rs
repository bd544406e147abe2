//! Words of a shell: what a word on a command line means, and how a value is written as a word.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

/// The value of a word as it was typed, with its quotes and backslashes. The last quotation may be unfinished.
pub(crate) fn unquoted(word: &OsStr) -> OsString {
    let mut value = Vec::new();
    let mut quote = None;
    let mut bytes = word.as_bytes().iter().copied().peekable();
    while let Some(byte) = bytes.next() {
        match (byte, quote) {
            (b'\'' | b'"', None) => quote = Some(byte),
            (b'\'' | b'"', Some(open)) if open == byte => quote = None,
            (b'\\', None) => value.extend(bytes.next()),
            (b'\\', Some(b'"')) => match bytes.peek() {
                Some(b'"' | b'\\' | b'$' | b'`') => value.extend(bytes.next()),
                _ => value.push(byte),
            },
            _ => value.push(byte),
        }
    }
    OsString::from_vec(value)
}

/// Whether a word as it was typed begins with a quote.
pub(crate) fn begins_with_quote(word: &OsStr) -> bool {
    word.as_bytes().first().is_some_and(|first| b"'\"".contains(first))
}

/// Writes a value as a word of bash, with backslashes.
pub(crate) fn quoted_for_bash(value: &OsStr) -> OsString {
    let is_plain =
        |byte: u8| byte.is_ascii_alphanumeric() || !byte.is_ascii() || b"/._-+:=@%,~^".contains(&byte);
    let bytes = value.as_bytes().iter().copied();
    OsString::from_vec(
        bytes.flat_map(|byte| (!is_plain(byte)).then_some(b'\\').into_iter().chain([byte])).collect(),
    )
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
    fn what_is_quoted_is_read_as_it_was() {
        for value in ["s3://b/k", "a b", "it's", "\"$HOME\"", "a;b&c|d", "#x", "é (1) [2]*?", r"back\slash"]
        {
            assert_eq!(unquoted(&quoted_for_bash(value.as_ref())), value);
        }
        assert_eq!(quoted_for_bash("s3://b/a b'c".as_ref()), r"s3://b/a\ b\'c");
    }
}
