use std::fmt::{Debug, Display};
use std::str::FromStr;

use super::*;
use crate::settings::{Addressing, Concurrency, GcsSettings, GcsTransport, S3Settings, UnknownName};
use crate::types::checksum::Algorithm;
use crate::{ErrorKind, Operation, Strategy};

fn options(pairs: &[(&str, &str)]) -> Options {
    let mut options = Options::default();
    for (name, value) in pairs {
        options.set(name, *value).unwrap();
    }
    options
}

/// An acceptable value for each option that takes text.
fn example(name: &str) -> &'static str {
    match name {
        "durability" => "8MiB,1s",
        "strategy" => "parallel",
        "addressing" => "path",
        "checksum" => "crc64nvme",
        "transport" => "http",
        "encryption" => "kms:key",
        "metadata" | "tags" => "name=value",
        "hedge" | "create_only" | "preserve" | "sync" | "keep_modified" | "recursive" | "anonymous"
        | "trailers" | "payload_sha256" | "equal_parts" | "kept_conditions" | "request_payer"
        | "metadata_checksums" => "true",
        _ => "7",
    }
}

#[tokio::test]
async fn every_name_is_an_option_of_what_it_is_listed_for_and_of_nothing_else() {
    let tide = Tidegate::builder().build().unwrap();
    let store = tide.open("memory://options").await.unwrap();
    for (name, of) in NAMES {
        let mut options = Options::default();
        match *name {
            "replaces" | "if_unchanged" => options.set_object(name, Object::default()).unwrap(),
            _ => options.set(name, example(name)).unwrap(),
        }
        let of_store = |scheme: &str| match (*name, scheme) {
            // Half of a pair: known, and refused because the other half is missing.
            ("access_key" | "secret_key" | "session_token", "s3") => true,
            _ => options.open(&tide, &format!("{scheme}://bucket")).is_ok(),
        };
        let taken = [
            ("an engine", options.engine().is_ok()),
            ("a write", options.write(store.writer("key")).is_ok()),
            ("a download", options.download(store.download("key", "file")).is_ok()),
            ("a copy", options.copy(store.copy("key", &store, "other")).is_ok()),
            ("a rename", options.rename(store.rename("key", "other")).is_ok()),
            ("a read", options.read(store.reader("key")).is_ok()),
            ("a listing", options.list(store.list("")).is_ok()),
        ];
        for (what, is_taken) in taken {
            assert_eq!(of.contains(what), is_taken, "{name} and {what}");
        }
        let is_of_upload = of.contains("a write") || of.contains("an upload");
        assert_eq!(is_of_upload, options.upload(store.upload("file", "key")).is_ok(), "{name} and an upload");
        for scheme in ["s3", "gs", "az"] {
            let is_listed = *of == "a store" || (of.contains("a store of") && of.contains(scheme));
            assert_eq!(is_listed, of_store(scheme), "{name} and {scheme}");
        }
    }
}

#[test]
fn wrong_names_and_values_are_refused_with_a_reason() {
    let mut some = Options::default();
    let error = some.set("colour", "blue").unwrap_err();
    assert_eq!(
        (error.kind(), error.to_string()),
        (ErrorKind::InvalidInput, "options: there is no option `colour`".into())
    );
    for (name, value, why) in [
        ("memory", "lots", "it does not begin with a number"),
        ("hedge", "perhaps", "write true or false"),
        ("attempts", "-1", "write a whole number"),
        ("patience", "soon", "write a time"),
        ("durability", "never", "8MiB,1s"),
        ("concurrency", "0", "write auto, or a number from 1"),
    ] {
        let error = options(&[(name, value)]).engine().unwrap_err().to_string();
        assert!(error.contains(&format!("`{name}` can't be `{value}`")) && error.contains(why), "{error}");
    }
    let error = options(&[("content_type", "text/plain")]).engine().unwrap_err().to_string();
    assert_eq!(error, "options: an engine has no option `content_type`, which is one of a write or a copy");
}

#[tokio::test]
async fn the_last_value_counts_and_pairs_add_up() {
    let tide = options(&[("memory", "64MiB"), ("memory", "32MiB")]).engine().unwrap().build().unwrap();
    assert_eq!(tide.usage().total, 32 << 20);
    let store = tide.open("memory://values").await.unwrap();
    let given =
        [("metadata", "A=1"), ("metadata", "b=2=3"), ("create_only", "true"), ("create_only", "false")];
    let write = || options(&given).write(store.put("key", "bytes")).unwrap();
    write().await.unwrap();
    write().await.unwrap();
    let metadata = store.head("key").await.unwrap().attributes.metadata;
    assert_eq!(
        metadata.into_iter().collect::<Vec<_>>(),
        [("a".into(), "1".into()), ("b".into(), "2=3".into())]
    );
}

