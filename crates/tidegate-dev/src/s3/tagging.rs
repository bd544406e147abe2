//! The tags of objects.

use s3s::dto::*;
use s3s::{S3Request, S3Response, S3Result, s3_error};

use super::{ServerStore, custom};

/// S3's own limit.
const MOST_TAGS: usize = 10;

/// Parses tags from the `x-amz-tagging` header, a query string.
pub(super) fn parse_tags(header: Option<&str>) -> S3Result<Vec<(String, String)>> {
    let decode = |text: &str| {
        let text = text.replace('+', " ");
        percent_encoding::percent_decode_str(&text)
            .decode_utf8()
            .map(|text| text.into_owned())
            .map_err(|error| s3_error!(error, InvalidArgument, "The header 'x-amz-tagging' shall be encoded as UTF-8 then URLEncoded URL query parameters without tag name duplicates."))
    };
    let pairs = header.unwrap_or_default().split('&');
    let tags = pairs.filter(|pair| !pair.is_empty()).map(|pair| {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        Ok((decode(key)?, decode(value)?))
    });
    check(tags.collect::<S3Result<_>>()?)
}

fn check(tags: Vec<(String, String)>) -> S3Result<Vec<(String, String)>> {
    if tags.len() > MOST_TAGS {
        return Err(custom(
            "BadRequest",
            http::StatusCode::BAD_REQUEST,
            "Object tags cannot be greater than 10",
        ));
    }
    for (index, (key, _)) in tags.iter().enumerate() {
        if key.is_empty() || tags[..index].iter().any(|(other, _)| other == key) {
            return Err(s3_error!(InvalidTag, "A tag's key is empty or there twice"));
        }
    }
    Ok(tags)
}

pub(super) async fn put_object_tagging(
    store: &ServerStore,
    request: S3Request<PutObjectTaggingInput>,
) -> S3Result<S3Response<PutObjectTaggingOutput>> {
    let input = request.input;
    let tags = input
        .tagging
        .tag_set
        .into_iter()
        .map(|tag| (tag.key.unwrap_or_default(), tag.value.unwrap_or_default()))
        .collect();
    let tags = check(tags)?;
    store.lock().set_tags(&input.bucket, &input.key, tags)?;
    Ok(S3Response::new(PutObjectTaggingOutput::default()))
}

pub(super) async fn get_object_tagging(
    store: &ServerStore,
    request: S3Request<GetObjectTaggingInput>,
) -> S3Result<S3Response<GetObjectTaggingOutput>> {
    let object = store.lock().object(&request.input.bucket, &request.input.key)?;
    let tags = object
        .attributes
        .tags
        .iter()
        .map(|(key, value)| Tag { key: Some(key.clone()), value: Some(value.clone()) });
    Ok(S3Response::new(GetObjectTaggingOutput { tag_set: tags.collect(), version_id: None }))
}

pub(super) async fn delete_object_tagging(
    store: &ServerStore,
    request: S3Request<DeleteObjectTaggingInput>,
) -> S3Result<S3Response<DeleteObjectTaggingOutput>> {
    let input = request.input;
    store.lock().set_tags(&input.bucket, &input.key, Vec::new())?;
    Ok(S3Response::new(DeleteObjectTaggingOutput::default()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_are_a_query_string() {
        let tags = parse_tags(Some("a=1&b%20c=x+y&d")).unwrap();
        let expected = [("a", "1"), ("b c", "x y"), ("d", "")];
        let expected: Vec<_> =
            expected.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect();
        assert_eq!(tags, expected);
        assert!(parse_tags(None).unwrap().is_empty());
        assert!(parse_tags(Some("a=1&a=2")).is_err());
    }
}
