//! Decodes `STREAMING-UNSIGNED-PAYLOAD-TRAILER` bodies as they arrive.
//!
//! s3s can decode them too, but buffers each chunk whole before it returns the first byte: a part that a client
//! sends as one chunk sits in memory until it has left the processor's cache. s3s also accepts a body that
//! breaks off between two chunks as complete. The signature of such a request does not cover its body, so the
//! body can be set aside (see [`is_unsigned_upload`]) before s3s gets the request, and decoded here.

use bytes::{Buf, Bytes};
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use http_body::{Body, Frame};
use http_body_util::BodyExt;
use s3s::StdError;

/// The longest line, in bytes: a chunk's head is a hexadecimal length and is far shorter, even with all
/// extensions.
const LONGEST_LINE: usize = 8 * 1024;
/// The most trailers accepted: more than any client needs.
const MOST_TRAILERS: usize = 32;

/// An error in the framing.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FramingError {
    #[error("the body ends within its chunk framing")]
    Incomplete,
    #[error("bad chunk framing: {0}")]
    Malformed(&'static str),
    #[error(transparent)]
    Body(StdError),
}

/// Whether the request uploads an object or a part in this encoding.
pub(crate) fn is_unsigned_upload(parts: &Parts) -> bool {
    let names_upload = parts.uri.query().is_none_or(|query| {
        query.split('&').all(|pair| {
            let name = pair.split('=').next().unwrap_or(pair);
            matches!(name, "partNumber" | "uploadId" | "x-id")
        })
    });
    parts.method == Method::PUT
        && names_upload
        && parts
            .headers
            .get("x-amz-content-sha256")
            .is_some_and(|value| value == "STREAMING-UNSIGNED-PAYLOAD-TRAILER")
}

#[derive(Debug)]
enum DecoderState {
    Head,
    Data(u64),
    DataEnd,
    Trailers,
    Done,
}

/// Decodes one body; holds its trailers once it has ended.
#[derive(Debug)]
pub(crate) struct Decoder<B> {
    body: B,
    pending: Bytes,
    state: DecoderState,
    trailers: HeaderMap,
}

impl<B: Body<Data = Bytes, Error = StdError> + Unpin> Decoder<B> {
    pub(crate) fn new(body: B) -> Self {
        Self { body, pending: Bytes::new(), state: DecoderState::Head, trailers: HeaderMap::new() }
    }

    /// The trailers; complete once [`Self::next`] has returned `None`.
    pub(crate) fn trailers(&self) -> &HeaderMap {
        &self.trailers
    }

    /// The next decoded bytes.
    pub(crate) async fn next(&mut self) -> Option<Result<Bytes, FramingError>> {
        loop {
            let step = match self.state {
                DecoderState::Data(left) => self.data(left).await.map(Some),
                DecoderState::Done => return None,
                DecoderState::Head | DecoderState::DataEnd | DecoderState::Trailers => {
                    self.line().await.map(|()| None)
                }
            };
            match step {
                Ok(Some(data)) => return Some(Ok(data)),
                Ok(None) => {}
                Err(error) => {
                    self.state = DecoderState::Done;
                    return Some(Err(error));
                }
            }
        }
    }

    async fn data(&mut self, left: u64) -> Result<Bytes, FramingError> {
        self.fill().await?;
        let size = self.pending.len().min(usize::try_from(left).unwrap_or(usize::MAX));
        let left = left - size as u64;
        self.state = if left == 0 { DecoderState::DataEnd } else { DecoderState::Data(left) };
        Ok(self.pending.split_to(size))
    }

    /// Reads one line and advances the state.
    async fn line(&mut self) -> Result<(), FramingError> {
        let line = self.read_line().await?;
        match self.state {
            DecoderState::Head => {
                let size = line.split(';').next().unwrap_or(&line);
                let size = u64::from_str_radix(size.trim(), 16)
                    .map_err(|_| FramingError::Malformed("the chunk's length is not a number"))?;
                self.state = if size == 0 { DecoderState::Trailers } else { DecoderState::Data(size) };
            }
            DecoderState::DataEnd if line.is_empty() => self.state = DecoderState::Head,
            DecoderState::DataEnd => {
                return Err(FramingError::Malformed("the chunk is longer than it says"));
            }
            DecoderState::Trailers if line.is_empty() => self.end().await?,
            DecoderState::Trailers => {
                let (name, value) =
                    line.split_once(':').ok_or(FramingError::Malformed("a trailer has no colon"))?;
                let name = HeaderName::from_bytes(name.trim().as_bytes())
                    .map_err(|_| FramingError::Malformed("a trailer has a bad name"))?;
                let value = HeaderValue::from_str(value.trim())
                    .map_err(|_| FramingError::Malformed("a trailer has a bad value"))?;
                if self.trailers.len() >= MOST_TRAILERS {
                    return Err(FramingError::Malformed("too many trailers"));
                }
                self.trailers.append(name, value);
            }
            DecoderState::Data(_) | DecoderState::Done => {}
        }
        Ok(())
    }

    async fn read_line(&mut self) -> Result<String, FramingError> {
        let mut line = Vec::new();
        loop {
            if self.pending.is_empty() && !self.fetch().await? {
                // Some clients leave out the empty line after the trailers.
                return match self.state {
                    DecoderState::Trailers => text(line),
                    _ => Err(FramingError::Incomplete),
                };
            }
            let end = self.pending.iter().position(|&byte| byte == b'\n');
            let size = end.map_or(self.pending.len(), |end| end + 1);
            if line.len() + size > LONGEST_LINE {
                return Err(FramingError::Malformed("a line is too long"));
            }
            line.extend_from_slice(&self.pending[..size]);
            self.pending.advance(size);
            if end.is_some() {
                return text(line);
            }
        }
    }

    /// Checks that no bytes follow, by reading the request to its end: then its connection can be reused.
    async fn end(&mut self) -> Result<(), FramingError> {
        if !self.pending.is_empty() || self.fetch().await? {
            return Err(FramingError::Malformed("bytes after the last chunk"));
        }
        self.state = DecoderState::Done;
        Ok(())
    }

    async fn fill(&mut self) -> Result<(), FramingError> {
        if self.pending.is_empty() && !self.fetch().await? {
            return Err(FramingError::Incomplete);
        }
        Ok(())
    }

    async fn fetch(&mut self) -> Result<bool, FramingError> {
        loop {
            match self.body.frame().await.map(|frame| frame.map(Frame::into_data)) {
                Some(Ok(Ok(bytes))) if !bytes.is_empty() => {
                    self.pending = bytes;
                    return Ok(true);
                }
                // HTTP's own trailers are ignored.
                Some(Ok(_)) => {}
                Some(Err(error)) => return Err(FramingError::Body(error)),
                None => return Ok(false),
            }
        }
    }
}

fn text(mut line: Vec<u8>) -> Result<String, FramingError> {
    while line.last().is_some_and(|byte| matches!(byte, b'\r' | b'\n')) {
        line.pop();
    }
    String::from_utf8(line).map_err(|_| FramingError::Malformed("a line is not text"))
}
