//! Copies that the store itself makes, and attributes in each way to make an object.

use std::time::Duration;

use super::*;
use tidegate::Tidegate;
use tidegate::settings::RetryPolicy;

over_both! {
    a_copy_is_gone_on_with_from_where_it_stands,
    attributes_do_not_depend_on_how_an_object_is_made,
}

async fn a_copy_is_gone_on_with_from_where_it_stands(over: GcsTransport) {
    let place = place(over).await;
    let mut retry = RetryPolicy::default();
    retry.first_pause = Duration::from_millis(1);
    let tide = Tidegate::builder().retry(retry).build().unwrap();
    let store = tide.store(Arc::new(place.store.clone()));
    let bytes = bytes_of(5 * MIB + 1);
    place.store.put("from", in_memory(&bytes), &WriteOptions::default(), Attempt::FIRST).await.unwrap();
    let operation = "storage.objects.rewrite";
    let rules = vec![
        FaultRule::lose_answer(operation).times(1),
        FaultRule::error(operation, 503, "backendError").skip(2).times(1),
        // The last request: it is carried out, and its answer is lost.
        FaultRule::lose_answer(operation).skip(7).times(1),
    ];
    for create_only in [false, true] {
        let faults = testkit::rules(rules.clone(), over);
        let knobs = Knobs { faults, rewrite_step: Some(MIB as u64), ..Knobs::default() };
        place.server.set_knobs(knobs);
        let to = format!("to-{create_only}");
        let copy = store.copy("from", &store, &to);
        let progress = copy.progress();
        if create_only { copy.create_only() } else { copy }.await.unwrap();
        assert!(read_back(&place.store, &to, None).await == bytes);
        let figures = progress.snapshot();
        assert_eq!(figures.acknowledged, bytes.len() as u64);
        assert_eq!(figures.retries, 3, "{figures:?}");
    }
}

async fn attributes_do_not_depend_on_how_an_object_is_made(over: GcsTransport) {
    let place = place(over).await;
    let mut options = WriteOptions::default();
    options.attributes.metadata = [("Owner".into(), "Me".into())].into();
    options.attributes.storage_class = Some("NEARLINE".into());
    place.store.put("put", in_memory(b"1"), &options, Attempt::FIRST).await.unwrap();
    let session =
        Parts::open(&place.store, "parts", &options, PartOrigin::Sent, Attempt::FIRST).await.unwrap();
    let part = place.store.part(&session, 1, 0, in_memory(b"1").into(), Attempt::FIRST).await.unwrap();
    let whole = part.checksum;
    place.store.complete(&session, &[part], whole.as_ref(), &options, Attempt::FIRST).await.unwrap();
    let session = Append::open(&place.store, "chunks", &options, Attempt::FIRST).await.unwrap();
    place.store.append(&session, 0, in_memory(b"1"), whole.as_ref(), Attempt::FIRST).await.unwrap();
    let all = Tidegate::builder().build().unwrap().store(Arc::new(place.store.clone()));
    all.copy("put", &all, "copied").await.unwrap();
    options.attributes.metadata = [("owner".into(), "Me".into())].into();
    options.attributes.content_type = Some("application/octet-stream".into());
    for key in ["put", "parts", "chunks", "copied"] {
        let head = place.store.head(key, Attempt::FIRST).await.unwrap();
        assert_eq!(head.attributes, options.attributes, "{key}");
    }
}

/// Metadata in JSON may have names and values that no header carries.
#[tokio::test]
async fn a_copy_keeps_metadata_that_no_header_carries() {
    let place = place(GcsTransport::Http).await;
    let json = r#"{"name":"from","metadata":{"DocumentId":"7","nächster":"Ünïcödé","a b":"c"}}"#;
    let body = format!(
        "--b\r\ncontent-type: application/json\r\n\r\n{json}\r\n--b\r\ncontent-type: text/plain\r\n\r\nbytes\r\n--b--\r\n"
    );
    let bucket = &place.store.bucket;
    let url = bucket.json.uploads(&[("uploadType", "multipart"), ("name", "from")]);
    let mut request = GcsRequest::new(Method::POST, url, About::Bucket, Attempt::FIRST);
    set(&mut request.headers, "content-type", Some("multipart/related; boundary=b")).unwrap();
    bucket.shared.ask(request.with(GcsContent::Text(body.into()))).await.unwrap();
    let all = Tidegate::builder().build().unwrap().store(Arc::new(place.store.clone()));
    let from = place.store.head("from", Attempt::FIRST).await.unwrap();
    assert_eq!(from.attributes.metadata.len(), 3);
    all.copy("from", &all, "to").await.unwrap();
    let to = place.store.head("to", Attempt::FIRST).await.unwrap();
    assert_eq!(to.attributes.metadata, from.attributes.metadata);
}
