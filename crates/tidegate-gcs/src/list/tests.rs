use super::*;
use tidegate_core::backend::FaultKind;

fn listed(body: &str) -> Result<(Vec<Entry>, Option<String>), Fault> {
    let (entries, next) = read(&HeaderMap::new(), body.as_bytes())?;
    let next = match next {
        PagePosition::At(token) => Some(token),
        PagePosition::End => None,
    };
    Ok((entries.into(), next))
}

/// A page with these fields.
fn page(fields: &str) -> String {
    format!(r#"{{"kind":"storage#objects",{fields}}}"#)
}

fn object(item: &str) -> Object {
    match listed(&page(&format!(r#""items":[{item}]"#))).unwrap().0.remove(0) {
        Entry::Object(object) => object,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_listing_of_nothing_may_leave_everything_out() {
    for inside in [r#""x":1"#, r#""items":[]"#, r#""items":null,"prefixes":null,"nextPageToken":null"#] {
        assert_eq!(listed(&page(inside)).unwrap(), (Vec::new(), None), "{inside}");
    }
    assert_eq!(listed(r#" {"kind": "storage#objects"} "#).unwrap(), (Vec::new(), None));
    assert_eq!(listed(&page(r#""nextPageToken":"t""#)).unwrap().1.as_deref(), Some("t"));
}

#[test]
fn what_is_no_listing_is_shown() {
    for body in [
        "",
        "[]",
        "null",
        "<html><body>Please log in</body></html>",
        "OK",
        r#"{"message":"hello"}"#,
        "{}",
        r#"{"items":[]}"#,
        r#"{"kind":null,"items":[{"name":"a"}]}"#,
        r#"{"nextPageToken":"t"}"#,
        r#"{"kind":"storage#buckets","items":[]}"#,
        r#"{"kind":"storage#objects","items":{}}"#,
        r#"{"kind":"storage#objects","items":[{}]}"#,
        r#"{"kind":"storage#objects","items":[{"name":"a"}],"items":1}"#,
        r#"{"kind":"storage#objects","items":[{"name":"a"}]} and more"#,
    ] {
        let fault = listed(body).unwrap_err();
        assert_eq!(fault.kind, FaultKind::NotAStore, "{body}: {}", fault.message);
        let begin = body.get(..12).unwrap_or(body);
        assert!(fault.message.contains(begin), "{}", fault.message);
    }
}

#[test]
fn an_error_with_a_status_of_success_is_that_error() {
    for (body, kind) in [
        (r#"{"error":{"code":503,"message":"backend"}}"#, FaultKind::Throttled),
        (
            r#"{"error":{"code":429,"message":"x","errors":[{"reason":"rateLimitExceeded"}]}}"#,
            FaultKind::Throttled,
        ),
        (r#"{"error":{"code":404,"message":"The specified bucket does not exist."}}"#, FaultKind::NoBucket),
        (r#"{"error":{"code":403,"message":"no"}}"#, FaultKind::Denied),
        (r#"{"error":"invalid_grant"}"#, FaultKind::Transient),
        (r#"{"kind":"storage#objects","error":{"code":500}}"#, FaultKind::Transient),
        ("<?xml version='1.0'?><Error><Code>SlowDown</Code></Error>", FaultKind::Throttled),
    ] {
        assert_eq!(listed(body).unwrap_err().kind, kind, "{body}");
    }
}

#[test]
fn a_listing_that_is_cut_can_be_asked_for_again() {
    let whole = r#"{"kind":"storage#objects","items":[{"name":"a\u00e9","size":"1"}],"prefixes":["p/"]}"#;
    assert!(listed(whole).is_ok());
    for end in 1..whole.len() {
        assert_eq!(listed(&whole[..end]).unwrap_err().kind, FaultKind::Transient, "{}", &whole[..end]);
    }
}

#[test]
fn fields_are_read_in_every_legal_form() {
    let quoted = object(r#"{"name":"k","size":"5","generation":"7","etag":"CJ+=","crc32c":"AAAAAA=="}"#);
    let plain = object(r#"{"generation":7,"size":5,"name":"k","etag":"CJ+=","crc32c":"AAAAAA==","x":{}}"#);
    assert_eq!(quoted, plain);
    assert_eq!((plain.known_size(), plain.version.as_deref()), (Some(5), Some("7")));
    let largest = object(r#"{"name":"k","size":18446744073709551615}"#);
    assert_eq!(largest.known_size(), Some(u64::MAX));
    let timed = object(r#"{"name":"k","timeCreated":"2026-01-02T05:04:05+02:00"}"#);
    assert!(timed.modified.is_some());
}

#[test]
fn a_size_that_is_left_out_is_not_known() {
    for size in
        ["", r#","size":null"#, r#","size":"""#, r#","size":"-1""#, r#","size":1e40"#, r#","size":"many""#]
    {
        let object = object(&format!(r#"{{"name":"k","etag":"e"{size}}}"#));
        assert_eq!(object.known_size(), None, "{size}");
    }
    assert_eq!(object(r#"{"name":"k","size":"0"}"#).known_size(), Some(0));
    assert_eq!(object(r#"{"name":"k","crc32c":"AAAAAA=="}"#).known_size(), Some(0));
}

#[test]
fn a_page_is_bounded() {
    let many = |entry: &str| page(&format!(r#""items":[{}]"#, vec![entry; 10_001].join(",")));
    let fault = listed(&many(r#"{"name":"k"}"#)).unwrap_err();
    assert_eq!(fault.kind, FaultKind::NotAStore);
    assert!(fault.message.contains("10000 entries"), "{}", fault.message);
    assert!(listed(&many("{}")).is_err());
    let prefixes = page(&format!(r#""prefixes":[{}]"#, vec![r#""p/""#; 10_001].join(",")));
    assert!(listed(&prefixes).unwrap_err().message.contains("10000 entries"));
    let long = page(&format!(r#""items":[{{"name":"{}"}}]"#, "k".repeat(9_000)));
    assert!(listed(&long).unwrap_err().message.contains("8192 bytes"));
    let deep = format!(r#"{{"items":[{{"name":"k","x":{}"#, "[".repeat(100_000));
    assert!(listed(&deep).is_err());
}

/// As the emulators that have no kinds list; whatever else is said without a kind is no listing.
#[test]
fn a_listing_without_a_kind_is_one_if_it_has_entries() {
    let listed = |json: &str| read(&HeaderMap::new(), json.as_bytes()).map(|(entries, _)| entries.len());
    assert_eq!(listed(r#"{"items":[{"name":"a","size":"1"}]}"#).unwrap(), 1);
    assert_eq!(listed(r#"{"prefixes":["a/"]}"#).unwrap(), 1);
    for other in ["{}", r#"{"items":[]}"#, r#"{"kind":"storage#buckets","items":[{"name":"a"}]}"#] {
        assert_eq!(listed(other).unwrap_err().kind, FaultKind::NotAStore, "{other}");
    }
}
