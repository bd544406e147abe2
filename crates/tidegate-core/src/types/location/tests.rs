use proptest::prelude::*;

use super::*;

fn parse(text: &str) -> Location {
    text.parse().unwrap_or_else(|error| panic!("{text:?}: {error}"))
}

fn sentence(text: &str) -> String {
    text.parse::<Location>().expect_err("no location").to_string()
}

fn s3(bucket: &str, key: &str) -> Location {
    Location::S3 { profile: None, bucket: bucket.into(), key: key.into() }
}

fn path(path: &str) -> Location {
    Location::Local { path: path.into() }
}

#[test]
fn keys_are_taken_as_they_stand() {
    assert_eq!(parse("s3://bucket"), s3("bucket", ""));
    assert_eq!(parse("s3://bucket/"), s3("bucket", ""));
    assert_eq!(parse("S3://bucket/a/b"), s3("bucket", "a/b"));
    assert_eq!(parse("s3://bucket/a%20b?c#d//e/"), s3("bucket", "a%20b?c#d//e/"));
    assert_eq!(parse("s3://bucket//a"), s3("bucket", "/a"));
    assert_eq!(parse("s3://Old_Bucket.1/ü"), s3("Old_Bucket.1", "ü"));
    let gcs = Location::Gcs { bucket: "bucket".into(), key: "a/b".into() };
    assert_eq!(parse("gs://bucket/a/b"), gcs);
    assert_eq!(parse("GCS://bucket/a/b"), gcs);
    assert_eq!(parse("dev://demo/k"), Location::Dev { bucket: "demo".into(), key: "k".into() });
    assert_eq!(parse("memory://m/k/"), Location::Memory { name: "m".into(), key: "k/".into() });
}

#[test]
fn an_s3_url_may_name_a_profile() {
    let of = |profile: &str| Location::S3 {
        profile: Some(profile.into()),
        bucket: "bucket".into(),
        key: "a@b".into(),
    };
    assert_eq!(parse("s3://backup@bucket/a@b"), of("backup"));
    assert_eq!(parse("s3://me@corp@bucket/a@b"), of("me@corp"));
    let named = parse("s3://backup@bucket/a@b");
    assert_eq!((named.profile(), named.clone().without_profile()), (Some("backup"), s3("bucket", "a@b")));
    assert_eq!(parse("s3://bucket/a@b").profile(), None);
    for wrong in ["s3://@bucket/k", "s3://user:secret@bucket/k", "gs://backup@bucket/k", "s3://a b@bucket/k"]
    {
        assert!(sentence(wrong).contains("is no bucket name"), "{wrong}");
    }
}

#[test]
fn a_url_of_azure_may_name_the_account() {
    let of = |container: &str, key: &str| Location::Azure { container: container.into(), key: key.into() };
    for text in ["az://logs/a%20b", "azure://logs/a%20b", "abfs://logs/a%20b", "ABFSS://logs/a%20b"] {
        assert_eq!(parse(text), of("logs", "a%20b"));
        assert_eq!(parse(text).to_string(), "az://logs/a%20b");
    }
    assert_eq!(parse("az://$web/index.html"), of("$web", "index.html"));
    let canonical = "abfss://logs@acc.dfs.core.windows.net/a b";
    for text in [
        canonical,
        "abfs://logs@acc.dfs.core.windows.net/a b",
        "wasbs://logs@ACC.blob.core.windows.net/a b",
        "wasb://logs@acc.blob.core.windows.net/a b",
        "az://logs@acc.blob.core.windows.net/a b",
        "https://acc.blob.core.windows.net/logs/a%20b",
        "https://acc.dfs.core.windows.net:443/logs/a%20b",
    ] {
        assert_eq!(parse(text), of("logs@acc.dfs.core.windows.net", "a b"), "{text}");
        assert_eq!(parse(text).to_string(), canonical);
        assert_eq!(parse(text).in_store(), Some(("abfss", "logs@acc.dfs.core.windows.net", "a b")));
    }
    for (text, container) in [
        ("https://acc.blob.core.chinacloudapi.cn/logs", "logs@acc.dfs.core.chinacloudapi.cn"),
        ("https://acc.z05.blob.storage.azure.net/logs/", "logs@acc.z05.dfs.storage.azure.net"),
        ("abfss://Sales@onelake.dfs.fabric.microsoft.com", "Sales@onelake.dfs.fabric.microsoft.com"),
    ] {
        assert_eq!(parse(text), of(container, ""));
    }
    let long = format!("az://logs/{}", "ü".repeat(1024));
    assert_eq!(parse(&long).to_string(), long);
    assert!(sentence(&format!("{long}k")).ends_with("it is longer than 1024 characters"));
    // What may be a password is not shown.
    let near = sentence("abfss:/logs@acc.dfs.core.windows.net/k");
    assert!(near.contains("did you mean abfss://…@acc.dfs.core.windows.net/k?"), "{near}");
    // Another host is another program's.
    assert!(matches!(parse("https://example.com/k"), Location::Other { .. }));
}

