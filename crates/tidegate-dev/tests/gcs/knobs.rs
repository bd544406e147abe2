//! Knobs and counts over Google's protocols.

use std::time::{Duration, Instant};

use tidegate_dev::{Delay, FaultAction, FaultRule, Knobs};

use crate::client::{K256, bytes, server, until_persisted};

const APPEND: &str = "storage.resumable.append";

fn fault(operation: &str, action: FaultAction) -> Knobs {
    Knobs { faults: vec![FaultRule::new(operation, action).times(1)], ..Knobs::default() }
}

#[tokio::test]
async fn operations_are_counted() {
    let (server, client) = server().await;
    let session = client.start("k", "", &[], "").await;
    client.send("PUT", &session, &[], "12345").await.is(200);
    client.read("k").await;
    client.get("/storage/v1/b/bucket/o/none").await.is(404);
    client.get("/storage/v1/b/bucket/o").await.is(200);
    client.send("DELETE", "/storage/v1/b/bucket/o/k", &[], "").await.is(204);
    let counts = server.counts();
    let expected = [
        ("storage.objects.delete", 1),
        ("storage.objects.download", 1),
        ("storage.objects.get", 1),
        ("storage.objects.list", 1),
        ("storage.resumable.append", 1),
        ("storage.resumable.start", 1),
    ];
    let counted: Vec<(&str, u64)> =
        counts.requests.iter().map(|(name, count)| (name.as_str(), *count)).collect();
    assert_eq!(counted, expected);
    assert_eq!(counts.failed.keys().collect::<Vec<_>>(), ["storage.objects.get"]);
    assert_eq!(counts.bytes_in, 5);
}

#[tokio::test]
async fn errors_are_googles() {
    let (server, client) = server().await;
    let action =
        FaultAction::Error { status: 429, code: "rateLimitExceeded".to_owned(), retry_after: Some(3) };
    server.set_knobs(fault("storage.objects.insert", action));
    let refused = client.put("k", "x").await.is(429);
    assert_eq!(refused.header("retry-after"), Some("3"));
    assert_eq!(refused.json()["error"]["errors"][0]["reason"], "rateLimitExceeded");
    client.put("k", "x").await.is(200);
}

#[tokio::test]
async fn a_cut_keeps_what_was_persisted() {
    let (server, client) = server().await;
    let body = bytes(5 * K256);
    // The server takes not a byte more than asked for, whatever the sizes of the pieces that arrive.
    for (after, persisted) in [(0, 0), (K256 - 1, 0), (K256, K256), (2 * K256 + 7, 2 * K256)] {
        let session = client.start("k", "", &[], "").await;
        server.set_knobs(fault(APPEND, FaultAction::ResetRequest { after_bytes: after as u64 }));
        let cut = client.attempt("PUT", &session, &[], body.clone()).await;
        assert!(cut.is_err(), "{cut:?}");
        client.query(&session).await.has(persisted);
        client.get("/storage/v1/b/bucket/o/k").await.is(404);
        let range = format!("bytes {persisted}-{}/{}", body.len() - 1, body.len());
        client.chunk(&session, &range, body.slice(persisted..)).await.is(200);
        assert_eq!(client.read("k").await, body);
        client.send("DELETE", "/storage/v1/b/bucket/o/k", &[], "").await.is(204);
    }
}

#[tokio::test]
async fn a_refusal_in_the_middle_keeps_what_was_persisted() {
    let (server, client) = server().await;
    let action = || FaultAction::ErrorAfter {
        after_bytes: 2 * K256 as u64,
        status: 503,
        code: "backendError".to_owned(),
    };
    let session = client.start("k", "", &[], "").await;
    server.set_knobs(fault(APPEND, action()));
    let refused = client.send("PUT", &session, &[], bytes(5 * K256)).await.is(503);
    assert_eq!(refused.json()["error"]["errors"][0]["reason"], "backendError");
    client.query(&session).await.has(2 * K256);
    assert_eq!(server.counts().failed(APPEND), 1);
    // A stream gets its answer before its end.
    let session = client.start("k", "", &[], "").await;
    server.set_knobs(fault(APPEND, action()));
    let mut stream = client.stream(&session, &[("content-range", "bytes 0-*/*")]);
    stream.push(bytes(3 * K256)).await;
    stream.early_answer().await.unwrap().is(503);
    client.query(&session).await.has(2 * K256);
    // Any other operation is not carried out.
    server.set_knobs(fault("storage.objects.insert", action()));
    client.put("k", bytes(3 * K256)).await.is(503);
    client.get("/storage/v1/b/bucket/o/k").await.is(404);
}

