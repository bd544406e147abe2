//! The index of a table: each block's length and last key.

use bytes::{Buf, Bytes};

use super::{
    BLOCK_ENTRY_HEAD, CRC, Damage, ENTRY_HEAD, FieldReader, Footer, LONGEST_BLOCK, TablePlace, Wrong, checked,
};

/// The index of a table, in its encoded form: about 22 bytes for each block if keys have 16 bytes.
#[derive(Clone, Debug)]
pub struct TableIndex {
    /// Without the checksum.
    bytes: Bytes,
    first_key: Bytes,
    last_key: Bytes,
}

/// The position and last key of a block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Located {
    /// Its number, counted from 0.
    pub number: u32,
    /// The block's number, from 0.
    pub offset: u64,
    /// The block's length in bytes, checksum included.
    pub length: u32,
    /// The block's last key.
    pub last_key: Bytes,
}

impl TableIndex {
    /// Parses the index of a table of `size` bytes.
    ///
    /// # Errors
    /// If its blocks are not in order, do not fill the bytes before the index, or differ in number from the
    /// footer.
    pub fn parse(bytes: Bytes, footer: &Footer, size: u64) -> Result<Self, Damage> {
        let wrong = |wrong| TablePlace::Index.is(wrong);
        let content = checked(&bytes, TablePlace::Index)?.len();
        let bytes = bytes.slice(..content);
        let mut fields = FieldReader(&bytes);
        let first = fields.u16().map(usize::from).and_then(|length| fields.bytes(length));
        let first_key = bytes.slice_ref(first.ok_or(wrong(Wrong::Length))?);
        let mut index = Self { bytes, first_key, last_key: Bytes::new() };
        let mut blocks = index.blocks();
        let (mut count, mut end) = (0, 0);
        let mut last: Option<Bytes> = None;
        for block in &mut blocks {
            let least = last.as_ref().unwrap_or(&index.first_key);
            if block.last_key < least || (last.is_some() && block.last_key == least) {
                return Err(wrong(Wrong::Order));
            }
            if !(ENTRY_HEAD + CRC..=LONGEST_BLOCK).contains(&(block.length as usize)) {
                return Err(wrong(Wrong::Length));
            }
            (count, end) = (count + 1, block.offset + u64::from(block.length));
            last = Some(block.last_key);
        }
        let is_read_to_its_end = blocks.rest.is_empty();
        if !is_read_to_its_end || end + u64::from(footer.index) + Footer::SIZE as u64 != size {
            return Err(wrong(Wrong::Length));
        }
        if count != footer.blocks || (count == 0 && (footer.entries > 0 || !index.first_key.is_empty())) {
            return Err(wrong(Wrong::Count));
        }
        index.last_key = last.unwrap_or_default();
        Ok(index)
    }

    /// The first and the last key of the table; both empty if the table is empty.
    pub fn keys(&self) -> (&Bytes, &Bytes) {
        (&self.first_key, &self.last_key)
    }

    /// The blocks, in order; the iterator shares the index's bytes.
    pub fn blocks(&self) -> Blocks {
        Blocks { rest: self.bytes.slice(2 + self.first_key.len()..), number: 0, offset: 0 }
    }

    /// Starts the encoded index.
    pub(crate) fn begin(first_key: &[u8]) -> Vec<u8> {
        let mut index = (first_key.len() as u16).to_le_bytes().to_vec();
        index.extend_from_slice(first_key);
        index
    }

    /// Appends a block to an encoded index.
    pub(crate) fn add(index: &mut Vec<u8>, length: usize, last_key: &[u8]) {
        index.extend_from_slice(&(length as u32).to_le_bytes());
        index.extend_from_slice(&(last_key.len() as u16).to_le_bytes());
        index.extend_from_slice(last_key);
    }
}

/// Iterates over the blocks of a table, in order.
#[derive(Clone, Debug)]
pub struct Blocks {
    rest: Bytes,
    number: u32,
    offset: u64,
}

impl Iterator for Blocks {
    type Item = Located;

    fn next(&mut self) -> Option<Located> {
        let mut fields = FieldReader(&self.rest);
        let length = fields.u32()?;
        let key = usize::from(fields.u16()?);
        fields.bytes(key)?;
        self.rest.advance(BLOCK_ENTRY_HEAD);
        let (number, offset, last_key) = (self.number, self.offset, self.rest.split_to(key));
        self.number += 1;
        self.offset += u64::from(length);
        Some(Located { number, offset, length, last_key })
    }
}
