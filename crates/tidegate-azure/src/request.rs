//! Sends every request: adds credentials, sends it, and turns its answer into a result or a fault.

use std::sync::atomic::Ordering::Relaxed;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use http_body_util::{BodyExt, Limited};

use super::client::AzureShared;
use super::credentials::AzureIdentity;
use super::fault::{VERSION, code_of, refusal};
use tidegate_core::backend::{Attempt, Fault};
use tidegate_core::memory::payload::Payload;
use tidegate_http::{
    BodyFailure, LONGEST, LONGEST_REFUSAL, Outgoing, Response, Sending, Work, read, sending, source_fault,
};

/// The versions of the service's API that requests can have, the newest first. The oldest has all that is used here.
pub(super) const VERSIONS: [&str; 3] = ["2024-11-04", "2021-12-02", "2019-12-12"];

/// One request.
#[derive(Clone, Debug)]
pub(super) struct AzureRequest {
    pub(super) method: Method,
    pub(super) url: String,
    pub(super) headers: HeaderMap,
    pub(super) content: AzureContent,
    pub(super) work: Work,
    pub(super) attempt: Attempt,
}

/// The content of a request.
#[derive(Clone, Debug)]
pub(super) enum AzureContent {
    Nothing,
    Text(Bytes),
    Payload(Payload),
}

impl AzureRequest {
    pub(super) fn new(method: Method, url: String, attempt: Attempt) -> Self {
        let (headers, content, work) = (HeaderMap::new(), AzureContent::Nothing, Work::Little);
        Self { method, url, headers, content, work, attempt }
    }

    /// Marks a request on which the store works before it answers.
    pub(super) fn of_much_work(mut self) -> Self {
        self.work = Work::Much;
        self
    }

    pub(super) fn with(mut self, content: AzureContent) -> Self {
        self.content = content;
        self
    }
}

/// An answer, successful or not; its body is not read yet.
#[derive(Debug)]
pub(super) struct AzureAnswer {
    pub(super) response: Response,
    /// What was read of its body already.
    said: Option<Bytes>,
    /// The versions of the API in which the request was sent.
    versions: &'static [&'static str],
    identity: AzureIdentity,
}

impl AzureShared {
    /// Sends a request; the answer may be a refusal. A server that refuses the version of the API, as older emulators
    /// do, gets an older one, which is learned when it takes the request.
    pub(super) async fn exchange(&self, request: AzureRequest) -> Result<AzureAnswer, Fault> {
        let first = self.version.load(Relaxed);
        if !self.may_lack_features() {
            return self.exchange_as(&VERSIONS[first..=first], request).await;
        }
        let mut version = first;
        loop {
            let mut answer = self.exchange_as(&VERSIONS[first..=version], request.clone()).await?;
            if answer.refuses_a_value().await && version + 1 < VERSIONS.len() {
                version += 1;
                continue;
            }
            let status = answer.response.status();
            let is_taken = status.is_success() || matches!(status.as_u16(), 404 | 409 | 412);
            if is_taken && version != first {
                tracing::debug!(
                    version = VERSIONS[version],
                    "the server takes only an older version of the API"
                );
                self.version.store(version, Relaxed);
            }
            return Ok(answer);
        }
    }

    /// Sends a request in the last of these versions; in those before it, it was sent already.
    async fn exchange_as(
        &self,
        versions: &'static [&'static str],
        request: AzureRequest,
    ) -> Result<AzureAnswer, Fault> {
        let AzureRequest { method, mut url, mut headers, content, work, attempt } = request;
        let (body, failure) = prepare(&method, content, &mut headers);
        headers.extend(
            versions
                .last()
                .map(|version| (HeaderName::from_static(VERSION), HeaderValue::from_static(version))),
        );
        let identity = self.keyring.sign(&method, &mut url, &mut headers).await?;
        let sent = self.connections.client(attempt).send(method, url, headers, body, work).await;
        let response = sent.map_err(|fault| failure.take().map_or(fault, source_fault))?;
        Ok(AzureAnswer { response, said: None, versions, identity })
    }

    /// Sends a request. `Ok` is a successful answer, whose body is not read yet.
    pub(super) async fn send(&self, request: AzureRequest) -> Result<Response, Fault> {
        let answer = self.exchange(request).await?;
        if answer.response.status().is_success() {
            return Ok(answer.response);
        }
        Err(self.refused(answer).await)
    }

    /// Sends a request and reads the body of its answer.
    pub(super) async fn ask(&self, request: AzureRequest) -> Result<(HeaderMap, Bytes), Fault> {
        let mut response = self.send(request).await?;
        let headers = std::mem::take(response.headers_mut());
        Ok((headers, read(response, LONGEST).await?))
    }

    /// Reads the fault that an answer describes.
    pub(super) async fn refused(&self, answer: AzureAnswer) -> Fault {
        let AzureAnswer { response, said, versions, identity } = answer;
        let (status, headers) = (response.status(), response.headers().clone());
        let said = match said {
            Some(said) => said,
            None => read(response, LONGEST_REFUSAL).await.unwrap_or_default(),
        };
        let mut fault = refusal(status, &headers, &said);
        if fault.message.contains(VERSION) {
            fault.message.push_str(&format!(": Tidegate sent {}", versions.join(", ")));
        }
        self.keyring.refused(fault, &identity)
    }
}

impl AzureAnswer {
    /// Whether the answer refuses the value of a header; which one, only its body may tell. Reads the body if the headers
    /// have no code.
    async fn refuses_a_value(&mut self) -> bool {
        let Self { response, said, .. } = self;
        let status = response.status();
        if status != StatusCode::BAD_REQUEST {
            return false;
        }
        let is_meant = |code: &str| matches!(code, "InvalidHeaderValue" | "UnsupportedHeader");
        if let Some(code) = code_of(response.headers()) {
            return is_meant(code);
        }
        // A refusal that cannot be read is explained by its status alone.
        let body = Limited::new(response.body_mut(), LONGEST_REFUSAL).collect().await;
        let body = body.map(|body| body.to_bytes()).unwrap_or_default();
        let code = refusal(status, response.headers(), &body).code;
        *said = Some(body);
        is_meant(&code)
    }
}

fn prepare(method: &Method, content: AzureContent, headers: &mut HeaderMap) -> (Sending, BodyFailure) {
    match content {
        AzureContent::Nothing => {
            if !matches!(*method, Method::GET | Method::HEAD) {
                headers.insert(header::CONTENT_LENGTH, 0.into());
            }
            (Sending::default(), BodyFailure::default())
        }
        AzureContent::Text(text) => {
            headers.insert(header::CONTENT_LENGTH, text.len().into());
            (sending(text), BodyFailure::default())
        }
        AzureContent::Payload(payload) => {
            let (outgoing, failure) = Outgoing::plain(payload);
            headers.insert(header::CONTENT_LENGTH, outgoing.len().into());
            (outgoing.boxed_unsync(), failure)
        }
    }
}
