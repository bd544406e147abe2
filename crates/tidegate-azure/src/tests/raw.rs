//! Hand-written answers that Azurite never gives, but that Azure or something on the way may.

use std::sync::Mutex;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use futures::TryStreamExt;

use super::super::blocks::UploadBlocks;
use super::*;
use tidegate::settings::RetryPolicy;
use tidegate::{ErrorKind, Tidegate};
use tidegate_core::backend::{Feature, PresignedRequest, Scheme};
use tidegate_core::testkit::samples::{
    Asked, ERRORS, collect, kind, login_page, memory_of, raw_server, removals_are_proven, said,
};

const CRC: Algorithm = Algorithm::Crc64Nvme;

async fn server(answer: impl Fn(&str) -> String + Send + Sync + 'static) -> (Azure, Asked) {
    let (url, asked) = raw_server(answer).await;
    let settings = AzureSettings::default()
        .with_account("account")
        .with_endpoint_url(url)
        .with_credentials(AzureCredentials::key("a2V5"));
    (Azure::connect("container", &settings).await.unwrap(), asked)
}

fn engine() -> Tidegate {
    let mut policy = RetryPolicy::default();
    policy.attempts = 3;
    policy.first_pause = std::time::Duration::from_millis(1);
    Tidegate::builder().retry(policy).build().unwrap()
}

fn payload(bytes: &[u8]) -> Payload {
    memory_of(bytes, CRC)
}

fn little_endian(bytes: &[u8]) -> String {
    STANDARD.encode(Checksum::of(CRC, bytes).value().to_le_bytes())
}

/// A refusal of the service.
fn refused(status: &str, code: &str) -> String {
    let body = format!(
        "<?xml version=\"1.0\"?><Error><Code>{code}</Code><Message>no\nRequestId:1</Message></Error>"
    );
    said(status, &format!("x-ms-error-code: {code}\r\nx-ms-request-id: 1\r\n"), &body)
}

fn created(more: &str) -> String {
    said("201 Created", &format!("etag: \"0x1\"\r\nx-ms-request-id: 1\r\n{more}"), "")
}

/// A block list with these ids and sizes.
fn blocks(list: &str, etag: &str, ids: &[(&str, usize)]) -> String {
    let blocks = ids.iter().map(|(id, size)| format!("<Block><Name>{id}</Name><Size>{size}</Size></Block>"));
    let size: usize = ids.iter().map(|(_, size)| size).sum();
    let body = format!("<BlockList><{list}>{}</{list}></BlockList>", blocks.collect::<String>());
    let headers = format!("etag: {etag}\r\nx-ms-blob-content-length: {size}\r\nx-ms-request-id: 1\r\n");
    said("200 OK", &headers, &body)
}

#[tokio::test]
async fn a_wrong_clock_is_not_taken_for_a_wrong_key() {
    let body = "<Error><Code>AuthenticationFailed</Code><AuthenticationErrorDetail>Request date header too old: 'x'\
                </AuthenticationErrorDetail></Error>";
    let headers = "x-ms-error-code: AuthenticationFailed\r\nx-ms-request-id: 1\r\n";
    let (store, _) = server(move |_| said("403 Forbidden", headers, body)).await;
    let url = store.container.url.blob("k", &[]).unwrap();
    let request = AzureRequest::new(Method::GET, url, Attempt::FIRST);
    let fault = store.container.shared.send(request).await.unwrap_err();
    assert_eq!(fault.kind, FaultKind::Skewed, "{fault}");
    assert!(fault.message.starts_with("this machine's clock says "), "{fault}");
}

#[tokio::test]
async fn the_checksum_in_the_answer_to_a_write_is_compared() {
    for (told, fault) in [
        (format!("x-ms-content-crc64: {}\r\n", little_endian(b"bytes")), None),
        (format!("x-ms-content-crc64: {}\r\n", little_endian(b"other")), Some(FaultKind::Integrity)),
    ] {
        let expected = format!("x-ms-content-crc64: {}", little_endian(b"bytes").to_lowercase());
        let (store, asked) = server(move |head| {
            assert!(head.contains(&expected), "{head}");
            created(&told)
        })
        .await;
        let put = store.put("k", payload(b"bytes"), &WriteOptions::default(), Attempt::FIRST).await;
        assert_eq!(put.as_ref().err().map(|fault| fault.kind), fault);
        // The checksum is the store's word: its size need not be asked for.
        assert_eq!(*asked.lock().unwrap(), ["PUT"]);
        let Ok(object) = put else { continue };
        assert_eq!(object.matches(&Checksum::of(CRC, b"bytes")), Some(true));
    }
}

