//! Removals of many objects in few requests.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use futures::stream;
use tidegate_dev::{FaultRule, Knobs, Server};

use super::*;
use crate::backend::samples::raw_server;
use crate::settings::{Credentials, RetryPolicy, S3Settings};
use crate::store::Deletion;

async fn s3(endpoint: String, access: &str, secret: &str) -> Store {
    let settings = S3Settings::default()
        .with_endpoint_url(endpoint)
        .with_region("us-east-1")
        .with_credentials(Credentials::fixed(access, secret, None));
    let retry = RetryPolicy { first_pause: std::time::Duration::from_millis(1), ..RetryPolicy::default() };
    let tide = Tidegate::builder().s3(settings).retry(retry).build().unwrap();
    tide.open("s3://bucket/below").await.unwrap()
}

async fn served() -> (Server, Store) {
    let server = Server::builder().start().await.unwrap();
    server.create_bucket("bucket").unwrap();
    let (access, secret) = server.credentials();
    let store = s3(server.endpoint(), access, secret).await;
    (server, store)
}

fn keys(count: usize) -> Vec<String> {
    (0..count).map(|number| format!("k{number:05}")).collect()
}

async fn put(store: &Store, keys: &[String]) {
    let puts = keys.iter().map(|key| async move { store.put(key, "1").await.map(drop) });
    stream::iter(puts).buffer_unordered(32).try_collect::<()>().await.unwrap();
}

/// How many requests for many keys, and for one, the server was sent.
fn asked(server: &Server) -> (u64, u64) {
    let counts = server.counts();
    (counts.get("DeleteObjects"), counts.get("DeleteObject"))
}

fn faults(server: &Server, rule: FaultRule) {
    server.set_knobs(Knobs { faults: vec![rule], ..Knobs::default() });
}

#[tokio::test]
async fn a_thousand_keys_are_one_request() {
    let (server, store) = served().await;
    put(&store, &keys(2_500)).await;
    store.put("left", "1").await.unwrap();
    assert_eq!(store.delete_many(keys(2_500)).await.into_result().unwrap(), 2_500);
    assert_eq!(asked(&server), (3, 0));
    let left: Vec<Entry> = store.list("").try_collect().await.unwrap();
    assert_eq!(left.iter().map(Entry::key).collect::<Vec<_>>(), ["left"]);

    // Once more: none of them is there.
    assert_eq!(store.delete_many(keys(2_500)).await.into_result().unwrap(), 2_500);
    // As a stream, the keys of a listing.
    put(&store, &keys(1_200)).await;
    let listed = store.list("k").map_ok(|entry| entry.key().to_owned());
    let mut removed: Vec<String> =
        store.delete_stream(listed).map(|deletion| deletion.key.unwrap()).collect().await;
    removed.sort_unstable();
    assert_eq!(removed, keys(1_200));
    assert_eq!(asked(&server), (8, 0));
}

#[tokio::test]
async fn one_key_alone_and_keys_that_xml_changes_are_requests_of_their_own() {
    let (server, store) = served().await;
    assert_eq!(store.delete_many(["k"]).await.into_result().unwrap(), 1);
    assert_eq!(asked(&server), (0, 1));
    let odd = ["trail ", "line\nbreak", "a\u{1}b", "<&>", "plain"];
    for key in odd.into_iter().chain(["trail"]) {
        store.put(key, "1").await.unwrap();
    }
    assert_eq!(store.delete_many(odd).await.into_result().unwrap(), 5);
    assert_eq!(asked(&server), (1, 4));
    assert!(store.exists("trail").await.unwrap());
    // A key that no request can name fails alone.
    let report = store.delete_many(["a/../b", "trail", "plain"]).await;
    assert_eq!((report.deleted, report.failed.len()), (2, 1));
    assert_eq!(report.failed[0].0.as_deref(), Some("a/../b"));
    assert_eq!(report.failed[0].1.kind(), ErrorKind::InvalidInput);
}

