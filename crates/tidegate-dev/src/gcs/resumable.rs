//! Resumable uploads: starts sessions, appends to them, reports their status, cancels them
//! (`cloud.google.com/storage/docs/performing-resumable-uploads`).

use http::header::{CONTENT_LENGTH, CONTENT_RANGE, LOCATION, RANGE};
use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode};
use s3s::Body;
use serde_json::json;

use super::call::Call;
use super::insert::target;
use super::intake::{SessionAppender, WriteTarget};
use super::progress::{AppendBody, ContentRange, SessionAction, plan};
use super::refusal::GcsRefusal;
use super::resource::{ObjectDescription, ObjectResource, escape, metadata_headers};
use super::{Request, answer_json, header};
use crate::catalog::session::{Expected, ResumableSession, SessionFault, SessionState};
use crate::catalog::{Moment, Protocol};
use crate::s3::ServerStore;

/// Asks for a 200 instead of a 308, for clients that treat 308 as a redirect.
const NO_308: &str = "x-guploader-no-308";
const UPLOAD_ID: HeaderName = HeaderName::from_static("x-guploader-uploadid");

impl ServerStore {
    /// Opens a session and returns its id.
    pub(super) fn start_session(
        &self,
        bucket: String,
        target: WriteTarget,
        expected: Expected,
    ) -> Result<String, GcsRefusal> {
        self.find_bucket(&bucket, Protocol::Google)?;
        // Sorts by age and cannot be guessed.
        let id = format!("{:016x}{:016x}", self.next(), fastrand::u64(..));
        let session = ResumableSession {
            id: id.clone(),
            bucket,
            key: target.key,
            started: Moment::now(),
            attributes: target.attributes,
            generations: target.generations,
            expected,
            state: SessionState::Open,
            pieces: Vec::new(),
            md5: None,
            writer: 0,
        };
        self.lock().create_session(session)?;
        Ok(id)
    }
}

pub(super) async fn start(
    store: &ServerStore,
    request: Request,
    call: Call,
) -> Result<Response<Body>, GcsRefusal> {
    let origin = request.origin();
    let headers = request.parts.headers.clone();
    let mut description = ObjectDescription::parse(&request.read_json().await?)?;
    if description.content_type.is_none() {
        description.content_type = header(&headers, "x-upload-content-type").map(str::to_owned);
    }
    let key = description.name.take().unwrap_or(call.key);
    let (target, mut expected) = target(&call.parameters, key, description, &headers)?;
    expected.size = match header(&headers, "x-upload-content-length").map(str::parse) {
        None => None,
        Some(Ok(size)) => Some(size),
        Some(Err(_)) => return Err(GcsRefusal::invalid("X-Upload-Content-Length is not a number of bytes.")),
    };
    let name = escape(&target.key);
    let id = store.start_session(call.bucket.clone(), target, expected)?;
    let uri = format!(
        "{origin}/upload/storage/v1/b/{}/o?uploadType=resumable&name={name}&upload_id={id}",
        call.bucket
    );
    let mut answer = if store.faults.knobs().fake_gcs_server {
        let described = json!({ "kind": "storage#object", "bucket": call.bucket, "size": "0" });
        answer_json(&described)?
    } else {
        Response::new(Body::empty())
    };
    for (name, value) in [(LOCATION, uri), (UPLOAD_ID, id)] {
        answer.headers_mut().insert(name, HeaderValue::try_from(value).map_err(GcsRefusal::internal)?);
    }
    Ok(answer)
}

pub(super) fn cancel(store: &ServerStore, call: &Call) -> Result<Response<Body>, GcsRefusal> {
    store.lock().cancel_session(id_of(call)?)?;
    let mut answer = Response::new(Body::empty());
    *answer.status_mut() = StatusCode::from_u16(499).map_err(GcsRefusal::internal)?;
    Ok(answer)
}

fn id_of(call: &Call) -> Result<&str, GcsRefusal> {
    call.parameters.upload_id.as_deref().ok_or_else(|| GcsRefusal::required("upload_id"))
}

