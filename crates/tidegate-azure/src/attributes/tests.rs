use super::*;

fn with(change: impl FnOnce(&mut Attributes)) -> Result<HeaderMap, Fault> {
    let mut options = WriteOptions::default();
    change(&mut options.attributes);
    to_headers(&options, None)
}

#[test]
fn metadata_names_that_azure_cannot_hold_are_refused_by_name() {
    for name in ["my-key", "1st", "a.b", "", "ä", "a b"] {
        let refused =
            with(|attributes| drop(attributes.metadata.insert(name.into(), "v".into()))).unwrap_err();
        assert_eq!(refused.kind, FaultKind::Unsupported, "{name}");
        assert!(refused.message.contains(&format!("`{name}`")), "{refused}");
    }
    for name in [TOKEN, "Tidegate_Writer", CRC64] {
        let refused =
            with(|attributes| drop(attributes.metadata.insert(name.into(), "v".into()))).unwrap_err();
        assert_eq!(refused.kind, FaultKind::Invalid, "{name}");
    }
    for name in ["a", "_a1", "my_key", "Owner"] {
        with(|attributes| drop(attributes.metadata.insert(name.into(), "v".into()))).unwrap();
    }
    assert_eq!(
        with(|attributes| drop(attributes.metadata.insert("a".into(), "ä".into()))).unwrap_err().kind,
        FaultKind::Invalid
    );
}

#[test]
fn what_azure_has_no_field_for_is_refused() {
    for refused in [
        with(|attributes| attributes.expires = Some("Sun, 06 Nov 1994 08:49:37 GMT".into())),
        with(|attributes| attributes.encryption = Some(Encryption::Kms { key_id: None })),
        with(|attributes| drop(attributes.tags.insert("a".into(), "b&c".into()))),
        with(|attributes| drop(attributes.tags.insert("".into(), "b".into()))),
        with(|attributes| attributes.tags = (0..11).map(|tag| (tag.to_string(), "".into())).collect()),
    ] {
        assert_eq!(refused.unwrap_err().kind, FaultKind::Unsupported);
    }
    with(|attributes| attributes.encryption = Some(Encryption::Managed)).unwrap();
}

#[test]
fn tags_are_encoded() {
    let headers = with(|attributes| attributes.tags = [("team 1".into(), "a=b/c+d".into())].into()).unwrap();
    assert_eq!(headers["x-ms-tags"], "team%201=a%3Db%2Fc%2Bd");
    assert!(!with(|_| ()).unwrap().contains_key("x-ms-tags"), "accounts with directories refuse the header");
}

#[test]
fn conditions_name_no_object_or_one() {
    let mut options = WriteOptions { create_only: true, ..WriteOptions::default() };
    assert_eq!(to_headers(&options, None).unwrap()["if-none-match"], "*");
    options.create_only = false;
    options.replaces = Some(Box::new(Object { etag: Some("\"0x1\"".into()), ..Object::default() }));
    assert_eq!(to_headers(&options, None).unwrap()["if-match"], "\"0x1\"");
    options.replaces = Some(Box::default());
    assert_eq!(to_headers(&options, None).unwrap_err().kind, FaultKind::Invalid);
}

#[test]
fn our_own_metadata_is_none_of_the_objects() {
    let headers = |pairs: &[(&'static str, &str)]| {
        HeaderMap::from_iter(
            pairs.iter().map(|(name, value)| (HeaderName::from_static(name), value.parse().unwrap())),
        )
    };
    let object = from_headers(
        "k",
        &headers(&[
            ("etag", "\"0x1\""),
            ("x-ms-meta-tidegate_writer", "t"),
            ("content-length", "7"),
            ("content-md5", "CY9rzUYh03PK3k6DJie09g=="),
            ("x-ms-meta-tidegate_crc64nvme", "AAAAAAAAAAA=:7:CY9rzUYh03PK3k6DJie09g=="),
            ("x-ms-meta-a", "x"),
            ("x-ms-access-tier", "Hot"),
            ("x-ms-access-tier-inferred", "true"),
            ("x-ms-tag-count", "2"),
            ("x-ms-legal-hold", "true"),
        ]),
    );
    assert_eq!((object.token.as_deref(), object.crc64nvme.as_deref()), (Some("t"), Some("AAAAAAAAAAA=")));
    assert_eq!(object.attributes.metadata, [("a".into(), "x".into())].into());
    assert_eq!((object.attributes.storage_class, object.tag_count), (None, 2));
    assert_eq!(object.not_carried, ["legal hold"]);
    let cool = from_headers("k", &headers(&[("x-ms-access-tier", "Cool")]));
    assert_eq!(cool.attributes.storage_class.as_deref(), Some("Cool"));
    for (status, is_whole) in [("success", true), ("pending", false), ("failed", false), ("aborted", false)] {
        let copy =
            from_headers("k", &headers(&[("x-ms-copy-status", status), ("x-ms-meta-tidegate_writer", "t")]));
        assert_eq!(copy.token.is_some(), is_whole, "{status}");
        assert!(copy.attributes.metadata.is_empty());
    }
    assert!(is_directory(&headers(&[("x-ms-resource-type", "directory")])));
    assert!(!is_directory(&headers(&[("x-ms-resource-type", "file")])));
    for (length, is) in [("0", true), ("1", false)] {
        let marked = headers(&[("x-ms-meta-hdi_isfolder", "true"), ("content-length", length)]);
        assert_eq!(is_directory(&marked), is, "{length}");
    }
}
