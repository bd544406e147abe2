//! Writing objects in one request and in parts.

use super::*;

over_both! {
    put_from_memory_and_from_a_file,
    a_session_of_parts_becomes_an_object,
    an_aborted_session_is_gone,
    create_only_is_the_stores_own_condition,
    attributes_come_back,
    a_part_that_arrives_otherwise_is_not_taken,
    names_of_metadata_do_not_depend_on_how_an_object_is_sent,
}

async fn put_from_memory_and_from_a_file(over: GcsTransport) {
    let place = place(over).await;
    for len in [0, 1, 300_000, 3 * MIB + 7] {
        let data = bytes_of(len);
        let sum = crc32c(&data);
        let on_disk = OnDisk::new(&data).await;
        for (key, payload) in
            [("m//ü+%25?#&= /", in_memory(&data)), ("f", on_disk.payload_of(0..len, Algorithm::Crc32c))]
        {
            let object =
                place.store.put(key, payload, &WriteOptions::default(), Attempt::FIRST).await.unwrap();
            assert_eq!((object.size, object.key.as_str()), (len as u64, key));
            assert_eq!(object.matches(&sum), Some(true));
            assert!(object.version.is_some() && object.modified.is_some());
            assert_eq!(place.store.head(key, Attempt::FIRST).await.unwrap(), object);
            assert!(read_back(&place.store, key, None).await == data);
        }
    }
    assert_eq!(place.server.counts().get(put_of(over)), 8);
}

async fn a_session_of_parts_becomes_an_object(over: GcsTransport) {
    const KEY: &str = "a b//ü+%25?#&=/";
    let place = place(over).await;
    let store = &place.store;
    let data = bytes_of(5 * MIB + 1000);
    let on_disk = OnDisk::new(&data).await;
    let options = WriteOptions { token: Some("writer-1".into()), ..WriteOptions::default() };
    let session = Parts::open(store, KEY, &options, PartOrigin::Sent, Attempt::FIRST).await.unwrap();
    let open: Vec<OpenSession> = store.sessions(KEY).try_collect().await.unwrap();
    assert_eq!(open.iter().map(|open| &open.session).collect::<Vec<_>>(), [&session]);
    // Parts out of order, and part 1 sent twice.
    let second =
        store.part(&session, 2, 5 << 20, in_memory(&data[5 * MIB..]).into(), Attempt::FIRST).await.unwrap();
    let of_file = || on_disk.payload_of(0..5 * MIB, Algorithm::Crc32c);
    store.part(&session, 1, 0, of_file().into(), Attempt::FIRST).await.unwrap();
    let first = store.part(&session, 1, 0, of_file().into(), Attempt::FIRST).await.unwrap();
    assert_eq!(first.checksum, Some(crc32c(&data[..5 * MIB])));
    let stored = store.stored_parts(&session, Attempt::FIRST).await.unwrap();
    assert_eq!(stored.iter().map(|part| part.size).collect::<Vec<_>>(), [5 << 20, 1000]);
    assert_eq!(store.held(&session, Attempt::FIRST).await.unwrap().bytes, data.len() as u64);
    let whole = crc32c(&data);
    assert_eq!(kind(store.head(KEY, Attempt::FIRST)).await.0, FaultKind::NotFound);

    let object =
        store.complete(&session, &[first, second], Some(&whole), &options, Attempt::FIRST).await.unwrap();
    assert_eq!((object.size, object.matches(&whole)), (data.len() as u64, Some(true)));
    let head = store.head(KEY, Attempt::FIRST).await.unwrap();
    assert_eq!((head.size, &head.version, head.matches(&whole)), (object.size, &object.version, Some(true)));
    assert_eq!(head.token.as_deref(), Some("writer-1"));
    assert!(head.attributes.metadata.is_empty());
    assert!(read_back(store, KEY, None).await == data);
    assert_eq!(store.sessions("").try_collect::<Vec<_>>().await.unwrap(), []);
    let (gone, said) = kind(store.part(&session, 3, 0, in_memory(b"late").into(), Attempt::FIRST)).await;
    assert_eq!(gone, FaultKind::NoSession, "{said}");
}

async fn an_aborted_session_is_gone(over: GcsTransport) {
    let place = place(over).await;
    let session = Parts::open(&place.store, "k", &WriteOptions::default(), PartOrigin::Sent, Attempt::FIRST)
        .await
        .unwrap();
    place.store.part(&session, 1, 0, in_memory(b"x").into(), Attempt::FIRST).await.unwrap();
    any(&place.store).abort(&session, Attempt::FIRST).await.unwrap();
    assert_eq!(
        kind(place.store.part(&session, 2, 0, in_memory(b"x").into(), Attempt::FIRST)).await.0,
        FaultKind::NoSession
    );
    assert_eq!(kind(any(&place.store).abort(&session, Attempt::FIRST)).await.0, FaultKind::NoSession);
    assert_eq!(kind(place.store.head("k", Attempt::FIRST)).await.0, FaultKind::NotFound);
}

async fn create_only_is_the_stores_own_condition(over: GcsTransport) {
    let place = place(over).await;
    let store = &place.store;
    let only = WriteOptions { create_only: true, ..WriteOptions::default() };
    store.put("k", in_memory(b"1"), &only, Attempt::FIRST).await.unwrap();
    let (refused, said) = kind(store.put("k", in_memory(b"2"), &only, Attempt::FIRST)).await;
    assert_eq!(refused, FaultKind::Exists, "{said}");
    assert_eq!(read_back(store, "k", None).await, b"1");
    // A session of parts supports no conditions: it would replace the existing object.
    let session = Parts::open(store, "k", &only, PartOrigin::Sent, Attempt::FIRST).await.unwrap();
    let part = store.part(&session, 1, 0, in_memory(b"part").into(), Attempt::FIRST).await.unwrap();
    let whole = part.checksum;
    let (refused, said) =
        kind(store.complete(&session, &[part], whole.as_ref(), &only, Attempt::FIRST)).await;
    assert_eq!(refused, FaultKind::Unsupported, "{said}");
    assert_eq!(read_back(store, "k", None).await, b"1");
}