#[test]
fn credentials_fit_together_or_are_refused() {
    let tide = Tidegate::builder().build().unwrap();
    let open = |url: &str, pairs: &[(&str, &str)]| options(pairs).open(&tide, url).is_ok();
    assert!(open("s3://b", &[("access_key", "a"), ("secret_key", "b"), ("session_token", "c")]));
    assert!(!open("s3://b", &[("access_key", "a")]));
    assert!(!open("s3://b", &[("access_key", "a"), ("secret_key", "b"), ("anonymous", "true")]));
    assert!(!open("s3://b", &[("token", "a")]));
    assert!(open("gs://b", &[("token", "a")]) && !open("gs://b", &[("token", "a"), ("anonymous", "true")]));
    assert!(open("az://b", &[("sas", "a")]) && !open("az://b", &[("sas", "a"), ("account_key", "b")]));
    assert!(!open("/tmp", &[("region", "a")]) && open("/tmp", &[]));
}

#[test]
fn secrets_are_not_shown() {
    assert_eq!(format!("{:?}", options(&[("secret_key", "hidden")])), "[\"secret_key\"]");
}

#[test]
fn times_have_a_unit_or_are_seconds() {
    assert_eq!(duration("0.5"), Ok(Duration::from_millis(500)));
    assert_eq!(duration("90"), Ok(Duration::from_secs(90)));
    assert_eq!(duration("1min 30s"), Ok(Duration::from_secs(90)));
    for wrong in ["", "-1", "soon", "NaN", "inf"] {
        assert!(duration(wrong).is_err(), "{wrong}");
    }
    assert_eq!(concurrency("auto"), Ok(Concurrency::Auto));
}

#[test]
fn the_order_of_names_does_not_count() {
    let one = options(&[("memory", "64MiB"), ("spool", "a"), ("spool", "b"), ("attempts", "2")]);
    assert_eq!(one, options(&[("attempts", "2"), ("spool", "a"), ("memory", "64MiB"), ("spool", "b")]));
    assert_ne!(one, options(&[("attempts", "2"), ("spool", "b"), ("memory", "64MiB"), ("spool", "a")]));
    assert_ne!(one, options(&[("attempts", "2"), ("spool", "a"), ("memory", "64MiB")]));
}

#[test]
fn of_an_option_that_is_given_twice_the_last_value_counts_alone() {
    assert_eq!(options(&[("memory", "64MiB"), ("memory", "32MiB")]), options(&[("memory", "32MiB")]));
    assert_ne!(options(&[("spool", "a"), ("spool", "b")]), options(&[("spool", "b")]));
}

/// Every allowed name is read as the value that shows it, and nothing else is read.
fn go_round<T: FromStr<Err = UnknownName> + Display + Debug + PartialEq>(count: usize) {
    let error = "no such name".parse::<T>().unwrap_err();
    assert_eq!((error.given(), error.allowed().len()), ("no such name", count), "{error}");
    let mut values: Vec<T> = Vec::new();
    for name in error.allowed() {
        let value: T = name.parse().unwrap();
        assert_eq!(value.to_string(), *name);
        assert!(!values.contains(&value), "{name} stands for two values");
        assert!(error.to_string().contains(name));
        values.push(value);
    }
}

#[test]
fn what_is_shown_of_an_enum_is_read_as_it() {
    go_round::<Strategy>(6);
    go_round::<Algorithm>(2);
    #[cfg(feature = "prefix")]
    go_round::<crate::prefix::Naming>(3);
    go_round::<Addressing>(3);
    go_round::<GcsTransport>(if cfg!(feature = "gcs-grpc") { 2 } else { 1 });
    go_round::<ErrorKind>(23);
    go_round::<Operation>(21);
}

#[test]
fn settings_show_no_password() {
    let s3 = S3Settings::default().with_endpoint_url("http://user:secret@h:1");
    let gcs = GcsSettings::default().with_endpoint_url("http://user:secret@h:1");
    for shown in [format!("{s3:?}"), format!("{gcs:?}")] {
        assert!(shown.contains("http://…@h:1") && !shown.contains("secret"), "{shown}");
    }
}
