//! Servers that ignore conditions, or have no uploads in parts, and do not say so.

use std::sync::Mutex;

use super::*;
use tidegate_core::backend::Feature;
use tidegate_core::testkit::samples::{Asked, raw_server, said};

async fn raw(answer: impl Fn(&str) -> String + Send + Sync + 'static) -> (Gcs, Asked) {
    let (url, asked) = raw_server(answer).await;
    let settings =
        GcsSettings::default().with_endpoint_url(url).with_credentials(GcsCredentials::anonymous());
    (Gcs::connect("bucket", &settings).await.unwrap(), asked)
}

const THERE: &str = r#"{"name":"k","generation":"1","size":"5"}"#;
const COPIED: &str = r#"{"done":true,"resource":{"name":"k","generation":"2","size":"5"}}"#;

async fn copy_create_only(gcs: &Gcs) -> Result<Copied, Fault> {
    copy_at_attempt(gcs, Attempt::FIRST).await
}

async fn copy_at_attempt(gcs: &Gcs, attempt: Attempt) -> Result<Copied, Fault> {
    let object = Object { size: 5, version: Some("1".into()), ..Object::default() };
    let from = CopySource::new("gs://bucket", "a", object);
    let options = WriteOptions { create_only: true, token: Some("t".into()), ..WriteOptions::default() };
    gcs.copy(&from, "k", None, &options, attempt).await
}

