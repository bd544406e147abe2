//! Every operation says in the same way that a bucket or root is missing.

use tidegate_dev::Server;

use super::*;
use crate::backend::samples::{Asked, raw_server};
use crate::settings::{Credentials, GcsTransport, S3Settings};
use tidegate_gcs::testkit as google;

/// A bucket that exists, and one that does not, of one server.
async fn s3() -> (Server, Store, Store) {
    let server = server().await;
    let (access, secret) = server.credentials();
    let settings = S3Settings::default()
        .with_endpoint_url(server.endpoint())
        .with_region("us-east-1")
        .with_credentials(Credentials::fixed(access, secret, None));
    let tide = Tidegate::builder().s3(settings).build().unwrap();
    let (there, missing) =
        (tide.open("s3://bucket").await.unwrap(), tide.open("s3://missing").await.unwrap());
    (server, there, missing)
}

async fn gcs(over: GcsTransport) -> (Server, Store, Store) {
    let server = server().await;
    let tide = Tidegate::builder().gcs(google::settings(&server, over)).build().unwrap();
    let (there, missing) =
        (tide.open("gs://bucket").await.unwrap(), tide.open("gs://missing").await.unwrap());
    (server, there, missing)
}

async fn server() -> Server {
    let server = Server::builder().start().await.unwrap();
    server.create_bucket("bucket").unwrap();
    server
}

#[tokio::test]
async fn a_missing_bucket_of_s3_is_one_kind_of_error() {
    let (_server, there, missing) = s3().await;
    reads_fail(&missing).await;
    writes_fail(&there, &missing).await;
    sessions_fail(&missing).await;
    // In a bucket that exists, only the object is missing.
    assert_eq!(kind(there.head("k2").await), ErrorKind::NotFound);
}

#[tokio::test]
async fn a_missing_bucket_of_google_is_one_kind_of_error_over_http() {
    let (_server, there, missing) = gcs(GcsTransport::Http).await;
    reads_fail(&missing).await;
    writes_fail(&there, &missing).await;
    assert_eq!(kind(there.head("k2").await), ErrorKind::NotFound);
}

#[cfg(feature = "gcs-grpc")]
#[tokio::test]
async fn a_missing_bucket_of_google_is_one_kind_of_error_over_grpc() {
    let (_server, there, missing) = gcs(GcsTransport::Grpc).await;
    reads_fail(&missing).await;
    writes_fail(&there, &missing).await;
    assert_eq!(kind(there.head("k2").await), ErrorKind::NotFound);
}

/// A write makes the root.
#[tokio::test]
async fn a_missing_root_on_disk_is_the_same_kind_of_error() {
    let directory = tempfile::tempdir().unwrap();
    let tide = Tidegate::builder().build().unwrap();
    let missing = tide.open(directory.path().join("missing").to_str().unwrap()).await.unwrap();
    reads_fail(&missing).await;
    sessions_fail(&missing).await;
    assert_eq!(kind(missing.copy("k", &missing, "to").await), ErrorKind::NoBucket);
    missing.put("k", "1").await.unwrap();
    assert_eq!(kind(missing.head("k2").await), ErrorKind::NotFound);
}

