use std::time::Duration;

use super::*;

fn said(status: u16, reason: &str, message: &str, about: About) -> Fault {
    let body = serde_json::json!({ "error": {
        "code": status,
        "message": message,
        "errors": [{ "message": message, "domain": "global", "reason": reason }],
    }});
    let status = StatusCode::from_u16(status).unwrap();
    refusal(status, &HeaderMap::new(), body.to_string().as_bytes(), about)
}

#[test]
fn what_is_said_becomes_a_kind() {
    use FaultKind::*;
    for (status, reason, message, about, kind) in [
        (401, "authError", "Invalid Credentials", About::Object, Expired),
        (403, "forbidden", "x does not have storage.objects.get access", About::Object, Denied),
        (403, "rateLimitExceeded", "slow down", About::Object, Throttled),
        (404, "notFound", "No such object: b/k", About::Object, NotFound),
        (404, "notFound", "The specified bucket does not exist.", About::Object, NoBucket),
        (404, "notFound", "Not Found", About::Bucket, NoBucket),
        (404, "notFound", "No such upload session.", About::Session, NoSession),
        (410, "gone", "The upload was cancelled.", About::Session, NoSession),
        (499, "clientClosedRequest", "The upload was cancelled.", About::Session, NoSession),
        (408, "timeout", "late", About::Object, Transient),
        (409, "conflict", "another request", About::Object, Undone),
        (412, "conditionNotMet", "At least one of the pre-conditions", About::Object, Exists),
        (
            400,
            "invalid",
            "Provided CRC32C \"A\" doesn't match calculated CRC32C \"B\".",
            About::Object,
            Integrity,
        ),
        (400, "invalid", "Invalid argument.", About::Object, Invalid),
        (400, "invalid", "invalid uploadType", About::Object, Invalid),
        (400, "invalid", "invalid uploadType", About::Parts, Unsupported),
        (400, "invalid", "Invalid argument.", About::Parts, Invalid),
        (404, "notFound", "Not Found", About::Parts, Unsupported),
        (404, "notFound", "The specified bucket does not exist.", About::Parts, NoBucket),
        (405, "methodNotAllowed", "", About::Parts, Unsupported),
        (501, "notImplemented", "Not implemented", About::Parts, Unsupported),
        (413, "uploadTooLarge", "too large", About::Object, TooLarge),
        (429, "rateLimitExceeded", "slow down", About::Object, Throttled),
        (500, "backendError", "Internal", About::Object, Transient),
        (502, "badGateway", "", About::Object, Transient),
        (503, "backendError", "Unavailable", About::Session, Throttled),
        (504, "gatewayTimeout", "", About::Object, Transient),
    ] {
        let fault = said(status, reason, message, about);
        assert_eq!(fault.kind, kind, "{status} {reason} {about:?}");
        assert!(fault.answered);
    }
}

#[test]
fn what_google_says_of_parts_is_no_lack_of_them() {
    let of_parts = |status: u16, code: &str, message: &str| {
        let body =
            format!("<?xml version='1.0'?><Error><Code>{code}</Code><Message>{message}</Message></Error>");
        let status = StatusCode::from_u16(status).unwrap();
        refusal(status, &HeaderMap::new(), body.as_bytes(), About::Parts).kind
    };
    assert_eq!(of_parts(400, "InvalidArgument", "Invalid argument uploadType."), FaultKind::Invalid);
    assert_eq!(of_parts(404, "NoSuchBucket", "The specified bucket does not exist."), FaultKind::NoBucket);
    assert_eq!(of_parts(405, "MethodNotAllowed", "The specified method is not allowed."), FaultKind::Invalid);
}

#[test]
fn a_word_of_the_stores_own_is_told_from_that_of_a_proxy() {
    let text = |status: u16, body: &str| {
        refusal(StatusCode::from_u16(status).unwrap(), &HeaderMap::new(), body.as_bytes(), About::Object)
    };
    let proxy = text(503, "<html><body>busy</body></html>");
    assert!(!proxy.answered && proxy.is_ambiguous(), "{proxy}");
    let gap = text(503, "Invalid request.  According to the Content-Range header, the upload offset is 9.");
    assert!(gap.message.contains("upload offset") && gap.kind == FaultKind::Throttled, "{gap}");
    let listed =
        text(404, "<?xml version='1.0'?><Error><Code>NoSuchUpload</Code><Message>gone</Message></Error>");
    assert!(listed.kind == FaultKind::NoSession && listed.answered, "{listed}");
    assert_eq!(
        said(404, "notFound", "No such object: b/k.", About::Object).message,
        "No such object: b/k (notFound, HTTP 404)"
    );
}

#[test]
fn retry_after_is_heeded() {
    let mut headers = HeaderMap::new();
    headers.insert("retry-after", "7".parse().unwrap());
    let fault = refusal(StatusCode::TOO_MANY_REQUESTS, &headers, b"", About::Object);
    assert_eq!((fault.kind, fault.retry_after), (FaultKind::Throttled, Some(Duration::from_secs(7))));
}

#[test]
fn a_bare_refusal_is_explained_by_nothing() {
    let bare = |status| refusal(status, &HeaderMap::new(), b"", About::Object).message;
    assert_eq!(bare(StatusCode::BAD_REQUEST), "the store does not say why (HTTP 400)");
    assert_eq!(bare(StatusCode::FORBIDDEN), "Forbidden (HTTP 403)");
}

#[test]
fn a_bucket_whose_readers_pay_needs_a_project_and_the_option() {
    let message = "Bucket is a requester pays bucket but no user project provided.";
    let json = said(400, "required", message, About::Object);
    let xml = |code: &str, message: &str| {
        let body =
            format!("<?xml version='1.0'?><Error><Code>{code}</Code><Message>{message}</Message></Error>");
        refusal(StatusCode::BAD_REQUEST, &HeaderMap::new(), body.as_bytes(), About::Parts)
    };
    for fault in [json, xml("UserProjectMissing", message), xml("UserProjectMissing", "Denied.")] {
        assert!(fault.message.contains("the project that pays in GOOGLE_CLOUD_PROJECT"), "{fault}");
        assert!(fault.message.contains("`--request-payer`"), "{fault}");
    }
    assert!(!xml("InvalidArgument", "no").message.contains("GOOGLE_CLOUD_PROJECT"));
}
