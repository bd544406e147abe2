//! The interface between the engine and a store: small traits, and one module for each kind of store.
//!
//! Every store is a [`Backend`]. A store that also has [`Parts`], [`Append`], [`ServerCopy`], [`Rename`],
//! [`BucketCheck`], [`Directories`], [`BulkDelete`], [`Presign`] or [`Admin`] returns them from its accessors: a trait says
//! what the store's protocol has.

#[cfg(test)]
mod behaviour;
#[cfg(any(test, not(all(feature = "azure", feature = "gcs", feature = "s3"))))]
pub(crate) mod left_out;

#[doc(inline)]
pub use tidegate_core::backend::{
    AbortRule, Admin, Append, Appended, Attempt, Backend, Body, BucketCheck, BucketEntry, BucketFacts,
    Buckets, BulkDelete, Capabilities, Connection, Copied, CopySource, Directories, Entry, Facts, Fault,
    FaultKind, Feature, FeatureSet, Held, Info, KnownFacts, Lifecycle, LifecycleRule, Listing, OpenSession,
    OtherKind, Pages, PartOrigin, PartSource, Parts, Presign, PresignedRequest, Receipt, Rename, Scheme,
    ServerCopy, Session, StoredPart, Versioning, WriteOptions, memory,
};
pub(crate) use tidegate_core::backend::{
    no_identity, not_resumable, same_or_another, same_or_replaced, shown_session_id,
};
#[cfg(test)]
pub(crate) use tidegate_core::testkit::samples;
#[cfg(any(feature = "azure", feature = "gcs"))]
#[doc(inline)]
pub use tidegate_http::AccessToken;

#[cfg(not(feature = "azure"))]
pub(crate) use left_out::azure;
#[cfg(not(feature = "gcs"))]
pub(crate) use left_out::gcs;
#[cfg(not(feature = "s3"))]
pub(crate) use left_out::s3;

pub mod local {
    //! Directories of this machine.
    pub(crate) use tidegate_local::{
        Arrival, Batch, Batches, Condition, DROP_LIMIT, Destination, LOCAL_ENDPOINT, NotedTarget, Parents,
        Publish, WaitedWork, Waiter, within_drop_limit,
    };
    #[doc(inline)]
    pub use tidegate_local::{
        FilesBelow, LINK_SUFFIX, LONGEST_LINK, LinkPolicy, Local, UnlistedName, unfinished_name,
    };
}

#[cfg(feature = "s3")]
pub mod s3 {
    //! Amazon S3, and stores that speak its protocol.
    #[doc(inline)]
    pub use tidegate_s3::{
        Addressing, Credentials, S3, S3Buckets, S3Client, S3Scheme, S3Settings, SigningKeys,
    };
}

#[cfg(feature = "gcs")]
pub mod gcs {
    //! Google Cloud Storage.
    #[doc(inline)]
    pub use tidegate_gcs::{
        AccessToken, Gcs, GcsBuckets, GcsClient, GcsCredentials, GcsScheme, GcsSettings, GcsTransport,
    };
}

#[cfg(feature = "azure")]
pub mod azure {
    //! Azure Blob Storage.
    #[doc(inline)]
    pub use tidegate_azure::{
        AccessToken, Azure, AzureBuckets, AzureClient, AzureCredentials, AzureScheme, AzureSettings,
    };
}
