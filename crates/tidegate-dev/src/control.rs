//! The control endpoint: serves knobs, counts and empty objects over HTTP, under a path that no bucket can
//! have.

use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderValue, Method, Response, StatusCode};
use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;
use serde::de::DeserializeOwned;

use crate::body::AnswerBody;
use crate::counts::LiveCounters;
use crate::faults::Faults;
use crate::fill::FillRequest;
use crate::guard::Refused;
use crate::knobs::Knobs;
use crate::s3::ServerStore;
use crate::shaping::ConnectionLink;

/// A bucket's name cannot begin with an underscore.
pub(crate) const PATH: &str = "/_tidegate/";

/// The largest JSON of knobs accepted, in bytes: about a page is normal.
const LARGEST_KNOBS: usize = 1024 * 1024;

/// The largest list of keys accepted, in bytes: enough for tens of thousands of objects.
const LARGEST_FILL: usize = 32 * 1024 * 1024;

/// Answers one request to the control endpoint.
pub(crate) async fn answer(
    request: http::Request<Incoming>,
    faults: &Faults,
    counters: &LiveCounters,
    store: &ServerStore,
    link: Arc<ConnectionLink>,
) -> Response<AnswerBody> {
    let path = request.uri().path().to_owned();
    let (status, text) = match (request.method(), path.strip_prefix(PATH)) {
        (&Method::GET, Some("knobs")) => json(&*faults.knobs()),
        (&Method::PUT, Some("knobs")) => match read::<Knobs>(request, LARGEST_KNOBS).await {
            Ok(knobs) => {
                faults.set_knobs(knobs);
                json(&*faults.knobs())
            }
            Err(reason) => (StatusCode::BAD_REQUEST, error(&reason)),
        },
        (&Method::GET, Some("counts")) => json(&counters.snapshot()),
        (&Method::DELETE, Some("counts")) => {
            let counts = json(&counters.snapshot());
            counters.reset();
            counts
        }
        (&Method::POST, Some("objects")) => match read::<FillRequest>(request, LARGEST_FILL).await {
            Ok(fill) => match fill.apply(store) {
                Ok(count) => json(&serde_json::json!({ "objects": count })),
                Err(refusal) => {
                    let message = refusal.message().unwrap_or_default();
                    (StatusCode::BAD_REQUEST, error(&format!("{}: {message}", refusal.code().as_str())))
                }
            },
            Err(reason) => (StatusCode::BAD_REQUEST, error(&reason)),
        },
        (_, Some("knobs" | "counts" | "objects")) => {
            (StatusCode::METHOD_NOT_ALLOWED, error("method not allowed"))
        }
        _ => (
            StatusCode::NOT_FOUND,
            error("there are /_tidegate/knobs, /_tidegate/counts and /_tidegate/objects"),
        ),
    };
    answer_with(status, text, link)
}

/// Answers a request that the guard refused.
pub(crate) fn refuse(refused: &Refused, link: Arc<ConnectionLink>) -> Response<AnswerBody> {
    answer_with(refused.status, error(&refused.message), link)
}

fn answer_with(status: StatusCode, text: String, link: Arc<ConnectionLink>) -> Response<AnswerBody> {
    let mut response = Response::new(AnswerBody::plain(Bytes::from(text), link));
    *response.status_mut() = status;
    response.headers_mut().insert(http::header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

async fn read<T: DeserializeOwned>(request: http::Request<Incoming>, limit: usize) -> Result<T, String> {
    let body = Limited::new(request.into_body(), limit).collect().await.map_err(|error| error.to_string())?;
    serde_json::from_slice(&body.to_bytes()).map_err(|error| error.to_string())
}

fn json(value: &impl serde::Serialize) -> (StatusCode, String) {
    match serde_json::to_string_pretty(value) {
        Ok(text) => (StatusCode::OK, text + "\n"),
        Err(reason) => (StatusCode::INTERNAL_SERVER_ERROR, error(&reason.to_string())),
    }
}

fn error(reason: &str) -> String {
    format!("{}\n", serde_json::json!({ "error": reason }))
}

#[cfg(test)]
mod tests;
