//! Turns Azure's refusals into faults, by the code in `x-ms-error-code`, which the error document has as well ("Blob
//! Storage error codes", "Status and error codes").

use std::time::SystemTime;

use http::{HeaderMap, StatusCode, header};
use serde::Deserialize;

use tidegate_core::backend::{Fault, FaultKind};
use tidegate_core::types::date::http_date;
use tidegate_http::answer::{BodyKind, JsonError, is_error, is_xml_error, not_a_store};
use tidegate_http::xml::messages;
use tidegate_http::{LONGEST_REFUSAL, kind_of_status, plain, proof, retry_after, unexplained};

#[cfg(test)]
mod tests;

/// The header of the version of the API.
pub(super) const VERSION: &str = "x-ms-version";

/// An error document.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct AzureError {
    code: String,
    message: String,
    /// Why a signature is refused.
    authentication_error_detail: String,
    header_name: String,
    query_parameter_name: String,
    reason: String,
}

/// The store's code for a refusal, if the headers have it.
pub(super) fn code_of(headers: &HeaderMap) -> Option<&str> {
    headers.get("x-ms-error-code").and_then(|code| code.to_str().ok()).map(str::trim)
}

/// Fails if the body of a successful answer is an error document.
pub(super) fn no_error(headers: &HeaderMap, body: &[u8]) -> Result<(), Fault> {
    if is_error(body) { Err(refusal(StatusCode::OK, headers, body)) } else { Ok(()) }
}

/// The fault that an answer describes. The answer to a HEAD has no body.
pub(super) fn refusal(status: StatusCode, headers: &HeaderMap, body: &[u8]) -> Fault {
    let body = body.get(..LONGEST_REFUSAL).unwrap_or(body);
    if status == StatusCode::NOT_FOUND && proof::is_page(headers, body) && !proof::is_stores(headers) {
        // A web page without any header of a store does not prove that the object is missing.
        return not_a_store("word of an object", headers, body);
    }
    let (mut said, mut own) = (AzureError::default(), None);
    match BodyKind::of(body) {
        BodyKind::Xml(root) if is_xml_error(&root) => {
            said = messages::read(body).ok().flatten().unwrap_or_default();
        }
        BodyKind::Json => {
            let JsonError { status, word, message } = JsonError::of(body).unwrap_or_default();
            (said.code, said.message, own) = (word, message, status);
        }
        _ => {}
    }
    if let Some(code) = code_of(headers).filter(|code| !code.is_empty()) {
        code.clone_into(&mut said.code);
    }
    let status = own.filter(|_| status.is_success()).unwrap_or(status);
    if let Some(id) = headers.get("x-ms-request-id").and_then(|id| id.to_str().ok()) {
        tracing::debug!(request_id = id, %status, code = said.code, "refused");
    }
    let (kind, message) = match skewed(headers, &said) {
        Some(message) => (FaultKind::Skewed, message),
        None => {
            let kind = kind_of_code(status, &said.code).unwrap_or_else(|| kind_of_status(status));
            let clause = clause(&said).or_else(|| plain(body));
            (kind, clause.unwrap_or_else(|| unexplained(status).to_owned()))
        }
    };
    let code = if said.code.is_empty() { String::new() } else { format!("{}, ", said.code) };
    let is_answered = !said.code.is_empty() || (status == StatusCode::NOT_FOUND && proof::is_stores(headers));
    Fault::new(kind, format!("{message} ({code}HTTP {})", status.as_u16()))
        .with_retry_after(retry_after(headers))
        .with_answered(is_answered)
        .with_code(said.code)
}

/// The fault of a write to a key. A blob in the archive tier that is there cannot be replaced.
pub(super) fn of_write(fault: Fault) -> Fault {
    if !matches!(fault.code.as_str(), "BlobArchived" | "BlobBeingRehydrated") {
        return fault;
    }
    let message = format!(
        "the blob that is there is in the archive tier, and cannot be replaced: remove it first, or move it to another \
         tier ({})",
        fault.code
    );
    Fault { message, ..fault }
}

