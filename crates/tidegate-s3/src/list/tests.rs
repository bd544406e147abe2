use super::*;
use tidegate_core::backend::FaultKind;

fn page(body: &str) -> Result<(VecDeque<Entry>, Option<NextPage>), Fault> {
    read(&HeaderMap::new(), body.as_bytes(), "us-east-1")
}

/// What says that no page follows.
const WHOLE: &str = "<IsTruncated>false</IsTruncated>";

/// Reads a last page with `inside` as its content.
fn listed(inside: &str) -> Result<Vec<Entry>, Fault> {
    let (entries, _) = page(&format!("<ListBucketResult>{WHOLE}{inside}</ListBucketResult>"))?;
    Ok(entries.into())
}

fn object(contents: &str) -> Object {
    match listed(&format!("<Contents>{contents}</Contents>")).unwrap().remove(0) {
        Entry::Object(object) => object,
        other => panic!("{other:?}"),
    }
}

fn keys(inside: &str) -> Vec<String> {
    listed(inside).unwrap().iter().map(|entry| entry.key().to_owned()).collect()
}

#[test]
fn a_page_is_read_with_or_without_a_namespace() {
    let body = r#"<?xml version="1.0" encoding="UTF-8"?>
        <ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/">
          <Name>b</Name><Prefix></Prefix><KeyCount>2</KeyCount><MaxKeys>1000</MaxKeys>
          <EncodingType>url</EncodingType><IsTruncated>true</IsTruncated>
          <Contents><Key>a%2Bb+c</Key><LastModified>2026-01-02T03:04:05.678Z</LastModified>
            <ETag>&quot;0f&quot;</ETag><Size>7</Size><Owner><ID>o</ID><Key>no key</Key></Owner>
            <StorageClass>STANDARD</StorageClass></Contents>
          <CommonPrefixes><Prefix>x/</Prefix></CommonPrefixes>
          <Contents><Key>z</Key><Size>0</Size></Contents>
          <NextContinuationToken>t</NextContinuationToken>
        </ListBucketResult>"#;
    for body in [body.to_owned(), body.replace("<", "<s3:").replace("<s3:/", "</s3:").replace("<s3:?", "<?")]
    {
        let (entries, next) = page(&body).unwrap();
        assert_eq!(next, Some(NextPage::Token("t".to_owned())));
        let entries = Vec::from(entries);
        let [Entry::Object(first), Entry::Prefix(prefix), Entry::Object(last)] = &entries[..] else {
            panic!("{entries:?}")
        };
        assert_eq!((first.key.as_str(), first.known_size()), ("a+b c", Some(7)));
        assert_eq!(first.etag.as_deref(), Some("\"0f\""));
        assert!(first.modified.is_some());
        assert_eq!(first.attributes.storage_class.as_deref(), Some("STANDARD"));
        assert_eq!((prefix.as_str(), last.key.as_str(), last.known_size()), ("x/", "z", Some(0)));
    }
}

#[test]
fn an_error_with_a_status_of_success_is_that_error() {
    let error =
        |code| format!("<?xml version='1.0'?><Error><Code>{code}</Code><Message>No.</Message></Error>");
    for (code, kind) in [
        ("SlowDown", FaultKind::Throttled),
        ("AccessDenied", FaultKind::Denied),
        ("NoSuchBucket", FaultKind::NoBucket),
        ("InternalError", FaultKind::Transient),
        ("SomethingElse", FaultKind::Transient),
    ] {
        let fault = page(&error(code)).unwrap_err();
        assert_eq!((fault.kind, fault.answered), (kind, true), "{code}");
        assert!(fault.message.contains(code), "{}", fault.message);
    }
}

