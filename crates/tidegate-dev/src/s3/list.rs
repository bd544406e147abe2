//! Lists objects and sessions.

use std::ops::Bound;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use s3s::dto::*;
use s3s::{S3Request, S3Response, S3Result, s3_error};

use super::ServerStore;
use super::checksum::kind;
use super::page::{Page, Query, encode};

fn limit(store: &ServerStore, asked: Option<i32>) -> S3Result<usize> {
    let longest = store.faults.knobs().longest_page();
    let Some(asked) = asked else { return Ok(longest) };
    let asked = usize::try_from(asked)
        .map_err(|error| s3_error!(error, InvalidArgument, "A page cannot be shorter than nothing"))?;
    Ok(asked.min(longest))
}

fn is_url(encoding: Option<&EncodingType>) -> S3Result<bool> {
    match encoding.map(EncodingType::as_str) {
        None => Ok(false),
        Some("url") => Ok(true),
        Some(_) => Err(s3_error!(InvalidArgument, "Invalid Encoding Method specified in Request")),
    }
}

/// Treats an empty delimiter as none.
fn delimiter(asked: Option<&String>) -> Option<&str> {
    asked.map(String::as_str).filter(|text| !text.is_empty())
}

fn folded(prefixes: Vec<String>, is_url: bool) -> Option<Vec<CommonPrefix>> {
    let prefixes = prefixes.into_iter().map(|prefix| CommonPrefix { prefix: Some(encode(is_url, &prefix)) });
    Some(prefixes.collect())
}

impl ServerStore {
    fn list(&self, bucket: &str, query: &Query<'_>, is_url: bool) -> S3Result<Page<Object>> {
        let catalog = self.lock();
        let bucket = catalog.bucket(bucket)?;
        let start = query.start();
        let start = if start == query.after && !start.is_empty() {
            Bound::Excluded(start)
        } else {
            Bound::Included(start)
        };
        let objects = bucket.objects.range::<str, _>((start, Bound::Unbounded));
        let page = query.page(objects.map(|(key, object)| (key.as_str(), object)));
        // Builds the entry only for objects on the page.
        let describe = |object: &std::sync::Arc<crate::catalog::CatalogObject>| Object {
            key: Some(encode(is_url, &object.key)),
            size: Some(object.size as i64),
            e_tag: Some(ETag::Strong(object.etag.clone())),
            last_modified: Some(object.modified.timestamp()),
            storage_class: Some(
                object.attributes.storage_class.clone().unwrap_or_else(|| "STANDARD".to_owned()).into(),
            ),
            checksum_algorithm: object
                .checksum
                .as_ref()
                .map(|checksum| vec![checksum.algorithm.name().to_owned().into()]),
            checksum_type: object.checksum.as_ref().map(|checksum| checksum.kind().to_owned().into()),
            ..Default::default()
        };
        Ok(Page {
            items: page.items.into_iter().map(describe).collect(),
            prefixes: page.prefixes,
            is_truncated: page.is_truncated,
            last: page.last,
        })
    }
}

pub(super) async fn list_objects(
    store: &ServerStore,
    request: S3Request<ListObjectsInput>,
) -> S3Result<S3Response<ListObjectsOutput>> {
    let input = request.input;
    let is_url = is_url(input.encoding_type.as_ref())?;
    let encoded = |text: Option<&String>| text.map(|text| encode(is_url, text));
    let limit = limit(store, input.max_keys)?;
    let query = Query {
        prefix: input.prefix.as_deref().unwrap_or_default(),
        delimiter: delimiter(input.delimiter.as_ref()),
        after: input.marker.as_deref().unwrap_or_default(),
        limit,
    };
    let page = store.list(&input.bucket, &query, is_url)?;
    Ok(S3Response::new(ListObjectsOutput {
        name: Some(input.bucket),
        prefix: Some(encode(is_url, query.prefix)),
        marker: Some(encode(is_url, query.after)),
        max_keys: Some(limit as i32),
        is_truncated: Some(page.is_truncated),
        // S3 sends the marker only with a delimiter: otherwise the last key serves as marker.
        next_marker: page
            .last
            .filter(|_| page.is_truncated && query.delimiter.is_some())
            .map(|last| encode(is_url, &last)),
        contents: Some(page.items),
        common_prefixes: folded(page.prefixes, is_url),
        delimiter: encoded(input.delimiter.as_ref()),
        encoding_type: input.encoding_type,
        request_charged: None,
    }))
}

