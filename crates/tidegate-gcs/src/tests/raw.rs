//! Hand-written responses that the embedded server never gives, but that Google may.

use std::sync::Mutex;

use super::*;
use tidegate::settings::RetryPolicy;
use tidegate::{ErrorKind, Store, Strategy, Tidegate};
use tidegate_core::testkit::samples::raw_server;

/// The `Content-Range` of each request to a session, in order.
type Ranges = Arc<Mutex<Vec<String>>>;

/// A server whose sessions are at `{url}/upload/session`; `answer` maps each `Content-Range` to a response.
async fn session(answer: impl Fn(&str) -> String + Send + Sync + 'static) -> (Store, Ranges) {
    let (ranges, url) = (Ranges::default(), Arc::new(Mutex::new(String::new())));
    let (log, here) = (ranges.clone(), url.clone());
    let (address, _) = raw_server(move |head| {
        if head.starts_with("post") {
            let session = format!("{}/upload/session", here.lock().unwrap());
            return format!("HTTP/1.1 200 OK\r\nlocation: {session}\r\ncontent-length: 0\r\n\r\n");
        }
        if head.starts_with("delete") {
            return "HTTP/1.1 499 X\r\ncontent-length: 0\r\n\r\n".into();
        }
        let Some(range) = head.lines().find_map(|line| line.strip_prefix("content-range: bytes ")) else {
            return error(404, "notFound");
        };
        log.lock().unwrap().push(range.to_owned());
        answer(range)
    })
    .await;
    url.lock().unwrap().clone_from(&address);
    let settings =
        GcsSettings::default().with_endpoint_url(address).with_credentials(GcsCredentials::anonymous());
    let mut policy = RetryPolicy::default();
    policy.attempts = 3;
    policy.first_pause = Duration::from_millis(1);
    let tide = Tidegate::builder().retry(policy).part_size(4 * append::GRAIN).build().unwrap();
    (tide.store(Arc::new(Gcs::connect("bucket", &settings).await.unwrap())), ranges)
}

fn has(bytes: u64) -> String {
    let range = if bytes == 0 { String::new() } else { format!("range: bytes=0-{}\r\n", bytes - 1) };
    format!("HTTP/1.1 308 Resume Incomplete\r\n{range}content-length: 0\r\n\r\n")
}

fn error(status: u16, reason: &str) -> String {
    let body = format!(r#"{{"error":{{"message":"no","errors":[{{"reason":"{reason}"}}]}}}}"#);
    format!("HTTP/1.1 {status} X\r\ncontent-length: {}\r\n\r\n{body}", body.len())
}

fn published(data: &[u8]) -> String {
    let body = format!(
        r#"{{"name":"k","generation":"1","size":"{}","crc32c":"{}"}}"#,
        data.len(),
        crc32c(data).base64()
    );
    format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}", body.len())
}

async fn write(store: &Store, data: &[u8]) -> tidegate::Result<tidegate::Object> {
    let mut writer = store.writer("k").strategy(Strategy::Chunked).await?;
    writer.write_bytes(Bytes::copy_from_slice(data)).await?;
    writer.finish().await
}

#[tokio::test]
async fn what_the_store_did_not_keep_of_a_chunk_is_sent_again() {
    let data = bytes_of(1_100_000);
    let answer = data.clone();
    let (store, ranges) = session(move |range| match range {
        "0-1048575/*" => has(262_144),
        "262144-1048575/*" => has(786_432),
        "786432-1048575/*" => has(1_048_576),
        // The last chunk may be kept in part as well.
        "1048576-1099999/1100000" => has(1_048_576 + 40_000),
        "1088576-1099999/1100000" => has(1_100_000),
        "*/1100000" => published(&answer),
        other => panic!("{other}"),
    })
    .await;
    assert_eq!(write(&store, &data).await.unwrap().size, 1_100_000);
    assert_eq!(ranges.lock().unwrap().len(), 6);
}

