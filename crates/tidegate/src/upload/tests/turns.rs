//! Producers and consumers that are always ready still let other tasks run.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};

use futures::TryStreamExt;
use tokio::io::{AsyncBufReadExt, AsyncReadExt};

use super::*;

/// Runs `busy` on one thread with a task that counts its own turns; returns that count when `busy` ends.
fn turns_beside<T>(busy: impl Future<Output = T>) -> u64 {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let (turns, over) = (Arc::<AtomicU64>::default(), Arc::<AtomicBool>::default());
        let (counted, is_over) = (turns.clone(), over.clone());
        let other = tokio::spawn(async move {
            while !is_over.load(SeqCst) {
                counted.fetch_add(1, SeqCst);
                tokio::task::yield_now().await;
            }
        });
        busy.await;
        let turns = turns.load(SeqCst);
        over.store(true, SeqCst);
        other.await.unwrap();
        turns
    })
}

/// The object fits in one request, so only the producer could ever wait.
const SIZE: u64 = 8 << 20;
const PIECE: usize = 4096;

async fn writer() -> (Tidegate, crate::Writer) {
    let tide = Tidegate::builder().memory(64 << 20).build().unwrap();
    let store = tide.open("memory://turns").await.unwrap();
    let writer = store.writer("k").strategy(Strategy::Put).size_hint(SIZE).start().await.unwrap();
    (tide, writer)
}

#[test]
fn writes_of_every_kind_let_other_tasks_run() {
    let pieces = || (0..SIZE as usize / PIECE).map(|_| Bytes::from_static(&[7; PIECE]));
    // 2,048 pieces, and tokio's budget of 128 operations per turn.
    let least = 10;
    let turns = turns_beside(async {
        let (_tide, mut writer) = writer().await;
        for piece in pieces() {
            writer.write_bytes(piece).await.unwrap();
        }
    });
    assert!(turns >= least, "write: {turns}");
    let turns = turns_beside(async {
        let (_tide, mut writer) = writer().await;
        for piece in pieces() {
            writer.write_all(&piece).await.unwrap();
        }
    });
    assert!(turns >= least, "AsyncWrite: {turns}");
    let turns = turns_beside(async {
        let (_tide, mut writer) = writer().await;
        for piece in pieces() {
            writer.feed(piece).await.unwrap();
        }
    });
    assert!(turns >= least, "Sink: {turns}");
}

/// A source that is always ready, with a few bytes at a time.
struct Ready(u64);

impl tokio::io::AsyncRead for Ready {
    fn poll_read(
        mut self: std::pin::Pin<&mut Self>,
        _: &mut std::task::Context<'_>,
        into: &mut tokio::io::ReadBuf<'_>,
    ) -> std::task::Poll<std::io::Result<()>> {
        let some = self.0.min(PIECE as u64).min(into.remaining() as u64);
        into.put_slice(&[7; PIECE][..some as usize]);
        self.0 -= some;
        std::task::Poll::Ready(Ok(()))
    }
}

#[test]
fn a_source_that_is_always_ready_lets_other_tasks_run() {
    let turns = turns_beside(async {
        let (_tide, mut writer) = writer().await;
        assert_eq!(writer.read_from(&mut Ready(SIZE)).await.unwrap(), SIZE);
    });
    assert!(turns >= 10, "{turns}");
}

#[test]
fn reads_of_every_kind_let_other_tasks_run() {
    let stored = async || {
        let (tide, mut writer) = writer().await;
        writer.write_bytes(vec![7; SIZE as usize].into()).await.unwrap();
        writer.finish().await.unwrap();
        tide.open("memory://turns").await.unwrap()
    };
    let turns = turns_beside(async {
        let mut reader = stored().await.reader("k").start().await.unwrap();
        let mut piece = [0; PIECE];
        while reader.read(&mut piece).await.unwrap() > 0 {}
    });
    assert!(turns >= 10, "AsyncRead: {turns}");
    let turns = turns_beside(async {
        let mut reader = stored().await.reader("k").start().await.unwrap();
        while let some @ 1.. = reader.fill_buf().await.unwrap().len() {
            reader.consume(some.min(PIECE));
        }
    });
    assert!(turns >= 10, "AsyncBufRead: {turns}");
    let turns = turns_beside(async {
        let blocks = (0..SIZE / PIECE as u64).map(|at| at * PIECE as u64..(at + 1) * PIECE as u64);
        let blocks = stored().await.blocks("k", blocks).start().await.unwrap();
        assert_eq!(
            blocks.try_fold(0, async |sum, block| Ok(sum + block.bytes.len() as u64)).await.unwrap(),
            SIZE
        );
    });
    assert!(turns >= 10, "BlockStream: {turns}");
}

#[test]
fn stores_writers_and_readers_may_be_shared_between_threads() {
    fn is_shared<T: Send + Sync + 'static>() {}
    is_shared::<Tidegate>();
    is_shared::<Store>();
    is_shared::<crate::Writer>();
    is_shared::<crate::Reader>();
    is_shared::<crate::download::BlockStream>();
    is_shared::<crate::Error>();
    is_shared::<crate::api::blocking::Writer>();
    is_shared::<crate::api::blocking::Reader>();
}
