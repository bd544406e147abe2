//! A payload as an HTTP body, framed as `aws-chunked` if its checksum follows the bytes.
//!
//! The length on the wire is known before the first byte is read, so `Content-Length` is exact. Framing goes into
//! separate buffers between the payload's pieces: no byte is copied.

use std::fmt::Write as _;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use futures::Stream;
use http_body::{Frame, SizeHint};

use tidegate_core::memory::payload::{Payload, PayloadStream};

/// Bytes in a chunk. S3 accepts no less than 8 KiB, MinIO no more than 16 MiB; some servers buffer a whole chunk
/// before they continue.
const CHUNK: u64 = 1 << 20;

/// The reason why a body ended early, kept for the sender, because the HTTP client wraps the body's errors.
#[derive(Clone, Debug, Default)]
pub struct BodyFailure(Arc<Mutex<Option<io::Error>>>);

impl BodyFailure {
    /// Records why the body failed.
    pub fn set(&self, error: io::Error) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
    }

    /// The error, if the source failed.
    pub fn take(&self) -> Option<io::Error> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// A payload being sent.
#[derive(Debug)]
pub struct Outgoing {
    payload: Payload,
    stream: PayloadStream,
    failure: BodyFailure,
    /// Bytes still to be sent on the wire.
    left: u64,
    /// Bytes sent before and after the payload.
    head: Bytes,
    tail: Bytes,
    /// The rest of the current piece of the payload.
    piece: Bytes,
    framing: Option<Framing>,
}

/// The position in the chunks.
#[derive(Debug)]
struct Framing {
    trailer: &'static str,
    /// Bytes of the payload that are not yet in a chunk.
    unframed: u64,
    /// Bytes missing in the current chunk.
    wanted: u64,
    begun: bool,
    ended: bool,
}

impl Outgoing {
    /// The payload's bytes alone.
    pub fn plain(payload: Payload) -> (Self, BodyFailure) {
        let left = payload.len();
        Self::new(payload, left, None)
    }

    /// The payload in chunks, followed by its checksum in the trailer `trailer`.
    pub fn with_trailer(payload: Payload, trailer: &'static str) -> (Self, BodyFailure) {
        let width = payload.algorithm().empty().base64().len() as u64;
        let left = framed_len(payload.len(), trailer.len() as u64 + width);
        let framing = Framing { trailer, unframed: payload.len(), wanted: 0, begun: false, ended: false };
        Self::new(payload, left, Some(framing))
    }

    /// The payload's bytes, with `head` before and `tail` after them.
    pub fn between(head: Bytes, payload: Payload, tail: Bytes) -> (Self, BodyFailure) {
        let left = (head.len() + tail.len()) as u64 + payload.len();
        let (outgoing, failure) = Self::new(payload, left, None);
        (Self { head, tail, ..outgoing }, failure)
    }

    fn new(payload: Payload, left: u64, framing: Option<Framing>) -> (Self, BodyFailure) {
        let failure = BodyFailure::default();
        let stream = payload.stream();
        let [head, tail, piece] = [const { Bytes::new() }; 3];
        (Self { payload, stream, failure: failure.clone(), left, head, tail, piece, framing }, failure)
    }

    /// The length on the wire.
    #[expect(clippy::len_without_is_empty, reason = "a number of bytes, not of elements")]
    pub fn len(&self) -> u64 {
        self.left
    }

    fn poll_bytes(&mut self, cx: &mut Context<'_>) -> Poll<Option<io::Result<Bytes>>> {
        if !self.head.is_empty() {
            return Poll::Ready(Some(Ok(std::mem::take(&mut self.head))));
        }
        let wanted = match &mut self.framing {
            None => u64::MAX,
            Some(framing) if framing.ended => return Poll::Ready(None),
            Some(framing) if framing.wanted == 0 => {
                let framing = framing.next(self.payload.checksum());
                return Poll::Ready(Some(framing));
            }
            Some(framing) => framing.wanted,
        };
        while self.piece.is_empty() {
            match ready!(Pin::new(&mut self.stream).poll_next(cx)) {
                Some(Ok(piece)) => self.piece = piece,
                Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                None if self.framing.is_none() && self.left == 0 => return Poll::Ready(None),
                None if self.left == self.tail.len() as u64 => self.piece = std::mem::take(&mut self.tail),
                None => return Poll::Ready(Some(Err(io::ErrorKind::UnexpectedEof.into()))),
            }
        }
        let taken = self.piece.len().min(usize::try_from(wanted).unwrap_or(usize::MAX));
        if let Some(framing) = &mut self.framing {
            framing.wanted -= taken as u64;
        }
        Poll::Ready(Some(Ok(self.piece.split_to(taken))))
    }
}

impl Framing {
    /// The framing between two chunks, or after the last one.
    fn next(&mut self, checksum: Option<tidegate_core::types::checksum::Checksum>) -> io::Result<Bytes> {
        let mut text = String::with_capacity(64);
        if self.begun {
            text.push_str("\r\n");
        }
        self.begun = true;
        let written = if self.unframed > 0 {
            self.wanted = self.unframed.min(CHUNK);
            self.unframed -= self.wanted;
            write!(text, "{:x}\r\n", self.wanted)
        } else {
            self.ended = true;
            let checksum =
                checksum.ok_or_else(|| io::Error::other("the checksum is not known at the end"))?;
            write!(text, "0\r\n{}:{}\r\n\r\n", self.trailer, checksum.base64())
        };
        written.map_err(io::Error::other)?;
        Ok(text.into())
    }
}

