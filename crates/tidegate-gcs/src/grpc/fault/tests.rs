use std::time::Duration;

use bytes::Bytes;
use prost_types::Any;

use super::*;

fn said(code: Code, message: &str, about: About) -> Fault {
    refusal(Status::new(code, message), about)
}

#[test]
fn what_is_said_becomes_a_kind() {
    use FaultKind::*;
    for (code, message, about, kind, answered) in [
        (Code::Unauthenticated, "no", About::Object, Expired, true),
        (Code::PermissionDenied, "x does not have access", About::Object, Denied, true),
        (Code::NotFound, "No such object: b/k", About::Object, NotFound, true),
        (Code::NotFound, "The specified bucket does not exist.", About::Object, NoBucket, true),
        (Code::NotFound, "gone", About::Bucket, NoBucket, true),
        (Code::NotFound, "No such upload session.", About::Session, NoSession, true),
        (Code::Cancelled, "The upload was cancelled.", About::Session, NoSession, false),
        (Code::Cancelled, "the client went away", About::Session, Transient, false),
        (Code::AlreadyExists, "another request", About::Object, Undone, true),
        (Code::FailedPrecondition, "pre-conditions", About::Object, Exists, true),
        (
            Code::InvalidArgument,
            "Provided CRC32C \"A\" doesn't match calculated CRC32C \"B\".",
            About::Object,
            Integrity,
            true,
        ),
        (Code::DataLoss, "", About::Object, Integrity, true),
        (Code::InvalidArgument, "Invalid argument.", About::Object, Invalid, true),
        (Code::OutOfRange, "behind the end", About::Object, Invalid, true),
        (Code::OutOfRange, "behind the end", About::Session, Transient, true),
        (Code::ResourceExhausted, "slow down", About::Object, Throttled, true),
        (Code::Unavailable, "", About::Object, Throttled, false),
        (Code::Aborted, "superseded", About::Session, Undone, true),
        (Code::Internal, "", About::Object, Transient, false),
        (Code::Unknown, "", About::Object, Transient, false),
        (Code::DeadlineExceeded, "", About::Object, Timeout, false),
        (Code::Unimplemented, "", About::Object, Unsupported, true),
    ] {
        let fault = said(code, message, about);
        assert_eq!((fault.kind, fault.answered), (kind, answered), "{code:?} {message} {about:?}");
    }
    let fault = said(Code::NotFound, "No such object: b/k.", About::Object);
    assert_eq!(fault.message, "No such object: b/k (gRPC NotFound)");
}

#[test]
fn what_is_not_known_to_be_the_stores_own_word_may_have_been_done() {
    for code in [Code::Unavailable, Code::Internal, Code::Unknown, Code::Cancelled, Code::DeadlineExceeded] {
        let fault = said(code, "upstream connect error", About::Object);
        assert!(!fault.answered && fault.is_ambiguous(), "{fault:?}");
    }
    assert!(!said(Code::ResourceExhausted, "", About::Object).is_ambiguous());
}

fn any(name: &str, message: &impl Message) -> Any {
    Any { type_url: format!("type.googleapis.com/google.rpc.{name}"), value: message.encode_to_vec() }
}

#[test]
fn details_are_read() {
    let info = rpc::ErrorInfo { reason: "rateLimitExceeded".into(), ..rpc::ErrorInfo::default() };
    let delay = prost_types::Duration { seconds: 7, nanos: 500_000_000 };
    let retry = rpc::RetryInfo { retry_delay: Some(delay) };
    let with = |code: Code, details: Vec<Any>| {
        let status = rpc::Status { code: code.into(), message: String::new(), details };
        refusal(Status::with_details(code, "", Bytes::from(status.encode_to_vec())), About::Object)
    };
    let both = vec![any("ErrorInfo", &info), any("RetryInfo", &retry)];
    let fault = with(Code::Unavailable, both.clone());
    assert_eq!((fault.kind, fault.retry_after), (FaultKind::Throttled, Some(Duration::from_millis(7500))));
    assert!(fault.answered && !fault.is_ambiguous(), "somebody has explained it");
    assert_eq!(with(Code::PermissionDenied, both).kind, FaultKind::Throttled);
    for reason in
        ["userRateLimitExceeded", "USER_RATE_LIMIT_EXCEEDED", "RATE_LIMIT_EXCEEDED", "QUOTA_EXCEEDED"]
    {
        let info = rpc::ErrorInfo { reason: reason.into(), ..rpc::ErrorInfo::default() };
        let fault = with(Code::PermissionDenied, vec![any("ErrorInfo", &info)]);
        assert_eq!(fault.kind, FaultKind::Throttled, "{reason}");
    }
    let wrong = rpc::RetryInfo { retry_delay: Some(prost_types::Duration { seconds: -7, nanos: 0 }) };
    assert_eq!(with(Code::Unavailable, vec![any("RetryInfo", &wrong)]).retry_after, None);
    let garbage = Status::with_details(Code::Unavailable, "", Bytes::from_static(b"\xff\xff"));
    assert_eq!(refusal(garbage, About::Object).retry_after, None);
}
