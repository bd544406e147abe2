//! Errors in Google's protocols: a status, a reason and a sentence
//! (`cloud.google.com/storage/docs/json_api/v1/status-codes`).

use std::io;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderValue, Response, StatusCode};
use s3s::{Body, S3Error, S3ErrorCode, StdError};
use serde_json::json;
use tonic::Code;

use super::grpc::code_of;
use crate::catalog::session::SessionFault;
use crate::faults;

/// Why a request is not carried out.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub(crate) struct GcsRefusal {
    pub(crate) status: StatusCode,
    pub(crate) reason: String,
    pub(crate) message: String,
    /// Sent as plain text instead of JSON.
    is_plain: bool,
    pub(super) retry_after: Option<u64>,
    /// The gRPC code, if it differs from the one for the status.
    code: Option<Code>,
}

impl GcsRefusal {
    pub(crate) fn new(status: StatusCode, reason: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            status,
            reason: reason.into(),
            message: message.into(),
            is_plain: false,
            retry_after: None,
            code: None,
        }
    }

    /// The request is invalid.
    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "invalid", message)
    }

    pub(crate) fn required(name: &str) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "required", format!("Required parameter: {name}"))
    }

    pub(crate) fn not_found(message: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, "notFound", message)
    }

    pub(crate) fn no_such_bucket() -> Self {
        Self::not_found("The specified bucket does not exist.")
    }

    pub(crate) fn no_such_object(bucket: &str, key: &str) -> Self {
        Self::not_found(format!("No such object: {bucket}/{key}"))
    }

    pub(crate) fn condition_not_met() -> Self {
        Self::new(
            StatusCode::PRECONDITION_FAILED,
            "conditionNotMet",
            "At least one of the pre-conditions you specified did not hold.",
        )
    }

    /// A chunk begins beyond the persisted bytes. Google answers this in plain text: that is how its Java
    /// client distinguishes it from a 503 that it should retry.
    pub(crate) fn gap(offset: u64, persisted: u64) -> Self {
        let message = format!(
            "Invalid request.  According to the Content-Range header, the upload offset is {offset} byte(s), which exceeds already uploaded size of {persisted} byte(s)."
        );
        let refusal = Self::new(StatusCode::SERVICE_UNAVAILABLE, "backendError", message);
        Self { is_plain: true, code: Some(Code::OutOfRange), ..refusal }
    }

    /// The request's body ended early or was broken off.
    pub(crate) fn broken_body(error: &StdError) -> Self {
        Self::invalid(format!("The request's body broke off: {error}"))
    }

    pub(crate) fn internal(error: impl std::fmt::Display) -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "backendError", error.to_string())
    }

    /// A refusal by a knob.
    pub(crate) fn by_knob(refusal: &faults::InjectedRefusal) -> Self {
        let status = StatusCode::from_u16(refusal.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let message = "Refused by a knob of the development server";
        Self { retry_after: refusal.retry_after, ..Self::new(status, refusal.code.clone(), message) }
    }

    /// The gRPC code.
    pub(crate) fn code(&self) -> Code {
        self.code.unwrap_or_else(|| code_of(self.status))
    }

    pub(crate) fn answer(&self) -> Response<Body> {
        let code = self.status.as_u16();
        let (kind, text) = if self.is_plain {
            ("text/plain; charset=utf-8", self.message.clone())
        } else {
            let error = json!({ "error": {
                "code": code,
                "message": self.message,
                "errors": [{ "message": self.message, "domain": "global", "reason": self.reason }],
            }});
            ("application/json; charset=UTF-8", error.to_string())
        };
        // A 304 has no body.
        let is_silent = self.status == StatusCode::NOT_MODIFIED;
        let mut answer = Response::new(if is_silent { Body::empty() } else { Body::from(Bytes::from(text)) });
        *answer.status_mut() = self.status;
        answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
        if let Some(seconds) = self.retry_after {
            answer.headers_mut().insert(RETRY_AFTER, HeaderValue::from(seconds));
        }
        answer
    }
}

impl From<io::Error> for GcsRefusal {
    fn from(error: io::Error) -> Self {
        Self::internal(error)
    }
}

/// The catalog returns S3 errors.
impl From<S3Error> for GcsRefusal {
    fn from(error: S3Error) -> Self {
        match error.code() {
            S3ErrorCode::NoSuchBucket => Self::no_such_bucket(),
            S3ErrorCode::InvalidBucketName => Self::invalid("Invalid bucket name."),
            S3ErrorCode::NoSuchKey => Self::not_found("The specified object does not exist."),
            S3ErrorCode::PreconditionFailed => Self::condition_not_met(),
            S3ErrorCode::BucketNotEmpty => {
                Self::new(StatusCode::CONFLICT, "conflict", "The bucket you tried to delete is not empty.")
            }
            S3ErrorCode::BucketAlreadyOwnedByYou => Self::new(
                StatusCode::CONFLICT,
                "conflict",
                "Your previous request to create the named bucket succeeded and you already own it.",
            ),
            _ => Self::internal(error),
        }
    }
}

impl From<SessionFault> for GcsRefusal {
    fn from(fault: SessionFault) -> Self {
        match fault {
            SessionFault::Unknown => Self::not_found("No such upload session."),
            SessionFault::Cancelled => Self::new(StatusCode::GONE, "gone", "The upload was cancelled."),
            SessionFault::Finished => Self::invalid("The upload is finished."),
            SessionFault::Superseded => Self {
                code: Some(Code::Aborted),
                ..Self::new(
                    StatusCode::SERVICE_UNAVAILABLE,
                    "backendError",
                    "Another request has gone on with this upload.",
                )
            },
            SessionFault::Store(error) => error.into(),
        }
    }
}
