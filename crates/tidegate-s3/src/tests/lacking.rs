//! Servers that lack what requests use: what replaces it, and that it is asked for once.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex};

use super::raw::{connect_unknown, store_of};
use sha2::Digest as _;

use super::*;
use tidegate::settings::RetryPolicy;
use tidegate::{ErrorKind, Tidegate};
use tidegate_core::backend::PartSource;
use tidegate_core::testkit::samples::{header_of, raw_server, said};

const DATA: &[u8] = b"hello, tide";

/// The heads of the requests that a server has received, in lower case.
type Heads = Arc<Mutex<Vec<String>>>;

/// A server that refuses with `refusal` what `is_lacking` says of a request's head, and answers others with `answer`.
async fn lacking(
    is_lacking: impl Fn(&str) -> bool + Send + Sync + 'static,
    refusal: String,
    answer: impl Fn(&str) -> String + Send + Sync + 'static,
) -> (S3, Heads) {
    let heads = Heads::default();
    let log = heads.clone();
    let (url, _) = raw_server(move |head| {
        log.lock().unwrap().push(head.to_owned());
        if is_lacking(head) { refusal.clone() } else { answer(head) }
    })
    .await;
    (connect_unknown(url).await, heads)
}

fn refusal(status: &str, code: &str, message: &str) -> String {
    said(status, "", &format!("<Error><Code>{code}</Code><Message>{message}</Message></Error>"))
}

/// The answer to a write whose checksum the store keeps.
fn kept() -> String {
    let sum = Checksum::of(Algorithm::Crc64Nvme, DATA).base64();
    said("200 OK", &format!("etag: \"e\"\r\nx-amz-checksum-crc64nvme: {sum}\r\n"), "")
}

/// The answer to a write, or the description of it, without a checksum.
fn bare(head: &str) -> String {
    let length = if head.starts_with("head") { DATA.len() } else { 0 };
    format!("HTTP/1.1 200 OK\r\netag: \"e\"\r\ncontent-length: {length}\r\n\r\n")
}

async fn put_file(s3: &S3) -> Result<Object, Fault> {
    let on_disk = OnDisk::new(DATA).await;
    s3.put("k", on_disk.payload(0..DATA.len()), &WriteOptions::default(), Attempt::FIRST).await
}

fn facts(s3: &S3) -> &tidegate_core::backend::Facts {
    &s3.bucket.shared.facts
}

#[tokio::test]
async fn a_checksum_goes_before_the_bytes_where_the_server_has_no_trailers() {
    for (status, code, message) in [
        (
            "501 Not Implemented",
            "NotImplemented",
            "A header you provided implies functionality not implemented",
        ),
        ("400 Bad Request", "InvalidArgument", "x-amz-content-sha256 must be UNSIGNED-PAYLOAD or a SHA-256"),
        ("400 Bad Request", "XAmzContentSHA256Mismatch", "The SHA-256 does not match"),
        ("411 Length Required", "MissingContentLength", "You must provide the Content-Length"),
        ("403 Forbidden", "SignatureDoesNotMatch", "The signature does not match"),
    ] {
        let is_framed = |head: &str| header_of(head, "x-amz-trailer").is_some();
        let (s3, heads) = lacking(is_framed, refusal(status, code, message), |_| kept()).await;
        facts(&s3).learn_has(Feature::Trailers);
        for requests in [2, 1] {
            let object = put_file(&s3).await.unwrap();
            assert_eq!(object.size, DATA.len() as u64);
            let heads = std::mem::take(&mut *heads.lock().unwrap());
            assert_eq!(heads.len(), requests, "{code}");
            let last = heads.last().unwrap();
            assert_eq!(header_of(last, "content-length").unwrap(), DATA.len().to_string());
            assert!(header_of(last, "x-amz-checksum-crc64nvme").is_some(), "{last}");
            assert_eq!(header_of(last, "content-encoding"), None);
        }
        assert!(facts(&s3).lacks(Feature::Trailers) && !facts(&s3).lacks(Feature::Crc64Nvme), "{code}");
    }
}

/// A server that knows no trailers may not refuse them, but take the framing for the object's bytes.
#[tokio::test]
async fn trailers_are_used_when_the_server_has_shown_that_it_knows_our_checksums() {
    let is_framed = |head: &String| header_of(head, "x-amz-trailer").is_some();
    let keeps: [fn(&str) -> String; 2] = [|_| kept(), bare];
    for (answer, expected) in keeps.into_iter().zip([[false, true], [false, false]]) {
        let (s3, heads) = lacking(|_| false, String::new(), answer).await;
        for framed in expected {
            put_file(&s3).await.unwrap();
            let heads = std::mem::take(&mut *heads.lock().unwrap());
            assert_eq!(is_framed(&heads[0]), framed, "{}", heads[0]);
        }
    }
}

#[tokio::test]
async fn a_refusal_about_something_else_teaches_nothing() {
    for (status, code, kind) in [
        ("501 Not Implemented", "NotImplemented", FaultKind::Unsupported),
        ("403 Forbidden", "SignatureDoesNotMatch", FaultKind::Credentials),
        ("503 Slow Down", "SlowDown", FaultKind::Throttled),
        ("400 Bad Request", "InvalidStorageClass", FaultKind::Invalid),
    ] {
        let (s3, _) = lacking(|_| true, refusal(status, code, "no"), |_| kept()).await;
        facts(&s3).learn_has(Feature::Trailers);
        assert_eq!(put_file(&s3).await.unwrap_err().kind, kind, "{code}");
        assert_eq!(facts(&s3).lacking(), FeatureSet::default(), "{code}");
    }
}

