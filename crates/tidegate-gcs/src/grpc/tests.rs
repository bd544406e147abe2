//! Hand-written responses that the embedded server never gives, but that Google or a proxy may.

use std::sync::Mutex;
use std::time::Duration;

use bytes::Bytes;
use futures::stream::BoxStream;
use futures::{StreamExt, TryStreamExt, stream};
use http::{HeaderMap, HeaderValue, Request, Response, StatusCode};
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use prost::Message;
use tokio::net::TcpListener;
use tokio::sync::{Notify, mpsc};
use tokio::time::timeout;

use super::*;
use crate::{Gcs, GcsCredentials, GcsSettings, GcsTransport};
use tidegate_core::backend::{Append, Appended, Attempt, Backend, Feature, Session};
use tidegate_core::memory::payload::Unending;
use tidegate_core::testkit::samples::{bytes_of, kind, memory_of, raw_server};
use tidegate_core::types::checksum::{Algorithm, Checksum};

/// The calls that a server received: path, headers and body of each.
type Calls = Arc<Mutex<Vec<(String, HeaderMap, Bytes)>>>;

/// A response: the HTTP status, the frames of the messages, and the final gRPC status, if any.
type Answer = (StatusCode, Vec<Bytes>, Option<&'static str>);

/// A bucket at a server that responds with `answer`.
async fn raw(answer: impl Fn(&str) -> Answer + Send + Sync + 'static) -> (Gcs, Calls) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let (answer, calls) = (Arc::new(answer), Calls::default());
    let log = calls.clone();
    tokio::spawn(async move {
        while let Ok((socket, _)) = listener.accept().await {
            let (answer, log) = (answer.clone(), log.clone());
            let service = service_fn(move |request: Request<Incoming>| {
                let (answer, log) = (answer.clone(), log.clone());
                async move {
                    let (parts, body) = request.into_parts();
                    let path = parts.uri.path().to_owned();
                    let body = body.collect().await?.to_bytes();
                    let (status, messages, end) = answer(path.rsplit('/').next().unwrap());
                    log.lock().unwrap().push((path, parts.headers, body));
                    let trailers = end.map(|code| {
                        let mut trailers = HeaderMap::new();
                        trailers.insert("grpc-status", HeaderValue::from_static(code));
                        Frame::trailers(trailers)
                    });
                    let frames =
                        messages.into_iter().map(Frame::data).chain(trailers).map(Ok::<_, hyper::Error>);
                    let answer =
                        Response::builder().status(status).header("content-type", "application/grpc");
                    Ok::<_, hyper::Error>(answer.body(StreamBody::new(stream::iter(frames))).unwrap())
                }
            });
            tokio::spawn(async move {
                let server = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
                let _ = server.serve_connection(TokioIo::new(socket), service).await;
            });
        }
    });
    (at(&url, GcsCredentials::token("secret")).await, calls)
}

async fn at(url: &str, credentials: GcsCredentials) -> Gcs {
    let settings = GcsSettings::default()
        .with_endpoint_url(url)
        .with_credentials(credentials)
        .with_transport(GcsTransport::Grpc);
    Gcs::connect("some_bucket", &settings).await.unwrap()
}

fn described(size: usize) -> proto::Object {
    proto::Object { name: "k".into(), size: size as i64, generation: 7, ..proto::Object::default() }
}

/// The frames of a read of `data` in two messages, the first with half of the bytes; `missing` bytes are cut off.
fn read(data: &[u8], crc32c: impl Fn(&[u8]) -> u32, missing: usize) -> Vec<Bytes> {
    let content_range =
        proto::ContentRange { start: 0, end: data.len() as i64, complete_length: data.len() as i64 };
    let (first, rest) = data[..data.len() - missing].split_at(data.len() / 2);
    let data_of = |bytes: &[u8]| proto::ChecksummedData {
        content: Bytes::copy_from_slice(bytes),
        crc32c: Some(crc32c(bytes)),
    };
    let first = proto::ReadObjectResponse {
        checksummed_data: Some(data_of(first)),
        content_range: Some(content_range),
        metadata: Some(described(data.len())),
        ..proto::ReadObjectResponse::default()
    };
    let rest = proto::ReadObjectResponse {
        checksummed_data: Some(data_of(rest)),
        ..proto::ReadObjectResponse::default()
    };
    vec![frame::whole(&first), frame::whole(&rest)]
}

fn sum(bytes: &[u8]) -> u32 {
    convert::crc32c(&Checksum::of(Algorithm::Crc32c, bytes))
}

#[tokio::test]
async fn a_call_says_who_asks_and_of_which_bucket() {
    let (store, calls) = raw(|_| (StatusCode::OK, vec![frame::whole(&described(3))], Some("0"))).await;
    assert_eq!(store.head("a/b", Attempt::FIRST).await.unwrap().version.as_deref(), Some("7"));
    let calls = calls.lock().unwrap();
    let (path, headers, body) = &calls[0];
    assert_eq!(path, "/google.storage.v2.Storage/GetObject");
    assert_eq!(headers["x-goog-request-params"], "bucket=projects%2F_%2Fbuckets%2Fsome_bucket");
    assert_eq!(
        (&headers["authorization"], &headers["te"]),
        (&"Bearer secret".parse().unwrap(), &"trailers".parse().unwrap())
    );
    assert_eq!(headers["content-type"], "application/grpc");
    let asked = proto::GetObjectRequest::decode(&body[5..]).unwrap();
    assert_eq!((&*asked.bucket, &*asked.object), ("projects/_/buckets/some_bucket", "a/b"));
}

#[tokio::test]
async fn an_object_is_sent_with_the_checksum_of_each_message_and_of_the_whole() {
    let (store, calls) = raw(|_| {
        let resource = proto::write_object_response::WriteStatus::Resource(described(5 << 20));
        let answer = proto::WriteObjectResponse { write_status: Some(resource) };
        (StatusCode::OK, vec![frame::whole(&answer)], Some("0"))
    })
    .await;
    let data = bytes_of(5 << 20);
    store
        .put("k", memory_of(&data, Algorithm::Crc32c), &WriteOptions::default(), Attempt::FIRST)
        .await
        .unwrap();
    let calls = calls.lock().unwrap();
    let (mut body, mut messages) = (calls[0].2.clone(), Vec::new());
    while !body.is_empty() {
        let head = body.split_to(5);
        let length = u32::from_be_bytes(head[1..].try_into().unwrap());
        messages.push(proto::WriteObjectRequest::decode(body.split_to(length as usize)).unwrap());
    }
    let mut whole = Vec::new();
    for (at, message) in messages.iter().enumerate() {
        assert_eq!((message.write_offset, message.first_message.is_some()), (whole.len() as i64, at == 0));
        let Some(proto::write_object_request::Data::ChecksummedData(data)) = &message.data else {
            panic!("no data")
        };
        assert_eq!(data.crc32c, Some(sum(&data.content)));
        whole.extend_from_slice(&data.content);
        let last = at == 2;
        let expected = last.then(|| sum(&whole));
        assert_eq!(
            (message.finish_write, message.object_checksums.as_ref().and_then(|sums| sums.crc32c)),
            (last, expected)
        );
    }
    assert!(messages.len() == 3 && whole == data);
}

#[tokio::test]
async fn what_is_read_is_what_its_checksums_say_and_all_of_it() {
    let data = bytes_of(3000);
    let read_with = async |messages: Vec<Bytes>, end| {
        let (store, _) = raw(move |_| (StatusCode::OK, messages.clone(), end)).await;
        store.get("k", None, None, Attempt::FIRST).await?.stream.try_collect::<Vec<_>>().await
    };
    assert!(read_with(read(&data, sum, 0), Some("0")).await.unwrap().concat() == data);
    let bent = |bytes: &[u8]| sum(bytes) ^ u32::from(bytes[0] != data[0]);
    assert_eq!(kind(read_with(read(&data, bent, 0), Some("0"))).await.0, FaultKind::Integrity);
    for end in [Some("0"), None] {
        let (fewer, said) = kind(read_with(read(&data, sum, 9), end)).await;
        assert_eq!(fewer, FaultKind::Transient, "{said}");
    }
    let (ended, said) = kind(read_with(read(&data, sum, 9), Some("14"))).await;
    assert_eq!(ended, FaultKind::Throttled, "{said}");
}

#[tokio::test]
async fn an_answer_that_says_nothing_may_have_been_carried_out() {
    let (store, _) = raw(|_| (StatusCode::OK, Vec::new(), Some("0"))).await;
    let payload = || memory_of(b"1", Algorithm::Crc32c);
    let fault = store.put("k", payload(), &WriteOptions::default(), Attempt::FIRST).await.unwrap_err();
    assert!(fault.is_ambiguous(), "{fault:?}");
    // A message that is followed by an error status is an error.
    let (store, _) = raw(|_| (StatusCode::OK, vec![frame::whole(&described(1))], Some("7"))).await;
    assert_eq!(kind(store.head("k", Attempt::FIRST)).await.0, FaultKind::Denied);
    let (store, _) = raw(|_| {
        let empty = proto::QueryWriteStatusResponse { write_status: None };
        (StatusCode::OK, vec![frame::whole(&empty)], Some("0"))
    })
    .await;
    let session = Session { key: "k".into(), id: "grpc:x".into() };
    assert!(matches!(store.position(&session, Attempt::FIRST).await, Err(fault) if fault.is_ambiguous()));
    let negative = proto::query_write_status_response::WriteStatus::PersistedSize(-1);
    let (store, _) = raw(move |_| {
        let answer = proto::QueryWriteStatusResponse { write_status: Some(negative.clone()) };
        (StatusCode::OK, vec![frame::whole(&answer)], Some("0"))
    })
    .await;
    let stands: Result<Appended, Fault> = store.position(&session, Attempt::FIRST).await;
    assert_eq!(stands.unwrap_err().kind, FaultKind::Transient);
}

#[tokio::test]
async fn what_does_not_speak_grpc_is_told() {
    let (store, _) = raw(|_| (StatusCode::BAD_GATEWAY, Vec::new(), None)).await;
    let fault = store
        .put("k", memory_of(b"1", Algorithm::Crc32c), &WriteOptions::default(), Attempt::FIRST)
        .await
        .unwrap_err();
    assert!(
        fault.kind == FaultKind::Transient && !fault.answered && fault.message.contains("HTTP 502"),
        "{fault}"
    );
    let (store, _) = raw(|_| (StatusCode::NOT_FOUND, Vec::new(), None)).await;
    let (kind_of, said) = kind(store.head("k", Attempt::FIRST)).await;
    assert!(kind_of == FaultKind::Unsupported && said.contains("does not speak gRPC"), "{said}");
    // A server that speaks only HTTP/1.1 does not understand the request at all.
    let (url, _) = raw_server(|_| "HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n".into()).await;
    let fault = at(&url, GcsCredentials::anonymous()).await.head("k", Attempt::FIRST).await.unwrap_err();
    assert!(fault.message.contains("HTTP/2"), "{fault:?}");
}

/// What a server does with a call after it took in one window of the body.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Then {
    /// Sends response headers, and takes in the rest when it is notified.
    HeadFirst,
    /// Sends nothing before it has the rest.
    Rest,
    /// Sends response headers, and never takes in the rest.
    HeadOnly,
}

