//! Sessions of parts: reads the answer that opens one, lists unfinished uploads and the parts that they hold.

use std::collections::VecDeque;

use bytes::Bytes;
use http::HeaderMap;

use super::address::BucketUrl;
use super::document::{ElementStep, XmlPage, filled, key, promised_flag};
use super::fault;
use super::messages::InitiateMultipartUploadResult;
use crate::answer::{BodyKind, not_a_store};
use crate::time::time;
use crate::{Entries, Order, PagePosition, paged, stuck};
use tidegate_core::backend::{Attempt, Fault, FaultKind, Held, Listing, OpenSession, Session, StoredPart};

/// Says which uploads MinIO's listing leaves out.
pub const MINIO: &str = "MinIO forgets its list of unfinished uploads when it restarts: those begun \
                                before show only when they are asked for by their whole key";

/// Says that a server has no such listing.
pub const NOT_LISTED: &str =
    "the store does not list unfinished uploads: only those that this machine's records name are found";

/// A bucket that lists unfinished uploads in S3's XML: an S3 bucket, or a bucket of a store that adopted this format
/// (Google Cloud Storage).
pub trait ListsSessions: Clone + Send + Sync + 'static {
    /// The bucket's address.
    fn address(&self) -> &BucketUrl;

    /// Fetches the document at `url`, with the answer's headers.
    fn document(
        &self,
        url: String,
        attempt: Attempt,
    ) -> impl Future<Output = Result<(HeaderMap, Bytes), Fault>> + Send;

    /// The region that requests are signed for.
    fn region(&self) -> &str {
        ""
    }

    /// True for MinIO, which takes a prefix for a whole key and lists only the uploads begun since its last restart.
    fn is_minio(&self) -> bool {
        false
    }
}

/// The root of the answer in gofakes3, the server of `rclone serve s3`.
const ROOT_OF_GOFAKES3: &str = "InitiateMultipartUpload";

/// The session that an answer says was opened.
pub fn opened(key: &str, headers: &HeaderMap, body: &[u8], region: &str) -> Result<Session, Fault> {
    let root = match BodyKind::of(body) {
        BodyKind::Xml(root) if root == ROOT_OF_GOFAKES3 => ROOT_OF_GOFAKES3,
        _ => "InitiateMultipartUploadResult",
    };
    let result: InitiateMultipartUploadResult = fault::document(headers, body, root, region)?;
    if result.upload_id.is_empty() {
        return Err(not_a_store("an UploadId", headers, body));
    }
    Ok(Session { key: key.to_owned(), id: result.upload_id })
}

/// The position in a listing of unfinished uploads.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Marker {
    /// True while the listing goes through all uploads of the bucket and filters them by prefix.
    of_all: bool,
    key: String,
    id: String,
}

/// Unfinished uploads of keys that begin with `prefix`.
///
/// MinIO takes a prefix for a whole key, and lists all uploads that it remembers when the prefix is empty. So for
/// MinIO a second listing, of the whole bucket, is filtered by prefix.
pub fn list<B: ListsSessions>(bucket: B, prefix: &str) -> Listing<OpenSession> {
    let prefix = prefix.to_owned();
    paged(Marker::default(), Order::ByKey, move |marker: Marker, attempt| {
        let (bucket, prefix) = (bucket.clone(), prefix.clone());
        async move {
            let asked = if marker.of_all { "" } else { &prefix };
            let mut query = vec![("encoding-type", "url"), ("prefix", asked), ("uploads", "")];
            if !marker.key.is_empty() {
                query.extend([("key-marker", marker.key.as_str()), ("upload-id-marker", marker.id.as_str())]);
            }
            query.sort_unstable();
            let page = match bucket.document(bucket.address().bucket(&query), attempt).await {
                Ok((headers, body)) => UploadsPage::read(&headers, &body, bucket.region())?,
                // gofakes3, the server of `rclone serve s3`, answers so until the bucket has its first upload.
                Err(fault) if fault.kind == FaultKind::NoSession && marker == Marker::default() => {
                    return Ok((VecDeque::new(), PagePosition::End));
                }
                Err(fault) => return Err(fault),
            };
            let next = match page.next {
                Some((key, id)) => PagePosition::At(Marker { of_all: marker.of_all, key, id }),
                None if bucket.is_minio() && !asked.is_empty() => {
                    PagePosition::At(Marker { of_all: true, ..Marker::default() })
                }
                None => PagePosition::End,
            };
            // Only the listing of the whole bucket (MinIO) is filtered. In other listings a session outside the
            // prefix is an error, which a layer above reports.
            let is_wanted = |open: &OpenSession| {
                let key = &open.session.key;
                // The first listing already gave the uploads whose key is the prefix itself.
                !marker.of_all || (key.starts_with(&prefix) && *key != prefix)
            };
            Ok((page.uploads.into_iter().filter(is_wanted).collect(), next))
        }
    })
}

