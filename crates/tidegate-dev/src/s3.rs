//! The S3 operations. This file dispatches requests to the functions in the modules.

mod bucket;
pub(crate) mod checksum;
mod complete;
mod copy;
mod delete;
mod intake;
mod list;
mod meddling;
mod multipart;
mod object;
pub(crate) mod page;
mod parts;
mod tagging;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use http::Extensions;
use s3s::dto::*;
use s3s::{S3, S3Error, S3ErrorCode, S3Request, S3Response, S3Result};

use crate::catalog::{Catalog, Generations, Protocol};
use crate::counts::LiveCounters;
use crate::exchange::Exchange;
use crate::faults::{Faults, Misrange};
use crate::storage::Vault;
use checksum::S3Algorithm;

/// The store behind one server.
#[derive(Debug)]
pub(crate) struct ServerStore {
    pub(crate) catalog: Mutex<Catalog>,
    pub(crate) vault: Vault,
    pub(crate) faults: Arc<Faults>,
    pub(crate) counters: Arc<LiveCounters>,
    pub(crate) region: String,
    pub(crate) has_md5_etags: bool,
    pub(crate) creates_buckets: bool,
    /// Numbers ETags and sessions.
    pub(crate) sequence: AtomicU64,
}

impl ServerStore {
    pub(crate) fn lock(&self) -> MutexGuard<'_, Catalog> {
        self.catalog.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn next(&self) -> u64 {
        self.sequence.fetch_add(1, Ordering::Relaxed)
    }

    /// The checksum algorithm for bytes that arrive without a checksum.
    fn default_algorithm(&self, google: Option<Generations>) -> Option<S3Algorithm> {
        let takes_one = self.vault.keeps_bytes() && !self.faults.knobs().no_checksums;
        match google {
            // Every object written over Google's API has a CRC32C.
            Some(_) => Some(S3Algorithm::Crc32c),
            None => takes_one.then_some(S3Algorithm::Crc64Nvme),
        }
    }

    /// Finds the bucket before a body is read into it, or creates it where the server does so.
    pub(crate) fn find_bucket(&self, name: &str, dialect: Protocol) -> S3Result<()> {
        let mut catalog = self.lock();
        if self.creates_buckets && !catalog.buckets.contains_key(name) {
            return catalog.create_bucket(name, dialect);
        }
        catalog.bucket(name).map(|_| ())
    }

    /// Waits for the time that a store takes to make an object or part durable.
    pub(crate) async fn commit_delay(&self) {
        let delay = self.faults.commit_delay();
        if !delay.is_zero() {
            tokio::time::sleep(delay).await;
        }
    }
}

/// The conditions of a request over Google's XML API.
fn google_of(extensions: &Extensions) -> Option<Generations> {
    extensions.get::<Arc<Exchange>>()?.google()
}

fn dialect_of(extensions: &Extensions) -> Protocol {
    google_of(extensions).map_or(Protocol::S3, |_| Protocol::Google)
}

/// How the knobs make the server misread a requested range.
fn misrange_of(extensions: &Extensions) -> Option<Misrange> {
    extensions.get::<Arc<Exchange>>()?.answering().misrange
}

/// An error whose code s3s does not know.
fn custom(code: &'static str, status: http::StatusCode, message: &'static str) -> S3Error {
    let mut error = S3Error::with_message(S3ErrorCode::Custom(code.into()), message);
    error.set_status_code(status);
    error
}

/// Maps each of the trait's operations to the function of the same name in a module.
macro_rules! operations {
    ($($module:ident :: $name:ident ( $input:ty ) -> $output:ty;)*) => {
        #[async_trait::async_trait]
        impl S3 for StoreHandle {
            $(
                async fn $name(&self, request: S3Request<$input>) -> S3Result<S3Response<$output>> {
                    $module::$name(&self.0, request).await
                }
            )*
        }
    };
}

/// The store, in the form that s3s takes.
#[derive(Debug, Clone)]
pub(crate) struct StoreHandle(pub(crate) Arc<ServerStore>);

operations! {
    bucket::create_bucket(CreateBucketInput) -> CreateBucketOutput;
    bucket::delete_bucket(DeleteBucketInput) -> DeleteBucketOutput;
    bucket::head_bucket(HeadBucketInput) -> HeadBucketOutput;
    bucket::list_buckets(ListBucketsInput) -> ListBucketsOutput;
    bucket::get_bucket_location(GetBucketLocationInput) -> GetBucketLocationOutput;
    bucket::put_bucket_lifecycle_configuration(PutBucketLifecycleConfigurationInput) -> PutBucketLifecycleConfigurationOutput;
    bucket::get_bucket_lifecycle_configuration(GetBucketLifecycleConfigurationInput) -> GetBucketLifecycleConfigurationOutput;
    bucket::get_bucket_versioning(GetBucketVersioningInput) -> GetBucketVersioningOutput;
    bucket::delete_bucket_lifecycle(DeleteBucketLifecycleInput) -> DeleteBucketLifecycleOutput;
    object::put_object(PutObjectInput) -> PutObjectOutput;
    object::get_object(GetObjectInput) -> GetObjectOutput;
    object::head_object(HeadObjectInput) -> HeadObjectOutput;
    delete::delete_object(DeleteObjectInput) -> DeleteObjectOutput;
    delete::delete_objects(DeleteObjectsInput) -> DeleteObjectsOutput;
    copy::copy_object(CopyObjectInput) -> CopyObjectOutput;
    copy::upload_part_copy(UploadPartCopyInput) -> UploadPartCopyOutput;
    list::list_objects(ListObjectsInput) -> ListObjectsOutput;
    list::list_objects_v2(ListObjectsV2Input) -> ListObjectsV2Output;
    list::list_multipart_uploads(ListMultipartUploadsInput) -> ListMultipartUploadsOutput;
    multipart::create_multipart_upload(CreateMultipartUploadInput) -> CreateMultipartUploadOutput;
    multipart::upload_part(UploadPartInput) -> UploadPartOutput;
    multipart::abort_multipart_upload(AbortMultipartUploadInput) -> AbortMultipartUploadOutput;
    parts::list_parts(ListPartsInput) -> ListPartsOutput;
    complete::complete_multipart_upload(CompleteMultipartUploadInput) -> CompleteMultipartUploadOutput;
    tagging::put_object_tagging(PutObjectTaggingInput) -> PutObjectTaggingOutput;
    tagging::get_object_tagging(GetObjectTaggingInput) -> GetObjectTaggingOutput;
    tagging::delete_object_tagging(DeleteObjectTaggingInput) -> DeleteObjectTaggingOutput;
}