#[test]
fn what_is_no_listing_is_shown() {
    for body in [
        "",
        "<html><body><p>Please log in</p></body></html>",
        "<!DOCTYPE html><html/>",
        "{\"errors\":{}}",
        "OK",
        "<ListAllMyBucketsResult/>",
        "<ListBucketResult><a></b></ListBucketResult>",
        "<ListBucketResult>&nbsp;<Contents><Key>&nbsp;</Key></Contents></ListBucketResult>",
        "<ListBucketResult><Contents/></ListBucketResult>",
        "<ListBucketResult><Contents><Key></Key><Size>1</Size></Contents></ListBucketResult>",
        "<ListBucketResult><IsTruncated>false</IsTruncated><CommonPrefixes/></ListBucketResult>",
        "<ListBucketResult><IsTruncated>maybe</IsTruncated></ListBucketResult>",
        "<ListBucketResult><IsTruncated>true</IsTruncated></ListBucketResult>",
    ] {
        let fault = page(body).unwrap_err();
        assert_eq!(fault.kind, FaultKind::NotAStore, "{body}: {}", fault.message);
    }
    let fault = page("<html><body><p>Please log in</p></body></html>").unwrap_err();
    assert!(fault.message.contains("Please log in"), "{}", fault.message);
}

#[test]
fn a_page_of_nothing_is_one() {
    for attributes in ["", " xmlns='x'"] {
        let body = format!(" <ListBucketResult{attributes}>{WHOLE}</ListBucketResult>\n");
        assert_eq!(page(&body).unwrap(), (VecDeque::new(), None));
    }
}

#[test]
fn a_page_that_does_not_say_whether_another_follows_is_no_page() {
    for inside in [
        "",
        "<Contents><Key>k</Key><Size>6</Size></Contents>",
        "<NextContinuationToken>t</NextContinuationToken>",
        "<Marker/><NextMarker>k</NextMarker>",
        "<IsTruncated/>",
        "<IsTruncated> </IsTruncated>",
    ] {
        let fault = page(&format!("<ListBucketResult>{inside}</ListBucketResult>")).unwrap_err();
        assert_eq!(fault.kind, FaultKind::NotAStore, "{inside}");
        assert!(fault.message.contains("it has no <IsTruncated>"), "{}", fault.message);
    }
    assert_eq!(page("<ListBucketResult/>").unwrap_err().kind, FaultKind::NotAStore);
}

#[test]
fn a_page_that_is_cut_can_be_asked_for_again() {
    let whole = "<?xml version=\"1.0\"?><ListBucketResult><IsTruncated>false</IsTruncated><Contents><Key>a&amp;é\
        <![CDATA[x]]></Key><ETag a='b'>&quot;e&quot;</ETag></Contents><!-- c --></ListBucketResult>";
    assert!(page(whole).is_ok());
    for end in 1..whole.len() {
        let fault = read(&HeaderMap::new(), &whole.as_bytes()[..end], "").unwrap_err();
        assert_eq!(fault.kind, FaultKind::Transient, "{end}: {}", fault.message);
    }
}

#[test]
fn what_a_store_leaves_out_is_not_known() {
    let bare = object("<Key>k</Key>");
    assert_eq!((bare.known_size(), &bare.etag, bare.modified), (None, &None, None));
    assert_eq!(bare.attributes.storage_class, None);
    for size in ["", " ", "-1", "1.5", "many", "18446744073709551616"] {
        assert_eq!(object(&format!("<Key>k</Key><Size>{size}</Size>")).known_size(), None, "{size}");
    }
    for (size, known) in [("0", 0), (" 7\n", 7), ("18446744073709551615", u64::MAX)] {
        assert_eq!(object(&format!("<Key>k</Key><Size>{size}</Size>")).known_size(), Some(known));
    }
    assert_eq!(object("<Key>k</Key><ETag/><StorageClass></StorageClass>").etag, None);
    // The fields of one object do not carry over to the next.
    let two =
        listed("<Contents><Key>a</Key><Size>1</Size></Contents><Contents><Key>b</Key></Contents>").unwrap();
    assert!(matches!(&two[1], Entry::Object(object) if object.size_is_unknown), "{two:?}");
}

#[test]
fn tags_are_kept_as_the_store_writes_them() {
    for (written, etag) in [
        ("&quot;x&quot;", "\"x\""),
        ("\"x\"", "\"x\""),
        ("x", "x"),
        ("W/\"x\"", "W/\"x\""),
        ("<![CDATA[\"x\"]]>", "\"x\""),
        (" x\n", "x"),
    ] {
        assert_eq!(
            object(&format!("<Key>k</Key><ETag>{written}</ETag>")).etag.as_deref(),
            Some(etag),
            "{written}"
        );
    }
}

