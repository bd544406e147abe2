//! Writing objects in every way.

use super::*;

#[tokio::test]
async fn put_from_memory_and_from_a_file() {
    let place = place().await;
    for len in [0, 1, 300_000, 3 * MIB + 7] {
        let data = bytes_of(len);
        let sum = Checksum::of(Algorithm::Crc64Nvme, &data);
        let on_disk = OnDisk::new(&data).await;
        for (key, payload) in [("m", in_memory(&data)), ("f", on_disk.payload(0..len))] {
            let object = place
                .store
                .put(key, payload.clone(), &WriteOptions::default(), Attempt::FIRST)
                .await
                .unwrap();
            assert_eq!((object.size, object.key.as_str()), (len as u64, key));
            assert!(object.etag.is_some());
            assert_ne!(object.matches(&sum), Some(false));
            let head = place.store.head(key, Attempt::FIRST).await.unwrap();
            assert_eq!((head.size, &head.etag, head.matches(&sum)), (len as u64, &object.etag, Some(true)));
            assert_eq!(head.attributes.content_encoding, None, "the framing is not the object's encoding");
            assert!(read_back(&place.store, key, None).await == data);
            // Once more: the checksum is known by now, so it is sent in a header instead of a trailer.
            place.store.put(key, payload, &WriteOptions::default(), Attempt::FIRST).await.unwrap();
        }
    }
}

#[tokio::test]
async fn other_ways_to_guard_the_bytes() {
    let data = bytes_of(2 * MIB + 1);
    let on_disk = OnDisk::new(&data).await;
    for (checksum, trailers, sha256) in [
        (Algorithm::Crc32c, true, false),
        (Algorithm::Crc32c, false, true),
        (Algorithm::Crc64Nvme, false, false),
        (Algorithm::Crc64Nvme, true, true),
    ] {
        let place = place_with(|settings| {
            settings.with_checksum(checksum).with_trailers(trailers).with_payload_sha256(sha256)
        })
        .await;
        let sum = Checksum::of(checksum, &data);
        for payload in [memory_of(&data, checksum), on_disk.payload_of(0..data.len(), checksum)] {
            place.store.put("k", payload, &WriteOptions::default(), Attempt::FIRST).await.unwrap();
            assert_eq!(place.store.head("k", Attempt::FIRST).await.unwrap().matches(&sum), Some(true));
        }
        let session = place
            .store
            .open("parts", &WriteOptions::default(), PartOrigin::Sent, Attempt::FIRST)
            .await
            .unwrap();
        let part = place
            .store
            .part(&session, 1, 0, on_disk.payload_of(0..data.len(), checksum).into(), Attempt::FIRST)
            .await
            .unwrap();
        let object = place
            .store
            .complete(&session, &[part], Some(&sum), &WriteOptions::default(), Attempt::FIRST)
            .await
            .unwrap();
        assert_eq!(object.matches(&sum), Some(true));
    }
}

