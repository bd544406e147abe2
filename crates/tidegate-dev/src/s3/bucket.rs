//! Buckets and their lifecycle rules. The rules are stored and returned; the server never applies them.

use s3s::dto::*;
use s3s::{S3Request, S3Response, S3Result, s3_error};

use super::{ServerStore, dialect_of};

pub(super) async fn create_bucket(
    store: &ServerStore,
    request: S3Request<CreateBucketInput>,
) -> S3Result<S3Response<CreateBucketOutput>> {
    let (name, dialect) = (request.input.bucket, dialect_of(&request.extensions));
    store.lock().create_bucket(&name, dialect)?;
    Ok(S3Response::new(CreateBucketOutput { location: Some(format!("/{name}")) }))
}

pub(super) async fn delete_bucket(
    store: &ServerStore,
    request: S3Request<DeleteBucketInput>,
) -> S3Result<S3Response<DeleteBucketOutput>> {
    store.lock().delete_bucket(&request.input.bucket)?;
    Ok(S3Response::new(DeleteBucketOutput::default()))
}

pub(super) async fn head_bucket(
    store: &ServerStore,
    request: S3Request<HeadBucketInput>,
) -> S3Result<S3Response<HeadBucketOutput>> {
    store.lock().bucket(&request.input.bucket)?;
    Ok(S3Response::new(HeadBucketOutput { bucket_region: Some(store.region.clone()), ..Default::default() }))
}

pub(super) async fn list_buckets(
    store: &ServerStore,
    request: S3Request<ListBucketsInput>,
) -> S3Result<S3Response<ListBucketsOutput>> {
    let prefix = request.input.prefix.unwrap_or_default();
    let catalog = store.lock();
    let buckets = catalog
        .buckets
        .iter()
        .filter(|(name, _)| name.starts_with(&prefix))
        .map(|(name, bucket)| Bucket {
            name: Some(name.clone()),
            creation_date: Some(bucket.created.timestamp()),
            bucket_region: None,
        })
        .collect();
    Ok(S3Response::new(ListBucketsOutput {
        buckets: Some(buckets),
        owner: Some(Owner { display_name: Some("tidegate".to_owned()), id: Some("tidegate".to_owned()) }),
        ..Default::default()
    }))
}

pub(super) async fn get_bucket_location(
    store: &ServerStore,
    request: S3Request<GetBucketLocationInput>,
) -> S3Result<S3Response<GetBucketLocationOutput>> {
    store.lock().bucket(&request.input.bucket)?;
    // The first region has no name here: S3 omits the constraint.
    let constraint =
        (store.region != "us-east-1").then(|| BucketLocationConstraint::from(store.region.clone()));
    Ok(S3Response::new(GetBucketLocationOutput { location_constraint: constraint }))
}

pub(super) async fn put_bucket_lifecycle_configuration(
    store: &ServerStore,
    request: S3Request<PutBucketLifecycleConfigurationInput>,
) -> S3Result<S3Response<PutBucketLifecycleConfigurationOutput>> {
    let rules = request
        .input
        .lifecycle_configuration
        .ok_or_else(|| s3_error!(MalformedXML, "The lifecycle configuration is missing"))?;
    store.lock().set_lifecycle(&request.input.bucket, Some(rules))?;
    Ok(S3Response::new(PutBucketLifecycleConfigurationOutput::default()))
}

pub(super) async fn get_bucket_lifecycle_configuration(
    store: &ServerStore,
    request: S3Request<GetBucketLifecycleConfigurationInput>,
) -> S3Result<S3Response<GetBucketLifecycleConfigurationOutput>> {
    let catalog = store.lock();
    let lifecycle = catalog.bucket(&request.input.bucket)?.lifecycle.clone();
    let lifecycle = lifecycle.ok_or_else(|| {
        s3_error!(NoSuchLifecycleConfiguration, "The lifecycle configuration does not exist")
    })?;
    Ok(S3Response::new(GetBucketLifecycleConfigurationOutput {
        rules: Some(lifecycle.rules),
        ..Default::default()
    }))
}

pub(super) async fn delete_bucket_lifecycle(
    store: &ServerStore,
    request: S3Request<DeleteBucketLifecycleInput>,
) -> S3Result<S3Response<DeleteBucketLifecycleOutput>> {
    store.lock().set_lifecycle(&request.input.bucket, None)?;
    Ok(S3Response::new(DeleteBucketLifecycleOutput::default()))
}

/// No bucket keeps versions here: S3's answer for one that never did.
pub(super) async fn get_bucket_versioning(
    store: &ServerStore,
    request: S3Request<GetBucketVersioningInput>,
) -> S3Result<S3Response<GetBucketVersioningOutput>> {
    store.lock().bucket(&request.input.bucket)?;
    Ok(S3Response::new(GetBucketVersioningOutput::default()))
}