#[tokio::test]
async fn the_signature_covers_the_bytes_where_the_server_takes_no_checksum() {
    let has_sum = |head: &str| {
        let asks = "x-amz-checksum-mode";
        head.replace(asks, "").contains("x-amz-checksum-") || head.contains("x-amz-trailer")
    };
    let refused = refusal("400 Bad Request", "InvalidRequest", "The checksum algorithm is not supported");
    let opened = "<InitiateMultipartUploadResult><UploadId>u</UploadId></InitiateMultipartUploadResult>";
    let completed = "<CompleteMultipartUploadResult><ETag>\"e\"</ETag></CompleteMultipartUploadResult>";
    let (s3, heads) = lacking(has_sum, refused, move |head| match head.lines().next().unwrap() {
        line if line.contains("?uploads") => said("200 OK", "", opened),
        line if line.starts_with("post") => said("200 OK", "", completed),
        _ => bare(head),
    })
    .await;
    let session = s3.open("k", &WriteOptions::default(), PartOrigin::Sent, Attempt::FIRST).await.unwrap();
    let part = s3.part(&session, 1, 0, in_memory(DATA).into(), Attempt::FIRST).await.unwrap();
    let parts = [part.clone()];
    let options = WriteOptions::default();
    s3.complete(&session, &parts, part.checksum.as_ref(), &options, Attempt::FIRST).await.unwrap();
    put_file(&s3).await.unwrap();
    let heads = heads.lock().unwrap();
    let asked: Vec<_> = heads.iter().map(|head| (head.split(' ').next().unwrap(), has_sum(head))).collect();
    let expected = [
        ("post", true),
        ("post", false),
        ("put", false),
        ("post", false),
        ("head", false),
        ("put", false),
        ("head", false),
    ];
    assert_eq!(asked, expected);
    let sha256: String = sha2::Sha256::digest(DATA).iter().map(|byte| format!("{byte:02x}")).collect();
    for put in heads.iter().filter(|head| head.starts_with("put")) {
        assert_eq!(header_of(put, "x-amz-content-sha256").as_deref(), Some(sha256.as_str()));
    }
}

#[tokio::test]
async fn a_server_that_keeps_no_checksum_is_known_by_its_description_of_what_was_written() {
    let (s3, heads) = lacking(|_| false, String::new(), bare).await;
    let options = WriteOptions::default();
    let put = || s3.put("k", in_memory(DATA), &options, Attempt::FIRST);
    put().await.unwrap();
    assert!(facts(&s3).lacks(Feature::Crc64Nvme));
    put().await.unwrap();
    let heads = heads.lock().unwrap();
    let puts: Vec<_> = heads.iter().filter(|head| head.starts_with("put")).collect();
    assert!(header_of(puts[0], "x-amz-checksum-crc64nvme").is_some(), "{}", puts[0]);
    assert_eq!(header_of(puts[0], "x-amz-content-sha256").as_deref(), Some("unsigned-payload"));
    assert_eq!(header_of(puts[1], "x-amz-content-sha256").unwrap().len(), 64);
}

/// A server may keep checksums of objects that are sent in one request, and of others only their parts'.
#[tokio::test]
async fn a_composite_checksum_shows_that_the_server_keeps_checksums() {
    let (s3, _) = lacking(
        |_| false,
        String::new(),
        |head| match head.starts_with("head") {
            true => {
                let checksum = "x-amz-checksum-crc64nvme: AAAAAAAAAAA=-2\r\n";
                format!("HTTP/1.1 200 OK\r\netag: \"e\"\r\n{checksum}content-length: {}\r\n\r\n", DATA.len())
            }
            false => bare(head),
        },
    )
    .await;
    s3.put("k", in_memory(DATA), &WriteOptions::default(), Attempt::FIRST).await.unwrap();
    assert_eq!(facts(&s3).lacking(), FeatureSet::default());
}

/// The refusal names nothing, so the features are left out one after the other.
#[tokio::test]
async fn only_the_feature_whose_absence_helped_is_known_to_be_lacking() {
    let is_unsigned = |head: &str| header_of(head, "x-amz-content-sha256").is_some_and(|sum| sum.len() != 64);
    let (s3, _) =
        lacking(is_unsigned, refusal("501 Not Implemented", "NotImplemented", "no"), |_| kept()).await;
    put_file(&s3).await.unwrap();
    let lacks = |feature| facts(&s3).lacks(feature);
    assert!(!lacks(Feature::Trailers) && !lacks(Feature::Crc64Nvme), "{:?}", facts(&s3).lacking());
}

#[tokio::test]
async fn a_refused_attribute_shows_no_lack_of_uploads_in_parts() {
    let said = "Server side encryption specified but KMS is not configured";
    let (s3, _) = lacking(|_| true, refusal("501 Not Implemented", "NotImplemented", said), |_| kept()).await;
    let options = WriteOptions::default();
    let opened = s3.open("k", &options, PartOrigin::Sent, Attempt::FIRST).await;
    assert!(opened.unwrap_err().message.contains("KMS"));
    assert_eq!(facts(&s3).lacking(), FeatureSet::default());
}

