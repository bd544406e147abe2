//! Every method against a server: the embedded one, or the store at `TIDEGATE_TEST_ENDPOINT` with the
//! credentials and region of the environment.

use std::io::Write as _;
use std::sync::atomic::{AtomicU32, Ordering};

use bytes::Bytes;
use futures::TryStreamExt;
use tidegate_dev::{Action, Fault as Rule, Knobs, Server};

use super::*;
use crate::budget::{Budget, Slab};
use crate::payload::{Ring, SourceFile};

mod raw;
mod reading;
mod refusals;
mod stuck;
mod writing;

const MIB: usize = 1 << 20;

/// A bucket for one test.
struct Place {
    store: S3,
    server: Option<Server>,
}

async fn place() -> Place {
    place_with(|settings| settings).await
}

async fn place_with(change: impl FnOnce(S3Settings) -> S3Settings) -> Place {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    if let Ok(endpoint) = std::env::var("TIDEGATE_TEST_ENDPOINT") {
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let bucket = format!("s3-backend-{}-{count}", std::process::id());
        let settings = change(S3Settings::default().with_endpoint_url(endpoint));
        let store = S3::connect(&bucket, &settings).await.unwrap();
        let create = Request::new(Method::PUT, store.bucket.address.bucket(&[]));
        store.bucket.shared.ask(create).await.unwrap();
        return Place { store, server: None };
    }
    let server = Server::builder().start().await.unwrap();
    server.create_bucket("bucket").unwrap();
    let settings = change(settings_for(&server));
    let store = S3::connect("bucket", &settings).await.unwrap();
    Place { store, server: Some(server) }
}

fn settings_for(server: &Server) -> S3Settings {
    let (access, secret) = server.credentials();
    S3Settings::default()
        .with_endpoint_url(server.endpoint())
        .with_region("us-east-1")
        .with_credentials(Credentials::fixed(access, secret, None))
}

fn bytes_of(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at ^ (at >> 8) ^ (at >> 16)) as u8).collect()
}

fn in_memory(data: &[u8]) -> Payload {
    memory_of(data, Algorithm::Crc64Nvme)
}

fn memory_of(data: &[u8], algorithm: Algorithm) -> Payload {
    let pieces = data.chunks(100_000).map(Bytes::copy_from_slice).collect();
    Payload::from_memory(pieces, Checksum::of(algorithm, data))
}

/// A file, and payloads that are read from it through two small slabs.
struct OnDisk {
    file: tempfile::NamedTempFile,
    source: Arc<SourceFile>,
    ring: Ring,
}

impl OnDisk {
    async fn new(data: &[u8]) -> Self {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(data).unwrap();
        let source = Arc::new(SourceFile::open(file.path()).unwrap());
        let budget = Budget::new(1 << 20, 64 << 10);
        let slabs = vec![
            Slab::new(budget.lease(64 << 10).await.unwrap()),
            Slab::new(budget.lease(64 << 10).await.unwrap()),
        ];
        Self { file, source, ring: Ring::new(slabs) }
    }

    fn payload(&self, range: Range<usize>) -> Payload {
        self.payload_of(range, Algorithm::Crc64Nvme)
    }

    fn payload_of(&self, range: Range<usize>, algorithm: Algorithm) -> Payload {
        let len = range.len() as u64;
        Payload::from_file(self.source.clone(), range.start as u64, len, self.ring.clone(), algorithm)
    }
}

async fn read_back(store: &S3, key: &str, range: Option<Range<u64>>) -> Vec<u8> {
    let body = store.get(key, range).await.unwrap();
    let expected = body.range.end - body.range.start;
    let pieces: Vec<Bytes> = body.stream.try_collect().await.unwrap();
    let all = pieces.concat();
    assert_eq!(all.len() as u64, expected);
    all
}

async fn kind<T>(answer: impl Future<Output = Result<T, Fault>>) -> (FaultKind, String) {
    match answer.await {
        Ok(_) => panic!("it succeeded"),
        Err(fault) => (fault.kind, fault.message),
    }
}
