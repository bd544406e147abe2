//! A request body of unknown length, sent in chunks and held open.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures::Stream;
use http_body::Frame;

use tidegate_core::memory::payload::Unending;

/// Bytes to be sent, whose end is not known yet.
#[derive(Debug)]
pub struct OpenBody(pub Unending);

impl http_body::Body for OpenBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        Pin::new(&mut self.0).poll_next(cx).map(|piece| piece.map(|piece| piece.map(Frame::data)))
    }
}
