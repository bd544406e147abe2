//! Objects that are written in one request, read, described and removed.

use bytes::Bytes;

use super::*;

/// Checks that the answer to a write and a later description are of one object.
fn assert_one_object(written: &Object, told: &Object) {
    assert_eq!((&written.key, written.size), (&told.key, told.size));
    assert!(written.is_same(told), "{written:?} {told:?}");
    for (ours, theirs) in [(&written.etag, &told.etag), (&written.version, &told.version)] {
        assert!(ours.is_none() || ours == theirs, "{written:?} {told:?}");
    }
    assert!(written.modified.is_none() || written.modified == told.modified, "{written:?} {told:?}");
}

pub(super) async fn an_object_comes_back_as_it_was_put(store: &TestStore) {
    for len in [0, 1, 300_000, 3 * MIB + 7] {
        let data = bytes_of(len);
        let sum = store.sum(&data);
        let file = OnDisk::new(&data).await;
        for (key, payload) in
            [("memory", store.payload(&data)), ("a/b/file", store.payload_of(&file, 0..len))]
        {
            // The second time, the checksum of the file's bytes is known before they are sent.
            for _ in 0..2 {
                let options = WriteOptions::default();
                let object = store.put_with(key, payload.clone(), &options).await.unwrap();
                assert_eq!((object.size, &object.key), (len as u64, &store.key(key)));
                assert_ne!(object.matches(&sum), Some(false));
                let head = store.head(key).await.unwrap();
                assert_one_object(&object, &head);
                // A file holds only bytes: no attributes, and no checksum.
                assert_eq!(head.matches(&sum), store.capabilities().tokens.then_some(true));
                assert_eq!(head.attributes.content_encoding, None, "framing is no attribute");
                assert!(head.modified.is_some());
                assert!(store.read(key).await == data);
            }
        }
    }
}

pub(super) async fn a_range_is_cut_to_the_object(store: &TestStore) {
    const END: u64 = 300_000;
    let data = bytes_of(END as usize);
    store.put("k", &data).await;
    for (asked, got) in [
        (0..1, 0..1),
        (7..70_000, 7..70_000),
        (0..END, 0..END),
        (290_000..400_000, 290_000..END),
        (END - 1..u64::MAX, END - 1..END),
        (0..u64::MAX, 0..END),
        (5..5, 5..5),
        (END..END, END..END),
    ] {
        let body = store.get("k", Some(asked.clone()), None).await.unwrap();
        assert_eq!((&body.range, body.object.size), (&got, END), "{asked:?}");
        assert!(collect(body).await == data[got.start as usize..got.end as usize], "{asked:?}");
    }
    for past in [END..END + 1, END..u64::MAX, END + 1..END + 1, END + 1..u64::MAX] {
        assert_eq!(kind(store.get("k", Some(past.clone()), None)).await.0, FaultKind::Invalid, "{past:?}");
    }
    store.put("empty", b"").await;
    for range in [None, Some(0..0)] {
        let body = store.get("empty", range, None).await.unwrap();
        assert_eq!((body.range.clone(), body.object.size, collect(body).await), (0..0, 0, Vec::new()));
    }
    assert_eq!(kind(store.get("empty", Some(1..2), None)).await.0, FaultKind::Invalid);
}

pub(super) async fn what_is_removed_is_gone(store: &TestStore) {
    store.put("a/k", b"bytes").await;
    store.put("a/stays", b"").await;
    for gone in ["a/k", "a/k", "never/was"] {
        store.delete(gone, None).await.unwrap();
        assert_eq!(kind(store.head(gone)).await.0, FaultKind::NotFound);
        assert_eq!(kind(store.get(gone, None, None)).await.0, FaultKind::NotFound);
        assert_eq!(kind(store.get(gone, Some(0..0), None)).await.0, FaultKind::NotFound);
    }
    assert_eq!(store.keys("", true).await, ["a/stays"]);
}

