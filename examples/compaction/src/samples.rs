//! Stores and tables for tests.

use std::collections::BTreeMap;

use futures::TryStreamExt;
use tidegate::{Store, Tidegate};

use crate::builder::TableBuilder;
use crate::entry::TableEntry;
use crate::error::Result;
use crate::reader::TableReader;
use crate::writer::TableWriter;

/// The entries of a table, or the merged entries of several.
pub(crate) type Content = BTreeMap<Vec<u8>, Option<Vec<u8>>>;

pub(crate) fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}

pub(crate) async fn store() -> Store {
    let tide = Tidegate::builder().memory(8 << 20).build().unwrap();
    tide.open("memory://tables").await.unwrap()
}

/// Writes a table into the store; fails if the key exists.
pub(crate) async fn put(
    store: &Store,
    key: &str,
    sequence: u64,
    block_size: usize,
    content: &Content,
) -> Result<()> {
    let writer = store.writer(key).create_only().await?;
    let mut table = TableWriter::new(key.to_owned(), TableBuilder::new(block_size, sequence), writer);
    for (key, value) in content {
        table.add(&TableEntry::new(key, value.as_deref())).await?;
    }
    table.finish().await.map(drop)
}

/// Reads all entries of the table, as a stream of blocks.
pub(crate) async fn get(store: &Store, key: &str) -> Result<Vec<(Vec<u8>, Option<Vec<u8>>)>> {
    let table = TableReader::open(store, store.head(key).await?).await?;
    let owned = |entry: TableEntry| (entry.key().to_vec(), entry.value().map(<[u8]>::to_vec));
    table.entries().await?.map_ok(owned).try_collect().await
}

/// Replaces an object with any bytes.
pub(crate) async fn replace(store: &Store, key: &str, bytes: Vec<u8>) {
    let mut writer = store.writer(key).await.unwrap();
    writer.write_bytes(bytes.into()).await.unwrap();
    writer.finish().await.unwrap();
}

/// Reads an object.
pub(crate) async fn bytes(store: &Store, key: &str) -> Vec<u8> {
    let mut reader = store.reader(key).await.unwrap();
    let mut bytes = Vec::new();
    while let Some(piece) = reader.try_next().await.unwrap() {
        bytes.extend_from_slice(&piece);
    }
    bytes
}
