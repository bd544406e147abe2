//! An embedded server that speaks S3 and Google Cloud Storage, for tests, demonstrations and
//! measurements.
//!
//! S3's protocol (routing, XML, signatures) is [`s3s`]'s; this crate adds what a store *does*:
//! objects, multipart sessions, listings and checksums, kept in memory, on disk or not at all
//! ([`Storage`]), and what a store does *badly* on request ([`Knobs`]): latency, narrow and
//! throttled connections, errors, resets, lost answers. Every request is counted by its
//! operation ([`Counts`]), so that a test can say how many requests a job may take.
//!
//! ```
//! # tokio_test();
//! # fn tokio_test() {
//! # let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
//! # runtime.block_on(async {
//! use tidegate_dev::{Fault, Knobs, Server};
//!
//! let server = Server::builder().start().await?;
//! server.create_bucket("bucket")?;
//! // ... point a client at server.endpoint() with server.credentials() ...
//! server.set_knobs(Knobs {
//!     faults: vec![Fault::error("UploadPart", 503, "SlowDown").times(2)],
//!     ..Knobs::default()
//! });
//! assert_eq!(server.counts().total(), 0);
//! server.stop().await;
//! # Ok::<(), tidegate_dev::Error>(())
//! # }).unwrap();
//! # }
//! ```
//!
//! Google's JSON API is on the same port: `STORAGE_EMULATOR_HOST` is [`Server::endpoint`], and a request
//! to `/storage/v1/b…`, `/upload/storage/v1/b…` or `/download/storage/v1/b…` that is not signed for S3
//! is Google's. Any credentials will do. Buckets and objects are the same from both sides. Its
//! operations are counted and meet faults by the names that Google's documents have for them, as
//! `storage.objects.insert`; those of resumable uploads are `storage.resumable.start`, `append`,
//! `query` and `cancel`. A session has persisted whole multiples of 256 KiB, is finished once or never,
//! lasts a week, and with [`Storage::Disk`] outlives the server.
//!
//! Google's XML API is there as far as it is S3's: a request with a word of Google's (`x-goog-…`) or a
//! token is answered, and counted, as the operation of S3 that it is, so multipart uploads have parts
//! for `gs://` as well. Objects of it have a CRC32C of the whole.
//!
//! Google's gRPC protocol, `google.storage.v2`, is there too (HTTP/2 from the first byte on): `GetObject`,
//! `ReadObject`, `ListObjects`, `DeleteObject`, `RewriteObject`, `WriteObject`, `BidiWriteObject`,
//! `StartResumableWrite`, `QueryWriteStatus` and `CancelResumableWrite`, counted as
//! `storage.v2.WriteObject` and so on. Its sessions are those of the JSON API: an upload may be begun
//! over one and finished over the other.
//!
//! What of it is not there: access control, versioning, composing, batches, holds, encryption keys,
//! soft deletion, notifications, appendable objects.
//!
//! With [`ServerBuilder::tls`] all of this is spoken over TLS, on the one port.
//!
//! Knobs and counts are also served over HTTP, on the server's own port, under
//! `/_tidegate/knobs` (GET, PUT) and `/_tidegate/counts` (GET, DELETE). Objects of no bytes are made
//! by the thousands with a POST to `/_tidegate/objects`.

mod aws_chunked;
mod body;
mod catalog;
mod connection;
mod control;
mod counts;
mod cut_head;
mod dialect;
mod error;
mod exchange;
mod faults;
mod fill;
mod folder;
#[cfg(any(test, feature = "fuzzing"))]
#[doc(hidden)]
pub mod fuzzing;
mod gate;
mod gcs;
mod guard;
mod knobs;
mod s3;
mod server;
mod shaping;
mod storage;
mod tls;

pub use counts::Counts;
pub use error::Error;
pub use knobs::{Action, Bandwidth, Delay, Fault, Knobs, RateLimit, Slow};
pub use server::{Server, ServerBuilder, Storage};
pub use tls::{Tls, TlsError};
