//! URLs of Azure Blob Storage and Data Lake Storage, in the forms that its tools have.

use std::borrow::Cow;

use percent_encoding::percent_decode_str;

use crate::types::azure_host::AzureHost;

use super::{Location, LocationError, NUL, bucket_fault, invalid_key, split_name};

/// Azure takes keys of up to this many characters.
const LONGEST_KEY: usize = 1024;
const SIGNED: &str = "it has a shared access signature, which would show wherever the URL is shown: set \
                      AZURE_STORAGE_SAS_TOKEN to the query and AZURE_STORAGE_ACCOUNT to the account, and write the \
                      URL without it";
const HOSTLESS: &str = "after the @ comes the account's host: write \
                        abfss://CONTAINER@ACCOUNT.dfs.core.windows.net/KEY";

/// `az://container/key`, or with `container@account.dfs.core.windows.net`, from the text after the scheme.
pub(super) fn container_url(text: &str, rest: &str) -> Result<Location, LocationError> {
    let (authority, key) = split_name(text, "az", "container", rest)?;
    if key.split_once('?').is_some_and(|(_, query)| is_signed(query)) {
        return Err(invalid_address(text, SIGNED));
    }
    let Some((container, host)) = authority.split_once('@') else {
        return location(text, authority.to_owned(), authority, key);
    };
    let host = AzureHost::parse(host).ok_or_else(|| invalid_address(text, HOSTLESS))?;
    location(text, format!("{container}@{host}"), container, key)
}

/// `https://account.blob.core.windows.net/container/key`; `None` if the host is not Azure's. As in every https URL,
/// the key is percent-encoded.
pub(super) fn https_url(text: &str, rest: &str) -> Option<Result<Location, LocationError>> {
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let host = AzureHost::parse(rest[..end].strip_suffix(":443").unwrap_or(&rest[..end]))?;
    let path = rest[end..].strip_prefix('/').unwrap_or(&rest[end..]);
    Some(blob(text, &host, path))
}

fn blob(text: &str, host: &AzureHost, path: &str) -> Result<Location, LocationError> {
    if let Some(at) = path.find(['?', '#']) {
        let is_signed = is_signed(&path[at..]);
        let why = "a query or a fragment names no blob: write %3F and %23 for a ? and a # in its key";
        return Err(invalid_address(text, if is_signed { SIGNED } else { why }));
    }
    let (container, key) = path.split_once('/').unwrap_or((path, ""));
    if container.is_empty() {
        return Err(invalid_address(text, "no container comes after the host"));
    }
    let decoded = percent_decode_str(key).decode_utf8();
    let key = decoded.map_err(|_| invalid_key(text, "it is not UTF-8"))?;
    location(text, format!("{container}@{host}"), container, &key)
}

/// Whether a query has a signature.
fn is_signed(query: &str) -> bool {
    query.split(['?', '&', '#']).any(|pair| pair.starts_with("sig="))
}

/// The location of a key, or of a container.
fn location(text: &str, shown: String, container: &str, key: &str) -> Result<Location, LocationError> {
    if let Some(reason) = container_fault(container) {
        let (location, bucket) = (text.to_owned(), container.to_owned());
        return Err(LocationError::InvalidBucket { location, bucket, reason });
    }
    if key.contains('\0') {
        return Err(invalid_key(text, NUL));
    }
    if key.chars().count() > LONGEST_KEY {
        return Err(invalid_key(text, "it is longer than 1024 characters"));
    }
    Ok(Location::Azure { container: shown, key: key.to_owned() })
}

/// The rule that a container's name breaks. The names of Fabric's workspaces may have capitals.
fn container_fault(name: &str) -> Option<&'static str> {
    match name {
        "$root" | "$web" | "$logs" => None,
        _ => bucket_fault(name),
    }
}

fn invalid_address(text: &str, reason: &'static str) -> LocationError {
    LocationError::InvalidAddress { location: text.to_owned(), reason }
}

/// The URL to suggest for a mistyped Azure URL: `name` is the text before the slashes, `place` the text after them.
pub(super) fn meant(name: &str, place: &str) -> Cow<'static, str> {
    let host = &place[..place.find('/').unwrap_or(place.len())];
    match name {
        "http" | "https" if AzureHost::parse(host).is_some() => "https".into(),
        "http" | "https" => "s3".into(),
        _ if host.contains('@') => "abfss".into(),
        _ => "az".into(),
    }
}