#[tokio::test]
async fn an_answer_that_is_no_stores_proves_nothing() {
    let put = async |answer: String| {
        let (store, _) = server(move |_| answer.clone()).await;
        kind(store.put("k", payload(b""), &WriteOptions::default(), Attempt::FIRST)).await.0
    };
    for answer in [
        login_page(),
        said("200 OK", "", ""),
        said("201 Created", "etag: \"0x1\"\r\n", ""),
        said("201 Created", "x-ms-request-id: 1\r\n", ""),
        said("201 Created", "etag: \"0x1\"\r\nx-ms-request-id: 1\r\n", "<Ok/>"),
    ] {
        assert_eq!(put(answer.clone()).await, FaultKind::NotAStore, "{answer}");
    }
    assert_eq!(put(refused("503 X", "ServerBusy").replace("503 X", "200 OK")).await, FaultKind::Throttled);
    let (store, _) = server(|_| login_page()).await;
    let session = Session { key: "k".into(), id: UploadBlocks::new(None).unwrap().session_id() };
    let options = WriteOptions::default();
    let none = FaultKind::NotAStore;
    assert_eq!(kind(store.head("k", Attempt::FIRST)).await.0, none);
    assert_eq!(kind(store.get("k", None, None, Attempt::FIRST)).await.0, none);
    assert_eq!(kind(store.delete("k", None, Attempt::FIRST)).await.0, none);
    assert_eq!(kind(store.list("", true).try_collect::<Vec<_>>()).await.0, none);
    assert_eq!(kind(store.sessions("").try_collect::<Vec<_>>()).await.0, none);
    assert_eq!(kind(store.tags("k", Attempt::FIRST)).await.0, none);
    assert_eq!(kind(Parts::open(&store, "k", &options, PartOrigin::Sent, Attempt::FIRST)).await.0, none);
    let part = store.part(&session, 1, 0, payload(b"a").into(), Attempt::FIRST);
    assert_eq!(kind(part).await.0, none);
    assert_eq!(kind(store.held(&session, Attempt::FIRST)).await.0, none);
}

#[tokio::test]
async fn an_error_in_a_successful_answer_is_that_error() {
    for (body, expected) in ERRORS {
        // The store's own codes are others here.
        if body.contains("<Code>") {
            continue;
        }
        let (store, _) = server(move |_| said("200 OK", "", body)).await;
        assert_eq!(kind(store.list("", true).try_collect::<Vec<_>>()).await.0, expected, "{body}");
    }
}

#[tokio::test]
async fn a_removal_is_proven() {
    let gone = refused("404 Not Found", "BlobNotFound");
    let there = said("200 OK", "etag: \"0x1\"\r\nx-ms-request-id: 1\r\n", "");
    removals_are_proven(gone, there, async |answer| {
        let tide = tidegate::Tidegate::builder().build().unwrap();
        tide.store(Arc::new(server(answer).await.0)).delete("k").await.is_ok()
    })
    .await;
}

#[tokio::test]
async fn a_short_range_is_compared_with_its_checksum_and_damage_is_final() {
    for (told, is_right) in [(little_endian(b"byte"), true), (little_endian(b"bytX"), false)] {
        let (store, asked) = server(move |head| {
            if !head.contains("range: bytes=") {
                return said("200 OK", "etag: \"0x1\"\r\nx-ms-request-id: 1\r\n", "bytes");
            }
            assert!(head.contains("x-ms-range-get-content-crc64: true"), "{head}");
            let headers = format!(
                "etag: \"0x1\"\r\nx-ms-request-id: 1\r\ncontent-range: bytes 0-3/5\r\nx-ms-content-crc64: {told}\r\n"
            );
            said("206 Partial Content", &headers, "byte")
        })
        .await;
        let body = store.get("k", Some(0..4), None, Attempt::FIRST).await.unwrap();
        let read: Result<Vec<Bytes>, Fault> = body.stream.try_collect().await;
        match read {
            Ok(pieces) => assert!(is_right && pieces.concat() == b"byte"),
            Err(fault) => assert!(!is_right && fault.kind == FaultKind::Corrupted, "{fault}"),
        }
        // A whole object has no such checksum.
        collect(store.get("k", None, None, Attempt::FIRST).await.unwrap()).await;
        assert_eq!(asked.lock().unwrap().len(), 2);
        let read = engine().store(Arc::new(store)).get_range("k", 0..4).await;
        assert_eq!(read.err().map(|error| error.kind()), (!is_right).then_some(ErrorKind::Integrity));
    }
}

#[tokio::test]
async fn what_a_server_lacks_is_learned_once_and_is_no_failure() {
    let (store, asked) = server(|head| {
        if head.contains("crc64: ") {
            return refused("500 Internal Server Error", "FeatureNotSupported");
        }
        match head.starts_with("get") {
            true => said(
                "206 Partial Content",
                "etag: \"0x1\"\r\nx-ms-request-id: 1\r\ncontent-range: bytes 0-3/5\r\n",
                "byte",
            ),
            false => said("201 Created", "etag: \"0x1\"\r\nx-ms-request-id: 1\r\n", ""),
        }
    })
    .await;
    for requests in [2, 1] {
        asked.lock().unwrap().clear();
        collect(store.get("k", Some(0..4), None, Attempt::FIRST).await.unwrap()).await;
        assert_eq!(asked.lock().unwrap().len(), requests);
    }
    let session = Session { key: "k".into(), id: UploadBlocks::new(None).unwrap().session_id() };
    for requests in [2, 1] {
        asked.lock().unwrap().clear();
        store.part(&session, 1, 0, payload(b"bytes").into(), Attempt::FIRST).await.unwrap();
        assert_eq!(asked.lock().unwrap().len(), requests);
    }
    // The server may compare the MD5 of a whole blob.
    let (lacking, _) =
        server(|head| match tidegate_core::testkit::samples::header_of(head, "content-md5").as_deref() {
            // Heads are in lower case.
            Some("szpigls+onmd6kfxpg/pkg==") => created(""),
            _ => refused("500 Internal Server Error", "FeatureNotSupported"),
        })
        .await;
    lacking.put("k", payload(b"bytes"), &WriteOptions::default(), Attempt::FIRST).await.unwrap();
    // Nobody else would notice.
    let bent = Payload::from_memory(vec![Bytes::from_static(b"bent")], Checksum::of(CRC, b"told"));
    assert_eq!(kind(store.part(&session, 1, 0, bent.into(), Attempt::FIRST)).await.0, FaultKind::Integrity);
}

