//! Reads a table: its end first, then its blocks as a stream.

use std::ops::Range;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use futures::stream::{self, BoxStream};
use futures::{Stream, StreamExt, TryStreamExt};
use tidegate::{Object, Store};

use crate::entry::TableEntry;
use crate::error::{CompactionError, Result};
use crate::format::{BlockEntries, Blocks, Damage, Footer, Located, TableIndex, TablePlace, Wrong};
use crate::plan::TableSummary;

/// How many bytes the first request reads from a table's end; a second request reads an index that does not
/// fit.
const TAIL: u64 = 64 << 10;

/// A table in a store, with its footer and index loaded. The index takes 6 bytes and a key for each block.
#[derive(Clone, Debug)]
pub struct TableReader {
    store: Store,
    object: Object,
    footer: Footer,
    index: TableIndex,
}

impl TableReader {
    /// Opens a table found by a listing or [`Store::head`], with one or two ranged reads.
    ///
    /// # Errors
    /// [`CompactionError::Damaged`] if the object does not end like a table.
    pub async fn open(store: &Store, object: Object) -> Result<Self> {
        let size = object.size;
        let tail_at = size.saturating_sub(TAIL);
        let tail = read(store, &object, tail_at..size).await?;
        let damaged = |damage| damaged(&object, damage);
        let footer = Footer::parse(&tail, size).map_err(damaged)?;
        let end = size - Footer::SIZE as u64;
        let start = end - u64::from(footer.index);
        let index = match start.checked_sub(tail_at) {
            // Copied, so that the rest of the tail is freed.
            Some(at) => Bytes::copy_from_slice(&tail[at as usize..(end - tail_at) as usize]),
            None => read(store, &object, start..end).await?,
        };
        let index = TableIndex::parse(index, &footer, size).map_err(damaged)?;
        Ok(Self { store: store.clone(), object, footer, index })
    }

    /// The table's object in the store.
    pub fn object(&self) -> &Object {
        &self.object
    }

    /// Number of entries, tombstones included.
    pub fn len(&self) -> u64 {
        self.footer.entries
    }

    /// Whether the table has no entries.
    pub fn is_empty(&self) -> bool {
        self.footer.entries == 0
    }

    /// The facts that decide how the table can be merged.
    pub fn summary(&self) -> TableSummary {
        let (first, last) = self.index.keys();
        let keys = (!self.is_empty()).then(|| (first.clone(), last.clone()));
        TableSummary { key: self.object.key.clone(), sequence: self.footer.sequence, keys }
    }

    /// All entries in order. Blocks are read on demand, with some blocks read ahead under the engine's memory
    /// budget.
    pub async fn entries(&self) -> Result<TableEntries> {
        Ok(self.entries_of(self.streamed().await?))
    }

    /// All entries in order, after reading all blocks into one buffer of the table's size, outside the memory
    /// budget: for comparison with streaming.
    pub async fn whole(&self) -> Result<TableEntries> {
        let bytes = read(&self.store, &self.object, 0..self.blocks_end()).await?;
        let block = move |block: Located| {
            let start = block.offset as usize;
            Ok(bytes.slice(start..start + block.length as usize))
        };
        Ok(self.entries_of(stream::iter(self.index.blocks().map(block)).boxed()))
    }

    async fn streamed(&self) -> Result<BoxStream<'static, tidegate::Result<Bytes>>> {
        let ranges = self.index.blocks().map(|block| block.offset..block.offset + u64::from(block.length));
        let blocks = self.store.blocks(&self.object.key, ranges).if_unchanged(&self.object).await?;
        Ok(blocks.map_ok(|block| block.bytes).boxed())
    }

    fn entries_of(&self, blocks: BoxStream<'static, tidegate::Result<Bytes>>) -> TableEntries {
        TableEntries {
            object: self.object.clone(),
            blocks,
            located: self.index.blocks(),
            block: None,
            first: self.index.keys().0.clone(),
            previous: None,
            left: self.footer.entries,
            is_ended: false,
        }
    }

    /// Length of all blocks together, in bytes.
    fn blocks_end(&self) -> u64 {
        self.object.size - Footer::SIZE as u64 - u64::from(self.footer.index)
    }
}

/// The entries of one table in order; checks each block and each key. The stream ends after an error.
pub struct TableEntries {
    object: Object,
    blocks: BoxStream<'static, tidegate::Result<Bytes>>,
    located: Blocks,
    block: Option<(BlockEntries, Located)>,
    first: Bytes,
    /// The last key returned.
    previous: Option<Vec<u8>>,
    /// Number of entries still to come.
    left: u64,
    is_ended: bool,
}

impl TableEntries {
    fn poll_entry(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<TableEntry>>> {
        loop {
            if let Some((block, located)) = &mut self.block {
                let wrong = |wrong| damaged(&self.object, TablePlace::Block(located.number).is(wrong));
                if let Some(entry) = block.next() {
                    let entry = entry.map_err(|damage| damaged(&self.object, damage))?;
                    let is_in_order = match &self.previous {
                        Some(previous) => previous.as_slice() < entry.key(),
                        None => self.first == entry.key(),
                    };
                    if !is_in_order {
                        return Poll::Ready(Err(wrong(Wrong::Order)));
                    }
                    self.left = self.left.checked_sub(1).ok_or_else(|| wrong(Wrong::Count))?;
                    let previous = self.previous.get_or_insert_default();
                    previous.clear();
                    previous.extend_from_slice(entry.key());
                    return Poll::Ready(Ok(Some(entry)));
                }
                if self.previous.as_deref() != Some(&located.last_key[..]) {
                    return Poll::Ready(Err(wrong(Wrong::Order)));
                }
                self.block = None;
            }
            let Some(located) = self.located.clone().next() else {
                let wrong =
                    (self.left > 0).then(|| damaged(&self.object, TablePlace::Table.is(Wrong::Count)));
                return Poll::Ready(wrong.map_or(Ok(None), Err));
            };
            let bytes = ready!(self.blocks.poll_next_unpin(cx)?).unwrap_or_default();
            let place = TablePlace::Block(located.number);
            if bytes.len() != located.length as usize {
                return Poll::Ready(Err(damaged(&self.object, place.is(Wrong::Length))));
            }
            let block = BlockEntries::parse(&bytes, located.number);
            self.block = Some((block.map_err(|damage| damaged(&self.object, damage))?, located));
            self.located.next();
        }
    }
}

impl Stream for TableEntries {
    type Item = Result<TableEntry>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<TableEntry>>> {
        if self.is_ended {
            return Poll::Ready(None);
        }
        let entry = ready!(self.poll_entry(cx)).transpose();
        self.is_ended = !matches!(entry, Some(Ok(_)));
        Poll::Ready(entry)
    }
}

fn damaged(object: &Object, damage: Damage) -> CompactionError {
    CompactionError::Damaged { table: object.key.clone(), damage }
}

/// Reads one range into one buffer.
async fn read(store: &Store, object: &Object, range: Range<u64>) -> Result<Bytes> {
    let mut blocks = store.blocks(&object.key, [range]).if_unchanged(object).await?;
    Ok(blocks.try_next().await?.map_or_else(Bytes::new, |block| block.bytes))
}

#[cfg(test)]
mod tests;
