//! Success responses that prove nothing, and responses that say less than Google's, or say it differently.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;
use tidegate::{ErrorKind, Store, Tidegate};
use tidegate_core::testkit::samples::{
    Asked, ERRORS, header_of, login_page, raw_server, removals_are_proven, said,
};

async fn raw(answer: impl Fn(&str) -> String + Send + Sync + 'static) -> (Gcs, Asked) {
    let (url, asked) = raw_server(answer).await;
    let settings =
        GcsSettings::default().with_endpoint_url(url).with_credentials(GcsCredentials::anonymous());
    (Gcs::connect("bucket", &settings).await.unwrap(), asked)
}

fn store_of(gcs: Gcs) -> Store {
    Tidegate::builder().build().unwrap().store(Arc::new(gcs))
}

async fn write(store: &Store) -> tidegate::Result<Object> {
    let mut writer = store.writer("k").await?;
    writer.write_bytes(Bytes::from_static(b"hello")).await?;
    writer.finish().await
}

fn json(text: &str) -> String {
    said("200 OK", "content-type: application/json\r\n", text)
}

fn error(status: &str, reason: &str) -> String {
    let code = status.split(' ').next().unwrap();
    let body = format!(r#"{{"error":{{"code":{code},"message":"no","errors":[{{"reason":"{reason}"}}]}}}}"#);
    said(status, "", &body)
}

fn gone() -> String {
    error("404 Not Found", "notFound")
}

fn proven() -> String {
    json(&format!(r#"{{"name":"k","generation":"1","size":"5","crc32c":"{}"}}"#, crc32c(b"hello").base64()))
}

#[tokio::test]
async fn a_write_that_is_not_proven_is_asked_for_and_not_made_again() {
    for answer in
        [login_page(), said("200 OK", "", ""), json("{}"), json(r#"{"name":"k","size":"5"}"#), json("[]")]
    {
        let (gcs, asked) =
            raw(move |head| if head.starts_with("post") { answer.clone() } else { gone() }).await;
        let failed = write(&store_of(gcs)).await.unwrap_err();
        assert_eq!(failed.kind(), ErrorKind::NotAStore, "{failed}");
        assert_eq!(*asked.lock().unwrap(), ["POST", "GET"], "{failed}");
    }
}

#[tokio::test]
async fn where_all_answers_are_a_page_nothing_is_known_and_the_page_is_shown() {
    let (gcs, _) = raw(|_| login_page()).await;
    let store = store_of(gcs.clone());
    let failed = write(&store).await.unwrap_err();
    assert!(
        failed.kind() == ErrorKind::Uncertain && failed.to_string().contains("Please log in"),
        "{failed}"
    );
    assert_eq!(store.head("k").await.unwrap_err().kind(), ErrorKind::NotAStore);
    let read = store.reader("k").await.map(drop).unwrap_err();
    assert!(read.kind() == ErrorKind::NotAStore && read.to_string().contains("Please log in"), "{read}");
    assert_eq!(store.delete("k").await.unwrap_err().kind(), ErrorKind::NotAStore);
    let options = WriteOptions::default();
    let parts = Session { key: "k".into(), id: "u".into() };
    let appended = Session { key: "k".into(), id: format!("{}/upload/session", gcs.endpoint()) };
    assert_eq!(
        kind(Parts::open(&gcs, "k", &options, PartOrigin::Sent, Attempt::FIRST)).await.0,
        FaultKind::NotAStore
    );
    assert_eq!(kind(Append::open(&gcs, "k", &options, Attempt::FIRST)).await.0, FaultKind::NotAStore);
    assert_eq!(
        kind(gcs.part(&parts, 1, 0, in_memory(b"x").into(), Attempt::FIRST)).await.0,
        FaultKind::NotAStore
    );
    assert_eq!(
        kind(gcs.complete(&parts, &[], Some(&crc32c(b"")), &options, Attempt::FIRST)).await.0,
        FaultKind::NotAStore
    );
    assert_eq!(
        kind(gcs.append(&appended, 0, in_memory(b"x"), None, Attempt::FIRST)).await.0,
        FaultKind::NotAStore
    );
    assert_eq!(kind(gcs.position(&appended, Attempt::FIRST)).await.0, FaultKind::NotAStore);
    for session in [&parts, &appended] {
        assert_eq!(kind(any(&gcs).abort(session, Attempt::FIRST)).await.0, FaultKind::NotAStore);
    }
    let from = CopySource::new("gs://bucket", "a", Object::default());
    assert_eq!(kind(gcs.copy(&from, "k", None, &options, Attempt::FIRST)).await.0, FaultKind::NotAStore);
}

#[tokio::test]
async fn an_error_in_an_answer_of_success_is_that_error() {
    for (body, expected) in ERRORS {
        let (gcs, _) = raw(move |_| said("200 OK", "etag: \"e\"\r\n", body)).await;
        let (session, options) = (Session { key: "k".into(), id: "u".into() }, WriteOptions::default());
        assert_eq!(kind(gcs.put("k", in_memory(b"x"), &options, Attempt::FIRST)).await.0, expected, "{body}");
        assert_eq!(kind(gcs.head("k", Attempt::FIRST)).await.0, expected, "{body}");
        assert_eq!(kind(gcs.list("", true).try_collect::<Vec<_>>()).await.0, expected, "{body}");
        assert_eq!(kind(gcs.delete("k", None, Attempt::FIRST)).await.0, expected, "{body}");
        assert_eq!(kind(Append::open(&gcs, "k", &options, Attempt::FIRST)).await.0, expected, "{body}");
        assert_eq!(
            kind(gcs.part(&session, 1, 0, in_memory(b"x").into(), Attempt::FIRST)).await.0,
            expected,
            "{body}"
        );
        assert_eq!(
            kind(gcs.complete(&session, &[], Some(&crc32c(b"")), &options, Attempt::FIRST)).await.0,
            expected,
            "{body}"
        );
        assert_eq!(kind(any(&gcs).abort(&session, Attempt::FIRST)).await.0, expected, "{body}");
    }
    let count = AtomicUsize::new(0);
    let (gcs, _) = raw(move |_| match count.fetch_add(1, Ordering::Relaxed) {
        0 => said("200 OK", "", ERRORS[1].0),
        _ => proven(),
    })
    .await;
    assert_eq!(write(&store_of(gcs)).await.unwrap().size, 5);
}

#[tokio::test]
async fn a_removal_is_proven_by_the_answer_or_by_what_is_there() {
    removals_are_proven(gone(), proven(), async |answer| {
        let tide = tidegate::Tidegate::builder().build().unwrap();
        tide.store(Arc::new(raw(answer).await.0)).delete("k").await.is_ok()
    })
    .await;
}

#[tokio::test]
async fn json_is_read_in_each_of_its_legal_forms() {
    for fields in [
        r#""metadata":null"#,
        r#""metadata":{"a":null}"#,
        r#""metadata":{"a":1,"b":true}"#,
        r#""contentType":null,"crc32c":null,"etag":null,"timeCreated":null,"kmsKeyName":null"#,
        r#""componentCount":null,"temporaryHold":"false","acl":[{"entity":"x"}],"unknown":{"a":[]}"#,
    ] {
        let described = json(&format!(r#"{{"name":"k","generation":1,"size":5,{fields}}}"#));
        let (gcs, _) = raw(move |_| described.clone()).await;
        assert_eq!(gcs.head("k", Attempt::FIRST).await.unwrap().size, 5, "{fields}");
    }
    let object = Object { size: 5, version: Some("1".into()), ..Object::default() };
    let from = CopySource::new("gs://bucket", "a", object);
    let resource = r#"{"name":"k","generation":"2","size":5,"metadata":null}"#;
    for fields in [
        format!(
            r#""done":true,"totalBytesRewritten":5,"objectSize":5,"rewriteToken":null,"resource":{resource}"#
        ),
        format!(r#""done":"true","totalBytesRewritten":"5","resource":{resource}"#),
        format!(r#""done":true,"totalBytesRewritten":null,"resource":{resource}"#),
    ] {
        let shown = fields.clone();
        let (gcs, _) = raw(move |_| json(&format!("{{{fields}}}"))).await;
        let copied = gcs.copy(&from, "k", None, &WriteOptions::default(), Attempt::FIRST).await.unwrap();
        assert!(matches!(&copied, Copied::Whole(object) if object.size == 5), "{shown}: {copied:?}");
    }
    let going = r#"{"done":null,"totalBytesRewritten":3,"rewriteToken":"t","resource":null}"#;
    let (gcs, _) = raw(move |_| json(going)).await;
    let copied = gcs.copy(&from, "k", None, &WriteOptions::default(), Attempt::FIRST).await.unwrap();
    assert_eq!(copied, Copied::Going { cursor: "t".into(), bytes: 3 });
}

#[tokio::test]
async fn a_size_that_is_left_out_is_asked_for_and_never_zero() {
    let ranged = |range: &str| {
        said(
            "206 Partial",
            &format!("etag: \"m\"\r\nx-goog-generation: 1\r\ncontent-range: {range}\r\n"),
            "h",
        )
    };
    for (described, first, size) in [
        (json(r#"{"generation":"1"}"#), ranged("bytes 0-0/5"), Some(5)),
        (json(r#"{"generation":1,"size":5}"#), login_page(), Some(5)),
        (json(r#"{"generation":"1","crc32c":"AAAAAA=="}"#), login_page(), Some(0)),
        (json(r#"{"generation":"1"}"#), said("200 OK", "x-goog-generation: 1\r\n", "hello"), Some(5)),
        (json(r#"{"generation":"1"}"#), said("416 Range", "content-range: bytes */0\r\n", ""), Some(0)),
        (json(r#"{"generation":"1"}"#), ranged("bytes 0-0/*"), None),
        (json(r#"{"generation":"1"}"#), login_page(), None),
    ] {
        let shown = format!("{described} {first}");
        let (gcs, _) =
            raw(move |head| if head.contains("alt=media") { first.clone() } else { described.clone() }).await;
        let told = gcs.head("k", Attempt::FIRST).await;
        assert_eq!(told.as_ref().ok().map(|object| object.size), size, "{shown}: {told:?}");
        assert!(told.is_err() || told.unwrap().key == "k");
    }
}

#[tokio::test]
async fn bytes_that_are_packed_on_the_way_are_asked_for_as_they_are_stored() {
    for (gzip, identity, read) in [
        // A cache in front of the store compresses an object that is stored uncompressed.
        (
            "content-encoding: gzip\r\nx-goog-stored-content-encoding: identity\r\n",
            "x-goog-stored-content-encoding: identity\r\n",
            true,
        ),
        ("x-goog-stored-content-encoding: identity\r\n", "", true),
        ("content-encoding: gzip\r\nx-goog-stored-content-encoding: gzip\r\n", "", true),
        ("x-goog-stored-content-encoding: gzip\r\n", "x-goog-stored-content-encoding: gzip\r\n", false),
    ] {
        let (gcs, _) = raw(move |head| {
            let headers = if header_of(head, "accept-encoding").unwrap() == "gzip" { gzip } else { identity };
            said("200 OK", &format!("x-goog-generation: 1\r\n{headers}"), "hello")
        })
        .await;
        let body = gcs.get("k", None, None, Attempt::FIRST).await;
        assert_eq!(body.is_ok(), read, "{gzip}");
        assert!(read || body.err().unwrap().kind == FaultKind::Unsupported);
    }
}

#[tokio::test]
async fn a_refused_write_is_made_again_and_a_later_412_is_a_word() {
    let (conflict, exists) =
        (error("409 Conflict", "conflict"), error("412 Precondition", "conditionNotMet"));
    for (answers, expected) in [
        (vec![conflict.clone(), proven()], None),
        (vec![conflict.clone(), exists.clone()], Some(ErrorKind::AlreadyExists)),
        (vec![conflict.clone(), conflict, exists.clone()], Some(ErrorKind::AlreadyExists)),
        (vec![exists], Some(ErrorKind::AlreadyExists)),
    ] {
        let (count, next) = (answers.len(), Mutex::new(answers.into_iter()));
        // A server that is not known to keep the condition is first asked for the object.
        let answer = move |head: &str| match head.starts_with("get") {
            true => gone(),
            false => next.lock().unwrap().next().unwrap(),
        };
        let (gcs, asked) = raw(answer).await;
        let mut writer = store_of(gcs).writer("k").create_only().await.unwrap();
        writer.write_bytes(Bytes::from_static(b"hello")).await.unwrap();
        assert_eq!(writer.finish().await.err().map(|error| error.kind()), expected);
        assert_eq!(asked.lock().unwrap().iter().filter(|method| *method == "POST").count(), count);
    }
}

/// gcp-storage-emulator answers a request for a range without an ETag and without any header of Google's.
#[tokio::test]
async fn a_range_of_an_object_is_proven_by_its_position() {
    for (head, is_range) in [("content-range: bytes 1-3/5\r\n", true), ("content-type: text/html\r\n", false)]
    {
        let (gcs, _) = raw(move |_| said("206 Partial Content", head, "ell")).await;
        match gcs.get("k", Some(1..4), None, Attempt::FIRST).await {
            Ok(body) => {
                let bytes: Vec<Bytes> = body.stream.try_collect().await.unwrap();
                assert!(is_range && bytes.concat() == b"ell" && body.object.size == 5);
            }
            Err(fault) => assert!(!is_range && fault.kind == FaultKind::NotAStore, "{fault}"),
        }
    }
}
