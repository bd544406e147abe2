//! Presigned URLs, as others use them: by one plain request.

use tidegate_dev::Server;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::*;
use crate::Tidegate;
use crate::settings::{Credentials, S3Settings};

const HOUR: Duration = Duration::from_secs(3600);

async fn store(server: &Server, credentials: Credentials) -> Store {
    let settings = S3Settings::default()
        .with_endpoint_url(server.endpoint())
        .with_region("us-east-1")
        .with_credentials(credentials);
    let tide = Tidegate::builder().s3(settings).build().unwrap();
    tide.open("s3://bucket/below").await.unwrap()
}

async fn served() -> (Server, Store) {
    let server = Server::builder().start().await.unwrap();
    server.create_bucket("bucket").unwrap();
    let (access, secret) = server.credentials();
    let store = store(&server, Credentials::fixed(access, secret, None)).await;
    (server, store)
}

/// Sends one request without any header of the store's protocol. Returns the status and the body.
async fn sent(method: &str, url: &str, body: &str) -> (u16, String) {
    let (host, path) = url.strip_prefix("http://").unwrap().split_once('/').unwrap();
    let mut socket = TcpStream::connect(host).await.unwrap();
    let length = body.len();
    let head = format!(
        "{method} /{path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n"
    );
    socket.write_all(format!("{head}{body}").as_bytes()).await.unwrap();
    let mut answer = String::new();
    socket.read_to_string(&mut answer).await.unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
}

#[tokio::test]
async fn anyone_can_use_a_url_for_its_request_alone() {
    let (_server, store) = served().await;
    for key in ["report.csv", "a b/ü+%?&=#.csv", "x/~-_.!*'()"] {
        let (put, get) =
            (store.presign_put(key, HOUR).await.unwrap(), store.presign_get(key, HOUR).await.unwrap());
        assert_eq!(sent("GET", &get, "").await.0, 404, "{key}");
        let (status, said) = sent("PUT", &put, "1,2,3").await;
        assert_eq!(status, 200, "{key}: {said}");
        assert_eq!(store.get(key).await.unwrap(), "1,2,3");
        assert_eq!(sent("GET", &get, "").await, (200, "1,2,3".to_owned()), "{key}");
        assert_eq!(sent("PUT", &get, "4").await.0, 403, "{key}");
        assert_eq!(sent("GET", &put, "").await.0, 403, "{key}");
    }
    let get = store.presign_get("report.csv", HOUR).await.unwrap();
    for (from, to) in [("report.csv", "x/~-_.csv"), ("Expires=3600", "Expires=7200"), ("below", "other")] {
        assert!(get.contains(from));
        assert_eq!(sent("GET", &get.replace(from, to), "").await.0, 403, "{to}");
    }
    assert_eq!(sent("GET", get.split('?').next().unwrap(), "").await.0, 403);
}

#[tokio::test]
async fn a_url_is_of_the_account_that_signed_it() {
    let (server, _) = served().await;
    let stranger = store(&server, Credentials::fixed("other", "secret", None)).await;
    assert_eq!(sent("GET", &stranger.presign_get("k", HOUR).await.unwrap(), "").await.0, 403);
    let token = store(&server, Credentials::fixed("a", "b", Some("to/ken+".into()))).await;
    let url = token.presign_get("k", HOUR).await.unwrap();
    assert!(url.contains("&X-Amz-Security-Token=to%2Fken%2B"), "{url}");
    let anonymous = store(&server, Credentials::anonymous()).await;
    let error = anonymous.presign_get("k", HOUR).await.unwrap_err();
    assert_eq!((error.kind(), error.operation()), (ErrorKind::Credentials, Operation::Presign), "{error}");
}

#[tokio::test]
async fn what_cannot_be_signed_is_refused_without_a_request() {
    let (server, store) = served().await;
    let kind = |result: Result<String>| result.unwrap_err().kind();
    for expires in [Duration::ZERO, Duration::from_millis(999), 7 * 24 * HOUR + Duration::from_nanos(1)] {
        assert_eq!(kind(store.presign_get("k", expires).await), ErrorKind::InvalidInput, "{expires:?}");
    }
    store.presign_put("k", 7 * 24 * HOUR).await.unwrap();
    for key in ["a/../b", ""] {
        let wrong = Tidegate::store(store.tide(), store.context().backend().clone());
        assert_eq!(kind(wrong.presign_put(key, HOUR).await), ErrorKind::InvalidInput, "{key}");
    }
    assert_eq!(server.counts().total(), 0);
    let memory = Tidegate::builder().build().unwrap().open("memory://m").await.unwrap();
    assert_eq!(kind(memory.presign_get("k", HOUR).await), ErrorKind::Unsupported);
}
