//! Tidegate moves byte streams into and out of object storage as fast as the network allows, in a
//! fixed amount of memory, without ever losing, truncating or half-publishing an object.
//!
//! [`Tidegate`] is the engine: one memory budget, and one limiter per endpoint. A [`Store`] is one bucket or
//! directory; a [`Writer`] writes one object; a [`Reader`] reads one. What sets something up is a builder that is
//! awaited. Callers without tokio use [`blocking`].
//!
//! # Write an object, and read it
//!
//! ```
//! # tokio::runtime::Runtime::new()?.block_on(async {
//! use tidegate::{ErrorKind, Tidegate};
//!
//! let tide = Tidegate::builder().memory(64 << 20).build()?;
//! let store = tide.open("memory://warehouse").await?; // or s3://bucket/prefix, gs://…, az://…, a directory
//!
//! let object = store.put("a/b.json", r#"{"rows": 3}"#).create_only().await?;
//! assert_eq!(object.size, 11);
//! assert_eq!(store.get("a/b.json").await?.as_ref(), br#"{"rows": 3}"#);
//!
//! let again = store.put("a/b.json", "{}").create_only().await;
//! assert_eq!(again.unwrap_err().kind(), ErrorKind::AlreadyExists);
//! # Ok::<(), tidegate::Error>(())
//! # })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Stream an object whose size nobody knows
//!
//! A full part is sent while the producer goes on. A writer that is dropped, or fails, publishes nothing.
//!
//! ```
//! # tokio::runtime::Runtime::new()?.block_on(async {
//! use tidegate::Tidegate;
//! use tokio::io::AsyncWriteExt;
//!
//! let tide = Tidegate::builder().memory(64 << 20).build()?;
//! let store = tide.open("memory://warehouse").await?;
//!
//! let mut writer = store.writer("t/part-0.csv").content_type("text/csv").await?;
//! for row in 0..1000 {
//!     writer.write_all(format!("{row},tide\n").as_bytes()).await?; // any AsyncWrite is fed like this
//! }
//! writer.write_bytes("1000,gate\n".into()).await?; // large `Bytes` are shared, not copied
//! assert!(!store.exists("t/part-0.csv").await?);
//!
//! let object = writer.finish().await?; // visible from here on
//! assert_eq!(store.head("t/part-0.csv").await?.size, object.size);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Resume an upload after a crash
//!
//! With a journal, bytes whose write has returned survive the process and a loss of power.
//!
//! ```
//! # tokio::runtime::Runtime::new()?.block_on(async {
//! use tidegate::recover::Resumed;
//! use tidegate::{Strategy, Tidegate};
//!
//! # let directory = tempfile::tempdir()?;
//! # let (journals, bucket) = (directory.path().join("journals"), directory.path().join("bucket"));
//! # std::fs::create_dir(&journals)?;
//! # let bucket = bucket.to_str().ok_or("a path that is not UTF-8")?;
//! let tide = Tidegate::builder().journal([&journals]).build()?;
//! let store = tide.open(bucket).await?;
//! let mut writer = store.writer("events.log").strategy(Strategy::Journal).await?;
//! writer.write_bytes("one\n".into()).await?; // durable from here on
//! drop(writer); // as a crash would leave it
//!
//! // Any later process that has the journal's directory:
//! for left in tide.recover().await? {
//!     match left.resume().await? {
//!         Resumed::Writer(mut writer) => {
//!             assert_eq!(writer.position(), 4); // continue from this byte
//!             writer.write_bytes("two\n".into()).await?;
//!             writer.finish().await?;
//!         }
//!         Resumed::Object(object) => println!("{} was only to be published", object.key),
//!     }
//! }
//! assert_eq!(store.get("events.log").await?.as_ref(), b"one\ntwo\n");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Download a large object, or ranges of it
//!
//! A download that is cut off resumes. A reader reads ahead in parallel, all ranges of the same object.
//!
//! ```
//! # tokio::runtime::Runtime::new()?.block_on(async {
//! use futures::TryStreamExt;
//! use tidegate::Tidegate;
//!
//! # let directory = tempfile::tempdir()?;
//! # let path = directory.path().join("table.bin");
//! let tide = Tidegate::builder().memory(64 << 20).build()?;
//! let store = tide.open("memory://warehouse").await?;
//! store.put("table.bin", vec![7; 10 << 20]).await?;
//!
//! let object = store.download("table.bin", &path).await?;
//! assert_eq!(std::fs::metadata(&path)?.len(), object.size);
//!
//! let footer = store.get_range("table.bin", object.size - 8..).await?;
//! assert_eq!(footer.as_ref(), [7; 8]);
//!
//! let mut reader = store.reader("table.bin").range(4096..1 << 20).if_unchanged(&object).await?;
//! let mut read = 0;
//! while let Some(bytes) = reader.try_next().await? {
//!     read += bytes.len();
//! }
//! assert_eq!(read, (1 << 20) - 4096);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Two accounts under one memory budget
//!
//! ```
//! # tokio::runtime::Runtime::new()?.block_on(async {
//! use tidegate::Tidegate;
//! use tidegate::settings::{Credentials, S3Settings};
//!
//! # let ours = tidegate_dev::Server::builder().credentials("ours", "secret-1").start().await?;
//! # let theirs = tidegate_dev::Server::builder().credentials("theirs", "secret-2").start().await?;
//! # ours.create_bucket("archive")?;
//! # theirs.create_bucket("inbox")?;
//! let tide = Tidegate::builder().memory(64 << 20).build()?;
//! let account = |endpoint: String, access_key: &str, secret_key: &str| {
//!     S3Settings::default()
//!         .with_endpoint_url(endpoint)
//!         .with_credentials(Credentials::fixed(access_key, secret_key, None))
//! };
//! let inbox = tide.open("s3://inbox").s3(account(theirs.endpoint(), "theirs", "secret-2")).await?;
//! let archive = tide.open("s3://archive").s3(account(ours.endpoint(), "ours", "secret-1")).await?;
//!
//! inbox.put("report.csv", "1,2,3\n").await?;
//! let mut reader = inbox.reader("report.csv").await?;
//! let mut writer = archive.writer("2026/report.csv").size_hint(reader.object().size).await?;
//! writer.read_from(&mut reader).await?;
//! assert_eq!(writer.finish().await?.size, 6);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Features
//!
//! | feature | by default | adds |
//! |---|---|---|
//! | `s3` | yes | Amazon S3, and stores that speak its protocol (`s3://`) |
//! | `gcs` | yes | Google Cloud Storage (`gs://`) |
//! | `azure` | yes | Azure Blob Storage (`az://`, `abfss://`) |
//! | `gcs-grpc` | no | Google Cloud Storage over gRPC too (`GcsTransport::Grpc`); implies `gcs` |
//! | `object_store` | no | the traits of the crate `object_store` (`TidegateStore`) |
//! | `prefix` | no | keys spread over prefixes (`PrefixedStore`) |
//!
//! Local directories, `memory://` and [schemes of the caller's own](backend::Scheme) need no feature. Opening a URL
//! whose scheme was not compiled in fails with [`ErrorKind::Unsupported`], and the error names the feature to enable.
//!
//! # Tests with a paused clock
//!
//! All deadlines, pauses and limits follow tokio's clock, so a test with `tokio::time::pause` can have hours pass on
//! `memory://` or a backend of its own. Not with a server: while a runtime only waits for a socket, a paused clock jumps
//! to the next deadline, and requests to S3, Google and Azure time out before the server can answer. Such a test resumes
//! the clock (`tokio::time::resume`) around its requests.