/// What a code means, or the store's own words.
fn clause(said: &AzureError) -> Option<String> {
    let named = match (&*said.header_name, &*said.query_parameter_name) {
        ("", "") if said.message.to_ascii_lowercase().contains("api version") => {
            format!(": header `{VERSION}`")
        }
        ("", "") => String::new(),
        ("", name) => format!(": query parameter `{name}`"),
        (name, _) => format!(": header `{name}`"),
    };
    let ours = match &*said.code {
        "BlobArchived" | "BlobBeingRehydrated" => {
            "the blob is in the archive tier, and can be read only after it was moved to another tier".to_owned()
        }
        code if code.starts_with("Lease") => {
            "another program holds a lease on the blob or the container, so that nobody else changes it".to_owned()
        }
        "BlobImmutableDueToPolicy" | "BlobImmutableDueToLegalHold" => {
            "an immutability policy or a legal hold protects the blob".to_owned()
        }
        "ContainerBeingDeleted" => "the container is being deleted".to_owned(),
        "ContainerNotFound" => "there is no such container".to_owned(),
        "AccountIsDisabled" => "the storage account is disabled".to_owned(),
        "InvalidBlobOrBlock" => "the blob has uncommitted blocks of another program, whose ids have another length, so \
                                 that Azure takes none of ours: let that program finish, or wait until its blocks \
                                 expire, a week after they were sent"
            .to_owned(),
        "InvalidBlobType" => "the key has a page blob or an append blob, which only its own kind replaces: remove it \
                              first"
            .to_owned(),
        "SnapshotsPresent" => "the blob has snapshots, and Azure removes it only together with them: remove the \
                               snapshots first, if nobody needs them (`az storage blob delete --delete-snapshots only`)"
            .to_owned(),
        "PublicAccessNotPermitted" | "NoAuthenticationInformation" => {
            "the account refuses anonymous requests".to_owned()
        }
        _ => {
            let line = said.message.lines().next().unwrap_or_default().trim().trim_end_matches('.');
            let why = [&said.authentication_error_detail, &said.reason];
            let why = why.into_iter().find(|why| !why.is_empty());
            let why = why.map_or_else(String::new, |why| format!(": {}", why.trim().trim_end_matches('.')));
            if line.is_empty() { return None } else { format!("{line}{named}{why}") }
        }
    };
    Some(ours)
}

/// The message where the clocks differ too much: a request is refused 15 minutes after its date ("Authorize with
/// Shared Key").
fn skewed(headers: &HeaderMap, said: &AzureError) -> Option<String> {
    let is_old =
        said.code == "AuthenticationFailed" && said.authentication_error_detail.contains("date header");
    if !is_old {
        return None;
    }
    let theirs = headers.get(header::DATE).and_then(|date| date.to_str().ok()).unwrap_or("another time");
    let ours = http_date(SystemTime::now());
    Some(format!("this machine's clock says {ours}, the store's {theirs}"))
}

fn kind_of_code(status: StatusCode, code: &str) -> Option<FaultKind> {
    Some(match code {
        "BlobNotFound" | "ResourceNotFound" | "PathNotFound" => FaultKind::NotFound,
        "ContainerNotFound" | "ContainerBeingDeleted" | "ContainerDisabled" => FaultKind::NoBucket,
        "BlobAlreadyExists"
        | "ContainerAlreadyExists"
        | "ConditionNotMet"
        | "TargetConditionNotMet"
        | "UnmodifiedSince" => FaultKind::Exists,
        "SourceConditionNotMet" => FaultKind::Replaced,
        "ServerBusy" => FaultKind::Throttled,
        // "The operation may or may not have succeeded on the server side".
        "OperationTimedOut" | "InternalError" => FaultKind::Transient,
        "Crc64Mismatch" | "Md5Mismatch" => FaultKind::Integrity,
        "InvalidBlockList" => FaultKind::PartMismatch,
        "BlockListTooLong" | "BlockCountExceedsLimit" | "RequestBodyTooLarge" => FaultKind::TooLarge,
        // What a copy's source needs is another set of credentials: the bytes can be read and written instead.
        "CannotVerifyCopySource" if status == StatusCode::NOT_FOUND => FaultKind::NotFound,
        "CannotVerifyCopySource" => FaultKind::Unsupported,
        // This request did nothing, because of another one on the same blob.
        "PendingCopyOperation" | "SystemInUse" | "ContainerOperationInProgress" => FaultKind::Undone,
        // A new token may help: the keyring decides, and sets the final kind.
        "InvalidAuthenticationInfo" => FaultKind::Expired,
        "AuthenticationFailed" | "NoAuthenticationInformation" => FaultKind::Credentials,
        "AccountIsDisabled" | "PublicAccessNotPermitted" | "KeyBasedAuthenticationNotPermitted" => {
            FaultKind::Denied
        }
        "BlobImmutableDueToPolicy" | "BlobImmutableDueToLegalHold" => FaultKind::Denied,
        "InsufficientAccountPermissions" => FaultKind::Denied,
        "FeatureNotSupported"
        | "FeatureNotYetSupportedForHierarchicalNamespaceAccounts"
        | "BlobTypeNotSupported"
        | "UnsupportedHeader"
        | "UnsupportedHttpVerb" => FaultKind::Unsupported,
        "BlobArchived"
        | "BlobBeingRehydrated"
        | "SnapshotsPresent"
        | "SnapshotCountExceeded"
        | "InvalidBlobType"
        | "ResourceTypeMismatch"
        | "CopyAcrossAccountsNotSupported"
        | "DirectoryIsNotEmpty" => FaultKind::Invalid,
        "SnapshotOperationRateExceeded" => FaultKind::Throttled,
        // Another request was in the way, and will not be.
        "AccountBeingCreated" | "FileLockConflict" | "DeletePending" | "ResourceOperationInProgress" => {
            FaultKind::Undone
        }
        _ if code.starts_with("Lease") || code.starts_with("Authorization") => FaultKind::Denied,
        _ if code.starts_with("Invalid") && status.is_client_error() => FaultKind::Invalid,
        _ => return None,
    })
}
