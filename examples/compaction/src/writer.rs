//! Uploads a table while it is built.

use tidegate::{Object, Writer};
use tokio::io::AsyncWriteExt;

use crate::builder::TableBuilder;
use crate::entry::TableEntry;
use crate::error::{CompactionError, Result};

/// Writes one table into an object: each full block goes to the store's writer, which uploads it while the next
/// block is built. Holds one block and the index; bytes on their way to the store are under the engine's memory
/// budget.
///
/// Nothing is visible before [`finish`](Self::finish). Dropping a `TableWriter` aborts the upload, as dropping
/// a [`Writer`] does.
#[derive(Debug)]
pub struct TableWriter {
    key: String,
    builder: TableBuilder,
    writer: Writer,
}

impl TableWriter {
    /// Starts a table. `key` is for messages only; `writer` determines the object.
    pub fn new(key: String, builder: TableBuilder, writer: Writer) -> Self {
        Self { key, builder, writer }
    }

    /// Adds an entry, whose key must be after the last one. If a block is full and the memory budget is used
    /// up, waits.
    ///
    /// # Errors
    /// [`CompactionError::Entry`] if no table can hold the entry; [`CompactionError::Store`] if the upload failed.
    ///
    /// # Cancellation
    /// A cancelled call may have written half a block: drop the `TableWriter` then.
    pub async fn add(&mut self, entry: &TableEntry) -> Result<()> {
        let block = self.builder.add(entry.key(), entry.value());
        match block.map_err(|reason| CompactionError::Entry { table: self.key.clone(), reason })? {
            Some(block) => self.writer.write_all(block).await.map_err(CompactionError::of_writer),
            None => Ok(()),
        }
    }

    /// The size of the table in bytes if it ended now.
    pub fn size(&self) -> u64 {
        self.builder.size()
    }

    /// Writes the index and the footer and publishes the table.
    pub async fn finish(mut self) -> Result<Object> {
        self.writer.write_all(&self.builder.finish()).await.map_err(CompactionError::of_writer)?;
        Ok(self.writer.finish().await?)
    }
}
