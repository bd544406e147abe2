//! The body of a call, which is cut when the call is dropped.
//!
//! The HTTP client stops the body of a dropped call only until the answer's headers have arrived. After that it would
//! send the whole body, and publish an object that nobody waits for. And a body for which the store grants no window
//! is not polled any more, but keeps all its memory. So the call takes its body away itself.

use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};
use std::{fmt, io, mem};

use bytes::Bytes;
use http_body::Frame;
use http_body_util::BodyExt;

use super::open_stream::OpenStream;
use super::upload::UploadMessages;
use tidegate_http::{Sending, sending};

/// The messages that a call sends.
pub(super) struct Sent {
    pub(super) body: Sending,
    pub(super) cancel_on_drop: CancelOnDrop,
    /// The body stays open until it is cut. It has a connection of its own, so that no other call is blocked if the
    /// store stops reading.
    pub(super) is_held: bool,
}

impl From<Bytes> for Sent {
    fn from(message: Bytes) -> Self {
        Self { body: sending(message), cancel_on_drop: CancelOnDrop(None), is_held: false }
    }
}

impl From<UploadMessages> for Sent {
    fn from(upload: UploadMessages) -> Self {
        let (body, cancel_on_drop) = cancellable(upload);
        Self { body, cancel_on_drop, is_held: false }
    }
}

impl From<OpenStream> for Sent {
    fn from(stream: OpenStream) -> Self {
        let (body, cancel_on_drop) = cancellable(stream);
        Self { body, cancel_on_drop, is_held: true }
    }
}

/// Takes the body away when it is dropped: the next poll of the body then fails, which resets the stream.
pub(super) struct CancelOnDrop(Option<Arc<dyn Cancel>>);

impl fmt::Debug for CancelOnDrop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CancelOnDrop").finish_non_exhaustive()
    }
}

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        if let Some(body) = &self.0 {
            body.cut();
        }
    }
}

trait Cancel: Send + Sync {
    fn cut(&self);
}

struct BodyState<B> {
    body: Option<B>,
    /// The task that waits for more of the body.
    waker: Option<Waker>,
}

impl<B: Send> Cancel for Mutex<BodyState<B>> {
    fn cut(&self) {
        let (body, waker) = {
            let mut state = self.lock().unwrap_or_else(PoisonError::into_inner);
            (mem::take(&mut state.body), mem::take(&mut state.waker))
        };
        drop(body);
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

struct CancellableBody<B>(Arc<Mutex<BodyState<B>>>);

fn cancellable<B>(body: B) -> (Sending, CancelOnDrop)
where
    B: http_body::Body<Data = Bytes, Error = io::Error> + Unpin + Send + 'static,
{
    let state = Arc::new(Mutex::new(BodyState { body: Some(body), waker: None }));
    (CancellableBody(state.clone()).boxed_unsync(), CancelOnDrop(Some(state)))
}

impl<B> http_body::Body for CancellableBody<B>
where
    B: http_body::Body<Data = Bytes, Error = io::Error> + Unpin,
{
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(body) = &mut state.body else {
            return Poll::Ready(Some(Err(io::Error::other("the call was given up"))));
        };
        let polled = Pin::new(body).poll_frame(cx);
        if polled.is_pending() {
            state.waker = Some(cx.waker().clone());
        }
        polled
    }
}
