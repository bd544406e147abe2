//! An open call of `BidiWriteObject`, which sends one message per grain. Less than a grain waits here for the rest,
//! because the store persists only whole grains of a session.
//!
//! The bytes are copied, so that their buffers are free at once. Otherwise, if the store stopped reading, the
//! connection would hold on to its buffers even after the call was cancelled.
//!
//! The session's offset is asked on the same stream: a message makes the store persist the bytes sent so far, and
//! asks how many there are. Nothing else makes it persist them: "this option should be used sparingly".

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};
use std::{io, mem};

use bytes::{Bytes, BytesMut};
use futures::Stream;
use http_body::Frame;
use proto::bidi_write_object_request::FirstMessage;
use tokio::sync::{mpsc, oneshot};

use super::convert::{crc32c, signed};
use super::frame::{lead, trail, whole};
use super::proto;
use crate::append::GRAIN;
use tidegate_core::memory::payload::Unending;
use tidegate_core::types::checksum::{Algorithm, Hasher};

/// Asks for the number of bytes that a session has persisted.
pub(super) type Question = oneshot::Sender<u64>;

/// Questions sent to the store and not answered yet, in order.
#[derive(Clone, Debug, Default)]
pub(super) struct PendingQuestions(Arc<Mutex<VecDeque<Question>>>);

impl PendingQuestions {
    fn push(&self, question: Question) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push_back(question);
    }

    /// Passes the store's answer to the oldest question.
    pub(super) fn answer(&self, persisted: u64) {
        if let Some(question) = self.0.lock().unwrap_or_else(PoisonError::into_inner).pop_front() {
            // If the receiver is gone, its owner has asked again.
            let _ = question.send(persisted);
        }
    }
}

/// The messages of such a call.
#[derive(Debug)]
pub(super) struct OpenStream {
    first: Option<FirstMessage>,
    /// The offset of the next message.
    at: u64,
    /// The bytes gathered for the next message.
    grain: BytesMut,
    pieces: Unending,
    /// The rest of the current piece.
    piece: Bytes,
    questions: mpsc::Receiver<Question>,
    asked: PendingQuestions,
    ready: VecDeque<Bytes>,
}

impl OpenStream {
    pub(super) fn new(
        id: String,
        at: u64,
        pieces: Unending,
        questions: mpsc::Receiver<Question>,
        asked: PendingQuestions,
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

    /// Queues a message that asks and carries no bytes.
    fn ask(&mut self, question: Question) {
        // Only before its first message can a session stand elsewhere than at the end of a grain.
        let flush = self.at.is_multiple_of(GRAIN);
        self.asked.push(question);
        let head = self.head();
        self.ready.push_back(whole(&proto::BidiWriteObjectRequest { state_lookup: true, flush, ..head }));
    }

    /// Moves the bytes that the grain lacks from the piece, and makes a message once the grain is complete.
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

impl http_body::Body for OpenStream {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        Poll::Ready(ready!(self.poll_bytes(cx)).map(|bytes| bytes.map(Frame::data)))
    }
}
