//! What of the measurements speaks TLS, with a server that has a certificate made for it.

#![allow(clippy::unwrap_used, reason = "it is all tests")]

use std::path::Path;
use std::process::{Command, Output};

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
    server: Server,
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
    Place { runtime, server, endpoint, folder }
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

#[test]
fn the_floor_sends_all_of_a_file() {
    const SIZE: u64 = 40 << 20;
    let place = place();
    let file = place.folder.path().join("file");
    std::fs::File::create(&file).unwrap().set_len(SIZE).unwrap();
    let floor = |variables: Vec<(&'static str, String)>| -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_peer-floor"));
        command.arg(&file).arg("s3://bucket/k").env_remove("AWS_CA_BUNDLE").envs(variables);
        command.output().unwrap()
    };
    let done = floor(place.endpoint.variables());
    assert!(done.status.success(), "{done:?}");
    let counts = place.server.counts();
    assert_eq!((counts.get("PutObject"), counts.bytes_in), (3, SIZE));

    let mut others = place.endpoint.clone();
    let other = tempfile::tempdir().unwrap();
    others.authority = Some(CertificateFiles::make(other.path()).unwrap().authority);
    assert!(!floor(others.variables()).status.success());
    others.authority = None;
    let refused = floor(others.variables());
    assert!(String::from_utf8_lossy(&refused.stderr).contains("AWS_CA_BUNDLE is not set"), "{refused:?}");
    assert_eq!(place.server.counts().bytes_in, SIZE);
}

#[test]
fn the_floor_fetches_all_of_an_object() {
    let place = place();
    let [file, copy] = ["file", "copy"].map(|name| place.folder.path().join(name));
    let bytes: Vec<u8> = std::iter::repeat_with(|| fastrand::u8(..)).take((10 << 20) + 1).collect();
    std::fs::write(&file, &bytes).unwrap();
    let floor = |from: &Path, to: &Path, part: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_peer-floor"));
        command.arg(from).arg(to).envs(place.endpoint.variables());
        let done = command.env("PEER_PART_MIB", part).env("PEER_AT_ONCE", "3").output().unwrap();
        assert!(done.status.success(), "{done:?}");
    };
    floor(&file, Path::new("s3://bucket/k"), "16");
    floor(Path::new("s3://bucket/k-0"), &copy, "2");
    assert!(std::fs::read(&copy).unwrap() == bytes);
    let counts = place.server.counts();
    assert_eq!((counts.get("PutObject"), counts.get("GetObject")), (1, 6));
}
