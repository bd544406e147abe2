//! `google.storage.v2` over gRPC, with the generated client.

use std::time::{Duration, Instant};

use bytes::Bytes;
use futures::{SinkExt, StreamExt, stream};
use googleapis_tonic_google_storage_v2::google::storage::v2::storage_client::StorageClient;
use googleapis_tonic_google_storage_v2::google::storage::v2::*;
use hyper_util::client::legacy::Client as Hyper;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use tidegate_dev::{Bandwidth, Delay, FaultAction, FaultRule, Knobs, Server};
use tonic::{Code, Streaming};

use crate::client::{Client, K256, bytes, server, until_persisted, until_received};

type Grpc = StorageClient<Hyper<HttpConnector, tonic::body::Body>>;

const BUCKET: &str = "projects/_/buckets/bucket";
const MIB2: usize = 2 * 1024 * 1024;

fn grpc(server: &Server) -> Grpc {
    let http = Hyper::builder(TokioExecutor::new()).http2_only(true).build_http();
    StorageClient::with_origin(http, server.endpoint().parse().unwrap())
}

async fn start() -> (Server, Client, Grpc) {
    let (server, client) = server().await;
    let grpc = grpc(&server);
    (server, client, grpc)
}

fn spec(key: &str) -> WriteObjectSpec {
    let resource = Object {
        name: key.to_owned(),
        bucket: BUCKET.to_owned(),
        content_type: "text/x".to_owned(),
        metadata: [("a".to_owned(), "b".to_owned())].into(),
        ..Object::default()
    };
    WriteObjectSpec { resource: Some(resource), ..WriteObjectSpec::default() }
}

fn data(content: Bytes) -> ChecksummedData {
    let crc32c = Some(crc_fast::checksum(crc_fast::CrcAlgorithm::Crc32Iscsi, &content) as u32);
    ChecksummedData { content, crc32c }
}

fn message(offset: usize, content: Bytes) -> WriteObjectRequest {
    use write_object_request::Data;
    WriteObjectRequest {
        write_offset: offset as i64,
        data: Some(Data::ChecksummedData(data(content))),
        ..WriteObjectRequest::default()
    }
}

fn of_session(id: &str) -> Option<write_object_request::FirstMessage> {
    Some(write_object_request::FirstMessage::UploadId(id.to_owned()))
}

fn of_object(spec: WriteObjectSpec) -> Option<write_object_request::FirstMessage> {
    Some(write_object_request::FirstMessage::WriteObjectSpec(spec))
}

/// The messages that send these bytes, starting at this offset.
fn messages(
    first: Option<write_object_request::FirstMessage>,
    offset: usize,
    body: &Bytes,
    is_finished: bool,
) -> Vec<WriteObjectRequest> {
    let mut place = offset;
    let mut messages: Vec<WriteObjectRequest> = body
        .chunks(MIB2)
        .map(|piece| {
            let message = message(place, body.slice_ref(piece));
            place += piece.len();
            message
        })
        .collect();
    if messages.is_empty() {
        messages.push(message(offset, Bytes::new()));
    }
    messages[0].first_message = first;
    messages.last_mut().unwrap().finish_write = is_finished;
    messages
}

async fn write(
    grpc: &mut Grpc,
    messages: Vec<WriteObjectRequest>,
) -> Result<WriteObjectResponse, tonic::Status> {
    Ok(grpc.write_object(stream::iter(messages)).await?.into_inner())
}

fn resource(answer: WriteObjectResponse) -> Object {
    match answer.write_status.unwrap() {
        write_object_response::WriteStatus::Resource(object) => object,
        other => panic!("not finished: {other:?}"),
    }
}

fn persisted(answer: WriteObjectResponse) -> usize {
    match answer.write_status.unwrap() {
        write_object_response::WriteStatus::PersistedSize(size) => size as usize,
        other => panic!("finished: {other:?}"),
    }
}

async fn open(grpc: &mut Grpc, spec: WriteObjectSpec) -> String {
    let request = StartResumableWriteRequest { write_object_spec: Some(spec), ..Default::default() };
    grpc.start_resumable_write(request).await.unwrap().into_inner().upload_id
}

async fn query(grpc: &mut Grpc, id: &str) -> Result<query_write_status_response::WriteStatus, Code> {
    let request = QueryWriteStatusRequest { upload_id: id.to_owned(), ..Default::default() };
    let answer = grpc.query_write_status(request).await.map_err(|status| status.code())?;
    Ok(answer.into_inner().write_status.unwrap())
}

