//! Copies that the store itself makes.

use super::*;
use tidegate::settings::RetryPolicy;
use tidegate::{Attributes, ErrorKind, Store, Tidegate};

async fn write(store: &Store, key: &str, bytes: &[u8]) {
    let tags = [("k 1".to_owned(), "v&=".to_owned())].into();
    let attributes = Attributes { tags, ..Attributes::default() };
    let mut writer = store.writer(key).attributes(attributes).await.unwrap();
    writer.write_bytes(Bytes::copy_from_slice(bytes)).await.unwrap();
    writer.finish().await.unwrap();
}

#[tokio::test]
async fn answers_are_lost_and_refused_and_it_is_one_object() {
    let place = place().await;
    let Some(server) = &place.server else { return };
    let mut retry = RetryPolicy::default();
    retry.first_pause = Duration::from_millis(1);
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
        if create_only { copy.create_only() } else { copy }.await.unwrap();
        let len = if from == "small" { 1000 } else { bytes.len() };
        assert!(read_back(&place.store, &to, None).await == bytes[..len]);
    }
    // If the store rejects a step of the copy, the copy fails and claims no object.
    let rules = vec![FaultRule::error("GetObjectTagging", 403, "AccessDenied")];
    server.set_knobs(Knobs { faults: rules, ..Knobs::default() });
    let refused = store.copy("from", &store, "to").part_size(5 << 20).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::PermissionDenied);
    assert!(refused.to_string().contains("tags"), "{refused}");
    let rules = vec![FaultRule::error("UploadPartCopy", 501, "NotImplemented")];
    server.set_knobs(Knobs { faults: rules, ..Knobs::default() });
    let refused = store.copy("from", &store, "to").part_size(5 << 20).await.unwrap_err();
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
    let (access, secret) = server.credentials();
    let settings = tidegate::settings::S3Settings::default()
        .with_endpoint_url(server.endpoint())
        .with_region("us-east-1")
        .with_credentials(tidegate::settings::Credentials::fixed(access, secret, None))
        .with_kept_conditions(true);
    let tide = Tidegate::builder().s3(settings).build().unwrap();
    let (from, to) = (tide.open("s3://bucket/a").await.unwrap(), tide.open("s3://other/b").await.unwrap());
    assert!(from.is_one_with(&to));
    write(&from, "from", b"bytes").await;
    assert_eq!(from.copy("from", &to, "to").await.unwrap().key, "to");
    let other = S3::connect("other", &settings_for(server)).await.unwrap();
    assert_eq!(read_back(&other, "b/to", None).await, b"bytes");
}

#[tokio::test]
async fn a_copy_names_what_its_source_has_and_it_lacks() {
    let (url, _) = tidegate_core::testkit::samples::raw_server(|head| {
        let copied = "<CopyObjectResult><ETag>\"c\"</ETag></CopyObjectResult>";
        let described = "HTTP/1.1 200 OK\r\netag: \"e\"\r\ncontent-length: 5\r\n\
                         x-amz-website-redirect-location: /other\r\nx-amz-object-lock-legal-hold: ON\r\n\r\n";
        if head.starts_with("put") {
            assert!(!head.contains("website") && !head.contains("lock"), "{head}");
            tidegate_core::testkit::samples::said("200 OK", "", copied)
        } else {
            described.to_owned()
        }
    })
    .await;
    let store = Tidegate::builder().build().unwrap().store(Arc::new(raw::connect(url).await));
    let copied = store.copy("a", &store, "k").await.unwrap();
    assert_eq!(copied.not_carried, ["website redirect", "legal hold"]);
}
