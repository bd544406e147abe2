//! What of the measurements speaks TLS, with a server that has a certificate made for it.

#![allow(clippy::unwrap_used, reason = "it is all tests")]

use std::path::Path;

use serde_json::Value;
use tempfile::TempDir;
use tidegate::backend::{Attempt, Backend};
use tidegate_bench::certificate::CertificateFiles;
use tidegate_bench::embedded::StoreEndpoint;
use tidegate_bench::http::LocalClient;
use tidegate_bench::sign::Signer;
use tidegate_dev::{Server, Tls};
use tokio::runtime::Runtime;

/// A server with the bucket `bucket`.
struct Place {
    runtime: Runtime,
    /// Stops when it is dropped.
    _server: Server,
    endpoint: StoreEndpoint,
    folder: TempDir,
}

fn place() -> Place {
    let folder = tempfile::tempdir().unwrap();
    let certificate = CertificateFiles::make(folder.path()).unwrap();
    let read = |path: &Path| std::fs::read(path).unwrap();
    let tls = Tls::from_pem(&read(&certificate.chain), &read(&certificate.key)).unwrap();
    let runtime = Runtime::new().unwrap();
    let server = runtime.block_on(Server::builder().tls(tls).start()).unwrap();
    server.create_bucket("bucket").unwrap();
    let signer = Signer {
        access_key: "tidegate".to_owned(),
        secret_key: "tidegate".to_owned(),
        region: "us-east-1".to_owned(),
    };
    let authority = Some(certificate.authority);
    let endpoint = StoreEndpoint { url: server.endpoint(), signer, bucket: "bucket", authority };
    Place { runtime, _server: server, endpoint, folder }
}

#[test]
fn the_control_client_trusts_the_authority_and_nobody_else() {
    let place = place();
    let url = format!("{}/_tidegate/counts", place.endpoint.url);
    let client = LocalClient::trusting(place.endpoint.authority.as_deref().unwrap()).unwrap();
    assert!(client.answers(&url));
    assert!(client.answers(&url.replace("127.0.0.1", "localhost")));
    let bucket = format!("{}/another", place.endpoint.url);
    client.put_empty(&bucket, &place.endpoint.signer.sign("PUT", &bucket).unwrap()).unwrap();
    let counts: Value = client.get(&url).unwrap();
    assert_eq!(counts["requests"]["CreateBucket"], 1);

    assert!(!LocalClient::default().answers(&url));
    let other = tempfile::tempdir().unwrap();
    let other = CertificateFiles::make(other.path()).unwrap();
    assert!(!LocalClient::trusting(&other.authority).unwrap().answers(&url));
    assert!(LocalClient::trusting(&place.folder.path().join("none.pem")).is_err());
}

#[test]
fn the_library_trusts_it_as_well() {
    let place = place();
    let missing = place
        .runtime
        .block_on(async { place.endpoint.connect().await.unwrap().head("k", Attempt::FIRST).await });
    assert!(missing.unwrap_err().to_string().contains("HTTP 404"));
}
