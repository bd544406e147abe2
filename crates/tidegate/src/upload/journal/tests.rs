use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::{SinkExt, StreamExt};
use tokio::io::AsyncWriteExt;

use crate::backend::memory::Memory;
use crate::backend::{Attempt, Capabilities};
use crate::journal::{Durability, JournalError};
use crate::recover::Resumed;
use crate::settings::RetryPolicy;
use crate::testkit::bytes::bytes_of;
use crate::testkit::scripted::Scripted;
use crate::{ErrorKind, Result, Store, Strategy, Tidegate, TidegateBuilder, Writer};

mod appended;
mod chaos;
mod claimed;
mod faulty;
mod hostile;
mod lost;
mod memory;
mod outage;
mod resumed;
mod started;
mod trial;

use faulty::{Fate, Faulty};

const KIB: u64 = 1 << 10;
const PART: u64 = 16 * KIB;

/// A journal directory and a memory store that can be down; tests start any number of processes on them.
struct Place {
    folder: tempfile::TempDir,
    backend: Arc<Scripted<Faulty>>,
}

impl Place {
    fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap(), backend: Faulty::store() }
    }

    fn builder(&self) -> TidegateBuilder {
        let retry = RetryPolicy {
            attempts: 2,
            first_pause: Duration::from_millis(1),
            longest_pause: Duration::from_millis(20),
            ..RetryPolicy::default()
        };
        Tidegate::builder()
            .memory(256 * KIB)
            .slab(4096)
            .part_size(PART)
            .retry(retry)
            .memory_wait(Duration::from_millis(500))
            .journal([self.folder.path()])
    }

    fn process(&self) -> (Tidegate, Store) {
        self.process_of(self.builder())
    }

    fn process_of(&self, builder: TidegateBuilder) -> (Tidegate, Store) {
        let tide = builder.build().unwrap();
        let store = tide.store(self.backend.clone());
        (tide, store)
    }

    async fn writer(&self, store: &Store) -> Result<Writer> {
        store.writer("k").strategy(Strategy::Journal).start().await
    }

    fn files(&self) -> usize {
        std::fs::read_dir(self.folder.path()).unwrap().count()
    }

    async fn sessions(&self, store: &Store) -> usize {
        store.sessions("").count().await
    }

    /// Counts the sessions that hold at least one part.
    async fn sessions_with_parts(&self, store: &Store) -> usize {
        let sessions: Vec<_> = store.sessions("").collect().await;
        let mut with_parts = 0;
        for session in sessions {
            let below = self.backend.below().need_parts().unwrap();
            let parts = below.stored_parts(&session.unwrap().session, Attempt::FIRST).await.unwrap();
            with_parts += usize::from(!parts.is_empty());
        }
        with_parts
    }
}

/// The only file in a journal directory.
fn journal_file(folder: &Path) -> PathBuf {
    std::fs::read_dir(folder).unwrap().next().unwrap().unwrap().path()
}

fn data(size: u64) -> Bytes {
    bytes_of(size, 0).into()
}

async fn stored(store: &Store, key: &str) -> Bytes {
    let mut reader = store.reader(key).start().await.unwrap();
    let mut bytes = Vec::new();
    while let Some(piece) = reader.next().await {
        bytes.extend_from_slice(&piece.unwrap());
    }
    bytes.into()
}

#[tokio::test]
async fn every_size_and_durability_gives_the_object_and_leaves_nothing() -> Result<()> {
    let place = Place::new();
    let group = Durability::Group { bytes: 64 * KIB, delay: Duration::from_millis(5) };
    for durability in [Durability::Write, group, Durability::Sync] {
        let (tide, store) = place.process_of(place.builder().durability(durability));
        for size in [0, 1, PART - 1, PART, PART + 1, 3 * PART, 40 * PART + 17] {
            for piece in [1000, 70 * KIB, 1 << 20] {
                if size / piece > 100 {
                    continue; // each write may cost a sync: too slow
                }
                let bytes = data(size);
                let builder = store.writer("k").strategy(Strategy::Journal);
                let progress = builder.progress();
                let mut writer = builder.start().await?;
                for start in (0..size).step_by(piece as usize) {
                    writer.write_bytes(bytes.slice(start as usize..size.min(start + piece) as usize)).await?;
                }
                assert_eq!((writer.position(), writer.strategy()), (size, Strategy::Journal));
                let object = writer.finish().await?;
                assert_eq!(object.size, size);
                assert_eq!(stored(&store, "k").await, bytes, "{durability:?} {size} {piece}");
                let figures = progress.snapshot();
                let requests = if size <= PART { 1 } else { size.div_ceil(PART) + 2 };
                assert_eq!(figures.requests, requests, "{size} {piece}");
                assert_eq!((figures.accepted, figures.journaled, figures.acknowledged), (size, size, size));
                assert_eq!(place.files(), 0, "a journal was left");
                assert_eq!(place.sessions(&store).await, 0);
            }
        }
        tide.settled().await;
        assert_eq!(tide.usage().held, 0);
        assert!(tide.usage().peak <= 256 * KIB);
    }
    Ok(())
}

