//! Writes sorted entries into a series of tables of limited size.

use std::mem;

use tidegate::{Object, Store};
use tokio::task::JoinSet;

use crate::builder::TableBuilder;
use crate::entry::TableEntry;
use crate::error::{CompactionError, Result};
use crate::writer::TableWriter;

/// How tables are built and uploaded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum TableWay {
    /// Upload each part while the next one is built, and a table's last parts while the next tables are built.
    #[default]
    Streamed,
    /// Build each table whole in memory, then upload it, before the next table is built.
    Whole,
    /// Build each table whole in memory, and upload it while the next table is built whole in memory.
    Beside,
}

impl TableWay {
    /// How many tables may be uploaded in the background while the next one is built.
    fn beside(self) -> usize {
        match self {
            Self::Whole => 0,
            Self::Beside => 1,
            // Their memory counts against the engine's budget, so many small tables are safe.
            Self::Streamed => 8,
        }
    }
}

/// The parameters of a series of tables.
#[derive(Clone, Debug)]
pub struct SeriesParameters {
    /// A table is closed when it has reached this many bytes.
    pub capacity: u64,
    /// A block is closed when it has reached this many bytes, 16 MiB at most.
    pub block_size: usize,
    /// If two tables have the same key, the table with the higher sequence has the newer value.
    pub sequence: u64,
    /// Keys are this text, followed by a number and `.table`.
    pub stem: String,
}

/// The most memory reserved at first for a table built whole in memory; a larger table grows beyond.
const MOST_AT_ONCE: u64 = 1 << 30;

/// A table that was written to the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WrittenTable {
    /// The table's key.
    pub key: String,
    /// The table's size in bytes.
    pub size: u64,
}

/// Writes tables into a store. A table becomes visible when its upload has finished, and never replaces an
/// object.
///
/// Dropping `Outputs` aborts the table being built and all uploads in flight; finished tables stay.
/// [`abandon`](Self::abandon) removes them.
#[derive(Debug)]
pub struct Outputs {
    store: Store,
    shape: SeriesParameters,
    way: TableWay,
    current: Option<Current>,
    uploads: JoinSet<Result<WrittenTable>>,
    begun: u64,
    /// Bytes of all closed tables.
    closed: u64,
    written: Vec<WrittenTable>,
}

#[derive(Debug)]
enum Current {
    Streamed { key: String, table: Box<TableWriter> },
    Whole { key: String, builder: Box<TableBuilder>, bytes: Vec<u8> },
}

impl Outputs {
    /// Prepares to write tables into `store`. Sends nothing yet.
    pub fn new(store: Store, shape: SeriesParameters, way: TableWay) -> Self {
        let (uploads, written) = (JoinSet::new(), Vec::new());
        Self { store, shape, way, current: None, uploads, begun: 0, closed: 0, written }
    }

    /// Adds an entry, whose key must be after the last one. Closes a table that has reached its capacity first.
    ///
    /// # Errors
    /// Any error of an upload, this table's or an earlier one's. Add no further entry then.
    pub async fn add(&mut self, entry: &TableEntry) -> Result<()> {
        if self.current.as_ref().is_some_and(|current| current.size() >= self.shape.capacity) {
            self.close().await?;
        }
        let current = match &mut self.current {
            Some(current) => current,
            None => {
                let begun = self.begin().await?;
                self.current.insert(begun)
            }
        };
        match current {
            Current::Streamed { table, .. } => table.add(entry).await,
            Current::Whole { key, builder, bytes } => {
                let block = builder.add(entry.key(), entry.value());
                let block = block.map_err(|reason| CompactionError::Entry { table: key.clone(), reason })?;
                bytes.extend_from_slice(block.unwrap_or_default());
                Ok(())
            }
        }
    }

    /// Closes the current table. The tables after it have the new shape, are numbered from zero, and may start
    /// at any key.
    ///
    /// # Errors
    /// As [`add`](Self::add).
    pub async fn reshape(&mut self, shape: SeriesParameters) -> Result<()> {
        self.close().await?;
        (self.shape, self.begun) = (shape, 0);
        Ok(())
    }