async fn has(grpc: &mut Grpc, id: &str, size: usize) {
    let status = query(grpc, id).await.unwrap();
    assert_eq!(status, query_write_status_response::WriteStatus::PersistedSize(size as i64));
}

#[tokio::test]
async fn an_object_is_written_and_read_in_one_stream() {
    let (server, client, mut grpc) = start().await;
    let body = bytes(5 * MIB2 + 17);
    let made = resource(write(&mut grpc, messages(of_object(spec("k")), 0, &body, true)).await.unwrap());
    assert_eq!((made.size, made.content_type.as_str()), (body.len() as i64, "text/x"));
    assert_eq!((made.bucket.as_str(), made.metageneration), (BUCKET, 1));
    assert_eq!(client.read("k").await, body);
    let request = GetObjectRequest { bucket: BUCKET.into(), object: "k".into(), ..Default::default() };
    let shown = grpc.get_object(request).await.unwrap().into_inner();
    assert_eq!(shown, made);

    let request = |read_offset, read_limit| ReadObjectRequest {
        bucket: BUCKET.into(),
        object: "k".into(),
        read_offset,
        read_limit,
        ..Default::default()
    };
    let size = body.len();
    for (offset, limit, expected) in [
        (0, 0, 0..size),
        (100, 5, 100..105),
        (-5, 3, size - 5..size - 2),
        (-(size as i64) - 9, 0, 0..size),
        (size as i64, 0, size..size),
    ] {
        let mut answers = grpc.read_object(request(offset, limit)).await.unwrap().into_inner();
        let head = answers.message().await.unwrap().unwrap();
        assert_eq!(head.metadata.unwrap(), made);
        assert_eq!(head.object_checksums, made.checksums);
        let range = head.content_range.unwrap();
        assert_eq!((range.start, range.end), (expected.start as i64, expected.end as i64));
        let mut read = Vec::new();
        while let Some(answer) = answers.message().await.unwrap() {
            let piece = answer.checksummed_data.unwrap();
            assert_eq!(piece, data(piece.content.clone()));
            read.extend_from_slice(&piece.content);
        }
        assert_eq!(read, body[expected]);
    }
    let behind = grpc.read_object(request(size as i64 + 1, 0)).await.unwrap_err();
    assert_eq!(behind.code(), Code::OutOfRange);
    let counts = server.counts();
    assert_eq!((counts.get("storage.v2.WriteObject"), counts.get("storage.v2.ReadObject")), (1, 6));
    assert_eq!(counts.failed("storage.v2.ReadObject"), 1);
}

#[tokio::test]
async fn sessions_are_the_same_over_http_and_grpc() {
    let (server, client, mut grpc) = start().await;
    let body = bytes(4 * K256 + 3);
    let id = open(&mut grpc, spec("k")).await;
    has(&mut grpc, &id, 0).await;
    let answer =
        write(&mut grpc, messages(of_session(&id), 0, &body.slice(..2 * K256), false)).await.unwrap();
    assert_eq!(persisted(answer), 2 * K256);
    has(&mut grpc, &id, 2 * K256).await;
    let uri = format!("/upload/storage/v1/b/bucket/o?upload_id={id}");
    client.query(&uri).await.has(2 * K256);
    client.chunk(&uri, "bytes 524288-786431/*", body.slice(2 * K256..3 * K256)).await.has(3 * K256);
    // Starts before the persisted end: those bytes are skipped.
    let end = messages(of_session(&id), K256, &body.slice(K256..), true);
    let made = resource(write(&mut grpc, end.clone()).await.unwrap());
    assert_eq!(made.metadata["a"], "b");
    assert_eq!(client.read("k").await, body);
    let again = resource(write(&mut grpc, end).await.unwrap());
    assert_eq!(again, made);
    assert_eq!(
        query(&mut grpc, &id).await.unwrap(),
        query_write_status_response::WriteStatus::Resource(made)
    );
    client.query(&uri).await.is(200);
    assert_eq!(server.counts().get("storage.v2.QueryWriteStatus"), 3);
}

