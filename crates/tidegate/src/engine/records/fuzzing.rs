//! Fuzzes the parser of the records files.

use super::file;

/// Parses the text of a records file, and the same text cut in half.
pub fn records(input: &[u8]) {
    let text = String::from_utf8_lossy(input);
    let open = file::parse(&text);
    assert!(open.len() <= text.lines().count(), "more sessions than lines");
    let mut end = text.len() / 2;
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    let _ = file::parse(&text[..end]);
}