#[tokio::test]
async fn keys_that_come_late_do_not_hold_back_others() {
    let (server, store) = served().await;
    let (sender, receiver) = tokio::sync::mpsc::unbounded_channel::<String>();
    let arriving = stream::unfold(receiver, |mut receiver| async {
        receiver.recv().await.map(|key| (Ok(key), receiver))
    });
    let mut removals = store.delete_stream(arriving);
    for round in 1..=3 {
        for key in keys(10) {
            sender.send(key).unwrap();
        }
        let ended: Vec<Deletion> = (&mut removals).take(10).collect().await;
        assert!(ended.iter().all(|deletion| deletion.result.is_ok()));
        assert_eq!(asked(&server), (round, 0));
    }
    drop(sender);
    assert!(removals.next().await.is_none());
}

#[tokio::test]
async fn keys_that_come_one_by_one_share_requests() {
    let (server, store) = served().await;
    let arriving = stream::iter(keys(100)).then(|key| async {
        tokio::task::yield_now().await;
        Ok(key)
    });
    assert_eq!(store.delete_stream(arriving).await.into_result().unwrap(), 100);
    let (for_many, for_one) = asked(&server);
    assert!(for_many + for_one <= 20, "{for_many} and {for_one} requests");
}

#[tokio::test]
async fn a_server_without_such_requests_is_remembered() {
    for (status, code) in [
        (501, "NotImplemented"),
        (405, "MethodNotAllowed"),
        (400, "MethodNotAllowed"),
        (400, "InvalidArgument"),
        (405, ""),
        (404, ""),
    ] {
        let (server, store) = served().await;
        put(&store, &keys(30)).await;
        faults(&server, FaultRule::error("DeleteObjects", status, code));
        assert_eq!(store.delete_many(keys(30)).await.into_result().unwrap(), 30, "{status}");
        assert_eq!(asked(&server), (1, 30));
        assert!(store.list("").try_next().await.unwrap().is_none());
        assert_eq!(store.delete_many(keys(30)).await.into_result().unwrap(), 30);
        assert_eq!(asked(&server), (1, 60), "{status}");
    }
}

#[tokio::test]
async fn a_request_that_the_store_throttles_or_whose_answer_is_lost_is_made_again() {
    for rule in [FaultRule::error("DeleteObjects", 503, "SlowDown"), FaultRule::lose_answer("DeleteObjects")]
    {
        let (server, store) = served().await;
        put(&store, &keys(30)).await;
        faults(&server, rule.times(2));
        assert_eq!(store.delete_many(keys(30)).await.into_result().unwrap(), 30);
        assert_eq!(asked(&server), (3, 0));
        assert!(store.list("").try_next().await.unwrap().is_none());
    }
}

#[tokio::test]
async fn a_refusal_of_all_is_an_error_of_each_key() {
    let (server, store) = served().await;
    faults(&server, FaultRule::error("DeleteObjects", 403, "AccessDenied"));
    let report = store.delete_many(keys(3)).await;
    assert_eq!((report.deleted, report.failed.len(), asked(&server)), (0, 3, (1, 0)));
    for (key, error) in &report.failed {
        let url = format!("s3://bucket/below/{}", key.as_deref().unwrap());
        let told = (error.kind(), error.operation(), error.object(), error.attempts());
        assert_eq!(told, (ErrorKind::PermissionDenied, Operation::Delete, url.as_str(), 1));
    }
}

fn answer(status: &str, body: &str) -> String {
    format!("HTTP/1.1 {status}\r\nx-amz-request-id: 1\r\ncontent-length: {}\r\n\r\n{body}", body.len())
}