#[tokio::test]
async fn a_lack_is_learned_only_of_the_header_that_was_refused() {
    // Another header is meant: the server refuses the request without checksums too.
    let (store, asked) = server(|_| refused("500 X", "FeatureNotSupported")).await;
    let facts = store.container.shared.facts.clone();
    let session = Session { key: "k".into(), id: UploadBlocks::new(None).unwrap().session_id() };
    for _ in 0..2 {
        asked.lock().unwrap().clear();
        let part = store.part(&session, 1, 0, payload(b"bytes").into(), Attempt::FIRST);
        assert_eq!(kind(part).await.0, FaultKind::Unsupported);
        assert_eq!(kind(store.get("k", Some(0..4), None, Attempt::FIRST)).await.0, FaultKind::Unsupported);
        assert_eq!(asked.lock().unwrap().len(), 4);
    }
    assert_eq!(facts.lacking(), tidegate_core::backend::FeatureSet::default());
    // A checksum of nothing may be left out of an answer; one of bytes is not.
    let (store, _) = server(|_| created("")).await;
    let facts = store.container.shared.facts.clone();
    let put = async |bytes| store.put("k", payload(bytes), &WriteOptions::default(), Attempt::FIRST).await;
    put(b"").await.unwrap();
    assert!(!facts.lacks(Feature::ComparedChecksums));
    put(b"bytes").await.unwrap();
    assert!(facts.lacks(Feature::ComparedChecksums));
}

#[tokio::test]
async fn azure_itself_lacks_nothing() {
    for (endpoint, may_lack) in [
        ("https://account.blob.core.windows.net", false),
        ("https://account.blob.core.chinacloudapi.cn", false),
        ("https://blobs.example.com/account", true),
    ] {
        let settings = AzureSettings::default()
            .with_account("account")
            .with_endpoint_url(endpoint)
            .with_credentials(AzureCredentials::key("a2V5"));
        let store = Azure::connect("container", &settings).await.unwrap();
        let shared = &store.container.shared;
        shared.learn_lack(Feature::RangeChecksums);
        assert_eq!(shared.facts.lacks(Feature::RangeChecksums), may_lack, "{endpoint}");
    }
}

#[tokio::test]
async fn the_checksum_in_metadata_is_no_confirmation() {
    let (store, asked) = server(|head| {
        let sum = Checksum::of(CRC, b"bytes").base64();
        let md5 = "SzpiGLs+OnMD6KFxpg/Pkg==";
        let meta = format!(
            "x-ms-meta-tidegate_writer: t\r\ncontent-md5: {md5}\r\nx-ms-meta-tidegate_crc64nvme: {sum}:5:{md5}\r\n"
        );
        let headers = format!("etag: \"0x1\"\r\nx-ms-request-id: 1\r\n{meta}content-length: 5\r\n\r\n");
        if head.contains("comp=blocklist") {
            return blocks("CommittedBlocks", "\"0x1\"", &[]);
        }
        if head.starts_with("head") { format!("HTTP/1.1 200 OK\r\n{headers}") } else { created("") }
    })
    .await;
    let options = WriteOptions { token: Some("t".into()), ..WriteOptions::default() };
    let object = store.put("k", payload(b"bytes"), &options, Attempt::FIRST).await.unwrap();
    assert_eq!((object.size, object.matches(&Checksum::of(CRC, b"bytes"))), (5, None));
    assert_eq!(*asked.lock().unwrap(), ["PUT", "HEAD", "GET"]);
    let there = store.head("k", Attempt::FIRST).await.unwrap();
    assert_eq!(there.matches(&Checksum::of(CRC, b"bytes")), Some(true));
}

