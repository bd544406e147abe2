//! Hand-written responses that no well-behaved server gives.

use std::sync::Mutex;

use tokio::io::AsyncReadExt;

use super::*;
use tidegate::settings::RetryPolicy;
use tidegate::{ErrorKind, Reader, Store, Tidegate};
use tidegate_core::testkit::samples::{Asked, raw_server};

/// A server that responds with `answer`, which gets the head of each request.
pub(super) async fn raw(answer: impl Fn(&str) -> String + Send + Sync + 'static) -> (S3, Asked) {
    let (url, asked) = raw_server(answer).await;
    (connect(url).await, asked)
}

/// A store whose server is known to keep the conditions of writes, so that the key is not asked for before.
pub(super) async fn connect(url: String) -> S3 {
    let s3 = connect_unknown(url).await;
    for feature in [Feature::CreateOnly, Feature::CreateOnlyParts] {
        s3.bucket.facts.learn_has(feature);
    }
    s3
}

pub(super) async fn connect_unknown(url: String) -> S3 {
    let settings = S3Settings::default()
        .with_endpoint_url(url)
        .with_region("us-east-1")
        .with_credentials(Credentials::fixed("a", "b", None));
    S3::connect("bucket", &settings).await.unwrap()
}

pub(super) fn store_of(s3: S3) -> Store {
    Tidegate::builder().build().unwrap().store(Arc::new(s3))
}

pub(super) async fn text(mut reader: Reader) -> std::io::Result<String> {
    let mut text = String::new();
    reader.read_to_string(&mut text).await.map(|_| text)
}

const ALL: &str = "HTTP/1.1 200 OK\r\ncontent-length: 10\r\netag: \"e\"\r\n\r\n0123456789";

#[tokio::test]
async fn a_range_that_the_store_ignores_is_cut_out() {
    let (s3, _) = raw(|_| ALL.to_owned()).await;
    let store = store_of(s3);
    let reader = store.reader("k").range(4..6).await.unwrap();
    assert_eq!((reader.range(), reader.object().size), (4..6, 10));
    assert_eq!(text(reader).await.unwrap(), "45");
    for (range, cut) in [(0..3, "012"), (8..20, "89"), (0..10, "0123456789")] {
        let reader = store.reader("k").range(range).await.unwrap();
        assert_eq!(text(reader).await.unwrap(), cut);
    }
    let reader = store.reader("k").range(7..).await.unwrap();
    assert_eq!(text(reader).await.unwrap(), "789");
    let beyond = store.reader("k").range(10..).await.unwrap_err();
    assert_eq!(beyond.kind(), ErrorKind::InvalidInput, "{beyond}");
}

#[tokio::test]
async fn an_open_end_is_asked_for_as_one() {
    let (s3, _) = raw(|head| {
        let asked = head.lines().find_map(|line| line.strip_prefix("range: ")).unwrap();
        assert_eq!(asked, "bytes=4-");
        "HTTP/1.1 206 Partial\r\netag: \"e\"\r\ncontent-length: 6\r\ncontent-range: bytes 4-9/10\r\n\r\n456789".to_owned()
    })
    .await;
    let store = store_of(s3);
    assert_eq!(text(store.reader("k").range(4..).await.unwrap()).await.unwrap(), "456789");
    // MinIO ignores a range whose end exceeds an i64.
    let reader = store.reader("k").range(4..=u64::MAX - 1).await.unwrap();
    assert_eq!(text(reader).await.unwrap(), "456789");
}

#[tokio::test]
async fn other_bytes_than_were_asked_for_are_refused() {
    let (s3, _) = raw(|_| {
        "HTTP/1.1 206 Partial\r\netag: \"e\"\r\ncontent-length: 2\r\ncontent-range: bytes 0-1/10\r\n\r\n01"
            .to_owned()
    })
    .await;
    for range in [Some(4..6), Some(0..3), None] {
        let (refused, said) = kind(s3.get("k", range, None, Attempt::FIRST)).await;
        assert!(refused == FaultKind::Transient && said.contains("bytes 0-1 of 10"), "{said}");
    }
    assert!(s3.get("k", Some(0..2), None, Attempt::FIRST).await.is_ok());
}

