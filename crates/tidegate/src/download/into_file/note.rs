//! The note of a download: which object is downloaded, into which file, and how much of each chunk is there, with
//! checksums. With it the next download of the same object to the same path can resume.
//!
//! # Format
//!
//! A file of its own beside the target. Numbers are little-endian.
//!
//! | bytes | what |
//! |---|---|
//! | 8 | `TIDEGET2` |
//! | 16 | the token in the name of the file that has the bytes, hexadecimal digits |
//! | 4 | length of the description, at most 64 KiB |
//! | 8 | CRC-64/NVME of the token and the description |
//! | length | the description, JSON: [`Description`] |
//! | 24 for each chunk | an entry: how many bytes of the chunk are there, from its beginning on; their checksum; the CRC-64/NVME of the CRC above, the chunk's number, and these two. Zeros where none is there |
//!
//! No part of it has to be synced to disk, and in no particular order: a torn entry fails its own check, and a chunk
//! whose bytes did not reach the disk fails its checksum when it is read again.
//!
//! # Checks on reading
//!
//! The note may be damaged, or written by another user. [`Note::decode`] accepts a note only if its length is exactly
//! the one that its description requires, and its chunks are those that this version would cut. So a note has at most
//! 65,536 entries, and the cost of reading it is known beforehand ([`LONGEST`]).

use std::ops::Range;

use serde::{Deserialize, Serialize};

use crate::types::checksum::{Algorithm, Checksum};
use crate::types::object::Object;

const MAGIC: &[u8; 8] = b"TIDEGET2";
/// Bytes before the description.
const HEAD: usize = 36;
const LONGEST_DESCRIPTION: usize = 64 << 10;
/// Bytes of an entry.
const ENTRY: usize = 24;
/// The greatest length of a note, in bytes.
pub(super) const LONGEST: u64 = (HEAD + LONGEST_DESCRIPTION) as u64 + MOST_CHUNKS * ENTRY as u64;

/// The size of a chunk; larger where there would be more than `MOST_CHUNKS`.
pub(super) const CHUNK: u64 = 8 << 20;
const MOST_CHUNKS: u64 = 1 << 16;
/// Largest file on any file system.
const LARGEST: u64 = i64::MAX as u64;

/// How an object of `size` bytes is cut into chunks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Chunks {
    size: u64,
    chunk: u64,
}

impl Chunks {
    pub(super) fn of(size: u64) -> Self {
        Self { size, chunk: CHUNK.max(size.div_ceil(MOST_CHUNKS)) }
    }

    pub(super) fn count(self) -> usize {
        // At most `MOST_CHUNKS`.
        self.size.div_ceil(self.chunk) as usize
    }

    /// The chunk that contains byte `at`.
    pub(super) fn at(self, at: u64) -> usize {
        (at / self.chunk) as usize
    }

    pub(super) fn range(self, number: usize) -> Range<u64> {
        let start = number as u64 * self.chunk;
        start..self.size.min(start.saturating_add(self.chunk))
    }
}

/// Which object is downloaded, and in which chunks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Description {
    pub(super) url: String,
    pub(super) size: u64,
    pub(super) etag: Option<String>,
    pub(super) version: Option<String>,
    /// The store's own checksum of the whole object, in base64: kept here because a resumed download asks for ranges,
    /// and the store gives no checksum with those.
    pub(super) crc64nvme: Option<String>,
    pub(super) crc32c: Option<String>,
    /// Size of every chunk but the last.
    pub(super) chunk: u64,
    pub(super) algorithm: String,
}

impl Description {
    /// `None` where nothing tells the object from another of the same size.
    pub(super) fn new(url: &str, object: &Object, algorithm: Algorithm) -> Option<Self> {
        (object.etag.is_some() || object.version.is_some()).then(|| Self {
            url: url.to_owned(),
            size: object.size,
            etag: object.etag.clone(),
            version: object.version.clone(),
            crc64nvme: object.crc64nvme.clone(),
            crc32c: object.crc32c.clone(),
            chunk: Chunks::of(object.size).chunk,
            algorithm: algorithm.name().to_owned(),
        })
    }

