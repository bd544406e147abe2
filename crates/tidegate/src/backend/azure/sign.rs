//! Signs a request with the account's key ("Authorize with Shared Key", version 2015-02-21 and later).

use std::time::SystemTime;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use http::{HeaderMap, Method};
use sha2::Sha256;
use url::Url;

use crate::backend::http::{set, text};
use crate::backend::{Fault, FaultKind};

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
    let signature = hmac(key, &to_sign)?;
    headers.insert(http::header::AUTHORIZATION, text(format!("SharedKey {account}:{signature}"))?);
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
    let url = Url::parse(url).map_err(|error| {
        Fault::new(FaultKind::Invalid, format!("no request can go there: {error}")).with_source(error)
    })?;
    let value = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let mut text = method.as_str().to_owned();
    for name in SIGNED {
        text.push('\n');
        // An empty body is signed without its length.
        text.push_str(if name == "content-length" && value(name) == "0" { "" } else { value(name) });
    }
    let mut named: Vec<&str> =
        headers.keys().map(|name| name.as_str()).filter(|name| name.starts_with("x-ms-")).collect();
    named.sort_unstable();
    for name in named {
        text.push_str(&format!("\n{name}:{}", value(name).trim()));
    }
    text.push_str(&format!("\n/{account}{}", url.path()));
    let mut query: Vec<_> = url.query_pairs().map(|(name, value)| (name.to_lowercase(), value)).collect();
    query.sort();
    for (name, value) in query {
        text.push_str(&format!("\n{name}:{value}"));
    }
    Ok(text)
}
