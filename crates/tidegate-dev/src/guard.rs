//! Decides who may use the server. It is a store for programs on this machine: no web page may reach it through
//! a browser, and beyond this machine clients need a secret.

use std::net::{IpAddr, SocketAddr};

use http::header::{AUTHORIZATION, CONTENT_TYPE, HOST, ORIGIN};
use http::request::Parts;
use http::{HeaderMap, Method, StatusCode};

use crate::dialect::Dialect;

/// A server's admission rules.
#[derive(Debug)]
pub(crate) struct Guard {
    /// Host names and addresses accepted from clients, in addition to loopback's.
    hosts: Vec<String>,
    /// The token that clients must present as `Authorization: Bearer …` in the dialects without signatures.
    /// `None` admits all clients.
    bearer: Option<String>,
}

/// Why a request is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refused {
    pub(crate) status: StatusCode,
    pub(crate) message: String,
}

impl Guard {
    /// The guard of a server that listens on `addr`. Beyond loopback, a request without a signature needs `secret` as
    /// its bearer token, unless `is_open`.
    pub(crate) fn new(hosts: Vec<String>, addr: SocketAddr, secret: &str, is_open: bool) -> Self {
        let is_loopback = addr.ip().to_canonical().is_loopback();
        let bearer = (!is_loopback && !is_open).then(|| secret.to_owned());
        Self { hosts: hosts.into_iter().map(|host| bare(&host).to_ascii_lowercase()).collect(), bearer }
    }

    /// Refuses requests that use a host name other than the server's, and requests from web pages.
    ///
    /// A page of another site can make its visitor's browser send requests to 127.0.0.1. It can even read the
    /// answers if its own name resolves to 127.0.0.1 (DNS rebinding): then the `Host` is that name. Browsers
    /// mark a page's requests with `Origin` and `Sec-Fetch-Site`. The server has no pages of its own, and an
    /// object that a browser shows as a page must not change other objects.
    pub(crate) fn check_way(&self, parts: &Parts) -> Result<(), Refused> {
        let forbidden = |message| Err(Refused { status: StatusCode::FORBIDDEN, message });
        let mut hosts = parts.headers.get_all(HOST).iter().map(|host| host.to_str().unwrap_or_default());
        let named = parts.uri.authority().map(|authority| authority.as_str());
        let (header, second) = (hosts.next(), hosts.next());
        if second.is_some() || (header.is_none() && named.is_none()) {
            let message = "a request has to name one Host".to_owned();
            return Err(Refused { status: StatusCode::BAD_REQUEST, message });
        }
        for host in header.into_iter().chain(named) {
            if !self.is_known(host) {
                return forbidden(format!(
                    "the host {host:?} is neither this machine's loopback nor given with --host"
                ));
            }
        }
        if let Some(origin) = parts.headers.get(ORIGIN) {
            return forbidden(format!("web pages may not use this server (Origin {origin:?})"));
        }
        match parts.headers.get("sec-fetch-site") {
            // Programs send no such header; `none` means that the user typed the address or opened a bookmark.
            None => Ok(()),
            Some(site) if site == "none" => Ok(()),
            Some(site) => forbidden(format!("web pages may not use this server (Sec-Fetch-Site {site:?})")),
        }
    }

    /// Refuses a request without the bearer token that its `dialect` requires.
    pub(crate) fn check_dialect(&self, dialect: Dialect, headers: &HeaderMap) -> Result<(), Refused> {
        match dialect {
            // s3s checks the signatures of these requests.
            Dialect::S3 => Ok(()),
            Dialect::Xml | Dialect::Json | Dialect::Grpc => self.check_bearer(headers),
        }
    }

    /// Refuses a request to the control endpoint without the bearer token, or with a content type that a
    /// browser would send for any page without a preflight: those of forms and plain text, or no type.
    pub(crate) fn check_control(&self, method: &Method, headers: &HeaderMap) -> Result<(), Refused> {
        self.check_bearer(headers)?;
        if !matches!(*method, Method::PUT | Method::POST | Method::PATCH) {
            return Ok(());
        }
        let kind = headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
        let kind = kind.split(';').next().unwrap_or_default().trim();
        if kind.eq_ignore_ascii_case("application/json") {
            return Ok(());
        }
        Err(Refused {
            status: StatusCode::UNSUPPORTED_MEDIA_TYPE,
            message: "send JSON with the header Content-Type: application/json".to_owned(),
        })
    }

    fn check_bearer(&self, headers: &HeaderMap) -> Result<(), Refused> {
        let Some(secret) = &self.bearer else { return Ok(()) };
        let given = headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok()).unwrap_or_default();
        let token = given.split_once(' ').filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"));
        if token.is_some_and(|(_, token)| is_same(token.trim(), secret)) {
            return Ok(());
        }
        Err(Refused {
            status: StatusCode::UNAUTHORIZED,
            message:
                "beyond loopback, requests need the secret key as their bearer token, or a server that was \
                      started with --allow-anonymous"
                    .to_owned(),
        })
    }

    fn is_known(&self, host: &str) -> bool {
        let host = bare(host).to_ascii_lowercase();
        let is_loopback = match host.parse::<IpAddr>() {
            Ok(ip) => ip.to_canonical().is_loopback(),
            // Names below `localhost` also stand for loopback (RFC 6761, 6.3).
            Err(_) => host == "localhost" || host.ends_with(".localhost"),
        };
        is_loopback || self.hosts.contains(&host)
    }
}

