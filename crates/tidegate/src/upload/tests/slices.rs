//! Slices of large buffers: a shared slice keeps its whole buffer alive, but the budget counts only the slice.

use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use super::*;

/// A buffer of 16 MiB that is counted for as long as any slice of it lives.
struct Buffer(Vec<u8>, Arc<AtomicUsize>);

impl Buffer {
    fn counted(alive: &Arc<AtomicUsize>) -> Bytes {
        alive.fetch_add(1, SeqCst);
        Bytes::from_owner(Self(vec![7; 16 << 20], alive.clone()))
    }
}

impl AsRef<[u8]> for Buffer {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        self.1.fetch_sub(1, SeqCst);
    }
}

const SLICE: usize = 64 << 10;

fn roomy(journal: &std::path::Path) -> Tidegate {
    Tidegate::builder().memory(16 << 20).journal([journal]).build().unwrap()
}

#[tokio::test]
async fn small_slices_of_large_buffers_keep_none_of_them() -> Result<()> {
    let folder = tempfile::tempdir().unwrap();
    let tide = roomy(folder.path());
    let store = tide.open("memory://slices").await?;
    for strategy in [Strategy::Auto, Strategy::Chunked, Strategy::Journal] {
        let alive = Arc::<AtomicUsize>::default();
        let mut writer = store.writer("k").strategy(strategy).start().await?;
        for _ in 0..100 {
            writer.write_bytes(Buffer::counted(&alive).slice(SLICE..2 * SLICE)).await?;
            assert_eq!(alive.load(SeqCst), 0, "{strategy:?}");
        }
        for _ in 0..20 {
            writer.send(Buffer::counted(&alive).slice(..SLICE)).await?;
            assert_eq!(alive.load(SeqCst), 0, "{strategy:?}");
        }
        assert_eq!(writer.finish().await?.size, 120 * SLICE as u64);
        store.delete("k").await?;
    }
    assert!(tide.usage().peak <= 16 << 20);
    Ok(())
}

#[tokio::test]
async fn large_pieces_are_shared_and_smaller_ones_where_their_producer_says_so() -> Result<()> {
    let folder = tempfile::tempdir().unwrap();
    let tide = roomy(folder.path());
    let store = tide.open("memory://shared").await?;
    let alive = Arc::<AtomicUsize>::default();
    for (size, knows, is_shared) in
        [(1 << 20, false, true), ((1 << 20) - 1, false, false), (SLICE, true, true), (SLICE - 1, true, false)]
    {
        let mut writer = store.writer("k").start().await?;
        let slice = Buffer::counted(&alive).slice(..size);
        if knows {
            writer.write_shared(slice).await?
        } else {
            writer.write_bytes(slice).await?
        }
        assert_eq!(alive.load(SeqCst), usize::from(is_shared), "{size} {knows}");
        assert_eq!(writer.finish().await?.size, size as u64);
        assert_eq!(alive.load(SeqCst), 0, "it was sent");
    }
    // A piece that ends inside a slab or a part is shared up to its end.
    let (size, mut writer) = ((1 << 20) + 5, store.writer("k").part_size(5 << 20).start().await?);
    for _ in 0..20 {
        writer.write_bytes(Buffer::counted(&alive).slice(7..7 + size)).await?;
    }
    assert_eq!(writer.finish().await?.size, 20 * size as u64);
    assert_eq!(alive.load(SeqCst), 0);
    Ok(())
}
