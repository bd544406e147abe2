//! Signs and sends every S3 request, and turns its answer into a result or a fault.

use std::sync::Arc;

use aws_smithy_runtime_api::client::identity::Identity;
use bytes::Bytes;
use futures::StreamExt;
use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use http_body_util::BodyExt;
use sha2::{Digest as _, Sha256};

use super::client::S3Shared;
use super::sign::{Signed, sign};
use tidegate_core::backend::{Attempt, BucketFacts, Fault, FaultKind, Feature, FeatureSet};
use tidegate_core::memory::payload::Payload;
use tidegate_core::types::checksum::{Algorithm, Checksum};
use tidegate_http::xml::fault;
use tidegate_http::{
    BodyFailure, LONGEST, LONGEST_REFUSAL, Outgoing, Response, Sending, Work, known, md5_of, proof, read,
    sending, source_fault, text,
};

/// One request.
#[derive(Clone, Debug)]
pub(super) struct S3Request {
    pub(super) method: Method,
    pub(super) url: String,
    pub(super) headers: HeaderMap,
    pub(super) content: S3Content,
    pub(super) work: Work,
    pub(super) attempt: Attempt,
    /// Learns from a success that the bucket exists.
    facts: Arc<BucketFacts>,
}

/// The content of a request.
#[derive(Clone, Debug)]
pub(super) enum S3Content {
    Nothing,
    Text(Bytes),
    /// A payload, sent without these features.
    Payload(Payload, FeatureSet),
}

impl S3Request {
    pub(super) fn new(method: Method, url: String, facts: Arc<BucketFacts>, attempt: Attempt) -> Self {
        let (headers, content, work) = (HeaderMap::new(), S3Content::Nothing, Work::Little);
        Self { method, url, headers, content, work, attempt, facts }
    }

    /// Marks a request on which the store works before it answers.
    pub(super) fn of_much_work(mut self) -> Self {
        self.work = Work::Much;
        self
    }

    pub(super) fn with(mut self, content: S3Content) -> Self {
        self.content = content;
        self
    }
}

/// An answer, successful or not; its body is not read yet.
#[derive(Debug)]
pub(super) struct S3Answer {
    pub(super) response: Response,
    signed_as: SignedAs,
}

/// How a request was signed.
#[derive(Debug)]
struct SignedAs {
    identity: Option<Arc<Identity>>,
    region: Arc<str>,
}

/// A body ready to be sent, how the signature covers it, and where a failure of its source is left.
struct Prepared {
    body: Sending,
    signed: Signed,
    failure: BodyFailure,
}

impl S3Shared {
    /// Sends a request. The answer may be a refusal; a redirection and a bad request are faults. A bucket that turns
    /// out to be in another region is asked there, once more, and all later requests go there at once.
    pub(super) async fn exchange(&self, request: S3Request) -> Result<S3Answer, Fault> {
        let region = request.facts.region();
        let answer = self.exchange_in(region, request.clone()).await?;
        let status = answer.response.status();
        if !(status.is_redirection() || status == StatusCode::BAD_REQUEST) {
            return Ok(answer);
        }
        let S3Answer { response, signed_as } = answer;
        let headers = response.headers().clone();
        let said = read(response, LONGEST_REFUSAL).await.unwrap_or_default();
        let region = fault::other_region(status, &headers, &said, &signed_as.region);
        if let Some(region) = region.filter(|region| self.endpoint.reaches(region)) {
            tracing::debug!(region, "the bucket is in another region");
            let facts = request.facts.clone();
            let answer = self.exchange_in(Some(region.as_str().into()), request).await?;
            // A wrong region is answered so too.
            if !matches!(answer.response.status(), StatusCode::BAD_REQUEST | StatusCode::FORBIDDEN) {
                facts.learn_region(&region);
            }
            return Ok(answer);
        }
        Err(self.refusal(status, &headers, &said, &signed_as).await)
    }

