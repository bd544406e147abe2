//! Builds the URL that is signed and sent from bucket and key.

use std::fmt::{self, Display};
use std::str::FromStr;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use url::Url;

use super::fault::is_region;
use tidegate_core::backend::{Fault, FaultKind};
use tidegate_core::types::printable::address_without_password;
use tidegate_core::types::unknown_name::UnknownName;

/// Characters that a signature leaves unencoded in a query (RFC 3986, unreserved).
const QUERY: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');
/// Characters that a signature leaves unencoded in a path.
pub const PATH: &AsciiSet = &QUERY.remove(b'/');

/// Where the bucket's name goes in a URL.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Addressing {
    /// In the host at AWS, in the path elsewhere. A bucket with dots is in the path at AWS too, because certificates
    /// do not cover dots.
    #[default]
    Auto,
    /// `https://host/bucket/key`.
    Path,
    /// `https://bucket.host/key`.
    VirtualHost,
}

impl Addressing {
    const ALL: [Self; 3] = [Self::Auto, Self::Path, Self::VirtualHost];

    /// The name as users write it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Path => "path",
            Self::VirtualHost => "virtual-host",
        }
    }
}

impl Display for Addressing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Addressing {
    type Err = UnknownName;

    fn from_str(name: &str) -> Result<Self, UnknownName> {
        UnknownName::find("addressing", name, &Self::ALL, Self::name)
    }
}

/// The base of all URLs of one bucket.
#[derive(Clone, Debug)]
pub struct BucketUrl {
    /// Scheme, host, port and base path, without a trailing slash.
    base: String,
}

impl BucketUrl {
    /// The address of a bucket at an endpoint.
    pub fn new(endpoint: &EndpointUrl, bucket: &str, addressing: Addressing) -> Result<Self, Fault> {
        let named = !bucket.is_empty()
            && bucket.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.' | b'_'))
            && !matches!(bucket, "." | "..");
        if !named {
            let message =
                format!("`{bucket}` is not a bucket's name: letters, digits, `-`, `.` and `_` make one");
            return Err(Fault::new(FaultKind::Invalid, message));
        }
        let in_host = match addressing {
            Addressing::Path => false,
            Addressing::VirtualHost => true,
            Addressing::Auto => endpoint.is_aws && !(bucket.contains('.') && endpoint.is_https()),
        };
        let base = if in_host {
            let (scheme, rest) = endpoint.url.split_once("://").unwrap_or(("https", &endpoint.url));
            format!("{scheme}://{bucket}.{rest}")
        } else {
            format!("{}/{bucket}", endpoint.url)
        };
        if !in_host || Url::parse(&base).is_ok() {
            return Ok(Self { base });
        }
        let message = format!("bucket `{bucket}` cannot be part of a host's name: use path style");
        Err(Fault::new(FaultKind::Invalid, message))
    }

    /// The base of a bucket that has an address of its own, without a trailing slash.
    pub fn at(base: String) -> Self {
        Self { base }
    }

    /// The URL of the bucket itself.
    pub fn bucket(&self, query: &[(&str, &str)]) -> String {
        let mut url = format!("{}/", self.base);
        push_query(&mut url, query);
        url
    }

    /// The URL of an object.
    pub fn object(&self, key: &str, query: &[(&str, &str)]) -> Result<String, Fault> {
        check(key)?;
        let mut url = format!("{}/{}", self.base, utf8_percent_encode(key, PATH));
        push_query(&mut url, query);
        Ok(url)
    }
}

/// An object at the same endpoint, as `x-amz-copy-source` names it; the bucket may be the ARN of an access point.
pub fn source(bucket: &str, key: &str) -> String {
    let between = if bucket.starts_with("arn:") { "/object/" } else { "/" };
    format!("{bucket}{between}{}", utf8_percent_encode(key, PATH))
}

