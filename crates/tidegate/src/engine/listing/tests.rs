use std::time::Duration;

use futures::TryStreamExt;
use tidegate_dev::{FaultAction, FaultRule, Knobs};

use super::*;
use crate::backend::Entry;
use crate::backend::s3::{Credentials, S3Settings};
use crate::settings::{Concurrency, RetryPolicy};
use crate::testkit::scripted::{Script, Scripted};
use crate::{ErrorKind, Tidegate};

#[tokio::test]
async fn each_page_is_asked_for_again_and_waited_for_no_longer_than_others() {
    let server = tidegate_dev::Server::builder().start().await.unwrap();
    server.create_bucket("bucket").unwrap();
    let (access, secret) = server.credentials();
    let settings = S3Settings::default()
        .with_endpoint_url(server.endpoint())
        .with_region("us-east-1")
        .with_credentials(Credentials::fixed(access, secret, None));
    let retry = RetryPolicy {
        attempts: 3,
        first_pause: Duration::from_millis(1),
        longest_pause: Duration::from_millis(2),
        patience: Duration::from_millis(500),
        least_patience: Duration::from_millis(500),
        ..RetryPolicy::default()
    };
    let tide = Tidegate::builder().s3(settings).retry(retry).concurrency(Concurrency::Fixed(1));
    let store = tide.build().unwrap().open("s3://bucket").await.unwrap();
    for key in ["a", "b", "c"] {
        store.writer(key).start().await.unwrap().finish().await.unwrap();
    }
    let list = "ListObjectsV2";
    let fails = FaultRule::error(list, 503, "SlowDown");
    let hangs = FaultRule::new(list, FaultAction::HoldAnswer).times(1);
    for faults in [vec![fails.clone().times(2)], vec![hangs, fails.clone().times(1).skip(1)]] {
        server.set_knobs(Knobs { faults, ..Knobs::default() });
        let listed: Vec<Entry> = store.list("").try_collect().await.unwrap();
        assert_eq!(listed.len(), 3);
    }
    server.set_knobs(Knobs { faults: vec![fails], ..Knobs::default() });
    let error = store.list("").try_collect::<Vec<_>>().await.unwrap_err();
    assert_eq!((error.kind(), error.attempts()), (ErrorKind::Throttled, 3), "{error}");
}

/// A store that lists these entries and sessions, whatever it is asked for.
#[derive(Debug)]
struct Lying {
    entries: Vec<Entry>,
    sessions: Vec<OpenSession>,
}

impl Script for Lying {
    fn list(&self, _: &Arc<dyn Backend>, _: &str, _: bool) -> Listing<Entry> {
        stream::iter(self.entries.clone().into_iter().map(Ok)).boxed().into()
    }

    fn sessions(&self, _: &Arc<dyn Backend>, _: &str) -> Listing<OpenSession> {
        stream::iter(self.sessions.clone().into_iter().map(Ok)).boxed().into()
    }
}

/// A store that lists these keys; a key that ends in `>` is a prefix.
fn lying(keys: &[&str]) -> Arc<Scripted<Lying>> {
    let object = |key: &str| Entry::Object(crate::Object { key: key.to_owned(), ..crate::Object::default() });
    let entry =
        |key: &&str| key.strip_suffix('>').map_or_else(|| object(key), |key| Entry::Prefix(key.to_owned()));
    let session = |key: &&str| {
        OpenSession::new(crate::backend::Session { key: (*key).to_owned(), id: "id".to_owned() })
    };
    let lying =
        Lying { entries: keys.iter().map(entry).collect(), sessions: keys.iter().map(session).collect() };
    Scripted::new(crate::backend::memory::Memory::new("lying"), lying)
}

fn requests() -> Arc<Requests> {
    let tide = Tidegate::builder().build().unwrap();
    tide.store(lying(&[])).context().list_requests("")
}

/// Lists `keys`; returns how many entries arrived, and the fault that ended the listing.
async fn given(prefix: &str, recursive: bool, keys: &[&str]) -> (usize, Option<Fault>) {
    let mut entries = entries(&requests(), &*lying(keys), prefix, recursive, None);
    let mut count = 0;
    while let Some(entry) = entries.next().await {
        match entry {
            Ok(_) => count += 1,
            Err(failure) => {
                assert!(entries.next().await.is_none(), "it ends with the fault");
                return (count, Some(failure.fault));
            }
        }
    }
    (count, None)
}

#[tokio::test]
async fn what_lies_outside_of_the_prefix_ends_a_listing() {
    for (prefix, keys, good, wrong) in [
        ("tmp/", &["tmp/a", "tmpx/precious", "tmp/b"][..], 1, "tmpx/precious"),
        ("tmp/", &["prod/precious"], 0, "prod/precious"),
        ("tmp/", &["tmp/a", "tmp"], 1, "`tmp`"),
        ("tmp/", &["tmp/a", "TMP/b"], 1, "TMP/b"),
        ("tmp/", &["tmp/a", "/tmp/b"], 1, "/tmp/b"),
        ("tmp/", &[""], 0, "``"),
    ] {
        let (count, fault) = given(prefix, true, keys).await;
        let fault = fault.unwrap();
        assert_eq!((count, fault.kind), (good, FaultKind::NotAStore));
        assert!(fault.message.contains("`tmp/`") && fault.message.contains(wrong), "{}", fault.message);
        let mut sessions = sessions(&requests(), &*lying(keys), prefix);
        for _ in 0..good {
            sessions.next().await.unwrap().unwrap();
        }
        assert_eq!(sessions.next().await.unwrap().unwrap_err().fault.message, fault.message);
        assert!(sessions.next().await.is_none());
    }
    assert_eq!(given("tmp/", true, &["tmp/", "tmp/z", "tmp/a", "tmp/a/b", "tmp//"]).await.0, 5);
    assert_eq!(given("", true, &["a", "/", "b/c"]).await.0, 3);
}