/// A bucket at a server that stalls in the middle of each call, the `Notify` that lets the server continue, and
/// the number of bytes that the server received of each call in the end.
async fn standing_still(then: Then) -> (Gcs, Arc<Notify>, mpsc::UnboundedReceiver<usize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let (ended, ends) = mpsc::unbounded_channel();
    let go_on = Arc::new(Notify::new());
    let goes_on = go_on.clone();
    tokio::spawn(async move {
        while let Ok((socket, _)) = listener.accept().await {
            let (goes_on, ended) = (goes_on.clone(), ended.clone());
            let service = service_fn(move |request: Request<Incoming>| {
                let (goes_on, ended) = (goes_on.clone(), ended.clone());
                async move {
                    let rest = async move {
                        goes_on.notified().await;
                        let (mut body, mut had) = (request.into_body(), 0);
                        while let Some(Ok(frame)) = body.frame().await {
                            had += frame.into_data().map_or(0, |data| data.len());
                        }
                        ended.send(had).unwrap();
                    };
                    let body = match then {
                        Then::Rest => {
                            rest.await;
                            StreamBody::new(stream::empty().boxed())
                        }
                        _ => {
                            tokio::spawn(rest);
                            StreamBody::new(stream::pending().boxed())
                        }
                    };
                    let answer = Response::builder().header("content-type", "application/grpc");
                    Ok::<_, hyper::Error>(
                        answer
                            .body::<StreamBody<BoxStream<Result<Frame<Bytes>, hyper::Error>>>>(body)
                            .unwrap(),
                    )
                }
            });
            tokio::spawn(async move {
                let mut server = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
                server.initial_stream_window_size(65_535).initial_connection_window_size(65_535);
                let _ = server.serve_connection(TokioIo::new(socket), service).await;
            });
        }
    });
    (at(&url, GcsCredentials::anonymous()).await, go_on, ends)
}

