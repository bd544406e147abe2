//! What a download that is under way keeps behind the object's bytes in its file, so that it can be gone on with
//! after it was cut: of which object they are, and which of them are there, with their checksums.
//!
//! # Format
//!
//! At byte `size` of the file, where the object ends. Numbers are little-endian.
//!
//! | bytes | what |
//! |---|---|
//! | 8 | `TIDEGET1` |
//! | 4 | length of the description, at most 64 KiB |
//! | 8 | CRC-64/NVME of the description |
//! | length | the description, JSON: [`Description`] |
//! | 16 for each chunk | its checksum, and the CRC-64/NVME of all before the entries, the chunk's number and its checksum; zeros for one that is not there |
//!
//! The file's last 16 bytes are the size of the object, and the CRC-64/NVME of that.
//!
//! Nothing of it has to be forced to disk, nor in any order: an entry that was torn fails its own check, and a chunk
//! whose bytes did not reach the disk fails its checksum when it is read again.

use std::ops::Range;

use serde::{Deserialize, Serialize};

use crate::checksum::{Algorithm, Checksum};
use crate::object::Object;

const MAGIC: &[u8; 8] = b"TIDEGET1";
/// Bytes before the description.
pub(super) const HEAD: usize = 20;
const LONGEST: usize = 64 << 10;
/// The file's last bytes.
pub(super) const FOOT: usize = 16;
/// Bytes of an entry.
pub(super) const ENTRY: usize = 16;

/// Which object is downloaded, and how.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Description {
    pub(super) url: String,
    pub(super) size: u64,
    pub(super) etag: Option<String>,
    pub(super) version: Option<String>,
    /// The store's own checksum of all bytes, in base64: whoever goes on asks for parts, of which it tells none.
    pub(super) crc64nvme: Option<String>,
    pub(super) crc32c: Option<String>,
    /// Size of every chunk but the last.
    pub(super) chunk: u64,
    pub(super) algorithm: String,
}

impl Description {
    /// `None` where nothing tells the object from another of the same size.
    pub(super) fn new(url: &str, object: &Object, chunk: u64, algorithm: Algorithm) -> Option<Self> {
        (object.etag.is_some() || object.version.is_some()).then(|| Self {
            url: url.to_owned(),
            size: object.size,
            etag: object.etag.clone(),
            version: object.version.clone(),
            crc64nvme: object.crc64nvme.clone(),
            crc32c: object.crc32c.clone(),
            chunk,
            algorithm: algorithm.name().to_owned(),
        })
    }

    /// The object, as far as this tells it from others, and what its bytes are compared with.
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

    /// Where its entries begin in the file.
    pub(super) fn entries(&self) -> u64 {
        self.size + self.encode().len() as u64
    }

    /// How long the file is.
    pub(super) fn file_size(&self) -> u64 {
        self.entries() + self.chunks() * ENTRY as u64 + FOOT as u64
    }

    /// The file's last bytes.
    pub(super) fn foot(&self) -> [u8; FOOT] {
        let mut foot = [0; FOOT];
        foot[..8].copy_from_slice(&self.size.to_le_bytes());
        foot[8..].copy_from_slice(&crc(&self.size.to_le_bytes()).to_le_bytes());
        foot
    }

    /// Where the object ends, by the last bytes of its file.
    pub(super) fn size_told(foot: &[u8; FOOT]) -> Option<u64> {
        let told = u64::from_le_bytes(foot[8..].try_into().ok()?);
        (told == crc(&foot[..8])).then(|| u64::from_le_bytes(foot[..8].try_into().unwrap_or_default()))
    }

    pub(super) fn chunks(&self) -> u64 {
        self.size.div_ceil(self.chunk)
    }

    pub(super) fn range(&self, chunk: u64) -> Range<u64> {
        let start = chunk * self.chunk;
        start..self.size.min(start + self.chunk)
    }

    /// Head and description.
    pub(super) fn encode(&self) -> Vec<u8> {
        // A struct of texts and numbers is always JSON.
        let text = serde_json::to_vec(self).unwrap_or_default();
        let mut bytes = MAGIC.to_vec();
        bytes.extend((text.len() as u32).to_le_bytes());
        bytes.extend(crc(&text).to_le_bytes());
        bytes.extend(text);
        bytes
    }