#[tokio::test]
async fn a_removal_without_its_condition_is_told() {
    let is_conditional = |head: &str| header_of(head, "if-match").is_some();
    let same = Object { etag: Some("\"e\"".into()), ..Object::default() };
    for (code, is_lacking) in [("NotImplemented", true), ("", false)] {
        let refused = match is_lacking {
            true => refusal("501 Not Implemented", code, "no"),
            // A proxy's answer.
            false => said("501 Not Implemented", "", "no"),
        };
        let (s3, _) = lacking(is_conditional, refused, |_| said("204 No Content", "", "")).await;
        assert_eq!(s3.delete("k", Some(&same), Attempt::FIRST).await.is_ok(), is_lacking, "{code}");
        assert_eq!(facts(&s3).lacks(Feature::ConditionalDelete), is_lacking, "{code}");
    }
}

/// gofakes3, the server in `rclone serve s3`, answers so.
#[tokio::test]
async fn the_answer_of_gofakes3_opens_a_session() {
    let opened = "<InitiateMultipartUpload><UploadId>u</UploadId></InitiateMultipartUpload>";
    let (s3, _) = lacking(|_| false, String::new(), move |_| said("200 OK", "", opened)).await;
    let session = s3.open("k", &WriteOptions::default(), PartOrigin::Sent, Attempt::FIRST).await.unwrap();
    assert_eq!(session.id, "u");
}

/// So gofakes3 answers until a bucket has its first upload.
#[tokio::test]
async fn an_unknown_upload_in_answer_to_a_listing_is_an_empty_listing() {
    let (s3, _) = lacking(|_| true, refusal("404 Not Found", "NoSuchUpload", "no"), |_| kept()).await;
    let listed: Vec<OpenSession> = s3.sessions("").try_collect().await.unwrap();
    assert_eq!(listed, []);
}

#[tokio::test]
async fn keys_are_listed_as_they_stand_where_the_server_does_not_encode_them() {
    let page = "<ListBucketResult><IsTruncated>false</IsTruncated><Contents><Key>a+b%20c</Key><Size>1</Size></Contents>\
                </ListBucketResult>";
    let refused = refusal("400 Bad Request", "InvalidArgument", "encoding-type is not supported");
    let is_encoded = |head: &str| head.contains("encoding-type");
    let (s3, heads) = lacking(is_encoded, refused, move |_| said("200 OK", "", page)).await;
    for requests in [2, 1] {
        let listed: Vec<Entry> = s3.list("", true).try_collect().await.unwrap();
        assert_eq!(listed.iter().map(Entry::key).collect::<Vec<_>>(), ["a+b%20c"]);
        assert_eq!(std::mem::take(&mut *heads.lock().unwrap()).len(), requests);
    }
}

#[tokio::test]
async fn a_server_with_the_first_version_of_listings_is_listed_to_the_end() {
    let page = |key: &str, more: bool| {
        let inside =
            format!("<Marker/><IsTruncated>{more}</IsTruncated><Contents><Key>{key}</Key></Contents>");
        said("200 OK", "", &format!("<ListBucketResult>{inside}</ListBucketResult>"))
    };
    let answer = move |head: &str| match head.contains("marker=a&") || head.contains("marker=a ") {
        true => page("b", false),
        false => page("a", true),
    };
    let refused = || refusal("501 Not Implemented", "NotImplemented", "ListObjectsV2");
    let ignores = lacking(|_| false, String::new(), answer).await;
    let refuses = lacking(|head| head.contains("list-type=2"), refused(), answer).await;
    for (s3, heads) in [ignores, refuses] {
        let listed: Vec<Entry> = s3.list("", true).try_collect().await.unwrap();
        assert_eq!(listed.iter().map(Entry::key).collect::<Vec<_>>(), ["a", "b"]);
        let last = heads.lock().unwrap().pop().unwrap();
        assert!(!last.contains("list-type") && facts(&s3).lacks(Feature::ListV2), "{last}");
    }
}

fn create_only() -> WriteOptions {
    WriteOptions { create_only: true, token: Some("t".into()), ..WriteOptions::default() }
}

#[tokio::test]
async fn a_refused_condition_is_an_error_and_nothing_is_written_without_it() {
    for (status, code, message) in [
        (
            "501 Not Implemented",
            "NotImplemented",
            "A header you provided implies functionality that is not there",
        ),
        ("400 Bad Request", "InvalidArgument", "If-None-Match is not supported"),
    ] {
        let has_condition = |head: &str| header_of(head, "if-none-match").is_some();
        let (s3, heads) = lacking(has_condition, refusal(status, code, message), |head| {
            if head.starts_with("head") {
                said("404 Not Found", "x-amz-request-id: 1\r\n", "")
            } else {
                kept()
            }
        })
        .await;
        let fault = s3.put("k", in_memory(DATA), &create_only(), Attempt::FIRST).await.unwrap_err();
        assert_eq!(fault.kind, FaultKind::Unsupported, "{fault}");
        assert!(fault.message.contains("can't promise that nothing is replaced"), "{fault}");
        let heads = heads.lock().unwrap();
        assert!(heads.iter().filter(|head| head.starts_with("put")).all(|head| has_condition(head)));
    }
}

