//! Tables of a given capacity, one after the other, from entries in order.

use std::mem;

use tidegate::{Object, Store};
use tokio::task::JoinSet;

use crate::builder::TableBuilder;
use crate::entry::Entry;
use crate::error::{Error, Result};
use crate::writer::TableWriter;

/// How tables get from memory to the store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Way {
    /// Each part is on its way while the next is made, and a table's last parts are while the next tables are made.
    #[default]
    Streamed,
    /// Each table is made whole in memory, then uploaded, and then the next one is made.
    Whole,
    /// Each table is made whole in memory, and uploaded while the next one is made whole in memory.
    Beside,
}

impl Way {
    /// How many tables may be on their way beside the one that is made.
    fn beside(self) -> usize {
        match self {
            Self::Whole => 0,
            Self::Beside => 1,
            // What they hold is under the engine's memory budget, so that small tables may be many.
            Self::Streamed => 8,
        }
    }
}

/// What tables are like.
#[derive(Clone, Debug)]
pub struct Shape {
    /// A table is closed when it has so many bytes.
    pub capacity: u64,
    /// A block is closed when it has so many bytes, 16 MiB at most.
    pub block_size: usize,
    /// Of two tables that have a key, the one with the higher number has the newer value.
    pub sequence: u64,
    /// Keys are this with a number and `.table` behind it.
    pub stem: String,
}

/// What is asked of the allocator for a table that is made whole in memory; past that it grows.
const MOST_AT_ONCE: u64 = 1 << 30;

/// A table that is in the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Written {
    /// Its key.
    pub key: String,
    /// Its size in bytes.
    pub size: u64,
}

/// Writes tables into a store. Each is there from when its upload is done, and none replaces an object.
///
/// Dropping it aborts the upload of the table that is being made and those that are under way; tables that are there
/// stay. [`abandon`](Self::abandon) removes them.
#[derive(Debug)]
pub struct Outputs {
    store: Store,
    shape: Shape,
    way: Way,
    current: Option<Current>,
    uploads: JoinSet<Result<Written>>,
    begun: u64,
    /// Bytes of the tables that are closed.
    closed: u64,
    written: Vec<Written>,
}

#[derive(Debug)]
enum Current {
    Streamed { key: String, table: Box<TableWriter> },
    Whole { key: String, builder: Box<TableBuilder>, bytes: Vec<u8> },
}

impl Outputs {
    /// Tables below a store. Nothing is sent yet.
    pub fn new(store: Store, shape: Shape, way: Way) -> Self {
        let (uploads, written) = (JoinSet::new(), Vec::new());
        Self { store, shape, way, current: None, uploads, begun: 0, closed: 0, written }
    }

    /// Takes an entry; its key must be behind the last one. A table that has its capacity is closed first.
    ///
    /// # Errors
    /// Whatever ends an upload, this table's or an earlier one's. No further entry must be given then.
    pub async fn add(&mut self, entry: &Entry) -> Result<()> {
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
                let block = block.map_err(|reason| Error::Entry { table: key.clone(), reason })?;
                bytes.extend_from_slice(block.unwrap_or_default());
                Ok(())
            }
        }
    }

    /// Closes the last table. Those that follow are of another shape, numbered from nothing, and their keys may be any.
    ///
    /// # Errors
    /// As [`add`](Self::add).
    pub async fn reshape(&mut self, shape: Shape) -> Result<()> {
        self.close().await?;
        (self.shape, self.begun) = (shape, 0);
        Ok(())
    }

    /// Bytes of all tables so far, of the last one as far as it is made.
    pub fn size(&self) -> u64 {
        self.closed + self.current.as_ref().map_or(0, Current::size)
    }

    /// Closes the last table, waits for all uploads, and gives the tables in the order of their keys. Where there was no
    /// entry there is no table.
    ///
    /// # Errors
    /// As [`add`](Self::add).
    pub async fn finish(&mut self) -> Result<Vec<Written>> {
        self.close().await?;
        while !self.uploads.is_empty() {
            self.join().await?;
        }
        self.written.sort_by(|a, b| a.key.cmp(&b.key));
        Ok(mem::take(&mut self.written))
    }

    /// Ends the table that is being made, waits until it is known what has become of those under way, and removes the
    /// tables that are there. Gives `error`, the reason for all this, with what could not be removed.
    pub async fn abandon(&mut self, error: Error) -> Error {
        self.current = None;
        while !self.uploads.is_empty() {
            // One error is enough to say why.
            let _ = self.join().await;
        }
        let (mut left, mut removal) = (Vec::new(), None);
        for Written { key, .. } in mem::take(&mut self.written) {
            if let Err(error) = self.store.delete(&key).await {
                left.push(key);
                removal = Some(Error::Store(error));
            }
        }
        match removal {
            None => error,
            Some(removal) => Error::LeftBehind { error: error.into(), left, removal: removal.into() },
        }
    }

    async fn begin(&mut self) -> Result<Current> {
        let key = format!("{}{:06}.table", self.shape.stem, self.begun);
        self.begun += 1;
        let builder = TableBuilder::new(self.shape.block_size, self.shape.sequence);
        if self.way != Way::Streamed {
            // All at once, so that it is not copied as it grows; what is not used of it takes no memory.
            let bytes = Vec::with_capacity(self.shape.capacity.min(MOST_AT_ONCE) as usize);
            return Ok(Current::Whole { key, builder: Box::new(builder), bytes });
        }
        let writer = self.store.writer(&key).create_only().start().await?;
        let table = Box::new(TableWriter::new(key.clone(), builder, writer));
        Ok(Current::Streamed { key, table })
    }

    async fn close(&mut self) -> Result<()> {
        self.closed = self.size();
        match self.current.take() {
            None => return Ok(()),
            Some(Current::Streamed { key, table }) => {
                let written = async move { Ok(Written { key, size: table.finish().await?.size }) };
                self.uploads.spawn(written);
            }
            Some(Current::Whole { key, builder, mut bytes }) => {
                bytes.extend_from_slice(&builder.finish());
                let store = self.store.clone();
                self.uploads.spawn(async move {
                    let object = upload(&store, &key, bytes).await?;
                    Ok(Written { key, size: object.size })
                });
            }
        }
        while self.uploads.len() > self.way.beside() {
            self.join().await?;
        }
        Ok(())
    }

    /// Waits for an upload.
    async fn join(&mut self) -> Result<()> {
        match self.uploads.join_next().await {
            None => Ok(()),
            Some(Ok(written)) => {
                self.written.push(written?);
                Ok(())
            }
            Some(Err(ended)) => match ended.try_into_panic() {
                Ok(panic) => std::panic::resume_unwind(panic),
                Err(_) => Err(Error::Refused("the runtime was shut down".to_owned())),
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

/// Uploads a whole table, in parts as the streamed ones go.
async fn upload(store: &Store, key: &str, bytes: Vec<u8>) -> Result<Object> {
    let size = bytes.len() as u64;
    let mut writer = store.writer(key).create_only().size_hint(size).start().await?;
    writer.write(bytes.into()).await?;
    Ok(writer.finish().await?)
}

#[cfg(test)]
mod tests;