/// Handles a PUT to a session: an append or a query.
pub(super) async fn append(
    store: &ServerStore,
    request: Request,
    call: Call,
) -> Result<Response<Body>, GcsRefusal> {
    let id = id_of(&call)?;
    let headers = request.parts.headers.clone();
    let origin = request.origin();
    let length = header(&headers, CONTENT_LENGTH.as_str()).and_then(|length| length.parse().ok());
    let range = ContentRange::parse(header(&headers, CONTENT_RANGE.as_str()))?;
    let mut expected;
    let (appender, intake) = {
        let mut catalog = store.lock();
        let session = catalog.session(id)?;
        match &session.state {
            SessionState::Finished(object) => {
                return answer_json(&ObjectResource::new(&origin, &session.bucket, object));
            }
            SessionState::Cancelled => return Err(SessionFault::Cancelled.into()),
            SessionState::Open => {}
        }
        expected = session.expected;
        let persisted = session.persisted();
        match plan(range, length, persisted)? {
            SessionAction::Tell if store.faults.knobs().fake_gcs_server => {
                let nothing = AppendBody { skip: 0, length: Some(0), total: None, is_last: true };
                (SessionAppender::new(store, id, catalog.claim_session(id)?, 0), nothing)
            }
            SessionAction::Tell => return Ok(told(&headers, persisted)),
            SessionAction::Take(intake) => {
                (SessionAppender::new(store, id, catalog.claim_session(id)?, intake.skip), intake)
            }
        }
    };
    if intake.is_last {
        expected.add_headers(&headers)?;
    }
    if let Some(total) = intake.total {
        if expected.size.is_some_and(|size| size != total) {
            return Err(GcsRefusal::invalid(format!(
                "The object was to have {} byte(s), and now {total}.",
                expected.size.unwrap_or_default()
            )));
        }
        expected.size = Some(total);
    }
    let bucket = call.bucket.clone();
    let mut appender = take_in(request, appender, intake).await?;
    if !intake.is_last {
        appender.persist().await?;
        store.commit_delay().await;
        return Ok(told(&headers, appender.persisted()));
    }
    let object = appender.publish(&expected, metadata_headers(&headers)).await?;
    answer_json(&ObjectResource::new(&origin, &bucket, &object))
}

/// Appends the request's body. If the body breaks off, the bytes received are persisted as far as they fill
/// grains.
async fn take_in<'a>(
    mut request: Request,
    mut appender: SessionAppender<'a>,
    intake: AppendBody,
) -> Result<SessionAppender<'a>, GcsRefusal> {
    let mut received = 0;
    while let Some(bytes) = request.next().await {
        let refusal = match bytes {
            Ok(bytes) if intake.length.is_some_and(|length| received + bytes.len() as u64 > length) => {
                GcsRefusal::invalid("The request has more bytes than its Content-Range.")
            }
            Ok(bytes) => {
                received += bytes.len() as u64;
                appender.push(bytes).await?;
                continue;
            }
            Err(error) => GcsRefusal::broken_body(&error),
        };
        appender.persist().await?;
        return Err(refusal);
    }
    // An object cannot be shorter than its persisted bytes; a chunk may lie within them.
    let is_short =
        intake.length.is_some_and(|length| received != length) || (intake.is_last && received < intake.skip);
    if is_short {
        appender.persist().await?;
        return Err(GcsRefusal::invalid(format!("The request ended after {received} byte(s), too early.")));
    }
    Ok(appender)
}

/// Reports the persisted bytes, as a 308.
fn told(headers: &HeaderMap, persisted: u64) -> Response<Body> {
    let mut answer = Response::new(Body::empty());
    if header(headers, NO_308).is_some() {
        let code = HeaderValue::from_static("308");
        answer.headers_mut().insert(HeaderName::from_static("x-http-status-code-override"), code);
    } else {
        *answer.status_mut() = StatusCode::PERMANENT_REDIRECT;
    }
    if persisted > 0
        && let Ok(range) = HeaderValue::try_from(format!("bytes=0-{}", persisted - 1))
    {
        answer.headers_mut().insert(RANGE, range);
    }
    answer
}