/// Elements read from a listing of unfinished uploads.
const UPLOADS: [&str; 11] = [
    "EncodingType",
    "IsTruncated",
    "NextKeyMarker",
    "NextUploadIdMarker",
    "Upload",
    "Key",
    "UploadId",
    "Initiated",
    "Initiator",
    "ID",
    "DisplayName",
];

/// A page of a listing of unfinished uploads.
pub struct UploadsPage {
    uploads: Vec<OpenSession>,
    /// The key and upload id after which the next page begins.
    next: Option<(String, String)>,
}

impl UploadsPage {
    /// Reads the response of a request that opens a session.
    pub fn read(headers: &HeaderMap, body: &[u8], region: &str) -> Result<Self, Fault> {
        let document = XmlPage::new(headers, body, "ListMultipartUploadsResult", region)?;
        let (mut uploads, mut encoding, mut is_truncated) = (Entries::default(), None, None);
        let (mut next_key, mut next_id) = (String::new(), String::new());
        let nothing = || OpenSession::new(Session { key: String::new(), id: String::new() });
        let (mut open, mut initiator) = (nothing(), Initiator::default());
        document.each(&UPLOADS, |path, step| {
            match (path, step) {
                (["EncodingType"], ElementStep::Ends(text)) => encoding = filled(text),
                (["IsTruncated"], ElementStep::Ends(text)) => is_truncated = promised_flag(text)?,
                (["NextKeyMarker"], ElementStep::Ends(text)) => text.clone_into(&mut next_key),
                (["NextUploadIdMarker"], ElementStep::Ends(text)) => text.clone_into(&mut next_id),
                (["Upload", "Key"], ElementStep::Ends(text)) => text.clone_into(&mut open.session.key),
                (["Upload", "UploadId"], ElementStep::Ends(text)) => {
                    text.trim().clone_into(&mut open.session.id)
                }
                (["Upload", "Initiated"], ElementStep::Ends(text)) => open.started = time(text),
                (["Upload", "Initiator", name], ElementStep::Ends(text)) => initiator.take(name, text),
                (["Upload"], ElementStep::Ends(_)) => {
                    let mut open = std::mem::replace(&mut open, nothing());
                    if open.session.key.is_empty() || open.session.id.is_empty() {
                        return Err("it lists an upload without a key or an id".to_owned());
                    }
                    open.initiator = std::mem::take(&mut initiator).name();
                    uploads.push(open)?;
                }
                _ => {}
            }
            Ok(())
        })?;
        let encoding = encoding.as_deref();
        let mut uploads = uploads.into_vec();
        for open in &mut uploads {
            open.session.key = key(std::mem::take(&mut open.session.key), encoding)?;
        }
        let next = match document.promised("IsTruncated", is_truncated)? {
            true if next_key.is_empty() => return Err(stuck()),
            true => Some((key(next_key, encoding)?, next_id)),
            false => None,
        };
        Ok(Self { uploads, next })
    }
}

/// The user who began an upload.
#[derive(Debug, Default)]
struct Initiator {
    id: Option<String>,
    display_name: Option<String>,
}

impl Initiator {
    fn take(&mut self, name: &str, text: &str) {
        match name {
            "ID" => self.id = filled(text),
            "DisplayName" => self.display_name = filled(text),
            _ => {}
        }
    }

    /// The display name, else the id. Stores may leave both empty.
    fn name(self) -> Option<String> {
        self.display_name.or(self.id)
    }
}

/// Adds up the number and the bytes of a session's parts.
pub async fn held(bucket: &impl ListsSessions, session: &Session, attempt: Attempt) -> Result<Held, Fault> {
    let (mut parts, mut bytes) = (0, 0_u64);
    let initiator = each_page(bucket, session, attempt, |page| {
        parts += page.len() as u64;
        bytes = page.iter().fold(bytes, |bytes, part| bytes.saturating_add(part.size));
    })
    .await?;
    Ok(Held { parts: Some(parts), bytes, initiator })
}

/// The parts of a session, by number.
pub async fn parts(
    bucket: &impl ListsSessions,
    session: &Session,
    attempt: Attempt,
) -> Result<Vec<StoredPart>, Fault> {
    let mut parts = Vec::new();
    each_page(bucket, session, attempt, |page| parts.extend(page)).await?;
    Ok(parts)
}

