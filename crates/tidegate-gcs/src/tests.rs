//! What is particular to the protocol, against the embedded server.

use std::time::Duration;

use futures::TryStreamExt;
use tidegate_dev::{FaultAction, FaultRule, Knobs, Server};

use super::testkit::{over_both, settings as settings_for};
use super::*;
use tidegate_core::testkit::samples::{MIB, bytes_of, kind, memory_of, read_back};

mod copying;
mod lacking;
mod proof;
mod raw;
mod refusals;
mod sessions;

/// A bucket for one test.
struct Place {
    store: Gcs,
    server: Server,
}

async fn place(over: GcsTransport) -> Place {
    let server = Server::builder().start().await.unwrap();
    server.create_bucket("bucket").unwrap();
    let store = testkit::bucket(&server, over).await;
    Place { store, server }
}

/// The bucket as any store is, whose sessions may be of both kinds.
fn any(store: &Gcs) -> &dyn Backend {
    store
}

fn in_memory(data: &[u8]) -> Payload {
    memory_of(data, Algorithm::Crc32c)
}

fn crc32c(data: &[u8]) -> Checksum {
    Checksum::of(Algorithm::Crc32c, data)
}
