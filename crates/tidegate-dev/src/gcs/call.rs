//! Parses a request to the JSON API: its path, method and parameters
//! (`cloud.google.com/storage/docs/json_api/v1`).

use http::{Method, Uri};
use percent_encoding::percent_decode_str;
use serde::Deserialize;

use super::refusal::GcsRefusal;
use crate::catalog::Generations;

/// The API's root paths; Google's Node client uses the last one with an emulator. No bucket can have such a
/// short name.
const ROOTS: [(&str, PathRoot); 5] = [
    ("/storage/v1/b", PathRoot::Plain),
    ("/upload/storage/v1/b", PathRoot::Upload),
    ("/resumable/upload/storage/v1/b", PathRoot::Upload),
    ("/download/storage/v1/b", PathRoot::Download),
    ("/b", PathRoot::Plain),
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PathRoot {
    Plain,
    Upload,
    Download,
}

/// An operation, named as in Google's documentation; resumable uploads, which have no names there, are named
/// after their action.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum GcsOperation {
    InsertBucket,
    GetBucket,
    ListBuckets,
    DeleteBucket,
    Insert,
    Get,
    Download,
    List,
    Delete,
    Patch,
    Update,
    Start,
    Append,
    Query,
    Cancel,
    Rewrite,
}

impl GcsOperation {
    /// The name in counts and faults.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::InsertBucket => "storage.buckets.insert",
            Self::GetBucket => "storage.buckets.get",
            Self::ListBuckets => "storage.buckets.list",
            Self::DeleteBucket => "storage.buckets.delete",
            Self::Insert => "storage.objects.insert",
            Self::Get => "storage.objects.get",
            Self::Download => "storage.objects.download",
            Self::List => "storage.objects.list",
            Self::Delete => "storage.objects.delete",
            Self::Patch => "storage.objects.patch",
            Self::Update => "storage.objects.update",
            Self::Start => "storage.resumable.start",
            Self::Append => "storage.resumable.append",
            Self::Query => "storage.resumable.query",
            Self::Cancel => "storage.resumable.cancel",
            Self::Rewrite => "storage.objects.rewrite",
        }
    }
}

/// The parameters that matter here; Google has more, which only clients care about.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Parameters {
    pub(super) upload_type: Option<String>,
    #[serde(rename = "upload_id")]
    pub(super) upload_id: Option<String>,
    pub(super) name: Option<String>,
    pub(super) content_encoding: Option<String>,
    alt: Option<String>,
    generation: Option<u64>,
    if_generation_match: Option<u64>,
    if_generation_not_match: Option<u64>,
    if_metageneration_match: Option<u64>,
    if_metageneration_not_match: Option<u64>,
    pub(super) prefix: Option<String>,
    pub(super) delimiter: Option<String>,
    pub(super) page_token: Option<String>,
    pub(super) max_results: Option<usize>,
    pub(super) start_offset: Option<String>,
    pub(super) end_offset: Option<String>,
    include_trailing_delimiter: Option<String>,
    pub(super) match_glob: Option<String>,
    pub(super) rewrite_token: Option<String>,
    pub(super) source_generation: Option<u64>,
    pub(super) max_bytes_rewritten_per_call: Option<u64>,
    if_source_generation_match: Option<u64>,
    if_source_generation_not_match: Option<u64>,
    if_source_metageneration_match: Option<u64>,
    if_source_metageneration_not_match: Option<u64>,
}

impl Parameters {
    pub(super) fn generations(&self) -> Generations {
        Generations {
            is: self.if_generation_match,
            is_not: self.if_generation_not_match,
            metageneration_is: self.if_metageneration_match,
            metageneration_is_not: self.if_metageneration_not_match,
        }
    }

    /// The conditions on the source of a copy.
    pub(super) fn source_generations(&self) -> Generations {
        Generations {
            is: self.if_source_generation_match,
            is_not: self.if_source_generation_not_match,
            metageneration_is: self.if_source_metageneration_match,
            metageneration_is_not: self.if_source_metageneration_not_match,
        }
    }

    /// Google's Python client sends `True`.
    pub(super) fn includes_trailing_delimiter(&self) -> bool {
        self.include_trailing_delimiter.as_ref().is_some_and(|text| text.eq_ignore_ascii_case("true"))
    }

    /// The requested generation; only the live object of each key exists.
    pub(super) fn generation(&self) -> Option<u64> {
        self.generation
    }
}