#[tokio::test]
async fn writes_that_are_wrong_publish_nothing() {
    let (_server, client, mut grpc) = start().await;
    let body = bytes(K256);
    let code = |result: Result<WriteObjectResponse, tonic::Status>| result.unwrap_err().code();

    let mut wrong_crc = messages(of_object(spec("k")), 0, &body, true);
    if let Some(write_object_request::Data::ChecksummedData(data)) = &mut wrong_crc[0].data {
        data.crc32c = Some(1);
    }
    assert_eq!(code(write(&mut grpc, wrong_crc).await), Code::InvalidArgument);
    let mut wrong_whole = messages(of_object(spec("k")), 0, &body, true);
    wrong_whole[0].object_checksums = Some(ObjectChecksums { crc32c: Some(1), ..Default::default() });
    assert_eq!(code(write(&mut grpc, wrong_whole).await), Code::InvalidArgument);
    let unfinished = messages(of_object(spec("k")), 0, &body, false);
    assert_eq!(code(write(&mut grpc, unfinished).await), Code::InvalidArgument);
    let sized = WriteObjectSpec { object_size: Some(5), ..spec("k") };
    assert_eq!(code(write(&mut grpc, messages(of_object(sized), 0, &body, true)).await), Code::OutOfRange);
    assert_eq!(code(write(&mut grpc, messages(None, 0, &body, true)).await), Code::InvalidArgument);
    let large =
        vec![WriteObjectRequest { first_message: of_object(spec("k")), ..message(0, bytes(MIB2 + 1)) }];
    assert_eq!(code(write(&mut grpc, large).await), Code::InvalidArgument);
    let appendable = WriteObjectSpec { appendable: Some(true), ..spec("k") };
    assert_eq!(
        code(write(&mut grpc, messages(of_object(appendable), 0, &body, true)).await),
        Code::Unimplemented
    );
    let mut elsewhere = spec("k");
    elsewhere.resource.as_mut().unwrap().bucket = "projects/_/buckets/none".into();
    assert_eq!(code(write(&mut grpc, messages(of_object(elsewhere), 0, &body, true)).await), Code::NotFound);

    let id = open(&mut grpc, spec("k")).await;
    let ahead = messages(of_session(&id), K256, &body, false);
    assert_eq!(code(write(&mut grpc, ahead).await), Code::OutOfRange);
    let odd = messages(of_session(&id), 0, &bytes(K256 + 1), false);
    assert_eq!(code(write(&mut grpc, odd).await), Code::InvalidArgument);
    let mut torn = messages(of_session(&id), 0, &body, false);
    torn.push(message(3 * K256, body.clone()));
    assert_eq!(code(write(&mut grpc, torn).await), Code::OutOfRange);
    has(&mut grpc, &id, K256).await;
    client.get("/storage/v1/b/bucket/o/k").await.is(404);
}

#[tokio::test]
async fn conditions_hold_at_the_end() {
    let (_server, client, mut grpc) = start().await;
    let create = || WriteObjectSpec { if_generation_match: Some(0), ..spec("k") };
    let id = open(&mut grpc, create()).await;
    client.put("k", "other").await.is(200);
    let refused = write(&mut grpc, messages(of_session(&id), 0, &bytes(9), true)).await.unwrap_err();
    assert_eq!(refused.code(), Code::FailedPrecondition);
    let refused = write(&mut grpc, messages(of_object(create()), 0, &bytes(9), true)).await.unwrap_err();
    assert_eq!(refused.code(), Code::FailedPrecondition);
    assert_eq!(client.read("k").await, "other");
    let delete = |generation| DeleteObjectRequest {
        bucket: BUCKET.into(),
        object: "k".into(),
        if_generation_match: Some(generation),
        ..Default::default()
    };
    assert_eq!(grpc.delete_object(delete(7)).await.unwrap_err().code(), Code::FailedPrecondition);
    let get = GetObjectRequest { bucket: BUCKET.into(), object: "k".into(), ..Default::default() };
    let generation = grpc.get_object(get.clone()).await.unwrap().into_inner().generation;
    grpc.delete_object(delete(generation)).await.unwrap();
    assert_eq!(grpc.get_object(get).await.unwrap_err().code(), Code::NotFound);
}

#[tokio::test]
async fn a_cancelled_write_is_gone() {
    let (_server, _client, mut grpc) = start().await;
    let id = open(&mut grpc, spec("k")).await;
    let cancel = CancelResumableWriteRequest { upload_id: id.clone() };
    grpc.cancel_resumable_write(cancel.clone()).await.unwrap();
    assert_eq!(grpc.cancel_resumable_write(cancel).await.unwrap_err().code(), Code::NotFound);
    assert_eq!(query(&mut grpc, &id).await.unwrap_err(), Code::NotFound);
    assert_eq!(query(&mut grpc, "none").await.unwrap_err(), Code::NotFound);
}