    /// Bytes of all tables so far, including the current one.
    pub fn size(&self) -> u64 {
        self.closed + self.current.as_ref().map_or(0, Current::size)
    }

    /// Closes the last table, waits for all uploads, and returns the tables in the order of their keys. Without
    /// entries there is no table.
    ///
    /// # Errors
    /// As [`add`](Self::add).
    pub async fn finish(&mut self) -> Result<Vec<WrittenTable>> {
        self.close().await?;
        while !self.uploads.is_empty() {
            self.join().await?;
        }
        self.written.sort_by(|a, b| a.key.cmp(&b.key));
        Ok(mem::take(&mut self.written))
    }

    /// Aborts the table being built, waits for the outcome of all uploads in flight, and removes the finished
    /// tables. Returns `error`, extended by the keys that could not be removed.
    pub async fn abandon(&mut self, error: CompactionError) -> CompactionError {
        self.current = None;
        while !self.uploads.is_empty() {
            // `error` already gives the reason; further errors are ignored.
            let _ = self.join().await;
        }
        let (mut left, mut removal) = (Vec::new(), None);
        for WrittenTable { key, .. } in mem::take(&mut self.written) {
            if let Err(error) = self.store.delete(&key).await {
                left.push(key);
                removal = Some(CompactionError::Store(error));
            }
        }
        match removal {
            None => error,
            Some(removal) => {
                CompactionError::LeftBehind { error: error.into(), left, removal: removal.into() }
            }
        }
    }

    async fn begin(&mut self) -> Result<Current> {
        let key = format!("{}{:06}.table", self.shape.stem, self.begun);
        self.begun += 1;
        let builder = TableBuilder::new(self.shape.block_size, self.shape.sequence);
        if self.way != TableWay::Streamed {
            // Reserved at once, so that the buffer is not copied as it grows; unused capacity takes no physical
            // memory.
            let bytes = Vec::with_capacity(self.shape.capacity.min(MOST_AT_ONCE) as usize);
            return Ok(Current::Whole { key, builder: Box::new(builder), bytes });
        }
        let writer = self.store.writer(&key).create_only().await?;
        let table = Box::new(TableWriter::new(key.clone(), builder, writer));
        Ok(Current::Streamed { key, table })
    }

    async fn close(&mut self) -> Result<()> {
        self.closed = self.size();
        match self.current.take() {
            None => return Ok(()),
            Some(Current::Streamed { key, table }) => {
                let written = async move { Ok(WrittenTable { key, size: table.finish().await?.size }) };
                self.uploads.spawn(written);
            }
            Some(Current::Whole { key, builder, mut bytes }) => {
                bytes.extend_from_slice(&builder.finish());
                let store = self.store.clone();
                self.uploads.spawn(async move {
                    let object = upload(&store, &key, bytes).await?;
                    Ok(WrittenTable { key, size: object.size })
                });
            }
        }
        while self.uploads.len() > self.way.beside() {
            self.join().await?;
        }
        Ok(())
    }

    /// Waits for one upload.
    async fn join(&mut self) -> Result<()> {
        match self.uploads.join_next().await {
            None => Ok(()),
            Some(Ok(written)) => {
                self.written.push(written?);
                Ok(())
            }
            Some(Err(ended)) => match ended.try_into_panic() {
                Ok(panic) => std::panic::resume_unwind(panic),
                Err(_) => Err(CompactionError::Refused("the runtime was shut down".to_owned())),
            },
        }
    }
}

impl Current {
    fn size(&self) -> u64 {
        match self {
            Self::Streamed { table, .. } => table.size(),
            Self::Whole { builder, .. } => builder.size(),
        }
    }
}

/// Uploads a whole table, in parts like a streamed one.
async fn upload(store: &Store, key: &str, bytes: Vec<u8>) -> Result<Object> {
    let size = bytes.len() as u64;
    let mut writer = store.writer(key).create_only().size_hint(size).await?;
    writer.write_bytes(bytes.into()).await?;
    Ok(writer.finish().await?)
}

#[cfg(test)]
mod tests;