/// A parsed request.
#[derive(Clone, Debug)]
pub(super) struct Call {
    pub(super) operation: GcsOperation,
    pub(super) bucket: String,
    pub(super) key: String,
    /// Bucket and key of the source of a copy.
    pub(super) source: Option<(String, String)>,
    pub(super) parameters: Parameters,
}

/// Whether the path belongs to the JSON API.
pub(super) fn is_path(path: &str) -> bool {
    path.starts_with("/batch/storage/v1") || split(path).is_some()
}

fn split(path: &str) -> Option<(PathRoot, &str)> {
    ROOTS.iter().find_map(|(prefix, root)| {
        let rest = path.strip_prefix(prefix)?;
        (rest.is_empty() || rest.starts_with('/')).then_some((*root, rest))
    })
}

impl Call {
    /// `is_query` says that the `Content-Range` asks for a session's status instead of sending bytes.
    pub(super) fn parse(method: &Method, uri: &Uri, is_query: bool) -> Result<Self, GcsRefusal> {
        let unknown = || GcsRefusal::not_found(format!("There is no {method} of {} here.", uri.path()));
        let (root, rest) = split(uri.path()).ok_or_else(unknown)?;
        let parameters: Parameters = serde_urlencoded::from_str(uri.query().unwrap_or_default())
            .map_err(|error| GcsRefusal::invalid(format!("A parameter is wrong: {error}")))?;
        let names: Vec<&str> = rest.split('/').filter(|name| !name.is_empty()).collect();
        if let (
            [from_bucket, "o", from, "rewriteTo", "b", bucket, "o", key],
            PathRoot::Plain,
            &Method::POST,
        ) = (names.as_slice(), root, method)
        {
            let source = Some((decode(from_bucket)?, decode(from)?));
            let (bucket, key) = (decode(bucket)?, decode(key)?);
            return Ok(Self { operation: GcsOperation::Rewrite, bucket, key, source, parameters });
        }
        let (bucket, key, operation) = match (names.as_slice(), root) {
            ([], PathRoot::Plain) => (None, None, of_buckets(method)),
            ([bucket], PathRoot::Plain) => (Some(*bucket), None, of_bucket(method)),
            ([bucket, "o"], PathRoot::Plain) => {
                (Some(*bucket), None, (*method == Method::GET).then_some(GcsOperation::List))
            }
            ([bucket, "o"], PathRoot::Upload) => {
                (Some(*bucket), None, of_upload(method, &parameters, is_query)?)
            }
            ([bucket, "o", key], PathRoot::Plain | PathRoot::Download) => {
                let is_media = root == PathRoot::Download || parameters.alt.as_deref() == Some("media");
                (Some(*bucket), Some(*key), of_object(method, is_media))
            }
            _ => (None, None, None),
        };
        let operation = operation.ok_or_else(unknown)?;
        let key = match key {
            Some(key) => decode(key)?,
            None => parameters.name.clone().unwrap_or_default(),
        };
        Ok(Self { operation, bucket: decode(bucket.unwrap_or_default())?, key, source: None, parameters })
    }
}

fn of_buckets(method: &Method) -> Option<GcsOperation> {
    match *method {
        Method::GET => Some(GcsOperation::ListBuckets),
        Method::POST => Some(GcsOperation::InsertBucket),
        _ => None,
    }
}

fn of_bucket(method: &Method) -> Option<GcsOperation> {
    match *method {
        Method::GET => Some(GcsOperation::GetBucket),
        Method::DELETE => Some(GcsOperation::DeleteBucket),
        _ => None,
    }
}

fn of_object(method: &Method, is_media: bool) -> Option<GcsOperation> {
    match *method {
        Method::GET | Method::HEAD if is_media => Some(GcsOperation::Download),
        Method::GET | Method::HEAD => Some(GcsOperation::Get),
        Method::DELETE => Some(GcsOperation::Delete),
        Method::PATCH => Some(GcsOperation::Patch),
        Method::PUT => Some(GcsOperation::Update),
        _ => None,
    }
}