#[tokio::test]
async fn listings_have_pages() {
    let (_server, client, mut grpc) = start().await;
    for key in ["a", "b%2F1", "b%2F2", "c"] {
        client.put(key, "x").await.is(200);
    }
    let mut request = ListObjectsRequest { parent: BUCKET.into(), page_size: 2, ..Default::default() };
    request.delimiter = "/".to_owned();
    let first = grpc.list_objects(request.clone()).await.unwrap().into_inner();
    assert_eq!((first.objects[0].name.as_str(), first.prefixes.as_slice()), ("a", &["b/".to_owned()][..]));
    request.page_token = first.next_page_token;
    let second = grpc.list_objects(request).await.unwrap().into_inner();
    assert_eq!((second.objects[0].name.as_str(), second.next_page_token.as_str()), ("c", ""));
    let wrong = ListObjectsRequest { parent: "bucket".into(), ..Default::default() };
    assert_eq!(grpc.list_objects(wrong).await.unwrap_err().code(), Code::InvalidArgument);
}

struct Bidi {
    sender: futures::channel::mpsc::Sender<BidiWriteObjectRequest>,
    answers: Streaming<BidiWriteObjectResponse>,
}

impl Bidi {
    async fn open(grpc: &mut Grpc, first: BidiWriteObjectRequest) -> Self {
        let (mut sender, receiver) = futures::channel::mpsc::channel(4);
        sender.send(first).await.unwrap();
        let answers = grpc.bidi_write_object(receiver).await.unwrap().into_inner();
        Self { sender, answers }
    }

    async fn send(&mut self, offset: usize, content: Bytes) -> &mut Self {
        self.sender.send(bidi(offset, content)).await.unwrap();
        self
    }

    async fn persisted(&mut self) -> usize {
        use bidi_write_object_response::WriteStatus;
        match self.answers.message().await.unwrap().unwrap().write_status.unwrap() {
            WriteStatus::PersistedSize(size) => size as usize,
            other => panic!("finished: {other:?}"),
        }
    }
}

fn bidi(offset: usize, content: Bytes) -> BidiWriteObjectRequest {
    use bidi_write_object_request::Data;
    BidiWriteObjectRequest {
        write_offset: offset as i64,
        data: Some(Data::ChecksummedData(data(content))),
        ..Default::default()
    }
}

#[tokio::test]
async fn a_stream_both_ways_tells_how_far_it_is() {
    use bidi_write_object_request::FirstMessage;
    let (_server, client, mut grpc) = start().await;
    let body = bytes(3 * K256 + 50);
    let id = open(&mut grpc, spec("k")).await;
    let first = BidiWriteObjectRequest {
        first_message: Some(FirstMessage::UploadId(id.clone())),
        state_lookup: true,
        ..bidi(0, body.slice(..K256))
    };
    let mut stream = Bidi::open(&mut grpc, first).await;
    // Not flushed: any number of bytes up to those sent may be persisted.
    assert!(stream.persisted().await <= K256);
    let flushed = BidiWriteObjectRequest {
        flush: true,
        state_lookup: true,
        ..bidi(K256, body.slice(K256..2 * K256 + 10))
    };
    stream.sender.send(flushed).await.unwrap();
    assert_eq!(stream.persisted().await, 2 * K256, "whole grains");
    stream.send(2 * K256 + 10, body.slice(2 * K256 + 10..3 * K256)).await;
    drop(stream.sender);
    let end = stream.answers.message().await.unwrap().unwrap().write_status.unwrap();
    assert_eq!(end, bidi_write_object_response::WriteStatus::PersistedSize(3 * K256 as i64));
    assert!(stream.answers.message().await.unwrap().is_none());
    client.get("/storage/v1/b/bucket/o/k").await.is(404);

    let last = BidiWriteObjectRequest {
        first_message: Some(FirstMessage::UploadId(id)),
        finish_write: true,
        ..bidi(3 * K256, body.slice(3 * K256..))
    };
    let mut stream = Bidi::open(&mut grpc, last).await;
    let end = stream.answers.message().await.unwrap().unwrap().write_status.unwrap();
    assert!(
        matches!(end, bidi_write_object_response::WriteStatus::Resource(object) if object.size == body.len() as i64)
    );
    assert_eq!(client.read("k").await, body);
}

