//! Success responses that prove nothing, and responses that say less than S3's, or say it differently.

use std::sync::Mutex;
use std::sync::atomic::AtomicUsize;

use super::raw::{connect, store_of, text};
use super::*;
use tidegate::{ErrorKind, Store};
use tidegate_core::testkit::samples::{
    Asked, ERRORS, STRANGE, header_of, login_page, raw_server, removals_are_proven, said,
};

const ERROR: &str = "<?xml version='1.0'?><Error><Code>CODE</Code><Message>no</Message></Error>";

fn proven() -> String {
    let sum = Checksum::of(Algorithm::Crc64Nvme, b"hello").base64();
    said("200 OK", &format!("etag: \"e\"\r\nx-amz-checksum-crc64nvme: {sum}\r\n"), "")
}

fn gone() -> String {
    said("404 Not Found", "x-amz-request-id: 1\r\n", "")
}

async fn raw(answer: impl Fn(&str) -> String + Send + Sync + 'static) -> (S3, Asked) {
    let (url, asked) = raw_server(answer).await;
    (connect(url).await, asked)
}

async fn write(store: &Store) -> tidegate::Result<Object> {
    let mut writer = store.writer("k").await?;
    writer.write_bytes(Bytes::from_static(b"hello")).await?;
    writer.finish().await
}

/// Responses to a `PUT` that prove nothing.
fn unproven() -> Vec<String> {
    vec![
        said("200 OK", "", ""),
        login_page(),
        said("200 OK", "etag: \"page\"\r\ncontent-type: text/html\r\n", "<html>nginx</html>"),
        said("201 Created", "etag: \"\"\r\n", ""),
        said("200 OK", "content-type: application/json\r\n", "{\"status\":\"ok\"}"),
    ]
}

#[tokio::test]
async fn a_put_that_is_not_proven_is_asked_for_and_not_made_again() {
    for answer in unproven() {
        let (s3, asked) =
            raw(move |head| if head.starts_with("put") { answer.clone() } else { gone() }).await;
        let failed = write(&store_of(s3)).await.unwrap_err();
        assert_eq!(failed.kind(), ErrorKind::NotAStore, "{failed}");
        assert_eq!(*asked.lock().unwrap(), ["PUT", "HEAD"], "{failed}");
    }
}

#[tokio::test]
async fn a_put_that_is_not_proven_is_done_where_the_store_has_the_writers_object() {
    for answer in unproven() {
        let token = Mutex::new(String::new());
        let (s3, _) = raw(move |head| {
            let mut token = token.lock().unwrap();
            if head.starts_with("put") {
                *token = header_of(head, "x-amz-meta-tidegate-writer").unwrap();
                return answer.clone();
            }
            format!("HTTP/1.1 200 OK\r\netag: \"e\"\r\nx-amz-meta-tidegate-writer: {token}\r\ncontent-length: 5\r\n\r\n")
        })
        .await;
        let object = write(&store_of(s3)).await.unwrap();
        assert_eq!((object.size, object.etag.as_deref()), (5, Some("\"e\"")));
    }
}