/// Other programs keep the metadata of a blob whose bytes they replace: blocks of theirs prove nothing of ours.
#[tokio::test]
async fn the_checksum_in_metadata_of_a_blob_of_blocks_is_proven_by_the_blocks() {
    let (_, parts) = two_parts();
    let ids: Vec<String> = parts.iter().map(|part| part.etag.clone()).collect();
    let sum = Checksum::of(CRC, b"onethree");
    for (there, is_proven) in [
        (blocks("CommittedBlocks", "\"0x1\"", &[(&ids[0], 3), (&ids[1], 5)]), true),
        (blocks("CommittedBlocks", "\"0x1\"", &[(&ids[0], 3), ("YQ==", 5)]), false),
        (blocks("CommittedBlocks", "\"0x2\"", &[(&ids[0], 3), (&ids[1], 5)]), false),
        (blocks("CommittedBlocks", "\"0x1\"", &[]), false),
        (refused("403 Forbidden", "AuthorizationFailure"), false),
    ] {
        let entry = super::super::checksum_entry::ChecksumEntry::of_blocks(sum).text();
        let modified = tidegate_core::types::date::http_date(std::time::SystemTime::now());
        let (store, asked) = server(move |head| {
            if head.contains("comp=blocklist") {
                return there.clone();
            }
            let headers = format!(
                "etag: \"0x1\"\r\nx-ms-request-id: 1\r\nlast-modified: {modified}\r\n\
                 x-ms-meta-tidegate_crc64nvme: {entry}\r\n"
            );
            match head.starts_with("head") {
                true => format!("HTTP/1.1 200 OK\r\n{headers}content-length: 8\r\n\r\n"),
                false => said("200 OK", &headers, "onethree"),
            }
        })
        .await;
        let there = store.head("k", Attempt::FIRST).await.unwrap();
        assert_eq!(there.matches(&sum), is_proven.then_some(true));
        assert_eq!(*asked.lock().unwrap(), ["HEAD", "GET"]);
        let body = store.get("k", None, None, Attempt::FIRST).await.unwrap();
        assert_eq!(body.object.matches(&sum), is_proven.then_some(true));
    }
}

/// Nobody compares the MD5 that a commit of blocks sets, and other programs carry the old one along.
#[tokio::test]
async fn the_checksum_in_metadata_of_a_blob_with_an_md5_is_proven_by_having_no_blocks() {
    let sum = Checksum::of(CRC, b"bytes");
    for (there, is_proven) in [
        (blocks("CommittedBlocks", "\"0x1\"", &[]), true),
        (blocks("CommittedBlocks", "\"0x1\"", &[("YQ==", 5)]), false),
        (blocks("CommittedBlocks", "\"0x2\"", &[]), false),
        (refused("403 Forbidden", "AuthorizationFailure"), false),
        (refused("409 Conflict", "InvalidBlobType"), false),
    ] {
        let (store, asked) = server(move |head| {
            if head.contains("comp=blocklist") {
                return there.clone();
            }
            let md5 = "SzpiGLs+OnMD6KFxpg/Pkg==";
            let headers = format!(
                "etag: \"0x1\"\r\nx-ms-request-id: 1\r\ncontent-md5: {md5}\r\n\
                 x-ms-meta-tidegate_crc64nvme: {}:5:{md5}\r\n",
                sum.base64()
            );
            match head.starts_with("head") {
                true => format!("HTTP/1.1 200 OK\r\n{headers}content-length: 5\r\n\r\n"),
                false => said("200 OK", &headers, "bytes"),
            }
        })
        .await;
        let there = store.head("k", Attempt::FIRST).await.unwrap();
        assert_eq!(there.matches(&sum), is_proven.then_some(true));
        assert_eq!(there.other_checksums.contains_key("md5"), is_proven, "`check` compares that too");
        assert_eq!(*asked.lock().unwrap(), ["HEAD", "GET"]);
        let body = store.get("k", None, None, Attempt::FIRST).await.unwrap();
        assert_eq!(body.object.matches(&sum), is_proven.then_some(true));
        // A read that goes on has the proof of its beginning.
        asked.lock().unwrap().clear();
        let body = store.get("k", None, Some(&body.object), Attempt::FIRST).await.unwrap();
        assert_eq!(body.object.matches(&sum), is_proven.then_some(true));
        assert_eq!(asked.lock().unwrap().len(), if is_proven { 1 } else { 2 });
    }
}

#[tokio::test]
async fn a_container_with_anything_in_it_is_not_removed() {
    for (has_versions, has_snapshot) in [(true, true), (true, false), (false, true), (false, false)] {
        let (url, asked) = raw_server(move |head| match head {
            _ if head.starts_with("delete") => said("202 Accepted", "x-ms-version: 2024-11-04\r\n", ""),
            _ if head.contains("versions") && !has_versions => refused("400 X", "InvalidQueryParameterValue"),
            _ if head.contains("snapshots") && head.contains("uncommittedblobs") && has_snapshot => {
                listed(&["k"], "")
            }
            _ => listed(&[], ""),
        })
        .await;
        let settings = AzureSettings::default()
            .with_account("account")
            .with_endpoint_url(url)
            .with_credentials(AzureCredentials::key("a2V5"));
        let scheme = AzureScheme::new(settings);
        let buckets = Scheme::buckets(&scheme, &KnownFacts::default()).await.unwrap();
        let removed = buckets.remove("container", Attempt::FIRST).await.map_err(|fault| fault.kind);
        assert_eq!(removed, if has_snapshot { Err(FaultKind::NotEmpty) } else { Ok(()) });
        assert_eq!(asked.lock().unwrap().contains(&"DELETE".to_owned()), !has_snapshot);
    }
}

