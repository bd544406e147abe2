//! Why there is no answer: from an HTTP client's nested errors to one clause.

use std::error::Error;
use std::io;

use hyper_util::client::legacy;

use super::dialer::Unreached;
use super::innermost;
use crate::backend::{Fault, FaultKind};

/// The fault of a request to `at` that got no answer, or not all of it.
pub(in crate::backend) fn fault(error: impl Error + Send + Sync + 'static, at: Option<&str>) -> Fault {
    // A proxy on the way has a name of its own.
    let unreached = find::<Unreached>(&error).map(|unreached| unreached.at.as_str());
    let at = unreached.or(at).unwrap_or("the store");
    let is_connect = find::<legacy::Error>(&error).is_some_and(legacy::Error::is_connect);
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
    } else if is_timeout(&error) {
        kind = FaultKind::Timeout;
        format!("no {} {at} in time", if is_connect { "connection with" } else { "answer from" })
    } else if let Some(why) = find::<io::Error>(&error) {
        match why.kind() {
            io::ErrorKind::ConnectionRefused => format!("connection refused by {at}"),
            io::ErrorKind::ConnectionReset
            | io::ErrorKind::ConnectionAborted
            | io::ErrorKind::BrokenPipe
            | io::ErrorKind::UnexpectedEof => format!("{at} closed the connection"),
            _ => format!("no connection with {at}: {}", innermost(&error)),
        }
    } else {
        format!("the connection with {at} failed: {}", innermost(&error))
    };
    if is_connect && kind.is_ambiguous() {
        kind = FaultKind::Unreachable;
    }
    Fault::new(kind, message).with_source(error)
}

fn is_timeout(error: &(dyn Error + 'static)) -> bool {
    find::<hyper::Error>(error).is_some_and(hyper::Error::is_timeout)
        || find::<io::Error>(error).is_some_and(|why| why.kind() == io::ErrorKind::TimedOut)
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