async fn attributes_come_back(over: GcsTransport) {
    let place = place(over).await;
    let mut options = WriteOptions { token: Some("t".into()), ..WriteOptions::default() };
    let attributes = &mut options.attributes;
    attributes.content_type = Some("application/x-thing; v=1".into());
    attributes.cache_control = Some("max-age=60".into());
    attributes.content_encoding = Some("gzip".into());
    attributes.content_disposition = Some("attachment; filename=\"a b.txt\"".into());
    attributes.content_language = Some("de, en".into());
    attributes.metadata = [("owner".into(), "me and  you".into()), ("n-2".into(), "1".into())].into();
    attributes.storage_class = Some("NEARLINE".into());
    let data = bytes_of(100_000);
    for key in ["put", "parts"] {
        if key == "put" {
            place.store.put(key, in_memory(&data), &options, Attempt::FIRST).await.unwrap();
        } else {
            let session =
                Parts::open(&place.store, key, &options, PartOrigin::Sent, Attempt::FIRST).await.unwrap();
            let part =
                place.store.part(&session, 1, 0, in_memory(&data).into(), Attempt::FIRST).await.unwrap();
            let whole = part.checksum;
            place.store.complete(&session, &[part], whole.as_ref(), &options, Attempt::FIRST).await.unwrap();
        }
        let head = place.store.head(key, Attempt::FIRST).await.unwrap();
        assert_eq!(head.attributes, options.attributes, "{key}");
        assert_eq!(head.token.as_deref(), Some("t"));
        let body = place.store.get(key, None, None, Attempt::FIRST).await.unwrap();
        assert_eq!(body.object.attributes.content_type, options.attributes.content_type);
        assert_eq!((body.object.size, &body.object.etag), (head.size, &head.etag));
    }
    // An object without attributes has the same ones however it is sent.
    let unsaid = WriteOptions::default();
    place.store.put("put", in_memory(&data), &unsaid, Attempt::FIRST).await.unwrap();
    let session =
        Parts::open(&place.store, "parts", &unsaid, PartOrigin::Sent, Attempt::FIRST).await.unwrap();
    let part = place.store.part(&session, 1, 0, in_memory(&data).into(), Attempt::FIRST).await.unwrap();
    let whole = part.checksum;
    place.store.complete(&session, &[part], whole.as_ref(), &unsaid, Attempt::FIRST).await.unwrap();
    let session = Append::open(&place.store, "appended", &unsaid, Attempt::FIRST).await.unwrap();
    place.store.append(&session, 0, in_memory(&data), whole.as_ref(), Attempt::FIRST).await.unwrap();
    for key in ["put", "parts", "appended"] {
        let head = place.store.head(key, Attempt::FIRST).await.unwrap();
        assert_eq!(head.attributes.content_type.as_deref(), Some("application/octet-stream"), "{key}");
    }
    options.attributes.tags = [("team".into(), "a".into())].into();
    assert_eq!(place.store.check("k", Some(&options)).unwrap_err().kind, FaultKind::Unsupported);
}

async fn a_part_that_arrives_otherwise_is_not_taken(over: GcsTransport) {
    let place = place(over).await;
    let session = Parts::open(&place.store, "k", &WriteOptions::default(), PartOrigin::Sent, Attempt::FIRST)
        .await
        .unwrap();
    // The checksum is that of other bytes: the store verifies it before it keeps the part.
    let payload = Payload::from_memory(vec![Bytes::from_static(b"bytes")], crc32c(b"other"));
    let (refused, said) =
        kind(place.store.part(&session, 1, 0, payload.clone().into(), Attempt::FIRST)).await;
    assert_eq!(refused, FaultKind::Integrity, "{said}");
    let (refused, said) = kind(place.store.put("k", payload, &WriteOptions::default(), Attempt::FIRST)).await;
    assert_eq!(refused, FaultKind::Integrity, "{said}");
    assert_eq!(kind(place.store.head("k", Attempt::FIRST)).await.0, FaultKind::NotFound);
}

async fn names_of_metadata_do_not_depend_on_how_an_object_is_sent(over: GcsTransport) {
    let place = place(over).await;
    let mut options = WriteOptions::default();
    options.attributes.metadata = [("Owner".into(), "Me".into())].into();
    place.store.put("put", in_memory(b"1"), &options, Attempt::FIRST).await.unwrap();
    let session =
        Parts::open(&place.store, "parts", &options, PartOrigin::Sent, Attempt::FIRST).await.unwrap();
    let part = place.store.part(&session, 1, 0, in_memory(b"1").into(), Attempt::FIRST).await.unwrap();
    let whole = part.checksum;
    place.store.complete(&session, &[part], whole.as_ref(), &options, Attempt::FIRST).await.unwrap();
    let session = Append::open(&place.store, "chunks", &options, Attempt::FIRST).await.unwrap();
    place.store.append(&session, 0, in_memory(b"1"), whole.as_ref(), Attempt::FIRST).await.unwrap();
    for key in ["put", "parts", "chunks"] {
        let head = place.store.head(key, Attempt::FIRST).await.unwrap();
        assert_eq!(head.attributes.metadata, [("owner".into(), "Me".into())].into(), "{key}");
    }
}
