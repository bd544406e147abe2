//! One request on its way through the server: what its outer layers (connection, bodies) and its
//! inner ones (gate, operations) have to tell each other. s3s carries it in the extensions.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use hyper::body::Incoming;

use crate::body::RequestBody;
use crate::catalog::Generations;
use crate::faults::{Answering, Refusal, Verdict};
use crate::shaping::Link;

/// No byte count reaches it: nothing is reset.
const NEVER: u64 = u64::MAX;

/// The state of one request and its answer.
#[derive(Debug)]
pub(crate) struct Exchange {
    link: Arc<Link>,
    operation: OnceLock<String>,
    /// Wanted by the knobs before the operation is run; the bodies and the connection obey.
    pub(crate) reset_request_after: AtomicU64,
    pub(crate) reset_response_after: AtomicU64,
    pub(crate) lose_answer: AtomicBool,
    pub(crate) cut_head: AtomicBool,
    pub(crate) hold_answer: AtomicBool,
    /// A refusal behind so many bytes of the body, and whether it has come to that.
    refuse_after: OnceLock<(u64, Refusal)>,
    pub(crate) refused_late: AtomicBool,
    /// A pause behind so many bytes of the body.
    stall: OnceLock<(u64, Duration)>,
    redirect: OnceLock<String>,
    /// It came in the words of Google's XML API, with these conditions.
    google: OnceLock<Generations>,
    /// What to say in place of a success.
    denial: OnceLock<Refusal>,
    answering: OnceLock<Answering>,
    /// The request was refused by a knob, whatever its status says.
    pub(crate) refused: AtomicBool,
    /// The connection has to be cut: a reset in the request's body has happened.
    pub(crate) cut: AtomicBool,
    /// A body that s3s does not see, see [`crate::aws_chunked`].
    aside: Mutex<Option<RequestBody>>,
    /// What was not read of the request's body.
    leftover: Mutex<Option<Incoming>>,
}

impl Exchange {
    /// A request that came over the connection of `link`.
    pub(crate) fn new(link: Arc<Link>) -> Self {
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

    /// Records what the request asks and what is to become of it.
    pub(crate) fn decide(&self, operation: &str, verdict: &Verdict) {
        // Only the gate calls this, once a request.
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

    /// The S3 operation, once it is known.
    pub(crate) fn operation(&self) -> Option<&str> {
        self.operation.get().map(String::as_str)
    }

    pub(crate) fn denial(&self) -> Option<&Refusal> {
        self.denial.get()
    }

    /// What happens to the answer's body.
    pub(crate) fn answering(&self) -> Answering {
        self.answering.get().copied().unwrap_or_default()
    }

    /// After how many bytes of the body the request is refused.
    pub(crate) fn refuse_after(&self) -> u64 {
        self.refuse_after.get().map_or(NEVER, |(after, _)| *after)
    }

    /// The refusal that the request has met in the middle of its body.
    pub(crate) fn late_refusal(&self) -> Option<&Refusal> {
        let (_, refusal) = self.refuse_after.get()?;
        self.refused_late.load(Ordering::Acquire).then_some(refusal)
    }

    pub(crate) fn stall(&self) -> Option<(u64, Duration)> {
        self.stall.get().copied()
    }

    pub(crate) fn set_google(&self, generations: Generations) {
        self.google.get_or_init(|| generations);
    }

    /// What a request in the words of Google's XML API puts on the object.
    pub(crate) fn google(&self) -> Option<Generations> {
        self.google.get().copied()
    }

    pub(crate) fn redirect(&self) -> Option<&str> {
        self.redirect.get().map(String::as_str)
    }

    pub(crate) fn put_aside(&self, body: RequestBody) {
        *self.aside.lock().unwrap_or_else(PoisonError::into_inner) = Some(body);
    }

    pub(crate) fn take_aside(&self) -> Option<RequestBody> {
        self.aside.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    pub(crate) fn leave(&self, rest: Incoming) {
        *self.leftover.lock().unwrap_or_else(PoisonError::into_inner) = Some(rest);
    }

    pub(crate) fn take_leftover(&self) -> Option<Incoming> {
        self.leftover.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}
