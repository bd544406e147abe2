//! Errors, each with the right kind.

use super::*;

#[tokio::test]
async fn a_source_that_changes_is_the_sources_fault() {
    let place = place().await;
    let data = bytes_of(4 * MIB);
    for attempt in 0..5 {
        let on_disk = OnDisk::new(&data).await;
        let payload = on_disk.payload(0..data.len());
        on_disk.file.as_file().set_len(MIB as u64).unwrap();
        let (refused, said) =
            kind(place.store.put("k", payload, &WriteOptions::default(), Attempt::FIRST)).await;
        assert_eq!(refused, FaultKind::Source, "{attempt}: {said}");
        assert!(said.contains("the source was"), "{said}");
    }
    assert_eq!(kind(place.store.head("k", Attempt::FIRST)).await.0, FaultKind::NotFound);
    // The client still works afterwards.
    place.store.put("k", in_memory(&data), &WriteOptions::default(), Attempt::FIRST).await.unwrap();
}

#[tokio::test]
async fn a_body_that_ends_early_is_a_fault() {
    let Place { store, server: Some(server) } = place().await else { return };
    store.put("k", in_memory(&bytes_of(2 * MIB)), &WriteOptions::default(), Attempt::FIRST).await.unwrap();
    let rule = FaultRule::new("GetObject", FaultAction::ResetResponse { after_bytes: 1 << 20 });
    server.set_knobs(Knobs { faults: vec![rule], ..Knobs::default() });
    let body = store.get("k", None, None, Attempt::FIRST).await.unwrap();
    let (cut, said) = kind(body.stream.try_collect::<Vec<_>>()).await;
    assert_eq!(cut, FaultKind::Transient, "{said}");
}

#[tokio::test]
async fn wrong_credentials_are_named() {
    let place = place().await;
    for (access, part) in [("nobody", "does not know the access key"), ("", "signature is refused")] {
        let mut settings = place.store.bucket.shared.settings.clone();
        let known = match &place.server {
            Some(server) => server.credentials().0.to_owned(),
            None => std::env::var("AWS_ACCESS_KEY_ID").unwrap(),
        };
        let access = if access.is_empty() { known } else { access.to_owned() };
        settings = settings.with_credentials(Credentials::fixed(access, "wrong-secret", None));
        let store = S3::connect("bucket", &settings).await.unwrap();
        let (refused, said) =
            kind(store.put("k", in_memory(b"x"), &WriteOptions::default(), Attempt::FIRST)).await;
        assert_eq!(refused, FaultKind::Credentials, "{said}");
        assert!(said.contains(part), "{said}");
    }
}

#[tokio::test]
async fn a_store_that_is_not_there() {
    let settings = S3Settings::default()
        .with_endpoint_url("http://127.0.0.1:1")
        .with_credentials(Credentials::anonymous());
    let store = S3::connect("b", &settings).await.unwrap();
    let (refused, said) = kind(store.head("k", Attempt::FIRST)).await;
    assert_eq!((refused, said.as_str()), (FaultKind::Unreachable, "connection refused by 127.0.0.1:1"));
}

#[tokio::test]
async fn faults_of_the_server_are_classified() {
    let Place { store, server: Some(server) } = place().await else { return };
    let on_disk = OnDisk::new(&bytes_of(8 * MIB)).await;
    let slow_down = FaultAction::Error { status: 503, code: "SlowDown".into(), retry_after: Some(3) };
    let failed = FaultAction::Error { status: 500, code: "InternalError".into(), retry_after: None };
    for (action, expected, after) in [
        (slow_down, FaultKind::Throttled, Some(3)),
        (failed, FaultKind::Transient, None),
        (FaultAction::LoseAnswer, FaultKind::Transient, None),
        (FaultAction::ResetRequest { after_bytes: 0 }, FaultKind::Transient, None),
    ] {
        let rule = FaultRule::new("PutObject", action.clone());
        server.set_knobs(Knobs { faults: vec![rule], ..Knobs::default() });
        for payload in [in_memory(b"x"), on_disk.payload(0..8 * MIB)] {
            let fault = store.put("k", payload, &WriteOptions::default(), Attempt::FIRST).await.unwrap_err();
            assert_eq!(fault.kind, expected, "{action:?}: {}", fault.message);
            assert_eq!(fault.retry_after, after.map(Duration::from_secs));
        }
    }
    server.set_knobs(Knobs::default());
    store.put("k", in_memory(b"x"), &WriteOptions::default(), Attempt::FIRST).await.unwrap();
}

