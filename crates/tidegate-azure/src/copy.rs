//! Copies within one account ("Copy Blob From URL"), of whole blobs of up to 256 MiB.
//!
//! The service makes such a copy before it answers: the target is whole, or nothing is there. "Copy Blob", which takes
//! larger ones, shows a target of the full size before its bytes are there, leaves an empty one where it fails, and
//! goes on when nobody waits for it. So larger blobs are left to the caller, who can read and write the bytes.
//!
//! The copy has the content headers of its source: no request changes them on the way, so a copy with others is left to
//! the caller too. Metadata and tags are sent anew, but for metadata whose names have capital letters. If the tags may
//! not be read the copy fails: one without them would lose them silently.

use std::time::Duration;

use http::{HeaderMap, Method};

use super::attributes::{META, from_headers, metadata_headers};
use super::checksum_entry::{ChecksumEntry, Witness};
use super::compared::told;
use super::list::has_capitals;
use super::request::AzureRequest;
use super::{Azure, AzureContainer, container_of, tags};
use tidegate_core::backend::{
    Attempt, Backend as _, Copied, CopySource, Fault, FaultKind, PresignedRequest, WriteOptions, gone,
};
use tidegate_core::types::checksum::Algorithm;
use tidegate_core::types::object::{Attributes, Object};
use tidegate_http::answer::not_a_store;
use tidegate_http::{LONGEST_REFUSAL, proof, read, set, text};

/// The largest blob that is copied ("Copy Blob From URL").
pub(super) const LARGEST: u64 = 256 << 20;

/// How long the service may take until it reads the source.
const GRANT: Duration = Duration::from_secs(3600);

/// Whether a copy can have these attributes: all but metadata, tags and tier are the source's.
fn keeps_headers(source: &Attributes, wanted: &Attributes) -> bool {
    let headers = |attributes: &Attributes| {
        [
            attributes.content_type.clone().or_else(|| Some("application/octet-stream".to_owned())),
            attributes.cache_control.clone(),
            attributes.content_encoding.clone(),
            attributes.content_disposition.clone(),
            attributes.content_language.clone(),
        ]
    };
    headers(source) == headers(wanted)
}

pub(super) async fn copy(
    azure: &Azure,
    from: &CopySource,
    key: &str,
    options: &WriteOptions,
    attempt: Attempt,
) -> Result<Copied, Fault> {
    if !keeps_headers(&from.object.attributes, &options.attributes) {
        let message = "Azure Blob Storage copies a blob only with the content type and the other content headers that \
                       it has";
        return Err(Fault::new(FaultKind::Unsupported, message));
    }
    let Some(tag) = from.object.strong_tag() else {
        let message = "the source blob has no ETag, so Azure cannot check that it copies the right one";
        return Err(Fault::new(FaultKind::Unsupported, message));
    };
    let shared = &azure.container.shared;
    let source = AzureContainer::new(shared, container_of(&from.location)?)?;
    let mut options = options.clone();
    if from.keeps_tags && options.attributes.tags.is_empty() && from.object.tag_count > 0 {
        // A copy has no tags if none are sent.
        options.attributes.tags = tags::tags(&source, &from.key, attempt).await.map_err(unread_tags)?;
    }
    let checksum = from.checksum(Algorithm::Crc64Nvme);
    let checksum = checksum.filter(|checksum| checksum.algorithm() == Algorithm::Crc64Nvme);
    // The copy has its source's MD5 or, where that has none, its source's blocks.
    let entry = checksum.map(|checksum| match from.object.other_checksums.get("md5") {
        Some(md5) => ChecksumEntry { checksum, witness: Witness::Md5(md5.clone()) },
        None => ChecksumEntry::of_blocks(checksum),
    });
    let mut headers = metadata_headers(&options, entry.as_ref())?;
    let keeps_names = keeps_names(&source, from, &options, attempt).await?;
    if keeps_names {
        // Azure copies the source's metadata if the request has no metadata headers.
        let sent: Vec<_> = headers.keys().filter(|name| name.as_str().starts_with(META)).cloned().collect();
        for name in sent {
            headers.remove(name);
        }
        options.token = from.object.token.clone();
    }
    name_source(&source, &from.key, &mut headers).await?;
    set(&mut headers, "x-ms-requires-sync", Some("true"))?;
    set(&mut headers, "x-ms-source-if-match", Some(tag))?;
    let request = AzureRequest::new(Method::PUT, azure.container.url.blob(key, &[])?, attempt).of_much_work();
    let answer = shared.exchange(AzureRequest { headers, ..request }).await?;
    if !answer.response.status().is_success() {
        let fault = shared.refused(answer).await;
        // Azurite does not tell a condition on the source from one on the target, which has none here.
        let is_source = fault.kind == FaultKind::Exists
            && fault.code == "ConditionNotMet"
            && !options.create_only
            && options.replaces.is_none();
        let kind = if is_source { FaultKind::NotFound } else { fault.kind };
        return Err(gone(Fault { kind, ..fault }));
    }
    let headers = answer.response.headers().clone();
    let body = read(answer.response, LONGEST_REFUSAL).await?;
    super::fault::no_error(&headers, &body)?;
    copied(azure, from, key, &headers, &options, attempt).await
}

