//! Copies that the store itself makes.

use super::*;
use crate::settings::RetryPolicy;
use crate::{Attributes, ErrorKind, Store, Tidegate};

async fn write(store: &Store, key: &str, bytes: &[u8]) {
    let attributes = Attributes {
        content_type: Some("text/x".into()),
        content_language: Some("de".into()),
        expires: Some("Sun, 06 Nov 1994 08:49:37 GMT".into()),
        cache_control: Some("max-age=60".into()),
        metadata: [("owner".to_owned(), "a b".to_owned())].into(),
        tags: [("k 1".to_owned(), "v&=".to_owned())].into(),
        ..Attributes::default()
    };
    let mut writer = store.writer(key).attributes(attributes).start().await.unwrap();
    writer.write_bytes(Bytes::copy_from_slice(bytes)).await.unwrap();
    writer.finish().await.unwrap();
}

#[tokio::test]
async fn what_is_copied_is_kept_whole_in_one_request_and_in_parts() {
    let place = place().await;
    let tide = Tidegate::builder().build().unwrap();
    let store = tide.store(Arc::new(place.store.clone()));
    for (size, create_only) in [
        (0, false),
        (0, true),
        (1000, false),
        (1000, true),
        (5 * MIB, false),
        (11 * MIB, false),
        (11 * MIB, true),
    ] {
        let (from, to) = ("from/a + ä%2F&?.txt", format!("to/{size} {create_only}"));
        let bytes = bytes_of(size);
        write(&store, from, &bytes).await;
        let copy = store.copy(from, &store, &to).part_size(5 << 20);
        let copy = if create_only { copy.create_only() } else { copy };
        let object = copy.run().await.unwrap();
        assert_eq!((object.size, &object.key), (size as u64, &to));
        let (told, source) = (store.head(&to).await.unwrap(), store.head(from).await.unwrap());
        assert_eq!(told.attributes, source.attributes, "{to}");
        assert_eq!(told.attributes.content_language.as_deref(), Some("de"));
        assert_eq!(told.attributes.expires.as_deref(), Some("Sun, 06 Nov 1994 08:49:37 GMT"));
        assert_ne!(told.matches(&Checksum::of(Algorithm::Crc64Nvme, &bytes)), Some(false));
        assert!(told.token.is_some() && told.token != source.token);
        assert_eq!(
            place.store.tags(&to, Attempt::FIRST).await.unwrap(),
            [("k 1".to_owned(), "v&=".to_owned())].into()
        );
        assert!(read_back(&place.store, &to, None).await == bytes);
        if create_only {
            let again = store.copy(from, &store, &to).part_size(5 << 20).create_only().run().await;
            assert_eq!(again.unwrap_err().kind(), ErrorKind::AlreadyExists);
        }
        tide.settled().await;
        let open: Vec<OpenSession> = place.store.sessions(&to).try_collect().await.unwrap();
        assert!(open.is_empty(), "{open:?}");
    }
    // An object copied onto itself, with new attributes.
    let given = Attributes { content_type: Some("text/y".into()), ..Attributes::default() };
    let from = "from/a + ä%2F&?.txt";
    store.copy(from, &store, from).attributes(given).run().await.unwrap();
    assert_eq!(store.head(from).await.unwrap().attributes.content_type.as_deref(), Some("text/y"));
}

#[tokio::test]
async fn what_is_copied_is_the_object_that_was_described() {
    let place = place().await;
    let store = &place.store;
    let options = WriteOptions::default();
    store.put("from", in_memory(&bytes_of(1000)), &options, Attempt::FIRST).await.unwrap();
    let object = store.head("from", Attempt::FIRST).await.unwrap();
    let from = CopySource { location: store.location().to_owned(), key: "from".into(), object };
    store.put("from", in_memory(&bytes_of(1001)), &options, Attempt::FIRST).await.unwrap();
    assert_eq!(kind(store.copy(&from, "to", None, &options, Attempt::FIRST)).await.0, FaultKind::Replaced);
    let session = store.open("to", &options, PartOrigin::Sent, Attempt::FIRST).await.unwrap();
    assert_eq!(
        kind(store.part(&session, 1, 0, PartSource::CopyOf(&from, 0..1000), Attempt::FIRST)).await.0,
        FaultKind::Replaced
    );
    store.delete("from", None, Attempt::FIRST).await.unwrap();
    assert_eq!(kind(store.copy(&from, "to", None, &options, Attempt::FIRST)).await.0, FaultKind::Replaced);
    assert_eq!(
        kind(store.part(&session, 1, 0, PartSource::CopyOf(&from, 0..1000), Attempt::FIRST)).await.0,
        FaultKind::Replaced
    );
    assert_eq!(
        kind(store.part(&session, 1, 10, PartSource::CopyOf(&from, 10..10), Attempt::FIRST)).await.0,
        FaultKind::Invalid
    );
    store.abort(&session, Attempt::FIRST).await.unwrap();
    assert_eq!(
        kind(store.part(&session, 1, 0, PartSource::CopyOf(&from, 0..1000), Attempt::FIRST)).await.0,
        FaultKind::NoSession
    );
    assert_eq!(kind(store.head("to", Attempt::FIRST)).await.0, FaultKind::NotFound);
}