#[tokio::test]
async fn an_object_is_not_replaced_where_the_server_ignores_the_condition() {
    let (s3, heads) = lacking(|_| false, String::new(), bare).await;
    let fault = s3.put("k", in_memory(DATA), &create_only(), Attempt::FIRST).await.unwrap_err();
    assert_eq!((fault.kind, fault.answered), (FaultKind::Exists, true), "{fault}");
    assert!(heads.lock().unwrap().iter().all(|head| head.starts_with("head")));
}

/// The first attempt may have failed before its question was answered, so a retry asks too.
#[tokio::test]
async fn a_retry_replaces_no_object_where_the_server_ignores_the_condition() {
    let (s3, heads) = lacking(|_| false, String::new(), bare).await;
    let fault = s3.put("k", in_memory(DATA), &create_only(), Attempt::nth(2)).await.unwrap_err();
    assert_eq!((fault.kind, fault.answered), (FaultKind::Exists, true), "{fault}");
    assert!(heads.lock().unwrap().iter().all(|head| head.starts_with("head")));
}

#[tokio::test]
async fn a_server_that_has_kept_the_condition_is_asked_no_more() {
    let refused = refusal("412 Precondition Failed", "PreconditionFailed", "no");
    let (s3, heads) =
        lacking(|head| head.starts_with("put"), refused, |_| said("404 Not Found", "", "")).await;
    // A gateway may have another server for another bucket.
    let other = S3Client { shared: s3.bucket.shared.clone() }.bucket("other").unwrap();
    for (bucket, requests) in [(&s3, 2), (&s3, 1), (&other, 2)] {
        let fault = bucket.put("k", in_memory(DATA), &create_only(), Attempt::FIRST).await.unwrap_err();
        assert_eq!(fault.kind, FaultKind::Exists, "{fault}");
        assert_eq!(std::mem::take(&mut *heads.lock().unwrap()).len(), requests);
    }
}

/// A caller who may write but not read leaves the condition to the server, and no warning says that the key was checked.
#[tokio::test]
async fn a_warning_tells_that_a_key_could_not_be_checked() {
    let forbidden = said("403 Forbidden", "x-amz-request-id: 1\r\n", "");
    let (s3, _) = lacking(|head| head.starts_with("head"), forbidden, |_| kept()).await;
    s3.put("k", in_memory(DATA), &create_only(), Attempt::FIRST).await.unwrap();
    assert!(facts(&s3).lacks(Feature::CreateOnlyCheck) && !facts(&s3).lacks(Feature::CreateOnly));
    assert!(Feature::CreateOnlyCheck.notice().contains("403"), "{}", Feature::CreateOnlyCheck.notice());
}

#[tokio::test]
async fn an_upload_goes_in_one_request_where_the_server_has_no_parts() {
    let (s3, heads) = lacking(
        |head| head.contains("?uploads"),
        refusal("501 Not Implemented", "NotImplemented", "no"),
        bare_of_any_size,
    )
    .await;
    let store = Tidegate::builder().retry(RetryPolicy::default()).build().unwrap().store(Arc::new(s3));
    let data = bytes_of(17 * MIB);
    let on_disk = OnDisk::new(&data).await;
    // The refusal does not say what is lacking, so the session is asked for once more, without a checksum.
    let first = [("post", 0), ("post", 0), ("put", data.len())];
    for expected in [&first[..], &first[2..]] {
        let object = store.upload(on_disk.file.path(), "k").await.unwrap();
        assert_eq!(object.size, data.len() as u64);
        assert_eq!(sizes(&heads), expected);
    }
    store.put("k", data.clone()).await.unwrap();
    assert_eq!(sizes(&heads), &first[2..]);
}

/// As `bare`, with the size of the object above in every description.
fn bare_of_any_size(head: &str) -> String {
    let length = if head.starts_with("head") { 17 * MIB } else { 0 };
    format!("HTTP/1.1 200 OK\r\netag: \"e\"\r\ncontent-length: {length}\r\n\r\n")
}

/// The methods of the requests that write, and the sizes of their bodies as they were before they were framed.
fn sizes(heads: &Heads) -> Vec<(&'static str, usize)> {
    let heads = std::mem::take(&mut *heads.lock().unwrap());
    let size = |head: &String| {
        let length = header_of(head, "x-amz-decoded-content-length").or(header_of(head, "content-length"));
        length.map_or(0, |length| length.parse().unwrap())
    };
    let method = |head: &String| match head.split(' ').next().unwrap() {
        "put" => Some("put"),
        "post" => Some("post"),
        _ => None,
    };
    heads.iter().filter_map(|head| Some((method(head)?, size(head)))).collect()
}

#[tokio::test]
async fn a_bucket_in_another_region_is_found_once() {
    let wrong = "<Error><Code>AuthorizationHeaderMalformed</Code><Message>no</Message><Region>eu-west-1</Region></Error>";
    let moved = "x-amz-bucket-region: eu-west-1\r\n";
    for refusal in [
        said("400 Bad Request", "", wrong),
        said("400 Bad Request", moved, ""),
        said("301 Moved Permanently", moved, "<Error><Code>PermanentRedirect</Code></Error>"),
        said("307 Temporary Redirect", &format!("{moved}location: http://elsewhere.invalid/\r\n"), ""),
    ] {
        let is_wrong = |head: &str| !head.contains("/eu-west-1/s3/");
        let (s3, heads) = lacking(is_wrong, refusal, |_| kept()).await;
        for requests in [2, 1] {
            put_file(&s3).await.unwrap();
            let heads = std::mem::take(&mut *heads.lock().unwrap());
            assert_eq!(heads.len(), requests);
            assert!(header_of(heads.last().unwrap(), "authorization").unwrap().contains("/eu-west-1/s3/"));
        }
    }
}

