//! An embedded S3-compatible server for tests, demonstrations and measurements.
//!
//! The protocol (routing, XML, signatures) is [`s3s`]'s; this crate adds what a store *does*:
//! objects, multipart sessions, listings and checksums, kept in memory, on disk or not at all
//! ([`Storage`]), and what a store does *badly* on request ([`Knobs`]): latency, narrow and
//! throttled connections, errors, resets, lost answers. Every request is counted by its S3
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
//! Knobs and counts are also served over HTTP, on the server's own port, under
//! `/_tidegate/knobs` (GET, PUT) and `/_tidegate/counts` (GET, DELETE).

mod aws_chunked;
mod body;
mod catalog;
mod connection;
mod control;
mod counts;
mod error;
mod exchange;
mod faults;
mod gate;
mod knobs;
mod s3;
mod server;
mod shaping;
mod storage;

pub use counts::Counts;
pub use error::Error;
pub use knobs::{Action, Bandwidth, Delay, Fault, Knobs, RateLimit, Slow};
pub use server::{Server, ServerBuilder, Storage};
