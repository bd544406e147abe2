//! Makes every call: adds credentials and routing, sends the messages, and reads the answer.

use std::mem;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use http_body::Frame;
use percent_encoding::utf8_percent_encode;
use prost::Message;
use tonic::codec::Streaming;
use tonic::{Code, Status};
use tonic_prost::ProstDecoder;

use super::cancel_on_drop::{CancelOnDrop, Sent};
use super::channels::{CallConnection, Channels};
use super::fault::{refusal, unreadable};
use super::frame;
use crate::address::SEGMENT;
use crate::client::GcsShared;
use crate::credentials::Identity;
use crate::fault::About;
use tidegate_core::backend::{Attempt, Fault, FaultKind};
use tidegate_http::{AGENT, BodyFailure, Work, kind_of_status, source_fault, text, unanswered};

/// Size limit of one message, gRPC's default. Google sends 2 MiB of an object in one message.
const LONGEST_MESSAGE: usize = 4 << 20;

/// Makes calls about one bucket.
#[derive(Clone, Debug)]
pub(super) struct Caller {
    pub(super) shared: Arc<GcsShared>,
    pub(super) channels: Arc<Channels>,
    /// The URL up to the method's name.
    url: Arc<str>,
    /// Names the bucket, so that Google routes the call to the bucket's location.
    routing: HeaderValue,
}

/// The call that an answer belongs to.
#[derive(Debug)]
struct AnsweredCall {
    caller: Caller,
    about: About,
    identity: Identity,
    failure: BodyFailure,
}

/// The messages that answer a call.
#[derive(Debug)]
pub(super) struct Answers<A> {
    messages: Streaming<A>,
    heard: Heard,
    asked: AnsweredCall,
    /// Stops sending the request when the answer is dropped.
    _cancel_on_drop: CancelOnDrop,
}

/// How an answer ended; set by the reader of its body.
type Heard = Arc<Mutex<CallEnd>>;

#[derive(Debug)]
enum CallEnd {
    /// The answer has not ended.
    Open,
    /// The connection broke.
    Broken(Fault),
    /// The store ended the answer with this status.
    Said(Code),
}

/// An answer's bytes. Dropping it frees the connection for other calls.
struct Incoming {
    body: hyper::body::Incoming,
    heard: Heard,
    connection: CallConnection,
}

impl http_body::Body for Incoming {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        self.connection.is_waiting = true;
        let frame = ready!(Pin::new(&mut self.body).poll_frame(cx));
        let hear = |end| *self.heard.lock().unwrap_or_else(PoisonError::into_inner) = end;
        let frame = frame.map(|frame| {
            frame.map_err(|error| {
                hear(CallEnd::Broken(unanswered::fault(error, None)));
                Status::unknown("the connection broke")
            })
        });
        let trailers = frame.as_ref().and_then(|frame| frame.as_ref().ok()?.trailers_ref());
        if let Some(status) = trailers.and_then(Status::from_header_map) {
            hear(CallEnd::Said(status.code()));
        }
        self.connection.is_waiting = matches!(frame, Some(Err(_)));
        Poll::Ready(frame)
    }
}

impl Caller {
    pub(super) fn new(
        shared: Arc<GcsShared>,
        channels: Arc<Channels>,
        endpoint: &str,
        bucket: &str,
    ) -> Result<Self, Fault> {
        // AIP-4222: names and values are encoded as in a query.
        let routing = text(format!("bucket={}", utf8_percent_encode(bucket, SEGMENT)))?;
        let url = format!("{endpoint}/google.storage.v2.Storage/").into();
        Ok(Self { shared, channels, url, routing })
    }

    /// Makes a call with one message that has one message in answer.
    pub(super) async fn ask<A>(
        &self,
        method: &str,
        about: About,
        message: &impl Message,
        attempt: Attempt,
    ) -> Result<A, Fault>
    where
        A: Message + Default + 'static,
    {
        let mut answers =
            self.call(method, about, frame::whole(message), BodyFailure::default(), attempt).await?;
        answers.only().await
    }