pub(super) async fn many_are_removed_in_one_request(store: &TestStore) {
    let Some(bulk) = store.bulk_delete() else {
        println!("skipped: the store removes one object a request");
        return;
    };
    let keys = ["a", "a/b", "<&>\"'", "100%/%2F", "naïve/😀", "tab\tend", " edge", "stays"];
    for key in keys {
        store.put(key, b"1").await;
    }
    let named = ["a", "a/b", "<&>\"'", "100%/%2F", "naïve/😀", "missing", "a"].map(|key| store.key(key));
    assert!(named.iter().all(|key| bulk.takes(key)));
    // An XML document might name another key instead of one of these.
    assert!(!bulk.takes(&store.key("tab\tend")) && !bulk.takes(" edge"));
    let outcomes = bulk.delete_many(&named, Attempt::FIRST).await.unwrap();
    assert_eq!(outcomes.iter().map(|outcome| outcome.is_ok()).collect::<Vec<_>>(), [true; 7]);
    assert_eq!(store.keys("", true).await, [" edge", "stays", "tab\tend"]);
}

pub(super) async fn bytes_that_are_not_those_of_the_checksum_are_refused(store: &TestStore) {
    store.put("there", b"old").await;
    let bent = || Payload::from_memory(vec![Bytes::from_static(b"bent")], store.sum(b"told"));
    for key in ["new", "there"] {
        let (refused, said) = kind(store.put_with(key, bent(), &WriteOptions::default())).await;
        assert_eq!(refused, FaultKind::Integrity, "{said}");
    }
    assert_eq!(kind(store.head("new")).await.0, FaultKind::NotFound);
    assert_eq!(store.read("there").await, b"old");
    let options = WriteOptions::default();
    let Some(session) = store.session("new", &options).await else { return };
    let (refused, said) = kind(session.part(1, 0, bent().into())).await;
    assert_eq!(refused, FaultKind::Integrity, "{said}");
    let part = session.send(1, 0, b"told").await.unwrap();
    session.complete(&[part], &store.sum(b"told"), &options).await.unwrap();
    assert_eq!(store.read("new").await, b"told");
}

pub(super) async fn a_missing_bucket_is_told_from_a_missing_object(store: &TestStore) {
    assert_eq!(kind(store.head("k")).await.0, FaultKind::NotFound);
    if let Some(check) = store.bucket_check() {
        assert!(!check.is_bucket_missing(Attempt::FIRST).await.unwrap());
    }
    let Some(missing) = &store.missing else {
        return println!("skipped: the store makes every bucket that is named");
    };
    match missing.bucket_check() {
        // The answer to `head` does not tell.
        Some(check) => {
            assert_eq!(kind(missing.head("k", Attempt::FIRST)).await.0, FaultKind::NotFound);
            assert!(check.is_bucket_missing(Attempt::FIRST).await.unwrap());
        }
        None => assert_eq!(kind(missing.head("k", Attempt::FIRST)).await.0, FaultKind::NoBucket),
    }
    assert_eq!(kind(missing.get("k", None, None, Attempt::FIRST)).await.0, FaultKind::NoBucket);
    assert_eq!(kind(missing.delete("k", None, Attempt::FIRST)).await.0, FaultKind::NoBucket);
    assert_eq!(kind(missing.list("", true).try_collect::<Vec<_>>()).await.0, FaultKind::NoBucket);
    // A directory is made by the first object that is written below it.
    let options = WriteOptions::default();
    match missing.put("k", store.payload(b"bytes"), &options, Attempt::FIRST).await {
        Ok(_) => assert_eq!(missing.head("k", Attempt::FIRST).await.unwrap().size, 5),
        Err(fault) => {
            assert_eq!(fault.kind, FaultKind::NoBucket);
            let Some(parts) = missing.parts() else { return };
            let opened = parts.open("k", &options, PartOrigin::Sent, Attempt::FIRST);
            assert_eq!(kind(opened).await.0, FaultKind::NoBucket);
        }
    }
}
