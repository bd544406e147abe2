//! A call of `BidiWriteObject` that is held open: each piece goes as a message of its own as it comes.
//!
//! Where the session stands is asked on the same stream: a message that has what was sent persisted, and
//! asks how much that is. It is persisted for nobody else: "this option should be used sparingly".

use std::collections::VecDeque;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use futures::Stream;
use http_body::Frame;
use prost::Message;
use proto::bidi_write_object_request::FirstMessage;
use tokio::sync::{mpsc, oneshot};

use super::convert::{crc32c, signed};
use super::frame::{LARGEST, lead, trail, whole};
use super::proto;
use crate::backend::gcs::append::GRAIN;
use crate::checksum::{Algorithm, Hasher};
use crate::payload::Unending;

/// Who wants to know where a session stands.
pub(super) type Question = oneshot::Sender<u64>;

/// Questions that the store was asked and has not answered, in order.
#[derive(Clone, Debug, Default)]
pub(super) struct Asked(Arc<Mutex<VecDeque<Question>>>);

impl Asked {
    fn push(&self, questions: impl Iterator<Item = Question>) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend(questions);
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
    at: u64,
    pieces: Unending,
    /// The rest of a piece.
    piece: Bytes,
    questions: mpsc::Receiver<Question>,
    /// A question that no message has asked yet.
    question: Option<Question>,
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
            pieces,
            piece: Bytes::new(),
            questions,
            question: None,
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

    /// The next message asks, if anybody does.
    fn asks(&mut self) -> bool {
        let asks = self.question.is_some();
        self.asked.push(self.question.take().into_iter());
        asks
    }

    /// A message that asks and brings nothing. What is no whole grain is not to be persisted: of a session
    /// nothing but grains is.
    fn ask(&mut self) {
        let flush = self.at.is_multiple_of(GRAIN);
        let state_lookup = self.asks();
        let head = self.head();
        self.ready.push_back(whole(&proto::BidiWriteObjectRequest { state_lookup, flush, ..head }));
    }

    /// A message of what there is of the piece; with a question, of no more than to the end of the grain,
    /// so that it can be asked there.
    fn bring(&mut self) {
        let mut most = LARGEST;
        if self.question.is_some() {
            most = most.min(GRAIN - self.at % GRAIN);
        }
        // Not more than the piece's own length.
        let bytes = self.piece.split_to(most.min(self.piece.len() as u64) as usize);
        let length = bytes.len() as u64;
        let head = self.head();
        self.at += length;
        let asks = self.at.is_multiple_of(GRAIN) && self.asks();
        let tail = proto::BidiWriteObjectRequest {
            state_lookup: asks,
            flush: asks,
            ..proto::BidiWriteObjectRequest::default()
        };
        let mut hasher = Hasher::new(Algorithm::Crc32c);
        hasher.update(&bytes);
        let end = trail(crc32c(&hasher.finish()), &tail);
        self.ready.extend([lead(&head, length, tail.encoded_len()), bytes, end]);
    }

    fn poll_bytes(&mut self, cx: &mut Context<'_>) -> Poll<Option<io::Result<Bytes>>> {
        loop {
            if let Some(bytes) = self.ready.pop_front() {
                return Poll::Ready(Some(Ok(bytes)));
            }
            if self.question.is_none()
                && let Poll::Ready(Some(question)) = self.questions.poll_recv(cx)
            {
                self.question = Some(question).filter(|question| !question.is_closed());
                continue;
            }
            if self.question.is_some() && self.at.is_multiple_of(GRAIN) {
                self.ask();
            } else if !self.piece.is_empty() {
                self.bring();
            } else {
                match Pin::new(&mut self.pieces).poll_next(cx) {
                    Poll::Ready(Some(piece)) => self.piece = piece?,
                    Poll::Ready(None) => return Poll::Ready(None),
                    Poll::Pending if self.question.is_some() => self.ask(),
                    Poll::Pending => return Poll::Pending,
                }
            }
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

impl From<Held> for reqwest::Body {
    fn from(held: Held) -> Self {
        Self::wrap(held)
    }
}