    /// The object's identity, and the checksums that its bytes are compared with.
    pub(super) fn object(&self) -> Object {
        Object {
            size: self.size,
            etag: self.etag.clone(),
            version: self.version.clone(),
            crc64nvme: self.crc64nvme.clone(),
            crc32c: self.crc32c.clone(),
            ..Object::default()
        }
    }

    /// An inconsistency in the description, if any.
    fn flaw(&self) -> Option<&'static str> {
        if self.size == 0 || self.size > LARGEST {
            return Some("no download has such a size");
        }
        if self.chunk != Chunks::of(self.size).chunk {
            return Some("its chunks are none that this version cuts");
        }
        if self.etag.is_none() && self.version.is_none() {
            return Some("nothing in it tells the object from another");
        }
        None
    }
}

/// A note to be written.
#[derive(Debug)]
pub(super) struct Note {
    head: Vec<u8>,
    chunks: Chunks,
    algorithm: Algorithm,
    seal: u64,
}

impl Note {
    /// `None` where the description is too long for a note.
    pub(super) fn new(token: &str, description: &Description) -> Option<Self> {
        let algorithm = description.algorithm.parse().ok()?;
        let text = serde_json::to_vec(description).ok().filter(|text| text.len() <= LONGEST_DESCRIPTION)?;
        let seal = seal_of(token.as_bytes(), &text);
        let mut head = MAGIC.to_vec();
        head.extend(token.as_bytes());
        head.extend((text.len() as u32).to_le_bytes());
        head.extend(seal.to_le_bytes());
        head.extend(text);
        Some(Self { head, chunks: Chunks::of(description.size), algorithm, seal })
    }

    /// The token in the name of the file that has the bytes.
    pub(super) fn token(&self) -> &str {
        // `decode` has checked that it is text.
        std::str::from_utf8(&self.head[8..24]).unwrap_or_default()
    }

    /// The part before the entries.
    pub(super) fn head(&self) -> &[u8] {
        &self.head
    }

    /// The length of the note with all of its entries.
    pub(super) fn len(&self) -> u64 {
        self.entry_at(self.chunks.count())
    }

    /// The place of a chunk's entry in the note.
    pub(super) fn entry_at(&self, number: usize) -> u64 {
        (self.head.len() + number * ENTRY) as u64
    }

    /// The entry that says how much of a chunk is there.
    pub(super) fn entry(&self, number: usize, there: &Checksum) -> [u8; ENTRY] {
        let mut entry = [0; ENTRY];
        entry[..8].copy_from_slice(&there.covers().to_le_bytes());
        entry[8..16].copy_from_slice(&there.value().to_le_bytes());
        let seal = self.entry_seal(number, &entry[..16]);
        entry[16..].copy_from_slice(&seal.to_le_bytes());
        entry
    }

    fn entry_seal(&self, number: usize, said: &[u8]) -> u64 {
        let mut sealed = self.seal.to_le_bytes().to_vec();
        sealed.extend((number as u64).to_le_bytes());
        sealed.extend(said);
        crc(&sealed)
    }