#[tokio::test]
async fn a_stalled_stream_goes_on() {
    let (server, client) = server().await;
    let session = client.start("k", "", &[], "").await;
    server.set_knobs(fault(APPEND, FaultAction::Stall { after_bytes: K256 as u64, ms: 300.0 }));
    let begin = Instant::now();
    let mut stream = client.stream(&session, &[("content-range", "bytes 0-*/*")]);
    stream.push(bytes(3 * K256)).await;
    stream.end().await.unwrap().is(200);
    assert!(begin.elapsed() >= Duration::from_millis(300));
    assert_eq!(client.read("k").await, bytes(3 * K256));
}

#[tokio::test]
async fn a_stalled_stream_that_its_client_gives_up_is_persisted() {
    let (server, client) = server().await;
    let session = client.start("k", "", &[], "").await;
    server.set_knobs(fault(APPEND, FaultAction::Stall { after_bytes: K256 as u64, ms: 100.0 }));
    let mut stream = client.stream(&session, &[("content-range", "bytes 0-*/*")]);
    stream.push(bytes(K256)).await;
    crate::client::until_received(&server, K256 as u64).await;
    stream.break_off().await;
    until_persisted(&client, &session, K256).await;
}

#[tokio::test]
async fn each_chunk_takes_its_time() {
    let (server, client) = server().await;
    let session = client.start("k", "", &[], "").await;
    server.set_knobs(Knobs { commit_latency: Delay::FixedMs(150.0), ..Knobs::default() });
    let begin = Instant::now();
    client.chunk(&session, "bytes 0-262143/*", bytes(K256)).await.has(K256);
    assert!(begin.elapsed() >= Duration::from_millis(150));
    client.query(&session).await.has(K256);
    let begin = Instant::now();
    client.chunk(&session, "bytes */262144", "").await.is(200);
    assert!(begin.elapsed() >= Duration::from_millis(150));
}

#[tokio::test]
async fn a_redirect_names_another_host() {
    let (server, client) = server().await;
    let session = client.start("k", "", &[], "").await;
    for status in [307, 308] {
        let origin = "http://127.0.0.1:9".to_owned();
        server.set_knobs(fault(APPEND, FaultAction::Redirect { status, origin }));
        let sent = client.chunk(&session, "bytes 0-262143/*", bytes(K256)).await.is(status);
        let path = session.strip_prefix(&server.endpoint()).unwrap();
        assert_eq!(sent.header("location"), Some(format!("http://127.0.0.1:9{path}").as_str()));
    }
    client.query(&session).await.has(0);
}

#[tokio::test]
async fn lost_answers_are_carried_out() {
    let (server, client) = server().await;
    let session = client.start("k", "", &[], "").await;
    server.set_knobs(fault(APPEND, FaultAction::LoseAnswer));
    client.attempt("PUT", &session, &[], "body").await.expect_err("answered");
    assert_eq!(client.query(&session).await.is(200).json()["size"], "4");
    assert_eq!(client.read("k").await, "body");
    let denial = FaultAction::DenySuccess { status: 502, code: String::new() };
    server.set_knobs(fault("storage.objects.insert", denial));
    client.put("l", "x").await.is(502);
    assert_eq!(client.read("l").await, "x");
    server.set_knobs(fault("storage.objects.download", FaultAction::ResetResponse { after_bytes: 2 }));
    client.attempt("GET", "/storage/v1/b/bucket/o/k?alt=media", &[], "").await.expect_err("answered");
}

#[tokio::test]
async fn others_replace_remove_and_cancel() {
    let (server, client) = server().await;
    let session = client.start("k", "&ifGenerationMatch=0", &[], "").await;
    server.set_knobs(fault(APPEND, FaultAction::Replace));
    client.send("PUT", &session, &[], "body").await.is(412);
    assert_eq!(client.read("k").await, "");
    server.set_knobs(fault(APPEND, FaultAction::Remove));
    client.send("PUT", &session, &[], "body").await.is(200);
    let session = client.start("k", "", &[], "").await;
    server.set_knobs(fault(APPEND, FaultAction::AbortSessions));
    client.send("PUT", &session, &[], "body").await.is(410);
}
