//! Copies within one account ("Copy Blob"), of whole blobs.
//!
//! The copy has the content headers of its source: no request changes them on the way, so a copy with others is left to
//! the caller, who can read and write the bytes. Metadata and tags are sent anew.

use http::{HeaderMap, Method};

use super::attributes::{from_headers, metadata_headers};
use super::request::AzureRequest;
use super::{Azure, AzureContainer, container_of, tags};
use crate::backend::copy::gone;
use crate::backend::http::answer::not_a_store;
use crate::backend::http::{LONGEST_REFUSAL, proof, read, set};
use crate::backend::{Attempt, Backend as _, Copied, CopySource, Fault, FaultKind, WriteOptions};
use crate::types::object::{Attributes, Object};

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
    cursor: Option<&str>,
    options: &WriteOptions,
    attempt: Attempt,
) -> Result<Copied, Fault> {
    if let Some(id) = cursor {
        return going_on(azure, from, key, id, options, attempt).await;
    }
    if !keeps_headers(&from.object.attributes, &options.attributes) {
        let message = "Azure Blob Storage copies a blob only with the content type and the other content headers that \
                       it has";
        return Err(Fault::new(FaultKind::Unsupported, message));
    }
    let Some(tag) = from.object.strong_tag() else {
        let message = "without its ETag a blob is not known by the store that is to be copied";
        return Err(Fault::new(FaultKind::Unsupported, message));
    };
    let shared = &azure.container.shared;
    let source = AzureContainer::new(shared, container_of(&from.location)?)?;
    let mut options = options.clone();
    if options.attributes.tags.is_empty() && from.object.tag_count > 0 {
        // A copy has no tags if none are sent.
        options.attributes.tags = tags::tags(&source, &from.key, attempt).await.map_err(gone)?;
    }
    let mut headers = metadata_headers(&options, from.object.crc64nvme.clone())?;
    let mut source_url = source.url.blob(&from.key, &[])?;
    shared.keyring.sign_source(&mut source_url);
    set(&mut headers, "x-ms-copy-source", Some(source_url))?;
    set(&mut headers, "x-ms-source-if-match", Some(tag))?;
    let request = AzureRequest::new(Method::PUT, azure.container.url.blob(key, &[])?, attempt).of_much_work();
    let answer = shared.exchange(AzureRequest { headers, ..request }).await?;
    if !answer.response.status().is_success() {
        let fault = shared.refused(answer).await;
        // Azurite does not tell a condition on the source from one on the target, which has none here.
        let is_source = fault.kind == FaultKind::Exists
            && fault.message.contains("ConditionNotMet")
            && !options.create_only
            && options.replaces.is_none();
        let kind = if is_source { FaultKind::NotFound } else { fault.kind };
        return Err(gone(Fault { kind, ..fault }));
    }
    let headers = answer.response.headers().clone();
    let body = read(answer.response, LONGEST_REFUSAL).await?;
    super::fault::no_error(&headers, &body)?;
    progress(azure, from, key, &headers, &options, attempt).await
}

/// Asks how far a copy has come that the service makes after its answer.
async fn going_on(
    azure: &Azure,
    from: &CopySource,
    key: &str,
    id: &str,
    options: &WriteOptions,
    attempt: Attempt,
) -> Result<Copied, Fault> {
    let request = AzureRequest::new(Method::HEAD, azure.container.url.blob(key, &[])?, attempt);
    let response = proof::object(azure.container.shared.send(request).await?).await?;
    let headers = response.headers();
    if headers.get("x-ms-copy-id").is_none_or(|there| there.as_bytes() != id.as_bytes()) {
        return Err(Fault::new(
            FaultKind::NotAStore,
            "the key has another blob now than the copy that was begun",
        ));
    }
    progress(azure, from, key, headers, options, attempt).await
}

async fn progress(
    azure: &Azure,
    from: &CopySource,
    key: &str,
    headers: &HeaderMap,
    options: &WriteOptions,
    attempt: Attempt,
) -> Result<Copied, Fault> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).map(str::trim);
    match text("x-ms-copy-status") {
        Some("success") => {}
        Some("pending") => {
            let Some(id) = text("x-ms-copy-id") else {
                return Err(not_a_store("the id of a copy", headers, b""));
            };
            let bytes =
                text("x-ms-copy-progress").and_then(|progress| progress.split('/').next()?.parse().ok());
            return Ok(Copied::Going { cursor: id.to_owned(), bytes: bytes.unwrap_or_default() });
        }
        Some(status @ ("failed" | "aborted")) => {
            let why = text("x-ms-copy-status-description").unwrap_or("the store does not say why");
            // The source was replaced meanwhile: "the copy operation fails with 412".
            let kind = if why.starts_with("412") { FaultKind::Replaced } else { FaultKind::Undone };
            return Err(Fault::new(kind, format!("the copy has {status}: {why}")));
        }
        _ => return Err(not_a_store("the status of a copy", headers, b"")),
    }
    let tag = proof::written(headers, b"")?.to_owned();
    let told = Object {
        size: from.object.size,
        token: options.token.clone(),
        attributes: options.attributes.clone(),
        ..from_headers(key, headers)
    };
    // The size is the store's word.
    let there = azure.head(key, attempt).await;
    match there {
        Ok(there) if there.etag.as_deref() == Some(&tag) => {
            Ok(Copied::Whole(Box::new(Object { size: there.size, crc64nvme: there.crc64nvme, ..told })))
        }
        _ => Ok(Copied::Whole(Box::new(told))),
    }
}
