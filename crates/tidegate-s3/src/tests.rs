//! What is particular to the protocol, against the embedded server, or against the store at `TIDEGATE_TEST_ENDPOINT`
//! with the credentials and region of the environment.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures::TryStreamExt;
use tidegate_dev::{FaultAction, FaultRule, Knobs, Server};

use super::testkit::settings_for;
use super::*;
use tidegate_core::backend::{PartOrigin, Receipt};
use tidegate_core::testkit::samples::{MIB, OnDisk, bytes_of, kind, memory_of, read_back};
use tidegate_core::types::checksum::{Algorithm, Checksum};
use tidegate_http::xml::complete::named;

mod copying;
mod lacking;
mod paused_clock;
mod proof;
mod raw;
mod refusals;
mod streams;
mod stuck;
mod writing;

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
        let create = store.bucket.request(Method::PUT, store.bucket.address.bucket(&[]), Attempt::FIRST);
        store.bucket.shared.ask(create).await.unwrap();
        return Place { store, server: None };
    }
    let server = Server::builder().start().await.unwrap();
    server.create_bucket("bucket").unwrap();
    let settings = change(settings_for(&server));
    let store = S3::connect("bucket", &settings).await.unwrap();
    Place { store, server: Some(server) }
}

fn in_memory(data: &[u8]) -> Payload {
    memory_of(data, Algorithm::Crc64Nvme)
}
