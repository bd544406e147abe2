//! A test client: one HTTP/1.1 connection per request, no redirects, no retries.

use std::convert::Infallible;
use std::io::Write as _;
use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use futures::channel::mpsc;
use http::{HeaderMap, Method, Request, StatusCode};
use http_body::Frame;
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tidegate_dev::Server;
use tokio::net::TcpStream;
use tokio::task::JoinHandle;

pub(crate) const K256: usize = 256 * 1024;
/// The longest that a test waits.
const PATIENCE: Duration = Duration::from_secs(30);

#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Answer {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8(self.body.to_vec()).unwrap()
    }

    /// Asserts the status.
    #[track_caller]
    pub(crate) fn is(self, status: u16) -> Self {
        assert_eq!(self.status, status, "{}", String::from_utf8_lossy(&self.body));
        self
    }

    /// Asserts a 308 that reports this many persisted bytes.
    #[track_caller]
    pub(crate) fn has(self, persisted: usize) {
        let answer = self.is(308);
        let expected = (persisted > 0).then(|| format!("bytes=0-{}", persisted.saturating_sub(1)));
        assert_eq!(answer.header("range"), expected.as_deref());
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Client {
    addr: SocketAddr,
}

pub(crate) type Headers<'a> = &'a [(&'a str, &'a str)];

impl Client {
    /// A client of this server, which must have the bucket `bucket`.
    pub(crate) fn of(server: &Server) -> Self {
        Self { addr: server.addr() }
    }

    async fn exchange(&self, request: Request<BoxBody<Bytes, Broken>>) -> Result<Answer, String> {
        let sent = async {
            let stream = TcpStream::connect(self.addr).await.map_err(|error| error.to_string())?;
            let (mut sender, connection) =
                http1::handshake(TokioIo::new(stream)).await.map_err(|error| error.to_string())?;
            let driver = tokio::spawn(connection);
            let answer = sender.send_request(request).await.map_err(|error| error.to_string())?;
            let (parts, body) = answer.into_parts();
            let body = body.collect().await.map_err(|error| error.to_string())?.to_bytes();
            driver.abort();
            Ok(Answer { status: parts.status.as_u16(), headers: parts.headers, body })
        };
        tokio::time::timeout(PATIENCE, sent).await.expect("the server does not answer")
    }

    fn request(
        &self,
        method: Method,
        uri: &str,
        headers: Headers<'_>,
        body: BoxBody<Bytes, Broken>,
    ) -> Request<BoxBody<Bytes, Broken>> {
        let path = uri.strip_prefix(&format!("http://{}", self.addr)).unwrap_or(uri);
        let mut request = Request::builder().method(method).uri(path).header("host", self.addr.to_string());
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        request.body(body).unwrap()
    }

    /// Sends a request whose connection may be cut.
    pub(crate) async fn attempt(
        &self,
        method: &str,
        uri: &str,
        headers: Headers<'_>,
        body: impl Into<Bytes>,
    ) -> Result<Answer, String> {
        let body = Full::new(body.into()).map_err(|never: Infallible| match never {}).boxed();
        let method = Method::from_bytes(method.as_bytes()).unwrap();
        self.exchange(self.request(method, uri, headers, body)).await
    }

    pub(crate) async fn send(
        &self,
        method: &str,
        uri: &str,
        headers: Headers<'_>,
        body: impl Into<Bytes>,
    ) -> Answer {
        self.attempt(method, uri, headers, body).await.unwrap()
    }

    pub(crate) async fn get(&self, uri: &str) -> Answer {
        self.send("GET", uri, &[], "").await
    }

    /// Reads an object.
    pub(crate) async fn read(&self, key: &str) -> Bytes {
        self.get(&format!("/storage/v1/b/bucket/o/{key}?alt=media")).await.is(200).body
    }

    /// Uploads an object in one request.
    pub(crate) async fn put(&self, key: &str, body: impl Into<Bytes>) -> Answer {
        let uri = format!("/upload/storage/v1/b/bucket/o?uploadType=media&name={key}");
        self.send("POST", &uri, &[], body).await
    }

    /// Opens a session; `more` is appended to the query.
    pub(crate) async fn start(&self, key: &str, more: &str, headers: Headers<'_>, json: &str) -> String {
        let uri = format!("/upload/storage/v1/b/bucket/o?uploadType=resumable&name={key}{more}");
        let answer = self.send("POST", &uri, headers, json.to_owned()).await.is(200);
        answer.header("location").unwrap().to_owned()
    }

    /// Sends a chunk to a session, with this `Content-Range`.
    pub(crate) async fn chunk(&self, session: &str, range: &str, body: impl Into<Bytes>) -> Answer {
        self.send("PUT", session, &[("content-range", range)], body).await
    }

    pub(crate) async fn query(&self, session: &str) -> Answer {
        self.chunk(session, "bytes */*", "").await
    }

    /// Starts a request whose body is sent bit by bit, with chunked transfer encoding.
    pub(crate) fn stream(&self, session: &str, headers: Headers<'_>) -> Stream {
        let (sender, receiver) = mpsc::channel(1);
        let body = BodyExt::boxed(StreamBody::new(receiver));
        let request = self.request(Method::PUT, session, headers, body);
        let client = self.clone();
        let answer = tokio::spawn(async move { client.exchange(request).await });
        Stream { sender, answer }
    }
}

/// The sender broke the body off.
#[derive(Debug, thiserror::Error)]
#[error("broken off")]
pub(crate) struct Broken;

/// A request whose body is still being sent.
pub(crate) struct Stream {
    sender: mpsc::Sender<Result<Frame<Bytes>, Broken>>,
    answer: JoinHandle<Result<Answer, String>>,
}

impl Stream {
    pub(crate) async fn push(&mut self, bytes: impl Into<Bytes>) {
        let sent = futures::SinkExt::send(&mut self.sender, Ok(Frame::data(bytes.into())));
        tokio::time::timeout(PATIENCE, sent).await.expect("the server takes nothing").unwrap();
    }

    /// Waits for an answer that arrives before the body's end.
    pub(crate) async fn early_answer(self) -> Result<Answer, String> {
        let answer = self.answer.await.unwrap();
        drop(self.sender);
        answer
    }

    /// Ends the body and waits for the answer.
    pub(crate) async fn end(self) -> Result<Answer, String> {
        drop(self.sender);
        self.answer.await.unwrap()
    }

    /// Breaks the body off.
    pub(crate) async fn break_off(mut self) {
        // The server may already have cut the connection.
        let _ = futures::SinkExt::send(&mut self.sender, Err(Broken)).await;
        self.answer.await.unwrap().expect_err("the request was answered");
    }
}

/// Random bytes, which repeat after 1 MiB.
pub(crate) fn bytes(length: usize) -> Bytes {
    let mut random = fastrand::Rng::with_seed(length as u64);
    let block: Vec<u8> = (0..length.min(1 << 20)).map(|_| random.u8(..)).collect();
    block.iter().copied().cycle().take(length).collect::<Vec<u8>>().into()
}

/// A server with the bucket `bucket`.
pub(crate) async fn server() -> (Server, Client) {
    let server = Server::builder().start().await.unwrap();
    server.create_bucket("bucket").unwrap();
    let client = Client::of(&server);
    (server, client)
}

/// Waits until this many bytes are persisted: a stream's bytes are persisted some time after they are sent.
pub(crate) async fn until_persisted(client: &Client, session: &str, least: usize) {
    let asking = async {
        loop {
            let answer = client.query(session).await.is(StatusCode::PERMANENT_REDIRECT.as_u16());
            let last = answer.header("range").and_then(|range| range.strip_prefix("bytes=0-")?.parse().ok());
            if last.is_some_and(|last: usize| last + 1 >= least) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(PATIENCE, asking).await.expect("the bytes are not persisted");
}

/// Waits until the server has received this many bytes in total: bytes just sent may still be in flight.
pub(crate) async fn until_received(server: &Server, total: u64) {
    let waiting = async {
        while server.counts().bytes_in < total {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    tokio::time::timeout(PATIENCE, waiting).await.expect("the bytes do not arrive");
}

/// Compresses a body, as some clients do.
pub(crate) fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}