pub(super) async fn list_objects_v2(
    store: &ServerStore,
    request: S3Request<ListObjectsV2Input>,
) -> S3Result<S3Response<ListObjectsV2Output>> {
    let input = request.input;
    let is_url = is_url(input.encoding_type.as_ref())?;
    let encoded = |text: Option<&String>| text.map(|text| encode(is_url, text));
    let limit = limit(store, input.max_keys)?;
    let token = input.continuation_token.as_deref().map(open_token);
    let token = token.transpose()?;
    let query = Query {
        prefix: input.prefix.as_deref().unwrap_or_default(),
        delimiter: delimiter(input.delimiter.as_ref()),
        after: token.as_deref().or(input.start_after.as_deref()).unwrap_or_default(),
        limit,
    };
    let page = store.list(&input.bucket, &query, is_url)?;
    Ok(S3Response::new(ListObjectsV2Output {
        name: Some(input.bucket),
        prefix: Some(encode(is_url, query.prefix)),
        max_keys: Some(limit as i32),
        key_count: Some((page.items.len() + page.prefixes.len()) as i32),
        is_truncated: Some(page.is_truncated),
        next_continuation_token: page
            .last
            .filter(|_| page.is_truncated)
            .map(|last| URL_SAFE_NO_PAD.encode(last)),
        contents: Some(page.items),
        common_prefixes: folded(page.prefixes, is_url),
        delimiter: encoded(input.delimiter.as_ref()),
        start_after: encoded(input.start_after.as_ref()),
        continuation_token: input.continuation_token,
        encoding_type: input.encoding_type,
        request_charged: None,
    }))
}

/// A token is the last key of its page.
fn open_token(token: &str) -> S3Result<String> {
    URL_SAFE_NO_PAD
        .decode(token)
        .ok()
        .and_then(|bytes| String::from_utf8(bytes).ok())
        .ok_or_else(|| s3_error!(InvalidArgument, "The continuation token provided is incorrect"))
}

pub(super) async fn list_multipart_uploads(
    store: &ServerStore,
    request: S3Request<ListMultipartUploadsInput>,
) -> S3Result<S3Response<ListMultipartUploadsOutput>> {
    let input = request.input;
    let is_url = is_url(input.encoding_type.as_ref())?;
    let encoded = |text: Option<&String>| text.map(|text| encode(is_url, text));
    let limit = limit(store, input.max_uploads)?;
    let key_marker = input.key_marker.clone().unwrap_or_default();
    let id_marker = input.upload_id_marker.clone().unwrap_or_default();
    let query = Query {
        prefix: input.prefix.as_deref().unwrap_or_default(),
        delimiter: delimiter(input.delimiter.as_ref()),
        after: &key_marker,
        limit,
    };
    let catalog = store.lock();
    let uploads = catalog.bucket(&input.bucket)?.uploads.iter().filter(|((key, id), _)| {
        // With an id marker, the sessions of the marker's key up to that id are done; without it, all of that
        // key.
        let is_key_done = *key <= key_marker && !key_marker.is_empty();
        let is_left = *key == key_marker && !id_marker.is_empty() && *id > id_marker;
        !is_key_done || is_left
    });
    let page = query.page(uploads.map(|((key, _), upload)| (key.as_str(), upload)));
    // If the page ends with a session, the next page starts after that session.
    let ends_with = page.items.last();
    let next_id =
        ends_with.filter(|upload| Some(&upload.key) == page.last.as_ref()).map(|upload| upload.id.clone());
    let uploads = page.items.iter().map(|upload| MultipartUpload {
        key: Some(encode(is_url, &upload.key)),
        upload_id: Some(upload.id.clone()),
        initiated: Some(upload.initiated.timestamp()),
        storage_class: Some(
            upload.attributes.storage_class.clone().unwrap_or_else(|| "STANDARD".to_owned()).into(),
        ),
        checksum_algorithm: upload.algorithm.map(|algorithm| algorithm.name().to_owned().into()),
        checksum_type: upload.algorithm.map(|_| kind(upload.is_composite).to_owned().into()),
        ..Default::default()
    });
    let uploads = uploads.collect();
    Ok(S3Response::new(ListMultipartUploadsOutput {
        bucket: Some(input.bucket),
        key_marker: Some(encode(is_url, &key_marker)),
        upload_id_marker: Some(id_marker),
        next_key_marker: page.last.filter(|_| page.is_truncated).map(|last| encode(is_url, &last)),
        next_upload_id_marker: next_id.filter(|_| page.is_truncated),
        prefix: Some(encode(is_url, query.prefix)),
        delimiter: encoded(input.delimiter.as_ref()),
        max_uploads: Some(limit as i32),
        is_truncated: Some(page.is_truncated),
        uploads: Some(uploads),
        common_prefixes: folded(page.prefixes, is_url),
        encoding_type: input.encoding_type,
        request_charged: None,
    }))
}
