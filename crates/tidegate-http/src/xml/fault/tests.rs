use super::*;

fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
    pairs.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).collect()
}

fn said(status: u16, code: &str, message: &str) -> Fault {
    let body = format!("<Error><Code>{code}</Code><Message>{message}</Message></Error>");
    refusal(StatusCode::from_u16(status).unwrap(), &HeaderMap::new(), body.as_bytes(), "us-east-1")
}

fn bare(status: u16, pairs: &[(&'static str, &str)]) -> Fault {
    refusal(StatusCode::from_u16(status).unwrap(), &headers(pairs), b"", "us-east-1")
}

#[test]
fn codes_come_before_status() {
    use FaultKind::*;
    for (status, code, kind) in [
        (404, "NoSuchKey", NotFound),
        (404, "NoSuchBucket", NoBucket),
        (404, "NoSuchUpload", NoSession),
        (412, "PreconditionFailed", Exists),
        (409, "ConditionalRequestConflict", Undone),
        (200, "OperationAborted", Undone),
        (403, "AccessDenied", Denied),
        (403, "InvalidAccessKeyId", Credentials),
        (400, "ExpiredToken", Expired),
        (403, "RequestTimeTooSkewed", Skewed),
        (503, "SlowDown", Throttled),
        (400, "ThrottlingException", Throttled),
        (200, "InternalError", Transient),
        (200, "SomethingNew", Transient),
        (200, "InvalidPart", PartMismatch),
        (400, "RequestTimeout", Transient),
        (400, "BadDigest", Integrity),
        (400, "EntityTooLarge", TooLarge),
        (400, "EntityTooSmall", Invalid),
        (400, "SomethingElse", Invalid),
        (409, "ObjectParentIsFile", Invalid),
        (409, "ExistingObjectIsFile", Invalid),
        (409, "ExistingObjectIsDirectory", Invalid),
        (400, "XMinioParentIsObject", Invalid),
        (409, "XMinioObjectExistsAsDirectory", Invalid),
        (409, "SomethingElse", Undone),
        (507, "XMinioStorageFull", NoSpace),
        (501, "NotImplemented", Unsupported),
    ] {
        assert_eq!(said(status, code, "m").kind, kind, "{status} {code}");
    }
    assert_eq!(said(403, "AccessDenied", "Access Denied.").message, "Access Denied (AccessDenied, HTTP 403)");
}

#[test]
fn without_a_body_the_status_and_headers_tell() {
    assert_eq!(bare(404, &[]).kind, FaultKind::NotFound);
    assert_eq!(bare(403, &[]).message, "Forbidden (HTTP 403)");
    assert_eq!(bare(504, &[]).kind, FaultKind::Transient);
    assert_eq!(bare(400, &[]).message, "the store does not say why (HTTP 400)");
    let line = refusal(StatusCode::BAD_REQUEST, &HeaderMap::new(), b"Speak TLS.\n", "us-east-1");
    assert_eq!(line.message, "Speak TLS (HTTP 400)");
    let away = bare(301, &[("x-amz-bucket-region", "eu-west-1")]);
    assert_eq!(away.kind, FaultKind::Invalid);
    assert_eq!(
        away.message,
        "the bucket is in region `eu-west-1`, not in `us-east-1`: set AWS_REGION=eu-west-1 (HTTP 301)"
    );
    let old = bare(403, &[("date", "Sun, 06 Nov 1994 08:49:37 GMT")]);
    assert_eq!(old.kind, FaultKind::Skewed);
    assert!(old.message.contains("the store's Sun, 06 Nov 1994 08:49:37 GMT: it is"), "{}", old.message);
}

#[test]
fn the_region_is_read_from_the_body_too() {
    let body = b"<Error><Code>AuthorizationHeaderMalformed</Code><Message>m</Message><Region>eu-west-1</Region></Error>";
    let fault = refusal(StatusCode::BAD_REQUEST, &HeaderMap::new(), body, "us-east-1");
    assert!(fault.message.contains("set AWS_REGION=eu-west-1"), "{}", fault.message);
}

#[test]
fn retry_after_is_seconds_or_a_date() {
    assert_eq!(bare(503, &[("retry-after", "7")]).retry_after, Some(Duration::from_secs(7)));
    let past = bare(429, &[("retry-after", "Sun, 06 Nov 1994 08:49:37 GMT")]);
    assert_eq!((past.kind, past.retry_after), (FaultKind::Throttled, Some(Duration::ZERO)));
    assert_eq!(bare(503, &[]).retry_after, None);
}

#[test]
fn clocks_that_are_apart_are_both_told_and_by_how_much() {
    let skewed = |headers: &HeaderMap, time: &str| {
        let body = format!(
            "<Error><Code>RequestTimeTooSkewed</Code><Message>m</Message><ServerTime>{time}</ServerTime></Error>"
        );
        refusal(StatusCode::FORBIDDEN, headers, body.as_bytes(), "us-east-1")
    };
    let now = SystemTime::now();
    let apart = |seconds: u64| Duration::from_secs(seconds) + Duration::from_millis(500);
    for (theirs, expected) in [
        (now + apart(1023), "it is 17 min 3 s behind"),
        (now - apart(7200), "it is 2 h 0 min ahead"),
        (now - apart(3 * 86_400 + 3600), "it is 3 days 1 h ahead"),
    ] {
        let date = httpdate::fmt_http_date(theirs);
        let fault = skewed(&headers(&[("date", &date)]), "");
        let said = &fault.message;
        // The header has no fractions of a second.
        let less = expected.replace("3 s", "2 s");
        assert!(said.contains(expected) || said.contains(&less), "{said}");
        assert!(said.contains(&date) && said.contains("this machine's clock says"), "{said}");
        assert!(!fault.kind.is_retriable());
    }
    // Without the header, the time that the store states in the body.
    let fault = skewed(&HeaderMap::new(), "1994-11-06T08:49:37Z");
    assert!(fault.message.contains("the store's Sun, 06 Nov 1994 08:49:37 GMT"), "{}", fault.message);
    let fault = skewed(&HeaderMap::new(), "");
    assert!(fault.message.contains("too far"), "{}", fault.message);
}

#[test]
fn a_store_that_wants_the_bucket_in_the_host_is_a_matter_of_settings() {
    for (status, code, message) in [
        (403, "SecondLevelDomainForbidden", "The bucket must be addressed using OSS third level domain."),
        (403, "AccessDenied", "Please use virtual hosted style to access."),
        (400, "PathStyleDomainForbidden", "no"),
        (400, "InvalidRequest", "Path-style requests are not allowed"),
    ] {
        let fault = said(status, code, message);
        assert_eq!((fault.kind, &*fault.code), (FaultKind::Invalid, PATH_STYLE_REFUSED), "{code}");
        assert!(fault.message.contains("`--addressing virtual`"), "{fault}");
    }
}
