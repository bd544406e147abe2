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
//! Callers without tokio have the same in [`blocking`].
//!
//! [`Tidegate`] is the engine: one memory budget and one limiter an endpoint. A [`Store`] is one bucket
//! or directory; a [`Writer`] writes one object; a [`Reader`] reads one.

mod amount;
pub mod backend;
pub mod blocking;
mod budget;
pub mod checksum;
mod client;
mod copy;
mod date;
mod endpoint;
mod engine;
mod error;
#[cfg(any(test, feature = "fuzzing"))]
#[doc(hidden)]
pub mod fuzzing;
mod hedge;
pub mod journal;
mod limiter;
mod listing;
pub mod location;
mod merge;
pub mod object;
#[cfg(feature = "object_store")]
pub mod object_store;
mod off;
mod pace;
pub mod payload;
mod prefix;
mod printable;
mod progress;
mod read;
mod records;
mod recover;
mod request;
mod retry;
#[cfg(test)]
mod small_disk;
pub mod spool;
mod sweep;
mod trusted_file;
mod write;

pub use budget::Usage;
pub use client::{Builder, Store, Tidegate};
pub use copy::CopyBuilder;
pub use engine::aborts::Unsettled;
pub use error::{Error, ErrorKind, Operation, Result};
pub use limiter::Concurrency;
pub use location::Location;
pub use merge::{MergeError, MergeStream, Merged};
pub use object::{Attributes, Encryption, Object};
pub use prefix::{Layout, Migrated, Naming, PrefixedStore};
pub use printable::{printable, printable_bytes, without_passwords};
pub use progress::{Progress, Snapshot, Waiting};
pub use read::{Block, BlockStream, BlocksBuilder, DownloadBuilder, Reader, ReaderBuilder};
pub use recover::Left;
pub use retry::RetryPolicy;
pub use sweep::{Fate, Kept, LifecycleOutcome, Process, Sweep, SweepReport, Swept, Unfinished};
pub use trusted_file::{Distrust, TrustedOwners, UntrustedFile, read_trusted};
pub use write::{Claimed, Resumed, Strategy, Writer, WriterBuilder, WrongSize};
