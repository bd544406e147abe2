//! Every method against the embedded server.

use std::time::Duration;

use futures::TryStreamExt;
use tidegate_dev::{Action, Fault as Rule, Knobs, Server};

use super::*;
use crate::backend::samples::{MIB, OnDisk, bytes_of, kind, memory_of, read_back};

mod raw;
mod reading;
mod refusals;
mod writing;

/// A bucket for one test.
struct Place {
    store: Gcs,
    server: Server,
}

async fn place() -> Place {
    let server = Server::builder().start().await.unwrap();
    server.create_bucket("bucket").unwrap();
    let store = Gcs::connect("bucket", &settings_for(&server)).await.unwrap();
    Place { store, server }
}

fn settings_for(server: &Server) -> GcsSettings {
    GcsSettings::default().with_endpoint_url(server.endpoint()).with_credentials(GcsCredentials::anonymous())
}

fn in_memory(data: &[u8]) -> Payload {
    memory_of(data, Algorithm::Crc32c)
}

fn crc32c(data: &[u8]) -> Checksum {
    Checksum::of(Algorithm::Crc32c, data)
}
