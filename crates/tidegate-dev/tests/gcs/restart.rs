//! Disk storage survives a restart: objects with their generations, sessions with their bytes.

use tempfile::TempDir;
use tidegate_dev::{Server, Storage};

use crate::client::{Client, K256, bytes, until_received};

async fn start(dir: &TempDir) -> (Server, Client) {
    let server = Server::builder().storage(Storage::Disk(dir.path().to_owned())).start().await.unwrap();
    let client = Client::of(&server);
    (server, client)
}

fn data_files(dir: &TempDir) -> usize {
    std::fs::read_dir(dir.path().join("data")).unwrap().count()
}

#[tokio::test]
async fn sessions_and_objects_outlive_the_server() {
    let dir = tempfile::tempdir().unwrap();
    let (server, client) = start(&dir).await;
    server.create_bucket("bucket").unwrap();
    let body = bytes(2 * K256 + 9);
    let path =
        |session: &str| session.split_once("/upload").map(|(_, path)| format!("/upload{path}")).unwrap();
    let open = path(&client.start("k", "&ifGenerationMatch=0", &[], r#"{"contentType": "text/x"}"#).await);
    client.chunk(&open, "bytes 0-262143/*", body.slice(..K256)).await.has(K256);
    let cancelled = path(&client.start("c", "", &[], "").await);
    client.chunk(&cancelled, "bytes 0-262143/*", bytes(K256)).await.has(K256);
    client.send("DELETE", &cancelled, &[], "").await.is(499);
    let finished = path(&client.start("f", "", &[], "").await);
    let made = client.send("PUT", &finished, &[], "done").await.is(200).json();
    server.stop().await;

    let (server, client) = start(&dir).await;
    let again = client.get("/storage/v1/b/bucket/o/f").await.is(200).json();
    assert_eq!((&again["generation"], &again["crc32c"]), (&made["generation"], &made["crc32c"]));
    assert_eq!(client.query(&finished).await.is(200).json()["generation"], made["generation"]);
    client.query(&cancelled).await.is(410);
    client.query(&open).await.has(K256);
    client.chunk(&open, "bytes 262144-524287/*", body.slice(K256..2 * K256)).await.has(2 * K256);
    server.stop().await;

    let (server, client) = start(&dir).await;
    client.put("k", "in the way").await.is(200);
    client.chunk(&open, "bytes 524288-524296/524297", body.slice(2 * K256..)).await.is(412);
    client.send("DELETE", "/storage/v1/b/bucket/o/k", &[], "").await.is(204);
    let end = client.chunk(&open, "bytes 524288-524296/524297", body.slice(2 * K256..)).await.is(200).json();
    assert_eq!(client.read("k").await, body);
    let same = client.put("same", body.clone()).await.json();
    assert_eq!((&end["crc32c"], &end["md5Hash"]), (&same["crc32c"], &same["md5Hash"]));
    assert_eq!(end["contentType"], "text/x");
    for key in ["k", "f", "same"] {
        client.send("DELETE", &format!("/storage/v1/b/bucket/o/{key}"), &[], "").await.is(204);
    }
    assert_eq!(data_files(&dir), 0, "nothing is left behind");
    server.stop().await;
}

#[tokio::test]
async fn a_stream_under_way_persists_when_the_server_stops() {
    let dir = tempfile::tempdir().unwrap();
    let (server, client) = start(&dir).await;
    server.create_bucket("bucket").unwrap();
    let session = client.start("k", "", &[], "").await;
    let body = bytes(3 * K256);
    let mut stream = client.stream(&session, &[("content-range", "bytes 0-*/*")]);
    stream.push(body.slice(..2 * K256 + 5)).await;
    until_received(&server, (2 * K256 + 5) as u64).await;
    server.stop().await;
    stream.break_off().await;

    let (server, client) = start(&dir).await;
    let path = format!("/upload{}", session.split_once("/upload").unwrap().1);
    client.query(&path).await.has(2 * K256);
    client.chunk(&path, "bytes 524288-786431/786432", body.slice(2 * K256..)).await.is(200);
    assert_eq!(client.read("k").await, body);
    server.stop().await;
}