#[tokio::test]
async fn a_url_of_an_identity_is_good_for_less_than_seven_days() {
    let (url, asked) = raw_server(|_| {
        let fields = ["Oid", "Tid", "Start", "Expiry", "Service", "Version"];
        let fields: String = fields.iter().map(|name| format!("<Signed{name}>x</Signed{name}>")).collect();
        let body = format!("<UserDelegationKey>{fields}<Value>a2V5</Value></UserDelegationKey>");
        said("200 OK", "x-ms-request-id: 1\r\n", &body)
    })
    .await;
    let settings = AzureSettings::default()
        .with_account("account")
        .with_endpoint_url(url)
        .with_credentials(AzureCredentials::token("token"));
    let store = Azure::connect("container", &settings).await.unwrap();
    let day = std::time::Duration::from_secs(24 * 3600);
    let presign = async |expires| store.container.presigned(PresignedRequest::Get, "k", expires).await;
    for days in [1, 6] {
        let before = std::time::SystemTime::now();
        let url = presign(day * days).await.unwrap();
        assert_eq!(asked.lock().unwrap().len(), 1, "{days}");
        let expiry = |time| format!("&se={}", presign::written(time).replace(':', "%3A"));
        // The second may have changed in between.
        let end = before + day * days;
        let next = end + std::time::Duration::from_secs(1);
        assert!(url.contains(&expiry(end)) || url.contains(&expiry(next)), "{days} {url}");
    }
    assert_eq!(kind(presign(day * 7)).await.0, FaultKind::Invalid);
}

/// The session and the receipts of an upload of two parts.
fn two_parts() -> (Session, Vec<Receipt>) {
    let upload = UploadBlocks::new(None).unwrap();
    let receipt = |number, bytes: &[u8]| {
        let checksum = Checksum::of(CRC, bytes);
        let (size, etag) = (bytes.len() as u64, upload.id(number, &checksum));
        Receipt { number, size, etag, checksum: Some(checksum) }
    };
    (Session { key: "k".into(), id: upload.session_id() }, vec![receipt(1, b"one"), receipt(2, b"three")])
}

async fn complete(store: &Azure, session: &Session, parts: &[Receipt]) -> Result<Object, Fault> {
    let whole = Checksum::of(CRC, b"onethree");
    store.complete(session, parts, Some(&whole), &WriteOptions::default(), Attempt::FIRST).await
}

#[tokio::test]
async fn a_commit_without_its_blocks_says_who_discarded_them() {
    let (session, parts) = two_parts();
    let [one, two] = [&parts[0].etag, &parts[1].etag].map(String::clone);
    for (there, expected, message) in [
        (blocks("UncommittedBlocks", "\"0x1\"", &[]), FaultKind::NoSession, "written by another commit"),
        (refused("404 Not Found", "BlobNotFound"), FaultKind::NoSession, "written by another commit"),
        (
            blocks("UncommittedBlocks", "\"0x1\"", &[(&one, 3)]),
            FaultKind::PartMismatch,
            "the block of part 2 is gone",
        ),
        (
            blocks("UncommittedBlocks", "\"0x1\"", &[(&one, 3), (&two, 5)]),
            FaultKind::PartMismatch,
            "InvalidBlockList",
        ),
        (refused("403 Forbidden", "AuthorizationFailure"), FaultKind::PartMismatch, "InvalidBlockList"),
    ] {
        let (store, _) = server(move |head| match head.starts_with("put") {
            true => refused("400 Bad Request", "InvalidBlockList"),
            false => there.clone(),
        })
        .await;
        let (refused, said) = kind(complete(&store, &session, &parts)).await;
        assert!(refused == expected && said.contains(message), "{refused:?} {said}");
    }
}

#[tokio::test]
async fn what_was_published_is_compared_block_by_block() {
    let (session, parts) = two_parts();
    let [one, two] = [&parts[0].etag, &parts[1].etag].map(String::clone);
    let mine = "\"0x1\"";
    for (there, is_whole) in [
        (blocks("CommittedBlocks", mine, &[(&one, 3), (&two, 5)]), Ok(Some(true))),
        // Another writer's, from after ours; and what cannot be asked: the commit has succeeded.
        (blocks("CommittedBlocks", "\"0x2\"", &[("YQ==", 9)]), Ok(None)),
        (refused("404 Not Found", "BlobNotFound"), Ok(None)),
        (refused("403 Forbidden", "AuthorizationFailure"), Ok(None)),
        (blocks("CommittedBlocks", mine, &[(&two, 5), (&one, 3)]), Err(FaultKind::Corrupted)),
        (blocks("CommittedBlocks", mine, &[(&one, 3)]), Err(FaultKind::Corrupted)),
        (blocks("CommittedBlocks", mine, &[(&one, 3), (&two, 6)]), Err(FaultKind::Corrupted)),
    ] {
        let (store, asked) = server(move |head| match head.starts_with("put") {
            true => created(""),
            false => there.clone(),
        })
        .await;
        let told = complete(&store, &session, &parts).await;
        let whole = Checksum::of(CRC, b"onethree");
        let told = told.map(|object| (object.size, object.matches(&whole))).map_err(|fault| fault.kind);
        assert_eq!(told, is_whole.map(|is_whole| (8, is_whole)));
        assert_eq!(*asked.lock().unwrap(), ["PUT", "GET"]);
    }
    // A part of another upload is not sent to the store.
    let (store, asked) = server(|_| created("")).await;
    let (_, others) = two_parts();
    assert_eq!(kind(complete(&store, &session, &others)).await.0, FaultKind::PartMismatch);
    assert!(asked.lock().unwrap().is_empty());
}

