//! Sessions that bytes are appended to.

use bytes::Bytes;

use super::*;
use crate::memory::payload::Unending;

pub(super) async fn bytes_are_appended_until_the_last_ones_publish_them(store: &TestStore) {
    let grain = store.capabilities().append;
    match store.need_append() {
        Ok(append) => {
            appended_bytes_become_an_object(store, append, grain.unwrap() as usize).await;
            a_session_that_is_finished_or_aborted_takes_no_more(store, append).await;
            a_stream_that_its_source_leaves_publishes_nothing(store, append).await;
        }
        Err(fault) => assert_eq!((fault.kind, grain), (FaultKind::Unsupported, None)),
    }
}

async fn appended_bytes_become_an_object(store: &TestStore, append: &dyn Append, grain: usize) {
    let all = bytes_of(12 * grain + 77);
    let file = OnDisk::new(&all).await;
    let options = WriteOptions { create_only: true, ..with_token("w") };
    // With and without bytes in the last append.
    for len in [all.len(), 12 * grain] {
        let (key, data) = (format!("{len}"), &all[..len]);
        let session = append.open(&store.key(&key), &options, Attempt::FIRST).await.unwrap();
        assert!(append.has(&session));
        let position = async || append.position(&session, Attempt::FIRST).await.unwrap();
        assert_eq!(position().await, Appended::Open(0));
        let send = async |from: usize, payload: Payload, whole: Option<&Checksum>| {
            append.append(&session, from as u64, payload, whole, Attempt::FIRST).await
        };
        let (first, second) = (4 * grain, 12 * grain);
        assert_eq!(send(0, store.payload(&data[..first]), None).await.unwrap(), Appended::Open(first as u64));
        // More bytes than fit into one message of gRPC.
        let appended = send(first, store.payload_of(&file, first..second), None).await.unwrap();
        assert_eq!(appended, Appended::Open(second as u64));
        assert_eq!(position().await, Appended::Open(second as u64));
        if let Some(admin) = store.admin() {
            assert_eq!(admin.held(&session, Attempt::FIRST).await.unwrap().bytes, second as u64);
        }
        assert_eq!(kind(store.head(&key)).await.0, FaultKind::NotFound);
        let whole = store.sum(data);
        let done = send(second, store.payload_of(&file, second..len), Some(&whole)).await.unwrap();
        let Appended::Published(object) = done else { panic!("open: {done:?}") };
        assert_eq!((object.size, object.token.as_deref()), (len as u64, Some("w")));
        assert_eq!(object.matches(&whole), Some(true));
        assert!(store.read(&key).await == data);
        assert_eq!(position().await, Appended::Published(object));
    }
    // Another object came first.
    let session = append.open(&store.key("raced"), &options, Attempt::FIRST).await.unwrap();
    store.put("raced", b"first").await;
    let sum = store.sum(b"late");
    let late = append.append(&session, 0, store.payload(b"late"), Some(&sum), Attempt::FIRST);
    assert_eq!(kind(late).await.0, FaultKind::Exists);
    assert_eq!(store.read("raced").await, b"first");
}

async fn a_session_that_is_finished_or_aborted_takes_no_more(store: &TestStore, append: &dyn Append) {
    let (key, options) = (store.key("k"), WriteOptions::default());
    let session = append.open(&key, &options, Attempt::FIRST).await.unwrap();
    let wrong = store.sum(b"2");
    let (refused, said) =
        kind(append.append(&session, 0, store.payload(b"1"), Some(&wrong), Attempt::FIRST)).await;
    assert_eq!(refused, FaultKind::Integrity, "{said}");
    assert_eq!(kind(store.head("k")).await.0, FaultKind::NotFound);

    let session = append.open(&key, &options, Attempt::FIRST).await.unwrap();
    append.append(&session, 0, store.payload(b"1"), Some(&store.sum(b"1")), Attempt::FIRST).await.unwrap();
    assert_eq!(kind(store.abort(&session)).await.0, FaultKind::NoSession);

    let session = append.open(&key, &options, Attempt::FIRST).await.unwrap();
    store.abort(&session).await.unwrap();
    let late = append.append(&session, 0, store.payload(b"2"), None, Attempt::FIRST);
    assert_eq!(kind(late).await.0, FaultKind::NoSession);
    assert_eq!(kind(append.position(&session, Attempt::FIRST)).await.0, FaultKind::NoSession);
    assert_eq!(kind(store.abort(&session)).await.0, FaultKind::NoSession);
    assert_eq!(store.read("k").await, b"1");
}

async fn a_stream_that_its_source_leaves_publishes_nothing(store: &TestStore, append: &dyn Append) {
    let session = append.open(&store.key("left"), &WriteOptions::default(), Attempt::FIRST).await.unwrap();
    let (giver, bytes) = Unending::new();
    giver.give(Bytes::from_static(b"some")).await.unwrap();
    drop(giver);
    let broken = append.stream(&session, 0, bytes, Attempt::FIRST).await.unwrap_err();
    assert!(broken.kind.is_retriable(), "{broken}");
    assert_eq!(kind(store.head("left")).await.0, FaultKind::NotFound);
    assert_eq!(append.position(&session, Attempt::FIRST).await.unwrap(), Appended::Open(0));
    store.abort(&session).await.unwrap();
}
