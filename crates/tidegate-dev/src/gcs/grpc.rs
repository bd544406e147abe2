//! Google's gRPC protocol, `google.storage.v2` (`github.com/googleapis/googleapis`,
//! `google/storage/v2/storage.proto`, whose comments are its documentation), over the same storage and the same
//! sessions as the JSON API. The messages are generated; the generated code has no server side, so the service
//! is implemented here and in the modules below.

mod convert;
mod details;
mod read;
mod rewrite;
mod session;
mod step;
mod write;

use std::future::Future;
use std::sync::Arc;

use futures::stream::BoxStream;
use googleapis_tonic_google_storage_v2::google::storage::v2 as proto;
use http::header::CONTENT_TYPE;
use http::request::Parts;
use http::{Response, StatusCode};
use prost::Message;
use s3s::Body;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tonic::server::{Grpc, NamedService};
use tonic::{Code, Request, Status, Streaming};
use tonic_prost::ProstCodec;
use tower::service_fn;

use super::refusal::GcsRefusal;
use super::{Google, header};
use crate::body::CountedBody;
use crate::exchange::Exchange;
use crate::faults::{self, RequestFacts};
use crate::gate::Gate;
use crate::s3::ServerStore;

/// The most data in a message: `ServiceConstants.Values.MAX_READ_CHUNK_BYTES`, and the same limit for writes.
const LARGEST_DATA: usize = 2 * 1024 * 1024;

/// The largest message: that much data, and room for the other fields.
const LARGEST_MESSAGE: usize = LARGEST_DATA + 1024 * 1024;

/// The service, with its name for routing.
struct Service;

impl NamedService for Service {
    const NAME: &'static str = "google.storage.v2.Storage";
}

/// Whether the request is for gRPC.
pub(crate) fn is_grpc(parts: &Parts) -> bool {
    header(&parts.headers, CONTENT_TYPE.as_str()).is_some_and(|kind| kind.starts_with("application/grpc"))
}

/// The environment of an operation.
#[derive(Clone, Debug)]
struct CallContext {
    gate: Gate,
    tasks: TaskTracker,
    stop: CancellationToken,
    exchange: Arc<Exchange>,
}

impl CallContext {
    fn store(&self) -> &ServerStore {
        &self.gate.store
    }

    /// Counts the request and applies the knobs to it.
    async fn admit(&self, operation: &str, bucket: &str, key: &str) -> Result<(), Status> {
        let subject = RequestFacts { operation, bucket, key, part_number: None };
        Ok(self.gate.admit(&self.exchange, subject).await.map_err(GcsRefusal::from)?)
    }

    /// Counts a request to a session and applies the knobs to it.
    async fn admit_to_session(&self, operation: &str, id: &str) -> Result<(), Status> {
        let names =
            self.store().lock().session(id).map(|session| (session.bucket.clone(), session.key.clone()));
        // A request to an unknown session counts too, without bucket and key.
        let (bucket, key) = names.unwrap_or_default();
        self.admit(operation, &bucket, &key).await
    }

    /// The next message of a stream.
    async fn next<M>(&self, stream: &mut Streaming<M>) -> Result<Option<M>, Status> {
        tokio::select! {
            () = self.stop.cancelled() => Err(Status::unavailable("The server stops.")),
            next = stream.message() => next.map_err(|status| self.broken(status)),
        }
    }

    /// The reason why a stream of messages ended early.
    fn broken(&self, status: Status) -> Status {
        match self.exchange.late_refusal() {
            Some(refusal) => GcsRefusal::by_knob(refusal).into(),
            None => status,
        }
    }
}

type Answering = Response<tonic::body::Body>;
type Answers<A> = BoxStream<'static, Result<A, Status>>;

fn codec<A: Message + 'static, Q: Message + Default + 'static>() -> Grpc<ProstCodec<A, Q>> {
    Grpc::new(ProstCodec::default()).max_decoding_message_size(LARGEST_MESSAGE)
}

/// Serves a call with one request message and one answer message.
async fn unary<Q, A, F>(
    context: CallContext,
    request: http::Request<CountedBody>,
    act: fn(CallContext, Q) -> F,
) -> Answering
where
    Q: Message + Default + 'static,
    A: Message + 'static,
    F: Future<Output = Result<A, Status>>,
{
    let service = service_fn(move |request: Request<Q>| {
        let acting = act(context.clone(), request.into_inner());
        async move { Ok(tonic::Response::new(acting.await?)) }
    });
    codec().unary(service, request).await
}

