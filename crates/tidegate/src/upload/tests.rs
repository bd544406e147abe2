use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::{Sink, SinkExt, StreamExt};
use tokio::io::AsyncWriteExt;

use super::driver::Driver;
use super::source::buffer::Buffered;
use super::writer::Side;
use crate::backend::Capabilities;
use crate::backend::memory::Memory;
use crate::testkit::bytes::bytes_of;
use crate::{ErrorKind, Result, Store, Strategy, Tidegate};

mod adaptive_part_size;
mod cancelled;
mod cut;
mod disks;
mod ended;
mod exact;
mod fair;
mod freed;
mod in_parts;
mod in_turn;
mod interrupted;
mod limits;
mod prepared;
mod pressure;
mod receipts;
mod resumed;
mod rings;
mod runtimes;
mod settled;
mod slices;
mod stopped;
mod target_disk;
mod turns;
mod two_writers;
mod unaborted;
mod unpolled;

const KIB: u64 = 1 << 10;
const PART: u64 = 16 * KIB;

fn engine() -> Tidegate {
    Tidegate::builder().memory(128 * KIB).slab(4096).part_size(PART).seed(1).build().unwrap()
}

fn store(tide: &Tidegate) -> Store {
    let capabilities = Capabilities { min_part: 4 * KIB, ..Capabilities::default() };
    tide.store(Arc::new(Memory::new("test").with_capabilities(capabilities)))
}

