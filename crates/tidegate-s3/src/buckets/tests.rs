use std::time::{Duration, UNIX_EPOCH};

use futures::TryStreamExt;

use super::*;
use crate::{Credentials, S3Settings};
use tidegate_core::testkit::samples::{header_of, raw_server};

async fn buckets(url: String, region: &str) -> S3Buckets {
    let settings = S3Settings::default()
        .with_endpoint_url(url)
        .with_region(region)
        .with_credentials(Credentials::fixed("a", "b", None));
    S3Client::connect(&settings).await.unwrap().buckets()
}

fn answer(headers: &str, body: &str) -> String {
    format!("HTTP/1.1 200 OK\r\n{headers}content-length: {}\r\n\r\n{body}", body.len())
}

fn listing(names: &[&str], token: &str) -> String {
    let date = "<CreationDate>2026-01-02T03:04:05.000Z</CreationDate>";
    let buckets: String =
        names.iter().map(|name| format!("<Bucket><Name>{name}</Name>{date}</Bucket>")).collect();
    let token = if token.is_empty() {
        String::new()
    } else {
        format!("<ContinuationToken>{token}</ContinuationToken>")
    };
    format!(
        "<ListAllMyBucketsResult><Owner><ID>o</ID></Owner><Buckets>{buckets}</Buckets>{token}</ListAllMyBucketsResult>"
    )
}

#[tokio::test]
async fn all_pages_are_listed() {
    let (url, asked) = raw_server(|head| match head.split(' ').nth(1) {
        Some("/?max-buckets=1000") => answer("", &listing(&["one", "two"], "t/+1")),
        Some("/?continuation-token=t%2f%2b1&max-buckets=1000") => answer("", &listing(&["three"], "")),
        asked => panic!("{asked:?}"),
    })
    .await;
    let all: Vec<BucketEntry> = buckets(url, "us-east-1").await.list().try_collect().await.unwrap();
    let created = Some(UNIX_EPOCH + Duration::from_secs(1_767_323_045));
    assert_eq!(all, ["one", "two", "three"].map(|name| BucketEntry::new(name, created)));
    assert_eq!(asked.lock().unwrap().len(), 2);
}

#[tokio::test]
async fn a_listing_that_makes_no_progress_ends() {
    let (url, _) = raw_server(|_| answer("", &listing(&["one"], "same"))).await;
    let listed: Result<Vec<BucketEntry>, Fault> = buckets(url, "us-east-1").await.list().try_collect().await;
    assert_eq!(listed.unwrap_err().kind, FaultKind::NotAStore);
}

#[test]
fn a_page_is_read_or_refused() {
    let read = |body: &str| page(&HeaderMap::new(), body.as_bytes(), "us-east-1");
    let none = "<ListAllMyBucketsResult><Buckets/></ListAllMyBucketsResult>";
    assert_eq!(read(none).unwrap(), (VecDeque::new(), None));
    assert_eq!(read("<ListAllMyBucketsResult/>").unwrap_err().kind, FaultKind::NotAStore);
    let odd = "<ListAllMyBucketsResult><Buckets><Bucket><CreationDate>soon</CreationDate><Name>b</Name></Bucket></Buckets></ListAllMyBucketsResult>";
    assert_eq!(read(odd).unwrap().0, [BucketEntry::new("b", None)]);
    let kind = |body: &str| read(body).unwrap_err().kind;
    assert_eq!(
        kind("<ListAllMyBucketsResult><Buckets><Bucket/></Buckets></ListAllMyBucketsResult>"),
        FaultKind::NotAStore
    );
    assert_eq!(kind("<ListAllMyBucketsResult><Buckets><Bucket>"), FaultKind::Transient);
    assert_eq!(kind("<html></html>"), FaultKind::NotAStore);
}

#[tokio::test]
async fn a_bucket_is_created_in_the_region_that_requests_are_signed_for() {
    let (first, other) = (configuration("us-east-1"), configuration("eu-<1").unwrap());
    assert!(
        first.is_none() && other.contains("<LocationConstraint>eu-&lt;1</LocationConstraint>"),
        "{other}"
    );
    for (region, size) in [("us-east-1", None), ("eu-central-1", configuration("eu-central-1"))] {
        let size = size.map_or(0, |document| document.len()).to_string();
        let (url, _) = raw_server(move |head| {
            assert!(head.starts_with("put /new/ "), "{head}");
            assert_eq!(header_of(head, "content-length").unwrap_or("0".into()), size, "{head}");
            answer("location: /new\r\n", "")
        })
        .await;
        buckets(url, region).await.create("new", Attempt::FIRST).await.unwrap();
    }
}

#[tokio::test]
async fn only_the_store_says_that_a_bucket_was_created_or_removed() {
    for body in ["", "<html>Please log in</html>", "<Error><Code>Odd</Code></Error>"] {
        let (url, _) = raw_server(move |_| answer("", body)).await;
        let buckets = buckets(url, "us-east-1").await;
        assert!(buckets.create("new", Attempt::FIRST).await.is_err(), "{body}");
        assert_eq!(buckets.remove("new", Attempt::FIRST).await.is_err(), !body.is_empty(), "{body}");
    }
    let (url, asked) = raw_server(|_| answer("", "")).await;
    let buckets = buckets(url, "us-east-1").await;
    for bucket in ["a/b", "", "..", "a?b"] {
        assert_eq!(
            buckets.create(bucket, Attempt::FIRST).await.unwrap_err().kind,
            FaultKind::Invalid,
            "{bucket}"
        );
        assert_eq!(
            buckets.remove(bucket, Attempt::FIRST).await.unwrap_err().kind,
            FaultKind::Invalid,
            "{bucket}"
        );
    }
    let directory = buckets.create("name--usw2-az1--x-s3", Attempt::FIRST).await.unwrap_err();
    assert_eq!(directory.kind, FaultKind::Unsupported);
    assert!(asked.lock().unwrap().is_empty());
}

#[tokio::test]
async fn a_bare_answer_to_a_creation_is_followed_by_the_question_for_the_bucket() {
    let known = "x-amz-request-id: 1\r\n";
    let none = "HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n";
    let list = "<ListBucketResult><IsTruncated>false</IsTruncated></ListBucketResult>";
    for (head, listed, is_made, requests) in [
        (answer(known, ""), "", true, &["PUT", "HEAD"][..]),
        (answer("", ""), list, true, &["PUT", "HEAD", "GET"]),
        (answer("", ""), "<html>Please log in</html>", false, &["PUT", "HEAD", "GET"]),
        (none.to_owned(), list, false, &["PUT", "HEAD"]),
    ] {
        let (url, asked) = raw_server(move |asked| match asked {
            _ if asked.starts_with("head") => head.clone(),
            _ if asked.starts_with("get") => answer("", listed),
            _ => answer("", ""),
        })
        .await;
        let made = buckets(url, "us-east-1").await.create("new", Attempt::FIRST).await;
        assert_eq!(made.is_ok(), is_made, "{made:?}");
        assert_eq!(*asked.lock().unwrap(), requests);
    }
}