#[tokio::test]
async fn answers_are_lost_and_refused_and_it_is_one_object() {
    let place = place().await;
    let Some(server) = &place.server else { return };
    let retry = RetryPolicy { first_pause: Duration::from_millis(1), ..RetryPolicy::default() };
    let tide = Tidegate::builder().retry(retry).build().unwrap();
    let store = tide.store(Arc::new(place.store.clone()));
    let bytes = bytes_of(12 * MIB);
    write(&store, "from", &bytes).await;
    write(&store, "small", &bytes[..1000]).await;
    let internal = || FaultAction::ErrorIn200 { code: "InternalError".into() };
    let rules = vec![
        FaultRule::lose_answer("CopyObject").times(1),
        FaultRule::new("CopyObject", internal()).times(1),
        FaultRule::lose_answer("UploadPartCopy").times(2),
        FaultRule::error("UploadPartCopy", 503, "SlowDown").times(2),
        FaultRule::new("UploadPartCopy", internal()).times(1),
        FaultRule::lose_answer("CompleteMultipartUpload").times(1),
    ];
    server.set_knobs(Knobs { faults: rules, ..Knobs::default() });
    for (from, create_only) in [("small", false), ("from", false), ("from", true)] {
        let to = format!("{from}-{create_only}");
        let copy = store.copy(from, &store, &to).part_size(5 << 20);
        if create_only { copy.create_only() } else { copy }.run().await.unwrap();
        let len = if from == "small" { 1000 } else { bytes.len() };
        assert!(read_back(&place.store, &to, None).await == bytes[..len]);
    }
    // If the store rejects a step of the copy, the copy fails and claims no object.
    let rules = vec![FaultRule::error("GetObjectTagging", 403, "AccessDenied")];
    server.set_knobs(Knobs { faults: rules, ..Knobs::default() });
    let refused = store.copy("from", &store, "to").part_size(5 << 20).run().await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::PermissionDenied);
    assert!(refused.to_string().contains("tags"), "{refused}");
    let rules = vec![FaultRule::error("UploadPartCopy", 501, "NotImplemented")];
    server.set_knobs(Knobs { faults: rules, ..Knobs::default() });
    let refused = store.copy("from", &store, "to").part_size(5 << 20).run().await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Unsupported);
    server.set_knobs(Knobs::default());
    tide.settled().await;
    let open: Vec<OpenSession> = place.store.sessions("").try_collect().await.unwrap();
    assert!(open.is_empty(), "{open:?}");
}

#[tokio::test]
async fn buckets_of_one_store_copy_from_each_other() {
    let place = place().await;
    let Some(server) = &place.server else { return };
    server.create_bucket("other").unwrap();
    let tide = Tidegate::builder().s3(settings_for(server)).build().unwrap();
    let (from, to) = (tide.open("s3://bucket/a").await.unwrap(), tide.open("s3://other/b").await.unwrap());
    assert!(from.is_one_with(&to));
    write(&from, "from", b"bytes").await;
    assert_eq!(from.copy("from", &to, "to").run().await.unwrap().key, "to");
    let other = S3::connect("other", &settings_for(server)).await.unwrap();
    assert_eq!(read_back(&other, "b/to", None).await, b"bytes");
}

#[tokio::test]
async fn a_copy_names_what_its_source_has_and_it_lacks() {
    let (url, _) = crate::backend::samples::raw_server(|head| {
        let copied = "<CopyObjectResult><ETag>\"c\"</ETag></CopyObjectResult>";
        let described = "HTTP/1.1 200 OK\r\netag: \"e\"\r\ncontent-length: 5\r\n\
                         x-amz-website-redirect-location: /other\r\nx-amz-object-lock-legal-hold: ON\r\n\r\n";
        if head.starts_with("put") {
            assert!(!head.contains("website") && !head.contains("lock"), "{head}");
            crate::backend::samples::said("200 OK", "", copied)
        } else {
            described.to_owned()
        }
    })
    .await;
    let store = Tidegate::builder().build().unwrap().store(Arc::new(raw::connect(url).await));
    let copied = store.copy("a", &store, "k").run().await.unwrap();
    assert_eq!(copied.not_carried, ["website redirect", "legal hold"]);
}
