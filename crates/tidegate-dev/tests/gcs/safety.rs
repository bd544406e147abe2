//! Tests that the server prevents names that lead out of its storage, requests from web pages, clients without
//! credentials beyond loopback, and clients that hold memory.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use tidegate_dev::{Server, Storage};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::client::Client;

/// Sends a request byte for byte and returns the status.
async fn raw(server: &Server, head: &str, body: &[u8]) -> u16 {
    let mut stream = TcpStream::connect(("127.0.0.1", server.addr().port())).await.unwrap();
    let request = format!("{head}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n", body.len());
    stream.write_all(&[request.as_bytes(), body].concat()).await.unwrap();
    let mut answer = Vec::new();
    let reading = stream.read_to_end(&mut answer);
    tokio::time::timeout(Duration::from_secs(30), reading).await.unwrap().unwrap();
    let text = String::from_utf8_lossy(&answer);
    text.split(' ').nth(1).unwrap_or_else(|| panic!("{text:?}")).parse().unwrap()
}

async fn disk(root: &Path) -> (Server, Client) {
    let builder = Server::builder().storage(Storage::Disk(root.to_owned())).auto_create_buckets(true);
    let server = builder.start().await.unwrap();
    let client = Client::of(&server);
    (server, client)
}

/// All files below a directory, with their contents.
fn tree(path: &Path) -> Vec<(String, Vec<u8>)> {
    let mut files: Vec<_> = fs::read_dir(path)
        .unwrap()
        .flat_map(|entry| {
            let path = entry.unwrap().path();
            match path.is_dir() {
                true => tree(&path),
                false => vec![(path.display().to_string(), fs::read(&path).unwrap())],
            }
        })
        .collect();
    files.sort();
    files
}

#[tokio::test]
async fn names_of_buckets_lead_nowhere_in_any_dialect() {
    let place = tempfile::tempdir().unwrap();
    fs::create_dir_all(place.path().join("victim/deep")).unwrap();
    fs::write(place.path().join("victim/deep/precious"), "precious").unwrap();
    let before = tree(&place.path().join("victim"));
    let (server, client) = disk(&place.path().join("root")).await;
    let host = format!("host: {}", server.addr());
    let names = [
        "..%2F..%2Fvictim",
        "..",
        ".",
        "%2e%2e",
        "%2E%2E%2F%2e%2e%2Fvictim",
        "a%2Fb",
        "%2Fetc",
        "..%5Cvictim",
        "vic%00tim",
        "_tidegate",
        "UPPER",
        "ab",
    ];
    for name in names {
        let json = [
            ("POST", format!("/upload/storage/v1/b/{name}/o?uploadType=media&name=k")),
            ("POST", format!("/upload/storage/v1/b/{name}/o?uploadType=resumable&name=k")),
            ("POST", format!("/storage/v1/b/bucket/o/k/rewriteTo/b/{name}/o/k")),
            ("DELETE", format!("/storage/v1/b/{name}/o/k")),
            ("DELETE", format!("/storage/v1/b/{name}")),
        ];
        for (method, path) in json {
            let status = raw(&server, &format!("{method} {path} HTTP/1.1\r\n{host}"), b"x").await;
            assert!((400..500).contains(&status), "{method} {path}: {status}");
        }
        for method in ["PUT", "DELETE"] {
            for path in [format!("/{name}/k"), format!("/{name}")] {
                let head = format!("{method} {path} HTTP/1.1\r\n{host}\r\nx-goog-user-project: p");
                let status = raw(&server, &head, b"").await;
                assert!((400..500).contains(&status), "{method} {path}: {status}");
            }
        }
        let wanted = serde_json::json!({ "name": percent(name) }).to_string();
        let json = &[("content-type", "application/json")];
        client.send("POST", "/storage/v1/b?project=p", json, wanted).await.is(400);
        let fill = serde_json::json!({ "bucket": percent(name), "keys": ["k"] }).to_string();
        client.send("POST", "/_tidegate/objects", json, fill).await.is(400);
        assert!(server.create_bucket(&percent(name)).is_err(), "{name}");
    }
    assert_eq!(tree(&place.path().join("victim")), before);
    let buckets = fs::read_dir(place.path().join("root/buckets")).unwrap().count();
    assert_eq!(buckets, 0, "no bucket was made");
}

fn percent(name: &str) -> String {
    name.replace("%2F", "/").replace("%2e", ".").replace("%2E", ".").replace("%5C", "\\").replace("%00", "\0")
}

#[tokio::test]
async fn a_removed_bucket_takes_nothing_with_it_that_the_server_did_not_create() {
    let place = tempfile::tempdir().unwrap();
    let (root, outside) = (place.path().join("root"), place.path().join("outside"));
    fs::create_dir_all(&outside).unwrap();
    fs::write(outside.join("precious"), "precious").unwrap();
    let (server, client) = disk(&root).await;
    client.send("POST", "/upload/storage/v1/b/bucket/o?uploadType=media&name=k", &[], "x").await.is(200);
    client.send("DELETE", "/storage/v1/b/bucket/o/k", &[], "").await.is(204);
    let bucket = root.join("buckets/bucket");
    symlink(&outside, bucket.join("link")).unwrap();
    symlink(&outside, bucket.join("uploads/link")).unwrap();
    fs::write(bucket.join("notes.txt"), "somebody's").unwrap();
    client.send("DELETE", "/storage/v1/b/bucket", &[], "").await.is(204);
    assert_eq!(fs::read(outside.join("precious")).unwrap(), b"precious");
    assert_eq!(fs::read(bucket.join("notes.txt")).unwrap(), b"somebody's");
    client.get("/storage/v1/b/bucket").await.is(404);
    server.stop().await;

    // Files of a deleted bucket, and directories that are no buckets, survive a start as well.
    fs::create_dir_all(root.join("buckets/Not A Bucket")).unwrap();
    fs::write(root.join("buckets/Not A Bucket/file"), "x").unwrap();
    fs::write(root.join("data/notes.txt"), "somebody's").unwrap();
    let (server, client) = disk(&root).await;
    client.send("POST", "/upload/storage/v1/b/bucket/o?uploadType=media&name=k", &[], "x").await.is(200);
    assert_eq!(&client.read("k").await[..], b"x");
    for left in ["buckets/Not A Bucket/file", "data/notes.txt", "buckets/bucket/notes.txt"] {
        assert!(root.join(left).exists(), "{left}");
    }
    server.stop().await;
}