    /// Decodes a note: the note itself, its description, and how much of each chunk is there; or why it is not valid.
    pub(super) fn decode(bytes: &[u8]) -> Result<(Self, Description, Vec<Checksum>), &'static str> {
        let (head, rest) = bytes.split_at_checked(HEAD).ok_or("it is too short")?;
        if &head[..8] != MAGIC {
            return Err("it does not begin as a note does");
        }
        let token = std::str::from_utf8(&head[8..24]).ok().filter(|token| is_token(token));
        let token = token.ok_or("it names no file of a download")?;
        let length = number_at(head, 24, 4) as usize;
        let text = rest.get(..length).filter(|_| length <= LONGEST_DESCRIPTION);
        let text = text.ok_or("its description has no such length")?;
        if seal_of(token.as_bytes(), text) != number_at(head, 28, 8) {
            return Err("its description is damaged");
        }
        let description: Description =
            serde_json::from_slice(text).map_err(|_| "its description is not one of this version")?;
        description.flaw().map_or(Ok(()), Err)?;
        // Another program may have written the same description in another form.
        let note = Self::new(token, &description).filter(|note| bytes.starts_with(&note.head));
        let note = note.ok_or("its description is not one of this version")?;
        if bytes.len() as u64 != note.len() {
            return Err("it is not as long as its chunks demand");
        }
        let entries = bytes[note.head.len()..].chunks_exact(ENTRY).enumerate();
        let there = entries.map(|(number, entry)| note.there(number, entry)).collect();
        Ok((note, description, there))
    }

    /// How much of a chunk is there according to its entry: nothing if the entry fails its own check.
    fn there(&self, number: usize, entry: &[u8]) -> Checksum {
        let (covers, value) = (number_at(entry, 0, 8), number_at(entry, 8, 8));
        let range = self.chunks.range(number);
        let is_sound = self.entry_seal(number, &entry[..16]) == number_at(entry, 16, 8);
        match is_sound && covers <= range.end - range.start {
            true => Checksum::known(self.algorithm, value, covers),
            false => self.algorithm.empty(),
        }
    }
}

/// Whether a text is a valid token of a file name: 16 hexadecimal digits.
fn is_token(text: &str) -> bool {
    text.len() == 16 && text.bytes().all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f'))
}