#[tokio::test]
async fn it_is_an_async_write_and_reads_from_a_source_and_a_file() -> Result<()> {
    let place = Place::new();
    let (_tide, store) = place.process();
    let bytes = data(5 * PART + 5);

    let mut writer = place.writer(&store).await?;
    for piece in bytes.chunks(777) {
        writer.write_all(piece).await.unwrap();
    }
    AsyncWriteExt::flush(&mut writer).await.unwrap();
    assert_eq!(writer.progress().snapshot().journaled, bytes.len() as u64);
    assert_eq!(writer.sync().await?, bytes.len() as u64);
    writer.shutdown().await.unwrap();
    writer.shutdown().await.unwrap();
    assert_eq!(writer.finish().await?.size, bytes.len() as u64);
    assert_eq!(stored(&store, "k").await, bytes);

    let mut writer = place.writer(&store).await?;
    for piece in bytes.chunks(7777) {
        SinkExt::feed(&mut writer, Bytes::copy_from_slice(piece)).await?;
    }
    SinkExt::flush(&mut writer).await?;
    assert_eq!(writer.progress().snapshot().journaled, bytes.len() as u64);
    SinkExt::close(&mut writer).await?;
    let late = SinkExt::feed(&mut writer, data(1)).await.unwrap_err();
    assert_eq!(late.kind(), ErrorKind::Closed, "{late}");
    assert_eq!(stored(&store, "k").await, bytes);

    let mut writer = place.writer(&store).await?;
    assert_eq!(writer.read_from(&mut &bytes[..]).await?, bytes.len() as u64);
    assert_eq!(writer.progress().snapshot().journaled, bytes.len() as u64);
    writer.finish().await?;
    assert_eq!(stored(&store, "k").await, bytes);

    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("source");
    for size in [0, 1, 5 * PART as usize + 5] {
        std::fs::write(&path, &bytes[..size]).unwrap();
        store.writer("file").strategy(Strategy::Journal).upload(&path).await?;
        assert_eq!(stored(&store, "file").await, bytes.slice(..size));
    }
    assert_eq!(place.files(), 0);
    Ok(())
}

/// The most disk space that the journal of a 4 MiB object takes, where 256 KiB of acknowledged bytes are kept.
async fn most_disk_space(place: &Place) -> Result<u64> {
    use std::os::unix::fs::MetadataExt;
    let (_tide, store) = place.process_of(place.builder().journal_keep(256 * KIB));
    let mut writer = store.writer("k").strategy(Strategy::Journal).concurrency(4).start().await?;
    let bytes = data(4 << 20);
    let mut most = 0;
    for piece in bytes.chunks(64 << 10) {
        writer.write_bytes(Bytes::copy_from_slice(piece)).await?;
        // The memory store takes parts as soon as they are full.
        while writer.progress().snapshot().acknowledged + 2 * PART < writer.position() {
            tokio::task::yield_now().await;
        }
        let file = journal_file(place.folder.path());
        most = most.max(file.metadata().unwrap().blocks() * 512);
    }
    writer.finish().await?;
    assert_eq!(stored(&store, "k").await, bytes);
    Ok(most)
}

#[tokio::test]
async fn what_is_acknowledged_is_given_back() -> Result<()> {
    let most = most_disk_space(&Place::new()).await?;
    assert!(most < 1 << 20, "{most} bytes of disk for an object that the store has");
    Ok(())
}

#[tokio::test]
async fn all_bytes_are_kept_where_another_write_of_the_key_discards_the_parts() -> Result<()> {
    let capabilities = Capabilities { min_part: 4 * KIB, aborts: false, ..Capabilities::default() };
    let place = Place { backend: Faulty::store_with(capabilities), ..Place::new() };
    let most = most_disk_space(&place).await?;
    assert!(most >= 4 << 20, "the journal has only {most} bytes of an object that the store may discard");
    Ok(())
}

#[tokio::test]
async fn an_abort_leaves_nothing_and_a_drop_leaves_the_journal() -> Result<()> {
    let place = Place::new();
    let (tide, store) = place.process();
    for parts in [0, 1, 5] {
        let mut writer = place.writer(&store).await?;
        writer.write_bytes(data(parts * PART + 100)).await?;
        writer.abort().await?;
        tide.settled().await;
        assert_eq!((place.files(), place.sessions(&store).await), (0, 0));
    }
    drop(place.writer(&store).await?);
    tide.settled().await;
    assert_eq!(place.files(), 0, "a journal of nothing is not kept");

    let mut writer = place.writer(&store).await?;
    writer.write_bytes(data(100)).await?;
    drop(writer);
    tide.settled().await;
    assert_eq!(place.files(), 1);
    assert!(store.head("k").await.is_err(), "nothing is published by a drop");
    Ok(())
}

#[tokio::test]
async fn without_a_directory_it_is_refused_in_one_sentence() -> Result<()> {
    let tide = Tidegate::builder().build()?;
    let store = tide.open("memory://none").await?;
    let error = store.writer("k").strategy(Strategy::Journal).start().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    assert!(error.to_string().contains("needs a journal directory"), "{error}");
    let error = Tidegate::builder().journal(["/nowhere/at/all"]).build().unwrap_err();
    assert!(error.to_string().contains("/nowhere/at/all"), "{error}");

    let mut writer = store.writer("k").start().await?;
    assert_eq!(writer.sync().await.unwrap_err().kind(), ErrorKind::Unsupported);
    Ok(())
}