// Some code is used, or made public, by one cloud only. The default build, which has all clouds, has these lints.
#![cfg_attr(not(all(feature = "s3", feature = "gcs", feature = "azure")), allow(dead_code, unreachable_pub))]

mod api;
pub mod backend;
pub mod download;
mod engine;
#[cfg(any(test, feature = "fuzzing"))]
#[doc(hidden)]
pub mod fuzzing;
pub mod upload;

#[cfg(test)]
use tidegate_core::testkit;
use tidegate_core::{memory, types};

#[cfg(feature = "object_store")]
pub use api::object_store;
#[cfg(feature = "prefix")]
pub use api::prefix;
pub use api::{Store, Tidegate, TidegateBuilder, blocking, examine, merge, options, sweep};
#[doc(inline)]
pub use backend::Entry;
pub use download::Reader;
#[doc(hidden)]
pub use memory::external_sort;
#[doc(inline)]
pub use memory::{payload, spool};
#[doc(inline)]
pub use types::error::{Error, ErrorKind, Operation, Result};
#[doc(inline)]
pub use types::object::{Attributes, Object};
#[doc(inline)]
pub use types::progress::Progress;
#[doc(inline)]
pub use types::{checksum, location, object, trusted_file};
pub use upload::{Strategy, Writer};

/// The [features](crate#features) of this build, for programs that report them.
pub const FEATURES: &[&str] = &[
    #[cfg(feature = "azure")]
    "azure",
    #[cfg(feature = "gcs")]
    "gcs",
    #[cfg(feature = "gcs-grpc")]
    "gcs-grpc",
    #[cfg(feature = "object_store")]
    "object_store",
    #[cfg(feature = "prefix")]
    "prefix",
    #[cfg(feature = "s3")]
    "s3",
];

