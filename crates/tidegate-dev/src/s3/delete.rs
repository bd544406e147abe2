//! Deletes objects, one or many at a time.

use s3s::dto::*;
use s3s::{S3Error, S3Request, S3Response, S3Result, s3_error};

use super::{ServerStore, google_of};
use crate::catalog::Condition;

pub(super) async fn delete_object(
    store: &ServerStore,
    request: S3Request<DeleteObjectInput>,
) -> S3Result<S3Response<DeleteObjectOutput>> {
    let mut condition = Condition::etags(request.input.if_match, None);
    condition.generations = google_of(&request.extensions).unwrap_or_default();
    let (bucket, key) = (request.input.bucket, request.input.key);
    store.lock().remove_object(&bucket, &key, &condition)?;
    Ok(S3Response::new(DeleteObjectOutput::default()))
}

/// S3's own limit.
const MOST_DELETED: usize = 1000;

pub(super) async fn delete_objects(
    store: &ServerStore,
    request: S3Request<DeleteObjectsInput>,
) -> S3Result<S3Response<DeleteObjectsOutput>> {
    let input = request.input;
    if input.delete.objects.len() > MOST_DELETED {
        return Err(s3_error!(MalformedXML, "More than 1000 keys to delete"));
    }
    let mut catalog = store.lock();
    catalog.bucket(&input.bucket)?;
    let (mut deleted, mut errors) = (Vec::new(), Vec::new());
    for object in input.delete.objects {
        let condition = Condition::etags(object.e_tag.map(ETagCondition::ETag), None);
        match catalog.remove_object(&input.bucket, &object.key, &condition) {
            Ok(()) => deleted.push(DeletedObject { key: Some(object.key), ..Default::default() }),
            Err(error) => errors.push(describe_error(object.key, &error)),
        }
    }
    if input.delete.quiet == Some(true) {
        deleted.clear();
    }
    Ok(S3Response::new(DeleteObjectsOutput {
        deleted: Some(deleted),
        errors: Some(errors),
        ..Default::default()
    }))
}

fn describe_error(key: String, error: &S3Error) -> Error {
    Error {
        key: Some(key),
        code: Some(error.code().as_str().to_owned()),
        message: error.message().map(str::to_owned),
        version_id: None,
    }
}
