//! Sends every request: adds credentials, sends it, and turns its answer into a result or a fault.

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use http_body_util::BodyExt;

use super::client::GcsShared;
use super::credentials::Identity;
use super::fault::{About, no_error, refusal};
use tidegate_core::backend::{Attempt, Fault};
use tidegate_core::memory::payload::{Payload, Unending};
use tidegate_http::open::OpenBody;
use tidegate_http::{
    AGENT, BodyFailure, LONGEST, LONGEST_REFUSAL, Outgoing, Response, Sending, Work, proof, read, sending,
    source_fault,
};

/// One request.
#[derive(Debug)]
pub(super) struct GcsRequest {
    pub(super) method: Method,
    pub(super) url: String,
    pub(super) headers: HeaderMap,
    pub(super) content: GcsContent,
    pub(super) about: About,
    pub(super) work: Work,
    pub(super) attempt: Attempt,
}

/// The content of a request.
#[derive(Debug)]
pub(super) enum GcsContent {
    Nothing,
    Text(Bytes),
    Payload(Payload),
    /// A payload with other bytes before and after it.
    Between(Bytes, Payload, Bytes),
    /// Bytes whose end is not known.
    Unending(Unending),
}

impl GcsRequest {
    pub(super) fn new(method: Method, url: String, about: About, attempt: Attempt) -> Self {
        let (headers, content, work) = (HeaderMap::new(), GcsContent::Nothing, Work::Little);
        Self { method, url, headers, content, about, work, attempt }
    }

    /// Marks a request on which the store works before it answers.
    pub(super) fn of_much_work(mut self) -> Self {
        self.work = Work::Much;
        self
    }

    pub(super) fn with(mut self, content: GcsContent) -> Self {
        self.content = content;
        self
    }
}

/// An answer, successful or not; its body is not read yet.
#[derive(Debug)]
pub(super) struct GcsAnswer {
    pub(super) response: Response,
    about: About,
    identity: Identity,
}

impl GcsShared {
    /// Sends a request; the answer may be a refusal.
    pub(super) async fn exchange(&self, request: GcsRequest) -> Result<GcsAnswer, Fault> {
        let GcsRequest { method, mut url, mut headers, content, about, work, attempt } = request;
        let (body, failure) = prepare(&method, content, &mut headers);
        // A session's URL alone allows appending to it ("Resumable uploads"), so no credentials are needed.
        let identity = match about {
            About::Session => Identity::new(),
            _ => self.keyring.identity().await?,
        };
        headers.extend(identity.clone());
        if let Some(payer) = &self.payer {
            payer.pays(&mut url, &mut headers);
        }
        // By such a header, emulators tell an anonymous request to the XML API from a request to S3.
        let client = HeaderValue::from_static(AGENT);
        headers.insert("x-goog-api-client", client);
        let sent = self.connections.client(attempt).send(method, url, headers, body, work).await;
        let response = sent.map_err(|fault| failure.take().map_or(fault, source_fault))?;
        self.meet(response.headers());
        Ok(GcsAnswer { response, about, identity })
    }

    /// Sends a request. `Ok` is a successful answer, whose body is not read yet.
    pub(super) async fn send(&self, request: GcsRequest) -> Result<Response, Fault> {
        let answer = self.exchange(request).await?;
        if answer.response.status().is_success() {
            return Ok(answer.response);
        }
        Err(self.refused(answer).await)
    }

    /// Sends a request and reads the body of its answer.
    pub(super) async fn ask(&self, request: GcsRequest) -> Result<(HeaderMap, Bytes), Fault> {
        let mut response = self.send(request).await?;
        let headers = std::mem::take(response.headers_mut());
        Ok((headers, read(response, LONGEST).await?))
    }

    /// Sends a request that removes something, and checks that the answer confirms the removal.
    pub(super) async fn remove(&self, request: GcsRequest) -> Result<(), Fault> {
        let about = request.about;
        let mut response = self.send(request).await?;
        let (status, headers) = (response.status(), std::mem::take(response.headers_mut()));
        let body = read(response, LONGEST_REFUSAL).await?;
        no_error(&headers, &body, about)?;
        proof::removed(status, &headers, &body)
    }

    /// Reads the fault that an answer describes.
    pub(super) async fn refused(&self, answer: GcsAnswer) -> Fault {
        let GcsAnswer { response, about, identity } = answer;
        let (status, headers) = (response.status(), response.headers().clone());
        let said = read(response, LONGEST_REFUSAL).await.unwrap_or_default();
        let fault = refusal(status, &headers, &said, about);
        match status {
            StatusCode::UNAUTHORIZED => self.keyring.refused(fault, &identity),
            _ => fault,
        }
    }
}

fn prepare(method: &Method, content: GcsContent, headers: &mut HeaderMap) -> (Sending, BodyFailure) {
    let (outgoing, failure) = match content {
        GcsContent::Nothing => {
            // Google requires a length for methods that could carry a body.
            if method != Method::GET {
                headers.insert(header::CONTENT_LENGTH, 0.into());
            }
            return (Sending::default(), BodyFailure::default());
        }
        GcsContent::Text(text) => {
            headers.insert(header::CONTENT_LENGTH, text.len().into());
            return (sending(text), BodyFailure::default());
        }
        GcsContent::Unending(bytes) => return (OpenBody(bytes).boxed_unsync(), BodyFailure::default()),
        GcsContent::Payload(payload) => Outgoing::plain(payload),
        GcsContent::Between(head, payload, tail) => Outgoing::between(head, payload, tail),
    };
    headers.insert(header::CONTENT_LENGTH, outgoing.len().into());
    (outgoing.boxed_unsync(), failure)
}