#[tokio::test]
async fn a_copy_replaces_nothing_where_the_server_ignores_the_condition() {
    for (status, there, expected, requests) in [
        ("200 OK", THERE, Some(FaultKind::Exists), &["GET"][..]),
        // A copy that an earlier run of this one made.
        (
            "200 OK",
            r#"{"name":"k","generation":"1","size":"5","metadata":{"tidegate-writer":"t"}}"#,
            None,
            &["GET", "POST"],
        ),
        ("404 Not Found", r#"{"error":{"code":404,"message":"no"}}"#, None, &["GET", "POST"]),
        ("403 Forbidden", r#"{"error":{"code":403,"message":"no"}}"#, None, &["GET", "POST"]),
        ("500 X", "", Some(FaultKind::Transient), &["GET"]),
    ] {
        let (gcs, asked) = raw(move |head| match head.starts_with("post") {
            true => said("200 OK", "", COPIED),
            false => said(status, "", there),
        })
        .await;
        let copied = copy_create_only(&gcs).await;
        assert_eq!(copied.err().map(|fault| fault.kind), expected, "{status} {there}");
        assert_eq!(*asked.lock().unwrap(), requests, "{status} {there}");
        // A request that failed shows nothing.
        let warned = [Feature::CreateOnlyCopy, Feature::CreateOnlyCheck];
        let warned = warned.map(|feature| gcs.bucket.shared.facts.lacks(feature));
        let expected = match status {
            "500 X" => [false, false],
            // No warning says that a key was checked that could not be read.
            "403 Forbidden" => [false, true],
            _ => [true, false],
        };
        assert_eq!(warned, expected, "{status}");
    }
}

/// The first attempt may have failed before its question was answered, so a retry asks too.
#[tokio::test]
async fn a_retried_copy_replaces_nothing_where_the_server_ignores_the_condition() {
    let (gcs, asked) =
        raw(|head| said("200 OK", "", if head.starts_with("post") { COPIED } else { THERE })).await;
    assert_eq!(kind(copy_at_attempt(&gcs, Attempt::nth(2))).await.0, FaultKind::Exists);
    assert_eq!(*asked.lock().unwrap(), ["GET"]);
}

#[tokio::test]
async fn a_server_that_keeps_the_condition_of_copies_is_asked_no_more() {
    let no = |status: &str| said(status, "", r#"{"error":{"message":"no"}}"#);
    let (gcs, asked) = raw(move |head| match head.starts_with("post") {
        true => no("412 Precondition Failed"),
        false => no("404 Not Found"),
    })
    .await;
    for requests in [&["GET", "POST"][..], &["POST"]] {
        assert_eq!(kind(copy_create_only(&gcs)).await.0, FaultKind::Exists);
        assert_eq!(std::mem::take(&mut *asked.lock().unwrap()), requests);
    }
    assert!(gcs.bucket.facts.has(Feature::CreateOnlyCopy));
    // Google's own server behind a proxy.
    let (gcs, asked) = raw(|_| said("200 OK", "server: UploadServer\r\n", COPIED)).await;
    kind_of_head(&gcs).await;
    copy_create_only(&gcs).await.unwrap();
    assert_eq!(*asked.lock().unwrap(), ["GET", "POST"]);
}

/// Makes the server known by an answer of any kind.
async fn kind_of_head(gcs: &Gcs) {
    drop(gcs.head("k", Attempt::FIRST).await);
}

#[tokio::test]
async fn a_server_that_fails_to_open_parts_has_none_unless_it_has_opened_some() {
    let open = async |gcs: &Gcs| {
        Parts::open(gcs, "k", &WriteOptions::default(), PartOrigin::Sent, Attempt::FIRST).await
    };
    let eof = || said("500 X", "", r#"{"error":{"code":500,"message":"EOF"}}"#);
    let (gcs, _) = raw(move |_| eof()).await;
    let fault = open(&gcs).await.unwrap_err();
    assert!(fault.kind == FaultKind::Unsupported && fault.message.contains("EOF"), "{fault}");
    assert!(!gcs.bucket.shared.facts.lacks(Feature::PartsBesideAppends), "another one may open");
    // A refusal in XML is from a server with such uploads.
    let (gcs, _) = raw(|_| said("500 X", "", "<Error><Code>InternalError</Code></Error>")).await;
    assert_eq!(kind(open(&gcs)).await.0, FaultKind::Transient);
    let opened = "<InitiateMultipartUploadResult><UploadId>u</UploadId></InitiateMultipartUploadResult>";
    let answers = Mutex::new(vec![eof(), said("200 OK", "", opened)]);
    let (gcs, _) = raw(move |_| answers.lock().unwrap().pop().unwrap()).await;
    open(&gcs).await.unwrap();
    assert_eq!(kind(open(&gcs)).await.0, FaultKind::Transient);
}

#[tokio::test]
async fn a_write_replaces_nothing_where_the_server_ignores_the_condition() {
    let options = WriteOptions { create_only: true, token: Some("t".into()), ..WriteOptions::default() };
    for (is_there, expected, requests) in
        [(true, Some(FaultKind::Exists), &["GET"][..]), (false, None, &["GET", "POST"])]
    {
        for write in [Feature::CreateOnly, Feature::CreateOnlyParts] {
            let (gcs, asked) = raw(move |head| match (head.starts_with("post"), is_there) {
                (true, _) => said("200 OK", "location: http://127.0.0.1/upload?upload_id=1\r\n", THERE),
                (false, true) => said("200 OK", "", THERE),
                (false, false) => said("404 Not Found", "", r#"{"error":{"code":404,"message":"no"}}"#),
            })
            .await;
            let payload = tidegate_core::testkit::samples::memory_of(b"bytes", Algorithm::Crc32c);
            let written = match write {
                Feature::CreateOnly => gcs.put("k", payload, &options, Attempt::FIRST).await.map(drop),
                _ => Append::open(&gcs, "k", &options, Attempt::FIRST).await.map(drop),
            };
            assert_eq!(written.err().map(|fault| fault.kind), expected, "{write:?} {is_there}");
            assert_eq!(*asked.lock().unwrap(), requests, "{write:?}");
            assert!(gcs.bucket.shared.facts.lacks(write), "a warning is given");
        }
    }
    // A refusal shows that the server of the bucket keeps the condition; a gateway may have another for each bucket.
    let (gcs, asked) = raw(|head| match head.starts_with("post") {
        true => said("412 Precondition Failed", "", r#"{"error":{"message":"no"}}"#),
        false => said("404 Not Found", "", r#"{"error":{"message":"no"}}"#),
    })
    .await;
    let other = GcsClient { shared: gcs.bucket.shared.clone() }.bucket("other").unwrap();
    for (bucket, requests) in [(&gcs, &["GET", "POST"][..]), (&gcs, &["POST"]), (&other, &["GET", "POST"])] {
        let payload = tidegate_core::testkit::samples::memory_of(b"bytes", Algorithm::Crc32c);
        assert_eq!(kind(bucket.put("k", payload, &options, Attempt::FIRST)).await.0, FaultKind::Exists);
        assert_eq!(std::mem::take(&mut *asked.lock().unwrap()), requests);
    }
}

/// gcp-storage-emulator: a server of HTTP/1.0 takes a stream that breaks off for a whole one, and publishes it.
#[tokio::test]
async fn nothing_is_streamed_to_a_server_of_http_1_0() {
    for version in ["HTTP/1.1", "HTTP/1.0"] {
        let location = Arc::new(Mutex::new(String::new()));
        let at = location.clone();
        let (gcs, asked) = raw(move |_| {
            let location = at.lock().unwrap();
            said("200 OK", &format!("location: {location}\r\n"), "").replace("HTTP/1.1", version)
        })
        .await;
        *location.lock().unwrap() =
            gcs.bucket.json.uploads(&[("uploadType", "resumable"), ("upload_id", "u")]);
        let session = Append::open(&gcs, "k", &WriteOptions::default(), Attempt::FIRST).await.unwrap();
        let is_streamed = version == "HTTP/1.1";
        assert_eq!(gcs.tells_position(&session), is_streamed, "{version}");
        assert_eq!(gcs.bucket.shared.facts.lacks(Feature::SessionPosition), !is_streamed);
        if !is_streamed {
            let refused = gcs.stream(&session, 0, Unending::new().1, Attempt::FIRST).await.unwrap_err();
            assert_eq!((refused.kind, asked.lock().unwrap().len()), (FaultKind::Unsupported, 1));
        }
    }
}

#[tokio::test]
async fn a_page_in_place_of_a_listing_of_uploads_is_no_other_server_where_objects_are_listed() {
    let (gcs, _) = raw(|head| match head.contains("?uploads") {
        true => tidegate_core::testkit::samples::login_page(),
        false => said("200 OK", "", r#"{"kind":"storage#objects"}"#),
    })
    .await;
    let open: Vec<OpenSession> = gcs.sessions("").try_collect().await.unwrap();
    assert!(open.is_empty() && gcs.bucket.shared.facts.lacks(Feature::PartsBesideAppends));
}
