//! Google Cloud Storage's JSON and XML APIs, over the same storage as S3
//! (`cloud.google.com/storage/docs/apis`). The modules hold the operations; this file tells Google's requests
//! from S3's and dispatches them.

mod bucket;
mod call;
pub(crate) mod grpc;
mod hash;
mod insert;
mod intake;
mod list;
mod object;
mod progress;
mod refusal;
mod request;
mod resource;
mod resumable;
mod rewrite;
pub(crate) mod xml;

use std::sync::Arc;

use bytes::Bytes;
use http::header::{AUTHORIZATION, CACHE_CONTROL, CONTENT_RANGE, CONTENT_TYPE};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Method, Response, StatusCode};
use s3s::Body;
use serde::Serialize;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::body::CountedBody;
use crate::dialect::Dialect;
use crate::exchange::Exchange;
use crate::faults::RequestFacts;
use crate::gate::{Denied, Gate};
use crate::guard::Refused;
use call::{Call, GcsOperation};
use refusal::GcsRefusal;
use request::Request;

/// Google's side of a server.
#[derive(Debug)]
pub(crate) struct Google {
    pub(crate) gate: Gate,
    /// Requests that append to sessions: they finish in order even after their connection has ended.
    pub(crate) tasks: TaskTracker,
    pub(crate) stop: CancellationToken,
    /// The scheme of the server's URLs.
    pub(crate) scheme: &'static str,
}

/// Whether the request has an S3 signature: then it goes to S3, whatever its path.
fn is_signed_for_s3(parts: &Parts) -> bool {
    let authorization = header(&parts.headers, AUTHORIZATION.as_str()).unwrap_or_default();
    let query = parts.uri.query().unwrap_or_default();
    authorization.starts_with("AWS")
        || query.contains("X-Amz-Signature=")
        || query.contains("AWSAccessKeyId=")
}

/// Whether the request is for the JSON API.
pub(crate) fn is_json_api(parts: &Parts) -> bool {
    call::is_path(parts.uri.path()) && !is_signed_for_s3(parts)
}

impl Google {
    /// Answers a request to the JSON API.
    pub(crate) async fn answer(
        &self,
        mut parts: Parts,
        body: CountedBody,
        exchange: &Exchange,
    ) -> Response<Body> {
        if let Some(method) = header(&parts.headers, "x-http-method-override")
            && let Ok(method) = Method::from_bytes(method.as_bytes())
        {
            // Google's Java client cannot send PATCH.
            parts.method = method;
        }
        let request = Request::new(parts, body, self.stop.clone(), self.scheme);
        let answer = self.act(request, exchange).await;
        answer.unwrap_or_else(|refusal| refusal.answer())
    }

    /// Answers a request that opens a session of parts as fake-gcs-server does, which has none.
    pub(crate) async fn answer_without_parts(&self, exchange: &Exchange) -> Response<Body> {
        let operation = "CreateMultipartUpload";
        let subject = RequestFacts { operation, bucket: "", key: "", part_number: None };
        let refusal = match self.gate.admit(exchange, subject).await {
            Ok(()) => GcsRefusal::invalid("invalid uploadType"),
            Err(denied) => denied.into(),
        };
        refusal.answer()
    }

    async fn act(&self, request: Request, exchange: &Exchange) -> Result<Response<Body>, GcsRefusal> {
        let range = header(&request.parts.headers, CONTENT_RANGE.as_str());
        let is_query = range.is_some_and(|range| range.trim().starts_with("bytes */"));
        let call = Call::parse(&request.parts.method, &request.parts.uri, is_query)?;
        let subject = RequestFacts {
            operation: call.operation.name(),
            bucket: &call.bucket,
            key: &call.key,
            part_number: None,
        };
        self.gate.admit(exchange, subject).await?;
        let store = &self.gate.store;
        let origin = request.origin();
        match call.operation {
            GcsOperation::InsertBucket => bucket::insert(store, request).await,
            GcsOperation::GetBucket => bucket::get(store, &origin, &call),
            GcsOperation::ListBuckets => bucket::list(store, &origin, &call),
            GcsOperation::DeleteBucket => bucket::delete(store, &call),
            GcsOperation::Get => object::get(store, &origin, &call),
            GcsOperation::Download => object::download(store, &request.parts.headers, &call),
            GcsOperation::List => list::list(store, &origin, &call),
            GcsOperation::Delete => object::delete(store, &call),
            GcsOperation::Patch | GcsOperation::Update => object::change(store, request, &call).await,
            GcsOperation::Insert => insert::insert(store, request, call).await,
            GcsOperation::Start => resumable::start(store, request, call).await,
            GcsOperation::Rewrite => rewrite::rewrite(store, request, call).await,
            GcsOperation::Cancel => resumable::cancel(store, &call),
            GcsOperation::Append | GcsOperation::Query => {
                let store = Arc::clone(store);
                let appending =
                    self.tasks.spawn(async move { resumable::append(&store, request, call).await });
                appending.await.map_err(GcsRefusal::internal)?
            }
        }
    }
}

/// A knob's refusal, in the form of the JSON API.
pub(crate) fn refuse(refusal: &crate::faults::InjectedRefusal) -> Response<Body> {
    GcsRefusal::by_knob(refusal).answer()
}

/// A refusal by the guard, in the form of the request's protocol.
pub(crate) fn forbid(dialect: Dialect, refused: &Refused) -> Response<Body> {
    let is_xml = matches!(dialect, Dialect::S3 | Dialect::Xml);
    let reason = match (refused.status, is_xml) {
        (StatusCode::UNAUTHORIZED, false) => "required",
        (_, true) => "AccessDenied",
        (_, false) => "forbidden",
    };
    let refusal = GcsRefusal::new(refused.status, reason, refused.message.clone());
    match dialect {
        Dialect::S3 | Dialect::Xml => xml::refuse(&refusal),
        Dialect::Json => refusal.answer(),
        Dialect::Grpc => grpc::answer(refusal),
    }
}

impl From<Denied> for GcsRefusal {
    fn from(denied: Denied) -> Self {
        match denied {
            Denied::Refused(refusal) => Self::by_knob(&refusal),
            Denied::Store(error) => error.into(),
            // No client gets this answer: the connection is cut.
            Denied::Reset => Self::internal("Reset by a knob"),
        }
    }
}

fn header<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name)?.to_str().ok()
}

fn answer_json(value: &impl Serialize) -> Result<Response<Body>, GcsRefusal> {
    let text = serde_json::to_vec(value).map_err(GcsRefusal::internal)?;
    let mut answer = Response::new(Body::from(Bytes::from(text)));
    let headers = answer.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json; charset=UTF-8"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache, no-store, max-age=0, must-revalidate"));
    Ok(answer)
}

fn no_content() -> Response<Body> {
    let mut answer = Response::new(Body::empty());
    *answer.status_mut() = StatusCode::NO_CONTENT;
    answer
}

/// Checks a key against Google's rules (`cloud.google.com/storage/docs/objects#naming`).
fn check_key(key: &str) -> Result<(), GcsRefusal> {
    if key.is_empty() {
        return Err(GcsRefusal::required("name"));
    }
    let is_reserved = key == "." || key == ".." || key.starts_with(".well-known/acme-challenge/");
    if key.len() > 1024 || key.contains(['\r', '\n']) || is_reserved {
        return Err(GcsRefusal::invalid(format!("The specified object name is not valid: {key:?}")));
    }
    Ok(())
}
