//! What a refusal of Google's means: of the JSON API, and of the XML API, which has S3's words.

use http::{HeaderMap, StatusCode, header};
use serde::Deserialize;

use crate::backend::http::{kind_of_status, plain, retry_after};
use crate::backend::s3::fault as xml;
use crate::backend::{Fault, FaultKind};

#[cfg(test)]
mod tests;

/// What a request is about, so that it is known what was not found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum About {
    Bucket,
    Object,
    /// A resumable upload.
    Session,
}

/// An error of the JSON API (`cloud.google.com/storage/docs/json_api/v1/status-codes`).
#[derive(Debug, Default, Deserialize)]
struct Answer {
    error: Said,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Said {
    message: String,
    errors: Vec<Detail>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Detail {
    reason: String,
}

/// The fault that an answer tells of.
pub(super) fn refusal(status: StatusCode, headers: &HeaderMap, body: &[u8], about: About) -> Fault {
    if body.trim_ascii_start().starts_with(b"<?xml") || body.trim_ascii_start().starts_with(b"<Error") {
        return xml::refusal(status, headers, body, "");
    }
    let said = serde_json::from_slice::<Answer>(body).unwrap_or_default().error;
    let reason = said.errors.first().map(|detail| detail.reason.as_str()).unwrap_or_default();
    if let Some(id) = headers.get("x-guploader-uploadid").and_then(|id| id.to_str().ok()) {
        tracing::debug!(request_id = id, %status, reason, "refused");
    }
    let location = headers.get(header::LOCATION).and_then(|location| location.to_str().ok());
    if let Some(location) = location.filter(|_| status.is_redirection()) {
        // Not its query: in that of a session stands all that it takes to add to it.
        let location = location.split('?').next().unwrap_or_default();
        let message = format!("the store sends requests on to {location} (HTTP {})", status.as_u16());
        return Fault::new(FaultKind::Invalid, message);
    }
    let message = Some(said.message.trim().trim_end_matches('.').to_owned())
        .filter(|message| !message.is_empty())
        .or_else(|| plain(body))
        .unwrap_or_else(|| status.canonical_reason().unwrap_or("the store refused").to_owned());
    let kind = kind(status, reason, &message, about);
    let reason = if reason.is_empty() { String::new() } else { format!("{reason}, ") };
    Fault::new(kind, format!("{message} ({reason}HTTP {})", status.as_u16()))
        .with_retry_after(retry_after(headers))
        .with_answered(!reason.is_empty())
}

/// Whether a reason says that there were too many requests: each API has its own way to write them.
pub(super) fn is_limit(reason: &str) -> bool {
    let reason = reason.replace('_', "").to_ascii_lowercase();
    matches!(reason.as_str(), "ratelimitexceeded" | "userratelimitexceeded" | "quotaexceeded")
}

fn kind(status: StatusCode, reason: &str, message: &str, about: About) -> FaultKind {
    match (status.as_u16(), reason) {
        // Anybody's token: it is fetched anew, and then the fault is of another kind.
        (401, _) => FaultKind::Expired,
        (403, reason) if is_limit(reason) => FaultKind::Throttled,
        (404, _) if message.contains("bucket does not exist") => FaultKind::NoBucket,
        (404, _) => match about {
            About::Bucket => FaultKind::NoBucket,
            About::Object => FaultKind::NotFound,
            About::Session => FaultKind::NoSession,
        },
        // 499: "the resumable upload was cancelled at the client's request prior to completion".
        (410 | 499, _) if about == About::Session => FaultKind::NoSession,
        // "Provided CRC32C … doesn't match calculated CRC32C …".
        (400, _) if message.contains("match calculated") => FaultKind::Integrity,
        _ => kind_of_status(status),
    }
}
