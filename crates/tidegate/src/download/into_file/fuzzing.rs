//! Fuzzes the parser of download notes: with any bytes, and with valid notes that are changed.

use super::note::{Description, LONGEST, Note};
use crate::types::checksum::{Algorithm, Checksum};
use crate::types::object::Object;

/// Reads the input as a note. Then writes a note of an object with size and tag from the input, changes bytes as the
/// input says, and reads the result: unchanged, it must say what was written.
pub fn download_notes(input: &[u8]) {
    read(input);
    let Some((sizes, rest)) = input.split_first_chunk::<4>() else { return };
    let size = u64::from(u32::from_le_bytes(*sizes)) % (1 << 28) + 1;
    let (tag, changes) = rest.split_at(rest.len().min(16));
    let etag = Some(String::from_utf8_lossy(tag).into_owned());
    let object = Object { size, etag, ..Object::default() };
    let Some(description) = Description::new("s3://bucket/key", &object, Algorithm::Crc64Nvme) else {
        return;
    };
    let Some(note) = Note::new("0123456789abcdef", &description) else { return };
    let there = Checksum::of(Algorithm::Crc64Nvme, tag);
    let mut bytes = note.head().to_vec();
    bytes.extend(note.entry(0, &there));
    bytes.resize(usize::try_from(note.len()).unwrap_or_default(), 0);
    for change in changes.chunks_exact(3) {
        let at = usize::from(u16::from_le_bytes([change[0], change[1]])) % bytes.len();
        bytes[at] ^= change[2];
    }
    let found = read(&bytes);
    if changes.len() < 3 {
        let first = there.covers().min(size);
        assert_eq!(found, Some(if first == there.covers() { first } else { 0 }), "a whole note");
    }
}

/// How much of the first chunk is there according to a note.
fn read(bytes: &[u8]) -> Option<u64> {
    if bytes.len() as u64 > LONGEST {
        return None;
    }
    let (note, description, there) = Note::decode(bytes).ok()?;
    assert_eq!(note.len(), bytes.len() as u64);
    let kept: u64 = there.iter().map(Checksum::covers).sum();
    assert!(kept <= description.size, "{kept} bytes of {}", description.size);
    there.first().map(Checksum::covers)
}