#[test]
fn an_address_of_azure_with_more_than_a_key_is_refused() {
    let signed = "https://acc.blob.core.windows.net/logs/k?sv=2024-11-04&sr=b&sig=sec%2Fret";
    assert_eq!(
        sentence(signed),
        "\"https://acc.blob.core.windows.net/logs/k?…\": it has a shared access signature, which would show \
         wherever the URL is shown: set AZURE_STORAGE_SAS_TOKEN to the query and AZURE_STORAGE_ACCOUNT to the \
         account, and write the URL without it"
    );
    assert!(sentence("az://logs/k?sv=2024-11-04&sig=sec%2Fret").contains("set AZURE_STORAGE_SAS_TOKEN"));
    for text in [
        "https://acc.blob.core.windows.net/logs/k?snapshot=2026",
        "https://acc.blob.core.windows.net/logs/k#a",
        "https://acc.blob.core.windows.net?comp=list",
    ] {
        assert!(sentence(text).contains("a query or a fragment names no blob"), "{text}");
    }
    assert!(sentence("https://acc.blob.core.windows.net/").ends_with("no container comes after the host"));
    assert!(sentence("https://acc.blob.core.windows.net/logs/%ff").ends_with("it is not UTF-8"));
    for text in ["abfss://logs@localhost/k", "az://logs@acc/k", "wasbs://logs@acc.blob.example.com/k"] {
        assert!(sentence(text).contains("after the @ comes the account's host: write abfss://"), "{text}");
    }
    assert!(sentence("abfss://a@b@acc.dfs.core.windows.net/k").contains("after the @"));
    assert!(sentence("az://a b/k").contains("is no bucket name"));
    assert_eq!(sentence("az:///k"), "\"az:///k\": no container after `az://`: write az://container/key");
}

#[test]
fn what_has_no_scheme_is_a_path() {
    for text in [
        "a",
        "/a/b",
        "./a",
        "../a/",
        "a//b",
        "a b",
        "./s3:/a",
        "./s3://a",
        "/x://y",
        "-",
        "s3",
        "s3/a",
        "a/s3:/b",
        "log-12:30:00.txt",
        "log-12:30/a",
        "12:ab/c",
        "12:100/c",
        "report:2024-01.csv",
        "Re: notes/a",
        "Tom: a.txt",
        "笔记：内容.txt",
        "s3-data//k",
        "s3.d//k",
        "gs/a:b",
        "a b:c",
        " a",
        " a:b/c",
        ":a/b",
    ] {
        assert_eq!(parse(text), path(text));
        assert_eq!(parse(text).to_string(), text);
    }
}