/// The number in `width` bytes from `at` on, at most eight.
fn number_at(bytes: &[u8], at: usize, width: usize) -> u64 {
    bytes[at..at + width].iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

fn seal_of(token: &[u8], text: &[u8]) -> u64 {
    crc(&[token, text].concat())
}

fn crc(bytes: &[u8]) -> u64 {
    Checksum::of(Algorithm::Crc64Nvme, bytes).value()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const TOKEN: &str = "0123456789abcdef";

    fn described(size: u64) -> Description {
        let object = Object { size, etag: Some("\"a\"".into()), ..Object::default() };
        Description::new("s3://b/k", &object, Algorithm::Crc64Nvme).unwrap()
    }

    /// A note of an object of 20 MiB, with its first chunk and 7 bytes of its last.
    fn written() -> Vec<u8> {
        let note = Note::new(TOKEN, &described(20 << 20)).unwrap();
        let mut bytes = note.head().to_vec();
        bytes.extend(note.entry(0, &Checksum::known(Algorithm::Crc64Nvme, 9, 8 << 20)));
        bytes.extend([0; ENTRY]);
        bytes.extend(note.entry(2, &Checksum::known(Algorithm::Crc64Nvme, 5, 7)));
        bytes
    }

    /// A note with any description and a valid checksum.
    fn sealed(token: &str, text: &str, entries: u64) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        bytes.extend(token.as_bytes());
        bytes.extend((text.len() as u32).to_le_bytes());
        bytes.extend(seal_of(token.as_bytes(), text.as_bytes()).to_le_bytes());
        bytes.extend(text.as_bytes());
        bytes.extend(vec![0; entries as usize * ENTRY]);
        bytes
    }

    fn flaw(bytes: &[u8]) -> &'static str {
        Note::decode(bytes).map(|(_, description, there)| (description, there)).unwrap_err()
    }

    #[test]
    fn it_is_read_back() {
        let (note, description, there) = Note::decode(&written()).unwrap();
        assert_eq!((description, note.len()), (described(20 << 20), written().len() as u64));
        let covers: Vec<_> = there.iter().map(|there| (there.covers(), there.value())).collect();
        assert_eq!(covers, [(8 << 20, 9), (0, 0), (7, 5)]);
        assert!(Description::new("k", &Object::default(), Algorithm::Crc32c).is_none());
    }

    #[test]
    fn the_largest_object_has_a_note_of_known_length() {
        let note = Note::new(TOKEN, &described(LARGEST)).unwrap();
        assert!(note.len() <= LONGEST && note.len() > MOST_CHUNKS, "{}", note.len());
        assert_eq!(Chunks::of(0).count(), 0);
        assert_eq!(Chunks::of(LARGEST).range(65535).end, LARGEST);
    }

    #[test]
    fn every_bit_that_turns_over_is_noticed() {
        let bytes = written();
        let entries = bytes.len() - 3 * ENTRY;
        for bit in 0..bytes.len() * 8 {
            let mut bytes = bytes.clone();
            bytes[bit / 8] ^= 1 << (bit % 8);
            match (Note::decode(&bytes), (bit / 8).checked_sub(entries).map(|at| at / ENTRY)) {
                (Err(_), None) => {}
                (Ok((_, _, there)), Some(chunk)) => {
                    assert_eq!(there[chunk].covers(), 0, "bit {bit}");
                    assert_eq!(there.iter().filter(|there| there.covers() > 0).count(), 2 - [1, 0, 1][chunk]);
                }
                (decoded, _) => panic!("bit {bit}: {decoded:?}"),
            }
        }
    }

    #[test]
    fn one_that_is_cut_or_longer_is_refused() {
        let bytes = written();
        for length in 0..bytes.len() {
            flaw(&bytes[..length]);
        }
        assert_eq!(flaw(&[&bytes[..], &[0]].concat()), "it is not as long as its chunks demand");
    }

    #[test]
    fn what_has_right_checksums_and_does_not_add_up_is_refused() {
        let text = |change: &dyn Fn(&mut Description)| {
            let mut description = described(20 << 20);
            change(&mut description);
            serde_json::to_string(&description).unwrap()
        };
        let sane = text(&|_| {});
        assert!(Note::decode(&sealed(TOKEN, &sane, 3)).is_ok());
        for token in ["../../etc/passwd", "0123456789abcde/", "0123456789ABCDEF", "0123456789abcd\0\n"] {
            assert_eq!(flaw(&sealed(token, &sane, 3)), "it names no file of a download", "{token}");
        }
        // Chunks of a byte would take 16 EiB of entries.
        let tiny = text(&|description| (description.size, description.chunk) = (LARGEST, 1));
        assert_eq!(flaw(&sealed(TOKEN, &tiny, 3)), "its chunks are none that this version cuts");
        assert!(flaw(&sealed(TOKEN, &text(&|description| description.chunk = 0), 3)).contains("chunks"));
        assert!(flaw(&sealed(TOKEN, &text(&|description| description.size = u64::MAX), 3)).contains("size"));
        assert!(flaw(&sealed(TOKEN, &text(&|description| description.size = 0), 0)).contains("size"));
        assert!(flaw(&sealed(TOKEN, &text(&|description| description.etag = None), 3)).contains("tells"));
        let unknown = text(&|description| description.algorithm = "md5".into());
        assert!(flaw(&sealed(TOKEN, &unknown, 3)).contains("version"));
        // An object of 8 TiB, all a hole, with a note of the required length.
        let huge = serde_json::to_string(&described(8 << 40)).unwrap();
        assert!(Note::decode(&sealed(TOKEN, &huge, 65536)).is_ok());
        assert!(Note::decode(&sealed(TOKEN, &huge, 65535)).is_err());
        assert!(flaw(&sealed(TOKEN, &format!("{sane} "), 3)).contains("version"));
    }

    #[test]
    fn an_entry_of_more_than_its_chunk_is_none() {
        let note = Note::new(TOKEN, &described(20 << 20)).unwrap();
        let mut bytes = note.head().to_vec();
        for covers in [(8 << 20) + 1, u64::MAX, 4 << 20] {
            let chunk = bytes.len().saturating_sub(note.head().len()) / ENTRY;
            bytes.extend(note.entry(chunk, &Checksum::known(Algorithm::Crc64Nvme, 9, covers)));
        }
        let (_, _, there) = Note::decode(&bytes).unwrap();
        assert_eq!(there.iter().map(Checksum::covers).collect::<Vec<_>>(), [0, 0, 4 << 20]);
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..200), token in "[0-9a-f]{16}") {
            prop_assert!(Note::decode(&bytes).is_err());
            let headed = [MAGIC, token.as_bytes(), &bytes].concat();
            prop_assert!(Note::decode(&headed).is_err());
            let text = String::from_utf8_lossy(&bytes);
            prop_assert!(Note::decode(&sealed(&token, &text, 3)).is_err());
        }
    }
}
