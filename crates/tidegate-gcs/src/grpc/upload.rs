//! A payload as messages of `WriteObject`: its bytes in their own buffers, each message's checksum after them.
//!
//! If the object is to be published, the last message has the checksum of the whole object after its bytes, so that a
//! file is read once.

use std::collections::VecDeque;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use futures::Stream;
use http_body::Frame;
use prost::Message;
use proto::write_object_request::FirstMessage;

use super::convert::{checksums, crc32c, signed};
use super::frame::{LARGEST, lead, trail, whole};
use super::proto;
use tidegate_core::memory::payload::{Payload, PayloadStream};
use tidegate_core::types::checksum::{Algorithm, Checksum, Hasher};
use tidegate_http::{BodyFailure, known};

/// The state of the object after the last byte.
#[derive(Clone, Copy, Debug)]
pub(super) enum WriteEnd {
    /// More bytes follow in another call.
    Open,
    /// Published if it has this checksum; with `None`, the checksum of the payload.
    Publish(Option<Checksum>),
}

/// A payload being sent.
#[derive(Debug)]
pub(super) struct UploadMessages {
    first: Option<FirstMessage>,
    offset: u64,
    payload: Payload,
    stream: PayloadStream,
    end: WriteEnd,
    /// Bytes of the payload that are not yet in a message.
    left: u64,
    message: Option<CurrentMessage>,
    /// The rest of the current piece of the payload.
    piece: Bytes,
    ready: VecDeque<Bytes>,
    failure: BodyFailure,
}

/// A message being sent.
#[derive(Debug)]
struct CurrentMessage {
    hasher: Hasher,
    /// Bytes missing in this message.
    wanted: u64,
    is_last: bool,
}

impl UploadMessages {
    /// Uploads the payload at `offset` of an object. If the source fails, the returned `BodyFailure` holds the reason.
    pub(super) fn new(
        first: FirstMessage,
        offset: u64,
        payload: Payload,
        end: WriteEnd,
    ) -> (Self, BodyFailure) {
        let failure = BodyFailure::default();
        let upload = Self {
            first: Some(first),
            offset,
            stream: payload.stream(),
            end,
            left: payload.len(),
            payload,
            message: None,
            piece: Bytes::new(),
            ready: VecDeque::new(),
            failure: failure.clone(),
        };
        (upload, failure)
    }

    /// Begins the next message; a message without bytes is complete at once.
    fn begin(&mut self) -> io::Result<()> {
        let wanted = self.left.min(LARGEST);
        let head = proto::WriteObjectRequest {
            first_message: self.first.take(),
            write_offset: signed(self.offset),
            ..proto::WriteObjectRequest::default()
        };
        self.left -= wanted;
        self.offset += wanted;
        if wanted == 0 {
            let end = self.last()?;
            self.ready.push_back(whole(&proto::WriteObjectRequest {
                object_checksums: end.object_checksums,
                finish_write: end.finish_write,
                ..head
            }));
            return Ok(());
        }
        let is_last = self.left == 0;
        // Has the length of the message with the checksum, which is not known yet.
        let sample = match self.end {
            WriteEnd::Publish(_) if is_last => finishing(&Algorithm::Crc32c.empty()),
            _ => proto::WriteObjectRequest::default(),
        };
        self.ready.push_back(lead(&head, wanted, sample.encoded_len()));
        self.message = Some(CurrentMessage { hasher: Hasher::new(Algorithm::Crc32c), wanted, is_last });
        Ok(())
    }

    /// The fields of the last message after its bytes.
    fn last(&self) -> io::Result<proto::WriteObjectRequest> {
        let WriteEnd::Publish(whole) = self.end else { return Ok(proto::WriteObjectRequest::default()) };
        let whole = whole.or_else(|| known(&self.payload));
        let unknown = || io::Error::other("the checksum is not known at the end of the bytes");
        whole.as_ref().map(finishing).ok_or_else(unknown)
    }

    fn poll_bytes(&mut self, cx: &mut Context<'_>) -> Poll<Option<io::Result<Bytes>>> {
        loop {
            if let Some(bytes) = self.ready.pop_front() {
                return Poll::Ready(Some(Ok(bytes)));
            }
            let Some(message) = &mut self.message else {
                if self.left == 0 && self.first.is_none() {
                    return Poll::Ready(None);
                }
                self.begin()?;
                continue;
            };
            if message.wanted == 0 {
                // Only at its end is a file known to be unchanged.
                if message.is_last
                    && let Some(more) = ready!(Pin::new(&mut self.stream).poll_next(cx))
                {
                    more?;
                    return Poll::Ready(Some(Err(io::Error::other(
                        "there are more bytes than there were to be",
                    ))));
                }
                let sum = crc32c(&message.hasher.finish());
                let tail = if message.is_last { self.last()? } else { proto::WriteObjectRequest::default() };
                self.message = None;
                self.ready.push_back(trail(sum, &tail));
                continue;
            }
            if self.piece.is_empty() {
                let early = || io::Error::other("the bytes ended early");
                self.piece = ready!(Pin::new(&mut self.stream).poll_next(cx)).ok_or_else(early)??;
                continue;
            }
            // Not more than the piece's own length.
            let bytes = self.piece.split_to(message.wanted.min(self.piece.len() as u64) as usize);
            message.hasher.update(&bytes);
            message.wanted -= bytes.len() as u64;
            return Poll::Ready(Some(Ok(bytes)));
        }
    }
}

fn finishing(whole: &Checksum) -> proto::WriteObjectRequest {
    proto::WriteObjectRequest {
        object_checksums: Some(checksums(whole)),
        finish_write: true,
        ..proto::WriteObjectRequest::default()
    }
}

impl http_body::Body for UploadMessages {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        Poll::Ready(ready!(self.poll_bytes(cx)).map(|bytes| match bytes {
            Ok(bytes) => Ok(Frame::data(bytes)),
            Err(error) => {
                self.failure.set(error);
                Err(io::Error::other("the source failed"))
            }
        }))
    }
}