#[tokio::test]
async fn a_redirection_to_another_host_is_not_followed() {
    let (other, asked) = raw_server(|_| kept()).await;
    let location = format!("location: {other}/bucket/k\r\n");
    let (s3, heads) = lacking(|_| true, said("307 Temporary Redirect", &location, ""), |_| kept()).await;
    let fault = put_file(&s3).await.unwrap_err();
    assert_eq!(fault.kind, FaultKind::Invalid);
    assert!(fault.message.contains(&other), "{fault}");
    assert_eq!((heads.lock().unwrap().len(), asked.lock().unwrap().len()), (1, 0));
}

#[tokio::test]
async fn a_region_that_is_refused_too_ends_it() {
    let wrong = "<Error><Code>AuthorizationHeaderMalformed</Code><Message>no</Message><Region>eu-west-1</Region></Error>";
    let (s3, heads) = lacking(|_| true, said("400 Bad Request", "", wrong), |_| kept()).await;
    assert_eq!(put_file(&s3).await.unwrap_err().kind, FaultKind::Invalid);
    assert_eq!(heads.lock().unwrap().len(), 2);
}

#[tokio::test]
async fn requests_say_that_the_caller_pays() {
    let (url, _) = raw_server(|head| {
        let pays = header_of(head, "x-amz-request-payer").as_deref() == Some("requester");
        let is_signed =
            header_of(head, "authorization").is_some_and(|auth| auth.contains("x-amz-request-payer"));
        if pays && is_signed { kept() } else { said("403 Forbidden", "", "") }
    })
    .await;
    let settings = connect_unknown(url.clone()).await.bucket.shared.settings.clone();
    for (pays, is_done) in [(true, true), (false, false)] {
        let s3 = S3::connect("bucket", &settings.clone().with_request_payer(pays)).await.unwrap();
        assert_eq!(put_file(&s3).await.is_ok(), is_done);
    }
}

#[tokio::test]
async fn an_error_names_an_access_point_that_cannot_be_used() {
    let (s3, _) = lacking(|_| false, String::new(), |_| kept()).await;
    let settings = s3.bucket.shared.settings.clone();
    let refused = S3::connect("arn:aws:s3::123456789012:accesspoint/x.mrap", &settings).await.unwrap_err();
    assert_eq!(refused.kind, FaultKind::Unsupported, "{refused}");
    let store = store_of(s3);
    assert_eq!(store.head("k").await.map_err(|error| error.kind()).err(), None::<ErrorKind>);
}

#[tokio::test]
async fn a_server_that_refuses_the_question_for_a_checksum_is_read_without_it() {
    let refused = refusal("400 Bad Request", "InvalidArgument", "Unsupported header 'x-amz-checksum-mode'");
    let (s3, asked) =
        super::raw::raw(move |head| match (head.contains("x-amz-checksum-mode"), head.starts_with("head")) {
            // HTTP has no body in the answer to a HEAD.
            (true, true) => "HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n".to_owned(),
            (true, false) => refused.clone(),
            (false, true) => "HTTP/1.1 200 OK\r\netag: \"e\"\r\ncontent-length: 1\r\n\r\n".to_owned(),
            (false, false) => said("200 OK", "etag: \"e\"\r\n", "a"),
        })
        .await;
    for requests in [&["HEAD", "HEAD", "HEAD"][..], &["HEAD"]] {
        assert_eq!(s3.head("k", Attempt::FIRST).await.unwrap().size, 1);
        assert_eq!(std::mem::take(&mut *asked.lock().unwrap()), requests);
    }
    assert_eq!(tidegate_core::testkit::samples::read_back(&s3, "k", None).await, b"a");
    assert_eq!(*asked.lock().unwrap(), ["GET"]);
    assert!(facts(&s3).lacks(Feature::ChecksumMode));
}

#[tokio::test]
async fn a_missing_object_shows_too_that_the_question_for_checksums_is_refused() {
    let (s3, asked) = super::raw::raw(move |head| match head.contains("x-amz-checksum-mode") {
        true => "HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n".to_owned(),
        false => "HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n".to_owned(),
    })
    .await;
    for _ in 0..3 {
        assert_eq!(s3.head("k", Attempt::FIRST).await.unwrap_err().kind, FaultKind::NotFound);
    }
    assert_eq!(asked.lock().unwrap().len(), 5, "two refusals, and an answer for each of three");
}

#[tokio::test]
async fn a_single_refusal_without_a_reason_does_not_end_the_question_for_checksums() {
    let refusals = std::sync::atomic::AtomicUsize::new(1);
    let sum = Checksum::of(Algorithm::Crc64Nvme, DATA).base64();
    let (s3, asked) = super::raw::raw(move |head| {
        let left = refusals.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(1));
        match (left, head.contains("x-amz-checksum-mode")) {
            (Ok(_), _) => "HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n".to_owned(),
            (Err(_), true) => {
                let sum = format!("etag: \"e\"\r\nx-amz-checksum-crc64nvme: {sum}\r\n");
                format!("HTTP/1.1 200 OK\r\n{sum}content-length: {}\r\n\r\n", DATA.len())
            }
            (Err(_), false) => bare(head),
        }
    })
    .await;
    assert!(s3.head("k", Attempt::FIRST).await.unwrap().crc64nvme.is_some());
    assert_eq!(*asked.lock().unwrap(), ["HEAD", "HEAD"]);
    assert!(!facts(&s3).lacks(Feature::ChecksumMode));
}

