//! Amazon S3 and the stores that speak its protocol.
//!
//! Every method is one request, signed by `aws-sigv4` and sent over HTTP/1.1; nothing is tried again
//! here. Bytes in memory are sent with their checksum in a header; bytes of a file are streamed, and
//! their checksum follows them in a trailer.

use std::ops::Range;
use std::sync::Arc;

use async_trait::async_trait;
use futures::StreamExt;
use futures::stream::{self, BoxStream};
use http::{HeaderMap, Method, header};

use super::{
    Backend, Body, Capabilities, Entry, Fault, FaultKind, OpenSession, Receipt, Session, WriteOptions,
};
use crate::checksum::{Algorithm, Checksum};
use crate::object::Object;
use crate::payload::Payload;

mod address;
mod attributes;
mod body;
mod client;
mod credentials;
mod fault;
mod list;
mod request;
mod settings;
mod sign;
#[cfg(test)]
mod tests;
mod tls;
mod unanswered;
mod xml;

pub use client::S3Client;
pub use settings::{Addressing, Credentials, S3Settings};

use address::Address;
use client::Shared;
use request::{Content, Request, check, checksum_header, set};

const NAMESPACE: &str = "http://s3.amazonaws.com/doc/2006-03-01/";

/// One bucket of an S3 store. A clone is the same bucket.
#[derive(Clone, Debug)]
pub struct S3 {
    bucket: Bucket,
    location: Arc<str>,
    capabilities: Arc<Capabilities>,
}

/// What a request needs to know.
#[derive(Clone, Debug)]
struct Bucket {
    shared: Arc<Shared>,
    address: Arc<Address>,
}

impl S3 {
    /// A bucket, over connections of its own; see [`S3Client`] to share them between buckets. Sends
    /// nothing: a wrong bucket or missing credentials show at the first request.
    pub async fn connect(bucket: &str, settings: &S3Settings) -> Result<Self, Fault> {
        S3Client::connect(settings).await?.bucket(bucket)
    }

    fn new(client: &S3Client, bucket: &str) -> Result<Self, Fault> {
        let shared = client.shared.clone();
        let settings = &shared.settings;
        let address = Address::new(&shared.endpoint, bucket, settings.addressing)?;
        let is_r2 = shared.endpoint.host().ends_with("r2.cloudflarestorage.com");
        let capabilities = Capabilities {
            equal_parts: settings.equal_parts.unwrap_or(is_r2),
            checksum: settings.checksum,
            ..Capabilities::default()
        };
        Ok(Self {
            location: format!("{}://{bucket}", settings.scheme).into(),
            capabilities: Arc::new(capabilities),
            bucket: Bucket { shared, address: Arc::new(address) },
        })
    }

    fn request(&self, method: Method, key: &str, query: &[(&str, &str)]) -> Result<Request, Fault> {
        Ok(Request::new(method, self.bucket.address.object(key, query)?))
    }

    /// The request that begins an object.
    fn begin(
        &self,
        method: Method,
        key: &str,
        query: &[(&str, &str)],
        options: &WriteOptions,
    ) -> Result<Request, Fault> {
        let mut request = self.request(method, key, query)?;
        request.headers = attributes::to_headers(options)?;
        Ok(request)
    }
}

#[async_trait]
impl Backend for S3 {
    fn location(&self) -> &str {
        &self.location
    }

    fn endpoint(&self) -> &str {
        self.bucket.shared.endpoint.url()
    }

    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    async fn put(&self, key: &str, payload: Payload, options: &WriteOptions) -> Result<Object, Fault> {
        let mut request = self.begin(Method::PUT, key, &[], options)?;
        if options.create_only {
            set(&mut request.headers, "if-none-match", Some("*"))?;
        }
        let (headers, checksum) = self.bucket.shared.upload(request, payload).await?;
        let answered = attributes::from_headers(key, &headers);
        let stored = Object {
            size: checksum.covers(),
            token: options.token.clone(),
            attributes: options.attributes.clone(),
            ..answered
        };
        Ok(stored)
    }

