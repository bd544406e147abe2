//! Data, servers and checks that the tests of several backends share.

use std::io::Write as _;
use std::ops::Range;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use futures::TryStreamExt;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::backend::{Attempt, Backend, Body, Fault, FaultKind};
use crate::memory::budget::{Budget, Slab};
use crate::memory::payload::{Payload, Ring, SourceFile};
use crate::testkit;
use crate::types::checksum::{Algorithm, Checksum};

pub const MIB: usize = 1 << 20;

pub fn bytes_of(len: usize) -> Vec<u8> {
    testkit::bytes::bytes_of(len as u64, 0)
}

pub fn memory_of(data: &[u8], algorithm: Algorithm) -> Payload {
    let pieces = data.chunks(100_000).map(Bytes::copy_from_slice).collect();
    Payload::from_memory(pieces, Checksum::of(algorithm, data))
}

/// A file on disk, and payloads that read it through two small slabs.
pub struct OnDisk {
    pub file: tempfile::NamedTempFile,
    source: Arc<SourceFile>,
    ring: Ring,
}

impl OnDisk {
    pub async fn new(data: &[u8]) -> Self {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(data).unwrap();
        let source = Arc::new(SourceFile::open(file.path()).unwrap());
        let budget = Budget::new(1 << 20, 64 << 10);
        let slabs = vec![
            Slab::new(budget.lease(64 << 10).await.unwrap()),
            Slab::new(budget.lease(64 << 10).await.unwrap()),
        ];
        Self { file, source, ring: Ring::new(slabs) }
    }

    pub fn payload(&self, range: Range<usize>) -> Payload {
        self.payload_of(range, Algorithm::Crc64Nvme)
    }

    pub fn payload_of(&self, range: Range<usize>, algorithm: Algorithm) -> Payload {
        let len = range.len() as u64;
        Payload::from_file(self.source.clone(), range.start as u64, len, self.ring.clone(), algorithm)
    }
}

pub async fn read_back(store: &impl Backend, key: &str, range: Option<Range<u64>>) -> Vec<u8> {
    collect(store.get(key, range, None, Attempt::FIRST).await.unwrap()).await
}

/// The bytes of a body, which must be as many as it says.
pub async fn collect(body: Body) -> Vec<u8> {
    let expected = body.range.end - body.range.start;
    let pieces: Vec<Bytes> = body.stream.try_collect().await.unwrap();
    let all = pieces.concat();
    assert_eq!(all.len() as u64, expected);
    all
}

pub async fn kind<T>(answer: impl Future<Output = Result<T, Fault>>) -> (FaultKind, String) {
    match answer.await {
        Ok(_) => panic!("it succeeded"),
        Err(fault) => (fault.kind, fault.message),
    }
}

/// The methods of the requests that a raw server has received.
pub type Asked = Arc<Mutex<Vec<String>>>;

/// Starts a server that passes each request's head to `answer` and sends back its result. Returns its URL, and the
/// methods of the requests received.
pub async fn raw_server(answer: impl Fn(&str) -> String + Send + Sync + 'static) -> (String, Asked) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let (answer, asked) = (Arc::new(answer), Asked::default());
    let log = asked.clone();
    tokio::spawn(async move {
        while let Ok((socket, _)) = listener.accept().await {
            tokio::spawn(serve(socket, answer.clone(), log.clone()));
        }
    });
    (url, asked)
}

/// A response with these header lines and this body, with its content length.
pub fn said(status: &str, headers: &str, body: &str) -> String {
    format!("HTTP/1.1 {status}\r\n{headers}content-length: {}\r\n\r\n{body}", body.len())
}

/// The page that a proxy or a captive portal sends for every request.
pub fn login_page() -> String {
    said("200 OK", "content-type: text/html\r\n", "<!doctype html><html><body>Please log in</body></html>")
}

