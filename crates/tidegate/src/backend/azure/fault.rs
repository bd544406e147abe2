//! Turns Azure's refusals into faults, by the code in `x-ms-error-code` ("Status and error codes").

use http::{HeaderMap, StatusCode};

use crate::backend::http::{kind_of_status, plain, retry_after};
use crate::backend::{Fault, FaultKind};

/// The fault that an answer describes.
pub(super) fn refusal(status: StatusCode, headers: &HeaderMap, body: &[u8]) -> Fault {
    let code = headers.get("x-ms-error-code").and_then(|code| code.to_str().ok()).unwrap_or_default();
    let kind = match code {
        "BlobNotFound" => FaultKind::NotFound,
        "ContainerNotFound" => FaultKind::NoBucket,
        "ServerBusy" | "OperationTimedOut" => FaultKind::Throttled,
        "BlobAlreadyExists" | "ConditionNotMet" => FaultKind::Exists,
        "Crc64Mismatch" | "Md5Mismatch" => FaultKind::Integrity,
        "InvalidBlockList" => FaultKind::NoSession,
        _ => kind_of_status(status),
    };
    let message =
        plain(body).unwrap_or_else(|| status.canonical_reason().unwrap_or("the store refused").to_owned());
    let named = if code.is_empty() { String::new() } else { format!("{code}, ") };
    Fault::new(kind, format!("{message} ({named}HTTP {})", status.as_u16()))
        .with_retry_after(retry_after(headers))
        .with_answered(!code.is_empty())
}
