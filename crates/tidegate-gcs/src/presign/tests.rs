use std::time::UNIX_EPOCH;

use super::*;
use crate::{GcsCredentials, GcsSettings};
use tidegate_core::backend::Backend;

const EMAIL: &str = "test-iam-credentials@dummy-project-id.iam.gserviceaccount.com";

fn at(seconds: u64) -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(seconds)
}

/// The expected texts are those of Google's conformance tests (`v4_signatures.json`: "Simple GET", "Vary expiration and
/// timestamp", "Emulator host").
#[test]
fn the_text_that_is_signed_is_googles() {
    for (host, time, expires, date, digest) in [
        (
            "storage.googleapis.com",
            1_549_011_600,
            10,
            "20190201",
            "00e2fb794ea93d7adb703edaebdd509821fcc7d4f1a79ac5c8d2b394df109320",
        ),
        (
            "storage.googleapis.com",
            1_551_430_800,
            20,
            "20190301",
            "779f19fdb6fd381390e2d5af04947cf21750277ee3c20e0c97b7e46a1dff8907",
        ),
        (
            "xyz.googleapis.com",
            1_549_011_600,
            10,
            "20190201",
            "4f6f519cc03e25d19fcd476d7a45bffcccdba33d10e00214a0f2debc204e2386",
        ),
    ] {
        let url = format!("https://{host}/test-bucket/test-object");
        let unsigned =
            UnsignedUrl::new(&Method::GET, &url, EMAIL, at(time), Duration::from_secs(expires), None)
                .unwrap();
        let expected =
            format!("GOOG4-RSA-SHA256\n{date}T090000Z\n{date}/auto/storage/goog4_request\n{digest}");
        assert_eq!(unsigned.to_sign, expected);
        let expected = format!(
            "{url}?X-Goog-Algorithm=GOOG4-RSA-SHA256&X-Goog-Credential=test-iam-credentials%40dummy-project-id.iam.gserviceaccount.com%2F{date}%2Fauto%2Fstorage%2Fgoog4_request&X-Goog-Date={date}T090000Z&X-Goog-Expires={expires}&X-Goog-SignedHeaders=host&X-Goog-Signature=0aff"
        );
        assert_eq!(unsigned.signed(&[0x0a, 0xff]), expected);
    }
}

#[test]
fn method_port_and_path_are_signed() {
    let signed = |method: &Method, url: &str| {
        UnsignedUrl::new(method, url, EMAIL, at(0), LONGEST, None).unwrap().to_sign
    };
    let plain = signed(&Method::GET, "http://h/b/k");
    assert_ne!(plain, signed(&Method::PUT, "http://h/b/k"));
    assert_ne!(plain, signed(&Method::GET, "http://h:9000/b/k"));
    assert_ne!(plain, signed(&Method::GET, "http://h/b/k%20"));
    assert_eq!(plain, signed(&Method::GET, "https://h/b/k"), "the scheme is no part of the request");
}

#[tokio::test]
async fn credentials_that_cannot_sign_say_so() {
    for credentials in [GcsCredentials::anonymous(), GcsCredentials::token("t")] {
        let settings =
            GcsSettings::default().with_endpoint_url("http://127.0.0.1:1").with_credentials(credentials);
        let bucket = Gcs::connect("bucket", &settings).await.unwrap();
        let presign = bucket.presigning().unwrap();
        let fault = presign.presign(PresignedRequest::Get, "k", LONGEST).await.unwrap_err();
        assert_eq!(fault.kind, FaultKind::Credentials, "{fault}");
        assert!(fault.message.contains("service account"), "{fault}");
    }
}
