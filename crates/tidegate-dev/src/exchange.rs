//! The state of one request, shared by the server's outer layers (connection, bodies) and inner ones (gate,
//! operations). s3s carries it in the request's extensions.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use hyper::body::Incoming;

use crate::body::CountedBody;
use crate::catalog::Generations;
use crate::faults::{Answering, InjectedRefusal, RequestFaults};
use crate::shaping::ConnectionLink;

/// No byte count reaches this: stands for no reset.
const NEVER: u64 = u64::MAX;

/// The state of one request and its answer.
#[derive(Debug)]
pub(crate) struct Exchange {
    link: Arc<ConnectionLink>,
    operation: OnceLock<String>,
    /// Set from the knobs before the operation runs; the bodies and the connection obey.
    pub(crate) reset_request_after: AtomicU64,
    pub(crate) reset_response_after: AtomicU64,
    pub(crate) lose_answer: AtomicBool,
    pub(crate) cut_head: AtomicBool,
    pub(crate) hold_answer: AtomicBool,
    /// A refusal at an offset of the body; `refused_late` is set once the refusal has happened.
    refuse_after: OnceLock<(u64, InjectedRefusal)>,
    pub(crate) refused_late: AtomicBool,
    /// A pause at an offset of the body.
    stall: OnceLock<(u64, Duration)>,
    redirect: OnceLock<String>,
    /// The request came over Google's XML API, with these conditions.
    google: OnceLock<Generations>,
    /// The error to answer in place of a success.
    denial: OnceLock<InjectedRefusal>,
    answering: OnceLock<Answering>,
    /// A knob refused the request, whatever the answer's status.
    pub(crate) refused: AtomicBool,
    /// The connection must be cut: the request's body was reset.
    pub(crate) cut: AtomicBool,
    /// A body that bypasses s3s, see [`crate::aws_chunked`].
    aside: Mutex<Option<CountedBody>>,
    /// The unread rest of the request's body.
    leftover: Mutex<Option<Incoming>>,
}

impl Exchange {
    /// Creates the state of a request on the connection of `link`.
    pub(crate) fn new(link: Arc<ConnectionLink>) -> Self {
        link.set_slow(None);
        Self {
            link,
            operation: OnceLock::new(),
            reset_request_after: AtomicU64::new(NEVER),
            reset_response_after: AtomicU64::new(NEVER),
            lose_answer: AtomicBool::new(false),
            cut_head: AtomicBool::new(false),
            hold_answer: AtomicBool::new(false),
            refuse_after: OnceLock::new(),
            refused_late: AtomicBool::new(false),
            stall: OnceLock::new(),
            redirect: OnceLock::new(),
            google: OnceLock::new(),
            denial: OnceLock::new(),
            answering: OnceLock::new(),
            refused: AtomicBool::new(false),
            cut: AtomicBool::new(false),
            aside: Mutex::new(None),
            leftover: Mutex::new(None),
        }
    }

    /// Records the request's operation and its faults.
    pub(crate) fn decide(&self, operation: &str, verdict: &RequestFaults) {
        // Only the gate calls this, once per request.
        self.operation.get_or_init(|| operation.to_owned());
        self.link.set_slow(verdict.slow);
        let after = |bytes: Option<u64>| bytes.unwrap_or(NEVER);
        self.reset_request_after.store(after(verdict.reset_request), Ordering::Release);
        self.reset_response_after.store(after(verdict.reset_response), Ordering::Release);
        self.lose_answer.store(verdict.lose_answer, Ordering::Release);
        self.cut_head.store(verdict.cut_head, Ordering::Release);
        self.hold_answer.store(verdict.hold_answer, Ordering::Release);
        if let Some(refuse_after) = &verdict.refuse_after {
            self.refuse_after.get_or_init(|| refuse_after.clone());
        }
        if let Some(stall) = verdict.stall {
            self.stall.get_or_init(|| stall);
        }
        if let Some(redirect) = &verdict.redirect {
            self.redirect.get_or_init(|| redirect.clone());
        }
        if let Some(denial) = &verdict.denial {
            self.denial.get_or_init(|| denial.clone());
        }
        self.answering.get_or_init(|| verdict.answering);
        self.refused.store(verdict.refusal.is_some(), Ordering::Release);
    }

    /// The operation, once known.
    pub(crate) fn operation(&self) -> Option<&str> {
        self.operation.get().map(String::as_str)
    }

    pub(crate) fn denial(&self) -> Option<&InjectedRefusal> {
        self.denial.get()
    }

    /// The faults of the answer's body.
    pub(crate) fn answering(&self) -> Answering {
        self.answering.get().copied().unwrap_or_default()
    }

    /// The offset of the body at which the request is refused.
    pub(crate) fn refuse_after(&self) -> u64 {
        self.refuse_after.get().map_or(NEVER, |(after, _)| *after)
    }

    /// The refusal, if the request was refused in the middle of its body.
    pub(crate) fn late_refusal(&self) -> Option<&InjectedRefusal> {
        let (_, refusal) = self.refuse_after.get()?;
        self.refused_late.load(Ordering::Acquire).then_some(refusal)
    }

    pub(crate) fn stall(&self) -> Option<(u64, Duration)> {
        self.stall.get().copied()
    }

    pub(crate) fn set_google(&self, generations: Generations) {
        self.google.get_or_init(|| generations);
    }

    /// The generation conditions of a request over Google's XML API.
    pub(crate) fn google(&self) -> Option<Generations> {
        self.google.get().copied()
    }

    pub(crate) fn redirect(&self) -> Option<&str> {
        self.redirect.get().map(String::as_str)
    }

    pub(crate) fn put_aside(&self, body: CountedBody) {
        *self.aside.lock().unwrap_or_else(PoisonError::into_inner) = Some(body);
    }

    pub(crate) fn take_aside(&self) -> Option<CountedBody> {
        self.aside.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    pub(crate) fn leave(&self, rest: Incoming) {
        *self.leftover.lock().unwrap_or_else(PoisonError::into_inner) = Some(rest);
    }

    pub(crate) fn take_leftover(&self) -> Option<Incoming> {
        self.leftover.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}
