use super::*;

fn fault(status: u16, code: &str, body: &str) -> Fault {
    let mut headers = HeaderMap::new();
    if !code.is_empty() {
        headers.insert("x-ms-error-code", code.parse().unwrap());
    }
    refusal(StatusCode::from_u16(status).unwrap(), &headers, body.as_bytes())
}

#[test]
fn a_code_says_more_than_its_status() {
    for (status, code, kind) in [
        (404, "BlobNotFound", FaultKind::NotFound),
        (404, "ContainerNotFound", FaultKind::NoBucket),
        (409, "ContainerBeingDeleted", FaultKind::NoBucket),
        (409, "BlobAlreadyExists", FaultKind::Exists),
        (412, "ConditionNotMet", FaultKind::Exists),
        (412, "SourceConditionNotMet", FaultKind::Replaced),
        // Not "another object is there", and not to be tried again.
        (412, "LeaseIdMissing", FaultKind::Denied),
        (409, "LeaseIdMismatchWithBlobOperation", FaultKind::Denied),
        (409, "BlobImmutableDueToPolicy", FaultKind::Denied),
        (409, "BlobArchived", FaultKind::Invalid),
        (409, "SnapshotsPresent", FaultKind::Invalid),
        (409, "PendingCopyOperation", FaultKind::Undone),
        (403, "AccountIsDisabled", FaultKind::Denied),
        (403, "AuthorizationFailure", FaultKind::Denied),
        (403, "AuthorizationPermissionMismatch", FaultKind::Denied),
        (403, "AuthenticationFailed", FaultKind::Credentials),
        (401, "InvalidAuthenticationInfo", FaultKind::Expired),
        (503, "ServerBusy", FaultKind::Throttled),
        (500, "OperationTimedOut", FaultKind::Transient),
        (500, "FeatureNotSupported", FaultKind::Unsupported),
        (400, "Crc64Mismatch", FaultKind::Integrity),
        (400, "InvalidBlockList", FaultKind::PartMismatch),
        (400, "InvalidHeaderValue", FaultKind::Invalid),
        (413, "RequestBodyTooLarge", FaultKind::TooLarge),
        (416, "InvalidRange", FaultKind::Invalid),
        (404, "CannotVerifyCopySource", FaultKind::NotFound),
        (403, "CannotVerifyCopySource", FaultKind::Unsupported),
        // A code that is not known here.
        (409, "SomethingNew", FaultKind::Undone),
        (503, "", FaultKind::Throttled),
    ] {
        let fault = fault(status, code, "");
        assert_eq!((fault.kind, fault.answered), (kind, !code.is_empty()), "{status} {code}: {fault}");
    }
}

#[test]
fn the_document_is_read_where_no_header_has_the_code() {
    let body = "\u{feff}<?xml version=\"1.0\" encoding=\"utf-8\"?><Error><Code>InvalidHeaderValue</Code><Message>The value \
                for one of the HTTP headers is not in the correct format.\nRequestId:1\nTime:2</Message>\
                <HeaderName>x-ms-access-tier</HeaderName><HeaderValue>Warm</HeaderValue></Error>";
    let fault = fault(400, "", body);
    assert_eq!((fault.kind, fault.answered), (FaultKind::Invalid, true));
    let said = "The value for one of the HTTP headers is not in the correct format: header `x-ms-access-tier` \
                (InvalidHeaderValue, HTTP 400)";
    assert_eq!(fault.message, said);
}

#[test]
fn what_a_user_must_know_is_said() {
    for (code, said) in [
        ("BlobArchived", "in the archive tier"),
        ("LeaseIdMissing", "holds a lease"),
        ("BlobImmutableDueToPolicy", "immutability policy"),
        ("InvalidBlobOrBlock", "expire, a week after"),
    ] {
        let fault = fault(409, code, "<Error><Code>x</Code><Message>y</Message></Error>");
        assert!(fault.message.contains(said) && fault.message.contains(code), "{fault}");
    }
    let detail = "<Error><Code>AuthenticationFailed</Code><Message>Server failed.\nRequestId:1</Message>\
                  <AuthenticationErrorDetail>Signature did not match.</AuthenticationErrorDetail></Error>";
    assert!(fault(403, "AuthenticationFailed", detail).message.contains("Signature did not match"));
    let old = "<Error><Code>AuthenticationFailed</Code><AuthenticationErrorDetail>Request date header too old: 'x'\
               </AuthenticationErrorDetail></Error>";
    assert_eq!(fault(403, "AuthenticationFailed", old).kind, FaultKind::Skewed);
}

#[test]
fn a_page_of_a_server_on_the_way_is_no_word_of_an_object() {
    assert_eq!(fault(404, "", "<html>nginx</html>").kind, FaultKind::NotAStore);
    let bare = fault(404, "", "");
    assert_eq!((bare.kind, bare.answered), (FaultKind::NotFound, false));
}

#[test]
fn a_conflict_that_will_not_pass_is_not_tried_again() {
    for (code, kind) in [
        ("CopyAcrossAccountsNotSupported", FaultKind::Invalid),
        ("SnapshotCountExceeded", FaultKind::Invalid),
        ("ResourceTypeMismatch", FaultKind::Invalid),
        ("SnapshotOperationRateExceeded", FaultKind::Throttled),
        ("AccountBeingCreated", FaultKind::Undone),
        ("PendingCopyOperation", FaultKind::Undone),
        ("", FaultKind::Undone),
    ] {
        let body = format!("<Error><Code>{code}</Code><Message>no</Message></Error>");
        assert_eq!(refusal(StatusCode::CONFLICT, &HeaderMap::new(), body.as_bytes()).kind, kind, "{code}");
    }
}

#[test]
fn a_bare_refusal_is_explained_by_nothing() {
    assert_eq!(fault(400, "", "").message, "the store does not say why (HTTP 400)");
    assert_eq!(fault(403, "", "").message, "Forbidden (HTTP 403)");
}