/// Refuses keys that no URL can address. A client or server on the way resolves a segment `.` or `..` (RFC 3986,
/// 6.2.2.3), and the request would reach another object.
fn check(key: &str) -> Result<(), Fault> {
    let message = if key.is_empty() {
        "the key is empty".to_owned()
    } else if key.len() > 1024 {
        format!("the key has {} bytes, S3 takes 1024 at most", key.len())
    } else if key.split('/').any(|segment| matches!(segment, "." | "..")) {
        "the key has a segment `.` or `..`, which HTTP clients and servers resolve to another key".to_owned()
    } else {
        return Ok(());
    };
    Err(Fault::new(FaultKind::Invalid, message))
}

/// Appends a query to a URL that has none.
pub fn with_query(mut url: String, query: &[(&str, &str)]) -> String {
    push_query(&mut url, query);
    url
}

fn push_query(url: &mut String, query: &[(&str, &str)]) {
    for (at, (name, value)) in query.iter().enumerate() {
        url.push(if at == 0 { '?' } else { '&' });
        url.extend(utf8_percent_encode(name, QUERY));
        if !value.is_empty() {
            url.push('=');
            url.extend(utf8_percent_encode(value, QUERY));
        }
    }
}

/// Names and values as `name=value&…`, percent-encoded: the form of `x-amz-tagging`.
pub fn form<'a>(pairs: impl IntoIterator<Item = (&'a String, &'a String)>) -> String {
    let mut form = String::new();
    for (name, value) in pairs {
        if !form.is_empty() {
            form.push('&');
        }
        form.extend(utf8_percent_encode(name, QUERY));
        form.push('=');
        form.extend(utf8_percent_encode(value, QUERY));
    }
    form
}

/// A store's address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndpointUrl {
    /// Scheme, host, port and base path, without a trailing slash.
    url: String,
    host: String,
    is_aws: bool,
}

impl EndpointUrl {
    /// An endpoint that the user set.
    pub fn custom(url: &str) -> Result<Self, Fault> {
        let wrong = |why: &str| {
            // A query may contain a key, and the user name a password.
            let shown = address_without_password(url);
            let shown = shown.split(['?', '#']).next().unwrap_or_default();
            let message = format!("endpoint `{shown}` {why}: write http://host:port or https://host");
            Fault::new(FaultKind::Invalid, message)
        };
        let parsed = Url::parse(url).map_err(|error| wrong(&format!("is not a URL ({error})")))?;
        if !matches!(parsed.scheme(), "http" | "https") {
            return Err(wrong("is neither http nor https"));
        }
        if parsed.query().is_some() || parsed.fragment().is_some() {
            return Err(wrong("has a query"));
        }
        if !parsed.username().is_empty() || parsed.password().is_some() {
            return Err(wrong("has a user's name in it"));
        }
        let host = parsed.host_str().unwrap_or_default().to_owned();
        let is_aws = host.ends_with(".amazonaws.com") || host.ends_with(".amazonaws.com.cn");
        Ok(Self { url: parsed.as_str().trim_end_matches('/').to_owned(), host, is_aws })
    }

    /// AWS's own endpoint in a region.
    pub fn aws(region: &str, fips: bool, dual_stack: bool) -> Result<Self, Fault> {
        if !is_region(region) {
            let message = format!("`{region}` is not a region's name, as `eu-central-1` is");
            return Err(Fault::new(FaultKind::Invalid, message));
        }
        let service = if fips { "s3-fips" } else { "s3" };
        let dual_stack = if dual_stack { ".dualstack" } else { "" };
        let domain = if region.starts_with("cn-") { "amazonaws.com.cn" } else { "amazonaws.com" };
        let host = format!("{service}{dual_stack}.{region}.{domain}");
        Ok(Self { url: format!("https://{host}"), host, is_aws: true })
    }

    /// Scheme, host and port.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Whether requests from here can go to a bucket in `region`: always at an endpoint with one address for all
    /// regions, which then only signs for that region; at AWS, whose regions have hosts of their own, where these hosts
    /// are known.
    pub fn reaches(&self, region: &str) -> bool {
        is_region(region) && (!self.is_aws || self.host_in(region).is_some())
    }

