//! Tidegate moves byte streams into and out of object storage as fast as the network allows, in a
//! fixed amount of memory, without ever losing, truncating or half-publishing an object.
//!
//! ```no_run
//! # async fn run() -> tidegate::Result<()> {
//! use tidegate::Tidegate;
//! let tide = Tidegate::builder().memory(64 << 20).build()?;
//! let store = tide.open("s3://bucket/warehouse").await?; // credentials as every S3 user has them
//!
//! let mut writer = store.writer("t/part-0.parquet").create_only().start().await?;
//! writer.write("some bytes".into()).await?;
//! let object = writer.finish().await?; // visible from here on, or never
//! # Ok(()) }
//! ```
//!
//! Callers without tokio use [`blocking`].
//!
//! [`Tidegate`] is the engine: one memory budget, and one limiter per endpoint. A [`Store`] is one bucket or
//! directory; a [`Writer`] writes one object; a [`Reader`] reads one.

mod api;
pub mod backend;
mod download;
mod engine;
#[cfg(any(test, feature = "fuzzing"))]
#[doc(hidden)]
pub mod fuzzing;
pub mod journal;
mod memory;
#[cfg(test)]
mod testkit;
mod types;
mod upload;

pub use api::blocking;
#[cfg(feature = "object_store")]
pub use api::object_store;
pub use api::{
    Builder, Fate, Kept, Layout, Left, LifecycleOutcome, MergeError, MergeStream, Merged, Migrated, Naming,
    PrefixedStore, Process, Store, Sweep, SweepReport, Swept, Tidegate, Unfinished,
};
pub use download::{Block, BlockStream, BlocksBuilder, DownloadBuilder, Reader, ReaderBuilder};
pub use engine::aborts::Unsettled;
pub use engine::limiter::Concurrency;
pub use engine::retry::RetryPolicy;
pub use memory::budget::Usage;
pub use memory::{payload, spool};
pub use types::error::{Error, ErrorKind, Operation, Result};
pub use types::location::Location;
pub use types::object::{Attributes, Encryption, Object};
pub use types::printable::{printable, printable_bytes, without_passwords};
pub use types::progress::{Progress, Snapshot, Waiting};
pub use types::trusted_file::{Distrust, TrustedOwners, UntrustedFile, read_trusted};
pub use types::{checksum, location, object};
pub use upload::{Claimed, CopyBuilder, Resumed, Strategy, Writer, WriterBuilder, WrongSize};
