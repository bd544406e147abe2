use futures::TryStreamExt;
use proptest::prelude::*;

use super::*;
use crate::types::checksum::Algorithm;

const ALGORITHM: Algorithm = Algorithm::Crc64Nvme;

fn payload(bytes: &[u8]) -> Payload {
    let pieces = bytes.chunks(7).map(Bytes::copy_from_slice).collect();
    Payload::from_memory(pieces, Checksum::of(ALGORITHM, bytes))
}

fn small_parts() -> Memory {
    Memory::new("m").with_capabilities(Capabilities { min_part: 4, max_parts: 10, ..Capabilities::default() })
}

fn options() -> WriteOptions {
    WriteOptions::default()
}

fn create_only() -> WriteOptions {
    WriteOptions { create_only: true, ..WriteOptions::default() }
}

async fn read(store: &Memory, key: &str, range: Option<Range<u64>>) -> Result<Vec<u8>, Fault> {
    let body = store.get(key, range, None, Attempt::FIRST).await?;
    let pieces: Vec<Bytes> = body.stream.try_collect().await?;
    assert_eq!(body.range.end - body.range.start, pieces.iter().map(|piece| piece.len() as u64).sum::<u64>());
    Ok(pieces.concat())
}

async fn keys(store: &Memory, prefix: &str, recursive: bool) -> Vec<String> {
    let entries: Vec<Entry> = store.list(prefix, recursive).try_collect().await.expect("a listing");
    let name = |entry| match entry {
        Entry::Object(object) => object.key,
        Entry::Prefix(prefix) => format!("{prefix}…"),
        Entry::Other { key, kind } => format!("{key}: {kind}"),
    };
    entries.into_iter().map(name).collect()
}

fn kind<T: std::fmt::Debug>(result: Result<T, Fault>) -> FaultKind {
    result.expect_err("a fault").kind
}

#[tokio::test]
async fn an_object_comes_back_as_it_was_put() {
    let store = Memory::new("m");
    assert_eq!(store.location(), "memory://m");
    let mut options = create_only();
    options.token = Some("t".into());
    options.attributes.content_type = Some("text/plain".into());
    let object = store.put("k", payload(b"some bytes"), &options, Attempt::FIRST).await.expect("put");
    assert_eq!((object.key.as_str(), object.size, object.version.clone()), ("k", 10, None));
    assert_eq!(object.matches(&Checksum::of(ALGORITHM, b"some bytes")), Some(true));
    assert_eq!(object.token.as_deref(), Some("t"));
    assert_eq!(object.attributes, options.attributes);

    let clone = store.clone();
    assert_eq!(clone.head("k", Attempt::FIRST).await.expect("head"), object);
    assert_eq!(read(&clone, "k", None).await.expect("get"), b"some bytes");
    assert_eq!(read(&clone, "k", Some(5..7)).await.expect("get"), b"by");
    assert_eq!(read(&clone, "k", Some(5..700)).await.expect("get"), b"bytes");
    assert_eq!(kind(read(&clone, "k", Some(10..11)).await), FaultKind::Invalid);
    assert_eq!(kind(store.put("k", payload(b"other"), &options, Attempt::FIRST).await), FaultKind::Exists);

    store.delete("k", None, Attempt::FIRST).await.expect("delete");
    store.delete("k", None, Attempt::FIRST).await.expect("delete again");
    assert_eq!(kind(clone.head("k", Attempt::FIRST).await), FaultKind::NotFound);
    assert_eq!(kind(read(&clone, "k", None).await), FaultKind::NotFound);
}

#[tokio::test]
async fn bytes_that_are_not_those_of_the_checksum_are_refused() {
    let store = Memory::new("m");
    let bent = Payload::from_memory(vec![Bytes::from_static(b"abd")], Checksum::of(ALGORITHM, b"abc"));
    assert_eq!(kind(store.put("k", bent, &options(), Attempt::FIRST).await), FaultKind::Integrity);
    assert_eq!(kind(store.head("k", Attempt::FIRST).await), FaultKind::NotFound);
}

#[tokio::test]
async fn parts_come_in_any_order_and_the_last_upload_of_a_number_counts() {
    let store = small_parts();
    let session = store.open("k", &options(), PartOrigin::Sent, Attempt::FIRST).await.expect("open");
    let second = store.part(&session, 2, 4, payload(b"B").into(), Attempt::FIRST).await.expect("part");
    let wrong = store.part(&session, 1, 0, payload(b"wrong").into(), Attempt::FIRST).await.expect("part");
    let first = store.part(&session, 1, 0, payload(b"AAAA").into(), Attempt::FIRST).await.expect("part");
    let whole = Checksum::of(ALGORITHM, b"AAAAB");
    let complete = async |parts: &[Receipt]| {
        store.complete(&session, parts, Some(&whole), &options(), Attempt::FIRST).await
    };

    assert_eq!(kind(complete(&[]).await), FaultKind::Invalid);
    assert_eq!(kind(complete(&[wrong, second.clone()]).await), FaultKind::PartMismatch);
    assert_eq!(kind(complete(&[second.clone(), first.clone()]).await), FaultKind::Invalid);
    assert_eq!(kind(complete(std::slice::from_ref(&first)).await), FaultKind::Integrity);
    assert_eq!(kind(store.head("k", Attempt::FIRST).await), FaultKind::NotFound);
    let object = complete(&[first.clone(), second.clone()]).await.expect("complete");
    assert_eq!((object.size, object.matches(&whole)), (5, Some(true)));
    assert_eq!(read(&store, "k", Some(3..5)).await.expect("get"), b"AB");

    assert_eq!(kind(complete(&[first, second]).await), FaultKind::NoSession);
    assert_eq!(kind(store.abort(&session, Attempt::FIRST).await), FaultKind::NoSession);
    assert_eq!(
        kind(store.part(&session, 1, 0, payload(b"AAAA").into(), Attempt::FIRST).await),
        FaultKind::NoSession
    );
}