fn direct(writer: &mut crate::Writer) -> &mut Driver<Buffered> {
    match &mut writer.side {
        Side::Direct(direct) => direct,
        Side::Journaled(_) => panic!("its bytes go to a journal"),
    }
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

/// Asserts that the store has no object and no session, and that no memory is held.
async fn assert_nothing(tide: &Tidegate, store: &Store) {
    tide.settled().await;
    assert_eq!(store.list("").count().await, 0);
    assert_eq!(store.sessions("").count().await, 0);
    assert_eq!(tide.usage().held, 0);
}

#[tokio::test]
async fn every_size_and_way_of_writing_gives_the_same_object() -> Result<()> {
    let tide = engine();
    let store = store(&tide);
    for strategy in [Strategy::Auto, Strategy::Put, Strategy::Chunked, Strategy::Parallel] {
        for size in [0, 1, PART - 1, PART, PART + 1, 3 * PART, 5 * PART + 17] {
            for piece in [1, 1000, 70 * KIB, 1 << 20] {
                let bytes = data(size);
                // Without a size hint, a PUT takes half of the memory.
                let builder = store.writer("k").strategy(strategy);
                let builder = if strategy == Strategy::Put { builder.size_hint(size) } else { builder };
                let progress = builder.progress();
                let mut writer = builder.start().await?;
                for start in (0..size).step_by(piece as usize) {
                    writer.write_bytes(bytes.slice(start as usize..size.min(start + piece) as usize)).await?;
                }
                assert_eq!(writer.position(), size);
                let object = writer.finish().await?;
                assert_eq!(object.size, size);
                assert_eq!(stored(&store, "k").await, bytes, "{strategy:?} {size} {piece}");
                let parts = size.div_ceil(PART);
                let whole = strategy == Strategy::Put || size <= PART;
                let figures = progress.snapshot();
                assert_eq!(
                    figures.requests,
                    if whole { 1 } else { parts + 2 },
                    "{strategy:?} {size} {piece}"
                );
                assert_eq!((figures.accepted, figures.acknowledged, figures.in_flight), (size, size, 0));
                assert_eq!(tide.usage().held, 0);
            }
        }
    }
    assert!(tide.usage().peak <= 128 * KIB);
    Ok(())
}

#[tokio::test]
async fn it_is_an_async_write_a_sink_and_reads_from_a_source() -> Result<()> {
    let tide = engine();
    let store = store(&tide);
    let bytes = data(3 * PART + 5);

    let mut writer = store.writer("write").start().await?;
    writer.write_all(&bytes).await.unwrap();
    AsyncWriteExt::flush(&mut writer).await.unwrap();
    writer.shutdown().await.unwrap();
    writer.shutdown().await.unwrap(); // a second shutdown changes nothing
    assert_eq!(writer.finish().await?.size, bytes.len() as u64, "what was published can still be had");
    assert_eq!(stored(&store, "write").await, bytes);

    let mut writer = store.writer("sink").start().await?;
    for piece in bytes.chunks(10_000) {
        writer.send(Bytes::copy_from_slice(piece)).await?;
    }
    SinkExt::close(&mut writer).await?;
    assert_eq!(stored(&store, "sink").await, bytes);

    for size in [0, 1, PART - 1, PART, PART + 1, 3 * PART] {
        let builder = store.writer("source");
        let progress = builder.progress();
        let mut writer = builder.start().await?;
        let bytes = bytes.slice(..size as usize);
        assert_eq!(writer.read_from(&mut &bytes[..]).await?, size);
        writer.finish().await?;
        assert_eq!(stored(&store, "source").await, bytes);
        let requests = if size <= PART { 1 } else { 2 + size.div_ceil(PART) };
        assert_eq!(progress.snapshot().requests, requests, "{size} bytes from a source");
    }
    Ok(())
}

#[tokio::test]
async fn an_item_that_comes_unasked_is_not_lost() -> Result<()> {
    let tide = engine();
    let store = store(&tide);
    let mut writer = store.writer("k").start().await?;
    std::pin::Pin::new(&mut writer).start_send(data(100))?;
    assert!(std::pin::Pin::new(&mut writer).start_send(data(100)).is_err(), "the first one is not taken yet");
    assert!(SinkExt::close(&mut writer).await.is_err());
    drop(writer);
    assert_nothing(&tide, &store).await;

    let mut writer = store.writer("k").start().await?;
    SinkExt::close(&mut writer).await?;
    assert!(SinkExt::feed(&mut writer, data(100)).await.is_err(), "the object was published without it");
    Ok(())
}

#[tokio::test]
async fn dropped_aborted_and_failed_writers_leave_nothing() -> Result<()> {
    let tide = engine();
    let store = store(&tide);
    for parts in [0, 1, 4] {
        let mut writer = store.writer("dropped").start().await?;
        writer.write_bytes(data(parts * PART + 100)).await?;
        drop(writer);
        assert_nothing(&tide, &store).await;

        let mut writer = store.writer("aborted").start().await?;
        writer.write_bytes(data(parts * PART + 100)).await?;
        writer.abort().await?;
        assert_nothing(&tide, &store).await;

        let mut writer = store.writer("failed").start().await?;
        writer.write_bytes(data(parts * PART + 100)).await?;
        let broken = std::io::Error::other("the disk is gone");
        let mut source = tokio_test_source(broken);
        let error = writer.read_from(&mut source).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Source);
        let at = format!("at byte {}: the disk is gone", parts * PART + 100);
        assert!(error.to_string().contains(&at), "{error}");
        let flushed = futures::SinkExt::flush(&mut writer).await;
        assert_eq!(flushed.map_err(|error| error.kind()), Err(ErrorKind::Closed));
        let error = writer.finish().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Closed, "a failed writer does not publish");
        assert_nothing(&tide, &store).await;
    }
    Ok(())
}

/// A source that fails at once.
fn tokio_test_source(error: std::io::Error) -> impl tokio::io::AsyncRead + Unpin {
    struct Broken(Option<std::io::Error>);
    impl tokio::io::AsyncRead for Broken {
        fn poll_read(
            mut self: std::pin::Pin<&mut Self>,
            _: &mut std::task::Context<'_>,
            _: &mut tokio::io::ReadBuf<'_>,
        ) -> std::task::Poll<std::io::Result<()>> {
            std::task::Poll::Ready(Err(self.0.take().unwrap()))
        }
    }
    Broken(Some(error))
}

#[tokio::test]
async fn create_only_leaves_what_is_there() -> Result<()> {
    let tide = engine();
    let store = store(&tide);
    for size in [10, 3 * PART] {
        let key = format!("k{size}");
        let mut writer = store.writer(&key).create_only().start().await?;
        writer.write_bytes(data(size)).await?;
        writer.finish().await?;
        let mut writer = store.writer(&key).create_only().start().await?;
        writer.write_bytes(data(size + 1)).await?;
        let error = writer.finish().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::AlreadyExists, "{error}");
        tide.settled().await;
        assert_eq!(stored(&store, &key).await, data(size));
        assert_eq!(store.sessions("").count().await, 0);
    }
    Ok(())
}

