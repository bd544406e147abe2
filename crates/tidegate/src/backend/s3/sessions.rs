//! Unfinished uploads: which there are, and what they hold.

use std::collections::VecDeque;

use bytes::Bytes;
use futures::stream::BoxStream;
use http::HeaderMap;

use super::address::Address;
use super::fault;
use super::list::time;
use super::xml::{self, Initiator, ListMultipartUploadsResult, ListPartsResult, ListedPart};
use crate::backend::http::{Page, paged, stuck};
use crate::backend::{Fault, Held, OpenSession, Session, StoredPart};

/// What MinIO's listing leaves out.
pub(super) const MINIO: &str = "MinIO forgets its list of unfinished uploads when it restarts: those begun \
                                before show only when they are asked for by their whole key";

/// A bucket whose unfinished uploads are listed in S3's XML: one of S3's, or of a store that has taken that
/// over.
pub(in crate::backend) trait Listed: Clone + Send + Sync + 'static {
    /// Where it is.
    fn address(&self) -> &Address;

    /// The document at `url`.
    fn document(&self, url: String) -> impl Future<Output = Result<Bytes, Fault>> + Send;

    /// Whether a prefix is taken for a whole key, and only what was begun of late is known.
    fn is_minio(&self) -> bool {
        false
    }
}

/// Where a listing of unfinished uploads stands.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Marker {
    /// Whether all of the bucket's are gone through for those of the prefix.
    of_all: bool,
    key: String,
    id: String,
}

/// Unfinished uploads of keys that begin with `prefix`.
///
/// MinIO takes a prefix for a whole key, and gives all that it remembers where there is none: there the
/// rest is looked for among all.
pub(in crate::backend) fn list<B: Listed>(
    bucket: B,
    prefix: &str,
) -> BoxStream<'static, Result<OpenSession, Fault>> {
    let prefix = prefix.to_owned();
    paged(Marker::default(), move |marker: Marker| {
        let (bucket, prefix) = (bucket.clone(), prefix.clone());
        async move {
            let asked = if marker.of_all { "" } else { &prefix };
            let mut query = vec![("encoding-type", "url"), ("prefix", asked), ("uploads", "")];
            if !marker.key.is_empty() {
                query.extend([("key-marker", marker.key.as_str()), ("upload-id-marker", marker.id.as_str())]);
            }
            query.sort_unstable();
            let body = bucket.document(bucket.address().bucket(&query)).await?;
            let root = "ListMultipartUploadsResult";
            let result: ListMultipartUploadsResult = fault::document(&HeaderMap::new(), &body, root, "")?;
            let encoding = result.encoding_type.as_deref();
            let next = if result.is_truncated {
                let key = result.next_key_marker.as_deref().map(|key| xml::key(key, encoding)).transpose()?;
                let (key, id) = (key.unwrap_or_default(), result.next_upload_id_marker.unwrap_or_default());
                let next = Marker { of_all: marker.of_all, key, id };
                if next.key.is_empty() || next == marker {
                    return Err(stuck());
                }
                Page::At(next)
            } else if bucket.is_minio() && !asked.is_empty() {
                Page::At(Marker { of_all: true, ..Marker::default() })
            } else {
                Page::End
            };
            let mut sessions = VecDeque::with_capacity(result.uploads.len());
            for upload in result.uploads {
                let session = Session { key: xml::key(&upload.key, encoding)?, id: upload.upload_id };
                // Those of the prefix as a key were on the first page.
                let is_known = marker.of_all && session.key == prefix;
                if session.key.starts_with(&prefix) && !is_known {
                    let open = OpenSession::new(session)
                        .with_started(upload.initiated.as_deref().and_then(time))
                        .with_initiator(upload.initiator.and_then(Initiator::name));
                    sessions.push_back(open);
                }
            }
            Ok((sessions, next))
        }
    })
}

/// Adds up the parts of a session.
pub(in crate::backend) async fn held(bucket: &impl Listed, session: &Session) -> Result<Held, Fault> {
    let (mut parts, mut bytes) = (0, 0);
    let initiator = each_page(bucket, session, |page| {
        parts += page.len() as u64;
        bytes += page.iter().map(|part| part.size).sum::<u64>();
    })
    .await?;
    Ok(Held { parts: Some(parts), bytes, initiator })
}

/// The parts of a session, by number.
pub(in crate::backend) async fn parts(
    bucket: &impl Listed,
    session: &Session,
) -> Result<Vec<StoredPart>, Fault> {
    let mut parts = Vec::new();
    let stored = |part: ListedPart| StoredPart {
        number: part.part_number,
        size: part.size,
        etag: part.etag.unwrap_or_default(),
        // One of pieces of the part would be of another sort.
        checksum: part.crc64nvme.or(part.crc32c).filter(|sum| !sum.contains('-')),
    };
    each_page(bucket, session, |page| parts.extend(page.into_iter().map(stored))).await?;
    Ok(parts)
}

/// Gives the parts of a session page by page; who has begun it, where the store says.
async fn each_page(
    bucket: &impl Listed,
    session: &Session,
    mut take: impl FnMut(Vec<ListedPart>),
) -> Result<Option<String>, Fault> {
    let mut marker = 0;
    loop {
        let marker_text = marker.to_string();
        let mut query = vec![("uploadId", session.id.as_str())];
        if marker > 0 {
            query.insert(0, ("part-number-marker", &marker_text));
        }
        let body = bucket.document(bucket.address().object(&session.key, &query)?).await?;
        let result: ListPartsResult = fault::document(&HeaderMap::new(), &body, "ListPartsResult", "")?;
        take(result.parts);
        if !result.is_truncated {
            return Ok(result.initiator.and_then(Initiator::name));
        }
        match result.next_part_number_marker {
            Some(next) if next > marker => marker = next,
            _ => return Err(stuck()),
        }
    }
}