#[tokio::test]
async fn where_all_answers_are_a_page_nothing_is_known_and_the_page_is_shown() {
    let (s3, asked) = raw(|_| login_page()).await;
    let store = store_of(s3.clone());
    let failed = write(&store).await.unwrap_err();
    assert!(
        failed.kind() == ErrorKind::Uncertain && failed.to_string().contains("Please log in"),
        "{failed}"
    );
    assert_eq!(*asked.lock().unwrap(), ["PUT", "HEAD"]);
    let described = store.head("k").await.unwrap_err();
    assert_eq!(described.kind(), ErrorKind::NotAStore, "{described}");
    let read = store.reader("k").await.map(drop).unwrap_err();
    assert!(read.kind() == ErrorKind::NotAStore && read.to_string().contains("Please log in"), "{read}");
    let removed = store.delete("k").await.unwrap_err();
    assert!(removed.kind() == ErrorKind::NotAStore && removed.attempts() == 1, "{removed}");
    let session = Session { key: "k".into(), id: "u".into() };
    let options = WriteOptions::default();
    assert_eq!(kind(s3.open("k", &options, PartOrigin::Sent, Attempt::FIRST)).await.0, FaultKind::NotAStore);
    assert_eq!(
        kind(s3.part(&session, 1, 0, in_memory(b"x").into(), Attempt::FIRST)).await.0,
        FaultKind::NotAStore
    );
    assert_eq!(kind(s3.abort(&session, Attempt::FIRST)).await.0, FaultKind::NotAStore);
    assert_eq!(kind(s3.lifecycle(Attempt::FIRST)).await.0, FaultKind::NotAStore);
    assert_eq!(kind(s3.versioning(Attempt::FIRST)).await.0, FaultKind::NotAStore);
    assert_eq!(kind(s3.tags("k", Attempt::FIRST)).await.0, FaultKind::NotAStore);
    let sum = Checksum::of(Algorithm::Crc64Nvme, b"");
    assert_eq!(
        kind(s3.complete(&session, &[], Some(&sum), &options, Attempt::FIRST)).await.0,
        FaultKind::NotAStore
    );
}

