//! The bodies of requests and answers: counts their bytes, and breaks them off where a knob demands.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use s3s::StdError;

mod answer;
mod request;

pub(crate) use answer::AnswerBody;
pub(crate) use request::CountedBody;

/// A knob broke the body off.
#[derive(Debug, thiserror::Error)]
#[error("broken off by a knob after {after} bytes of the body")]
pub(crate) struct Broken {
    after: u64,
}

/// A body that can be split at the offsets where a knob acts.
#[derive(Debug)]
struct Pieces<B> {
    /// `None` after the end.
    inner: Option<B>,
    /// Bytes received beyond the offset of the last split.
    rest: Bytes,
    /// How many bytes were returned.
    at: u64,
}

impl<B> Pieces<B>
where
    B: Body<Data = Bytes, Error: Into<StdError>> + Unpin,
{
    fn new(inner: B) -> Self {
        Self { inner: Some(inner), rest: Bytes::new(), at: 0 }
    }

    /// The next frame, cut off at offset `place`.
    fn poll_up_to(
        &mut self,
        place: u64,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, StdError>>> {
        let mut data = if self.rest.is_empty() {
            let Some(inner) = &mut self.inner else { return Poll::Ready(None) };
            let frame = ready!(Pin::new(inner).poll_frame(cx));
            match frame.map(|frame| frame.map(Frame::into_data)) {
                Some(Ok(Ok(data))) => data,
                Some(Ok(Err(other))) => return Poll::Ready(Some(Ok(other))),
                ended => {
                    self.inner = None;
                    return Poll::Ready(ended.and_then(Result::err).map(|error| Err(error.into())));
                }
            }
        } else {
            std::mem::take(&mut self.rest)
        };
        let left = usize::try_from(place - self.at).unwrap_or(usize::MAX);
        if data.len() > left {
            self.rest = data.split_off(left);
        }
        self.at += data.len() as u64;
        Poll::Ready(Some(Ok(Frame::data(data))))
    }

    fn is_end(&self) -> bool {
        self.rest.is_empty() && self.inner.as_ref().is_none_or(Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        let inner = self.inner.as_ref().map_or_else(|| SizeHint::with_exact(0), Body::size_hint);
        let rest = self.rest.len() as u64;
        let mut hint = SizeHint::new();
        hint.set_lower(inner.lower() + rest);
        if let Some(upper) = inner.upper() {
            hint.set_upper(upper + rest);
        }
        hint
    }
}