#[tokio::test]
async fn a_range_that_was_misunderstood_is_asked_for_again() {
    let answers = Mutex::new(vec!["4-5/10\r\n\r\n45", "0-1/10\r\n\r\n01", "4-4/10\r\n\r\n4"]);
    let (s3, asked) = raw(move |_| {
        let (mut answers, head) = (answers.lock().unwrap(), "HTTP/1.1 206 Partial\r\ncontent-length: ");
        let answer = answers.pop().unwrap();
        let length = answer.rsplit_once('\n').unwrap().1.len();
        format!("{head}{length}\r\netag: \"e\"\r\ncontent-range: bytes {answer}")
    })
    .await;
    let reader = store_of(s3).reader("k").range(4..6).await.unwrap();
    assert_eq!(text(reader).await.unwrap(), "45");
    assert_eq!(asked.lock().unwrap().len(), 3);
}

#[tokio::test]
async fn a_reader_that_failed_says_so_whenever_it_is_asked() {
    let (s3, _) = raw(|_| ALL.replace("etag", "x-amz-checksum-crc64nvme: AAAAAAAAAAA=\r\netag")).await;
    let mut reader = store_of(s3).reader("k").await.unwrap();
    let mut bytes = Vec::new();
    let first = reader.read_to_end(&mut bytes).await.unwrap_err().to_string();
    assert!(first.contains("checksum"), "{first}");
    for _ in 0..3 {
        assert_eq!(reader.read(&mut [0; 100]).await.unwrap_err().to_string(), first);
        let again = reader.try_next().await.unwrap_err();
        assert_eq!((again.kind(), again.to_string()), (ErrorKind::Integrity, first.clone()));
    }
}

#[tokio::test]
async fn a_range_that_ends_before_it_begins_is_refused() {
    let (s3, asked) = raw(|_| ALL.to_owned()).await;
    let store = store_of(s3);
    #[expect(clippy::reversed_empty_ranges, reason = "what is tested")]
    let refused = store.reader("k").range(6..4).await.unwrap_err();
    assert_eq!((refused.kind(), refused.attempts()), (ErrorKind::InvalidInput, 0), "{refused}");
    assert_eq!(*asked.lock().unwrap(), [""; 0]);
    assert_eq!(text(store.reader("k").range(4..4).await.unwrap()).await.unwrap(), "");
}

/// A store whose responses have no checksum: `PUT` succeeds, and every other request gets `then`.
async fn without_checksums(then: &'static str) -> (Store, Asked) {
    let (s3, asked) = raw(move |head| match head.split(' ').next() {
        Some("put") => "HTTP/1.1 200 OK\r\ncontent-length: 0\r\netag: \"mine\"\r\n\r\n".to_owned(),
        _ => then.to_owned(),
    })
    .await;
    (store_of(s3), asked)
}

async fn put(store: &Store) -> tidegate::Result<Object> {
    let mut writer = store.writer("k").create_only().await?;
    writer.write_bytes(Bytes::from_static(b"hello")).await?;
    writer.finish().await
}

#[tokio::test]
async fn a_success_stays_one_whatever_is_there_when_the_store_is_asked() {
    let others =
        "HTTP/1.1 200 OK\r\ncontent-length: 99\r\netag: \"theirs\"\r\nx-amz-meta-tidegate-writer: t\r\n\r\n";
    let gone = "HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n";
    let denied = "HTTP/1.1 403 Forbidden\r\ncontent-length: 0\r\n\r\n";
    let failing = "HTTP/1.1 500 Internal Server Error\r\ncontent-length: 0\r\n\r\n";
    for then in [others, gone, denied, failing] {
        let (store, asked) = without_checksums(then).await;
        let object = put(&store).await.unwrap();
        assert_eq!((object.size, object.etag.as_deref()), (5, Some("\"mine\"")), "{then}");
        assert_eq!(*asked.lock().unwrap(), ["PUT", "HEAD"], "the bytes went once: {then}");
    }
}

#[tokio::test]
async fn a_size_that_is_not_ours_on_our_own_write_is_told() {
    let short = "HTTP/1.1 200 OK\r\ncontent-length: 4\r\netag: \"mine\"\r\n\r\n";
    let (store, _) = without_checksums(short).await;
    let error = put(&store).await.unwrap_err();
    assert_eq!((error.kind(), error.attempts()), (ErrorKind::Integrity, 1));
    assert!(error.elapsed() > Duration::ZERO && error.to_string().contains("after 1 attempt in"), "{error}");
}