#[tokio::test]
async fn the_ids_of_blocks_are_as_long_as_those_that_are_there() {
    for (length, is_taken) in [(48, true), (16, true), (64, true), (6, false), (15, false)] {
        let there = STANDARD.encode(vec![b'0'; length]);
        let urls = Arc::new(Mutex::new(Vec::new()));
        let log = urls.clone();
        let (store, _) = server(move |head| {
            log.lock().unwrap().push(head.lines().next().unwrap_or_default().to_owned());
            match head.starts_with("put") {
                true => created(""),
                false => blocks("UncommittedBlocks", "\"0x1\"", &[(&there, 5)]),
            }
        })
        .await;
        let opened =
            Parts::open(&store, "k", &WriteOptions::default(), PartOrigin::Sent, Attempt::FIRST).await;
        assert_eq!(opened.is_ok(), is_taken, "{opened:?}");
        let Ok(session) = opened else { continue };
        let part = store.part(&session, 1, 0, payload(b"bytes").into(), Attempt::FIRST).await.unwrap();
        assert_eq!(STANDARD.decode(&part.etag).unwrap().len(), length);
        assert_eq!(urls.lock().unwrap().len(), 2);
        // Blocks of another program are none of this upload.
        assert_eq!(kind(store.held(&session, Attempt::FIRST)).await.0, FaultKind::NoSession);
    }
}

#[tokio::test]
async fn credentials_that_may_only_write_do_write() {
    let (store, asked) = server(|head| match head.starts_with("put") {
        true => created(""),
        false => refused("403 Forbidden", "AuthorizationPermissionMismatch"),
    })
    .await;
    let tide = Tidegate::builder().part_size(1 << 16).build().unwrap();
    let mut writer = tide.store(Arc::new(store)).writer("k").await.unwrap();
    writer.write_bytes(Bytes::from(vec![7; 100_000])).await.unwrap();
    assert_eq!(writer.finish().await.unwrap().size, 100_000);
    let asked = asked.lock().unwrap();
    // The lists of blocks before and after are refused.
    assert_eq!(asked.iter().filter(|method| *method == "PUT").count(), 3, "{asked:?}");
    assert_eq!((asked[0].as_str(), asked.len()), ("GET", 5), "{asked:?}");
}

#[tokio::test]
async fn a_leased_or_archived_blob_is_no_blob_to_try_again() {
    let tide = engine();
    let (store, asked) = server(|_| refused("412 Precondition Failed", "LeaseIdMissing")).await;
    let error = tide.store(Arc::new(store)).put("k", Bytes::from_static(b"bytes")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::PermissionDenied);
    assert!(error.to_string().contains("holds a lease"), "{error}");
    assert_eq!(asked.lock().unwrap().len(), 1);
    let (store, asked) = server(|_| refused("409 Conflict", "BlobArchived")).await;
    let error = tide.store(Arc::new(store)).get("k").await.unwrap_err();
    assert!(error.to_string().contains("archive tier"), "{error}");
    assert_eq!(asked.lock().unwrap().len(), 1);
    let (store, asked) = server(|_| refused("409 Conflict", "BlobArchived")).await;
    let error = tide.store(Arc::new(store)).put("k", Bytes::from_static(b"bytes")).await.unwrap_err();
    assert!(error.to_string().contains("cannot be replaced: remove it first"), "{error}");
    assert_eq!(asked.lock().unwrap().len(), 1);
}

fn source(store: &Azure) -> CopySource {
    let object = Object { key: "from".into(), size: 5, etag: Some("\"0x9\"".into()), ..Object::default() };
    CopySource::new(store.location(), "from", object)
}

#[tokio::test]
async fn a_copy_is_made_before_the_answer_or_not_believed() {
    for (status, is_whole) in [("success", true), ("pending", false), ("failed", false), ("aborted", false)] {
        let (store, asked) = server(move |head| {
            let headers = format!("etag: \"0x1\"\r\nx-ms-copy-id: c\r\nx-ms-copy-status: {status}\r\n");
            if head.starts_with("head") {
                return said("200 OK", &format!("{headers}x-ms-meta-tidegate_writer: t\r\n"), "");
            }
            assert!(head.contains("x-ms-source-if-match: \"0x9\""), "{head}");
            assert!(head.contains("x-ms-requires-sync: true"), "{head}");
            // The account's key signs the URL of the source.
            assert!(head.contains("/container/from?sv=") && head.contains("sp=r&sig="), "{head}");
            said("202 Accepted", &headers, "")
        })
        .await;
        let options = WriteOptions { token: Some("t".into()), ..WriteOptions::default() };
        let copied = store.copy(&source(&store), "to", None, &options, Attempt::FIRST).await;
        match copied {
            Ok(Copied::Whole(object)) => {
                assert_eq!((object.etag.as_deref(), object.token.as_deref()), (Some("\"0x1\""), Some("t")));
                assert!(is_whole && *asked.lock().unwrap() == ["PUT", "HEAD"]);
            }
            other => assert!(!is_whole && other.unwrap_err().kind == FaultKind::NotAStore),
        }
        // A copy that is not whole is not taken for what was to be published.
        let there = store.head("to", Attempt::FIRST).await.unwrap();
        assert_eq!(there.token.is_some(), is_whole, "{status}");
    }
}