#[tokio::test]
async fn a_refusal_of_a_head_is_explained_by_that_of_a_get() {
    let cause =
        refusal("400 Bad Request", "InvalidRequest", "The object was stored using a form of Encryption");
    let (s3, _) = super::raw::raw(move |head| match head.starts_with("head") {
        true => "HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n".to_owned(),
        false => cause.clone(),
    })
    .await;
    let (_, message) = kind(s3.head("k", Attempt::FIRST)).await;
    assert!(message.contains("a form of Encryption"), "{message}");
    assert!(!facts(&s3).lacks(Feature::ChecksumMode), "nothing shows that");
}

#[tokio::test]
async fn a_head_that_is_refused_because_of_its_address_says_so() {
    let cause = refusal("403 Forbidden", "SecondLevelDomainForbidden", "Please use virtual hosted style");
    for status in ["403 Forbidden", "301 Moved Permanently", "400 Bad Request"] {
        let cause = cause.clone();
        let (s3, _) = super::raw::raw(move |head| match head.starts_with("head") {
            true => said(status, "", ""),
            false => cause.clone(),
        })
        .await;
        let error = store_of(s3).head("k").await.unwrap_err();
        assert!(error.refuses_path_style() && error.to_string().contains("--addressing virtual"), "{error}");
    }
    // A caller who may not read gets no second question where the bucket has answered one.
    let (s3, asked) = super::raw::raw(|head| match head.starts_with("head") {
        true => said("403 Forbidden", "", ""),
        false => kept(),
    })
    .await;
    s3.put("k", in_memory(DATA), &WriteOptions::default(), Attempt::FIRST).await.unwrap();
    assert_eq!(kind(s3.head("k", Attempt::FIRST)).await.0, FaultKind::Denied);
    assert_eq!(*asked.lock().unwrap(), ["PUT", "HEAD"]);
}

#[tokio::test]
async fn a_completion_names_the_checksums_of_parts_only_where_their_answers_have_them() {
    for has_sums in [true, false] {
        let sum = Checksum::of(Algorithm::Crc64Nvme, DATA).base64();
        let bodies = Arc::new(std::sync::Mutex::new(Vec::new()));
        let log = bodies.clone();
        let opened = "<InitiateMultipartUploadResult><UploadId>u</UploadId></InitiateMultipartUploadResult>";
        let completed = "<CompleteMultipartUploadResult><ETag>\"e\"</ETag></CompleteMultipartUploadResult>";
        let (s3, _) = super::raw::raw(move |head| match head.lines().next().unwrap() {
            line if line.contains("?uploads") => said("200 OK", "", opened),
            line if line.starts_with("post") => {
                log.lock()
                    .unwrap()
                    .push(header_of(head, "content-length").unwrap().parse::<usize>().unwrap());
                said("200 OK", "", completed)
            }
            line if line.starts_with("put") && has_sums => {
                said("200 OK", &format!("etag: \"e\"\r\nx-amz-checksum-crc64nvme: {sum}\r\n"), "")
            }
            _ => said("200 OK", "etag: \"e\"\r\n", ""),
        })
        .await;
        let session = s3.open("k", &WriteOptions::default(), PartOrigin::Sent, Attempt::FIRST).await.unwrap();
        let part = s3.part(&session, 1, 0, in_memory(DATA).into(), Attempt::FIRST).await.unwrap();
        let (options, whole) = (WriteOptions::default(), part.checksum);
        s3.complete(&session, std::slice::from_ref(&part), whole.as_ref(), &options, Attempt::FIRST)
            .await
            .unwrap();
        let expected = tidegate_http::xml::complete::completion(named(&[part], has_sums)).unwrap();
        assert_eq!(*bodies.lock().unwrap(), [expected.len()], "{has_sums}");
    }
}

/// The parts were sent by an earlier process, which alone saw whether their answers had checksums.
#[tokio::test]
async fn a_resumed_completion_that_names_checksums_the_server_has_not_is_repeated_without() {
    let checksum = Checksum::of(Algorithm::Crc64Nvme, DATA);
    let part = |checksum| Receipt { number: 1, size: DATA.len() as u64, checksum, etag: "\"e\"".into() };
    let [with, without] = [true, false].map(|names_sums| {
        let parts = [part(Some(checksum))];
        tidegate_http::xml::complete::completion(named(&parts, names_sums)).unwrap().len()
    });
    for is_whole in [true, false] {
        let bodies = Arc::new(std::sync::Mutex::new(Vec::new()));
        let log = bodies.clone();
        let completed = "<CompleteMultipartUploadResult><ETag>\"e\"</ETag></CompleteMultipartUploadResult>";
        let (s3, _) = super::raw::raw(move |head| {
            if !head.starts_with("post") {
                return said("200 OK", "etag: \"e\"\r\n", "");
            }
            let length = header_of(head, "content-length").unwrap().parse::<usize>().unwrap();
            log.lock().unwrap().push(length);
            match is_whole && length == without {
                true => said("200 OK", "", completed),
                false => refusal("400 Bad Request", "InvalidPart", "a part could not be found"),
            }
        })
        .await;
        let session = Session { key: "k".into(), id: "u".into() };
        let (parts, options) = ([part(Some(checksum))], WriteOptions::default());
        let done = s3.complete(&session, &parts, Some(&checksum), &options, Attempt::FIRST).await;
        assert_eq!(*bodies.lock().unwrap(), [with, without], "{is_whole}");
        assert_eq!(
            facts(&s3).lacks(Feature::PartChecksums),
            is_whole,
            "only what the answer shows is learned"
        );
        match is_whole {
            true => drop(done.unwrap()),
            false => assert_eq!(done.unwrap_err().kind, FaultKind::PartMismatch),
        }
    }
}