#[tokio::test]
async fn what_a_lost_answer_comes_to_says_how_often_it_was_tried() {
    for there in ["404 Not Found", "403 Forbidden", "200 OK"] {
        let (s3, _) = raw(move |head| match head.split(' ').next() {
            Some("put") => "HTTP/1.1 500 Internal Server Error\r\ncontent-length: 0\r\n\r\n".to_owned(),
            _ => format!("HTTP/1.1 {there}\r\ncontent-length: 0\r\n\r\n"),
        })
        .await;
        let mut policy = RetryPolicy::default();
        policy.attempts = 2;
        let store = Tidegate::builder().retry(policy).build().unwrap().store(Arc::new(s3));
        let error = put(&store).await.unwrap_err();
        assert_eq!((error.kind(), error.attempts()), (ErrorKind::Uncertain, 2), "{error}");
        assert!(
            error.elapsed() > Duration::ZERO && error.to_string().contains("after 2 attempts"),
            "{error}"
        );
    }
}

#[tokio::test]
async fn an_object_from_before_the_write_cannot_have_replaced_it() {
    let refused = "HTTP/1.1 412 Precondition Failed\r\ncontent-length: 0\r\n\r\n";
    let code = "<Error><Code>InternalError</Code></Error>";
    let failed = format!("HTTP/1.1 500 Failed\r\ncontent-length: {}\r\n\r\n{code}", code.len());
    let lost = "HTTP/1.1 502 Bad Gateway\r\ncontent-length: 0\r\n\r\n";
    let long_ago = "Sun, 06 Nov 1994 08:49:37 GMT".to_owned();
    let just_now = httpdate::fmt_http_date(std::time::SystemTime::now());
    for (first, second, modified, kind) in [
        (lost, refused, &long_ago, ErrorKind::AlreadyExists),
        (lost, refused, &just_now, ErrorKind::Uncertain),
        (&failed, &failed, &long_ago, ErrorKind::Unavailable),
        (&failed, &failed, &just_now, ErrorKind::Uncertain),
        // The store itself never answered: the PUT may still arrive and replace even an old object.
        (lost, lost, &long_ago, ErrorKind::Uncertain),
    ] {
        let puts = Mutex::new([second.to_owned(), first.to_owned()].to_vec());
        let modified = modified.clone();
        let (s3, asked) = raw(move |head| match head.split(' ').next() {
            Some("put") => puts.lock().unwrap().pop().unwrap(),
            _ => format!(
                "HTTP/1.1 200 OK\r\ncontent-length: 5\r\netag: \"t\"\r\nlast-modified: {modified}\r\n\r\n"
            ),
        })
        .await;
        let mut policy = RetryPolicy::default();
        policy.attempts = 2;
        let store = Tidegate::builder().retry(policy).build().unwrap().store(Arc::new(s3));
        let error = put(&store).await.unwrap_err();
        assert_eq!(error.kind(), kind, "{error}");
        assert_eq!(*asked.lock().unwrap(), ["PUT", "PUT", "HEAD"]);
    }
}

#[tokio::test]
async fn a_session_that_cannot_be_aborted_is_told_once() {
    let (s3, asked) = raw(|head| {
        let opened = "<InitiateMultipartUploadResult><UploadId>u</UploadId></InitiateMultipartUploadResult>";
        match head.split(' ').next() {
            Some("post") => format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{opened}", opened.len()),
            _ => "HTTP/1.1 403 Forbidden\r\ncontent-length: 0\r\n\r\n".to_owned(),
        }
    })
    .await;
    let tide = Tidegate::builder().build().unwrap();
    let mut writer = tide.store(Arc::new(s3)).writer("k").part_size(5 << 20).await.unwrap();
    writer.write_bytes(Bytes::from(vec![1; 6 * MIB])).await.unwrap();
    assert_eq!(writer.finish().await.unwrap_err().kind(), ErrorKind::PermissionDenied);
    let failed = tide.settled().await;
    let told = failed.iter().map(|error| (error.object(), error.operation())).collect::<Vec<_>>();
    assert_eq!(told, [("s3://bucket/k", tidegate::Operation::Abort)]);
    assert!(asked.lock().unwrap().iter().any(|method| method == "DELETE"));
    assert!(tide.settled().await.is_empty());
}