/// Passes the parts of a session to `take`, page by page. Returns the initiator, if the store names one.
async fn each_page(
    bucket: &impl ListsSessions,
    session: &Session,
    attempt: Attempt,
    mut take: impl FnMut(Vec<StoredPart>),
) -> Result<Option<String>, Fault> {
    let mut marker = 0;
    loop {
        let marker_text = marker.to_string();
        let mut query = vec![("uploadId", session.id.as_str())];
        if marker > 0 {
            query.insert(0, ("part-number-marker", &marker_text));
        }
        let (headers, body) =
            bucket.document(bucket.address().object(&session.key, &query)?, attempt).await?;
        let page = PartsPage::read(&headers, &body, bucket.region(), marker)?;
        let last = page.parts.last().map_or(marker, |part| part.number);
        take(page.parts);
        match page.next {
            None => return Ok(page.initiator),
            Some(next) if next > marker && next >= last && next <= HIGHEST => marker = next,
            Some(_) => return Err(stuck()),
        }
    }
}

/// Elements read from a listing of parts.
const PARTS: [&str; 12] = [
    "IsTruncated",
    "NextPartNumberMarker",
    "Initiator",
    "ID",
    "DisplayName",
    "Part",
    "PartNumber",
    "LastModified",
    "Size",
    "ETag",
    "ChecksumCRC64NVME",
    "ChecksumCRC32C",
];

/// The highest part number (S3, "Amazon S3 multipart upload limits").
const HIGHEST: u32 = 10_000;

/// A page of the parts of a session.
pub struct PartsPage {
    /// In ascending order.
    parts: Vec<StoredPart>,
    /// The part number after which the next page begins.
    next: Option<u32>,
    initiator: Option<String>,
}

impl PartsPage {
    /// Reads a page of parts whose numbers are greater than `after`.
    pub fn read(headers: &HeaderMap, body: &[u8], region: &str, after: u32) -> Result<Self, Fault> {
        let root = match BodyKind::of(body) {
            // moto names the document so.
            BodyKind::Xml(root) if root == "ListPartsResponse" => "ListPartsResponse",
            _ => "ListPartsResult",
        };
        let document = XmlPage::new(headers, body, root, region)?;
        let (mut parts, mut next, mut is_truncated) = (Entries::default(), None, None);
        let (mut initiator, mut last) = (Initiator::default(), after);
        let (mut number, mut size, mut etag, mut checksum) = (None, None, None, None);
        // When the part was stored, and when the part before it.
        let (mut modified, mut modified_before) = (None, None);
        document.each(&PARTS, |path, step| {
            match (path, step) {
                (["IsTruncated"], ElementStep::Ends(text)) => is_truncated = promised_flag(text)?,
                (["NextPartNumberMarker"], ElementStep::Ends(text)) => next = text.trim().parse().ok(),
                (["Initiator", name], ElementStep::Ends(text)) => initiator.take(name, text),
                (["Part"], ElementStep::Begins) => {
                    (number, size, etag, checksum) = (None, None, None, None);
                    modified = None;
                }
                (["Part", "PartNumber"], ElementStep::Ends(text)) => number = text.trim().parse().ok(),
                (["Part", "LastModified"], ElementStep::Ends(text)) => modified = time(text),
                (["Part", "Size"], ElementStep::Ends(text)) => size = text.trim().parse().ok(),
                (["Part", "ETag"], ElementStep::Ends(text)) => etag = filled(text),
                // A checksum with `-` covers the checksums of pieces, not the bytes.
                (["Part", "ChecksumCRC64NVME" | "ChecksumCRC32C"], ElementStep::Ends(text)) => {
                    checksum = checksum.take().or(filled(text).filter(|sum| !sum.contains('-')));
                }
                (["Part"], ElementStep::Ends(_)) => {
                    let (Some(number @ 1..=HIGHEST), Some(size)) = (number, size) else {
                        return Err("it lists a part without a number or a size".to_owned());
                    };
                    let etag = etag.take().unwrap_or_default();
                    let part =
                        StoredPart { checksum: checksum.take(), ..StoredPart::new(number, size, etag) };
                    match parts.last_mut() {
                        // SeaweedFS lists a part that was sent again once for each time. The newest one counts;
                        // without times, the one that is listed last.
                        Some(before) if number == last => {
                            let is_older =
                                modified.zip(modified_before).is_some_and(|(this, before)| this < before);
                            if is_older {
                                return Ok(());
                            }
                            *before = part;
                        }
                        _ if number <= last => {
                            return Err(format!("it lists part {number} behind part {last}"));
                        }
                        _ => parts.push(part)?,
                    }
                    (last, modified_before) = (number, modified);
                }
                _ => {}
            }
            Ok(())
        })?;
        let is_truncated = document.promised("IsTruncated", is_truncated)?;
        if is_truncated && next.is_none() {
            return Err(stuck());
        }
        Ok(Self { parts: parts.into_vec(), next: next.filter(|_| is_truncated), initiator: initiator.name() })
    }
}

#[cfg(test)]
mod tests;