    /// Sends a request to a region, or to the one of the settings.
    async fn exchange_in(&self, region: Option<Arc<str>>, request: S3Request) -> Result<S3Answer, Fault> {
        let S3Request { method, url, mut headers, content, work, attempt, facts } = request;
        if matches!(content, S3Content::Nothing) && matches!(method, Method::PUT | Method::POST) {
            // Google's front ends and strict proxies refuse such a request without a length (411).
            headers.insert(header::CONTENT_LENGTH, 0.into());
        }
        let Prepared { body, signed, failure } = self.prepare(content, &mut headers).await?;
        let (url, region) = match region {
            Some(region) => (self.endpoint.in_region(url, &region), region),
            None => (url, self.region.as_str().into()),
        };
        if self.settings.request_payer {
            headers.insert("x-amz-request-payer", HeaderValue::from_static("requester"));
        }
        let identity = self.keyring.identity().await?;
        if let Some(identity) = &identity {
            sign(&method, &url, &mut headers, &signed, identity, &region)?;
        } else if signed == Signed::UnsignedTrailer {
            let framing = HeaderValue::from_static("STREAMING-UNSIGNED-PAYLOAD-TRAILER");
            headers.insert("x-amz-content-sha256", framing);
        }
        if method == Method::GET {
            // Ask for the bytes as they are stored. Unsigned, because a proxy may change this header.
            headers.insert(header::ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        }
        let sent = self.connections.client(attempt).send(method, url, headers, body, work).await;
        let response = sent.map_err(|fault| failure.take().map_or(fault, source_fault))?;
        self.meet(response.headers(), &facts);
        if response.status().is_success() {
            facts.answered();
        }
        Ok(S3Answer { response, signed_as: SignedAs { identity, region } })
    }

    /// Sends a request. `Ok` is a successful answer, whose body is not read yet.
    pub(super) async fn send(&self, request: S3Request) -> Result<Response, Fault> {
        let answer = self.exchange(request).await?;
        if answer.response.status().is_success() {
            return Ok(answer.response);
        }
        Err(self.refused(answer).await)
    }

    /// Reads the fault that an answer describes.
    pub(super) async fn refused(&self, answer: S3Answer) -> Fault {
        let S3Answer { response, signed_as } = answer;
        let (status, headers) = (response.status(), response.headers().clone());
        let said = read(response, LONGEST_REFUSAL).await.unwrap_or_default();
        self.refusal(status, &headers, &said, &signed_as).await
    }

    async fn refusal(
        &self,
        status: StatusCode,
        headers: &HeaderMap,
        said: &[u8],
        signed_as: &SignedAs,
    ) -> Fault {
        let mut fault = fault::refusal(status, headers, said, &signed_as.region);
        if fault.kind == FaultKind::Expired
            && !matches!(&signed_as.identity, Some(identity) if self.keyring.refused(identity).await)
        {
            fault.kind = FaultKind::Credentials;
        }
        fault
    }

    /// Sends a request and reads the body of its answer.
    pub(super) async fn ask(&self, request: S3Request) -> Result<(HeaderMap, Bytes), Fault> {
        let mut response = self.send(request).await?;
        let headers = std::mem::take(response.headers_mut());
        Ok((headers, read(response, LONGEST).await?))
    }

    /// Sends a request that removes something, and checks that the answer confirms the removal.
    pub(super) async fn remove(&self, request: S3Request) -> Result<(), Fault> {
        let mut response = self.send(request).await?;
        let (status, headers) = (response.status(), std::mem::take(response.headers_mut()));
        let body = read(response, LONGEST_REFUSAL).await?;
        fault::no_error(&headers, &body, &self.region)?;
        proof::removed(status, &headers, &body)
    }

    /// Sends a payload. Returns the answer's headers, which include an ETag, and the payload's checksum.
    pub(super) async fn upload(
        &self,
        request: S3Request,
        payload: Payload,
    ) -> Result<(HeaderMap, Checksum), Fault> {
        let used = self.features_of(&payload);
        let send = |without| self.ask(request.clone().with(S3Content::Payload(payload.clone(), without)));
        let (headers, body) = self.adapted(&used, send).await?;
        fault::no_error(&headers, &body, &self.region)?;
        proof::written(&headers, &body)?;
        if headers.contains_key(checksum_header(payload.algorithm())) {
            self.facts.learn_has(Feature::Trailers);
        }
        let checksum = known(&payload)
            .ok_or_else(|| Fault::new(FaultKind::Transient, "the store answered before it had all bytes"))?;
        Ok((headers, checksum))
    }

    /// Whether a checksum may follow the bytes, in a trailer. Not before an answer has shown that the server knows our
    /// checksums: an older server takes the framing for the object's own bytes, and publishes it.
    fn takes_trailers(&self) -> bool {
        self.settings.trailers && (self.endpoint.is_aws() || self.facts.has(Feature::Trailers))
    }

    /// The features that a request with this payload uses, where the server is not known to lack them. Checksums come
    /// last: without them the signature covers the bytes, so that a request may succeed for another reason.
    fn features_of(&self, payload: &Payload) -> Vec<Feature> {
        let has_trailer = self.takes_trailers() && known(payload).is_none();
        let is_unsigned = !self.settings.payload_sha256;
        [
            has_trailer.then_some(Feature::Trailers),
            is_unsigned.then_some(Feature::UnsignedPayload),
            Some(Feature::kept(payload.algorithm())),
            Some(Feature::BytesWithoutMd5),
        ]
        .into_iter()
        .flatten()
        .collect()
    }

    async fn prepare(&self, content: S3Content, headers: &mut HeaderMap) -> Result<Prepared, Fault> {
        match content {
            S3Content::Nothing => Ok(Prepared {
                body: Sending::default(),
                signed: Signed::Nothing,
                failure: BodyFailure::default(),
            }),
            S3Content::Text(text) => {
                headers.insert(header::CONTENT_LENGTH, text.len().into());
                let signed = Signed::Text(text.clone());
                Ok(Prepared { body: sending(text), signed, failure: BodyFailure::default() })
            }
            S3Content::Payload(payload, without) => self.prepare_payload(payload, without, headers).await,
        }
    }

    async fn prepare_payload(
        &self,
        payload: Payload,
        without: FeatureSet,
        headers: &mut HeaderMap,
    ) -> Result<Prepared, Fault> {
        let settings = &self.settings;
        let name = checksum_header(payload.algorithm());
        let has_checksums = !without.contains(Feature::kept(payload.algorithm()));
        let has_trailers = self.takes_trailers() && has_checksums && !without.contains(Feature::Trailers);
        // Where the server checks no checksum, it still checks the bytes that a signature covers.
        let sha256 = settings.payload_sha256 || !has_checksums || without.contains(Feature::UnsignedPayload);
        if without.contains(Feature::BytesWithoutMd5) {
            headers.insert("content-md5", text(md5_of(&payload).await?)?);
        }
        let digest = if sha256 || (known(&payload).is_none() && !has_trailers) {
            read_ahead(&payload, sha256).await?
        } else {
            None
        };
        if !has_checksums && !payload.is_of_its_checksum().await.map_err(source_fault)? {
            // The server compares only the SHA-256, which was taken of the bytes as they are now.
            let message = "the bytes in memory are no longer those that the checksum was taken of";
            return Err(Fault::new(FaultKind::Integrity, message));
        }
        let (body, signed, failure) = if let Some(checksum) = known(&payload) {
            if has_checksums {
                headers.insert(name, text(checksum.base64())?);
            }
            let (body, failure) = Outgoing::plain(payload);
            (body, digest.map_or(Signed::Unsigned, Signed::Sha256), failure)
        } else {
            let encoding = match headers.get(header::CONTENT_ENCODING).map(HeaderValue::to_str) {
                Some(Ok(given)) => text(format!("{given},aws-chunked"))?,
                _ => HeaderValue::from_static("aws-chunked"),
            };
            headers.insert(header::CONTENT_ENCODING, encoding);
            headers.insert("x-amz-decoded-content-length", payload.len().into());
            headers.insert("x-amz-trailer", HeaderValue::from_static(name));
            let (body, failure) = Outgoing::with_trailer(payload, name);
            (body, Signed::UnsignedTrailer, failure)
        };
        headers.insert(header::CONTENT_LENGTH, body.len().into());
        Ok(Prepared { body: body.boxed_unsync(), signed, failure })
    }
}

/// Reads a payload once before it is sent, because its headers need the checksum or the SHA-256.
async fn read_ahead(payload: &Payload, sha256: bool) -> Result<Option<String>, Fault> {
    let mut digest = sha256.then(Sha256::new);
    let mut stream = payload.unsent();
    while let Some(piece) = stream.next().await {
        let piece = piece.map_err(source_fault)?;
        if let Some(digest) = &mut digest {
            digest.update(&piece);
        }
    }
    Ok(digest.map(|digest| digest.finalize().iter().map(|byte| format!("{byte:02x}")).collect()))
}

/// Fails if the store's checksum of the bytes it received differs from ours. A composite checksum (`…-N`) is ignored.
pub(super) fn check(ours: &Checksum, answer: &HeaderMap) -> Result<(), Fault> {
    match answer.get(checksum_header(ours.algorithm())).and_then(|value| value.to_str().ok()) {
        Some(theirs) if ours.compare(theirs) == Some(false) => {
            let name = ours.algorithm().name();
            let message = format!("the store's {name} of the bytes is {theirs}, ours is {}", ours.base64());
            Err(Fault::new(FaultKind::Integrity, message))
        }
        _ => Ok(()),
    }
}

/// The name of the header or trailer that carries a checksum, in requests and answers.
pub(super) fn checksum_header(algorithm: Algorithm) -> &'static str {
    match algorithm {
        Algorithm::Crc64Nvme => "x-amz-checksum-crc64nvme",
        Algorithm::Crc32c => "x-amz-checksum-crc32c",
    }
}