/// Returns the host without its port and without the brackets of an IPv6 address.
fn bare(host: &str) -> &str {
    // Does not expect a user name and password: only a URI's authority may contain them, a `Host` may not.
    if let Some(rest) = host.strip_prefix('[') {
        return rest.split_once(']').map_or("", |(address, _)| address);
    }
    let name = match host.rsplit_once(':') {
        // An IPv6 address without brackets, as in --host.
        Some((name, _)) if name.contains(':') => host,
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    };
    name.strip_suffix('.').unwrap_or(name)
}

/// Compares in constant time for equal lengths: the duration does not reveal how much of the secret was right.
fn is_same(given: &str, secret: &str) -> bool {
    given.len() == secret.len()
        && given.bytes().zip(secret.bytes()).fold(0, |differs, (a, b)| differs | (a ^ b)) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn guard(hosts: &[&str], listen: &str) -> Guard {
        let hosts = hosts.iter().map(|host| (*host).to_owned()).collect();
        Guard::new(hosts, listen.parse().unwrap(), "secret", false)
    }

    fn parts(uri: &str, headers: &[(&str, &str)]) -> Parts {
        let mut request = http::Request::get(uri);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        request.body(()).unwrap().into_parts().0
    }

    fn status(guard: &Guard, headers: &[(&str, &str)]) -> u16 {
        guard.check_way(&parts("/bucket", headers)).map_or_else(|refused| refused.status.as_u16(), |()| 200)
    }

    #[test]
    fn only_loopback_and_given_hosts_are_known() {
        let guard = guard(&["minio.test", "fd00::1", "10.0.0.5:9000"], "127.0.0.1:9123");
        let known = [
            "127.0.0.1:9123",
            "127.0.0.1",
            "127.9.9.9:1",
            "localhost:9123",
            "LOCALHOST",
            "localhost.",
            "bucket.localhost:1",
            "[::1]:9123",
            "[::1]",
            "[::ffff:127.0.0.1]:1",
            "minio.test",
            "MINIO.test:9000",
            "10.0.0.5",
            "[fd00::1]:9123",
        ];
        for host in known {
            assert_eq!(status(&guard, &[("host", host)]), 200, "{host}");
        }
        let foreign = [
            "evil.example",
            "127.0.0.1.evil.example",
            "localhost.evil.example",
            "evillocalhost",
            "10.0.0.6",
            "[::2]:9123",
            "evil.example:127.0.0.1",
            "127.0.0.1@evil.example",
            "0.0.0.0:9123",
            "",
            "[::1",
            "minio.test.evil.example",
            "2130706433",
            "0x7f.1",
        ];
        for host in foreign {
            assert_eq!(status(&guard, &[("host", host)]), 403, "{host}");
        }
        assert_eq!(status(&guard, &[]), 400);
        assert_eq!(status(&guard, &[("host", "localhost"), ("host", "evil.example")]), 400);
        let absolute = parts("http://evil.example/bucket", &[("host", "localhost")]);
        assert!(guard.check_way(&absolute).is_err());
    }

    #[test]
    fn web_pages_are_refused() {
        let guard = guard(&[], "127.0.0.1:9123");
        for (name, value) in [
            ("origin", "https://evil.example"),
            ("origin", "null"),
            ("origin", "http://localhost:9123"),
            ("sec-fetch-site", "cross-site"),
            ("sec-fetch-site", "same-site"),
            ("sec-fetch-site", "same-origin"),
        ] {
            assert_eq!(status(&guard, &[("host", "localhost:9123"), (name, value)]), 403, "{name}: {value}");
        }
        assert_eq!(status(&guard, &[("host", "localhost:9123"), ("sec-fetch-site", "none")]), 200);
    }

    #[test]
    fn beyond_loopback_every_dialect_needs_a_secret() {
        let headers = |value: Option<&str>| {
            let mut headers = HeaderMap::new();
            if let Some(value) = value {
                headers.insert(AUTHORIZATION, value.parse().unwrap());
            }
            headers
        };
        let refused =
            [None, Some("Bearer"), Some("Bearer secre"), Some("Bearer secret2"), Some("Basic secret")];
        for listen in ["0.0.0.0:9123", "[::]:9123", "10.0.0.5:9123"] {
            let guard = guard(&[], listen);
            for dialect in [Dialect::Json, Dialect::Xml, Dialect::Grpc] {
                for value in refused {
                    let refused = guard.check_dialect(dialect, &headers(value)).unwrap_err();
                    assert_eq!(refused.status, 401, "{listen} {dialect:?} {value:?}");
                }
                assert!(guard.check_dialect(dialect, &headers(Some("bearer secret"))).is_ok());
            }
            assert!(guard.check_control(&Method::GET, &headers(None)).is_err());
        }
        for listen in ["127.0.0.1:9123", "[::1]:9123"] {
            assert!(guard(&[], listen).check_dialect(Dialect::Json, &headers(None)).is_ok());
        }
        let open = Guard::new(Vec::new(), "0.0.0.0:1".parse().unwrap(), "secret", true);
        assert!(open.check_dialect(Dialect::Grpc, &headers(None)).is_ok());
    }

    #[test]
    fn the_control_endpoint_takes_no_type_that_needs_no_preflight() {
        let guard = guard(&[], "127.0.0.1:9123");
        let status = |kind: &str| {
            let mut headers = HeaderMap::new();
            if !kind.is_empty() {
                headers.insert(CONTENT_TYPE, kind.parse().unwrap());
            }
            guard
                .check_control(&Method::POST, &headers)
                .map_or_else(|refused| refused.status.as_u16(), |()| 200)
        };
        let simple = [
            "",
            "text/plain",
            "application/x-www-form-urlencoded",
            "multipart/form-data; boundary=x",
            "text/plain;application/json",
        ];
        for kind in simple {
            assert_eq!(status(kind), 415, "{kind}");
        }
        assert_eq!((status("application/json"), status("Application/JSON; charset=utf-8")), (200, 200));
    }
}