    /// The same URL at AWS's host in `region`. An URL of another store stays as it is: credentials never go to another
    /// host because an answer names it.
    pub fn in_region(&self, url: String, region: &str) -> String {
        match self.host_in(region) {
            Some(host) if host != self.host => {
                let path = url.find("://").map_or(0, |at| at + 3);
                let path = url[path..].find('/').map_or(url.len(), |at| path + at);
                let (authority, path) = url.split_at(path);
                // The endpoint's host comes last, behind the bucket's name.
                match authority.strip_suffix(&self.host) {
                    Some(before) => format!("{before}{host}{path}"),
                    None => url,
                }
            }
            _ => url,
        }
    }

    /// AWS's host for access points in `region`, of the same kind as this endpoint (FIPS, dual-stack); `None` if this
    /// is no endpoint of AWS in the same partition.
    pub fn of_access_points(&self, region: &str) -> Option<String> {
        let host = self.host_in(region)?;
        let (service, rest) = host.split_once('.')?;
        Some(format!("{}.{rest}", service.replacen("s3", "s3-accesspoint", 1)))
    }

    /// The host of the same kind in `region`, for one of AWS's own for S3; never in another partition (China).
    fn host_in(&self, region: &str) -> Option<String> {
        let (name, domain) = [".amazonaws.com", ".amazonaws.com.cn"]
            .into_iter()
            .find_map(|domain| Some((self.host.strip_suffix(domain)?, &domain[1..])))?;
        let mut labels = name.split('.');
        let service = labels.next()?;
        let is_service = matches!(service, "s3" | "s3-fips");
        let is_dual = name.contains(".dualstack");
        let rest = labels.filter(|label| *label != "dualstack").count();
        if !is_service || rest > 1 || is_dual && rest == 0 {
            return None;
        }
        let host = Self::aws(region, service == "s3-fips", is_dual).ok()?.host;
        host.ends_with(&format!(".{domain}")).then_some(host)
    }

    /// The URL of the store itself.
    pub fn root(&self, query: &[(&str, &str)]) -> String {
        let mut url = format!("{}/", self.url);
        push_query(&mut url, query);
        url
    }

    /// The host, as the `Host` header has it.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// Whether this is one of AWS's own endpoints.
    pub fn is_aws(&self) -> bool {
        self.is_aws
    }