#[tokio::test]
async fn a_session_becomes_an_object() {
    let place = place().await;
    let store = &place.store;
    let data = bytes_of(5 * MIB + 1000);
    let on_disk = OnDisk::new(&data).await;
    let options = WriteOptions { token: Some("writer-1".into()), ..WriteOptions::default() };
    let session = store.open("a/b", &options, PartOrigin::Sent, Attempt::FIRST).await.unwrap();
    let open: Vec<OpenSession> = store.sessions("a/b").try_collect().await.unwrap();
    assert_eq!(open.iter().map(|open| &open.session).collect::<Vec<_>>(), [&session]);
    assert!(open[0].started.is_some());
    // Parts out of order, and part 1 sent twice.
    let second =
        store.part(&session, 2, 5 << 20, in_memory(&data[5 * MIB..]).into(), Attempt::FIRST).await.unwrap();
    store.part(&session, 1, 0, on_disk.payload(0..5 * MIB).into(), Attempt::FIRST).await.unwrap();
    let first = store.part(&session, 1, 0, on_disk.payload(0..5 * MIB).into(), Attempt::FIRST).await.unwrap();
    assert_eq!(first.checksum, Some(Checksum::of(Algorithm::Crc64Nvme, &data[..5 * MIB])));
    let whole = Checksum::of(Algorithm::Crc64Nvme, &data);
    let parts = [first, second];

    let wrong = Checksum::of(Algorithm::Crc64Nvme, &data[1..]);
    let (refused, said) =
        kind(store.complete(&session, &parts, Some(&wrong), &options, Attempt::FIRST)).await;
    assert!(matches!(refused, FaultKind::Integrity | FaultKind::Invalid), "{said}");
    assert_eq!(kind(store.head("a/b", Attempt::FIRST)).await.0, FaultKind::NotFound);

    let object = store.complete(&session, &parts, Some(&whole), &options, Attempt::FIRST).await.unwrap();
    assert_eq!((object.size, object.matches(&whole)), (data.len() as u64, Some(true)));
    let head = store.head("a/b", Attempt::FIRST).await.unwrap();
    assert_eq!((head.size, &head.etag, head.matches(&whole)), (object.size, &object.etag, Some(true)));
    assert_eq!(head.token.as_deref(), Some("writer-1"));
    assert!(head.attributes.metadata.is_empty());
    assert!(read_back(store, "a/b", None).await == data);
    assert_eq!(store.sessions("").try_collect::<Vec<_>>().await.unwrap(), []);
    let (gone, said) = kind(store.part(&session, 3, 0, in_memory(b"late").into(), Attempt::FIRST)).await;
    assert_eq!(gone, FaultKind::NoSession, "{said}");
}

#[tokio::test]
async fn an_aborted_session_is_gone() {
    let place = place().await;
    let session =
        place.store.open("k", &WriteOptions::default(), PartOrigin::Sent, Attempt::FIRST).await.unwrap();
    place.store.part(&session, 1, 0, in_memory(b"x").into(), Attempt::FIRST).await.unwrap();
    place.store.abort(&session, Attempt::FIRST).await.unwrap();
    assert_eq!(
        kind(place.store.part(&session, 2, 0, in_memory(b"x").into(), Attempt::FIRST)).await.0,
        FaultKind::NoSession
    );
    assert_eq!(kind(place.store.head("k", Attempt::FIRST)).await.0, FaultKind::NotFound);
    if place.server.is_some() {
        // MinIO answers the second abort as if the session still existed.
        assert_eq!(kind(place.store.abort(&session, Attempt::FIRST)).await.0, FaultKind::NoSession);
    }
}

#[tokio::test]
async fn create_only_is_the_stores_own_condition() {
    let place = place().await;
    let store = &place.store;
    let only = WriteOptions { create_only: true, ..WriteOptions::default() };
    let data = bytes_of(6 * MIB);
    let on_disk = OnDisk::new(&data).await;
    store.put("put", in_memory(b"1"), &only, Attempt::FIRST).await.unwrap();
    let (refused, said) = kind(store.put("put", in_memory(b"2"), &only, Attempt::FIRST)).await;
    assert_eq!(refused, FaultKind::Exists, "{said}");
    // Rejected while the body is in flight, ten times.
    for _ in 0..10 {
        let (refused, said) =
            kind(store.put("put", on_disk.payload(0..data.len()), &only, Attempt::FIRST)).await;
        assert_eq!(refused, FaultKind::Exists, "{said}");
    }
    assert_eq!(read_back(store, "put", None).await, b"1");

    for expected in [None, Some(FaultKind::Exists)] {
        let session = store.open("parts", &only, PartOrigin::Sent, Attempt::FIRST).await.unwrap();
        let part = store.part(&session, 1, 0, in_memory(b"part").into(), Attempt::FIRST).await.unwrap();
        let whole = part.checksum;
        let answer = store.complete(&session, &[part], whole.as_ref(), &only, Attempt::FIRST).await;
        assert_eq!(answer.err().map(|fault| fault.kind), expected);
        if expected.is_some() {
            store.abort(&session, Attempt::FIRST).await.unwrap();
        }
    }
}

