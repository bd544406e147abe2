//! Writing a table while it is made.

use tidegate::{Object, Writer};
use tokio::io::AsyncWriteExt;

use crate::builder::TableBuilder;
use crate::entry::Entry;
use crate::error::{Error, Result};

/// Writes one table into an object: each block goes to the store's writer when it is full, and is uploaded from there
/// while the next one is made. It holds one block and the index; what is on its way to the store is under the engine's
/// memory budget.
///
/// Nothing is visible before [`finish`](Self::finish). Dropping it aborts the upload, as dropping a [`Writer`] does.
#[derive(Debug)]
pub struct TableWriter {
    key: String,
    builder: TableBuilder,
    writer: Writer,
}

impl TableWriter {
    /// A table with this key, which is for messages, into this writer.
    pub fn new(key: String, builder: TableBuilder, writer: Writer) -> Self {
        Self { key, builder, writer }
    }

    /// Takes an entry; its key must be behind the last one. Waits where a block is full and the memory budget too.
    ///
    /// # Errors
    /// [`Error::Entry`] where no table takes it; [`Error::Store`] where the upload failed.
    ///
    /// # Cancellation
    /// A cancelled call may have written half a block: drop the table then.
    pub async fn add(&mut self, entry: &Entry) -> Result<()> {
        let block = self.builder.add(entry.key(), entry.value());
        match block.map_err(|reason| Error::Entry { table: self.key.clone(), reason })? {
            Some(block) => self.writer.write_all(block).await.map_err(Error::of_writer),
            None => Ok(()),
        }
    }

    /// How many bytes the table would have if it ended here.
    pub fn size(&self) -> u64 {
        self.builder.size()
    }

    /// Writes the index and the footer and publishes the table.
    pub async fn finish(mut self) -> Result<Object> {
        self.writer.write_all(&self.builder.finish()).await.map_err(Error::of_writer)?;
        Ok(self.writer.finish().await?)
    }
}
