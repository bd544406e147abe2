//! The body of a call, which is cut when the call is dropped.
//!
//! The HTTP client stops the body of a dropped call only until the answer's headers have arrived. After that it would
//! send the whole body, and publish an object that nobody waits for. And a body for which the store grants no window
//! is not polled any more, but keeps all its memory. So the call takes its body away itself.

use std::fmt;
use std::io;
use std::mem;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use http_body::Frame;
use http_body_util::BodyExt;

use super::held::Held;
use super::upload::Upload;
use crate::backend::http::{Sending, sending};

/// The messages that a call sends.
pub(super) struct Sent {
    pub(super) body: Sending,
    pub(super) tie: Tie,
    /// The body stays open until it is cut. It has a connection of its own, so that no other call is blocked if the
    /// store stops reading.
    pub(super) is_held: bool,
}

impl From<Bytes> for Sent {
    fn from(message: Bytes) -> Self {
        Self { body: sending(message), tie: Tie(None), is_held: false }
    }
}

impl From<Upload> for Sent {
    fn from(upload: Upload) -> Self {
        let (body, tie) = tied(upload);
        Self { body, tie, is_held: false }
    }
}

impl From<Held> for Sent {
    fn from(held: Held) -> Self {
        let (body, tie) = tied(held);
        Self { body, tie, is_held: true }
    }
}

/// Takes the body away when it is dropped: the next poll of the body then fails, which resets the stream.
pub(super) struct Tie(Option<Arc<dyn Cut>>);

impl fmt::Debug for Tie {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tie").finish_non_exhaustive()
    }
}

impl Drop for Tie {
    fn drop(&mut self) {
        if let Some(body) = &self.0 {
            body.cut();
        }
    }
}

trait Cut: Send + Sync {
    fn cut(&self);
}

struct State<B> {
    body: Option<B>,
    /// The task that waits for more of the body.
    waker: Option<Waker>,
}

impl<B: Send> Cut for Mutex<State<B>> {
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

struct Tied<B>(Arc<Mutex<State<B>>>);

fn tied<B>(body: B) -> (Sending, Tie)
where
    B: http_body::Body<Data = Bytes, Error = io::Error> + Unpin + Send + 'static,
{
    let state = Arc::new(Mutex::new(State { body: Some(body), waker: None }));
    (Tied(state.clone()).boxed_unsync(), Tie(Some(state)))
}

impl<B> http_body::Body for Tied<B>
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