/// Its metadata is copied by the service, with the source's writer token.
#[tokio::test]
async fn a_copy_with_the_names_of_its_source_is_known_by_its_bytes_after_a_lost_answer() {
    const MD5: &str = "XUFAKrxLKna5cZ2REBfFkg==";
    for (there, create_only, is_settled) in [
        (MD5, false, true),
        // Another writer may have copied the same.
        (MD5, true, false),
        ("CY9rzUYh03PK3k6DJie09g==", false, false),
    ] {
        let (store, _) = server(move |head| {
            let described = |etag: &str, md5: &str| {
                let headers = "content-type: text/plain\r\nx-ms-meta-owner: me\r\nx-ms-meta-tidegate_writer: source";
                format!(
                    "HTTP/1.1 200 OK\r\netag: \"{etag}\"\r\ncontent-md5: {md5}\r\n{headers}\r\ncontent-length: 5\r\n\r\n"
                )
            };
            let line = head.lines().next().unwrap();
            match line.split(' ').next().unwrap() {
                "head" if line.contains("/from") => described("0x9", MD5),
                "head" => described("0x10", there),
                "get" => {
                    let body = "<EnumerationResults><Blobs><Blob><Name>from</Name><Properties><Content-Length>5\
                                </Content-Length></Properties><Metadata><Owner>me</Owner></Metadata></Blob></Blobs>\
                                <NextMarker/></EnumerationResults>";
                    said("200 OK", "", body)
                }
                _ => "HTTP/1.1 202 Accepted\r\nconnection: close\r\ncontent-length: 5\r\n\r\n".to_owned(),
            }
        })
        .await;
        let store = engine().store(Arc::new(store));
        let copy = store.copy("from", &store, "to");
        let copied = if create_only { copy.create_only().await } else { copy.await };
        match copied {
            Ok(object) => assert!(is_settled && object.etag.as_deref() == Some("\"0x10\"")),
            Err(error) => assert!(!is_settled && error.kind() == ErrorKind::Uncertain, "{error}"),
        }
    }
}

/// A shared access signature may lack the permission to list, which alone tells the letters of metadata names.
#[tokio::test]
async fn a_copy_keeps_names_of_metadata_that_may_not_be_listed() {
    let (store, asked) = server(|head| match head.split(' ').next().unwrap() {
        "get" => refused("403 X", "AuthorizationPermissionMismatch"),
        "head" => said("200 OK", "etag: \"0x1\"\r\nx-ms-request-id: 1\r\n", ""),
        _ => {
            assert!(!head.contains("x-ms-meta-"), "the service copies the names as they are: {head}");
            said("202 Accepted", "etag: \"0x1\"\r\nx-ms-request-id: 1\r\nx-ms-copy-status: success\r\n", "")
        }
    })
    .await;
    let mut from = source(&store);
    from.object.attributes.metadata = [("owner".to_owned(), "me".to_owned())].into();
    let attributes = from.object.attributes.clone();
    let options = WriteOptions { attributes, token: Some("t".into()), ..WriteOptions::default() };
    store.copy(&from, "to", None, &options, Attempt::FIRST).await.unwrap();
    assert_eq!(*asked.lock().unwrap(), ["GET", "PUT", "HEAD"]);
    // A copy through this machine cannot keep the capitals. `hides_capitals` fails, so that such a copy can warn.
    let error = engine().store(Arc::new(store)).hides_capitals(&from.object).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::PermissionDenied, "{error}");
}

#[tokio::test]
async fn a_copy_does_not_lose_tags_that_may_not_be_read() {
    let (store, asked) = server(|_| refused("403 X", "AuthorizationPermissionMismatch")).await;
    let mut from = source(&store);
    from.object.tag_count = 1;
    let options = WriteOptions::default();
    let (refused, said) = kind(store.copy(&from, "to", None, &options, Attempt::FIRST)).await;
    assert!(refused == FaultKind::Denied && said.contains("has tags"), "{said}");
    assert_eq!(*asked.lock().unwrap(), ["GET"]);
}

#[tokio::test]
async fn a_copy_that_cannot_be_made_is_told_from_one_of_another_object() {
    for (answer, expected) in [
        (refused("412 X", "SourceConditionNotMet"), FaultKind::Replaced),
        (refused("404 X", "BlobNotFound"), FaultKind::Replaced),
        (refused("404 X", "CannotVerifyCopySource"), FaultKind::Replaced),
        (refused("403 X", "CannotVerifyCopySource"), FaultKind::Unsupported),
        (refused("409 X", "BlobAlreadyExists"), FaultKind::Exists),
        (refused("409 X", "PendingCopyOperation"), FaultKind::Undone),
        (said("202 X", "etag: \"0x1\"\r\n", ""), FaultKind::NotAStore),
        (login_page(), FaultKind::NotAStore),
    ] {
        let (store, _) = server(move |_| answer.clone()).await;
        let (from, options) = (source(&store), WriteOptions::default());
        let copy = store.copy(&from, "to", None, &options, Attempt::FIRST);
        let (refused, said) = kind(copy).await;
        assert_eq!(refused, expected, "{said}");
    }
}