/// Serves a call with one request message and a stream of answer messages.
async fn server_streaming<Q, A, F>(
    context: CallContext,
    request: http::Request<CountedBody>,
    act: fn(CallContext, Q) -> F,
) -> Answering
where
    Q: Message + Default + 'static,
    A: Message + 'static,
    F: Future<Output = Result<Answers<A>, Status>>,
{
    let service = service_fn(move |request: Request<Q>| {
        let acting = act(context.clone(), request.into_inner());
        async move { Ok(tonic::Response::new(acting.await?)) }
    });
    codec().server_streaming(service, request).await
}

impl Google {
    /// Answers a gRPC request.
    pub(crate) async fn answer_grpc(
        &self,
        parts: Parts,
        body: CountedBody,
        exchange: &Arc<Exchange>,
    ) -> Response<Body> {
        let context = CallContext {
            gate: self.gate.clone(),
            tasks: self.tasks.clone(),
            stop: self.stop.clone(),
            exchange: Arc::clone(exchange),
        };
        let path = parts.uri.path().to_owned();
        let method = path.strip_prefix('/').and_then(|path| path.split_once('/'));
        let method = method.filter(|(service, _)| *service == Service::NAME).map(|(_, method)| method);
        let request = http::Request::from_parts(parts, body);
        let answer = match method.unwrap_or_default() {
            "GetObject" => unary(context, request, read::get_object).await,
            "ListObjects" => unary(context, request, read::list_objects).await,
            "DeleteObject" => unary(context, request, read::delete_object).await,
            "RewriteObject" => unary(context, request, rewrite::rewrite_object).await,
            "ReadObject" => server_streaming(context, request, read::read_object).await,
            "StartResumableWrite" => unary(context, request, session::start).await,
            "QueryWriteStatus" => unary(context, request, session::query).await,
            "CancelResumableWrite" => unary(context, request, session::cancel).await,
            "WriteObject" => {
                let service = service_fn(move |request: Request<Streaming<proto::WriteObjectRequest>>| {
                    let writing = write::write_object(context.clone(), request.into_inner());
                    async move { Ok(tonic::Response::new(writing.await?)) }
                });
                codec().client_streaming(service, request).await
            }
            "BidiWriteObject" => {
                let service =
                    service_fn(move |request: Request<Streaming<proto::BidiWriteObjectRequest>>| {
                        let writing = write::bidi_write_object(context.clone(), request.into_inner());
                        async move { Ok(tonic::Response::new(writing.await?)) }
                    });
                codec().streaming(service, request).await
            }
            _ => Status::unimplemented(format!("There is no {path} here.")).into_http(),
        };
        answer.map(Body::http_body_unsync)
    }
}

/// Whether a gRPC answer is an error; its HTTP status is always 200.
pub(crate) fn has_failed(answer: &Response<Body>) -> bool {
    header(answer.headers(), "grpc-status").is_some_and(|code| code != "0")
}

/// A knob's refusal, as a gRPC answer.
pub(crate) fn refuse(refusal: &faults::InjectedRefusal) -> Response<Body> {
    answer(GcsRefusal::by_knob(refusal))
}

pub(super) fn answer(refusal: GcsRefusal) -> Response<Body> {
    Status::from(refusal).into_http::<tonic::body::Body>().map(Body::http_body_unsync)
}

impl From<GcsRefusal> for Status {
    fn from(refusal: GcsRefusal) -> Self {
        details::with_details(refusal)
    }
}

/// The gRPC code for an HTTP status (`cloud.google.com/apis/design/errors`).
pub(super) fn code_of(status: StatusCode) -> Code {
    match status.as_u16() {
        400 => Code::InvalidArgument,
        401 => Code::Unauthenticated,
        403 => Code::PermissionDenied,
        404 | 410 => Code::NotFound,
        408 | 504 => Code::DeadlineExceeded,
        409 => Code::AlreadyExists,
        304 | 412 => Code::FailedPrecondition,
        416 => Code::OutOfRange,
        429 => Code::ResourceExhausted,
        499 => Code::Cancelled,
        501 => Code::Unimplemented,
        502 | 503 => Code::Unavailable,
        _ => Code::Internal,
    }
}
