//! Turns Google's refusals into faults: errors of the JSON API, and errors of the XML API, which uses S3's codes.

use http::{HeaderMap, StatusCode, header};
use serde::de::DeserializeOwned;

use super::payer;
use tidegate_core::backend::{Fault, FaultKind};
use tidegate_http::answer::{BodyKind, JsonError, cut, is_error, not_a_store};
use tidegate_http::xml::fault as xml;
use tidegate_http::{LONGEST_REFUSAL, kind_of_status, plain, proof, retry_after, unexplained};

#[cfg(test)]
mod tests;

/// The subject of a request, so that a 404 says what was not found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum About {
    /// All buckets of a project.
    Project,
    Bucket,
    Object,
    /// A resumable upload.
    Session,
    /// Uploads in parts, which not every emulator has.
    Parts,
}

/// Reads the JSON of a successful answer, which must contain `promised`. Fails with the fault that an error in it
/// describes, with a retriable fault if the document is cut off, and with `NotAStore` for anything else.
pub(super) fn document<T: DeserializeOwned>(
    headers: &HeaderMap,
    body: &[u8],
    about: About,
    promised: &str,
) -> Result<T, Fault> {
    no_error(headers, body, about)?;
    match BodyKind::of(body) {
        BodyKind::Json => serde_json::from_slice(body.trim_ascii()).map_err(|error| match error.is_eof() {
            true => cut(promised).with_source(error),
            false => {
                let mut fault = not_a_store(promised, headers, body);
                fault.message = format!("{} ({error})", fault.message);
                fault.with_source(error)
            }
        }),
        BodyKind::Cut => Err(cut(promised)),
        _ => Err(not_a_store(promised, headers, body)),
    }
}

/// Fails if the body of a successful answer is an error document.
pub(super) fn no_error(headers: &HeaderMap, body: &[u8], about: About) -> Result<(), Fault> {
    if is_error(body) { Err(refusal(StatusCode::OK, headers, body, about)) } else { Ok(()) }
}

/// The fault that an answer describes. If the answer's status is success, the code in the error document replaces it.
pub(super) fn refusal(status: StatusCode, headers: &HeaderMap, body: &[u8], about: About) -> Fault {
    let body = body.get(..LONGEST_REFUSAL).unwrap_or(body);
    if matches!(BodyKind::of(body), BodyKind::Xml(root) if !root.eq_ignore_ascii_case("html")) {
        let fault = xml::refusal(status, headers, body, "");
        let message = format!("{}{}", fault.message, payer::remedy(&fault.message));
        return Fault { message, ..fault };
    }
    if status == StatusCode::NOT_FOUND && proof::is_page(headers, body) && !proof::is_stores(headers) {
        // A web page without any header of a store does not prove that the object is missing.
        return not_a_store("word of an object", headers, body);
    }
    // Read the error document of the JSON API (`cloud.google.com/storage/docs/json_api/v1/status-codes`).
    let said = JsonError::of(body).unwrap_or_default();
    let status = said.status.filter(|_| status.is_success()).unwrap_or(status);
    let reason = said.word.as_str();
    if let Some(id) = headers.get("x-guploader-uploadid").and_then(|id| id.to_str().ok()) {
        tracing::debug!(request_id = id, %status, reason, "refused");
    }
    let location = headers.get(header::LOCATION).and_then(|location| location.to_str().ok());
    if let Some(location) = location.filter(|_| status.is_redirection()) {
        // Without the query: a session's query is all that is needed to append to it.
        let location = location.split('?').next().unwrap_or_default();
        let message = format!("the store sends requests on to {location} (HTTP {})", status.as_u16());
        return Fault::new(FaultKind::Invalid, message);
    }
    let message = Some(said.message.trim().trim_end_matches('.').to_owned())
        .filter(|message| !message.is_empty())
        .or_else(|| plain(body))
        .unwrap_or_else(|| unexplained(status).to_owned());
    let kind = kind(status, reason, &message, about);
    let remedy = payer::remedy(&message);
    let reason = if reason.is_empty() { String::new() } else { format!("{reason}, ") };
    Fault::new(kind, format!("{message} ({reason}HTTP {}){remedy}", status.as_u16()))
        .with_retry_after(retry_after(headers))
        .with_answered(!reason.is_empty())
}

/// Whether a reason means too many requests; each API spells it differently.
pub(super) fn is_limit(reason: &str) -> bool {
    let reason = reason.replace('_', "").to_ascii_lowercase();
    matches!(reason.as_str(), "ratelimitexceeded" | "userratelimitexceeded" | "quotaexceeded")
}

fn kind(status: StatusCode, reason: &str, message: &str, about: About) -> FaultKind {
    match (status.as_u16(), reason) {
        // A new token may help: the keyring decides, and sets the final kind.
        (401, _) => FaultKind::Expired,
        (403, reason) if is_limit(reason) => FaultKind::Throttled,
        (404, _) if message.contains("bucket does not exist") => FaultKind::NoBucket,
        // Google itself answers this request in XML. Emulators without uploads in parts answer in their own ways:
        // fake-gcs-server with a 400 or, by its settings, a 404; Google's storage-testbench with a 501.
        (404 | 405 | 501, _) if about == About::Parts => FaultKind::Unsupported,
        (400, _) if about == About::Parts && message.contains("uploadType") => FaultKind::Unsupported,
        (404, _) => match about {
            About::Project => FaultKind::Invalid,
            About::Bucket | About::Parts => FaultKind::NoBucket,
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
