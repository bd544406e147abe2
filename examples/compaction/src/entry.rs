//! An entry: a key with its value, or with a tombstone that marks the key as deleted.

use bytes::Bytes;

/// An entry of a table: a key, and a value or a tombstone. Clones share the bytes and keep them alive; so does
/// an entry read from a block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableEntry {
    /// The key, followed by the value.
    bytes: Bytes,
    key: usize,
    is_tombstone: bool,
}

impl TableEntry {
    /// The longest key, in bytes.
    pub const LONGEST_KEY: usize = u16::MAX as usize;
    /// The longest value, in bytes.
    pub const LONGEST_VALUE: usize = 16 << 20;

    /// Copies a key and its value; `None` makes a tombstone.
    pub fn new(key: &[u8], value: Option<&[u8]>) -> Self {
        let bytes: Bytes = [key, value.unwrap_or_default()].concat().into();
        Self { bytes, key: key.len(), is_tombstone: value.is_none() }
    }

    /// `bytes` holds the key, of `key` bytes, followed by the value.
    pub(crate) fn of_parts(bytes: Bytes, key: usize, is_tombstone: bool) -> Self {
        Self { bytes, key, is_tombstone }
    }

    /// The key.
    pub fn key(&self) -> &[u8] {
        &self.bytes[..self.key]
    }

    /// The value; `None` for a tombstone.
    pub fn value(&self) -> Option<&[u8]> {
        (!self.is_tombstone).then(|| &self.bytes[self.key..])
    }
}