    async fn open(&self, key: &str, options: &WriteOptions) -> Result<Session, Fault> {
        let mut request = self.begin(Method::POST, key, &[("uploads", "")], options)?;
        let name = match self.capabilities.checksum {
            Algorithm::Crc64Nvme => "CRC64NVME",
            Algorithm::Crc32c => "CRC32C",
        };
        set(&mut request.headers, "x-amz-checksum-algorithm", Some(name))?;
        set(&mut request.headers, "x-amz-checksum-type", Some("FULL_OBJECT"))?;
        let (_, body) = self.bucket.shared.ask(request).await?;
        let result: xml::InitiateMultipartUploadResult = xml::read(&body)?;
        Ok(Session { key: key.to_owned(), id: result.upload_id })
    }

    async fn part(
        &self,
        session: &Session,
        number: u32,
        _offset: u64,
        payload: Payload,
    ) -> Result<Receipt, Fault> {
        let number_text = number.to_string();
        let query = [("partNumber", number_text.as_str()), ("uploadId", session.id.as_str())];
        let request = self.request(Method::PUT, &session.key, &query)?;
        let size = payload.len();
        let (headers, checksum) = self.bucket.shared.upload(request, payload).await?;
        let etag = headers
            .get(header::ETAG)
            .and_then(|etag| etag.to_str().ok())
            .ok_or_else(|| Fault::new(FaultKind::Transient, "the store's answer to a part has no ETag"))?;
        Ok(Receipt { number, size, etag: etag.to_owned(), checksum })
    }

    async fn complete(
        &self,
        session: &Session,
        parts: &[Receipt],
        checksum: &Checksum,
        options: &WriteOptions,
    ) -> Result<Object, Fault> {
        let mut request = self.request(Method::POST, &session.key, &[("uploadId", &session.id)])?;
        let headers = &mut request.headers;
        set(headers, checksum_header(checksum.algorithm()), Some(checksum.base64()))?;
        set(headers, "x-amz-checksum-type", Some("FULL_OBJECT"))?;
        set(headers, "x-amz-mp-object-size", Some(checksum.covers().to_string()))?;
        set(headers, "content-type", Some("application/xml"))?;
        if options.create_only {
            set(headers, "if-none-match", Some("*"))?;
        }
        let request = request.with(Content::Text(completion(parts)?.into()));
        let (headers, body) = self.bucket.shared.ask(request).await?;
        // The status was sent before the store knew how it would end; the body tells.
        if xml::root(&body).as_deref() != Some("CompleteMultipartUploadResult") {
            let status = http::StatusCode::OK;
            return Err(fault::refusal(status, &headers, &body, &self.bucket.shared.region));
        }
        let result: xml::CompleteMultipartUploadResult = xml::read(&body)?;
        let whole = |value: Option<String>| value.filter(|value| !value.contains('-'));
        let (crc64nvme, crc32c) = (whole(result.crc64nvme), whole(result.crc32c));
        let theirs = match checksum.algorithm() {
            Algorithm::Crc64Nvme => &crc64nvme,
            Algorithm::Crc32c => &crc32c,
        };
        check(checksum, theirs.as_deref())?;
        Ok(Object {
            size: checksum.covers(),
            etag: result.etag,
            crc64nvme,
            crc32c,
            token: options.token.clone(),
            attributes: options.attributes.clone(),
            ..attributes::from_headers(&session.key, &headers)
        })
    }

    async fn abort(&self, session: &Session) -> Result<(), Fault> {
        let request = self.request(Method::DELETE, &session.key, &[("uploadId", &session.id)])?;
        self.bucket.shared.ask(request).await.map(|_| ())
    }

