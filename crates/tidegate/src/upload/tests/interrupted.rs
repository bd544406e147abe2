//! Writes that are cancelled halfway, and sources that panic: no object is published unless its producer can know
//! that all of its bytes are in it.

use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::task::{Context, Poll};

use futures::FutureExt;
use tokio::io::{AsyncRead, ReadBuf};

use super::*;

/// An engine whose memory is almost all held by another writer.
async fn short_of_memory() -> Result<(Tidegate, Store, crate::Writer)> {
    let tide = engine();
    let store = store(&tide);
    let mut other = store.writer("other").strategy(Strategy::Put).size_hint(100 * KIB).start().await?;
    other.write_bytes(data(100 * KIB)).await?;
    Ok((tide, store, other))
}

/// Begins a write that does not fit into memory, and cancels it.
async fn half_write(store: &Store) -> Result<crate::Writer> {
    let mut writer = store.writer("k").strategy(Strategy::Put).size_hint(100 * KIB).start().await?;
    assert!(futures::poll!(std::pin::pin!(writer.write_bytes(data(100 * KIB)))).is_pending());
    Ok(writer)
}

#[tokio::test]
async fn a_half_taken_write_is_to_be_looked_at_before_the_end() -> Result<()> {
    let (tide, store, other) = short_of_memory().await?;
    let mut writer = half_write(&store).await?;
    let error = writer.shutdown().await.unwrap_err();
    assert!(error.to_string().contains("call `position`"), "{error}");
    assert!(SinkExt::<Bytes>::close(&mut writer).await.is_err());
    // Later writes do not make the object whole.
    other.abort().await?;
    writer.write_bytes(data(10)).await?;
    assert!(writer.shutdown().await.is_err());
    let taken = writer.position();
    assert!(taken > 10 && taken < 100 * KIB, "{taken}");
    let object = writer.finish().await?;
    assert_eq!(object.size, taken);

    let (_, store, _other) = short_of_memory().await?;
    let error = half_write(&store).await?.finish().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
    drop(tide);
    Ok(())
}

#[tokio::test]
async fn what_has_gone_on_from_its_position_is_published_whole() -> Result<()> {
    let (_tide, store, other) = short_of_memory().await?;
    let mut writer = half_write(&store).await?;
    other.abort().await?;
    let taken = writer.position();
    writer.write_bytes(data(100 * KIB).slice(taken as usize..)).await?;
    writer.finish().await?;
    assert_eq!(stored(&store, "k").await, data(100 * KIB));
    Ok(())
}

#[tokio::test]
async fn a_write_that_was_cancelled_before_its_first_byte_or_behind_its_last_is_none() -> Result<()> {
    let (tide, store, other) = short_of_memory().await?;
    let filler = half_write(&store).await?;
    filler.position();
    let mut writer = store.writer("none").strategy(Strategy::Put).size_hint(9).start().await?;
    assert!(futures::poll!(std::pin::pin!(writer.write_bytes(data(9)))).is_pending());
    drop((other, filler));
    tide.settled().await;
    assert_eq!(writer.finish().await?.size, 0);
    let mut writer = store.writer("all").start().await?;
    writer.write_bytes(data(9)).await?;
    drop(writer.write_bytes(data(9)));
    assert_eq!(writer.finish().await?.size, 9);
    Ok(())
}

#[tokio::test]
async fn a_write_all_that_was_cancelled_is_to_be_looked_at_before_the_end() -> Result<()> {
    let (tide, store, other) = short_of_memory().await?;
    let mut writer = store.writer("k").strategy(Strategy::Put).size_hint(100 * KIB).start().await?;
    let bytes = data(100 * KIB);
    assert!(futures::poll!(std::pin::pin!(writer.write_all(&bytes))).is_pending());
    let error = writer.shutdown().await.unwrap_err();
    assert!(error.to_string().contains("call `position`"), "{error}");
    let taken = writer.position();
    assert!(taken > 0 && taken < 100 * KIB, "{taken}");
    other.abort().await?;
    writer.write_all(&bytes[taken as usize..]).await.unwrap();
    writer.shutdown().await.unwrap();
    assert_eq!(stored(&store, "k").await, bytes);

    // A write that waited and was polled to its end is a whole one.
    let mut other = store.writer("other").strategy(Strategy::Put).size_hint(100 * KIB).start().await?;
    other.write_bytes(data(100 * KIB)).await?;
    let mut writer = store.writer("k").strategy(Strategy::Put).size_hint(100 * KIB).start().await?;
    let mut write = Box::pin(writer.write_all(&bytes));
    assert!(futures::poll!(&mut write).is_pending());
    other.abort().await?;
    write.await.unwrap();
    writer.shutdown().await.unwrap();
    drop(tide);
    Ok(())
}

