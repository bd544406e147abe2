//! The details of a gRPC error (AIP-193): its reason and its retry delay. An error without a reason gets no
//! `ErrorInfo`, as if a proxy had answered.

use googleapis_tonic_google_rpc::google::rpc;
use prost::Message;
use prost_types::Any;
use tonic::Status;

use crate::gcs::refusal::GcsRefusal;

pub(super) fn with_details(refusal: GcsRefusal) -> Status {
    let code = refusal.code();
    let mut details = Vec::new();
    if !refusal.reason.is_empty() {
        let info = rpc::ErrorInfo {
            reason: refusal.reason.clone(),
            domain: "storage.googleapis.com".to_owned(),
            ..rpc::ErrorInfo::default()
        };
        details.push(any("ErrorInfo", &info));
    }
    if let Some(seconds) = refusal.retry_after {
        let delay = prost_types::Duration { seconds: i64::try_from(seconds).unwrap_or(i64::MAX), nanos: 0 };
        details.push(any("RetryInfo", &rpc::RetryInfo { retry_delay: Some(delay) }));
    }
    if details.is_empty() {
        return Status::new(code, refusal.message);
    }
    let status = rpc::Status { code: code.into(), message: refusal.message.clone(), details };
    Status::with_details(code, refusal.message, status.encode_to_vec().into())
}

fn any(name: &str, message: &impl Message) -> Any {
    Any { type_url: format!("type.googleapis.com/google.rpc.{name}"), value: message.encode_to_vec() }
}
