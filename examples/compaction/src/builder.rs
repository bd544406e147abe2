//! Builds the bytes of a table, without I/O.

use crate::entry::TableEntry;
use crate::format::{BLOCK_ENTRY_HEAD, BlockEntries, CRC, Footer, LARGEST_BLOCK_SIZE, TableIndex};

/// Below this size, an index still has room for the first key, the last block's entry and the checksum.
const MOST_INDEX: usize = u32::MAX as usize - 3 * TableEntry::LONGEST_KEY;

/// Builds a table from entries in ascending order of keys: returns the bytes of each block when it is full, and
/// those of the index and the footer at the end.
///
/// Holds one block, and the index: 6 bytes and a key for each block.
#[derive(Debug)]
pub struct TableBuilder {
    block_size: usize,
    sequence: u64,
    block: Vec<u8>,
    /// The block was returned, and the next entry starts a new one.
    is_given: bool,
    index: Vec<u8>,
    last_key: Option<Vec<u8>>,
    blocks: u32,
    entries: u64,
    /// Bytes of all blocks returned.
    given: u64,
}

impl TableBuilder {
    /// Starts a table. A block is closed when it has reached `block_size` bytes (16 MiB at most).
    pub fn new(block_size: usize, sequence: u64) -> Self {
        Self {
            block_size: block_size.min(LARGEST_BLOCK_SIZE),
            sequence,
            block: Vec::new(),
            is_given: false,
            index: Vec::new(),
            last_key: None,
            blocks: 0,
            entries: 0,
            given: 0,
        }
    }

    /// Adds an entry; returns the table's next bytes if the entry has filled a block.
    ///
    /// # Errors
    /// The reason, as a sentence, if the key is not after the last one, if the key or the value is too long, or
    /// if the index has no room for another block. The entry is then not added.
    pub fn add(&mut self, key: &[u8], value: Option<&[u8]>) -> Result<Option<&[u8]>, String> {
        if key.len() > TableEntry::LONGEST_KEY {
            return Err(format!("a key of {} bytes is longer than {}", key.len(), TableEntry::LONGEST_KEY));
        }
        let length = value.map_or(0, <[u8]>::len);
        if length > TableEntry::LONGEST_VALUE {
            return Err(format!("a value of {length} bytes is longer than {}", TableEntry::LONGEST_VALUE));
        }
        if self.index.len() > MOST_INDEX {
            return Err(format!("the table has {} blocks, and no room in its index for more", self.blocks));
        }
        match &mut self.last_key {
            None => {
                self.index = TableIndex::begin(key);
                self.last_key = Some(key.to_vec());
            }
            Some(last) if key <= last.as_slice() => {
                let (key, last) = (key.escape_ascii(), last.escape_ascii());
                return Err(format!("the key {key} does not come behind {last}"));
            }
            Some(last) => {
                last.clear();
                last.extend_from_slice(key);
            }
        }
        if std::mem::take(&mut self.is_given) {
            self.block.clear();
        }
        BlockEntries::add(&mut self.block, key, value);
        self.entries += 1;
        Ok((self.block.len() >= self.block_size).then(|| self.seal()))
    }

    fn seal(&mut self) -> &[u8] {
        BlockEntries::seal(&mut self.block);
        TableIndex::add(&mut self.index, self.block.len(), self.last_key.as_deref().unwrap_or_default());
        self.blocks += 1;
        self.given += self.block.len() as u64;
        self.is_given = true;
        &self.block
    }

    /// The size of the table in bytes if it ended now.
    pub fn size(&self) -> u64 {
        let key = self.last_key.as_ref().map_or(0, Vec::len);
        // The index of an empty table holds only the zero length of its first key.
        let index = if self.last_key.is_none() { 2 } else { self.index.len() } + CRC;
        let block = match self.is_given || self.block.is_empty() {
            true => 0,
            false => self.block.len() + CRC + BLOCK_ENTRY_HEAD + key,
        };
        self.given + (block + index + Footer::SIZE) as u64
    }

    /// Number of entries so far.
    pub fn entries(&self) -> u64 {
        self.entries
    }

    /// Returns the last bytes of the table: the last block if not yet returned, the index and the footer.
    pub fn finish(mut self) -> Vec<u8> {
        if !self.is_given && !self.block.is_empty() {
            self.seal();
            self.is_given = false;
        }
        let mut tail = if self.is_given { Vec::new() } else { self.block };
        if self.last_key.is_none() {
            self.index = TableIndex::begin(&[]);
        }
        BlockEntries::seal(&mut self.index);
        tail.extend_from_slice(&self.index);
        let footer = Footer {
            index: self.index.len() as u32,
            blocks: self.blocks,
            entries: self.entries,
            sequence: self.sequence,
        };
        footer.write(&mut tail);
        tail
    }
}