/// A source that gives some bytes, then waits for ever, or panics.
struct Odd {
    bytes: usize,
    panics: bool,
}

impl AsyncRead for Odd {
    fn poll_read(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        let some = self.bytes.min(into.remaining());
        assert!(some > 0 || !self.panics, "the source's bug");
        if some == 0 {
            return Poll::Pending;
        }
        into.put_slice(&vec![7; some]);
        self.bytes -= some;
        Poll::Ready(Ok(()))
    }
}

#[tokio::test]
async fn a_read_that_was_cancelled_is_to_be_looked_at_before_the_end() -> Result<()> {
    let tide = engine();
    let store = store(&tide);
    let mut writer = store.writer("k").start().await?;
    let mut source = Odd { bytes: 1000, panics: false };
    assert!(futures::poll!(std::pin::pin!(writer.read_from(&mut source))).is_pending());
    assert!(writer.shutdown().await.is_err());
    assert_eq!(writer.position(), 1000);
    assert_eq!(writer.finish().await?.size, 1000);
    Ok(())
}

/// `read_from` reads one more byte from its source before it reserves the next part; that byte waits for memory.
#[tokio::test]
async fn a_byte_that_a_cancelled_read_has_taken_ahead_is_counted() -> Result<()> {
    let mut ahead = 0;
    for held in (80..=124).step_by(4) {
        let tide = engine();
        let store = store(&tide);
        let mut other = store.writer("other").strategy(Strategy::Put).size_hint(held * KIB).start().await?;
        other.write_bytes(data(held * KIB)).await?;
        let mut writer = store.writer("k").strategy(Strategy::Parallel).start().await?;
        let given = 100 * KIB;
        let mut source = Odd { bytes: given as usize, panics: false };
        assert!(futures::poll!(std::pin::pin!(writer.read_from(&mut source))).is_pending());
        let taken = given - source.bytes as u64;
        ahead += u32::from(writer.side.position() < taken);
        assert_eq!(writer.position(), taken, "{held} KiB are held");
        other.abort().await?;
        writer.write_bytes(vec![7; source.bytes].into()).await?;
        writer.finish().await?;
        assert_eq!(stored(&store, "k").await, vec![7; given as usize]);
    }
    assert!(ahead > 0, "no read had a byte ahead");
    Ok(())
}

#[tokio::test]
async fn nothing_is_published_whose_source_panicked() -> Result<()> {
    let folder = tempfile::tempdir().unwrap();
    let tide = Tidegate::builder().memory(1 << 20).slab(4096).journal([folder.path()]).build()?;
    let store = tide.open("memory://panics").await?;
    for (bytes, strategy) in [0, 1000, 100 << 10]
        .into_iter()
        .flat_map(|bytes| [(bytes, Strategy::Auto), (bytes, Strategy::Journal)])
    {
        let mut writer = store.writer("k").strategy(strategy).start().await?;
        let mut source = Odd { bytes, panics: true };
        let read = AssertUnwindSafe(writer.read_from(&mut source)).catch_unwind().await;
        assert!(read.is_err());
        assert_eq!(writer.position(), bytes as u64);
        let error = writer.finish().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Source, "{error}");
        assert!(error.to_string().contains("panicked"), "{error}");
        tide.settled().await;
        assert_eq!(store.head("k").await.unwrap_err().kind(), ErrorKind::NotFound, "{strategy:?} {bytes}");
    }
    Ok(())
}