    fn sessions(&self, prefix: &str) -> BoxStream<'static, Result<OpenSession, Fault>> {
        list::sessions(self.bucket.clone(), prefix)
    }

    async fn head(&self, key: &str) -> Result<Object, Fault> {
        let mut request = self.request(Method::HEAD, key, &[])?;
        set(&mut request.headers, "x-amz-checksum-mode", Some("ENABLED"))?;
        let (headers, _) = self.bucket.shared.ask(request).await?;
        Ok(attributes::from_headers(key, &headers))
    }

    async fn get(&self, key: &str, range: Option<Range<u64>>) -> Result<Body, Fault> {
        if let Some(range) = range.clone().filter(Range::is_empty) {
            // HTTP has no range of no bytes.
            return Ok(Body { object: self.head(key).await?, range, stream: stream::empty().boxed() });
        }
        let mut request = self.request(Method::GET, key, &[])?;
        set(&mut request.headers, "x-amz-checksum-mode", Some("ENABLED"))?;
        if let Some(Range { start, end }) = range {
            set(&mut request.headers, "range", Some(format!("bytes={start}-{}", end - 1)))?;
        }
        let response = self.bucket.shared.send(request).await?;
        let (range, size) = extent(&response)?;
        let object = Object { size, ..attributes::from_headers(key, response.headers()) };
        let left = range.end - range.start;
        Ok(Body { object, range, stream: bytes(response, left) })
    }

    fn list(&self, prefix: &str, recursive: bool) -> BoxStream<'static, Result<Entry, Fault>> {
        list::objects(self.bucket.clone(), prefix, recursive)
    }

    async fn delete(&self, key: &str) -> Result<(), Fault> {
        let request = self.request(Method::DELETE, key, &[])?;
        match self.bucket.shared.ask(request).await {
            Err(fault) if fault.kind == FaultKind::NotFound => Ok(()),
            answer => answer.map(|_| ()),
        }
    }
}

/// The list of parts that a completion names.
fn completion(parts: &[Receipt]) -> Result<String, Fault> {
    let parts = parts.iter().map(|receipt| {
        let sum = |algorithm| (receipt.checksum.algorithm() == algorithm).then(|| receipt.checksum.base64());
        xml::Part {
            crc64nvme: sum(Algorithm::Crc64Nvme),
            crc32c: sum(Algorithm::Crc32c),
            etag: receipt.etag.clone(),
            part_number: receipt.number,
        }
    });
    let complete = xml::CompleteMultipartUpload { xmlns: NAMESPACE, parts: parts.collect() };
    quick_xml::se::to_string(&complete).map_err(|error| {
        Fault::new(FaultKind::Invalid, "the list of parts cannot be written as XML").with_source(error)
    })
}

/// Which bytes an answer carries, and of how many: from `Content-Range`, or all of `Content-Length`.
fn extent(response: &reqwest::Response) -> Result<(Range<u64>, u64), Fault> {
    let text = |headers: &HeaderMap, name| {
        headers.get(name).and_then(|value| value.to_str().ok()).map(str::to_owned)
    };
    let headers = response.headers();
    let extent = if response.status() == http::StatusCode::PARTIAL_CONTENT {
        text(headers, header::CONTENT_RANGE).and_then(|range| {
            let (range, size) = range.strip_prefix("bytes ")?.split_once('/')?;
            let (first, last) = range.split_once('-')?;
            let range: Range<u64> = first.parse().ok()?..last.parse::<u64>().ok()?.checked_add(1)?;
            Some((range, size.parse().ok()?))
                .filter(|(range, size)| range.start <= range.end && range.end <= *size)
        })
    } else {
        let size = text(headers, header::CONTENT_LENGTH).and_then(|length| length.parse().ok());
        size.map(|size| (0..size, size))
    };
    extent.ok_or_else(|| Fault::new(FaultKind::Unsupported, "the store does not say how long the object is"))
}

/// The `left` bytes of an answer; fewer or more are a fault.
fn bytes(response: reqwest::Response, left: u64) -> BoxStream<'static, Result<bytes::Bytes, Fault>> {
    let odd = |message| Fault::new(FaultKind::Transient, message);
    stream::try_unfold((response, left), move |(mut response, left)| async move {
        let piece = response.chunk().await.map_err(unanswered::fault)?;
        match piece {
            Some(piece) => match left.checked_sub(piece.len() as u64) {
                Some(left) => Ok(Some((piece, (response, left)))),
                None => Err(odd("the store sent more bytes than it said")),
            },
            None if left > 0 => Err(odd("the store sent fewer bytes than it said")),
            None => Ok(None),
        }
    })
    .boxed()
}