#[tokio::test]
async fn a_server_that_cannot_list_unfinished_uploads_has_none_and_says_so() {
    let listing = "<ListBucketResult><IsTruncated>false</IsTruncated></ListBucketResult>";
    for answer in [
        refusal("501 Not Implemented", "NotImplemented", "no"),
        said("200 OK", "", listing),
        // The page of a server that takes the question for one of its own; it lists the objects of the bucket.
        tidegate_core::testkit::samples::login_page(),
    ] {
        let (s3, _) = super::raw::raw(move |head| match head.contains("?uploads") {
            true => answer.clone(),
            false => said("200 OK", "", listing),
        })
        .await;
        assert_eq!(s3.unlisted_sessions(), None);
        let open: Vec<OpenSession> = s3.sessions("").try_collect().await.unwrap();
        assert!(open.is_empty() && facts(&s3).lacks(Feature::ListSessions));
        assert!(s3.unlisted_sessions().is_some());
    }
}

#[tokio::test]
async fn a_store_without_checksums_is_asked_for_the_size_of_what_has_bytes() {
    for (bytes, requests) in [(&b""[..], &["PUT"][..]), (DATA, &["PUT", "HEAD"])] {
        let (s3, asked) = super::raw::raw(bare).await;
        s3.put("k", in_memory(bytes), &WriteOptions::default(), Attempt::FIRST).await.unwrap();
        assert_eq!(*asked.lock().unwrap(), requests);
    }
}

/// gofakes3 takes the question for a question what the bucket has.
#[tokio::test]
async fn a_server_that_lists_objects_instead_of_rules_has_no_rules() {
    let listing = "<ListBucketResult><IsTruncated>false</IsTruncated></ListBucketResult>";
    let (s3, _) = super::raw::raw(move |_| said("200 OK", "", listing)).await;
    let (kind, said) = kind(s3.lifecycle(Attempt::FIRST)).await;
    assert!(kind == FaultKind::Unsupported && said.contains("no lifecycle rules"), "{said}");
}

#[tokio::test]
async fn a_store_of_fewer_parts_is_known_by_its_refusal() {
    let message = "Part number must be an integer between 1 and 1000, inclusive";
    let (s3, _) = super::raw::raw(move |_| refusal("400 Bad Request", "InvalidArgument", message)).await;
    let session = Session { key: "k".into(), id: "u".into() };
    let (_, said) = kind(s3.part(&session, 1001, 0, in_memory(DATA).into(), Attempt::FIRST)).await;
    assert!(said.contains("`--max-parts 1000`"), "{said}");
    assert_eq!(facts(&s3).max_parts(), Some(1000));
    // So it is by the refusal of a copied part.
    let (s3, _) = super::raw::raw(move |_| refusal("400 Bad Request", "InvalidArgument", message)).await;
    let object = Object { size: 9, etag: Some("\"e\"".into()), ..Object::default() };
    let from = CopySource::new("s3://bucket", "from", object);
    let (_, said) = kind(s3.part(&session, 1001, 0, PartSource::CopyOf(&from, 0..9), Attempt::FIRST)).await;
    assert!(said.contains("`--max-parts 1000`"), "{said}");
    assert_eq!(facts(&s3).max_parts(), Some(1000));
}

