//! Signs a request with the account's key ("Authorize with Shared Key", version 2015-02-21 and later).

use std::time::SystemTime;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use http::{HeaderMap, Method};
use sha2::Sha256;
use url::Url;

use tidegate_core::backend::{Fault, FaultKind};
use tidegate_http::{set, text};

/// Headers whose values are signed in this order, after the method.
const SIGNED: [&str; 11] = [
    "content-encoding",
    "content-language",
    "content-length",
    "content-md5",
    "content-type",
    "date",
    "if-modified-since",
    "if-match",
    "if-none-match",
    "if-unmodified-since",
    "range",
];

/// Adds the date and the signature.
pub(super) fn with_key(
    account: &str,
    key: &[u8],
    method: &Method,
    url: &str,
    headers: &mut HeaderMap,
) -> Result<(), Fault> {
    set(headers, "x-ms-date", Some(httpdate::fmt_http_date(SystemTime::now())))?;
    let to_sign = string_to_sign(account, method, url, headers)?;
    let mut value = text(format!("SharedKey {account}:{}", hmac(key, &to_sign)?))?;
    value.set_sensitive(true);
    headers.insert(http::header::AUTHORIZATION, value);
    Ok(())
}

/// HMAC-SHA256 in base64.
pub(super) fn hmac(key: &[u8], message: &str) -> Result<String, Fault> {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).map_err(|error| {
        Fault::new(FaultKind::Credentials, "the account's key cannot sign").with_source(error)
    })?;
    mac.update(message.as_bytes());
    Ok(STANDARD.encode(mac.finalize().into_bytes()))
}

fn string_to_sign(account: &str, method: &Method, url: &str, headers: &HeaderMap) -> Result<String, Fault> {
    // The error of a URL may show it, and so no error is the source of this one.
    let url = Url::parse(url)
        .map_err(|error| Fault::new(FaultKind::Invalid, format!("no request can go there: {error}")))?;
    let value = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let mut text = method.as_str().to_owned();
    for name in SIGNED {
        text.push('\n');
        // An empty body is signed without its length.
        text.push_str(if name == "content-length" && value(name) == "0" { "" } else { value(name) });
    }
    let mut named: Vec<&str> =
        headers.keys().map(|name| name.as_str()).filter(|name| name.starts_with("x-ms-")).collect();
    named.sort_by_key(|name| rank(name));
    for name in named {
        text.push_str(&format!("\n{name}:{}", value(name).trim()));
    }
    text.push_str(&format!("\n/{account}{}", url.path()));
    let mut query: Vec<_> = url.query_pairs().map(|(name, value)| (name.to_lowercase(), value)).collect();
    query.sort();
    for values in query.chunk_by(|(one, _), (other, _)| one == other) {
        text.push_str(&format!("\n{}:", values[0].0));
        for (at, (_, value)) in values.iter().enumerate() {
            text.push_str(if at == 0 { "" } else { "," });
            text.push_str(value);
        }
    }
    Ok(text)
}