fn of_upload(
    method: &Method,
    parameters: &Parameters,
    is_query: bool,
) -> Result<Option<GcsOperation>, GcsRefusal> {
    if parameters.upload_id.is_some() {
        return Ok(match *method {
            Method::PUT | Method::POST if is_query => Some(GcsOperation::Query),
            Method::PUT | Method::POST => Some(GcsOperation::Append),
            Method::DELETE => Some(GcsOperation::Cancel),
            _ => None,
        });
    }
    match (method, parameters.upload_type.as_deref()) {
        (&Method::POST, Some("media" | "multipart")) => Ok(Some(GcsOperation::Insert)),
        (&Method::POST, Some("resumable")) => Ok(Some(GcsOperation::Start)),
        (&Method::POST, _) => Err(GcsRefusal::required("uploadType")),
        _ => Ok(None),
    }
}

fn decode(text: &str) -> Result<String, GcsRefusal> {
    let decoded = percent_decode_str(text).decode_utf8();
    decoded.map(Into::into).map_err(|_| GcsRefusal::invalid("A name is not UTF-8."))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(method: Method, uri: &str) -> Result<Call, u16> {
        let uri = uri.parse().unwrap();
        Call::parse(&method, &uri, false).map_err(|refusal| refusal.status.as_u16())
    }

    fn operation(method: Method, uri: &str) -> Result<GcsOperation, u16> {
        parse(method, uri).map(|call| call.operation)
    }

    #[test]
    fn requests_are_told_apart() {
        use GcsOperation::*;
        let cases = [
            (Method::GET, "/storage/v1/b?project=p", ListBuckets),
            (Method::GET, "/b/bucket/o", List),
            (Method::POST, "/storage/v1/b", InsertBucket),
            (Method::GET, "/storage/v1/b/bucket", GetBucket),
            (Method::DELETE, "/storage/v1/b/bucket", DeleteBucket),
            (Method::GET, "/storage/v1/b/bucket/o/a%2Fb", Get),
            (Method::GET, "/storage/v1/b/bucket/o/k?alt=media", Download),
            (Method::GET, "/download/storage/v1/b/bucket/o/k?alt=media", Download),
            (Method::PATCH, "/storage/v1/b/bucket/o/k", Patch),
            (Method::PUT, "/storage/v1/b/bucket/o/k", Update),
            (Method::DELETE, "/storage/v1/b/bucket/o/k", Delete),
            (Method::POST, "/upload/storage/v1/b/bucket/o?uploadType=media&name=k", Insert),
            (Method::POST, "/upload/storage/v1/b/bucket/o?uploadType=multipart", Insert),
            (Method::POST, "/upload/storage/v1/b/bucket/o?uploadType=resumable&name=k", Start),
            (Method::PUT, "/upload/storage/v1/b/bucket/o?uploadType=resumable&upload_id=1", Append),
            (Method::DELETE, "/upload/storage/v1/b/bucket/o?upload_id=1", Cancel),
        ];
        for (method, uri, expected) in cases {
            assert_eq!(operation(method, uri), Ok(expected), "{uri}");
        }
        assert_eq!(operation(Method::POST, "/upload/storage/v1/b/bucket/o?name=k"), Err(400));
        let call = parse(Method::POST, "/storage/v1/b/bucket/o/a%2Fk/rewriteTo/b/c/o/l%2Fm").unwrap();
        assert_eq!((call.operation, call.bucket.as_str(), call.key.as_str()), (Rewrite, "c", "l/m"));
        assert_eq!(call.source, Some(("bucket".to_owned(), "a/k".to_owned())));
        assert_eq!(operation(Method::GET, "/storage/v1/b/bucket/o/k/rewriteTo/b/c/o/l"), Err(404));
        assert_eq!(operation(Method::GET, "/storage/v1/b/bucket/o?maxResults=x"), Err(400));
    }

    #[test]
    fn names_and_conditions_are_read() {
        let call = parse(Method::GET, "/storage/v1/b/bucket/o/a%2Fb%20c%25?ifGenerationMatch=0").unwrap();
        assert_eq!((call.bucket.as_str(), call.key.as_str()), ("bucket", "a/b c%"));
        assert_eq!(call.parameters.generations().is, Some(0));
    }

    #[test]
    fn buckets_of_s3_are_not_taken_for_the_api() {
        for path in ["/bucket/key", "/storage/v1/bucket", "/b2/key", "/upload/x"] {
            assert!(!is_path(path), "{path}");
        }
        assert!(is_path("/storage/v1/b") && is_path("/storage/v1/b/bucket") && is_path("/b/bucket/o"));
    }
}