#[tokio::test]
async fn each_key_of_a_request_has_its_own_outcome() {
    let posts = AtomicU32::new(0);
    let (url, asked) = raw_server(move |head| {
        if head.starts_with("delete /bucket/below/unanswered ") {
            return answer("204 No Content", "");
        }
        if head.starts_with("delete /bucket/below/odd ") {
            return answer(
                "403 Forbidden",
                "<Error><Code>AccessDenied</Code><Message>Odd.</Message></Error>",
            );
        }
        assert!(head.starts_with("post /bucket/?delete ") && head.contains("content-md5: "), "{head}");
        let failed = |key: &str, code: &str| {
            format!("<Error><Key>below/{key}</Key><Code>{code}</Code><Message>No.</Message></Error>")
        };
        let removed = |key: &str| format!("<Deleted><Key>below/{key}</Key></Deleted>");
        let parts = match posts.fetch_add(1, Relaxed) {
            0 => vec![
                removed("a"),
                failed("denied", "AccessDenied"),
                failed("missing", "NoSuchKey"),
                failed("later", "InternalError"),
                failed("odd", "Odd"),
            ],
            // The second request is for the one key whose failure a retry can help.
            _ => vec![removed("later")],
        };
        answer("200 OK", &format!("<DeleteResult>{}</DeleteResult>", parts.concat()))
    })
    .await;
    let store = s3(url, "a", "b").await;
    let report = store.delete_many(["a", "denied", "missing", "later", "odd", "unanswered"]).await;
    assert_eq!(report.deleted, 4, "{report:?}");
    let mut failed: Vec<_> =
        report.failed.iter().map(|(key, error)| (key.as_deref().unwrap(), error.kind())).collect();
    failed.sort_unstable_by_key(|(key, _)| *key);
    assert_eq!(failed, [("denied", ErrorKind::PermissionDenied), ("odd", ErrorKind::PermissionDenied)]);
    let mut asked = asked.lock().unwrap().clone();
    asked.sort_unstable();
    assert_eq!(asked, ["DELETE", "DELETE", "POST", "POST"]);
}

#[tokio::test]
async fn a_failure_of_no_key_that_was_asked_for_has_each_key_removed_by_itself() {
    for stray in ["", "<Key>/below/a</Key>", "<Key>below%2Fa</Key>"] {
        let stray = format!("<Error>{stray}<Code>AccessDenied</Code><Message>No.</Message></Error>");
        let (url, asked) = raw_server(move |head| {
            if head.starts_with("post ") {
                return answer("200 OK", &format!("<DeleteResult>{stray}</DeleteResult>"));
            }
            match head.starts_with("delete /bucket/below/a ") {
                true => {
                    answer("403 Forbidden", "<Error><Code>AccessDenied</Code><Message>No.</Message></Error>")
                }
                false => answer("204 No Content", ""),
            }
        })
        .await;
        let report = s3(url, "a", "b").await.delete_many(["a", "b", "c"]).await;
        assert_eq!((report.deleted, report.failed.len()), (2, 1), "{report:?}");
        assert_eq!(report.failed[0].0.as_deref(), Some("a"));
        assert_eq!(report.failed[0].1.kind(), ErrorKind::PermissionDenied);
        let mut asked = asked.lock().unwrap().clone();
        asked.sort_unstable();
        assert_eq!(asked, ["DELETE", "DELETE", "DELETE", "POST"]);
    }
}

#[tokio::test]
async fn keys_of_a_request_whose_runtime_was_shut_down_are_failures() {
    let (url, _asked) = raw_server(|_| String::new()).await;
    let store = s3(url, "a", "b").await;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let removals = runtime.spawn(async move {
        let mut removals = store.delete_many(["a", "b", "c"]);
        assert!(futures::poll!(removals.next()).is_pending());
        removals
    });
    let removals = removals.await.unwrap();
    runtime.shutdown_background();
    let failed = removals.map(|removal| (removal.key.unwrap(), removal.result.unwrap_err().kind())).collect();
    let mut failed: Vec<_> =
        tokio::time::timeout(std::time::Duration::from_secs(20), failed).await.expect("it ends");
    failed.sort_unstable_by(|a, b| a.0.cmp(&b.0));
    assert_eq!(failed, ["a", "b", "c"].map(|key| (key.to_owned(), ErrorKind::Closed)));
}