pub mod store {
    //! What the methods of a [`Store`](crate::Store) and of [`Tidegate`](crate::Tidegate) return: builders, streams and
    //! what they give.
    pub use crate::api::{
        AbandonedSet, DeleteReport, DeleteStream, Deletion, ListStream, Manifest, OpenBuilder, PointedObject,
        RenameBuilder, SetProgress,
    };
    #[doc(inline)]
    pub use crate::backend::BucketEntry;
}

pub mod journal {
    //! The journals of uploads: list and verify them. docs/JOURNAL.md specifies the file byte by byte. [`list`] and [`verify`]
    //! block. Neither changes a journal, but `list` removes files that nobody needs any more.
    #[cfg(test)]
    pub(crate) use tidegate_journal::testkit;
    #[doc(inline)]
    pub use tidegate_journal::{
        Durability, End, Header, JournalError, JournalFile, JournalState, JournaledSession, Listed, Part,
        Recovered, SessionKind, examine, list, verify,
    };
    pub(crate) use tidegate_journal::{
        InUse, Journal, JournalReader, discard, is_in_use, list_of, look, sum,
    };
}

pub mod fork {
    //! What a child does that was forked from a program that uses Tidegate.
    #[doc(inline)]
    pub use crate::types::locked_file::release_inherited_locks;
}

pub mod settings {
    //! Settings of an engine and of its stores.
    #[cfg(any(feature = "azure", feature = "gcs"))]
    #[doc(inline)]
    pub use crate::backend::AccessToken;
    #[cfg(feature = "azure")]
    #[doc(inline)]
    pub use crate::backend::azure::{AzureCredentials, AzureSettings};
    #[cfg(feature = "gcs")]
    #[doc(inline)]
    pub use crate::backend::gcs::{GcsCredentials, GcsSettings, GcsTransport};
    #[cfg(feature = "s3")]
    #[doc(inline)]
    pub use crate::backend::s3::{Addressing, Credentials, S3Settings, SigningKeys};
    pub use crate::engine::limiter::Concurrency;
    pub use crate::engine::retry::RetryPolicy;
    #[doc(inline)]
    pub use crate::journal::Durability;
    #[doc(inline)]
    pub use crate::types::unknown_name::UnknownName;
}

pub mod recover {
    //! Uploads that were left in journals: list, resume, abort.
    pub use crate::api::LeftUpload;
    pub use crate::upload::{ClaimedUpload, Resumed};
}

pub mod progress {
    //! Figures about what an engine does and holds.
    #[doc(inline)]
    pub use crate::memory::budget::Usage;
    #[doc(inline)]
    pub use crate::types::progress::{Progress, Snapshot, Waiting};
}

pub mod text {
    //! Text of others, such as keys and messages of a store, made safe to show.
    #[doc(inline)]
    pub use crate::types::printable::{printable, printable_bytes, without_passwords};
}
