//! A request to the JSON API, and its body piece by piece.

use std::io::Write as _;

use bytes::{Bytes, BytesMut};
use flate2::write::GzDecoder;
use http::StatusCode;
use http::header::{CONTENT_ENCODING, HOST};
use http::request::Parts;
use s3s::StdError;
use tokio_util::sync::CancellationToken;

use super::header;
use super::refusal::GcsRefusal;
use crate::body::CountedBody;

/// The largest JSON accepted, in bytes: an object's metadata is normally about a page.
pub(super) const LARGEST_JSON: usize = 4 * 1024 * 1024;

/// How many compressed bytes are decompressed at a time; they can expand a thousandfold.
const DECOMPRESSED: usize = 4 * 1024;

#[derive(Debug)]
pub(super) struct Request {
    pub(super) parts: Parts,
    body: CountedBody,
    stop: CancellationToken,
    scheme: &'static str,
    gzip: Option<Gzip>,
}

/// The server stopped while a body was arriving.
#[derive(Debug, thiserror::Error)]
#[error("the server stops")]
struct Stopped;

#[derive(Debug)]
struct Gzip {
    decoder: GzDecoder<Vec<u8>>,
    rest: Bytes,
}

impl Request {
    pub(super) fn new(
        parts: Parts,
        body: CountedBody,
        stop: CancellationToken,
        scheme: &'static str,
    ) -> Self {
        Self { parts, body, stop, scheme, gzip: None }
    }

    /// The server's URL as the client used it, such as `http://HOST`, for links.
    pub(super) fn origin(&self) -> String {
        let authority = self.parts.uri.authority().map(|authority| authority.as_str());
        let host = header(&self.parts.headers, HOST.as_str()).or(authority).unwrap_or("localhost");
        format!("{}://{host}", self.scheme)
    }

    pub(super) fn header(&self, name: &str) -> Option<&str> {
        header(&self.parts.headers, name)
    }

    /// Decompresses the rest of the body, if the client compressed it: Google's Java client compresses JSON and
    /// `multipart/related`. An object's bytes sent on their own are stored as they are.
    pub(super) fn decompressed(mut self) -> Self {
        if self.header(CONTENT_ENCODING.as_str()) == Some("gzip") {
            self.gzip = Some(Gzip { decoder: GzDecoder::new(Vec::new()), rest: Bytes::new() });
        }
        self
    }

    /// The next bytes of the body.
    pub(super) async fn next(&mut self) -> Option<Result<Bytes, StdError>> {
        loop {
            if let Some(gzip) = &mut self.gzip {
                match gzip.some() {
                    Ok(bytes) if bytes.is_empty() => {}
                    Ok(bytes) => return Some(Ok(bytes)),
                    Err(error) => return Some(Err(error.into())),
                }
            }
            let next = tokio::select! {
                () = self.stop.cancelled() => Some(Err(Box::new(Stopped) as StdError)),
                next = self.body.next() => next,
            };
            match (next, &mut self.gzip) {
                (Some(Ok(bytes)), Some(gzip)) => gzip.rest = bytes,
                // The decoder reports an error here if the compressed body was cut short.
                (None, Some(gzip)) => {
                    let end = gzip.decoder.try_finish();
                    let bytes = std::mem::take(gzip.decoder.get_mut());
                    self.gzip = None;
                    match end {
                        Err(error) => return Some(Err(error.into())),
                        Ok(()) if bytes.is_empty() => return None,
                        Ok(()) => return Some(Ok(bytes.into())),
                    }
                }
                (next, _) => return next,
            }
        }
    }

    pub(super) async fn read_json(self) -> Result<Bytes, GcsRefusal> {
        let mut request = self.decompressed();
        let mut json = BytesMut::new();
        while let Some(bytes) = request.next().await {
            json.extend_from_slice(&bytes.map_err(|error| GcsRefusal::broken_body(&error))?);
            if json.len() > LARGEST_JSON {
                return Err(GcsRefusal::new(
                    StatusCode::PAYLOAD_TOO_LARGE,
                    "uploadTooLarge",
                    "Too much JSON.",
                ));
            }
        }
        Ok(json.freeze())
    }
}

impl Gzip {
    /// Decompresses some of the buffered bytes; returns none if the buffer is empty.
    fn some(&mut self) -> std::io::Result<Bytes> {
        while !self.rest.is_empty() {
            let piece = self.rest.split_to(self.rest.len().min(DECOMPRESSED));
            self.decoder.write_all(&piece)?;
            let bytes = std::mem::take(self.decoder.get_mut());
            if !bytes.is_empty() {
                return Ok(bytes.into());
            }
        }
        Ok(Bytes::new())
    }
}