/// Bodies of 2xx responses that report an error, and the kind of each.
pub const ERRORS: [(&str, FaultKind); 8] = [
    (r#"{"error":{"code":403,"message":"no"}}"#, FaultKind::Denied),
    (r#"{"error":{"code":503}}"#, FaultKind::Throttled),
    (r#"{"error":{"code":"500"}}"#, FaultKind::Transient),
    (r#"{"error":"quota exceeded"}"#, FaultKind::Transient),
    (r#"{"error":"Forbidden","statusCode":403}"#, FaultKind::Denied),
    ("<?xml version='1.0'?><Error><Code>AccessDenied</Code><Message>no</Message></Error>", FaultKind::Denied),
    ("<ErrorResponse xmlns='x'><Error><Code>AccessDenied</Code></Error></ErrorResponse>", FaultKind::Denied),
    ("<Error><Code>SlowDown</Code></Error>", FaultKind::Throttled),
];

/// Bodies of a 2xx response to a removal that are neither an error document nor a store's answer.
pub const STRANGE: [&str; 5] =
    ["<LoginPage/>", "<Ok/>", r#"{"message":"login"}"#, "[]", "<!doctype html><html>Please log in</html>"];

/// Checks the outcome of removals for answers to the removal and to the question whether the object is there. `gone` is the
/// store's own answer that the object is not there, `there` that it is. `removes` removes an object at a server that gives the
/// answers, and returns whether that succeeded.
pub async fn removals_are_proven<F: Future<Output = bool>>(
    gone: String,
    there: String,
    removes: impl Fn(Box<dyn Fn(&str) -> String + Send + Sync>) -> F,
) {
    let page = || said("404 Not Found", "content-type: text/html\r\n", "<html>nginx</html>");
    let mut cases = vec![
        (said("204 No Content", "", ""), login_page(), true),
        (said("200 OK", "", ""), login_page(), true),
        (said("200 OK", "", "null"), login_page(), true),
        (gone.clone(), login_page(), true),
        // Nothing proves that a store sent these.
        (login_page(), said("404 Not Found", "", ""), false),
        (page(), login_page(), false),
        (said("302 Found", "location: http://login/\r\n", ""), gone.clone(), false),
    ];
    for body in STRANGE {
        cases.push((said("200 OK", "", body), gone.clone(), true));
        cases.push((said("200 OK", "", body), there.clone(), false));
    }
    cases.push((said("200 OK", "", ERRORS[0].0), gone, false));
    for (deleted, head, is_removed) in cases {
        let shown = format!("{deleted} {head}");
        let answer =
            move |asked: &str| if asked.starts_with("delete") { deleted.clone() } else { head.clone() };
        assert_eq!(removes(Box::new(answer)).await, is_removed, "{shown}");
    }
}

/// The value of a request's header.
pub fn header_of(head: &str, name: &str) -> Option<String> {
    let named = |line: &str| Some(line.strip_prefix(name)?.strip_prefix(": ")?.to_owned());
    head.lines().find_map(named)
}

/// The next request's head in lower case, the size of the head, and the size of the body; `None` if the connection
/// has ended.
pub async fn next_head(
    socket: &mut (impl AsyncRead + Unpin),
    held: &mut Vec<u8>,
) -> Option<(String, usize, usize)> {
    let end = loop {
        if let Some(at) = held.windows(4).position(|four| four == b"\r\n\r\n") {
            break at + 4;
        }
        if socket.read_buf(held).await.unwrap_or(0) == 0 {
            return None;
        }
    };
    let head = String::from_utf8_lossy(&held[..end]).to_lowercase();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
    let body = length.map_or(0, |length| length.parse().unwrap());
    Some((head, end, body))
}

async fn serve(mut socket: TcpStream, answer: Arc<impl Fn(&str) -> String>, asked: Asked) {
    let mut held = Vec::new();
    while let Some((head, end, body)) = next_head(&mut socket, &mut held).await {
        while held.len() < end + body {
            if socket.read_buf(&mut held).await.unwrap_or(0) == 0 {
                return;
            }
        }
        held.drain(..end + body);
        asked.lock().unwrap().push(head.split(' ').next().unwrap_or_default().to_uppercase());
        let said = answer(&head);
        // A body without a length ends with the connection.
        let is_last = said.starts_with("HTTP/1.0") || said.contains("connection: close\r\n");
        if socket.write_all(said.as_bytes()).await.is_err() || is_last {
            return;
        }
    }
}
