//! Sends one HTTP request and returns its answer once the headers have arrived.

use std::sync::Arc;
use std::{fmt, io};

use bytes::Bytes;
use http::uri::Scheme;
use http::{HeaderMap, HeaderValue, Method, Request, StatusCode, Uri, Version, header};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};
use hyper::body::{Body, Incoming};
use hyper_util::client::legacy;
use hyper_util::client::legacy::connect::capture_connection;
use hyper_util::client::proxy::matcher::Matcher;

use super::dialer::{Dialer, ProxyRefusal, authority};
use super::late::{Heard, WatchedBody, Work, watched};
use super::{AGENT, unanswered};
use tidegate_core::backend::{Fault, FaultKind};
use tidegate_core::types::telemetry;

/// The headers that stores name a request by.
const REQUEST_IDS: [&str; 3] = ["x-amz-request-id", "x-guploader-uploadid", "x-ms-request-id"];

/// The body of a request; empty by default.
pub type Sending = UnsyncBoxBody<Bytes, io::Error>;
/// An answer with its headers; the body arrives as it is read.
pub type Response = http::Response<Incoming>;

/// A body of these bytes.
pub fn sending(bytes: Bytes) -> Sending {
    Full::new(bytes).map_err(|never| match never {}).boxed_unsync()
}

/// Sends requests over connections that it opens and may keep. Does not follow redirects and does not decompress
/// bodies: an object arrives as it is stored.
#[derive(Clone)]
pub struct Client {
    http: legacy::Client<Dialer, WatchedBody>,
    proxies: Option<Arc<Matcher>>,
    /// How the endpoint has answered so far; shared by all its clients.
    heard: Arc<Heard>,
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").finish_non_exhaustive()
    }
}

impl Client {
    /// Uses the connections that `http` opens. A request through one of `proxies` carries that proxy's credentials.
    pub fn new(
        http: legacy::Client<Dialer, WatchedBody>,
        proxies: Option<Arc<Matcher>>,
        heard: Arc<Heard>,
    ) -> Self {
        Self { http, proxies, heard }
    }

    /// Sends a request. Dropping the future before the answer's headers arrive cancels the request, and over HTTP/1.1
    /// closes its connection.
    pub async fn send(
        &self,
        method: Method,
        url: String,
        mut headers: HeaderMap,
        body: Sending,
        work: Work,
    ) -> Result<Response, Fault> {
        let uri = Uri::try_from(url).map_err(|error| {
            Fault::new(FaultKind::Invalid, format!("no request can go there: {error}")).with_source(error)
        })?;
        // No `Accept` header: without it, any type is acceptable (RFC 9110, 12.5.1).
        headers.insert(header::USER_AGENT, HeaderValue::from_static(AGENT));
        // For https the dialer gives the credentials to the proxy when it opens the tunnel.
        let proxy = self.proxies.as_ref().filter(|_| uri.scheme() == Some(&Scheme::HTTP));
        let proxy = proxy.and_then(|proxies| proxies.intercept(&uri));
        if let Some(auth) = proxy.as_ref().and_then(|proxy| proxy.basic_auth()) {
            headers.insert(header::PROXY_AUTHORIZATION, auth.clone());
        }
        let (body, wait) = watched(body);
        let mut request = Request::new(body);
        *request.method_mut() = method;
        *request.uri_mut() = uri.clone();
        *request.headers_mut() = headers;
        let at = authority(&uri);
        let connection =
            (request.body().size_hint().exact() != Some(0)).then(|| capture_connection(&mut request));
        let sent = wait.answered(self.http.request(request), &self.heard, &at, work).await;
        let response = sent.map_err(|error| unanswered::fault(error, Some(&at)))?;
        let id = REQUEST_IDS.iter().find_map(|name| response.headers().get(*name)?.to_str().ok());
        if let Some(id) = id {
            telemetry::request_id(id);
        }
        if let Some(connection) = connection
            && may_be_closed(&response)
            && let Some(connected) = &*connection.connection_metadata()
        {
            connected.poison();
        }
        if let Some(proxy) = proxy
            && response.status() == StatusCode::PROXY_AUTHENTICATION_REQUIRED
        {
            return Err(unanswered::refused(&ProxyRefusal::unknown(proxy.uri())));
        }
        Ok(response)
    }
}

/// Whether the server may close the connection after this answer to a request with a body, without having said so. MinIO
/// refuses a condition before it has read the body, answers, and closes: the next request of the connection would get no
/// answer, and whether a write was carried out would be unknown.
fn may_be_closed(response: &Response) -> bool {
    let status = response.status();
    response.version() <= Version::HTTP_11
        && status.is_client_error()
        && status != StatusCode::TOO_MANY_REQUESTS
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;
    use tokio::time::timeout;

    use crate::{Connector, Version};

    use super::*;

    #[tokio::test]
    async fn a_connection_is_left_once_a_body_was_refused_on_it() {
        const REQUESTS: usize = 3;
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let server = tokio::spawn(async move {
            let mut kept = Vec::new();
            for _ in 0..REQUESTS {
                let (mut stream, _) = listener.accept().await.unwrap();
                let (mut request, mut byte) = (Vec::new(), [0]);
                while !request.ends_with(b"\r\n\r\nabc") {
                    stream.read_exact(&mut byte).await.unwrap();
                    request.extend(byte);
                }
                let answer = b"HTTP/1.1 412 Precondition Failed\r\ncontent-length: 0\r\n\r\n";
                stream.write_all(answer).await.unwrap();
                kept.push(stream);
            }
            kept
        });
        let client = Connector::new(&url, Duration::from_secs(1), None, Version::One).unwrap().client(4);
        for _ in 0..REQUESTS {
            let (url, body) = (format!("{url}/k"), sending("abc".into()));
            let sent = client.send(Method::PUT, url, HeaderMap::new(), body, Work::Little);
            let response = timeout(Duration::from_secs(5), sent).await.expect("a new connection").unwrap();
            assert_eq!(response.status(), StatusCode::PRECONDITION_FAILED);
            response.into_body().collect().await.unwrap();
        }
        drop(client);
        for mut stream in server.await.unwrap() {
            assert_eq!(stream.read(&mut [0]).await.unwrap(), 0, "another request on this connection");
        }
    }

    #[tokio::test]
    async fn what_is_no_address_is_not_tried_again() {
        let timeout = Duration::from_secs(1);
        let client = Connector::new("http://127.0.0.1:1", timeout, None, Version::One).unwrap().client(0);
        let sent = client.send(
            Method::GET,
            "http://h/a b".into(),
            HeaderMap::new(),
            Sending::default(),
            Work::Little,
        );
        let fault = sent.await.unwrap_err();
        assert_eq!(fault.kind, FaultKind::Invalid);
        assert!(fault.message.starts_with("no request can go there: "), "{}", fault.message);
    }
}