#[tokio::test]
async fn a_flush_is_answered_when_it_is_committed_and_holds_up_nothing() {
    use bidi_write_object_request::FirstMessage;
    let (server, _client, mut grpc) = start().await;
    let id = open(&mut grpc, spec("k")).await;
    server.set_knobs(Knobs { commit_latency: Delay::FixedMs(1500.0), ..Knobs::default() });
    let flushed = |at: usize| BidiWriteObjectRequest {
        flush: true,
        state_lookup: true,
        ..bidi(at * K256, bytes(K256))
    };
    let began = Instant::now();
    let first = BidiWriteObjectRequest { first_message: Some(FirstMessage::UploadId(id)), ..flushed(0) };
    let mut stream = Bidi::open(&mut grpc, first).await;
    for at in 1..4 {
        stream.sender.send(flushed(at)).await.unwrap();
    }
    for at in 1..=4 {
        assert_eq!(stream.persisted().await, at * K256);
    }
    // One after the other, the flushes would take 6 s.
    let seconds = began.elapsed().as_secs_f64();
    assert!((1.5..4.5).contains(&seconds), "four flushes took {seconds} s");
}

#[tokio::test]
async fn each_body_is_paced_on_a_connection_that_several_share() {
    let (server, _client, mut grpc) = start().await;
    let bandwidth = Bandwidth { stream_in: Some(1_000_000), ..Bandwidth::default() };
    server.set_knobs(Knobs { bandwidth, ..Knobs::default() });
    let began = Instant::now();
    let body = bytes(2 * K256);
    let mut other = grpc.clone();
    let one = write(&mut grpc, messages(of_object(spec("one")), 0, &body, true));
    let two = write(&mut other, messages(of_object(spec("two")), 0, &body, true));
    let (one, two) = tokio::join!(one, two);
    assert_eq!((resource(one.unwrap()).size, resource(two.unwrap()).size), (524_288, 524_288));
    let seconds = began.elapsed().as_secs_f64();
    assert!(seconds >= 0.4, "twice 524 kB at 1 MB/s each took {seconds} s");
    assert_eq!(server.counts().connections, 1);
}

#[tokio::test]
async fn a_broken_stream_keeps_whole_grains() {
    let (server, client, mut grpc) = start().await;
    let id = open(&mut grpc, spec("k")).await;
    let uri = format!("/upload/storage/v1/b/bucket/o?upload_id={id}");
    let before = server.counts().bytes_in;
    let half = messages(of_session(&id), 0, &bytes(2 * K256), false);
    let pending = stream::iter(half).chain(stream::pending());
    let writing = tokio::spawn(async move { grpc.write_object(pending).await });
    until_received(&server, before + 2 * K256 as u64).await;
    writing.abort();
    until_persisted(&client, &uri, 2 * K256).await;
}

#[tokio::test]
async fn the_latest_stream_has_the_session() {
    let (server, _client, mut grpc) = start().await;
    let id = open(&mut grpc, spec("k")).await;
    let (mut sender, receiver) = futures::channel::mpsc::channel(4);
    let before = server.counts().bytes_in;
    sender.send(messages(of_session(&id), 0, &bytes(K256), false).remove(0)).await.unwrap();
    let mut other = grpc.clone();
    let lost = tokio::spawn(async move { other.write_object(receiver).await });
    until_received(&server, before + K256 as u64).await;
    has(&mut grpc, &id, 0).await;
    resource(write(&mut grpc, messages(of_session(&id), 0, &bytes(9), true)).await.unwrap());
    drop(sender);
    let late = tokio::time::timeout(Duration::from_secs(30), lost).await.unwrap().unwrap();
    assert_eq!(late.unwrap_err().code(), Code::Aborted);
}

