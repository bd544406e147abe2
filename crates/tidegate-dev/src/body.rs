//! The bodies of requests and answers: counted, and broken off where a knob says so.

mod answer;
mod request;

pub(crate) use answer::AnswerBody;
pub(crate) use request::RequestBody;

/// A body that a knob has broken off.
#[derive(Debug, thiserror::Error)]
#[error("broken off by a knob after {after} bytes of the body")]
pub(crate) struct Broken {
    after: u64,
}