    /// How long the description behind this head is.
    pub(super) fn length(head: &[u8; HEAD]) -> Option<usize> {
        let length = u32::from_le_bytes(head[8..12].try_into().ok()?) as usize;
        (&head[..8] == MAGIC && length <= LONGEST).then_some(length)
    }

    pub(super) fn decode(head: &[u8; HEAD], text: &[u8]) -> Option<Self> {
        let told = u64::from_le_bytes(head[12..].try_into().ok()?);
        let description: Self = serde_json::from_slice(text).ok().filter(|_| told == crc(text))?;
        (description.chunk > 0).then_some(description)
    }

    /// What tells that chunk `number` is there.
    pub(super) fn entry(&self, number: u64, checksum: &Checksum) -> [u8; ENTRY] {
        let mut entry = [0; ENTRY];
        let value = checksum.value();
        entry[..8].copy_from_slice(&value.to_le_bytes());
        entry[8..].copy_from_slice(&self.seal(number, value).to_le_bytes());
        entry
    }

    /// The checksum of chunk `number`, if it is there.
    pub(super) fn checksum(&self, number: u64, entry: &[u8]) -> Option<u64> {
        let value = u64::from_le_bytes(entry.get(..8)?.try_into().ok()?);
        let seal = u64::from_le_bytes(entry.get(8..ENTRY)?.try_into().ok()?);
        (seal == self.seal(number, value)).then_some(value)
    }

    fn seal(&self, number: u64, value: u64) -> u64 {
        let mut sealed = self.encode();
        sealed.extend(number.to_le_bytes());
        sealed.extend(value.to_le_bytes());
        crc(&sealed)
    }
}

fn crc(bytes: &[u8]) -> u64 {
    Checksum::of(Algorithm::Crc64Nvme, bytes).value()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn description() -> Description {
        let object = Object { size: 100, etag: Some("\"a\"".into()), ..Object::default() };
        Description::new("s3://b/k", &object, 30, Algorithm::Crc64Nvme).unwrap()
    }

    fn decode(bytes: &[u8]) -> Option<Description> {
        let head = bytes.get(..HEAD)?.try_into().ok()?;
        let length = Description::length(head)?;
        Description::decode(head, bytes.get(HEAD..HEAD + length)?)
    }

    #[test]
    fn it_is_read_back() {
        let description = description();
        assert_eq!(decode(&description.encode()), Some(description.clone()));
        assert_eq!((description.chunks(), description.range(3)), (4, 90..100));
        assert_eq!(Description::size_told(&description.foot()), Some(100));
        assert_eq!(Description::size_told(&[0; FOOT]), None);
        assert!(Description::new("k", &Object::default(), 30, Algorithm::Crc32c).is_none());
        let checksum = Checksum::of(Algorithm::Crc64Nvme, b"abc");
        let entry = description.entry(2, &checksum);
        assert_eq!(description.checksum(2, &entry), Some(checksum.value()));
        assert_eq!(description.checksum(1, &entry), None);
        assert_eq!(description.checksum(0, &[0; ENTRY]), None);
    }

    #[test]
    fn every_bit_that_turns_over_is_noticed() {
        let description = description();
        let flipped = |bytes: &[u8], bit: usize| {
            let mut bytes = bytes.to_vec();
            bytes[bit / 8] ^= 1 << (bit % 8);
            bytes
        };
        let bytes = description.encode();
        for bit in 0..bytes.len() * 8 {
            assert_eq!(decode(&flipped(&bytes, bit)), None, "bit {bit}");
        }
        let entry = description.entry(2, &Checksum::of(Algorithm::Crc64Nvme, b"abc"));
        for bit in 0..ENTRY * 8 {
            assert_eq!(description.checksum(2, &flipped(&entry, bit)), None, "bit {bit}");
        }
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            prop_assert_eq!(decode(&bytes), None);
            let mut headed = MAGIC.to_vec();
            headed.extend(&bytes);
            prop_assert_eq!(decode(&headed), None);
        }
    }
}