#[tokio::test]
async fn limits_are_kept() {
    let store = small_parts();
    let session = store.open("k", &options(), PartOrigin::Sent, Attempt::FIRST).await.expect("open");
    assert_eq!(
        kind(store.part(&session, 0, 0, payload(b"A").into(), Attempt::FIRST).await),
        FaultKind::Invalid
    );
    assert_eq!(
        kind(store.part(&session, 11, 0, payload(b"A").into(), Attempt::FIRST).await),
        FaultKind::Invalid
    );
    let first = store.part(&session, 1, 0, payload(b"AAA").into(), Attempt::FIRST).await.expect("part");
    let second = store.part(&session, 2, 3, payload(b"B").into(), Attempt::FIRST).await.expect("part");
    let whole = Checksum::of(ALGORITHM, b"AAAB");
    let small = store
        .complete(&session, &[first, second], Some(&whole), &options(), Attempt::FIRST)
        .await
        .expect_err("a fault");
    assert_eq!(small.kind, FaultKind::Invalid);
    assert!(small.message.starts_with("EntityTooSmall"), "{small}");

    let equal = Memory::new("m").with_capabilities(Capabilities {
        min_part: 1,
        max_part: 3,
        max_put: 3,
        equal_parts: true,
        ..Capabilities::default()
    });
    assert_eq!(kind(equal.put("k", payload(b"AAAA"), &options(), Attempt::FIRST).await), FaultKind::TooLarge);
    let session = equal.open("k", &options(), PartOrigin::Sent, Attempt::FIRST).await.expect("open");
    assert_eq!(
        kind(equal.part(&session, 1, 0, payload(b"AAAA").into(), Attempt::FIRST).await),
        FaultKind::TooLarge
    );
    let first = equal.part(&session, 1, 0, payload(b"AA").into(), Attempt::FIRST).await.expect("part");
    let second = equal.part(&session, 2, 2, payload(b"BBB").into(), Attempt::FIRST).await.expect("part");
    let whole = Checksum::of(ALGORITHM, b"AABBB");
    assert_eq!(
        kind(equal.complete(&session, &[first, second], Some(&whole), &options(), Attempt::FIRST).await),
        FaultKind::Invalid
    );
}

#[tokio::test]
async fn create_only_is_decided_at_completion() {
    let store = small_parts();
    let session = store.open("k", &create_only(), PartOrigin::Sent, Attempt::FIRST).await.expect("open");
    let part = store.part(&session, 1, 0, payload(b"A").into(), Attempt::FIRST).await.expect("part");
    store.put("k", payload(b"first"), &create_only(), Attempt::FIRST).await.expect("put");
    let complete = store
        .complete(&session, &[part], Some(&Checksum::of(ALGORITHM, b"A")), &create_only(), Attempt::FIRST)
        .await;
    assert_eq!(kind(complete), FaultKind::Exists);
    assert_eq!(read(&store, "k", None).await.expect("get"), b"first");
    store.abort(&session, Attempt::FIRST).await.expect("the session is still there");
}

#[tokio::test]
async fn sessions_are_listed_below_a_prefix() {
    let store = Memory::new("m");
    for key in ["b/2", "a", "b/1"] {
        store.open(key, &options(), PartOrigin::Sent, Attempt::FIRST).await.expect("open");
    }
    let open: Vec<OpenSession> = store.sessions("b/").try_collect().await.expect("a listing");
    let keys: Vec<_> = open.iter().map(|open| open.session.key.as_str()).collect();
    assert_eq!(keys, ["b/1", "b/2"]);
    store.abort(&open[0].session, Attempt::FIRST).await.expect("abort");
    assert_eq!(store.sessions("").count().await, 2);
}

#[tokio::test]
async fn listings_are_in_key_order_and_stop_at_a_slash() {
    let store = Memory::new("m");
    for key in ["a/b", "a-b", "a", "a/c/d", "b"] {
        store.put(key, payload(b""), &options(), Attempt::FIRST).await.expect("put");
    }
    assert_eq!(keys(&store, "", true).await, ["a", "a-b", "a/b", "a/c/d", "b"]);
    assert_eq!(keys(&store, "", false).await, ["a", "a-b", "a/…", "b"]);
    assert_eq!(keys(&store, "a/", false).await, ["a/b", "a/c/…"]);
    assert_eq!(keys(&store, "a/c", false).await, ["a/c/…"]);
    assert_eq!(keys(&store, "c", true).await, [""; 0]);
}

proptest! {
    #[test]
    fn any_range_is_that_of_the_bytes(data in prop::collection::vec(any::<u8>(), 0..64), a in 0u64..70, b in 0u64..70) {
        let blocks: Vec<Bytes> = data.chunks(5).map(Bytes::copy_from_slice).collect();
        let size = data.len() as u64;
        match clamp(Some(a..b), size) {
            Ok(range) => {
                let bytes = &data[a as usize..b.min(size) as usize];
                prop_assert_eq!(cut(&blocks, &range).concat(), bytes);
            }
            Err(_) => prop_assert!(a > b || a >= size),
        }
    }
}

#[tokio::test]
async fn only_the_same_object_is_read() {
    crate::backend::samples::only_the_same_is_read_or_removed(&Memory::new("same"), Algorithm::Crc64Nvme)
        .await;
}
