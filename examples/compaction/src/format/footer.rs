//! The footer at the end of a table, which locates its index.

use super::{Damage, FieldReader, TablePlace, Wrong, checked, crc32c};

/// The content of the footer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Footer {
    /// Length of the index in bytes.
    pub index: u32,
    /// Number of blocks.
    pub blocks: u32,
    /// Number of entries, tombstones included.
    pub entries: u64,
    /// If two tables have the same key, the table with the higher sequence has the newer value.
    pub sequence: u64,
}

impl Footer {
    /// Bytes of a footer.
    pub const SIZE: usize = 40;

    const MAGIC: [u8; 8] = *b"TideSST\n";
    const VERSION: u32 = 1;

    /// Parses the footer from the last bytes of a table of `size` bytes.
    ///
    /// # Errors
    /// If these bytes do not end a table of that size.
    pub fn parse(tail: &[u8], size: u64) -> Result<Self, Damage> {
        let wrong = |wrong| TablePlace::Footer.is(wrong);
        let (_, bytes) = tail.split_last_chunk::<{ Self::SIZE }>().ok_or(wrong(Wrong::NoTable))?;
        let content = bytes.strip_suffix(&Self::MAGIC).ok_or(wrong(Wrong::NoTable))?;
        let mut fields = FieldReader(checked(content, TablePlace::Footer)?);
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

    /// Appends the encoded footer to `out`.
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