#[tokio::test]
async fn what_nobody_waits_for_any_more_is_not_published() {
    let data = bytes_of(3_000_000);
    let session = Session { key: "k".into(), id: "grpc:x".into() };
    let whole = Checksum::of(Algorithm::Crc32c, &data);
    for then in [Then::HeadFirst, Then::Rest] {
        for is_append in [false, true] {
            let (store, go_on, mut ends) = standing_still(then).await;
            let payload =
                Payload::from_memory(data.chunks(10_000).map(Bytes::copy_from_slice).collect(), whole);
            let sent = async {
                if is_append {
                    store.append(&session, 0, payload, Some(&whole), Attempt::FIRST).await.map(|_| ())
                } else {
                    store.put("k", payload, &WriteOptions::default(), Attempt::FIRST).await.map(|_| ())
                }
            };
            timeout(Duration::from_millis(200), sent).await.unwrap_err();
            go_on.notify_one();
            let had = timeout(Duration::from_secs(10), ends.recv()).await.unwrap().unwrap();
            // The window, and the bytes that were in buffers.
            assert!(had < 200_000, "{then:?} {is_append}: {had}");
        }
    }
}

/// Bytes whose channel closes when their last owner drops them.
struct Lent(Vec<u8>, #[expect(dead_code, reason = "closed with it")] mpsc::Sender<()>);

impl AsRef<[u8]> for Lent {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

#[tokio::test]
async fn a_stream_that_is_given_up_while_the_store_takes_nothing_has_no_bytes_in_hand() {
    let (store, _go_on, _ends) = standing_still(Then::HeadOnly).await;
    let session = Session { key: "k".into(), id: "grpc:x".into() };
    let (giver, bytes) = Unending::new();
    let (lent, mut home) = mpsc::channel(1);
    let give = async {
        for _ in 0..3 {
            giver.give(Bytes::from_owner(Lent(bytes_of(1 << 20), lent.clone()))).await.unwrap();
        }
        std::future::pending::<()>().await;
    };
    let streamed = async { tokio::join!(store.stream(&session, 0, bytes, Attempt::FIRST), give) };
    timeout(Duration::from_millis(200), streamed).await.unwrap_err();
    drop(lent);
    assert_eq!(timeout(Duration::from_secs(10), home.recv()).await, Ok(None));
}

#[tokio::test]
async fn a_connection_that_is_forgotten_is_not_used_again() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let sockets = tokio::spawn(async move {
        let (first, _) = listener.accept().await.unwrap();
        let (second, _) = listener.accept().await.unwrap();
        (first, second)
    });
    let store = at(&url, GcsCredentials::anonymous()).await;
    for _ in 0..2 {
        timeout(Duration::from_millis(200), store.head("k", Attempt::FIRST)).await.unwrap_err();
    }
    timeout(Duration::from_secs(10), sockets).await.unwrap().unwrap();
}

#[tokio::test]
async fn an_answer_without_its_end_is_none() {
    let data = bytes_of(3000);
    let messages = read(&data, sum, 0);
    let (store, _) = raw(move |_| (StatusCode::OK, messages.clone(), None)).await;
    let body = store.get("k", None, None, Attempt::FIRST).await.unwrap();
    let (of_read, said) = kind(body.stream.try_collect::<Vec<_>>()).await;
    assert_eq!(of_read, FaultKind::Transient, "{said}");
    let (store, _) = raw(|_| (StatusCode::OK, vec![frame::whole(&described(3))], None)).await;
    let fault = store.head("k", Attempt::FIRST).await.unwrap_err();
    assert!(fault.kind == FaultKind::Transient && !fault.answered, "{fault:?}");
}

#[tokio::test]
async fn what_cant_be_read_is_not_the_stores_word() {
    let too_large = Bytes::from_static(b"\x00\xff\xff\xff\xff");
    let garbage = Bytes::from_static(b"\x00\x00\x00\x00\x02\xff\xff");
    let compressed = Bytes::from_static(b"\x01\x00\x00\x00\x02\xff\xff");
    for (answer, expected) in [
        (too_large, FaultKind::Unsupported),
        (garbage, FaultKind::Transient),
        (compressed, FaultKind::Transient),
    ] {
        let (store, _) = raw(move |_| (StatusCode::OK, vec![answer.clone()], Some("0"))).await;
        let fault = store.head("k", Attempt::FIRST).await.unwrap_err();
        assert!(fault.kind == expected && !fault.answered, "{fault:?}");
    }
}

/// As over HTTP: an emulator may ignore the condition of a write.
#[tokio::test]
async fn a_write_looks_at_its_key_first_where_the_server_may_ignore_the_condition() {
    let options = WriteOptions { create_only: true, token: Some("t".into()), ..WriteOptions::default() };
    for is_there in [true, false] {
        for write in [Feature::CreateOnly, Feature::CreateOnlyParts] {
            let (store, calls) = raw(move |call| match call {
                "GetObject" if is_there => (StatusCode::OK, vec![frame::whole(&described(3))], Some("0")),
                "GetObject" => (StatusCode::OK, Vec::new(), Some("5")),
                _ => (StatusCode::OK, Vec::new(), Some("9")), // FAILED_PRECONDITION
            })
            .await;
            let payload = || memory_of(b"1", Algorithm::Crc32c);
            let written = async || match write {
                Feature::CreateOnly => store.put("k", payload(), &options, Attempt::FIRST).await.map(drop),
                _ => Append::open(&store, "k", &options, Attempt::FIRST).await.map(drop),
            };
            let written_by = if write == Feature::CreateOnly { "WriteObject" } else { "StartResumableWrite" };
            // A refusal of the server's own shows that it keeps the condition.
            let expected = match is_there {
                true => [&["GetObject"][..], &["GetObject"]],
                false => [&["GetObject", written_by][..], &[written_by]],
            };
            for expected in expected {
                assert_eq!(kind(written()).await.0, FaultKind::Exists);
                let calls = std::mem::take(&mut *calls.lock().unwrap());
                let calls: Vec<&str> =
                    calls.iter().map(|(path, ..)| path.rsplit('/').next().unwrap()).collect();
                assert_eq!(calls, expected, "{write:?} {is_there}");
            }
        }
    }
}