#[tokio::test]
async fn a_completion_that_fails_after_its_status_is_a_fault() {
    let Place { store, server: Some(server) } = place().await else { return };
    let session = store.open("k", &WriteOptions::default(), PartOrigin::Sent, Attempt::FIRST).await.unwrap();
    let part = store.part(&session, 1, 0, in_memory(b"x").into(), Attempt::FIRST).await.unwrap();
    let parts = [part.clone()];
    let rule =
        FaultRule::new("CompleteMultipartUpload", FaultAction::ErrorIn200 { code: "InternalError".into() });
    server.set_knobs(Knobs { faults: vec![rule], ..Knobs::default() });
    let (refused, said) = kind(store.complete(
        &session,
        &parts,
        part.checksum.as_ref(),
        &WriteOptions::default(),
        Attempt::FIRST,
    ))
    .await;
    assert_eq!(refused, FaultKind::Transient, "{said}");
    assert!(said.contains("InternalError"), "{said}");
    server.set_knobs(Knobs::default());
    store
        .complete(&session, &parts, part.checksum.as_ref(), &WriteOptions::default(), Attempt::FIRST)
        .await
        .unwrap();
}

#[tokio::test]
async fn a_retry_goes_out_on_a_connection_of_its_own() {
    let Place { store, server: Some(server) } = place().await else { return };
    let connections = || server.counts().connections;
    for _ in 0..3 {
        store.put("k", in_memory(b"x"), &WriteOptions::default(), Attempt::FIRST).await.unwrap();
    }
    assert_eq!(connections(), 1, "connections are kept");
    for expected in [2, 3] {
        let options = WriteOptions::default();
        let attempt = Attempt::FIRST.on_new_connection();
        store.put("k", in_memory(b"x"), &options, attempt).await.unwrap();
        assert_eq!(connections(), expected);
    }
    store.put("k", in_memory(b"x"), &WriteOptions::default(), Attempt::FIRST).await.unwrap();
    assert_eq!(connections(), 3, "and the kept one is still good");
}

#[tokio::test]
async fn expired_credentials_that_are_all_there_are_end_it() {
    let Place { store, server: Some(server) } = place().await else { return };
    let rule = FaultRule::error("PutObject", 400, "ExpiredToken");
    server.set_knobs(Knobs { faults: vec![rule], ..Knobs::default() });
    let (refused, said) =
        kind(store.put("k", in_memory(b"x"), &WriteOptions::default(), Attempt::FIRST)).await;
    assert_eq!(refused, FaultKind::Credentials, "{said}");
    assert!(said.contains("have expired"), "{said}");
}

#[tokio::test]
async fn where_a_server_has_no_conditional_removal_the_object_is_removed_without() {
    let (s3, asked) = raw::raw(|head| match head.contains("if-match: \"e\"") {
        true => "HTTP/1.1 501 Not Implemented\r\nx-amz-request-id: 1\r\ncontent-length: 67\r\n\r\n<Error><Code>NotImplemented</Code><Message>Header</Message></Error>".to_owned(),
        false => "HTTP/1.1 204 No Content\r\nx-amz-request-id: 1\r\n\r\n".to_owned(),
    })
    .await;
    let same = Object { etag: Some("\"e\"".to_owned()), ..Object::default() };
    s3.delete("k", Some(&same), Attempt::FIRST).await.unwrap();
    assert_eq!(*asked.lock().unwrap(), ["DELETE"; 2]);
}

#[tokio::test]
async fn a_condition_that_is_unmet_for_want_of_an_object_is_a_removal() {
    let there = "HTTP/1.1 200 OK\r\nx-amz-request-id: 1\r\netag: \"other\"\r\ncontent-length: 5\r\n\r\n";
    for (head, expected, requests) in [
        (
            "HTTP/1.1 404 Not Found\r\nx-amz-request-id: 1\r\ncontent-length: 0\r\n\r\n",
            None,
            &["DELETE", "HEAD"][..],
        ),
        (there, Some(FaultKind::Replaced), &["DELETE", "HEAD"]),
        // It is not known what is there. A GET may have the reason that a HEAD cannot tell.
        (
            "HTTP/1.1 403 Forbidden\r\ncontent-length: 0\r\n\r\n",
            Some(FaultKind::Replaced),
            &["DELETE", "HEAD", "GET"],
        ),
    ] {
        let (s3, asked) = raw::raw(move |request| match request.starts_with("delete") {
            true => "HTTP/1.1 412 Precondition Failed\r\nx-amz-request-id: 1\r\ncontent-length: 0\r\n\r\n"
                .to_owned(),
            false => head.to_owned(),
        })
        .await;
        let same = Object { etag: Some("\"e\"".to_owned()), ..Object::default() };
        let removed = s3.delete("k", Some(&same), Attempt::FIRST).await;
        assert_eq!(removed.err().map(|fault| fault.kind), expected, "{head}");
        assert_eq!(*asked.lock().unwrap(), requests, "{head}");
    }
}