/// A page of a listing.
fn listed(names: &[&str], next: &str) -> String {
    let blobs: String = names
        .iter()
        .map(|name| {
            format!(
                "<Blob><Name>{name}</Name><Properties><Content-Length>0</Content-Length></Properties></Blob>"
            )
        })
        .collect();
    let body = format!(
        "<EnumerationResults><Blobs>{blobs}</Blobs><NextMarker>{next}</NextMarker></EnumerationResults>"
    );
    said("200 OK", "x-ms-request-id: 1\r\n", &body)
}

#[tokio::test]
async fn empty_pages_and_pages_in_another_order_are_progress() {
    let upload = UploadBlocks::new(None).unwrap();
    let id = upload.id(1, &Checksum::of(CRC, b"bytes"));
    let (store, _) = server(move |head| match head {
        _ if head.contains("comp=blocklist") => blocks("UncommittedBlocks", "\"0x1\"", &[(&id, 5)]),
        // The order of an account with a hierarchical namespace.
        _ if head.contains("marker=one") => listed(&["a/b", "a/c"], "two"),
        _ if head.contains("marker=two") => listed(&[], "three"),
        _ if head.contains("marker=three") => listed(&["a-b"], "four"),
        _ if head.contains("marker=four") => listed(&[], ""),
        _ => listed(&[], "one"),
    })
    .await;
    let keys: Vec<String> =
        store.list("", true).map_ok(|entry| entry.key().to_owned()).try_collect().await.unwrap();
    assert_eq!(keys, ["a/b", "a/c", "a-b"]);
    let open: Vec<_> = store.sessions("").try_collect().await.unwrap();
    let keys: Vec<_> = open.iter().map(|open| &*open.session.key).collect();
    assert_eq!(keys, ["a/b", "a/c", "a-b"]);
}

#[tokio::test]
async fn a_listing_goes_on_at_its_marker_and_ends_if_that_does_not_move() {
    let answer = move |head: &str| {
        if head.contains("comp=blocklist") {
            return refused("404 X", "BlobNotFound");
        }
        match (head.contains("marker=one"), head.contains("marker=two")) {
            (false, false) => listed(&["a", "b"], "one"),
            (true, _) => listed(&["c"], "two"),
            (_, true) => listed(&["d"], ""),
        }
    };
    let (store, _) = server(answer).await;
    let keys: Vec<String> =
        store.list("", true).map_ok(|entry| entry.key().to_owned()).try_collect().await.unwrap();
    assert_eq!(keys, ["a", "b", "c", "d"]);
    assert_eq!(store.sessions("").try_collect::<Vec<_>>().await.unwrap(), []);
    let (store, _) = server(move |head| match head.contains("comp=blocklist") {
        true => refused("404 X", "BlobNotFound"),
        false => listed(&["a"], "one"),
    })
    .await;
    assert_eq!(kind(store.list("", true).try_collect::<Vec<_>>()).await.0, FaultKind::NotAStore);
    assert_eq!(kind(store.sessions("").try_collect::<Vec<_>>()).await.0, FaultKind::NotAStore);
}

#[tokio::test]
async fn a_server_with_an_older_version_of_the_api_is_asked_in_that_version() {
    let (store, asked) = server(|head| match head.contains("x-ms-version: 2019-12-12") {
        true => listed(&["k"], ""),
        false => refused("400 Bad Request", "InvalidHeaderValue"),
    })
    .await;
    for requests in [3, 1] {
        let keys: Vec<_> = store.list("", true).try_collect::<Vec<_>>().await.unwrap();
        assert_eq!((keys.len(), std::mem::take(&mut *asked.lock().unwrap()).len()), (1, requests));
    }
    let body = "<Error><Code>InvalidHeaderValue</Code><Message>The value is wrong.</Message>\
                <HeaderName>x-ms-version</HeaderName></Error>";
    // The code may be in the body alone.
    for headers in ["x-ms-error-code: InvalidHeaderValue\r\n", ""] {
        let (store, asked) = server(move |_| said("400 Bad Request", headers, body)).await;
        let (_, message) = kind(store.list("", true).try_collect::<Vec<_>>()).await;
        assert!(message.contains("`x-ms-version`"), "{message}");
        assert!(message.ends_with(": Tidegate sent 2024-11-04, 2021-12-02, 2019-12-12"), "{message}");
        assert_eq!(asked.lock().unwrap().len(), 3);
        let (store, _) = server(move |head| match head.contains("x-ms-version: 2019-12-12") {
            true => listed(&["k"], ""),
            false => said("400 Bad Request", headers, body),
        })
        .await;
        assert_eq!(store.list("", true).try_collect::<Vec<_>>().await.unwrap().len(), 1);
    }
    // Where the body of another refusal was read, the error has its words all the same.
    let body = "<Error><Code>InvalidInput</Code><Message>Nothing of the kind.</Message></Error>";
    let (store, asked) = server(move |_| said("400 Bad Request", "", body)).await;
    let (_, message) = kind(store.list("", true).try_collect::<Vec<_>>()).await;
    assert_eq!(
        (message.as_str(), asked.lock().unwrap().len()),
        ("Nothing of the kind (InvalidInput, HTTP 400)", 1)
    );
}