#[tokio::test]
async fn knobs_are_for_grpc_as_well() {
    let (server, client, mut grpc) = start().await;
    let set = |operation: &str, action: FaultAction| {
        server.set_knobs(Knobs {
            faults: vec![FaultRule::new(operation, action).times(1)],
            ..Knobs::default()
        });
    };
    let body = bytes(5 * MIB2);
    set(
        "storage.v2.StartResumableWrite",
        FaultAction::Error { status: 503, code: "backendError".into(), retry_after: None },
    );
    let request = StartResumableWriteRequest { write_object_spec: Some(spec("k")), ..Default::default() };
    assert_eq!(grpc.start_resumable_write(request).await.unwrap_err().code(), Code::Unavailable);

    let id = open(&mut grpc, spec("k")).await;
    let uri = format!("/upload/storage/v1/b/bucket/o?upload_id={id}");
    let refusal =
        FaultAction::ErrorAfter { after_bytes: 2 * MIB2 as u64 + 1000, status: 503, code: "x".into() };
    set("storage.v2.WriteObject", refusal);
    let refused = write(&mut grpc, messages(of_session(&id), 0, &body, true)).await.unwrap_err();
    assert_eq!(refused.code(), Code::Unavailable);
    client.query(&uri).await.has(2 * MIB2);

    let cut = FaultAction::ResetRequest { after_bytes: 2 * MIB2 as u64 };
    set("storage.v2.WriteObject", cut);
    write(&mut grpc, messages(of_session(&id), 2 * MIB2, &body.slice(2 * MIB2..), true)).await.unwrap_err();
    until_persisted(&client, &uri, 3 * MIB2).await;
    client.query(&uri).await.has(3 * MIB2);

    set("storage.v2.WriteObject", FaultAction::LoseAnswer);
    write(&mut grpc, messages(of_session(&id), 3 * MIB2, &body.slice(3 * MIB2..), true)).await.unwrap_err();
    assert_eq!(client.read("k").await, body);
    assert_eq!(server.counts().failed("storage.v2.WriteObject"), 3);
}

#[tokio::test]
async fn what_is_not_there_is_unimplemented() {
    let (_server, _client, mut grpc) = start().await;
    let request = ComposeObjectRequest::default();
    assert_eq!(grpc.compose_object(request).await.unwrap_err().code(), Code::Unimplemented);
}

#[tokio::test]
async fn the_server_stops_whatever_stalls() {
    let (server, client, mut grpc) = start().await;
    let stall =
        |operation: &str| FaultRule::new(operation, FaultAction::Stall { after_bytes: 1, ms: 600_000.0 });
    let faults = vec![stall("storage.resumable.append"), stall("storage.v2.WriteObject")];
    server.set_knobs(Knobs { faults, ..Knobs::default() });
    let over_http = client.start("k", "", &[], "").await;
    let over_grpc = open(&mut grpc, spec("k")).await;
    let mut stream = client.stream(&over_http, &[("content-range", "bytes 0-*/*")]);
    stream.push(bytes(K256)).await;
    // The server reads the first message before it knows the operation, so the stall can only hit later
    // messages.
    let messages = stream::iter(messages(of_session(&over_grpc), 0, &bytes(2 * MIB2), true));
    let writing = tokio::spawn(async move { grpc.write_object(messages).await });
    let both = async {
        while server.counts().get("storage.resumable.append") + server.counts().get("storage.v2.WriteObject")
            < 2
        {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), both).await.expect("the requests do not arrive");
    tokio::time::timeout(Duration::from_secs(30), server.stop()).await.expect("the server does not stop");
    writing.await.unwrap().unwrap_err();
    stream.break_off().await;
}

#[tokio::test]
async fn a_refusal_says_why_and_when_to_come_again() {
    use googleapis_tonic_google_rpc::google::rpc;
    use prost::Message;
    let (server, _client, mut grpc) = start().await;
    let mut refused = async |code: &str, retry_after| {
        let action = FaultAction::Error { status: 503, code: code.to_owned(), retry_after };
        server.set_knobs(Knobs { faults: vec![FaultRule::new("*", action)], ..Knobs::default() });
        let request = GetObjectRequest { bucket: BUCKET.into(), object: "k".into(), ..Default::default() };
        let status = grpc.get_object(request).await.unwrap_err();
        assert_eq!(status.code(), Code::Unavailable);
        rpc::Status::decode(status.details()).unwrap().details
    };
    let details = refused("backendError", Some(7)).await;
    let kinds: Vec<&str> = details.iter().map(|detail| detail.type_url.as_str()).collect();
    assert_eq!(
        kinds,
        ["type.googleapis.com/google.rpc.ErrorInfo", "type.googleapis.com/google.rpc.RetryInfo"]
    );
    assert_eq!(rpc::ErrorInfo::decode(&*details[0].value).unwrap().reason, "backendError");
    let delay = rpc::RetryInfo::decode(&*details[1].value).unwrap().retry_delay.unwrap();
    assert_eq!(delay.seconds, 7);
    assert!(refused("", None).await.is_empty(), "as something on the way says it");
}
