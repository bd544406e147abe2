//! Turns a gRPC status into a fault (`google/rpc/code.proto`).

use std::time::Duration;

use googleapis_tonic_google_rpc::google::rpc;
use prost::Message;
use tonic::{Code, Status};

use crate::fault::{About, is_limit};
use tidegate_core::backend::{Fault, FaultKind};

#[cfg(test)]
mod tests;

/// The fault that a status describes.
pub(super) fn refusal(status: Status, about: About) -> Fault {
    let details = Details::of(&status);
    let (code, said) = (status.code(), status.message().trim().trim_end_matches('.'));
    let said = if said.is_empty() { code.description() } else { said };
    let kind = kind(code, &details.reason, said, about);
    let reason = if details.reason.is_empty() { String::new() } else { format!("{}, ", details.reason) };
    let fault = Fault::new(kind, format!("{said} ({reason}gRPC {code:?})"))
        .with_retry_after(details.retry_after)
        .with_answered(details.is_googles || is_a_word(code));
    fault.with_source(status)
}

/// The fault for an answer that cannot be read; the status comes from the decoder, not from the store.
pub(super) fn unreadable(status: Status) -> Fault {
    let kind = match status.code() {
        // Too large, or compressed: a retry gets the same.
        Code::OutOfRange | Code::Unimplemented => FaultKind::Unsupported,
        _ => FaultKind::Transient,
    };
    let message = format!("the store's answer can't be read: {}", status.message());
    Fault::new(kind, message).with_source(status)
}

/// The details of a status (`google/rpc/error_details.proto`).
#[derive(Debug, Default)]
struct Details {
    reason: String,
    retry_after: Option<Duration>,
    /// The status has an `ErrorInfo`, which no proxy adds.
    is_googles: bool,
}

impl Details {
    fn of(status: &Status) -> Self {
        let mut details = Self::default();
        let all = rpc::Status::decode(status.details()).unwrap_or_default().details;
        for detail in all {
            match detail.type_url.rsplit('/').next() {
                Some("google.rpc.ErrorInfo") => {
                    let info = rpc::ErrorInfo::decode(detail.value.as_slice()).unwrap_or_default();
                    (details.reason, details.is_googles) = (info.reason, true);
                }
                Some("google.rpc.RetryInfo") => {
                    let retry = rpc::RetryInfo::decode(detail.value.as_slice()).unwrap_or_default();
                    // Ignore a negative delay.
                    details.retry_after = retry.retry_delay.and_then(|delay| Duration::try_from(delay).ok());
                }
                _ => {}
            }
        }
        details
    }
}

/// Whether only the store itself sends this code. Proxies and load balancers send the other codes on their own,
/// whatever the store would have said.
fn is_a_word(code: Code) -> bool {
    !matches!(
        code,
        Code::Ok
            | Code::Cancelled
            | Code::Unknown
            | Code::DeadlineExceeded
            | Code::Internal
            | Code::Unavailable
    )
}

fn kind(code: Code, reason: &str, message: &str, about: About) -> FaultKind {
    match code {
        Code::Unauthenticated => FaultKind::Expired,
        Code::PermissionDenied if is_limit(reason) => FaultKind::Throttled,
        Code::PermissionDenied => FaultKind::Denied,
        Code::NotFound if message.contains("bucket does not exist") => FaultKind::NoBucket,
        Code::NotFound => match about {
            About::Project => FaultKind::Invalid,
            About::Bucket | About::Parts => FaultKind::NoBucket,
            About::Object => FaultKind::NotFound,
            About::Session => FaultKind::NoSession,
        },
        // Like HTTP's 499. A call cancelled for any other reason says nothing about the session.
        Code::Cancelled if about == About::Session && message.contains("upload was cancelled") => {
            FaultKind::NoSession
        }
        Code::DataLoss => FaultKind::Integrity,
        // "Provided CRC32C … doesn't match calculated CRC32C …".
        Code::InvalidArgument if message.contains("match calculated") => FaultKind::Integrity,
        // The session stands at another offset: a retry asks for it.
        Code::OutOfRange if about == About::Session => FaultKind::Transient,
        Code::InvalidArgument | Code::OutOfRange => FaultKind::Invalid,
        Code::FailedPrecondition => FaultKind::Exists,
        Code::Unimplemented => FaultKind::Unsupported,
        Code::ResourceExhausted | Code::Unavailable => FaultKind::Throttled,
        Code::DeadlineExceeded => FaultKind::Timeout,
        // HTTP's 409: the store refused this request because of another one on the same key.
        Code::Aborted | Code::AlreadyExists => FaultKind::Undone,
        Code::Ok | Code::Cancelled | Code::Unknown | Code::Internal => FaultKind::Transient,
    }
}
