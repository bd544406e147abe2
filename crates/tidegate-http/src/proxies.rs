//! Reads the proxies that the environment names. A setting that cannot be read is an error, because requests would
//! bypass the proxy.

use std::ffi::OsString;

use http::Uri;
use hyper_util::client::proxy::matcher::Matcher;

use tidegate_core::backend::{Fault, FaultKind};

/// The variables for each scheme; the first one that is set counts, as in curl.
const HTTP: [&str; 2] = ["HTTP_PROXY", "http_proxy"];
const HTTPS: [&str; 2] = ["HTTPS_PROXY", "https_proxy"];
const ALL: [&str; 2] = ["ALL_PROXY", "all_proxy"];

/// The proxies of the environment or the system, checked for requests to `url`.
///
/// # Errors
/// [`FaultKind::Invalid`] if a variable that counts cannot be read, or if requests to `url` would go through a proxy
/// that is not an HTTP proxy. The message names the variable but not its value, which may contain a password.
pub(crate) fn from_environment(url: &Uri) -> Result<Matcher, Fault> {
    checked(|name| std::env::var_os(name))?;
    let matcher = Matcher::from_system();
    let foreign =
        matcher.intercept(url).filter(|proxy| !matches!(proxy.uri().scheme_str(), Some("http" | "https")));
    if let Some(proxy) = foreign {
        let names = if url.scheme_str() == Some("https") { HTTPS } else { HTTP };
        let counts = counting(&names, |name| std::env::var_os(name));
        let name = counts.map_or_else(|| "the environment".to_owned(), |(name, _)| name.to_owned());
        let scheme = proxy.uri().scheme_str().unwrap_or_default().to_owned();
        let message = format!("the proxy in {name} is one of {scheme}: only http and https can be used");
        return Err(Fault::new(FaultKind::Invalid, message));
    }
    Ok(matcher)
}

/// Refuses variables that count but cannot be read.
fn checked(read: impl Fn(&str) -> Option<OsString>) -> Result<(), Fault> {
    // In a CGI script HTTP_PROXY comes from the client, so no variable counts.
    if read("REQUEST_METHOD").is_some() {
        return Ok(());
    }
    for names in [HTTP, HTTPS] {
        if let Some((name, value)) = counting(&names, &read) {
            check(&value).map_err(|why| {
                let message = format!(
                    "the proxy in {name} cannot be read: {why}; write http://HOST:PORT, with NAME:PASSWORD@ before the host where it wants that"
                );
                Fault::new(FaultKind::Invalid, message)
            })?;
        }
    }
    Ok(())
}

/// The variable that counts, among `names` or else `ALL`, with its value. An empty variable counts as unset.
fn counting(
    names: &[&'static str],
    read: impl Fn(&str) -> Option<OsString>,
) -> Option<(&'static str, OsString)> {
    let set = |names: &[&'static str]| {
        let first = names.iter().find_map(|name| Some((*name, read(name)?)));
        first.filter(|(_, value)| !value.is_empty())
    };
    set(names).or_else(|| set(&ALL))
}

/// Checks a proxy's address by the rules of the code that reads it later. The error does not contain the value.
fn check(value: &OsString) -> Result<(), &'static str> {
    let value = value.to_str().ok_or("it is not UTF-8")?;
    if value.chars().any(|character| character.is_whitespace() || character.is_control()) {
        return Err("it has whitespace in it");
    }
    let uri: Uri = value.parse().map_err(|_| "it is not an address")?;
    if !matches!(
        uri.scheme_str(),
        None | Some("http" | "https" | "socks4" | "socks4a" | "socks5" | "socks5h")
    ) {
        return Err("its scheme is not one of a proxy");
    }
    let authority = uri.authority().ok_or("it has no host")?.as_str();
    if authority.matches('@').count() > 1 {
        return Err("its password has an @, which is to be written as %40");
    }
    let at = authority.rsplit('@').next().unwrap_or_default();
    let address: http::uri::Authority = at.parse().map_err(|_| "it has no host")?;
    if address.host().is_empty() || address.host() == "[]" {
        return Err("it has no host");
    }
    let port = at.strip_prefix(address.host()).unwrap_or_default();
    if !port.is_empty()
        && !port.strip_prefix(':').is_some_and(|port| port.parse::<u16>().is_ok_and(|port| port > 0))
    {
        return Err("its port is not a number from 1 to 65535");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read<'a>(set: &'a [(&'a str, &'a str)]) -> impl Fn(&str) -> Option<OsString> + 'a {
        |name| set.iter().find(|(set, _)| *set == name).map(|(_, value)| value.into())
    }

    #[test]
    fn a_proxy_that_cannot_be_read_is_refused_by_the_name_of_its_variable() {
        for value in [
            "http://[::1",
            "ftp://127.0.0.1:1",
            "http://u:p w@127.0.0.1:1",
            "http://127.0.0.1:99999",
            "http://127.0.0.1:0",
            "http://127.0.0.1:",
            "http://user:secret@",
            "http://user:sec@ret@proxy:3128",
            "http:/proxy:3128",
            "http//proxy:3128",
            "://proxy",
            "http://",
            " http://proxy:3128",
            "http://proxy:3128\n",
            "http://proxy:31a8",
        ] {
            for name in ["HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"] {
                let refused = checked(read(&[(name, value)])).unwrap_err();
                assert_eq!(refused.kind, FaultKind::Invalid);
                assert!(refused.message.contains(name), "{}", refused.message);
                assert!(!refused.message.contains("sec"), "{}", refused.message);
            }
        }
    }

    #[test]
    fn what_http_reads_is_taken_and_what_does_not_count_is_not_looked_at() {
        for value in [
            "http://proxy:3128",
            "https://user:p%40ss@proxy.example:3129/",
            "proxy:3128",
            "proxy",
            "user:secret@proxy:3128",
            "http://[::1]:3128",
            "socks5h://127.0.0.1:1080",
            "",
        ] {
            assert!(checked(read(&[("HTTP_PROXY", value), ("all_proxy", value)])).is_ok(), "{value}");
            if !value.is_empty() {
                let matcher = Matcher::builder().all(value).build();
                assert!(
                    matcher.intercept(&Uri::from_static("http://h")).is_some(),
                    "{value} is read by others, too"
                );
            }
        }
        let good = "http://proxy:1";
        let shadowed = [
            ("HTTP_PROXY", good),
            ("http_proxy", "ftp://x"),
            ("HTTPS_PROXY", good),
            ("ALL_PROXY", "ftp://x"),
        ];
        assert!(checked(read(&shadowed)).is_ok());
        assert!(checked(read(&[("REQUEST_METHOD", "GET"), ("HTTP_PROXY", "ftp://x")])).is_ok());
    }
}