/// Whether the copy must have its source's metadata as the service copies it: with names that have, or may have, capital
/// letters, which no header of ours has. Such a copy has the token of its source.
async fn keeps_names(
    source: &AzureContainer,
    from: &CopySource,
    options: &WriteOptions,
    attempt: Attempt,
) -> Result<bool, Fault> {
    let metadata = &from.object.attributes.metadata;
    if metadata.is_empty() || options.attributes.metadata != *metadata {
        return Ok(false);
    }
    match has_capitals(source, &from.key, attempt).await {
        // Credentials that may not list do not stop the copy. Where the names are not known they are kept as they are.
        Err(fault) if !fault.kind.is_retriable() => {
            tracing::debug!(blob = from.key, %fault, "whether its metadata has capital letters is not known");
            Ok(true)
        }
        has_capitals => has_capitals,
    }
}

fn unread_tags(fault: Fault) -> Fault {
    if fault.kind != FaultKind::Denied {
        return gone(fault);
    }
    let message = format!(
        "the blob has tags, which the copy would lose, because the credentials may not read them: allow it \
         (permission `t`), or give the copy tags of its own: {}",
        fault.message
    );
    Fault { message, ..fault }
}

/// Names the source, and lets the service read it: that takes a shared access signature or a token, also within one
/// account ("Copy Blob From URL").
async fn name_source(source: &AzureContainer, key: &str, headers: &mut HeaderMap) -> Result<(), Fault> {
    let keyring = &source.shared.keyring;
    let mut url = source.url.blob(key, &[])?;
    match keyring.key() {
        Some(_) => url = source.presigned(PresignedRequest::Get, key, GRANT).await?,
        None => keyring.sign_source(&mut url, headers).await?,
    }
    // The URL has a signature in it.
    let mut url = text(url)?;
    url.set_sensitive(true);
    headers.insert("x-ms-copy-source", url);
    Ok(())
}

/// The copy that the answer's headers describe.
async fn copied(
    azure: &Azure,
    from: &CopySource,
    key: &str,
    headers: &HeaderMap,
    options: &WriteOptions,
    attempt: Attempt,
) -> Result<Copied, Fault> {
    let status = headers.get("x-ms-copy-status").and_then(|value| value.to_str().ok()).map(str::trim);
    if status != Some("success") {
        return Err(not_a_store("word that the copy is whole", headers, b""));
    }
    let tag = proof::written(headers, b"")?.to_owned();
    let copy = Object {
        size: from.object.size,
        token: options.token.clone(),
        attributes: options.attributes.clone(),
        // The service's own; what the metadata has is what this request wrote.
        crc64nvme: told(headers, from.object.size).map(|checksum| checksum.base64()),
        ..from_headers(key, headers)
    };
    // The size is the store's word.
    let size = match azure.head(key, attempt).await {
        Ok(there) if there.etag.as_deref() == Some(&tag) => there.size,
        _ => copy.size,
    };
    Ok(Copied::Whole(Box::new(Object { size, ..copy })))
}
