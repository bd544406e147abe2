//! What a call sends, and that it ends with the call.
//!
//! The HTTP client stops a body whose call is dropped only until the answer's headers are there; from then on it
//! would send all of it, and publish what nobody waits for. And a body that the store grants no window is not
//! looked at any more, and lives on with all that it holds. So the call takes its body away itself.

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

/// What a call sends.
pub(super) struct Sent {
    pub(super) body: Sending,
    pub(super) tie: Tie,
    /// It goes on until it is broken off, over a connection of its own: should the store leave it there, no
    /// other call is held up.
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

/// Takes the body away when it is dropped: what is asked of it then is an error, which resets the stream.
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
    /// Whoever waits for more of it.
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
