//! The bytes of a table. No I/O.
//!
//! A table is sorted by key, and has each key once. All numbers are little-endian; checksums are CRC-32C.
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
//! Blocks are adjacent, so that their lengths say where they are; the index lies between the last of them and the
//! footer. A key has up to 65,535 bytes, a value up to 16 MiB, and a block of a table is closed when it has reached the
//! block size that its writer was given, 16 MiB at most. So no length in a table makes a reader take more memory than
//! the object has bytes, or than twice 16 MiB for a block.
//!
//! Everything is checked before it is used: checksums before lengths, lengths against what is there, order by every
//! key, the last key of each block and the number of entries against the index and the footer.

mod block;
mod footer;
mod index;

use std::fmt;

pub use block::Block;
pub use footer::Footer;
pub use index::{Blocks, Index, Located};

use tidegate::checksum::{Algorithm, Checksum};

use crate::entry::Entry;

/// The largest block size that a writer may be given, in bytes.
pub const LARGEST_BLOCK_SIZE: usize = 16 << 20;

/// Bytes of an entry beside its key and value.
pub(crate) const ENTRY_HEAD: usize = 7;

/// Bytes of a block entry beside its key.
pub(crate) const BLOCK_ENTRY_HEAD: usize = 6;

/// Bytes of a checksum.
pub(crate) const CRC: usize = 4;

/// The longest that a block can be: full but for a byte, and then the largest entry.
pub(crate) const LONGEST_BLOCK: usize =
    LARGEST_BLOCK_SIZE + ENTRY_HEAD + Entry::LONGEST_KEY + Entry::LONGEST_VALUE + CRC;

/// A place in a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// The last 40 bytes.
    Footer,
    /// What says where blocks are.
    Index,
    /// A block, counted from 0.
    Block(u32),
    /// The object.
    Table,
}

/// What is wrong with the bytes of a table, and where.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {wrong}")]
pub struct Damage {
    /// Where.
    pub place: Place,
    /// What.
    pub wrong: Wrong,
}

/// What is wrong with bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Wrong {
    /// No magic at the end.
    #[error("this is no table")]
    NoTable,
    /// Of a later writer.
    #[error("version {0} is not known")]
    Version(u32),
    /// The bytes are not those that were written.
    #[error("the checksum does not match the bytes")]
    Checksum,
    /// Something ends before it should, or goes on.
    #[error("a length does not fit what is there")]
    Length,
    /// A kind of entry that there is not.
    #[error("an entry is of the kind {0}, which is not known")]
    Kind(u8),
    /// A key is not behind the one before it, or not where the index says.
    #[error("a key is not in its place in the order")]
    Order,
    /// Not as many entries or blocks as the footer says.
    #[error("there are not as many blocks or entries as the footer says")]
    Count,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Footer => f.write_str("footer"),
            Self::Index => f.write_str("index"),
            Self::Block(number) => write!(f, "block {number}"),
            Self::Table => f.write_str("as a whole"),
        }
    }
}

impl Place {
    pub(crate) fn is(self, wrong: Wrong) -> Damage {
        Damage { place: self, wrong }
    }
}

/// Numbers and bytes, one after the other; nothing where there are not enough.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fields<'a>(pub(crate) &'a [u8]);

impl<'a> Fields<'a> {
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

/// What comes before a checksum that ends `bytes`, where it matches.
pub(crate) fn checked(bytes: &[u8], place: Place) -> Result<&[u8], Damage> {
    let (content, crc) = bytes.split_last_chunk().ok_or(place.is(Wrong::Length))?;
    if crc32c(content) != u32::from_le_bytes(*crc) {
        return Err(place.is(Wrong::Checksum));
    }
    Ok(content)
}

#[cfg(test)]
mod tests;