#[test]
fn mistyped_urls_are_refused_with_the_url_that_was_meant() {
    for (text, meant) in [
        ("s3:/b/k", "s3://b/k"),
        ("s3:b/k", "s3://b/k"),
        ("s3:bucket", "s3://bucket"),
        ("s3:", "s3://"),
        ("S3:/b/k", "s3://b/k"),
        ("s3:\\\\b\\k", "s3://b\\k"),
        ("s3a:/b/k", "s3://b/k"),
        ("gs:/b", "gs://b"),
        ("gcs:b", "gs://b"),
        ("az:x", "az://x"),
        ("azure//logs/k", "az://logs/k"),
        ("https:/acc.blob.core.windows.net/logs/k", "https://acc.blob.core.windows.net/logs/k"),
        ("dev:demo/k", "dev://demo/k"),
        ("memory:m/k", "memory://m/k"),
        ("file:/x", "file:///x"),
        ("minio:b/k", "s3://b/k"),
        ("backup:b/k", "s3://b/k"),
        ("host.example:/b/k", "s3://b/k"),
        (" s3://bucket/k", "s3://bucket/k"),
        ("\"s3://bucket/k\"", "s3://bucket/k\""),
        ("“s3://bucket/k", "s3://bucket/k"),
        ("\u{feff}gs://bucket/k", "gs://bucket/k"),
        ("s3//b/k", "s3://b/k"),
        ("gs//b/k", "gs://b/k"),
        ("S3\\\\b\\k", "s3://b\\k"),
        ("s3 //b/k", "s3://b/k"),
        ("s3 ://bkt/k", "s3://bkt/k"),
        ("s3: //bkt/k", "s3://bkt/k"),
        ("s3;//b/k", "s3://b/k"),
        ("s3:;//b/k", "s3://b/k"),
        ("s3：//bkt/k", "s3://bkt/k"),
        ("s3:／／bkt/k", "s3://bkt/k"),
        ("http//h/k", "s3://h/k"),
        ("my_minio:bkt/k", "s3://bkt/k"),
        ("h:bkt/k", "s3://bkt/k"),
        ("a:b", "s3://b"),
        ("backup:bkt", "s3://bkt"),
        ("backup:", "s3://BUCKET/KEY"),
        ("1s://x", "s3://x"),
        ("ü://x", "s3://x"),
        ("user@host:bkt/k", "s3://bkt/k"),
        ("localhost:9000/bkt/k", "s3://bkt/k"),
        ("localhost:9000", "s3://BUCKET/KEY"),
        ("127.0.0.1:9000/bkt/k", "s3://bkt/k"),
        ("127.0.0.1:bkt/k", "s3://bkt/k"),
        ("[::1]:9000/bkt/k", "s3://bkt/k"),
        ("minio.example.com:443/bkt/k", "s3://bkt/k"),
        ("arn:aws:s3:::bkt/k", "s3://bkt/k"),
    ] {
        let error = text.parse::<Location>().expect_err(text);
        let expected = LocationError::NearUrl { location: text.into(), meant: meant.into() };
        assert_eq!(error, expected, "{text}");
        assert!(error.to_string().contains(&format!("did you mean {meant}?")), "{error}");
        // With `./` in front, the text is a local path, and is printed with `./`.
        let written = format!("./{text}");
        assert_eq!(parse(&written), path(&written));
        assert_eq!(path(text).to_string(), written);
    }
}

#[test]
fn a_refusal_has_no_password_in_it() {
    for text in [
        "http://user:sec/ret@h/k",
        "ftp:user:secret@h/k",
        "user:secret@h:bkt",
        "file://user:secret@h/k",
        "user:sec/ret@h/k",
        "s3://user:secret@bucket/k",
        "s3://user:sec/ret@bucket/k",
        "az://user:secret@bucket/k",
    ] {
        let sentence = sentence(text);
        assert!(!sentence.contains("ret@") && sentence.contains('…'), "{sentence}");
    }
}

#[test]
fn file_urls_are_percent_decoded() {
    assert_eq!(parse("file:///a/b%20c%25/"), path("/a/b c%/"));
    assert_eq!(parse("file://localhost/a"), path("/a"));
    assert_eq!(parse("FILE:///a?b#c"), path("/a?b#c"));
    assert_eq!(parse("file:///100%"), path("/100%"));
    let Location::Local { path } = parse("file:///%ff") else { panic!("not local") };
    assert_eq!(path.as_os_str().as_bytes(), b"/\xff");
    assert_eq!(Location::Local { path }.to_string(), "file:///%FF");
}

#[test]
fn an_argument_that_is_not_utf_8_is_a_path() {
    let location = Location::try_from(OsStr::from_bytes(b"a\xff")).expect("a path");
    assert_eq!(location, Location::Local { path: OsStr::from_bytes(b"a\xff").into() });
    assert_eq!(Location::try_from(OsStr::new("s3://bucket/k")), Ok(s3("bucket", "k")));
    // A URL with a key that is not UTF-8 is not a path either.
    for text in [&b"s3://bucket/\xff"[..], b"s3:/bucket/\xff", b"gs:b/\xff"] {
        assert!(Location::try_from(OsStr::from_bytes(text)).is_err(), "{text:?}");
    }
}

#[test]
fn a_trailing_slash_is_kept() {
    for text in ["s3://bucket/a/", "gs://bucket/a/", "memory://m/a/", "dev://demo/a/", "a/", "/"] {
        assert!(parse(text).ends_with_slash(), "{text}");
        assert_eq!(parse(text).to_string(), text);
    }
    for text in ["s3://bucket/a", "s3://bucket", "a", "/a"] {
        assert!(!parse(text).ends_with_slash(), "{text}");
    }
}

