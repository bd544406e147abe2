//! One key with its value, or with word that it is gone.

use bytes::Bytes;

/// An entry of a table: a key, and a value or a tombstone. A clone, and one that was read from a block, shares the
/// bytes and keeps them alive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The key and behind it the value.
    bytes: Bytes,
    key: usize,
    is_tombstone: bool,
}

impl Entry {
    /// The longest key, in bytes.
    pub const LONGEST_KEY: usize = u16::MAX as usize;
    /// The longest value, in bytes.
    pub const LONGEST_VALUE: usize = 16 << 20;

    /// A key with its value; a tombstone where there is none.
    pub fn new(key: &[u8], value: Option<&[u8]>) -> Self {
        let bytes: Bytes = [key, value.unwrap_or_default()].concat().into();
        Self { bytes, key: key.len(), is_tombstone: value.is_none() }
    }

    /// `bytes` are the key, of so many bytes, and the value.
    pub(crate) fn of_parts(bytes: Bytes, key: usize, is_tombstone: bool) -> Self {
        Self { bytes, key, is_tombstone }
    }

    /// The key.
    pub fn key(&self) -> &[u8] {
        &self.bytes[..self.key]
    }

    /// The value; none of a tombstone.
    pub fn value(&self) -> Option<&[u8]> {
        (!self.is_tombstone).then(|| &self.bytes[self.key..])
    }
}