#[tokio::test]
async fn sizes_that_do_not_fit_are_refused_in_one_sentence() -> Result<()> {
    let tide = engine();
    let store = store(&tide);
    let refused = store.writer("k").part_size(256 * KIB).start().await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::InvalidInput);
    assert!(refused.to_string().starts_with("memory://test/k: write failed: parts of 256 KiB"), "{refused}");

    let mut writer = store.writer("k").strategy(Strategy::Put).size_hint(100).start().await?;
    let error = writer.write_bytes(data(101)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TooLarge);
    drop(writer);
    assert_nothing(&tide, &store).await;
    Ok(())
}

#[tokio::test]
async fn a_file_is_streamed_and_a_file_that_changes_is_not_published() -> Result<()> {
    let tide = engine();
    let store = store(&tide);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("source");
    for size in [0, 1, 4096, 4097, PART, PART + 1, 5 * PART + 17] {
        std::fs::write(&path, data(size)).unwrap();
        let builder = store.writer("k");
        let progress = builder.progress();
        let object = builder.upload(&path).await?;
        assert_eq!(object.size, size);
        assert_eq!(stored(&store, "k").await, data(size));
        let requests = if size <= PART { 1 } else { 2 + size.div_ceil(PART) };
        assert_eq!(progress.snapshot().requests, requests, "a file of {size} bytes");
    }
    store.delete("k").await?;
    for missing in [folder.path().to_owned(), folder.path().join("nowhere")] {
        let error = store.upload(&missing, "k").await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Source);
        assert!(error.to_string().contains(missing.to_str().unwrap()), "{error}");
    }
    assert_nothing(&tide, &store).await;
    assert!(tide.usage().peak <= 128 * KIB);
    Ok(())
}

#[tokio::test]
async fn memory_that_holds_no_part_holds_small_objects() -> Result<()> {
    let tide = Tidegate::builder().memory(16 * KIB).slab(4096).build()?;
    let store = tide.store(Arc::new(Memory::new("small"))); // the smallest part is 5 MiB
    let mut writer = store.writer("k").start().await?;
    writer.write_bytes(data(5000)).await?;
    assert_eq!(writer.finish().await?.size, 5000);
    let mut writer = store.writer("large").start().await?;
    let error = writer.write_bytes(data(20_000)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TooLarge);
    assert!(error.to_string().contains("past 8 KiB") && error.to_string().contains("memory"), "{error}");
    assert_eq!(store.upload("/dev/null", "k").await.unwrap_err().kind(), ErrorKind::Source);
    Ok(())
}

#[tokio::test]
async fn a_file_that_says_it_is_empty_is_read_all_the_same() -> Result<()> {
    let tide = engine();
    let store = store(&tide);
    // Files in /proc have size 0, but contain bytes.
    let object = store.upload("/proc/self/limits", "limits").await?;
    assert!(object.size > 100);
    assert!(stored(&store, "limits").await.starts_with(b"Limit"));
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_hundred_writers_share_a_budget_of_eight_parts() -> Result<()> {
    let tide = engine();
    let store = store(&tide);
    let mut tasks = tokio::task::JoinSet::new();
    for number in 0..100u64 {
        let store = store.clone();
        tasks.spawn(async move {
            let bytes = data(number * 997);
            let mut writer = store.writer(format!("k{number}")).start().await?;
            for piece in bytes.chunks(1 + number as usize * 7) {
                writer.write_all(piece).await.unwrap();
                tokio::time::sleep(Duration::from_millis(number % 5)).await;
            }
            writer.finish().await
        });
    }
    while let Some(joined) = tasks.join_next().await {
        joined.unwrap()?;
    }
    for number in 0..100 {
        assert_eq!(stored(&store, &format!("k{number}")).await, data(number * 997));
    }
    assert!(tide.usage().peak <= 128 * KIB, "{:?}", tide.usage());
    assert_eq!(tide.usage().held, 0);
    Ok(())
}