/// Where a header comes in the order of the service, which compares names as words: hyphens count only between names
/// that are the same without them, and an underscore comes before digits, and these before letters.
fn rank(name: &str) -> (Vec<u8>, Vec<bool>) {
    let letters = name.bytes().filter(|byte| *byte != b'-').map(|byte| if byte == b'_' { 0 } else { byte });
    (letters.collect(), name.bytes().map(|byte| byte == b'-').collect())
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        let pairs = pairs
            .iter()
            .map(|(name, value)| (http::HeaderName::from_static(name), HeaderValue::from_static(value)));
        pairs.collect()
    }

    /// The examples of "Authorize with Shared Key".
    #[test]
    fn the_documented_examples_are_signed_as_documented() {
        let date = ("x-ms-date", "Fri, 26 Jun 2015 23:39:12 GMT");
        let get = headers(&[("x-ms-version", "2015-02-21"), date]);
        let url =
            "https://myaccount.blob.core.windows.net/mycontainer?comp=metadata&restype=container&timeout=20";
        assert_eq!(
            string_to_sign("myaccount", &Method::GET, url, &get).unwrap(),
            "GET\n\n\n\n\n\n\n\n\n\n\n\nx-ms-date:Fri, 26 Jun 2015 23:39:12 GMT\nx-ms-version:2015-02-21\n\
             /myaccount/mycontainer\ncomp:metadata\nrestype:container\ntimeout:20"
        );
        let put = headers(&[
            ("x-ms-blob-type", "BlockBlob"),
            ("content-type", "text/plain; charset=UTF-8"),
            ("content-length", "11"),
            ("x-ms-version", "2015-02-21"),
            ("x-ms-meta-m1", " v1 "),
            ("x-ms-meta-m2", "v2"),
            date,
        ]);
        let url = "https://myaccount.blob.core.windows.net/mycontainer/hello.txt";
        assert_eq!(
            string_to_sign("myaccount", &Method::PUT, url, &put).unwrap(),
            "PUT\n\n\n11\n\ntext/plain; charset=UTF-8\n\n\n\n\n\n\nx-ms-blob-type:BlockBlob\n\
             x-ms-date:Fri, 26 Jun 2015 23:39:12 GMT\nx-ms-meta-m1:v1\nx-ms-meta-m2:v2\n\
             x-ms-version:2015-02-21\n/myaccount/mycontainer/hello.txt"
        );
        let url = "https://myaccount.blob.core.windows.net/mycontainer?restype=container&comp=list&include=snapshots&\
                   include=metadata&include=uncommittedblobs";
        let signed = string_to_sign("myaccount", &Method::GET, url, &get).unwrap();
        assert!(signed.ends_with(
            "/myaccount/mycontainer\ncomp:list\ninclude:metadata,snapshots,uncommittedblobs\nrestype:container"
        ));
    }

    #[test]
    fn a_path_is_signed_as_it_is_sent_and_a_query_decoded() {
        let url =
            "http://127.0.0.1:10000/devstoreaccount1/c/a%20b%2Bc%25%28%C3%A4%29//$x?Prefix=a%2Fb%20c%2B";
        let signed =
            string_to_sign("devstoreaccount1", &Method::DELETE, url, &headers(&[("content-length", "0")]));
        assert_eq!(
            signed.unwrap(),
            "DELETE\n\n\n\n\n\n\n\n\n\n\n\n/devstoreaccount1/devstoreaccount1/c/a%20b%2Bc%25%28%C3%A4%29//$x\n\
             prefix:a/b c+"
        );
    }

    /// The order that Azure's own libraries give these names.
    #[test]
    fn headers_are_in_the_order_of_the_service() {
        let ordered = [
            "x-ms-blob-content-type",
            "x-ms-blob-type",
            "x-ms-copy-source",
            "x-ms-copy-source-authorization",
            "x-ms-meta-a",
            "x-ms-meta-a_1",
            "x-ms-meta-a_b",
            "x-ms-meta-a1",
            "x-ms-meta-ab",
            "x-ms-meta-b",
            "x-ms-version",
        ];
        let mut sorted = ordered;
        sorted.reverse();
        sorted.sort_by_key(|name| rank(name));
        assert_eq!(sorted, ordered);
        assert!(rank("x-ms-meta-ab") < rank("x-ms-meta-a-b"));
    }

    /// The signature that `azure-storage-blob` makes of the same request.
    #[test]
    fn a_signature_is_that_of_azures_own_library() {
        let key = STANDARD.decode(super::super::connection_string::AZURITE_KEY).unwrap();
        let signed =
            hmac(&key, "GET\n\n\n\n\n\n\n\n\n\n\n\nx-ms-date:Fri, 26 Jun 2015 23:39:12 GMT").unwrap();
        assert_eq!(signed, "oMltWnETUehMyZSz8ftwGJwIIP4g29ZDSpnjMfDlDjk=");
    }
}