#[tokio::test]
async fn links_in_the_storage_are_not_followed() {
    let place = tempfile::tempdir().unwrap();
    let (root, outside) = (place.path().join("root"), place.path().join("outside"));
    fs::create_dir_all(&outside).unwrap();
    let (server, client) = disk(&root).await;
    client.send("POST", "/upload/storage/v1/b/bucket/o?uploadType=media&name=k", &[], "x").await.is(200);
    fs::remove_dir_all(root.join("buckets/bucket/objects")).unwrap();
    symlink(&outside, root.join("buckets/bucket/objects")).unwrap();
    let written =
        client.send("POST", "/upload/storage/v1/b/bucket/o?uploadType=media&name=l", &[], "x").await;
    assert_eq!(written.status, 500);
    assert_eq!(fs::read_dir(&outside).unwrap().count(), 0);
    server.stop().await;
}

#[tokio::test]
async fn web_pages_and_foreign_hosts_are_refused_in_every_dialect() {
    let server = Server::builder().auto_create_buckets(true).host("store.test").start().await.unwrap();
    server.create_bucket("bucket").unwrap();
    let port = server.addr().port();
    let requests = [
        ("GET /storage/v1/b/bucket/o HTTP/1.1", ""),
        ("POST /upload/storage/v1/b/bucket/o?uploadType=media&name=k HTTP/1.1", "x"),
        ("GET /bucket?list-type=2 HTTP/1.1\r\nx-goog-user-project: p", ""),
        ("PUT /_tidegate/knobs HTTP/1.1\r\ncontent-type: application/json", "{}"),
        ("POST /google.storage.v2.Storage/ListObjects HTTP/1.1\r\ncontent-type: application/grpc", ""),
    ];
    for (request, body) in requests {
        for wrong in [
            "host: evil.example",
            "host: localhost\r\norigin: null",
            "host: [::1]:1\r\nsec-fetch-site: same-origin",
        ] {
            let status = raw(&server, &format!("{request}\r\n{wrong}"), body.as_bytes()).await;
            // gRPC has its status in a separate header.
            let is_refused = status == 403 || (request.contains("grpc") && status == 200);
            assert!(is_refused, "{request} {wrong}: {status}");
        }
        let allowed = format!("{request}\r\nhost: store.test:{port}");
        if !request.contains("grpc") {
            assert_eq!(raw(&server, &allowed, body.as_bytes()).await, 200, "{request}");
        }
    }
    let listed = Client::of(&server).get("/storage/v1/b/bucket/o").await.is(200).json();
    assert_eq!(
        listed["items"].as_array().map(Vec::len),
        Some(1),
        "only the allowed upload is there: {listed}"
    );
    let simple =
        format!("POST /_tidegate/objects HTTP/1.1\r\nhost: localhost:{port}\r\ncontent-type: text/plain");
    assert_eq!(raw(&server, &simple, br#"{"bucket": "bucket", "keys": ["l"]}"#).await, 415);
}

#[tokio::test]
async fn beyond_loopback_google_s_side_needs_the_secret() {
    let builder = || Server::builder().listen("0.0.0.0:0".parse().unwrap()).credentials("key", "secret");
    let requests = [
        "GET /storage/v1/b HTTP/1.1",
        "GET / HTTP/1.1\r\nx-goog-user-project: p",
        "GET /_tidegate/counts HTTP/1.1",
    ];
    let server = builder().start().await.unwrap();
    for request in requests {
        let anonymous = format!("{request}\r\nhost: localhost");
        assert_eq!(raw(&server, &anonymous, b"").await, 401, "{request}");
        assert_eq!(raw(&server, &format!("{anonymous}\r\nauthorization: Bearer guess"), b"").await, 401);
        assert_eq!(raw(&server, &format!("{anonymous}\r\nauthorization: Bearer secret"), b"").await, 200);
    }
    let open = builder().allow_anonymous(true).start().await.unwrap();
    for request in requests {
        assert_eq!(raw(&open, &format!("{request}\r\nhost: localhost"), b"").await, 200, "{request}");
    }
}

#[tokio::test]
async fn metadata_that_never_ends_is_cut_off() {
    let server = Server::builder().auto_create_buckets(true).start().await.unwrap();
    let client = Client::of(&server);
    let path = "/upload/storage/v1/b/bucket/o?uploadType=multipart";
    let related = &[("content-type", "multipart/related; boundary=b")];
    let endless = vec![b'x'; 6 << 20];
    for start in ["--b\r\n\r\n", "--b\r\ncontent-type: ", "--b\r\n\r\n{\"name\": \"k\"}\r\n--b\r\nx-long: "] {
        let body = Bytes::from([start.as_bytes(), &endless].concat());
        let answer = client.attempt("POST", path, related, body).await;
        assert!(answer.as_ref().is_ok_and(|answer| answer.status == 400), "{start:?}: {answer:?}");
    }
}
