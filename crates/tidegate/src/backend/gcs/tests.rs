//! Every method of the backend, against the embedded server.

use std::time::Duration;

use futures::TryStreamExt;
use tidegate_dev::{FaultAction, FaultRule, Knobs, Server};

use super::both::{over_both, settings as settings_for};
use super::*;
use crate::backend::samples::{
    MIB, OnDisk, bytes_of, kind, memory_of, only_the_same_is_read_or_removed, read_back,
};

mod copying;
mod proof;
mod raw;
mod reading;
mod refusals;
mod sessions;
mod writing;

/// A bucket for one test.
struct Place {
    store: Gcs,
    server: Server,
}

async fn place(over: GcsTransport) -> Place {
    let server = Server::builder().start().await.unwrap();
    server.create_bucket("bucket").unwrap();
    let store = both::bucket(&server, over).await;
    Place { store, server }
}

/// The server's names for the request that writes an object, and below, for the request that describes one.
fn put_of(over: GcsTransport) -> &'static str {
    if over == GcsTransport::Grpc { "storage.v2.WriteObject" } else { "storage.objects.insert" }
}

fn head_of(over: GcsTransport) -> &'static str {
    if over == GcsTransport::Grpc { "storage.v2.GetObject" } else { "storage.objects.get" }
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
