//! Builds the URLs of the JSON API from bucket and key.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use url::Url;

use tidegate_core::backend::{Fault, FaultKind};

/// Characters that stay unencoded in a path segment and in a query (RFC 3986, unreserved).
pub(super) const SEGMENT: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// The URLs of one bucket.
#[derive(Clone, Debug)]
pub(super) struct Address {
    /// The path below the API's root.
    path: String,
    objects: String,
    uploads: String,
}

impl Address {
    /// `endpoint` is scheme, host and port, without a trailing slash.
    pub(super) fn new(endpoint: &str, bucket: &str) -> Self {
        Self {
            path: format!("/b/{bucket}/o"),
            objects: format!("{endpoint}/storage/v1/b/{bucket}/o"),
            uploads: format!("{endpoint}/upload/storage/v1/b/{bucket}/o"),
        }
    }

    /// The URL of the bucket's objects.
    pub(super) fn objects(&self, query: &[(&str, &str)]) -> String {
        with_query(self.objects.clone(), query)
    }

    /// The URL at which uploads begin.
    pub(super) fn uploads(&self, query: &[(&str, &str)]) -> String {
        with_query(self.uploads.clone(), query)
    }

    /// Whether `address` can be the URL of an upload at this endpoint.
    pub(super) fn has_upload(&self, address: &Url) -> bool {
        let Ok(uploads) = Url::parse(&self.uploads) else { return false };
        let is_there = uploads.origin() == address.origin() && address.path().starts_with("/upload/");
        is_there && address.username().is_empty() && address.password().is_none()
    }

    /// The URL of an upload that the store places at `location`, moved to this endpoint: emulators may name another
    /// host than the one they are reached at.
    pub(super) fn upload_at(&self, location: &str) -> Option<Url> {
        let uploads = Url::parse(&self.uploads).ok()?;
        let location = uploads.join(location).ok()?;
        let mut address = uploads;
        address.set_path(location.path());
        address.set_query(location.query());
        Some(address)
    }

    /// The URL of an object.
    pub(super) fn object(&self, key: &str, query: &[(&str, &str)]) -> Result<String, Fault> {
        check(key)?;
        Ok(with_query(format!("{}/{}", self.objects, utf8_percent_encode(key, SEGMENT)), query))
    }

    /// The URL that copies the object `from` of the bucket at `source` to `key`.
    pub(super) fn rewrite(
        &self,
        source: &Self,
        from: &str,
        key: &str,
        query: &[(&str, &str)],
    ) -> Result<String, Fault> {
        check(key)?;
        let [from, key] = [from, key].map(|key| utf8_percent_encode(key, SEGMENT));
        Ok(with_query(format!("{}/{from}/rewriteTo{}/{key}", source.objects, self.path), query))
    }
}

/// Refuses keys that Google does not accept ("About Cloud Storage objects"), and keys that the XML API cannot
/// address: no URL can contain a segment `.` or `..`.
pub(super) fn check(key: &str) -> Result<(), Fault> {
    let message = if key.is_empty() {
        "the key is empty".to_owned()
    } else if key.len() > 1024 {
        format!("the key has {} bytes, Google Cloud Storage takes 1024 at most", key.len())
    } else if key.contains(['\r', '\n']) {
        "the key has a line break in it, which Google Cloud Storage does not take".to_owned()
    } else if key.starts_with(".well-known/acme-challenge/") {
        "keys that begin with `.well-known/acme-challenge/` are not to be had".to_owned()
    } else if key.split('/').any(|segment| matches!(segment, "." | "..")) {
        "the key has a segment `.` or `..`, which HTTP clients and servers resolve to another key".to_owned()
    } else {
        return Ok(());
    };
    Err(Fault::new(FaultKind::Invalid, message))
}

/// Appends a query to a URL that has none.
pub(super) fn with_query(mut url: String, query: &[(&str, &str)]) -> String {
    for (at, (name, value)) in query.iter().enumerate() {
        url.push(if at == 0 { '?' } else { '&' });
        url.push_str(name);
        url.push('=');
        url.extend(utf8_percent_encode(value, SEGMENT));
    }
    url
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_one_segment_whatever_is_in_them() {
        let address = Address::new("http://h:1", "b");
        let has = |url: &str| address.has_upload(&Url::parse(url).unwrap());
        assert!(has("http://h:1/upload/storage/v1/b/b/o?upload_id=x"));
        for elsewhere in [
            "http://h:2/upload/storage/v1/b/b/o?upload_id=x",
            "https://h:1/upload/storage/v1/b/b/o?upload_id=x",
            "http://evil/upload/storage/v1/b/b/o?upload_id=x",
            "http://h:1@evil/upload/storage/v1/b/b/o?upload_id=x",
            "http://user@h:1/upload/storage/v1/b/b/o?upload_id=x",
            "http://h:1/storage/v1/b/b/o/victim",
            "http://h:1/upload/../storage/v1/b/b/o/victim",
        ] {
            assert!(!has(elsewhere), "{elsewhere}");
        }
        let at = address.upload_at("http://0.0.0.0:4443/upload/x?upload_id=y").unwrap();
        assert_eq!(at.as_str(), "http://h:1/upload/x?upload_id=y");
        for (key, segment) in [
            ("a/b c", "a%2Fb%20c"),
            ("/a//b/", "%2Fa%2F%2Fb%2F"),
            ("ü+%25?#", "%C3%BC%2B%2525%3F%23"),
            ("-._~", "-._~"),
        ] {
            let url = address.object(key, &[("alt", "media")]).unwrap();
            assert_eq!(url, format!("http://h:1/storage/v1/b/b/o/{segment}?alt=media"));
            assert_eq!(url.parse::<http::Uri>().unwrap().to_string(), url);
        }
        let other =
            Address::new("http://h:1", "c").rewrite(&address, "a/b", "d e", &[("rewriteToken", "+=")]);
        let rewrite = "http://h:1/storage/v1/b/b/o/a%2Fb/rewriteTo/b/c/o/d%20e?rewriteToken=%2B%3D";
        assert_eq!(other.unwrap(), rewrite);
        let uploads = address.uploads(&[("uploadType", "multipart"), ("kmsKeyName", "a/b")]);
        assert_eq!(uploads, "http://h:1/upload/storage/v1/b/b/o?uploadType=multipart&kmsKeyName=a%2Fb");
    }

    #[test]
    fn keys_that_no_object_has_are_refused() {
        let long = "k".repeat(1025);
        for key in ["", ".", "..", "a/../b", "a\nb", "a\rb", ".well-known/acme-challenge/x", &long] {
            assert_eq!(check(key).unwrap_err().kind, FaultKind::Invalid, "{key}");
        }
    }
}