#[tokio::test]
async fn a_store_that_takes_nothing_is_not_asked_for_ever() {
    let (store, ranges) = session(|_| has(0)).await;
    let error = write(&store, &bytes_of(1_100_000)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert!(error.to_string().contains("took none of the bytes"), "{error}");
    assert_eq!(*ranges.lock().unwrap(), ["0-1048575/*", "*/*", "0-1048575/*", "*/*", "0-1048575/*"]);
}

#[tokio::test]
async fn a_store_that_lost_what_it_had_acknowledged_is_not_made_up_for() {
    let (store, _) = session(|range| match range {
        "0-1048575/*" => has(1_048_576),
        "*/*" => has(262_144),
        _ => error(503, "backendError"),
    })
    .await;
    let error = write(&store, &bytes_of(2_200_000)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::SessionLost, "{error}");
    assert!(error.to_string().contains("262144 bytes"), "{error}");
}

#[tokio::test]
async fn a_session_that_somebody_else_has_finished_is_told() {
    let (store, _) = session(|_| published(b"other")).await;
    let error = write(&store, &bytes_of(1_100_000)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::SessionLost, "{error}");
}

#[tokio::test]
async fn an_object_of_another_checksum_is_an_error() {
    let (store, _) = session(|range| match range {
        "0-1048575/*" => has(1_048_576),
        _ => published(&bytes_of(1_100_001)[1..]),
    })
    .await;
    let error = write(&store, &bytes_of(1_100_000)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Integrity, "{error}");
}

async fn answers(text: &'static str) -> Gcs {
    let (url, _) = raw_server(move |_| text.to_owned()).await;
    let credentials = GcsCredentials::token("secret");
    let settings = GcsSettings::default().with_endpoint_url(url).with_credentials(credentials);
    Gcs::connect("bucket", &settings).await.unwrap()
}

#[tokio::test]
async fn odd_answers_are_faults() {
    let store = answers("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}").await;
    assert_eq!(kind(store.head("k", Attempt::FIRST)).await.0, FaultKind::NotAStore);
    assert_eq!(
        kind(store.put("k", in_memory(b"1"), &WriteOptions::default(), Attempt::FIRST)).await.0,
        FaultKind::NotAStore
    );
    assert_eq!(
        kind(Parts::open(&store, "k", &WriteOptions::default(), PartOrigin::Sent, Attempt::FIRST)).await.0,
        FaultKind::NotAStore
    );
    assert_eq!(
        kind(Append::open(&store, "k", &WriteOptions::default(), Attempt::FIRST)).await.0,
        FaultKind::NotAStore
    );
    let page =
        "HTTP/1.1 200 OK\r\ncontent-length: 46\r\n\r\n{\"kind\":\"storage#objects\",\"nextPageToken\":\"a\"}";
    let store = answers(page).await;
    let (stuck, said) = kind(store.list("", true).try_collect::<Vec<_>>()).await;
    assert!(stuck == FaultKind::NotAStore && said.contains("makes no progress"), "{said}");
}

#[tokio::test]
async fn nobody_is_followed_elsewhere_with_a_token() {
    let store = answers("HTTP/1.1 307 X\r\nlocation: http://127.0.0.1:1/\r\ncontent-length: 0\r\n\r\n").await;
    let (elsewhere, said) = kind(store.head("k", Attempt::FIRST)).await;
    assert_eq!(elsewhere, FaultKind::Invalid, "{said}");
    assert!(said.contains("http://127.0.0.1:1/"), "{said}");
}

#[tokio::test]
async fn a_session_that_was_cancelled_is_none_any_more() {
    // Every request gets "499: the resumable upload was cancelled at the client's request prior to completion".
    let store = answers("HTTP/1.1 499 X\r\ncontent-length: 0\r\n\r\n").await;
    let id = format!("{}/upload/session", store.endpoint());
    let session = Session { key: "k".into(), id };
    assert_eq!(kind(store.position(&session, Attempt::FIRST)).await.0, FaultKind::NoSession);
    assert_eq!(
        kind(store.append(&session, 0, in_memory(b"1"), None, Attempt::FIRST)).await.0,
        FaultKind::NoSession
    );
    assert_eq!(kind(store.held(&session, Attempt::FIRST)).await.0, FaultKind::NoSession);
    any(&store).abort(&session, Attempt::FIRST).await.unwrap();
}

#[tokio::test]
async fn an_address_that_is_a_secret_is_not_told() {
    let to = "http://127.0.0.1:1/o?upload_id=secret";
    let redirect = format!("HTTP/1.1 308 X\r\nlocation: {to}\r\ncontent-length: 0\r\n\r\n");
    let store = answers(redirect.leak()).await;
    let session =
        Session { key: "k".into(), id: format!("{}/upload/session?upload_id=secret", store.endpoint()) };
    for fault in [
        store.position(&session, Attempt::FIRST).await.unwrap_err(),
        store.append(&session, 0, in_memory(b"1"), None, Attempt::FIRST).await.unwrap_err(),
        any(&store).abort(&session, Attempt::FIRST).await.unwrap_err(),
    ] {
        assert_eq!(fault.kind, FaultKind::Invalid, "{fault}");
        assert!(fault.message.contains("http://127.0.0.1:1/o"), "{fault}");
        assert!(!format!("{fault:?}").contains("secret"), "{fault:?}");
    }
}
