//! A block: some entries in order, and a checksum.

use bytes::{Buf, Bytes};

use super::{Damage, ENTRY_HEAD, FieldReader, TablePlace, Wrong, checked, crc32c};
use crate::entry::TableEntry;

/// Iterates over the entries of one block, which share its bytes. The iterator ends after an error.
#[derive(Clone, Debug)]
pub struct BlockEntries {
    /// The entries not yet returned, without the checksum.
    rest: Bytes,
    number: u32,
}

impl BlockEntries {
    /// Parses a block; `number` is for errors.
    ///
    /// # Errors
    /// If the checksum does not match.
    pub fn parse(bytes: &Bytes, number: u32) -> Result<Self, Damage> {
        let content = checked(bytes, TablePlace::Block(number))?;
        Ok(Self { rest: bytes.slice_ref(content), number })
    }

    fn entry(&mut self) -> Result<TableEntry, Wrong> {
        let mut fields = FieldReader(&self.rest);
        let head = (|| Some((fields.u8()?, usize::from(fields.u16()?), fields.u32()? as usize)))();
        let (kind, key, value) = head.ok_or(Wrong::Length)?;
        if kind > 1 {
            return Err(Wrong::Kind(kind));
        }
        if value > TableEntry::LONGEST_VALUE || (kind == 0 && value > 0) || fields.0.len() < key + value {
            return Err(Wrong::Length);
        }
        self.rest.advance(ENTRY_HEAD);
        Ok(TableEntry::of_parts(self.rest.split_to(key + value), key, kind == 0))
    }

    /// Appends an entry to a block.
    pub(crate) fn add(block: &mut Vec<u8>, key: &[u8], value: Option<&[u8]>) {
        let mut head = [0; ENTRY_HEAD];
        head[0] = u8::from(value.is_some());
        head[1..3].copy_from_slice(&(key.len() as u16).to_le_bytes());
        head[3..].copy_from_slice(&(value.map_or(0, <[u8]>::len) as u32).to_le_bytes());
        block.extend_from_slice(&head);
        block.extend_from_slice(key);
        block.extend_from_slice(value.unwrap_or_default());
    }

    /// Appends the checksum to a block.
    pub(crate) fn seal(block: &mut Vec<u8>) {
        let crc = crc32c(block);
        block.extend_from_slice(&crc.to_le_bytes());
    }
}

impl Iterator for BlockEntries {
    type Item = Result<TableEntry, Damage>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let entry = self.entry();
        if entry.is_err() {
            self.rest.clear();
        }
        Some(entry.map_err(|wrong| TablePlace::Block(self.number).is(wrong)))
    }
}