#[test]
fn keys_are_decoded_only_where_the_page_says_so() {
    let key = "<Contents><Key>a+b%2Fc%20d</Key></Contents>";
    assert_eq!(keys(key), ["a+b%2Fc%20d"]);
    assert_eq!(keys(&format!("{key}<EncodingType></EncodingType>")), ["a+b%2Fc%20d"]);
    assert_eq!(keys(&format!("{key}<EncodingType>url</EncodingType>")), ["a b/c d"]);
    let prefix = "<CommonPrefixes><Prefix>a%2Bb/</Prefix></CommonPrefixes>";
    assert_eq!(keys(prefix), ["a%2Bb/"]);
    assert_eq!(keys(&format!("<EncodingType>url</EncodingType>{prefix}")), ["a+b/"]);
}

#[test]
fn keys_are_read_as_xml_writes_them() {
    for (written, key) in [
        ("a&amp;b&lt;c&gt;&apos;&quot;", "a&b<c>'\""),
        ("&#x61;&#98;", "ab"),
        ("<![CDATA[a<b>&amp;]]>", "a<b>&amp;"),
        ("a<![CDATA[&]]>b&amp;", "a&b&"),
        (" a ", " a "),
        ("a<!-- c -->b", "ab"),
        ("dir/", "dir/"),
        ("größe", "größe"),
    ] {
        assert_eq!(keys(&format!("<Contents><Key x='1'>{written}</Key></Contents>")), [key], "{written}");
    }
}

#[test]
fn objects_and_prefixes_are_in_one_order() {
    let inside = "<Contents><Key>a</Key></Contents><Contents><Key>c</Key></Contents>\
        <CommonPrefixes><Prefix>b/</Prefix></CommonPrefixes>";
    assert_eq!(keys(inside), ["a", "b/", "c"]);
}

#[test]
fn a_page_is_bounded() {
    let many = "<Contents><Key>k</Key></Contents>".repeat(10_001);
    let fault = listed(&many).unwrap_err();
    assert_eq!(fault.kind, FaultKind::NotAStore);
    assert!(fault.message.contains("10000 entries"), "{}", fault.message);
    let prefixes = "<CommonPrefixes><Prefix>p/</Prefix></CommonPrefixes>".repeat(10_001);
    assert!(listed(&prefixes).unwrap_err().message.contains("10000 entries"));
    let long = format!("<Contents><Key>{}</Key></Contents>", "k".repeat(9_000));
    assert!(listed(&long).unwrap_err().message.contains("8192 bytes"));
    let pieces = format!("<Contents><Key>{}</Key></Contents>", "<![CDATA[kkk]]>".repeat(9_000));
    assert!(listed(&pieces).unwrap_err().message.contains("8192 bytes"));
    let deep = format!("<a>{}{}</a>", "<a>".repeat(100_000), "</a>".repeat(100_000));
    assert!(listed(&deep).unwrap_err().message.contains("32 deep"));
    // Fields that are not read may be long.
    assert!(listed(&format!("<Name>{}</Name>", "n".repeat(1 << 20))).is_ok());
}

#[test]
fn a_page_of_the_first_version_says_where_the_next_one_begins() {
    let page = |inside: &str| {
        let body =
            format!("<ListBucketResult><Marker/><IsTruncated>true</IsTruncated>{inside}</ListBucketResult>");
        page(&body).map(|(_, next)| next)
    };
    let contents = "<Contents><Key>b</Key></Contents><Contents><Key>a</Key></Contents>";
    let behind = |key: &str| Some(NextPage::Behind(key.to_owned()));
    assert_eq!(page(contents).unwrap(), behind("b"));
    let marker = "<NextMarker>c+d/</NextMarker>";
    assert_eq!(page(&format!("{contents}{marker}")).unwrap(), behind("c+d/"));
    assert_eq!(page(&format!("{marker}<EncodingType>url</EncodingType>")).unwrap(), behind("c d/"));
    assert_eq!(page("").unwrap_err().kind, FaultKind::NotAStore);
}