    /// Makes a call that sends the messages in `sent`. If their source fails, `failure` holds the reason.
    pub(super) async fn call<A>(
        &self,
        method: &str,
        about: About,
        sent: impl Into<Sent>,
        failure: BodyFailure,
        attempt: Attempt,
    ) -> Result<Answers<A>, Fault>
    where
        A: Message + Default + 'static,
    {
        let Sent { body, cancel_on_drop, is_held } = sent.into();
        let identity = self.shared.keyring.identity().await?;
        let mut connection = self.channels.connection(is_held, attempt)?;
        let mut headers = HeaderMap::from_iter([
            (header::CONTENT_TYPE, HeaderValue::from_static("application/grpc")),
            (header::TE, HeaderValue::from_static("trailers")),
        ]);
        headers.insert("x-goog-request-params", self.routing.clone());
        headers.insert("x-goog-api-client", HeaderValue::from_static(AGENT));
        headers.extend(identity.clone());
        if let Some(payer) = &self.shared.payer {
            payer.pays(&mut String::new(), &mut headers);
        }
        let asked = AnsweredCall { caller: self.clone(), about, identity, failure };
        let url = format!("{}{method}", self.url);
        // It is not known here whether a write is the last one of its object.
        let work = match method {
            "RewriteObject" | "WriteObject" | "BidiWriteObject" => Work::Much,
            _ => Work::Little,
        };
        let sent = connection.client.send(Method::POST, url, headers, body, work).await;
        let response = sent.map_err(|fault| asked.broken(fault))?;
        self.shared.meet(response.headers());
        connection.is_waiting = false;
        // An answer without messages may carry its status in the headers.
        let end = match Status::from_header_map(response.headers()) {
            Some(status) if status.code() != Code::Ok => return Err(asked.refused(status)),
            Some(status) => CallEnd::Said(status.code()),
            None => CallEnd::Open,
        };
        let (parts, body) = response.into_parts();
        let kind = parts.headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
        if parts.status != StatusCode::OK || !kind.is_some_and(|kind| kind.starts_with("application/grpc")) {
            return Err(elsewhere(parts.status));
        }
        let heard = Arc::new(Mutex::new(end));
        let incoming = Incoming { body, heard: heard.clone(), connection };
        let decoder = ProstDecoder::<A>::default();
        let messages = Streaming::new_response(decoder, incoming, parts.status, None, Some(LONGEST_MESSAGE));
        Ok(Answers { messages, heard, asked, _cancel_on_drop: cancel_on_drop })
    }
}

impl<A: Message + Default + 'static> Answers<A> {
    /// The next message; `None` at the end of a complete answer.
    pub(super) async fn next(&mut self) -> Result<Option<A>, Fault> {
        let message = self.messages.message().await;
        let mut heard = self.heard.lock().unwrap_or_else(PoisonError::into_inner);
        match message {
            Ok(Some(message)) => Ok(Some(message)),
            Ok(None) if matches!(*heard, CallEnd::Said(_)) => Ok(None),
            Ok(None) => Err(Fault::new(FaultKind::Transient, "the store's answer ends without a status")),
            Err(status) => Err(match mem::replace(&mut *heard, CallEnd::Open) {
                CallEnd::Broken(fault) => self.asked.broken(fault),
                CallEnd::Said(code) if code != Code::Ok => self.asked.refused(status),
                // The decoder failed: the answer cannot be read, or ends early.
                CallEnd::Said(_) | CallEnd::Open => unreadable(status),
            }),
        }
    }

    /// The message of an answer that must have exactly one.
    pub(super) async fn only(&mut self) -> Result<A, Fault> {
        let odd = |message| Fault::new(FaultKind::Transient, message);
        let only = self.next().await?.ok_or_else(|| odd("the store's answer has no message"))?;
        // The status at the end may still void the message.
        match self.next().await? {
            None => Ok(only),
            Some(_) => Err(odd("the store's answer has more messages than one")),
        }
    }
}

impl AnsweredCall {
    fn refused(&self, status: Status) -> Fault {
        let is_refused = status.code() == Code::Unauthenticated;
        let fault = refusal(status, self.about);
        if is_refused { self.caller.shared.keyring.refused(fault, &self.identity) } else { fault }
    }

    fn broken(&self, mut fault: Fault) -> Fault {
        if let Some(failed) = self.failure.take() {
            return source_fault(failed);
        }
        // This is how an answer in HTTP/1.1 looks to an HTTP/2 client.
        if fault.message.ends_with("frame with invalid size") {
            fault.message.push_str("; it may not speak HTTP/2, which gRPC needs");
        }
        fault
    }
}

/// The fault for an answer that is not gRPC: from a proxy, or from a server that does not speak gRPC.
fn elsewhere(status: StatusCode) -> Fault {
    let kind = match status {
        StatusCode::OK | StatusCode::NOT_FOUND | StatusCode::METHOD_NOT_ALLOWED => FaultKind::Unsupported,
        status => kind_of_status(status),
    };
    let message = format!("what answers there does not speak gRPC (HTTP {})", status.as_u16());
    Fault::new(kind, message)
}
