//! Streams that stay open: bodies of unknown length.

use crate::client::{K256, bytes, server, until_persisted, until_received};

const REST: (&str, &str) = ("content-range", "bytes 0-*/*");

#[tokio::test]
async fn a_stream_ends_with_the_object() {
    let (_server, client) = server().await;
    let body = bytes(20 * 1024 * 1024 + 77);
    let session = client.start("k", "", &[], "").await;
    let mut stream = client.stream(&session, &[REST]);
    for piece in body.chunks(1_000_003) {
        stream.push(body.slice_ref(piece)).await;
    }
    let end = stream.end().await.unwrap().is(200).json();
    assert_eq!(end["size"], body.len().to_string());
    assert_eq!(client.read("k").await, body);
}

#[tokio::test]
async fn without_a_range_it_is_the_same() {
    let (_server, client) = server().await;
    let session = client.start("k", "", &[], "").await;
    let mut stream = client.stream(&session, &[]);
    stream.push("some").await;
    stream.push("thing").await;
    stream.end().await.unwrap().is(200);
    assert_eq!(client.read("k").await, "something");
}

#[tokio::test]
async fn a_stream_that_breaks_off_keeps_whole_grains() {
    let (server, client) = server().await;
    let body = bytes(5 * K256 + 123);
    let session = client.start("k", "", &[], "").await;
    let mut stream = client.stream(&session, &[REST]);
    stream.push(body.slice(..3 * K256 + 1000)).await;
    until_received(&server, (3 * K256 + 1000) as u64).await;
    stream.break_off().await;
    until_persisted(&client, &session, 3 * K256).await;
    client.query(&session).await.has(3 * K256);
    client.get("/storage/v1/b/bucket/o/k").await.is(404);
    // Another stream resumes the session, starting before the persisted end.
    let mut stream = client.stream(&session, &[("content-range", "bytes 524288-*/*")]);
    stream.push(body.slice(2 * K256..)).await;
    stream.end().await.unwrap().is(200);
    assert_eq!(client.read("k").await, body);
}

#[tokio::test]
async fn a_long_stream_is_persisted_as_it_goes() {
    let (_server, client) = server().await;
    let body = bytes(9 * 1024 * 1024);
    let session = client.start("k", "", &[], "").await;
    let mut stream = client.stream(&session, &[REST]);
    stream.push(body.clone()).await;
    until_persisted(&client, &session, 8 * 1024 * 1024).await;
    // The query did not disturb the stream.
    stream.push("end").await;
    assert_eq!(stream.end().await.unwrap().is(200).json()["size"], (body.len() + 3).to_string());
}

#[tokio::test]
async fn the_latest_request_has_the_session() {
    let (server, client) = server().await;
    let session = client.start("k", "", &[], "").await;
    let mut lost = client.stream(&session, &[REST]);
    lost.push(bytes(K256 / 2)).await;
    // The client has given up the first connection and starts again.
    until_received(&server, (K256 / 2) as u64).await;
    client.send("PUT", &session, &[], "all of it").await.is(200);
    lost.push("more").await;
    let late = lost.end().await.unwrap();
    assert_eq!(late.is(503).json()["error"]["errors"][0]["reason"], "backendError");
    assert_eq!(client.read("k").await, "all of it");
}

#[tokio::test]
async fn a_stream_shorter_than_what_is_there_is_no_object() {
    let (_server, client) = server().await;
    let session = client.start("k", "", &[], "").await;
    client.chunk(&session, "bytes 0-524287/*", bytes(2 * K256)).await.has(2 * K256);
    let mut stream = client.stream(&session, &[REST]);
    stream.push(bytes(K256)).await;
    stream.end().await.unwrap().is(400);
    client.query(&session).await.has(2 * K256);
}

#[tokio::test]
async fn a_refused_stream_is_told_before_its_end() {
    let (_server, client) = server().await;
    let uri = "/upload/storage/v1/b/bucket/o?uploadType=resumable&upload_id=none";
    let mut stream = client.stream(uri, &[REST]);
    stream.push(bytes(K256)).await;
    stream.early_answer().await.unwrap().is(404);
}