/// The operations that neither write nor copy.
async fn reads_fail(missing: &Store) {
    assert_eq!(kind(missing.head("k").await), ErrorKind::NoBucket, "head");
    assert_eq!(kind(missing.exists("k").await), ErrorKind::NoBucket, "exists");
    assert_eq!(kind(missing.get("k").await), ErrorKind::NoBucket, "get");
    assert_eq!(kind(missing.get_range("k", 1..2).await), ErrorKind::NoBucket, "get_range");
    assert_eq!(kind(missing.reader("k").await.map(|_| ())), ErrorKind::NoBucket, "reader");
    assert_eq!(kind(missing.blocks("k", [0..1]).await.map(|_| ())), ErrorKind::NoBucket, "blocks");
    let into = tempfile::tempdir().unwrap();
    assert_eq!(kind(missing.download("k", into.path().join("k")).await), ErrorKind::NoBucket, "download");
    assert_eq!(kind(missing.list("").try_collect::<Vec<_>>().await), ErrorKind::NoBucket, "list");
    assert_eq!(kind(missing.delete("k").await), ErrorKind::NoBucket, "delete");
    let report = missing.delete_many(["k", "l"]).await;
    let kinds: Vec<_> = report.failed.iter().map(|(_, error)| error.kind()).collect();
    assert_eq!((report.deleted, kinds), (0, vec![ErrorKind::NoBucket; 2]), "delete_many");
    assert_eq!(kind(missing.rename("k", "l").await), ErrorKind::NoBucket, "rename");
}

async fn writes_fail(there: &Store, missing: &Store) {
    assert_eq!(kind(missing.put("k", "1").await), ErrorKind::NoBucket, "put");
    let mut writer = missing.writer("k").part_size(5 << 20).await.unwrap();
    let written = writer.write_bytes(vec![0; 11 << 20].into()).await;
    let ended = match written {
        Ok(()) => writer.finish().await.map(|_| ()),
        Err(error) => Err(error),
    };
    assert_eq!(kind(ended), ErrorKind::NoBucket, "parts");
    there.put("k", "1").await.unwrap();
    assert_eq!(kind(there.copy("k", missing, "k").await), ErrorKind::NoBucket, "copy to");
    assert_eq!(kind(missing.copy("k", there, "k").await), ErrorKind::NoBucket, "copy from");
}

async fn sessions_fail(missing: &Store) {
    assert_eq!(kind(missing.sessions("").try_collect::<Vec<_>>().await), ErrorKind::NoBucket, "sessions");
}

/// A server whose bucket has no object, and which answers a question for the bucket with `status`.
async fn without_objects(status: &'static str) -> (Asked, Tidegate) {
    let (url, asked) = raw_server(move |head| {
        let is_object = head.starts_with("head /bucket/k");
        let status = match is_object {
            true => "404 Not Found",
            false if head.starts_with("head ") => status,
            false => "204 No Content",
        };
        format!("HTTP/1.1 {status}\r\nx-amz-request-id: 1\r\ncontent-length: 0\r\n\r\n")
    })
    .await;
    let settings = S3Settings::default()
        .with_endpoint_url(url)
        .with_region("us-east-1")
        .with_credentials(Credentials::fixed("a", "b", None));
    (asked, Tidegate::builder().s3(settings).build().unwrap())
}

async fn look(tide: &Tidegate) -> ErrorKind {
    kind(tide.open("s3://bucket").await.unwrap().head("k").await)
}

#[tokio::test]
async fn a_bucket_that_answered_is_not_asked_for() {
    let (asked, tide) = without_objects("200 OK").await;
    tide.open("s3://bucket").await.unwrap().delete("k").await.unwrap();
    assert_eq!(look(&tide).await, ErrorKind::NotFound);
    assert_eq!(*asked.lock().unwrap(), ["DELETE", "HEAD"]);
}

#[tokio::test]
async fn a_bucket_is_asked_for_once_however_often_it_is_opened() {
    for status in ["200 OK", "403 Forbidden"] {
        let (asked, tide) = without_objects(status).await;
        for _ in 0..3 {
            assert_eq!(look(&tide).await, ErrorKind::NotFound);
        }
        assert_eq!(*asked.lock().unwrap(), ["HEAD"; 4], "{status}");
    }
}

#[tokio::test]
async fn a_bucket_that_does_not_answer_is_asked_for_in_one_attempt() {
    let (asked, tide) = without_objects("503 Slow Down").await;
    assert_eq!(look(&tide).await, ErrorKind::NotFound);
    assert_eq!(*asked.lock().unwrap(), ["HEAD"; 2]);
}
