//! Why there is no answer: from an HTTP client's nested errors to one clause.

use std::error::Error;
use std::io;

use super::innermost;
use crate::backend::{Fault, FaultKind};

/// The fault of a request that got no answer, or not all of it.
pub(in crate::backend) fn fault(error: reqwest::Error) -> Fault {
    let at = error.url().map(authority).unwrap_or_else(|| "the store".to_owned());
    let mut kind = FaultKind::Transient;
    let message = if let Some(tls) = find::<rustls::Error>(&error) {
        match tls {
            rustls::Error::InvalidCertificate(why) => {
                kind = FaultKind::Invalid;
                format!(
                    "the certificate of {at} is not trusted ({why}): name its authority's file in SSL_CERT_FILE, \
                     or for S3 in AWS_CA_BUNDLE"
                )
            }
            rustls::Error::InvalidMessage(_) => {
                kind = FaultKind::Invalid;
                format!("{at} does not speak TLS: its address may begin with http://")
            }
            other => format!("TLS with {at} failed: {other}"),
        }
    } else if let Some(why) = find::<io::Error>(&error) {
        match why.kind() {
            io::ErrorKind::ConnectionRefused => format!("connection refused by {at}"),
            io::ErrorKind::ConnectionReset
            | io::ErrorKind::ConnectionAborted
            | io::ErrorKind::BrokenPipe
            | io::ErrorKind::UnexpectedEof => format!("{at} closed the connection"),
            io::ErrorKind::TimedOut => {
                kind = FaultKind::Timeout;
                format!("no answer from {at} in time")
            }
            _ => format!("no connection with {at}: {}", innermost(&error)),
        }
    } else if error.is_timeout() {
        kind = FaultKind::Timeout;
        if error.is_connect() {
            format!("no connection with {at} in time")
        } else {
            format!("no answer from {at} in time")
        }
    } else {
        format!("the connection with {at} failed: {}", innermost(&error))
    };
    if error.is_connect() && kind.is_ambiguous() {
        kind = FaultKind::Unreachable;
    }
    Fault::new(kind, message).with_source(error.without_url())
}

fn authority(url: &url::Url) -> String {
    let host = url.host_str().unwrap_or_default();
    match url.port_or_known_default() {
        Some(port) => format!("{host}:{port}"),
        None => host.to_owned(),
    }
}

/// The innermost cause of a type, also where an `io::Error` wraps it.
fn find<'a, T: Error + 'static>(error: &'a (dyn Error + 'static)) -> Option<&'a T> {
    let mut found = None;
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(error) = error.downcast_ref::<T>() {
            found = Some(error);
        }
        next = match error.downcast_ref::<io::Error>().and_then(io::Error::get_ref) {
            Some(inner) => Some(inner as &(dyn Error + 'static)),
            None => error.source(),
        };
    }
    found
}
