//! Stores that are reached over TLS, with a certificate that only a CA bundle vouches for.

#![allow(clippy::unwrap_used)] // the shared helpers are test code as well

use std::io::Write as _;
use std::sync::Arc;

use bytes::Bytes;
use futures::TryStreamExt;
use tempfile::NamedTempFile;
use tidegate::backend::Backend;
use tidegate::backend::gcs::{Gcs, GcsCredentials, GcsSettings, GcsTransport};
use tidegate::backend::s3::{Credentials, S3, S3Settings};
use tidegate::{ErrorKind, Store, Strategy, Tidegate};
use tidegate_dev::{Server, Tls};

const MIB: usize = 1 << 20;

/// A server with the bucket `bucket`, and a file with its certificate.
async fn server() -> (Server, NamedTempFile) {
    let made = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
    let (certificate, key) = (made.cert.pem(), made.signing_key.serialize_pem());
    let tls = Tls::from_pem(certificate.as_bytes(), key.as_bytes()).unwrap();
    let server = Server::builder().tls(tls).start().await.unwrap();
    server.create_bucket("bucket").unwrap();
    let mut bundle = NamedTempFile::new().unwrap();
    bundle.write_all(certificate.as_bytes()).unwrap();
    (server, bundle)
}

fn s3(server: &Server) -> S3Settings {
    let (access, secret) = server.credentials();
    S3Settings::default()
        .with_endpoint_url(server.endpoint())
        .with_region("us-east-1")
        .with_credentials(Credentials::fixed(access, secret, None))
}

fn gcs(server: &Server, transport: GcsTransport) -> GcsSettings {
    GcsSettings::default()
        .with_endpoint_url(server.endpoint())
        .with_credentials(GcsCredentials::anonymous())
        .with_transport(transport)
}

fn store(backend: impl Backend + 'static) -> Store {
    Tidegate::builder().part_size(5 * MIB as u64).build().unwrap().store(Arc::new(backend))
}

/// Writes an object of several parts or chunks and reads it back.
async fn goes_there_and_back(store: &Store, strategy: Strategy) {
    let bytes: Bytes = (0..12 * MIB).map(|at| (at / 7) as u8).collect();
    let mut writer = store.writer("k").strategy(strategy).await.unwrap();
    writer.write_bytes(bytes.clone()).await.unwrap();
    writer.finish().await.unwrap();
    let pieces: Vec<Bytes> = store.reader("k").await.unwrap().try_collect().await.unwrap();
    assert!(pieces.concat() == bytes, "other bytes came back");
}

#[tokio::test]
async fn s3_is_reached_with_its_bundle() {
    let (server, bundle) = server().await;
    let settings = s3(&server).with_ca_bundle(bundle.path());
    goes_there_and_back(&store(S3::connect("bucket", &settings).await.unwrap()), Strategy::Auto).await;
    assert_eq!(server.counts().get("UploadPart"), 3);
}

#[tokio::test]
async fn google_is_reached_with_its_bundle_over_both_protocols() {
    let (server, bundle) = server().await;
    for (transport, request) in
        [(GcsTransport::Http, "storage.resumable.append"), (GcsTransport::Grpc, "storage.v2.WriteObject")]
    {
        let settings = gcs(&server, transport).with_ca_bundle(bundle.path());
        goes_there_and_back(&store(Gcs::connect("bucket", &settings).await.unwrap()), Strategy::Chunked)
            .await;
        assert!(server.counts().get(request) > 0, "{:?}", server.counts());
    }
}

#[tokio::test]
async fn a_certificate_that_no_bundle_names_is_refused_and_nothing_is_asked() {
    let (server, _) = server().await;
    let store = store(S3::connect("bucket", &s3(&server)).await.unwrap());
    let refused = store.head("k").await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::InvalidInput, "{refused}");
    for word in ["is not trusted", "AWS_CA_BUNDLE", &server.addr().to_string()] {
        assert!(refused.to_string().contains(word), "{refused}");
    }
    assert_eq!(server.counts().total(), 0);
}