    fn is_https(&self) -> bool {
        self.url.starts_with("https:")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(endpoint: &str, bucket: &str, addressing: Addressing, key: &str) -> String {
        let endpoint = EndpointUrl::custom(endpoint).unwrap();
        BucketUrl::new(&endpoint, bucket, addressing).unwrap().object(key, &[]).unwrap()
    }

    #[test]
    fn keys_are_encoded_as_they_are_signed_and_sent() {
        for (key, path) in [
            ("a/b.txt", "a/b.txt"),
            ("/lead//double/", "/lead//double/"),
            ("sp ace+plus%25", "sp%20ace%2Bplus%2525"),
            ("naïve/日本", "na%C3%AFve/%E6%97%A5%E6%9C%AC"),
            ("q?x=1&y#z", "q%3Fx%3D1%26y%23z"),
            ("-._~!$'()*,:;@[]\\", "-._~%21%24%27%28%29%2A%2C%3A%3B%40%5B%5D%5C"),
            ("...", "..."),
            ("a/.hidden/..b", "a/.hidden/..b"),
        ] {
            let url = object("http://h:9000", "b", Addressing::Auto, key);
            assert_eq!(url, format!("http://h:9000/b/{path}"));
            assert_eq!(url.parse::<http::Uri>().unwrap().to_string(), url);
        }
    }

    #[test]
    fn keys_that_no_url_can_say_are_refused() {
        let endpoint = EndpointUrl::custom("http://h").unwrap();
        let address = BucketUrl::new(&endpoint, "b", Addressing::Auto).unwrap();
        let long = "k".repeat(1025);
        for key in ["", ".", "..", "a/../b", "./a", "a/.", long.as_str()] {
            assert_eq!(address.object(key, &[]).unwrap_err().kind, FaultKind::Invalid, "{key}");
        }
    }

    #[test]
    fn the_bucket_goes_where_the_style_says() {
        let url = |endpoint, bucket, addressing| object(endpoint, bucket, addressing, "k");
        assert_eq!(url("http://h:1/", "b", Addressing::Auto), "http://h:1/b/k");
        assert_eq!(url("http://h:1/base/", "b", Addressing::Auto), "http://h:1/base/b/k");
        assert_eq!(url("http://h:1", "b", Addressing::VirtualHost), "http://b.h:1/k");
        assert_eq!(url("https://h:443", "b", Addressing::Path), "https://h/b/k");
        let aws = EndpointUrl::aws("eu-north-1", false, false).unwrap();
        let url = |bucket| {
            BucketUrl::new(&aws, bucket, Addressing::Auto)
                .unwrap()
                .bucket(&[("uploads", ""), ("prefix", "a b/")])
        };
        assert_eq!(url("b"), "https://b.s3.eu-north-1.amazonaws.com/?uploads&prefix=a%20b%2F");
        assert_eq!(url("b.c"), "https://s3.eu-north-1.amazonaws.com/b.c/?uploads&prefix=a%20b%2F");
        let china = EndpointUrl::aws("cn-north-1", true, true).unwrap();
        assert_eq!(china.url(), "https://s3-fips.dualstack.cn-north-1.amazonaws.com.cn");
    }

    #[test]
    fn requests_go_to_another_region_of_aws_and_nowhere_else() {
        let moved = |endpoint: &str, url: &str, region: &str| {
            let endpoint = EndpointUrl::custom(endpoint).unwrap();
            (endpoint.reaches(region), endpoint.in_region(url.to_owned(), region))
        };
        let aws = "https://s3.us-east-1.amazonaws.com";
        let url = "https://b.s3.us-east-1.amazonaws.com/k?x=s3.us-east-1.amazonaws.com";
        let there = "https://b.s3.eu-west-1.amazonaws.com/k?x=s3.us-east-1.amazonaws.com";
        assert_eq!(moved(aws, url, "eu-west-1"), (true, there.to_owned()));
        assert_eq!(moved(aws, url, "us-east-1"), (true, url.to_owned()));
        for (endpoint, there) in [
            ("https://s3.amazonaws.com", "https://s3.eu-west-1.amazonaws.com"),
            ("https://s3-fips.us-east-1.amazonaws.com", "https://s3-fips.eu-west-1.amazonaws.com"),
            ("https://s3.dualstack.us-east-1.amazonaws.com", "https://s3.dualstack.eu-west-1.amazonaws.com"),
        ] {
            assert_eq!(
                moved(endpoint, &format!("{endpoint}/b/k"), "eu-west-1"),
                (true, format!("{there}/b/k"))
            );
        }
        // Another partition, a private endpoint, no region.
        let private = "https://bucket.vpce-1a2b.s3.us-east-1.vpce.amazonaws.com";
        for (endpoint, region) in
            [(aws, "cn-north-1"), (private, "eu-west-1"), (aws, "evil.example/"), (aws, "")]
        {
            let url = format!("{endpoint}/b/k");
            assert_eq!(moved(endpoint, &url, region), (false, url), "{endpoint} {region}");
        }
        // A store with one address for all regions: only the signature changes.
        let (own, url) = ("http://h:9000", "http://h:9000/b/k");
        assert_eq!(moved(own, url, "eu-west-1"), (true, url.to_owned()));
    }

    #[test]
    fn wrong_addresses_are_refused() {
        for url in ["h:9000", "localhost", "ftp://h", "http://u:p@h", "http://h/?x=1", ""] {
            assert_eq!(EndpointUrl::custom(url).unwrap_err().kind, FaultKind::Invalid, "{url}");
        }
        let endpoint = EndpointUrl::custom("http://h").unwrap();
        for bucket in ["", "a/b", "a b", "..", "ü"] {
            assert_eq!(
                BucketUrl::new(&endpoint, bucket, Addressing::Auto).unwrap_err().kind,
                FaultKind::Invalid,
                "{bucket}"
            );
        }
    }
}