#[tokio::test]
async fn an_error_in_an_answer_of_success_is_that_error() {
    for (body, expected) in ERRORS.into_iter().chain([
        ("<Error><Code>NoSuchBucket</Code></Error>", FaultKind::NoBucket),
        ("<Error><Code>OperationAborted</Code></Error>", FaultKind::Undone),
        (r#"{"error":{"code":"SlowDown"}}"#, FaultKind::Throttled),
    ]) {
        // An ETag beside an error document proves nothing.
        let (s3, _) = raw(move |_| said("200 OK", "etag: \"e\"\r\n", body)).await;
        let (session, options) = (Session { key: "k".into(), id: "u".into() }, WriteOptions::default());
        assert_eq!(kind(s3.put("k", in_memory(b"x"), &options, Attempt::FIRST)).await.0, expected, "{body}");
        assert_eq!(
            kind(s3.part(&session, 1, 0, in_memory(b"x").into(), Attempt::FIRST)).await.0,
            expected,
            "{body}"
        );
        assert_eq!(
            kind(s3.open("k", &options, PartOrigin::Sent, Attempt::FIRST)).await.0,
            expected,
            "{body}"
        );
        let sum = Checksum::of(Algorithm::Crc64Nvme, b"");
        assert_eq!(
            kind(s3.complete(&session, &[], Some(&sum), &options, Attempt::FIRST)).await.0,
            expected,
            "{body}"
        );
        assert_eq!(kind(s3.list("", true).try_collect::<Vec<_>>()).await.0, expected, "{body}");
        assert_eq!(kind(s3.delete("k", None, Attempt::FIRST)).await.0, expected, "{body}");
        assert_eq!(kind(s3.abort(&session, Attempt::FIRST)).await.0, expected, "{body}");
        assert_eq!(kind(s3.tags("k", Attempt::FIRST)).await.0, expected, "{body}");
        assert_eq!(kind(s3.lifecycle(Attempt::FIRST)).await.0, expected, "{body}");
        assert_eq!(kind(s3.versioning(Attempt::FIRST)).await.0, expected, "{body}");
        let rule = AbortRule::new("r", "", 1);
        assert_eq!(
            kind(s3.add_abort_rule(&Lifecycle::default(), &rule, Attempt::FIRST)).await.0,
            expected,
            "{body}"
        );
    }
    // A temporary error is retried.
    for error in [ERRORS[1].0, ERRORS[7].0] {
        let count = AtomicUsize::new(0);
        let (s3, _) = raw(move |_| match count.fetch_add(1, Ordering::Relaxed) {
            0 => said("200 OK", "etag: \"e\"\r\n", error),
            _ => proven(),
        })
        .await;
        assert_eq!(write(&store_of(s3)).await.unwrap().size, 5, "{error}");
    }
}

#[tokio::test]
async fn a_removal_is_proven_by_the_answer_or_by_what_is_there() {
    removals_are_proven(gone(), said("200 OK", "etag: \"e\"\r\n", ""), async |answer| {
        let tide = tidegate::Tidegate::builder().build().unwrap();
        tide.store(Arc::new(raw(answer).await.0)).delete("k").await.is_ok()
    })
    .await;
}

#[tokio::test]
async fn a_session_whose_abort_is_answered_strangely_is_asked_for() {
    for (listed, is_ended) in [("NoSuchUpload", true), ("AccessDenied", false)] {
        let (s3, asked) = raw(move |head| match head.split(' ').next().unwrap() {
            "post" => {
                let id =
                    "<InitiateMultipartUploadResult><UploadId>u</UploadId></InitiateMultipartUploadResult>";
                said("200 OK", "", id)
            }
            "delete" => said("200 OK", "", STRANGE[0]),
            "get" => said("404 Not Found", "", &ERROR.replace("CODE", listed)),
            _ => said("403 Forbidden", "", ""),
        })
        .await;
        let tide = tidegate::Tidegate::builder().build().unwrap();
        let mut writer = tide.store(Arc::new(s3)).writer("k").part_size(5 << 20).await.unwrap();
        writer.write_bytes(Bytes::from(vec![1; 6 * MIB])).await.unwrap();
        assert_eq!(writer.finish().await.unwrap_err().kind(), ErrorKind::PermissionDenied);
        assert_eq!(tide.settled().await.is_empty(), is_ended, "{listed}");
        assert!(asked.lock().unwrap().iter().any(|method| method == "GET"));
    }
}

#[tokio::test]
async fn a_part_is_looked_up_where_its_answer_proves_nothing() {
    const PART: usize = 5 * MIB;
    for (etag, size, is_there) in [("\"p\"", PART, true), ("\"p\"", 2, false), ("", PART, false)] {
        let (s3, _) = raw(move |head| match head.split(' ').next().unwrap() {
            "post" if head.contains("uploads") => {
                let id =
                    "<InitiateMultipartUploadResult><UploadId>u</UploadId></InitiateMultipartUploadResult>";
                said("200 OK", "", id)
            }
            "post" => {
                let done =
                    "<CompleteMultipartUploadResult><ETag>\"e-1\"</ETag></CompleteMultipartUploadResult>";
                said("200 OK", "", done)
            }
            "put" => login_page(),
            "get" => {
                let part = |number, size| {
                    format!(
                        "<Part><PartNumber>{number}</PartNumber><Size>{size}</Size><ETag>{etag}</ETag></Part>"
                    )
                };
                let parts = format!("{}{}", part(1, size), part(2, 1));
                said(
                    "200 OK",
                    "",
                    &format!("<ListPartsResult><IsTruncated>false</IsTruncated>{parts}</ListPartsResult>"),
                )
            }
            "delete" => said("204 No Content", "", ""),
            _ => gone(),
        })
        .await;
        let tide = tidegate::Tidegate::builder().part_size(PART as u64).build().unwrap();
        let store = tide.store(Arc::new(s3));
        let written = async {
            let mut writer = store.writer("k").strategy(tidegate::Strategy::Chunked).await?;
            writer.write_bytes(bytes_of(PART + 1).into()).await?;
            writer.finish().await
        };
        let written = written.await;
        assert_eq!(written.is_ok(), is_there, "{etag} {size}: {written:?}");
    }
}

const TAGGED: &str = "etag: \"e\"\r\nlast-modified: Sun, 06 Nov 1994 08:49:37 GMT\r\n";

fn without_length() -> String {
    format!("HTTP/1.1 200 OK\r\n{TAGGED}\r\n")
}

fn chunked(bytes: &str) -> String {
    format!(
        "HTTP/1.1 200 OK\r\n{TAGGED}transfer-encoding: chunked\r\n\r\n{:x}\r\n{bytes}\r\n0\r\n\r\n",
        bytes.len()
    )
}

fn until_the_end(bytes: &str) -> String {
    format!("HTTP/1.0 200 OK\r\n{TAGGED}\r\n{bytes}")
}

fn listed(size: u64) -> String {
    let contents = format!("<Contents><Key>k</Key><Size>{size}</Size><ETag>e</ETag></Contents>");
    said(
        "200 OK",
        "",
        &format!("<ListBucketResult><IsTruncated>false</IsTruncated>{contents}</ListBucketResult>"),
    )
}

#[tokio::test]
async fn a_size_that_is_left_out_is_asked_for_and_never_zero() {
    let ranged =
        |range: &str, body: &str| said("206 Partial", &format!("{TAGGED}content-range: {range}\r\n"), body);
    for (first, listing, size) in [
        (ranged("bytes 0-0/5", "h"), login_page(), Some(5)),
        (said("200 OK", TAGGED, "hello"), login_page(), Some(5)),
        (said("416 Range", "content-range: bytes */0\r\n", ""), login_page(), Some(0)),
        (said("416 Range", "x-amz-request-id: 1\r\n", ""), login_page(), Some(0)),
        (ranged("bytes 0-0/*", "h"), listed(5), Some(5)),
        (until_the_end("hello"), listed(5), Some(5)),
        (chunked("hello"), listed(5), Some(5)),
        (chunked("hello"), login_page(), Some(5)),
        (until_the_end("hello"), login_page(), None),
        (ranged("bytes 0-0/*", "h"), said("404 Not Found", "", ""), None),
        (login_page(), login_page(), None),
    ] {
        let shown = first.clone();
        let (s3, _) = raw(move |head| match head.starts_with("head") {
            true => without_length(),
            false if head.contains("list-type") => listing.clone(),
            false => first.clone(),
        })
        .await;
        let described = s3.head("k", Attempt::FIRST).await;
        assert_eq!(described.as_ref().ok().map(|object| object.size), size, "{shown}: {described:?}");
    }
}

#[tokio::test]
async fn bodies_without_a_length_are_read_whole_or_not_at_all() {
    for (body, described, read) in [
        (chunked("hello"), said("200 OK", TAGGED, "hello"), Some("hello")),
        (until_the_end("hello"), said("200 OK", TAGGED, "hello"), Some("hello")),
        (format!("HTTP/1.0 200 OK\r\n{TAGGED}content-length: 5\r\n\r\nhello"), login_page(), Some("hello")),
        (chunked("hello"), without_length(), Some("hello")),
        // The body is cut, and only the HEAD shows that.
        (until_the_end("hel"), said("200 OK", TAGGED, "hello"), None),
        (chunked("hello!"), said("200 OK", TAGGED, "hello"), None),
    ] {
        let shown = body.clone();
        let (s3, _) = raw(move |head| {
            // A response to a HEAD ends after its headers.
            let described = described.replace("\r\n\r\nhello", "\r\n\r\n");
            if head.starts_with("head") { described } else { body.clone() }
        })
        .await;
        let mut policy = tidegate::settings::RetryPolicy::default();
        policy.attempts = 2;
        let store = tidegate::Tidegate::builder().retry(policy).build().unwrap().store(Arc::new(s3));
        let bytes = match store.reader("k").await {
            Ok(reader) => text(reader).await.ok(),
            Err(_) => None,
        };
        assert_eq!(bytes.as_deref(), read, "{shown}");
        // A range is cut out of the whole object.
        if read.is_some() {
            let reader = store.reader("k").range(1..3).await.unwrap();
            assert_eq!(text(reader).await.unwrap(), "el", "{shown}");
        }
    }
}

#[tokio::test]
async fn an_object_is_known_by_a_weak_or_bare_tag_without_a_condition() {
    for (described, sent, is_same) in [
        ("W/\"e\"", "W/\"e\"", true),
        ("W/\"e\"", "\"e\"", true),
        ("e", "\"e\"", true),
        ("W/\"e\"", "W/\"f\"", false),
        ("e", "f", false),
    ] {
        let (s3, _) = raw(move |head| {
            assert_eq!(header_of(head, "if-match"), None);
            said("200 OK", &format!("etag: {sent}\r\n"), "hello")
        })
        .await;
        let same = Object { key: "k".into(), size: 5, etag: Some(described.into()), ..Object::default() };
        match s3.get("k", None, Some(&same), Attempt::FIRST).await {
            Ok(_) => assert!(is_same, "{described} {sent}"),
            Err(fault) => {
                assert!(!is_same && fault.kind == FaultKind::Replaced, "{described} {sent}: {fault}")
            }
        }
    }
}

#[tokio::test]
async fn a_copy_of_an_object_with_a_weak_tag_is_compared_afterwards() {
    for (tag, kind_then) in [("W/\"e\"", None), ("W/\"f\"", Some(FaultKind::Replaced))] {
        let (s3, _) = raw(move |head| {
            assert_eq!(header_of(head, "x-amz-copy-source-if-match"), None);
            let copied = "<CopyObjectResult><ETag>\"c\"</ETag></CopyObjectResult>";
            let described = format!("HTTP/1.1 200 OK\r\netag: {tag}\r\ncontent-length: 5\r\n\r\n");
            if head.starts_with("put") { said("200 OK", "", copied) } else { described }
        })
        .await;
        let object = Object { key: "a".into(), size: 5, etag: Some("W/\"e\"".into()), ..Object::default() };
        let from = CopySource::new("s3://bucket", "a", object);
        let copied = s3.copy(&from, "k", None, &WriteOptions::default(), Attempt::FIRST).await;
        assert_eq!(copied.err().map(|fault| fault.kind), kind_then);
    }
}

#[tokio::test]
async fn a_refused_write_is_made_again_and_a_later_412_is_a_word() {
    let conflict = || {
        let body = ERROR.replace("CODE", "ConditionalRequestConflict");
        said("409 Conflict", "", &body)
    };
    let exists = || said("412 Precondition Failed", "", &ERROR.replace("CODE", "PreconditionFailed"));
    let bare = || said("409 Conflict", "", "");
    for (answers, expected, asked_for) in [
        (vec![conflict(), proven()], None, 2),
        (vec![bare(), conflict(), exists()], Some(ErrorKind::AlreadyExists), 3),
        (vec![conflict(), exists()], Some(ErrorKind::AlreadyExists), 2),
        (vec![exists()], Some(ErrorKind::AlreadyExists), 1),
    ] {
        let next = AtomicUsize::new(0);
        let (s3, asked) = raw(move |_| answers[next.fetch_add(1, Ordering::Relaxed)].clone()).await;
        let mut writer = store_of(s3).writer("k").create_only().await.unwrap();
        writer.write_bytes(Bytes::from_static(b"hello")).await.unwrap();
        assert_eq!(writer.finish().await.err().map(|error| error.kind()), expected);
        assert_eq!(asked.lock().unwrap().len(), asked_for);
    }
}

#[tokio::test]
async fn rules_that_a_bare_answer_does_not_prove_are_read_back() {
    let rule = AbortRule::new("r", "p/", 3);
    let document = rules::with_rule("", &rule).unwrap();
    let ours = said("200 OK", "", &document);
    let none = said("404 Not Found", "", &ERROR.replace("CODE", "NoSuchLifecycleConfiguration"));
    for (put, get, is_done) in [
        (said("200 OK", "x-amz-request-id: 1\r\n", ""), none.clone(), true),
        (said("200 OK", "", ""), ours.clone(), true),
        (login_page(), ours, true),
        (said("200 OK", "", ""), none.clone(), false),
        (login_page(), none, false),
        (login_page(), login_page(), false),
    ] {
        let (s3, _) = raw(move |head| if head.starts_with("put") { put.clone() } else { get.clone() }).await;
        assert_eq!(s3.add_abort_rule(&Lifecycle::default(), &rule, Attempt::FIRST).await.is_ok(), is_done);
    }
}