#[tokio::test]
async fn attributes_come_back() {
    let place = place().await;
    let mut options = WriteOptions { token: Some("t".into()), ..WriteOptions::default() };
    let attributes = &mut options.attributes;
    attributes.content_type = Some("application/x-thing; v=1".into());
    attributes.cache_control = Some("max-age=60".into());
    attributes.content_encoding = Some("gzip".into());
    attributes.content_disposition = Some("attachment; filename=\"a b.txt\"".into());
    attributes.metadata = [("owner".into(), "me and  you".into()), ("n-2".into(), "1".into())].into();
    let data = bytes_of(100_000);
    let on_disk = OnDisk::new(&data).await;
    for key in ["memory", "file", "parts"] {
        match key {
            "memory" => drop(place.store.put(key, in_memory(&data), &options, Attempt::FIRST).await.unwrap()),
            "file" => drop(
                place.store.put(key, on_disk.payload(0..data.len()), &options, Attempt::FIRST).await.unwrap(),
            ),
            _ => {
                let session =
                    place.store.open(key, &options, PartOrigin::Sent, Attempt::FIRST).await.unwrap();
                let part = place
                    .store
                    .part(&session, 1, 0, on_disk.payload(0..data.len()).into(), Attempt::FIRST)
                    .await
                    .unwrap();
                let whole = part.checksum;
                place
                    .store
                    .complete(&session, &[part], whole.as_ref(), &options, Attempt::FIRST)
                    .await
                    .unwrap();
            }
        }
        let mut head = place.store.head(key, Attempt::FIRST).await.unwrap();
        head.attributes.storage_class = None;
        assert_eq!(head.attributes.content_type, options.attributes.content_type, "{key}");
        assert_eq!(head.attributes, options.attributes, "{key}");
        assert_eq!(head.token.as_deref(), Some("t"));
        let body = place.store.get(key, None, None, Attempt::FIRST).await.unwrap();
        assert_eq!(body.object.attributes.metadata, options.attributes.metadata);
    }
    options.attributes.tags = [("team".into(), "a b".into())].into();
    options.attributes.storage_class = Some("REDUCED_REDUNDANCY".into());
    place.store.put("tagged", in_memory(&data), &options, Attempt::FIRST).await.unwrap();
    let head = place.store.head("tagged", Attempt::FIRST).await.unwrap();
    assert_eq!(head.attributes.storage_class.as_deref(), Some("REDUCED_REDUNDANCY"));
}

#[tokio::test]
async fn a_store_that_answers_no_checksum_is_asked_for_the_size() {
    let place = place().await;
    let Some(server) = &place.server else { return };
    server.set_knobs(Knobs { no_checksums: true, ..Knobs::default() });
    let options = WriteOptions::default();
    let bytes = bytes_of(100_000);
    let checksum = Checksum::of(Algorithm::Crc64Nvme, &bytes);
    let payload = Payload::from_memory(vec![Bytes::from(bytes)], checksum);
    let object = place.store.put("put", payload.clone(), &options, Attempt::FIRST).await.unwrap();
    assert_eq!((object.size, object.crc64nvme), (100_000, None));
    let session = place.store.open("parts", &options, PartOrigin::Sent, Attempt::FIRST).await.unwrap();
    let receipt = place.store.part(&session, 1, 0, payload.into(), Attempt::FIRST).await.unwrap();
    let object =
        place.store.complete(&session, &[receipt], Some(&checksum), &options, Attempt::FIRST).await.unwrap();
    assert_eq!(object.size, 100_000);
    assert_eq!(server.counts().get("HeadObject"), 2, "the sizes are the store's own word");
}
