//! An embedded server that speaks the protocols of S3 and Google Cloud Storage, for tests, demonstrations and
//! measurements.
//!
//! [`s3s`] provides S3's protocol (routing, XML, signatures). This crate adds the store behind it: objects,
//! multipart sessions, listings and checksums, kept in memory, on disk or not at all ([`Storage`]). On request
//! the store misbehaves ([`Knobs`]): latency, narrow and throttled connections, errors, resets, lost answers.
//! The server counts every request by its operation ([`Counts`]), so that a test can assert how many requests a
//! job took.
//!
//! ```
//! # tokio_test();
//! # fn tokio_test() {
//! # let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
//! # runtime.block_on(async {
//! use tidegate_dev::{FaultRule, Knobs, Server};
//!
//! let server = Server::builder().start().await?;
//! server.create_bucket("bucket")?;
//! // ... point a client at server.endpoint() with server.credentials() ...
//! server.set_knobs(Knobs {
//!     faults: vec![FaultRule::error("UploadPart", 503, "SlowDown").times(2)],
//!     ..Knobs::default()
//! });
//! assert_eq!(server.counts().total(), 0);
//! server.stop().await;
//! # Ok::<(), tidegate_dev::ServerError>(())
//! # }).unwrap();
//! # }
//! ```
//!
//! The same port serves Google's JSON API: set `STORAGE_EMULATOR_HOST` to [`Server::endpoint`]. A request to
//! `/storage/v1/b…`, `/upload/storage/v1/b…` or `/download/storage/v1/b…` that is not signed for S3 goes to
//! this API. On loopback any credentials will do; beyond loopback, clients present the secret key as their
//! bearer token (see `ServerBuilder::allow_anonymous`). Both protocols share the same buckets and objects.
//! Counts and faults use the operation names of Google's documentation, such as `storage.objects.insert`;
//! resumable uploads use `storage.resumable.start`, `append`, `query` and `cancel`. A session persists whole
//! multiples of 256 KiB until it is finished, is finished at most once, lasts a week, and with
//! [`Storage::Disk`] outlives the server.
//!
//! Google's XML API is supported where it matches S3's, so `gs://` has multipart uploads with parts as well. A
//! request with a header of Google's (`x-goog-…`) or a token is answered, and counted, as the S3 operation that
//! it corresponds to. Objects written over it have a CRC32C of the whole object.
//!
//! Google's gRPC protocol, `google.storage.v2`, is supported over HTTP/2 without an upgrade: `GetObject`,
//! `ReadObject`, `ListObjects`, `DeleteObject`, `RewriteObject`, `WriteObject`, `BidiWriteObject`,
//! `StartResumableWrite`, `QueryWriteStatus` and `CancelResumableWrite`, counted as `storage.v2.WriteObject`
//! and so on. It shares its sessions with the JSON API: an upload may be started over one and finished over the
//! other.
//!
//! Of Google's features these are missing: access control, versioning, composing, batches, holds, encryption
//! keys, soft deletion, notifications, appendable objects.
//!
//! With [`ServerBuilder::tls`] the server speaks TLS on this port, for all protocols.
//!
//! The same port also serves knobs and counts over HTTP, under `/_tidegate/knobs` (GET, PUT) and
//! `/_tidegate/counts` (GET, DELETE). A POST to `/_tidegate/objects` creates thousands of empty objects at
//! once.

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
pub use error::ServerError;
pub use knobs::{Bandwidth, Delay, FaultAction, FaultRule, Knobs, RateLimit, Slow};
pub use server::{Server, ServerBuilder, Storage};
pub use tls::{Tls, TlsError};
