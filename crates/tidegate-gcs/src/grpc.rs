//! Google Cloud Storage over gRPC, `google.storage.v2`, in place of the JSON API (`google/storage/v2/storage.proto`
//! in `googleapis/googleapis`, documented by its comments).
//!
//! The messages are generated code. They are sent with the HTTP client that all stores share: a gRPC channel would be
//! a second client, and would copy each byte that is sent. In addition to HTTP, each message has a CRC32C of its
//! bytes, and the CRC32C of the whole object follows the bytes.

use std::sync::Arc;

use googleapis_tonic_google_storage_v2::google::storage::v2 as proto;
use proto::write_object_request::FirstMessage;
use proto::write_object_response::WriteStatus;

use super::client::GcsShared;
use super::fault::About;
use tidegate_core::backend::{Attempt, Fault, FaultKind, WriteOptions};
use tidegate_core::memory::payload::Payload;
use tidegate_core::types::object::Object;

mod call;
mod cancel_on_drop;
mod channels;
mod convert;
mod copy;
mod fault;
mod frame;
#[cfg(any(test, feature = "fuzzing"))]
pub(super) mod fuzzing;
mod list;
mod open_stream;
mod read;
mod sessions;
#[cfg(test)]
mod tests;
mod upload;

use call::Caller;
pub(super) use channels::Channels;
use upload::{UploadMessages, WriteEnd};

/// One bucket over gRPC.
#[derive(Clone, Debug)]
pub(super) struct Grpc {
    caller: Caller,
    /// The bucket's name in messages.
    bucket: Arc<str>,
    open: sessions::Open,
}

impl Grpc {
    pub(super) fn new(
        shared: Arc<GcsShared>,
        channels: Arc<Channels>,
        endpoint: &str,
        bucket: &str,
    ) -> Result<Self, Fault> {
        let bucket = format!("projects/_/buckets/{bucket}");
        let caller = Caller::new(shared, channels, endpoint, &bucket)?;
        Ok(Self { caller, bucket: bucket.into(), open: sessions::Open::default() })
    }

    pub(super) async fn put(
        &self,
        key: &str,
        payload: Payload,
        options: &WriteOptions,
        attempt: Attempt,
    ) -> Result<Object, Fault> {
        let mut spec = convert::spec(&self.bucket, key, options);
        spec.object_size = Some(convert::signed(payload.len()));
        let upload =
            UploadMessages::new(FirstMessage::WriteObjectSpec(spec), 0, payload, WriteEnd::Publish(None));
        match sessions::write(&self.caller, About::Bucket, upload, attempt).await? {
            WriteStatus::Resource(resource) => convert::object(resource),
            WriteStatus::PersistedSize(_) => {
                Err(Fault::new(FaultKind::Transient, "the store does not say that it has the object"))
            }
        }
    }
}