#[tokio::test]
async fn a_prefix_that_is_not_the_next_one_ends_a_listing() {
    for keys in [["p/a/b/>"], ["p/a>"], ["p/>"], ["q/a/>"], ["p>"], ["p///>"]] {
        let (count, fault) = given("p/", false, &keys).await;
        let fault = fault.expect(keys[0]);
        assert_eq!((count, fault.kind), (0, FaultKind::NotAStore));
        assert!(fault.message.contains("`p/`"), "{}", fault.message);
    }
    assert_eq!(
        given("p/", false, &["p/a", "p/b/>", "p/b/>", "p//>"]).await.0,
        3,
        "repeated ones are given once"
    );
    assert_eq!(given("p/x", false, &["p/xa/>", "p/x/>"]).await.0, 2);
    assert!(given("p/", true, &["p/a/>"]).await.1.is_some(), "there are none in one that is recursive");
}

#[tokio::test]
async fn nothing_outside_of_a_prefix_is_shown_whoever_lists() {
    let tide = Tidegate::builder().build().unwrap();
    let store = tide.store(lying(&["t/a", "other/b"]));
    let shown: Vec<_> = store.list("t/").collect().await;
    assert_eq!(shown.len(), 2);
    let error = shown[1].as_ref().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotAStore);
    assert!(error.to_string().contains("other/b"), "{error}");
    let opened: Vec<_> = store.sessions("t/").collect().await;
    assert_eq!(opened.last().unwrap().as_ref().unwrap_err().kind(), ErrorKind::NotAStore);
}

/// A server that answers every request with this body.
async fn answering(body: String) -> (String, crate::backend::samples::Asked) {
    crate::backend::samples::raw_server(move |_| {
        format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}", body.len())
    })
    .await
}

async fn s3(url: String) -> crate::Store {
    let settings = S3Settings::default()
        .with_endpoint_url(url)
        .with_region("us-east-1")
        .with_credentials(Credentials::fixed("a", "b", None));
    let tide = Tidegate::builder().s3(settings).retry(RetryPolicy { attempts: 2, ..RetryPolicy::default() });
    tide.build().unwrap().open("s3://bucket").await.unwrap()
}

async fn gcs(url: String) -> crate::Store {
    use crate::backend::gcs::{GcsCredentials, GcsSettings};
    let settings =
        GcsSettings::default().with_endpoint_url(url).with_credentials(GcsCredentials::anonymous());
    let tide = Tidegate::builder().gcs(settings).retry(RetryPolicy { attempts: 2, ..RetryPolicy::default() });
    tide.build().unwrap().open("gs://bucket").await.unwrap()
}

#[tokio::test]
async fn a_web_page_is_no_empty_bucket_of_any_store() {
    let page = "<html><body>Please log in</body></html>";
    for is_gcs in [false, true] {
        let (url, asked) = answering(page.to_owned()).await;
        let store = if is_gcs { gcs(url).await } else { s3(url).await };
        let listed = store.list("x/").try_collect::<Vec<_>>().await.unwrap_err();
        let sessions = store.sessions("x/").try_collect::<Vec<_>>().await.unwrap_err();
        for error in [listed, sessions] {
            assert_eq!((error.kind(), error.attempts()), (ErrorKind::NotAStore, 1), "{error}");
            assert!(error.to_string().contains("Please log in"), "{error}");
        }
        // The last one asks whether the bucket lists its objects, and only lacks the listing of uploads.
        assert_eq!(*asked.lock().unwrap(), ["GET", "GET", "GET"]);
    }
}

#[tokio::test]
async fn an_error_in_a_200_is_asked_again_where_that_can_help() {
    let slow = "<?xml version='1.0'?><Error><Code>SlowDown</Code><Message>Reduce.</Message></Error>";
    let (url, asked) = answering(slow.to_owned()).await;
    let error = s3(url).await.list("").try_collect::<Vec<_>>().await.unwrap_err();
    assert_eq!((error.kind(), error.attempts()), (ErrorKind::Throttled, 2), "{error}");
    assert_eq!(asked.lock().unwrap().len(), 2);
    let (url, asked) = answering(r#"{"error":{"code":503,"message":"backend"}}"#.to_owned()).await;
    let error = gcs(url).await.list("").try_collect::<Vec<_>>().await.unwrap_err();
    assert_eq!((error.kind(), error.attempts()), (ErrorKind::Throttled, 2), "{error}");
    assert_eq!(asked.lock().unwrap().len(), 2);
}