/// The length of `len` bytes in chunks, with a trailer whose name and value together have `trailer` bytes.
fn framed_len(len: u64, trailer: u64) -> u64 {
    let chunk = |size: u64| format!("{size:x}").len() as u64 + 2 + size + 2;
    let last = len % CHUNK;
    let rest = if last > 0 { chunk(last) } else { 0 };
    len / CHUNK * chunk(CHUNK) + rest + "0\r\n".len() as u64 + trailer + ":\r\n\r\n".len() as u64
}

impl http_body::Body for Outgoing {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        let this = &mut *self;
        match ready!(this.poll_bytes(cx)) {
            Some(Ok(bytes)) => {
                this.left = this.left.saturating_sub(bytes.len() as u64);
                Poll::Ready(Some(Ok(Frame::data(bytes))))
            }
            Some(Err(error)) => {
                let told = io::Error::new(error.kind(), error.to_string());
                this.failure.set(error);
                Poll::Ready(Some(Err(told)))
            }
            None => Poll::Ready(None),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.left == 0
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use http_body::Body as _;

    use super::*;
    use tidegate_core::memory::budget::{Budget, Slab};
    use tidegate_core::memory::payload::{Ring, SourceFile};
    use tidegate_core::types::checksum::{Algorithm, Checksum};

    const NAME: &str = "x-amz-checksum-crc64nvme";

    async fn wire(mut body: Outgoing) -> io::Result<Vec<u8>> {
        let mut all = Vec::new();
        let expected = body.len();
        while let Some(frame) = std::future::poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await {
            all.extend_from_slice(&frame?.into_data().unwrap());
            assert_eq!(body.size_hint().exact(), Some(expected - all.len() as u64));
        }
        assert_eq!(all.len() as u64, expected);
        assert!(body.is_end_stream());
        Ok(all)
    }

    async fn from_file(data: &[u8], len: u64, slab: usize) -> (Payload, impl Drop) {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(data).unwrap();
        let source = Arc::new(SourceFile::open(file.path()).unwrap());
        let budget = Budget::new(1 << 20, slab);
        let slabs = vec![Slab::new(budget.lease(slab as u64).await.unwrap())];
        (Payload::from_file(source, 0, len, Ring::new(slabs), Algorithm::Crc64Nvme), file.into_temp_path())
    }

    #[tokio::test]
    async fn chunks_and_trailer_are_framed_exactly() {
        let (payload, _file) = from_file(b"hello world", 11, 4).await;
        let (body, failure) = Outgoing::with_trailer(payload.clone(), NAME);
        let sum = Checksum::of(Algorithm::Crc64Nvme, b"hello world").base64();
        let expected = format!("b\r\nhello world\r\n0\r\n{NAME}:{sum}\r\n\r\n");
        assert_eq!(wire(body).await.unwrap(), expected.as_bytes());
        assert!(failure.take().is_none());
        assert_eq!(payload.checksum().unwrap().base64(), sum);
    }

    #[tokio::test]
    async fn others_bytes_go_before_and_behind() {
        for data in [&b""[..], b"hello world"] {
            let (payload, _file) = from_file(data, data.len() as u64, 4).await;
            let (body, failure) = Outgoing::between("head-".into(), payload, "-tail".into());
            assert_eq!(wire(body).await.unwrap(), [b"head-", data, b"-tail"].concat());
            assert!(failure.take().is_none());
        }
        let (payload, _file) = from_file(b"short", 7, 4).await;
        let (body, failure) = Outgoing::between("head-".into(), payload, "-tail".into());
        assert!(wire(body).await.is_err());
        assert!(failure.take().is_some(), "the tail does not make up for what is missing");
    }

    #[tokio::test]
    async fn lengths_are_right_around_a_chunk_and_the_bytes_come_back() {
        let chunk = usize::try_from(CHUNK).unwrap();
        for len in [0, 1, chunk - 1, chunk, chunk + 1, 3 * chunk + 5] {
            let data: Vec<u8> = (0..len).map(|at| at as u8).collect();
            let sum = Checksum::of(Algorithm::Crc64Nvme, &data);
            // Pieces that do not fall on the edges of chunks.
            let pieces = data.chunks(70_001).map(Bytes::copy_from_slice).collect();
            let (body, _) = Outgoing::with_trailer(Payload::from_memory(pieces, sum), NAME);
            let mut wire = &wire(body).await.unwrap()[..];
            let mut back = Vec::new();
            loop {
                let end = wire.windows(2).position(|pair| pair == b"\r\n").unwrap();
                let size = usize::from_str_radix(std::str::from_utf8(&wire[..end]).unwrap(), 16).unwrap();
                wire = &wire[end + 2..];
                if size == 0 {
                    break;
                }
                back.extend_from_slice(&wire[..size]);
                assert_eq!(&wire[size..size + 2], b"\r\n");
                wire = &wire[size + 2..];
            }
            assert_eq!(wire, format!("{NAME}:{}\r\n\r\n", sum.base64()).as_bytes());
            assert!(back == data, "{len}");
        }
    }

    #[tokio::test]
    async fn a_source_that_fails_leaves_its_error_with_the_sender() {
        let (payload, _file) = from_file(b"short", 11, 4).await;
        let (body, failure) = Outgoing::with_trailer(payload, NAME);
        wire(body).await.unwrap_err();
        assert!(failure.take().unwrap().to_string().contains("truncated"));
    }
}
