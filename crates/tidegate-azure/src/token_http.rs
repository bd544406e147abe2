//! The HTTP client of Azure's identity library: ours, so that tokens come over the same TLS and the same proxies as
//! objects.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use azure_core::error::ErrorKind;
use azure_core::http::headers::Headers;
use azure_core::http::{AsyncRawResponse, Body, HttpClient, Request, StatusCode, Url};
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, header};
use tokio::time::Instant;

use tidegate_core::backend::{Attempt, Fault};
use tidegate_http::{Connections, LONGEST_REFUSAL, Work, innermost, read, sending};

/// The address of the metadata server that machines and containers of Azure have.
const METADATA: &str = "169.254.169.254";
/// How long a connection to a local token server may take. Elsewhere nothing answers at its address, and some networks
/// do not even refuse.
const LOCAL_CONNECT: Duration = Duration::from_secs(1);

/// Time to wait before looking for credentials again: the user may sign in, or the machine's server may start.
pub(super) const PAUSE: Duration = Duration::from_secs(30);

/// Whether this machine has Azure's metadata server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MetadataServer {
    /// Nobody has asked yet, or not for a while.
    Unknown,
    /// It has answered.
    Answers,
    /// It could not be reached, and is not asked again for a while.
    Absent { since: Instant },
}

/// Sends requests for tokens.
pub(super) struct TokenHttp {
    ca_bundle: Option<PathBuf>,
    connect_timeout: Duration,
    connections: Mutex<BTreeMap<String, Arc<Connections>>>,
    metadata: Mutex<MetadataServer>,
    /// The origin of the server that gets all requests in tests, instead of the servers that they are for.
    #[cfg(test)]
    pub(super) detour: Option<String>,
}

impl TokenHttp {
    pub(super) fn new(ca_bundle: Option<PathBuf>, connect_timeout: Duration) -> Self {
        Self {
            ca_bundle,
            connect_timeout,
            connections: Mutex::default(),
            metadata: Mutex::new(MetadataServer::Unknown),
            #[cfg(test)]
            detour: None,
        }
    }

    pub(super) fn metadata(&self) -> MetadataServer {
        match *self.metadata.lock().unwrap_or_else(PoisonError::into_inner) {
            MetadataServer::Absent { since } if since.elapsed() >= PAUSE => MetadataServer::Unknown,
            state => state,
        }
    }

    /// The metadata server answered, or it did not. Once it has answered, it exists.
    pub(super) fn metadata_answered(&self, answered: bool) {
        let mut state = self.metadata.lock().unwrap_or_else(PoisonError::into_inner);
        if answered {
            *state = MetadataServer::Answers;
        } else if *state != MetadataServer::Answers {
            *state = MetadataServer::Absent { since: Instant::now() };
        }
    }

    /// The connections to the server of a URL. Local servers, which alone use http, are never reached by a proxy.
    fn connections(&self, url: &Url) -> Result<Arc<Connections>, Fault> {
        let origin = url.origin().ascii_serialization();
        let mut kept = self.connections.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(connections) = kept.get(&origin) {
            return Ok(connections.clone());
        }
        let bundle = self.ca_bundle.as_deref();
        let connections = Arc::new(match url.scheme() {
            "https" => Connections::new(&origin, self.connect_timeout, bundle)?,
            _ => Connections::direct(&origin, LOCAL_CONNECT)?,
        });
        kept.insert(origin, connections.clone());
        Ok(connections)
    }

    async fn send(&self, request: &Request) -> Result<(u16, HeaderMap, Bytes), Fault> {
        #[cfg_attr(not(test), expect(unused_mut))]
        let mut url = request.url().clone();
        #[cfg(test)]
        if let Some(detour) = &self.detour {
            let path = request.path_and_query();
            url = Url::parse(&format!("{detour}/{}", path.trim_start_matches('/'))).expect("a URL");
        }
        let connections = self.connections(&url)?;
        let method = Method::from_bytes(request.method().as_ref().as_bytes()).unwrap_or(Method::GET);
        let mut headers = HeaderMap::new();
        for (name, value) in request.headers().iter() {
            let name = HeaderName::try_from(name.as_str());
            if let (Ok(name), Ok(value)) = (name, HeaderValue::try_from(value.as_str())) {
                headers.insert(name, value);
            }
        }
        let body = match request.body() {
            Body::Bytes(bytes) => bytes.clone(),
            // No request for a token has such a body.
            Body::SeekableStream(_) => Bytes::new(),
        };
        headers.insert(header::CONTENT_LENGTH, body.len().into());
        let client = connections.client(Attempt::FIRST);
        let mut response = client.send(method, url.to_string(), headers, sending(body), Work::Much).await?;
        let (status, headers) = (response.status().as_u16(), std::mem::take(response.headers_mut()));
        Ok((status, headers, read(response, LONGEST_REFUSAL).await?))
    }
}

#[async_trait]
impl HttpClient for TokenHttp {
    async fn execute_request(&self, request: &Request) -> azure_core::Result<AsyncRawResponse> {
        let is_metadata = request.url().host_str() == Some(METADATA);
        // An error of this kind is not retried by the library.
        let failed = |message: String| azure_core::Error::with_message(ErrorKind::Credential, message);
        let (status, headers, body) = match self.send(request).await {
            Ok(answer) => answer,
            Err(fault) if is_metadata => {
                self.metadata_answered(false);
                return Err(failed(format!("no metadata server answers ({})", innermost(&fault))));
            }
            Err(fault) => {
                let message = fault.message.clone();
                return Err(azure_core::Error::with_error(ErrorKind::Io, fault, message));
            }
        };
        if is_metadata {
            // The machines of other clouds have another server at this address.
            let server =
                headers.get(header::SERVER).and_then(|server| server.to_str().ok()).unwrap_or_default();
            let is_azures = server.contains("IMDS") || server.contains("Microsoft") || status == 200;
            // Any server may ask for fewer requests: that tells nothing.
            if !matches!(status, 400 | 429) && !is_azures && self.metadata() != MetadataServer::Answers {
                self.metadata_answered(false);
                return Err(failed(format!("the metadata server is not Azure's (HTTP {status})")));
            }
            if is_azures || status != 429 {
                self.metadata_answered(true);
            }
        }
        let mut carried = Headers::new();
        for (name, value) in &headers {
            if let Ok(value) = value.to_str() {
                carried.insert(name.as_str().to_owned(), value.to_owned());
            }
        }
        let body = if status < 400 { body } else { without_escapes(body) };
        Ok(AsyncRawResponse::from_bytes(StatusCode::from(status), carried, body))
    }
}

/// The document of a refusal with its description as one line without escapes: the library cannot read others, and
/// Microsoft's have line ends.
fn without_escapes(body: Bytes) -> Bytes {
    let Ok(mut document) = serde_json::from_slice::<serde_json::Value>(&body) else { return body };
    let Some(serde_json::Value::String(said)) = document.get_mut("error_description") else { return body };
    let letters = said.chars().map(|letter| match letter {
        '"' | '\\' => '\'',
        letter if letter.is_control() => ' ',
        letter => letter,
    });
    *said = letters.collect();
    Bytes::from(document.to_string())
}

impl fmt::Debug for TokenHttp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TokenHttp").field("metadata", &self.metadata()).finish_non_exhaustive()
    }
}
