//! Uploads of parts: the XML API's multipart uploads (`cloud.google.com/storage/docs/multipart-uploads`), with S3's
//! documents and other headers.

use async_trait::async_trait;
use futures::TryStreamExt;
use http::{Method, StatusCode};

use super::fault::{About, no_error};
use super::request::{GcsContent, GcsRequest};
use super::{GcsBucket, list, resource};
use tidegate_core::backend::{
    Attempt, Fault, FaultKind, Feature, Listing, OpenSession, Pages, Receipt, Session, WriteOptions,
};
use tidegate_core::memory::payload::Payload;
use tidegate_core::types::object::Object;
use tidegate_http::xml::complete::{completion, named, told};
use tidegate_http::xml::sessions;
use tidegate_http::{LONGEST, known, proof, read, set};

/// Opens a session of parts; fails with [`Unsupported`](FaultKind::Unsupported) if the server has none, as most
/// emulators.
///
/// fake-gcs-server, which has none, takes the request for an upload of bytes, and their `content-encoding` for that of
/// the request: it tries to decompress the empty body, fails, and answers with a 500 that is not in XML. So such an
/// answer counts as a lack too, for this session only, unless the server is Google's or has opened a session before.
pub(super) async fn open(
    bucket: &GcsBucket,
    key: &str,
    options: &WriteOptions,
    attempt: Attempt,
) -> Result<Session, Fault> {
    let facts = &bucket.shared.facts;
    if facts.lacks(Feature::PartsBesideAppends) {
        return Err(Fault::new(FaultKind::Unsupported, "the store has no uploads in parts"));
    }
    let url = bucket.xml.object(key, &[("uploads", "")])?;
    let mut request = GcsRequest::new(Method::POST, url, About::Parts, attempt);
    request.headers = resource::to_headers(options)?;
    let mut answer = bucket.shared.exchange(request).await?;
    let status = answer.response.status();
    if !status.is_success() {
        let mut fault = bucket.shared.refused(answer).await;
        let is_known = bucket.shared.is_googles() || facts.has(Feature::PartsBesideAppends);
        if fault.kind == FaultKind::Unsupported && !is_known {
            facts.learn_lack(Feature::PartsBesideAppends);
        } else if status == StatusCode::INTERNAL_SERVER_ERROR && fault.code.is_empty() && !is_known {
            fault.kind = FaultKind::Unsupported;
        }
        return Err(fault);
    }
    let headers = std::mem::take(answer.response.headers_mut());
    let body = read(answer.response, LONGEST).await?;
    let session = sessions::opened(key, &headers, &body, "")?;
    facts.learn_has(Feature::PartsBesideAppends);
    Ok(session)
}

/// Unfinished uploads in parts of keys that begin with `prefix`: none if the server turns out to have no such uploads.
pub(super) fn sessions(bucket: &GcsBucket, prefix: &str) -> Listing<OpenSession> {
    let facts = &bucket.shared.facts;
    let is_known = bucket.shared.is_googles() || facts.has(Feature::PartsBesideAppends);
    match sessions::list(bucket.clone(), prefix) {
        Listing::Pages(pages) if is_known => Listing::Pages(pages),
        Listing::Pages(pages) if !facts.lacks(Feature::PartsBesideAppends) => {
            Listing::Pages(Box::new(UnknownSessions { pages, bucket: bucket.clone(), has_begun: false }))
        }
        _ => Listing::empty(),
    }
}

/// The sessions of a server that may have no uploads in parts: its first answer shows that.
struct UnknownSessions {
    pages: Box<dyn Pages<OpenSession>>,
    bucket: GcsBucket,
    has_begun: bool,
}

/// Whether the fault of the first page shows that the server has no uploads in parts. A bucket that is missing has a
/// kind of its own. A page that is no object store's may be that of a proxy; not if the same bucket lists its objects.
async fn has_no_uploads(bucket: &GcsBucket, fault: &Fault, attempt: Attempt) -> bool {
    match fault.kind {
        FaultKind::Unsupported | FaultKind::NotFound => true,
        FaultKind::NotAStore => {
            let objects = list::objects(bucket.clone(), "", false, "");
            objects.items(attempt).try_next().await.is_ok()
        }
        _ => false,
    }
}

#[async_trait]
impl Pages<OpenSession> for UnknownSessions {
    async fn next(&mut self, attempt: Attempt) -> Result<Option<Vec<OpenSession>>, Fault> {
        match self.pages.next(attempt).await {
            Err(fault) if !self.has_begun && has_no_uploads(&self.bucket, &fault, attempt).await => {
                self.bucket.shared.facts.learn_lack(Feature::PartsBesideAppends);
                Ok(None)
            }
            page => {
                self.has_begun |= page.is_ok();
                page
            }
        }
    }
}

/// Uploads a part. A known checksum is sent first; otherwise it is compared with the answer's before the part is
/// used.
pub(super) async fn part(
    bucket: &GcsBucket,
    session: &Session,
    number: u32,
    payload: Payload,
    attempt: Attempt,
) -> Result<Receipt, Fault> {
    let number_text = number.to_string();
    let query = [("partNumber", number_text.as_str()), ("uploadId", session.id.as_str())];
    let url = bucket.xml.object(&session.key, &query)?;
    let mut request = GcsRequest::new(Method::PUT, url, About::Object, attempt);
    let hash = known(&payload).map(|checksum| format!("crc32c={}", checksum.base64()));
    set(&mut request.headers, "x-goog-hash", hash)?;
    let size = payload.len();
    let (headers, body) = bucket.shared.ask(request.with(GcsContent::Payload(payload.clone()))).await?;
    no_error(&headers, &body, About::Object)?;
    let etag = proof::written(&headers, &body)?.to_owned();
    let checksum = known(&payload)
        .ok_or_else(|| Fault::new(FaultKind::Transient, "the store answered before it had all bytes"))?;
    if let Some(theirs) = resource::crc32c(&headers).filter(|theirs| checksum.compare(theirs) == Some(false))
    {
        let message = format!("the store's crc32c of the bytes is {theirs}, ours is {}", checksum.base64());
        return Err(Fault::new(FaultKind::Integrity, message));
    }
    Ok(Receipt { number, size, etag, checksum: Some(checksum) })
}

pub(super) async fn complete(
    bucket: &GcsBucket,
    session: &Session,
    parts: &[Receipt],
    attempt: Attempt,
) -> Result<Object, Fault> {
    let url = bucket.xml.object(&session.key, &[("uploadId", &session.id)])?;
    let mut request = GcsRequest::new(Method::POST, url, About::Object, attempt);
    set(&mut request.headers, "content-type", Some("application/xml"))?;
    let request = request.with(GcsContent::Text(completion(named(parts, false))?));
    let (headers, body) = bucket.shared.ask(request.of_much_work()).await?;
    told(&headers, &body, "CompleteMultipartUploadResult", "")?;
    let object = resource::from_headers(&session.key, &headers);
    // The XML API gives an object another ETag than the JSON API, by which it is read.
    Ok(Object { etag: None, ..object })
}

pub(super) async fn abort(bucket: &GcsBucket, session: &Session, attempt: Attempt) -> Result<(), Fault> {
    let url = bucket.xml.object(&session.key, &[("uploadId", &session.id)])?;
    bucket.shared.remove(GcsRequest::new(Method::DELETE, url, About::Object, attempt)).await
}
