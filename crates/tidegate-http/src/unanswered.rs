//! Turns an HTTP client's nested errors into one clause that says why there is no answer.

use std::error::Error;
use std::io;

use hyper_util::client::legacy;

use super::dialer::{ProxyRefusal, Unreached};
use super::innermost;
use tidegate_core::backend::{Fault, FaultKind};

/// The fault of a request that a proxy refuses to forward.
pub fn refused(refusal: &ProxyRefusal) -> Fault {
    Fault::new(FaultKind::Invalid, refusal.to_string())
}

/// The fault of a request to `at` that got no answer, or only part of one.
pub fn fault(error: impl Error + Send + Sync + 'static, at: Option<&str>) -> Fault {
    if let Some(refusal) = find::<ProxyRefusal>(&error) {
        return refused(refusal).with_source(error);
    }
    // `Unreached` names the proxy if that is what could not be reached.
    let unreached = find::<Unreached>(&error).map(|unreached| unreached.at.as_str());
    let at = unreached.or(at).unwrap_or("the store");
    // This error occurs only before the answer has begun.
    let unsent = find::<legacy::Error>(&error);
    let is_connect = unsent.is_some_and(legacy::Error::is_connect);
    if unsent.is_some() && !is_connect && is_no_http(&error) {
        let message =
            format!("the answer is not an object store's: what {at} sent is not HTTP: {}", innermost(&error));
        return Fault::new(FaultKind::NotAStore, message).with_source(error);
    }
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
    if (is_connect || unsent.is_some_and(is_unprocessed)) && kind.is_ambiguous() {
        kind = FaultKind::Unreachable;
    }
    let fault = Fault::new(kind, message).with_source(error);
    // An untrusted certificate counts as a response: a retry gets the same.
    if kind == FaultKind::Invalid { fault } else { fault.with_no_response() }
}

/// Whether the server sent something that breaks the rules of HTTP: a malformed header, status line or frame. A retry
/// gets the same.
fn is_no_http(error: &(dyn Error + 'static)) -> bool {
    const BROKEN: [h2::Reason; 3] =
        [h2::Reason::PROTOCOL_ERROR, h2::Reason::FRAME_SIZE_ERROR, h2::Reason::COMPRESSION_ERROR];
    find::<hyper::Error>(error).is_some_and(hyper::Error::is_parse)
        || find::<h2::Error>(error).is_some_and(|why| {
            why.is_library() && why.reason().is_some_and(|reason| BROKEN.contains(&reason))
        })
}

/// Whether the server says that it did not process the request (RFC 9113, 8.7): it refused the request, or it had
/// already announced that it would close the connection.
fn is_unprocessed(error: &legacy::Error) -> bool {
    find::<h2::Error>(error).is_some_and(|why| {
        let reason = why.reason();
        let is_closing = why.is_go_away() && reason == Some(h2::Reason::NO_ERROR);
        why.is_remote() && (is_closing || why.is_reset() && reason == Some(h2::Reason::REFUSED_STREAM))
    })
}

fn is_timeout(error: &(dyn Error + 'static)) -> bool {
    find::<hyper::Error>(error).is_some_and(hyper::Error::is_timeout)
        || find::<io::Error>(error).is_some_and(|why| why.kind() == io::ErrorKind::TimedOut)
}

/// The innermost cause of type `T`, also inside an `io::Error`.
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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use http::{HeaderMap, Method};
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    use crate::{Connector, Sending, Version, Work};
    use tidegate_core::backend::{Fault, FaultKind};

    /// The fault of a request over HTTP/2 to a server that sends `frames` and no more.
    async fn answered(frames: &'static [u8]) -> FaultKind {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/k", listener.local_addr().unwrap());
        tokio::spawn(async move {
            let (mut socket, _) = listener.accept().await.unwrap();
            let mut heard = Vec::new();
            // The request's headers: a frame of the type 1 with an end of its block and of the stream, on stream 1.
            while !heard.windows(6).any(|six| six == [1, 5, 0, 0, 0, 1]) {
                assert_ne!(socket.read_buf(&mut heard).await.unwrap(), 0);
            }
            socket.write_all(&[0, 0, 0, 4, 0, 0, 0, 0, 0]).await.unwrap();
            socket.write_all(frames).await.unwrap();
            socket.shutdown().await.unwrap();
            // Hung up with something unread, what was sent could be lost.
            while socket.read_buf(&mut heard).await.is_ok_and(|read| read > 0) {}
        });
        let client = Connector::new(&url, Duration::from_secs(10), None, Version::Two).unwrap().client(0);
        let sent = client.send(Method::GET, url, HeaderMap::new(), Sending::default(), Work::Little);
        sent.await.unwrap_err().kind
    }

    /// The fault of a request over HTTP/1.1 that is answered with these bytes.
    async fn answered_with(answer: &'static [u8]) -> Fault {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/k", listener.local_addr().unwrap());
        tokio::spawn(async move {
            let (mut socket, _) = listener.accept().await.unwrap();
            let mut heard = Vec::new();
            while !heard.ends_with(b"\r\n\r\n") {
                assert_ne!(socket.read_buf(&mut heard).await.unwrap(), 0);
            }
            socket.write_all(answer).await.unwrap();
        });
        let client = Connector::new(&url, Duration::from_secs(10), None, Version::One).unwrap().client(0);
        let sent = client.send(Method::GET, url, HeaderMap::new(), Sending::default(), Work::Little);
        sent.await.unwrap_err()
    }

    #[tokio::test]
    async fn a_server_that_answers_with_what_is_not_http_was_reached() {
        for answer in [
            &b"HTTP/1.1 200 OK\r\nbad header\r\n\r\n"[..],
            b"HTTP/1.1 200 OK\r\nx: a\0b\r\ncontent-length: 0\r\n\r\n",
            b"HTTP/1.1 twohundred OK\r\n\r\n",
            b"SSH-2.0-OpenSSH_9.6\r\n",
            b"\x15\x03\x01\x00\x02\x02\x16",
        ] {
            let fault = answered_with(answer).await;
            let shown = String::from_utf8_lossy(answer);
            assert_eq!(fault.kind, FaultKind::NotAStore, "{shown}: {fault}");
            assert!(!fault.is_unreachable() && fault.message.contains("not HTTP"), "{shown}: {fault}");
        }
        // Nothing at all, and less than a head, is a connection that broke.
        for answer in [&b""[..], b"HTTP/1.1 200 OK\r\ncontent-"] {
            let fault = answered_with(answer).await;
            assert!(fault.kind == FaultKind::Transient && fault.is_unreachable(), "{fault}");
        }
    }

    #[tokio::test]
    async fn what_a_server_says_that_it_did_not_process_is_no_lost_answer() {
        let refused = answered(&[0, 0, 4, 3, 0, 0, 0, 0, 1, 0, 0, 0, 7]);
        assert_eq!(refused.await, FaultKind::Unreachable);
        let closing = answered(&[0, 0, 8, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(closing.await, FaultKind::Unreachable);
        // An error of its own, in the midst of the request.
        let failed = answered(&[0, 0, 4, 3, 0, 0, 0, 0, 1, 0, 0, 0, 2]);
        assert_eq!(failed.await, FaultKind::Transient);
        // It has closed, for an error or for none, and this request was among those that it may have processed.
        let broken = answered(&[0, 0, 8, 7, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 2]);
        assert_eq!(broken.await, FaultKind::Transient);
        let processed = answered(&[0, 0, 8, 7, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0]);
        assert_eq!(processed.await, FaultKind::Transient);
    }
}
