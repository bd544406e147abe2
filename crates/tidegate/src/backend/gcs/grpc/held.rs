//! A call of `BidiWriteObject` that is held open: a message for each grain as it comes. What is less waits here for
//! the rest: of a session nothing but whole grains is persisted.
//!
//! The bytes are copied, and whose they are has them back at once: a store that takes nothing more of a call would
//! keep what the connection has of it in hand, whoever has given the call up.
//!
//! Where the session stands is asked on the same stream: a message that has what was sent persisted, and
//! asks how much that is. It is persisted for nobody else: "this option should be used sparingly".

use std::collections::VecDeque;
use std::io;
use std::mem;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};

use bytes::{Bytes, BytesMut};
use futures::Stream;
use http_body::Frame;
use proto::bidi_write_object_request::FirstMessage;
use tokio::sync::{mpsc, oneshot};

use super::convert::{crc32c, signed};
use super::frame::{lead, trail, whole};
use super::proto;
use crate::backend::gcs::append::GRAIN;
use crate::memory::payload::Unending;
use crate::types::checksum::{Algorithm, Hasher};

/// Who wants to know where a session stands.
pub(super) type Question = oneshot::Sender<u64>;

/// Questions that the store was asked and has not answered, in order.
#[derive(Clone, Debug, Default)]
pub(super) struct Asked(Arc<Mutex<VecDeque<Question>>>);

impl Asked {
    fn push(&self, question: Question) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push_back(question);
    }

    /// The store has said so.
    pub(super) fn answer(&self, persisted: u64) {
        if let Some(question) = self.0.lock().unwrap_or_else(PoisonError::into_inner).pop_front() {
            // Who does not wait any more has asked again.
            let _ = question.send(persisted);
        }
    }
}

/// The messages of such a call.
#[derive(Debug)]
pub(super) struct Held {
    first: Option<FirstMessage>,
    /// Where the next message begins.
    at: u64,
    /// What there is of its bytes.
    grain: BytesMut,
    pieces: Unending,
    /// The rest of a piece.
    piece: Bytes,
    questions: mpsc::Receiver<Question>,
    asked: Asked,
    ready: VecDeque<Bytes>,
}

impl Held {
    pub(super) fn new(
        id: String,
        at: u64,
        pieces: Unending,
        questions: mpsc::Receiver<Question>,
        asked: Asked,
    ) -> Self {
        Self {
            first: Some(FirstMessage::UploadId(id)),
            at,
            grain: BytesMut::new(),
            pieces,
            piece: Bytes::new(),
            questions,
            asked,
            ready: VecDeque::new(),
        }
    }

    fn head(&mut self) -> proto::BidiWriteObjectRequest {
        proto::BidiWriteObjectRequest {
            first_message: self.first.take(),
            write_offset: signed(self.at),
            ..proto::BidiWriteObjectRequest::default()
        }
    }

    /// A message that asks and brings nothing.
    fn ask(&mut self, question: Question) {
        // A session that stands elsewhere than at a grain's end does so only before its first message.
        let flush = self.at.is_multiple_of(GRAIN);
        self.asked.push(question);
        let head = self.head();
        self.ready.push_back(whole(&proto::BidiWriteObjectRequest { state_lookup: true, flush, ..head }));
    }

    /// Takes of the piece what the grain still wants, and makes a message of it once it is whole.
    fn bring(&mut self) {
        let size = (GRAIN - self.at % GRAIN) as usize;
        if self.grain.is_empty() {
            self.grain.reserve(size);
        }
        let wanted = size - self.grain.len();
        let bytes = self.piece.split_to(wanted.min(self.piece.len()));
        self.grain.extend_from_slice(&bytes);
        if bytes.len() < wanted {
            return;
        }
        let bytes = mem::take(&mut self.grain).freeze();
        let head = self.head();
        self.at += size as u64;
        let mut hasher = Hasher::new(Algorithm::Crc32c);
        hasher.update(&bytes);
        let end = trail(crc32c(&hasher.finish()), &proto::BidiWriteObjectRequest::default());
        self.ready.extend([lead(&head, size as u64, 0), bytes, end]);
    }

    fn poll_bytes(&mut self, cx: &mut Context<'_>) -> Poll<Option<io::Result<Bytes>>> {
        loop {
            if let Some(bytes) = self.ready.pop_front() {
                return Poll::Ready(Some(Ok(bytes)));
            }
            if let Poll::Ready(Some(question)) = self.questions.poll_recv(cx) {
                if !question.is_closed() {
                    self.ask(question);
                }
                continue;
            }
            if self.piece.is_empty() {
                match ready!(Pin::new(&mut self.pieces).poll_next(cx)) {
                    Some(piece) => self.piece = piece?,
                    None => return Poll::Ready(None),
                }
            }
            self.bring();
        }
    }
}

impl http_body::Body for Held {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        Poll::Ready(ready!(self.poll_bytes(cx)).map(|bytes| bytes.map(Frame::data)))
    }
}
