//! Files of records, of any text.

use super::file;

/// What a file of records says, read as it stands and once more with a torn end.
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
