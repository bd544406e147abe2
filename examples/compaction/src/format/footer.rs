//! The end of a table, which says where its index is.

use super::{Damage, Fields, Place, Wrong, checked, crc32c};

/// What the last bytes of a table say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Footer {
    /// Bytes of the index.
    pub index: u32,
    /// How many blocks there are.
    pub blocks: u32,
    /// How many entries they have, tombstones included.
    pub entries: u64,
    /// Of two tables that have a key, the one with the higher number has the newer value.
    pub sequence: u64,
}

impl Footer {
    /// Bytes of a footer.
    pub const SIZE: usize = 40;

    const MAGIC: [u8; 8] = *b"TideSST\n";
    const VERSION: u32 = 1;

    /// Reads the last bytes of a table of `size` bytes.
    ///
    /// # Errors
    /// Where these are not the end of a table of that size.
    pub fn parse(tail: &[u8], size: u64) -> Result<Self, Damage> {
        let wrong = |wrong| Place::Footer.is(wrong);
        let (_, bytes) = tail.split_last_chunk::<{ Self::SIZE }>().ok_or(wrong(Wrong::NoTable))?;
        let content = bytes.strip_suffix(&Self::MAGIC).ok_or(wrong(Wrong::NoTable))?;
        let mut fields = Fields(checked(content, Place::Footer)?);
        let mut read = || {
            let footer = Self {
                index: fields.u32()?,
                blocks: fields.u32()?,
                entries: fields.u64()?,
                sequence: fields.u64()?,
            };
            Some((footer, fields.u32()?))
        };
        let (footer, version) = read().ok_or(wrong(Wrong::Length))?;
        if version != Self::VERSION {
            return Err(wrong(Wrong::Version(version)));
        }
        if u64::from(footer.index) + Self::SIZE as u64 > size {
            return Err(wrong(Wrong::Length));
        }
        Ok(footer)
    }

    /// Writes it behind what is in `out`.
    pub fn write(&self, out: &mut Vec<u8>) {
        let start = out.len();
        out.extend_from_slice(&self.index.to_le_bytes());
        out.extend_from_slice(&self.blocks.to_le_bytes());
        out.extend_from_slice(&self.entries.to_le_bytes());
        out.extend_from_slice(&self.sequence.to_le_bytes());
        out.extend_from_slice(&Self::VERSION.to_le_bytes());
        let crc = crc32c(&out[start..]);
        out.extend_from_slice(&crc.to_le_bytes());
        out.extend_from_slice(&Self::MAGIC);
    }
}
