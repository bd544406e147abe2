//! Writing objects in every way.

use super::*;

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
async fn a_storage_class_is_described_and_metadata_comes_with_the_bytes() {
    let place = place().await;
    let mut options = WriteOptions::default();
    options.attributes.metadata = [("owner".into(), "me and  you".into())].into();
    options.attributes.storage_class = Some("REDUCED_REDUNDANCY".into());
    place.store.put("k", in_memory(b"x"), &options, Attempt::FIRST).await.unwrap();
    let head = place.store.head("k", Attempt::FIRST).await.unwrap();
    assert_eq!(head.attributes.storage_class, options.attributes.storage_class);
    let read = place.store.get("k", None, None, Attempt::FIRST).await.unwrap().object;
    assert_eq!(read.attributes.metadata, options.attributes.metadata);
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