/// An upload that began before another was refused goes on in larger parts; so does the next upload of the same store.
#[tokio::test]
async fn a_number_of_parts_that_a_refusal_told_holds_for_uploads_that_have_begun() {
    const PART: usize = 5 << 20;
    let message = "Part number must be an integer between 1 and 4, inclusive";
    let (url, _) = raw_server(move |head| {
        let line = head.lines().next().unwrap();
        let number = line.split("partnumber=").nth(1).and_then(|rest| rest.split('&').next()?.parse().ok());
        match number {
            Some(5u32..) => refusal("400 Bad Request", "InvalidArgument", message),
            _ if line.contains("?uploads") => said(
                "200 OK",
                "",
                "<InitiateMultipartUploadResult><UploadId>u</UploadId></InitiateMultipartUploadResult>",
            ),
            _ if line.starts_with("post") => said(
                "200 OK",
                "",
                "<CompleteMultipartUploadResult><ETag>\"e\"</ETag></CompleteMultipartUploadResult>",
            ),
            _ => {
                let writes = if line.contains("/begun") { 5 } else { 4 };
                let length = if line.starts_with("head") { writes * (PART + 1) } else { 0 };
                format!("HTTP/1.1 200 OK\r\netag: \"e\"\r\ncontent-length: {length}\r\n\r\n")
            }
        }
    })
    .await;
    let settings = tidegate::settings::S3Settings::default()
        .with_endpoint_url(url)
        .with_region("us-east-1")
        .with_credentials(tidegate::settings::Credentials::fixed("a", "b", None));
    let tide = Tidegate::builder().memory(128 << 20).part_size(PART as u64).s3(settings).build().unwrap();
    let store = tide.open("s3://bucket").await.unwrap();
    let bytes = Bytes::from(vec![7; PART + 1]);
    let mut begun = store.writer("begun").await.unwrap();
    begun.write_bytes(bytes.clone()).await.unwrap();
    let refused = async {
        let mut refused = store.writer("refused").await?;
        for _ in 0..5 {
            refused.write_bytes(bytes.clone()).await?;
        }
        refused.finish().await
    };
    let error = refused.await.unwrap_err();
    assert!(error.to_string().contains("`--max-parts 4`"), "{error}");
    for _ in 0..4 {
        begun.write_bytes(bytes.clone()).await.unwrap();
    }
    begun.finish().await.unwrap();
    let mut next = store.writer("next").size_hint(5 * PART as u64).await.unwrap();
    for _ in 0..4 {
        next.write_bytes(bytes.clone()).await.unwrap();
    }
    next.finish().await.unwrap();
}

#[tokio::test]
async fn every_put_and_post_has_a_length() {
    let completed = "<CompleteMultipartUploadResult><ETag>\"e\"</ETag></CompleteMultipartUploadResult>";
    let (s3, _) = super::raw::raw(move |head| {
        assert!(header_of(head, "content-length").is_some(), "{head}");
        match head.contains("?uploads") {
            true => said(
                "200 OK",
                "",
                "<InitiateMultipartUploadResult><UploadId>u</UploadId></InitiateMultipartUploadResult>",
            ),
            false => said("200 OK", "", &completed.replace("CompleteMultipartUpload", "CopyObject")),
        }
    })
    .await;
    s3.open("k", &WriteOptions::default(), PartOrigin::Sent, Attempt::FIRST).await.unwrap();
    let object = Object { etag: Some("\"e\"".into()), size: 1, ..Object::default() };
    let from = CopySource::new("s3://bucket", "from", object);
    s3.copy(&from, "k", None, &WriteOptions::default(), Attempt::FIRST).await.unwrap();
}

#[tokio::test]
async fn the_md5_of_the_bytes_is_sent_where_it_is_demanded() {
    let message =
        "Content-MD5 OR x-amz-checksum- HTTP header is required for Put Object requests with Object Lock";
    let refused = refusal("400 Bad Request", "InvalidRequest", message);
    let (s3, heads) = lacking(
        |head| head.starts_with("put") && header_of(head, "content-md5").is_none(),
        refused,
        |_| kept(),
    )
    .await;
    for puts in [2, 1] {
        heads.lock().unwrap().clear();
        s3.put("k", in_memory(DATA), &WriteOptions::default(), Attempt::FIRST).await.unwrap();
        assert_eq!(heads.lock().unwrap().iter().filter(|head| head.starts_with("put")).count(), puts);
    }
    assert!(facts(&s3).lacks(Feature::BytesWithoutMd5) && !facts(&s3).lacks(Feature::Crc64Nvme));
}

#[tokio::test]
async fn bytes_that_are_too_many_for_a_proxy_are_to_go_in_smaller_parts() {
    let page = "<html><head><title>413 Request Entity Too Large</title></head></html>";
    let (s3, asked) =
        super::raw::raw(move |_| said("413 Payload Too Large", "content-type: text/html\r\n", page)).await;
    let error = store_of(s3).put("k", bytes::Bytes::from_static(DATA)).await.unwrap_err();
    assert!(error.kind() == ErrorKind::TooLarge && error.to_string().contains("`--part-size`"), "{error}");
    assert_eq!(asked.lock().unwrap().len(), 1);
}

#[tokio::test]
async fn a_directory_bucket_is_listed_by_prefixes_that_end_with_a_slash_and_refused_at_aws() {
    let settings =
        S3Settings::default().with_region("us-east-1").with_credentials(Credentials::fixed("a", "b", None));
    let name = "name--use1-az4--x-s3";
    let (url, _) = raw_server(|head| {
        assert!(head.contains("prefix=a%2f "), "{head}");
        let keys =
            ["a/c", "a/b2", "a/b1"].map(|key| format!("<Contents><Key>{key}</Key><Size>1</Size></Contents>"));
        let body =
            format!("<ListBucketResult><IsTruncated>false</IsTruncated>{}</ListBucketResult>", keys.concat());
        said("200 OK", "", &body)
    })
    .await;
    let s3 = S3::connect(name, &settings.clone().with_endpoint_url(url)).await.unwrap();
    let listed: Vec<Entry> = s3.list("a/b", true).try_collect().await.unwrap();
    assert_eq!(listed.iter().map(Entry::key).collect::<Vec<_>>(), ["a/b1", "a/b2"]);
    let aws = settings.with_endpoint_url("https://s3.us-east-1.amazonaws.com");
    let refused = S3::connect(name, &aws).await.unwrap_err();
    assert!(refused.kind == FaultKind::Unsupported && refused.message.contains("sessions"), "{refused}");
}
