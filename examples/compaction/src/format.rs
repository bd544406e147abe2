//! The encoding of a table, without I/O.
//!
//! A table is sorted by key and has each key once. All numbers are little-endian; checksums are CRC-32C.
//!
//! ```text
//! table  = block*  index  footer
//!
//! block  = entry+  crc: u32               of the entries
//! entry  = kind: u8                       0 a tombstone, 1 a value
//!          key length: u16
//!          value length: u32              0 for a tombstone
//!          key  value
//!
//! index  = first key length: u16          0 where there is no block
//!          first key                      of the table
//!          block entry*                   one for each block, in order
//!          crc: u32                       of all of the index before it
//! block entry
//!        = length: u32                    of the block, its checksum included
//!          last key length: u16
//!          last key                       of the block
//!
//! footer = index length: u32              its checksum included
//!          blocks: u32
//!          entries: u64
//!          sequence: u64                  of two tables that have a key, the one with the higher has the newer value
//!          version: u32                   1
//!          crc: u32                       of the 28 bytes before it
//!          magic: 8 bytes                 "TideSST\n"
//! ```
//!
//! Blocks are adjacent, so that their lengths give their offsets; the index lies between the last block and the
//! footer. A key has up to 65,535 bytes, a value up to 16 MiB. A writer closes a block when it has reached the
//! writer's block size, 16 MiB at most. So no length in a table makes a reader take more memory than the
//! object's size, or than twice 16 MiB for a block.
//!
//! Everything is checked before it is used: checksums before lengths, lengths against the bytes there, the
//! order of all keys, and each block's last key and the number of entries against the index and the footer.

mod block;
mod footer;
mod index;

use std::fmt;

pub use block::BlockEntries;
pub use footer::Footer;
pub use index::{Blocks, Located, TableIndex};

use tidegate::checksum::{Algorithm, Checksum};

use crate::entry::TableEntry;

/// The largest block size that a writer may be given, in bytes.
pub const LARGEST_BLOCK_SIZE: usize = 16 << 20;

/// Bytes of an entry, without its key and value.
pub(crate) const ENTRY_HEAD: usize = 7;

/// Bytes of a block entry, without its key.
pub(crate) const BLOCK_ENTRY_HEAD: usize = 6;

/// Bytes of a checksum.
pub(crate) const CRC: usize = 4;

/// The longest possible block: one byte short of full, followed by the largest entry.
pub(crate) const LONGEST_BLOCK: usize =
    LARGEST_BLOCK_SIZE + ENTRY_HEAD + TableEntry::LONGEST_KEY + TableEntry::LONGEST_VALUE + CRC;

/// A place in a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TablePlace {
    /// The last 40 bytes.
    Footer,
    /// The list of blocks.
    Index,
    /// A block, counted from 0.
    Block(u32),
    /// The whole object.
    Table,
}

/// An error in the bytes of a table, and its place.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {wrong}")]
pub struct Damage {
    /// The place.
    pub place: TablePlace,
    /// The error.
    pub wrong: Wrong,
}

/// An error in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Wrong {
    /// The magic is missing at the end.
    #[error("this is no table")]
    NoTable,
    /// The table has an unknown version, probably of a later writer.
    #[error("version {0} is not known")]
    Version(u32),
    /// The bytes have changed since they were written.
    #[error("the checksum does not match the bytes")]
    Checksum,
    /// A length is too large or too small for the bytes there.
    #[error("a length does not fit what is there")]
    Length,
    /// The kind of an entry is unknown.
    #[error("an entry is of the kind {0}, which is not known")]
    Kind(u8),
    /// A key is not after the one before it, or not where the index says.
    #[error("a key is not in its place in the order")]
    Order,
    /// The number of entries or blocks differs from the footer's.
    #[error("there are not as many blocks or entries as the footer says")]
    Count,
}

impl fmt::Display for TablePlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Footer => f.write_str("footer"),
            Self::Index => f.write_str("index"),
            Self::Block(number) => write!(f, "block {number}"),
            Self::Table => f.write_str("as a whole"),
        }
    }
}

impl TablePlace {
    pub(crate) fn is(self, wrong: Wrong) -> Damage {
        Damage { place: self, wrong }
    }
}

/// Reads numbers and bytes in sequence; `None` if too few are left.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FieldReader<'a>(pub(crate) &'a [u8]);

impl<'a> FieldReader<'a> {
    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (field, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*field)
    }

    pub(crate) fn u8(&mut self) -> Option<u8> {
        self.array::<1>().map(|[byte]| byte)
    }

    pub(crate) fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_le_bytes)
    }

    pub(crate) fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    pub(crate) fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    pub(crate) fn bytes(&mut self, length: usize) -> Option<&'a [u8]> {
        let (field, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(field)
    }
}

pub(crate) fn crc32c(bytes: &[u8]) -> u32 {
    Checksum::of(Algorithm::Crc32c, bytes).value() as u32
}

/// Returns the bytes before the checksum at the end of `bytes`, if it matches.
pub(crate) fn checked(bytes: &[u8], place: TablePlace) -> Result<&[u8], Damage> {
    let (content, crc) = bytes.split_last_chunk().ok_or(place.is(Wrong::Length))?;
    if crc32c(content) != u32::from_le_bytes(*crc) {
        return Err(place.is(Wrong::Checksum));
    }
    Ok(content)
}

#[cfg(test)]
mod tests;
