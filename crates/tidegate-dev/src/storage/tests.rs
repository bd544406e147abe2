use futures::TryStreamExt;

use super::*;
use crate::folder::Folder;

async fn piece(vault: &Vault, chunks: &[&'static [u8]]) -> StoredPiece {
    let mut writer = vault.writer();
    for chunk in chunks {
        writer.push(Bytes::from_static(chunk)).await.unwrap();
    }
    writer.finish().await.unwrap()
}

async fn text(pieces: &[StoredPiece], range: Range<u64>) -> String {
    let chunks: Vec<Bytes> = read(pieces, range).try_collect().await.unwrap();
    String::from_utf8(chunks.concat()).unwrap()
}

async fn check(vault: &Vault) {
    let pieces =
        [piece(vault, &[b"abc", b"def"]).await, piece(vault, &[]).await, piece(vault, &[b"ghi"]).await];
    let lengths: Vec<u64> = pieces.iter().map(StoredPiece::length).collect();
    assert_eq!(lengths, [6, 0, 3]);
    let whole = "abcdefghi";
    for start in 0..=whole.len() {
        for end in start..=whole.len() {
            let expected = &whole[start..end];
            assert_eq!(text(&pieces, start as u64..end as u64).await, expected);
        }
    }
}

#[tokio::test]
async fn memory_gives_back_any_range() {
    check(&Vault::Memory).await;
}

#[tokio::test]
async fn large_bodies_are_not_copied() {
    let chunk = Bytes::from(vec![1; 100_000]);
    let mut writer = Vault::Memory.writer();
    writer.push(chunk.clone()).await.unwrap();
    let pieces = [writer.finish().await.unwrap()];
    let read: Vec<Bytes> = read(&pieces, 10..20).try_collect().await.unwrap();
    assert_eq!(read[0].as_ptr(), chunk[10..].as_ptr());
}

#[tokio::test]
async fn disk_gives_back_any_range_and_keeps_only_what_is_kept() {
    let dir = tempfile::tempdir().unwrap();
    let files = || std::fs::read_dir(dir.path()).unwrap().count();
    let vault = Vault::Disk(Arc::new(DataDir::new(Arc::new(Folder::root(dir.path()).unwrap()), 0)));
    check(&vault).await;
    assert_eq!(files(), 0, "what was not kept is gone");

    let mut half = vault.writer();
    half.push(Bytes::from(vec![1; 3_000_000])).await.unwrap();
    assert_eq!(files(), 1);
    drop(half);
    assert_eq!(files(), 0, "half a body is gone");

    let kept = piece(&vault, &[b"kept"]).await;
    kept.keep();
    drop(kept.clone());
    assert_eq!(files(), 1);
    let reader = read(std::slice::from_ref(&kept), 0..4);
    kept.release();
    drop(kept);
    let chunks: Vec<Bytes> = reader.try_collect().await.unwrap();
    assert_eq!(chunks.concat(), b"kept", "a reader may finish");
    assert_eq!(files(), 0);
}

#[tokio::test]
async fn discarded_bytes_are_zeros() {
    let pieces = [piece(&Vault::Discard, &[b"abc"]).await];
    assert_eq!(text(&pieces, 1..3).await, "\0\0");
    let pieces = [StoredPiece::Void(1_000_000)];
    assert_eq!(text(&pieces, 0..1_000_000).await.len(), 1_000_000);
}