#[test]
fn every_refusal_is_a_sentence() {
    let cases = [
        ("", r#""": the location is empty: write s3://bucket/key or a path"#),
        (
            "ftp://host:21/x",
            r#""ftp://host:21/x": unknown scheme `ftp`: the known ones are s3://, gs://, az://, abfss://, dev://, memory:// and file://"#,
        ),
        ("gs:///key", r#""gs:///key": no bucket after `gs://`: write gs://bucket/key"#),
        ("s3://", r#""s3://": no bucket after `s3://`: write s3://bucket/key"#),
        ("s3:///key", r#""s3:///key": no bucket after `s3://`: write s3://bucket/key"#),
        ("dev:///key", r#""dev:///key": no bucket after `dev://`: write dev://bucket/key"#),
        ("memory:///key", r#""memory:///key": no name after `memory://`: write memory://name/key"#),
        (
            "s3://my bucket/k",
            r#""s3://my bucket/k": "my bucket" is no bucket name: it may hold letters, digits, dots, hyphens and underscores"#,
        ),
        ("s3://ab/k", r#""s3://ab/k": "ab" is no bucket name: it must have 3 to 255 characters"#),
        (
            "s3://-abc",
            r#""s3://-abc": "-abc" is no bucket name: it must begin and end with a letter or a digit"#,
        ),
        ("s3://a..b", r#""s3://a..b": "a..b" is no bucket name: it may not hold two dots in a row"#),
        ("s3://bucket/a\0", r#""s3://bucket/a\0": no object has such a key: it holds a NUL"#),
        ("memory://m/\0", r#""memory://m/\0": no object has such a key: it holds a NUL"#),
        ("a\0b", r#""a\0b": no file has such a path: it holds a NUL"#),
        ("file:///a%00", r#""file:///a%00": no file has such a path: it holds a NUL"#),
        (
            "file://",
            r#""file://": no file has such a path: a file URL needs an absolute path, as in file:///path"#,
        ),
        (
            "file://host/a",
            r#""file://host/a": no file has such a path: a file URL names no host: write file:///path, with three slashes"#,
        ),
    ];
    for (text, expected) in cases {
        assert_eq!(sentence(text), expected);
    }
    let long = format!("s3://bucket/{}", "k".repeat(1025));
    assert!(sentence(&long).ends_with("it is longer than 1024 bytes"));
    assert_eq!(parse(&long[..long.len() - 1]), s3("bucket", &"k".repeat(1024)));
}

fn locations() -> impl Strategy<Value = Location> {
    let bucket = "[a-zA-Z0-9][a-zA-Z0-9_-]{1,40}[a-zA-Z0-9]";
    let key = "[^\0]{0,40}";
    prop_oneof![
        (bucket, key).prop_map(|(bucket, key)| Location::S3 { profile: None, bucket, key }),
        ("[a-zA-Z0-9@._+=-]{1,20}", bucket, key)
            .prop_map(|(profile, bucket, key)| { Location::S3 { profile: Some(profile), bucket, key } }),
        (bucket, key).prop_map(|(bucket, key)| Location::Gcs { bucket, key }),
        (bucket, key).prop_map(|(container, key)| Location::Azure { container, key }),
        (bucket, "[a-z0-9]{3,24}", key).prop_map(|(container, account, key)| Location::Azure {
            container: format!("{container}@{account}.dfs.core.windows.net"),
            key
        }),
        (bucket, key).prop_map(|(bucket, key)| Location::Dev { bucket, key }),
        ("[x-z][a-z0-9]{0,5}", bucket, key).prop_map(|(scheme, bucket, key)| Location::Other {
            scheme,
            bucket,
            key
        }),
        ("[^\0/]{1,20}", key).prop_map(|(name, key)| Location::Memory { name, key }),
        prop::collection::vec(1u8.., 0..40).prop_map(|mut bytes| {
            bytes.insert(0, b'/');
            Location::Local { path: std::ffi::OsString::from_vec(bytes).into() }
        }),
    ]
}

proptest! {
    #[test]
    fn a_location_is_written_so_that_it_parses_to_itself(location in locations()) {
        prop_assert_eq!(parse(&location.to_string()), location);
    }

    #[test]
    fn any_text_parses_or_is_refused_and_what_parses_is_stable(text in "(s3|dev|memory|file|gs|az|abfss|https|x)?(://)?\\PC{0,30}") {
        if let Ok(location) = text.parse::<Location>() {
            prop_assert_eq!(parse(&location.to_string()), location);
        }
    }
}

#[test]
fn the_arn_of_an_access_point_ends_before_the_key() {
    const POINT: &str = "arn:aws:s3:eu-west-1:123456789012:accesspoint/reports";
    for (bucket, key) in [
        (POINT.to_owned(), "a/b"),
        (POINT.to_owned(), ""),
        (POINT.replace("accesspoint/", "accesspoint:"), "a/b"),
        ("arn:aws:s3:::bucket".to_owned(), "a/b"),
    ] {
        let location = Location::S3 { profile: None, bucket: bucket.clone(), key: key.to_owned() };
        assert_eq!(format!("s3://{bucket}/{key}").parse(), Ok(location));
    }
}
