//! Sends bytes with their CRC-64/NVME, which the service compares, and compares the checksum that it answers.
//!
//! `x-ms-content-crc64` holds the checksum in base64, its bytes in little-endian order; the service tells its own in
//! the answer if the request has one ("Put Blob", "Put Block"). Azurite refuses the header or ignores it, which is
//! learned once for each endpoint: from a success without the header after the refusal, or from bytes that were taken
//! and whose checksum was not told.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::HeaderMap;

use super::client::AzureShared;
use super::fault::{code_of, no_error, of_write};
use super::request::{AzureContent, AzureRequest};
use tidegate_core::backend::{Fault, FaultKind, Feature};
use tidegate_core::memory::payload::Payload;
use tidegate_core::types::checksum::{Algorithm, Checksum};
use tidegate_http::answer::not_a_store;
use tidegate_http::{LONGEST_REFUSAL, proof, read, set, source_fault};

const HEADER: &str = "x-ms-content-crc64";

/// A checksum as Azure writes it.
pub(super) fn little_endian(checksum: &Checksum) -> String {
    STANDARD.encode(checksum.value().to_le_bytes())
}

/// The checksum of `size` bytes that an answer tells, if it does.
pub(super) fn told(headers: &HeaderMap, size: u64) -> Option<Checksum> {
    let text = headers.get(HEADER)?.to_str().ok()?;
    let bytes: [u8; 8] = STANDARD.decode(text.trim()).ok()?.try_into().ok()?;
    Some(Checksum::known(Algorithm::Crc64Nvme, u64::from_le_bytes(bytes), size))
}

/// Whether the server says that it does not have what a header asks for. Azurite says so with status 500. Only the same
/// request without the header shows whether that header is meant.
pub(super) fn is_missing_feature(shared: &AzureShared, headers: &HeaderMap) -> bool {
    shared.may_lack_features() && code_of(headers) == Some("FeatureNotSupported")
}

/// What a request carries, with its checksum.
#[derive(Clone, Debug)]
pub(super) enum ComparedContent {
    /// All bytes of a blob, and their MD5: a server that does not compare the checksum may compare that. The service
    /// refuses both together ("Put Blob").
    Blob(Payload, Checksum, String),
    Payload(Payload, Checksum),
    Text(Bytes),
}

impl ComparedContent {
    fn checksum(&self) -> Checksum {
        match self {
            Self::Blob(_, checksum, _) | Self::Payload(_, checksum) => *checksum,
            Self::Text(text) => Checksum::of(Algorithm::Crc64Nvme, text),
        }
    }

    /// Whether a server that compares checksums tells the one of this content: of bytes of an object, and not of none.
    fn is_told(&self) -> bool {
        self.payload().is_some() && self.checksum().covers() > 0
    }

    fn payload(&self) -> Option<&Payload> {
        match self {
            Self::Blob(payload, ..) | Self::Payload(payload, _) => Some(payload),
            Self::Text(_) => None,
        }
    }

    fn content(&self) -> AzureContent {
        match self {
            Self::Blob(payload, ..) | Self::Payload(payload, _) => AzureContent::Payload(payload.clone()),
            Self::Text(text) => AzureContent::Text(text.clone()),
        }
    }
}

/// The answer to a write, which has succeeded.
#[derive(Debug)]
pub(super) struct WriteAnswer {
    pub(super) headers: HeaderMap,
    /// Whether the server has told the right checksum of the bytes.
    pub(super) has_compared: bool,
}

/// Sends what `request` makes with `content`. The answer must be one of a write: 201, with nothing in its body.
pub(super) async fn write(
    shared: &AzureShared,
    request: impl Fn() -> AzureRequest,
    content: ComparedContent,
) -> Result<WriteAnswer, Fault> {
    let checksum = content.checksum();
    let is_asked = !shared.facts.lacks(Feature::ComparedChecksums);
    if is_asked {
        let mut request = request().with(content.content());
        set(&mut request.headers, HEADER, Some(little_endian(&checksum)))?;
        let answer = shared.exchange(request).await?;
        if answer.response.status().is_success() {
            let headers = answer.response.headers().clone();
            no_page(&headers, &read(answer.response, LONGEST_REFUSAL).await?)?;
            let told = told(&headers, checksum.covers());
            if let Some(theirs) = told.filter(|told| *told != checksum) {
                let message = format!("the store's checksum of the bytes is {theirs}, ours is {checksum}");
                return Err(Fault::new(FaultKind::Integrity, message));
            }
            if told.is_none() && content.is_told() {
                shared.learn_lack(Feature::ComparedChecksums);
            }
            return Ok(WriteAnswer { headers, has_compared: told.is_some() });
        }
        if !is_missing_feature(shared, answer.response.headers()) {
            return Err(of_write(shared.refused(answer).await));
        }
    }
    // The server compares nothing: at least these are the bytes that the checksum was taken of.
    if let Some(payload) = content.payload()
        && !payload.is_of_its_checksum().await.map_err(source_fault)?
    {
        let message = format!("the bytes in memory are not those of their checksum {checksum}");
        return Err(Fault::new(FaultKind::Integrity, message));
    }
    let mut request = request().with(content.content());
    if let ComparedContent::Blob(_, _, md5) = &content {
        set(&mut request.headers, "content-md5", Some(md5))?;
    }
    let (headers, body) = shared.ask(request).await.map_err(of_write)?;
    no_page(&headers, &body)?;
    if is_asked {
        shared.learn_lack(Feature::ComparedChecksums);
    }
    Ok(WriteAnswer { headers, has_compared: false })
}

/// Fails if the answer to a write is an error document, or not an object store's.
fn no_page(headers: &HeaderMap, body: &[u8]) -> Result<(), Fault> {
    no_error(headers, body)?;
    if !proof::is_stores(headers) || !body.trim_ascii().is_empty() {
        return Err(not_a_store("word that it was written", headers, body));
    }
    Ok(())
}
