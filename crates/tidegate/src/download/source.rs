//! One object being read: every request asks for that same object, and checks that the answer is of it.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use futures::stream::BoxStream;
use futures::{FutureExt, StreamExt, TryStreamExt};
use tokio::time::Instant;

use crate::backend::{
    Attempt, Backend, Body, Connection, Fault, FaultKind, Feature, no_identity, not_resumable,
    same_or_replaced,
};
use crate::engine::Context;
use crate::engine::request::{Failure, Inflow, Requests};
use crate::memory::budget::Budget;
use crate::types::checksum::Checksum;
use crate::types::error::{Error, Operation, Result};
use crate::types::object::Object;
use crate::types::progress::Progress;
use crate::types::telemetry::{self, AttemptFigures};
use crate::types::transfer_rate::SliceTurn;

/// The bytes of an answer, as they come.
pub(super) struct Pieces {
    pub(super) stream: BoxStream<'static, Result<Bytes, Fault>>,
    /// The attempt that has brought the answer. It ends with the bytes.
    pub(super) figures: AttemptFigures,
}

/// An object, or a range of it, whose request is open.
pub(super) struct OpenObject {
    pub(super) object: Object,
    pub(super) range: Range<u64>,
    pub(super) pieces: Pieces,
}

/// The object that bytes are read from, and the means to request them.
#[derive(Debug)]
pub(super) struct ObjectSource {
    backend: Arc<dyn Backend>,
    /// The key within the whole bucket.
    key: String,
    pub(super) requests: Requests,
    /// Whether a slow range may be hedged.
    hedge: bool,
    pub(super) budget: Budget,
    /// Whether the store ignores ranges, so that one request must bring all bytes.
    one_stream: AtomicBool,
}

/// The answers that a request for a range accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AcceptedAnswer {
    /// Only the range. A reader of many ranges turns to one stream if the store sends the whole object for each.
    Range,
    /// The whole object too; bytes outside of the range are skipped.
    RangeOrWhole,
}

/// The destination of received bytes: memory, or a place in a file.
pub(super) trait Sink: Send + Sync {
    /// Counts the bytes received.
    fn inflow(&self) -> &Inflow;

    /// Takes bytes from byte `at` of the range on, and counts them. The sink may have some or all of them already:
    /// two requests may receive the same range at once, each in order.
    fn take(&self, at: u64, piece: Bytes) -> impl Future<Output = Result<(), Fault>> + Send;
}

impl ObjectSource {
    pub(super) fn new(context: &Context, key: &str, progress: Progress) -> Self {
        let mut requests = context.requests(key, progress);
        requests.span = telemetry::download(&requests.object);
        let one_stream = AtomicBool::new(context.facts().lacks(Feature::Ranges));
        Self {
            backend: context.backend().clone(),
            key: context.full_key(key),
            requests,
            hedge: context.engine().hedge,
            budget: context.engine().budget.clone(),
            one_stream,
        }
    }

    /// Whether the store sends the whole object for each range.
    pub(super) fn ignores_ranges(&self) -> bool {
        self.one_stream.load(Relaxed)
    }

    /// Whether `object` must be read over one stream: the store ignores ranges, or has nothing to tell whether
    /// another answer is of the same object.
    pub(super) fn is_one_stream(&self, object: &Object) -> bool {
        self.ignores_ranges() || !object.has_identity()
    }

    /// Whether the object's user metadata comes with its bytes.
    pub(super) fn sends_metadata(&self) -> bool {
        self.backend.capabilities().metadata_with_bytes
    }

    pub(super) fn url(&self) -> &str {
        &self.requests.object
    }

    /// Fails in a process that has inherited the reader: the connection is its parent's.
    pub(super) fn check_owner(&self) -> Result<()> {
        self.requests.endpoint.owner.check(Operation::Get, || self.requests.object.clone())
    }

    /// Opens the object, or a range of it, with retries.
    pub(super) async fn open(
        &self,
        range: Option<Range<u64>>,
        same: Option<&Object>,
    ) -> Result<OpenObject, Failure> {
        self.open_over(Connection::Any, range, same).await
    }

    /// As `open`, over a new connection.
    pub(super) async fn reopen(&self, range: Range<u64>, same: &Object) -> Result<OpenObject, Failure> {
        self.open_over(Connection::New, Some(range), Some(same)).await
    }

    async fn open_over(
        &self,
        connection: Connection,
        range: Option<Range<u64>>,
        same: Option<&Object>,
    ) -> Result<OpenObject, Failure> {
        let get = |attempt: Attempt| {
            let attempt = attempt.renewed(connection == Connection::New);
            self.get(range.clone(), same, AcceptedAnswer::RangeOrWhole, attempt)
        };
        let (made, figures) = self.requests.open(Operation::Get, get).await?;
        let Body { object, range, stream, .. } = made.answer;
        Ok(OpenObject { object, range, pieces: Pieces { stream, figures } })
    }

    /// Describes the object; a fault if it is not the same as `same`, where given.
    pub(super) async fn head(&self, same: Option<&Object>) -> Result<Object, Failure> {
        let head = |attempt| async move {
            let object = self.backend.head(&self.key, attempt).await?;
            same_or_replaced(object, same)
        };
        self.requests.send(Operation::Head, None, None, head).await
    }

    /// Receives all of `range` into `sink`, over as many requests as needed; the first may be open already, and may
    /// bring more than the range. An object without identity is received over that one open request or not at all.
    pub(super) async fn receive(
        &self,
        range: Range<u64>,
        same: &Object,
        sink: &impl Sink,
        opened: Option<Pieces>,
        wanted: AcceptedAnswer,
    ) -> Result<(), Failure> {
        let inflow = sink.inflow();
        let opened = opened.map(|Pieces { stream, figures }| {
            inflow.is_opened(figures);
            stream
        });
        let opened = Mutex::new(opened);
        let take_opened = || opened.lock().unwrap_or_else(PoisonError::into_inner).take();
        let length = range.end - range.start;
        let rest = |at: u64| Some(range.start + at..range.end);
        let has_identity = same.has_identity();
        let first = |attempt| async move {
            let mut at = inflow.got();
            let rate = self.requests.endpoint.rate.as_ref();
            let mut slices = rate.map(|rate| SliceTurn::new(rate.clone(), inflow.held().clone()));
            let (mut pieces, may_have_more) = match take_opened() {
                Some(pieces) => (pieces, true),
                None => (self.get(rest(at), Some(same), wanted, attempt).await?.stream, false),
            };
            let broken = |fault| if has_identity { fault } else { not_resumable(fault) };
            while let Some(mut piece) = pieces.try_next().await.map_err(broken)? {
                if piece.is_empty() {
                    inflow.skips();
                    continue;
                }
                piece.truncate(usize::try_from(length - at).unwrap_or(usize::MAX).min(piece.len()));
                while !piece.is_empty() {
                    let now = match &mut slices {
                        // Not more than the piece's own length.
                        Some(slices) => slices.take(piece.len() as u64).await as usize,
                        None => piece.len(),
                    };
                    inflow.exclude_time_of(sink.take(at, piece.split_to(now))).await?;
                    at += now as u64;
                }
                if at == length && may_have_more {
                    // If there is no more, polling to the end lets the connection be reused.
                    let _ = pieces.next().now_or_never();
                    break;
                }
            }
            all_came(inflow).map_err(broken)
        };
        let again = |attempt| {
            let mut at = inflow.got();
            let memory = self.budget.try_lease(inflow.left())?;
            let rest = rest(at);
            Some(async move {
                let _memory = memory;
                let mut copy = Vec::new();
                let mut pieces = self.get(rest, Some(same), wanted, attempt).await?.stream;
                while let Some(piece) = pieces.try_next().await? {
                    inflow.moves(piece.len() as u64);
                    copy.push(piece);
                }
                for piece in copy {
                    let len = piece.len() as u64;
                    inflow.exclude_time_of(sink.take(at, piece)).await?;
                    at += len;
                }
                all_came(inflow)
            })
        };
        let hedge = self.hedge && !self.is_one_stream(same);
        self.requests.receive(inflow, hedge, first, again).await
    }

    /// Makes one request for the object or a range of it, and checks that the answer is the one asked for.
    async fn get(
        &self,
        range: Option<Range<u64>>,
        same: Option<&Object>,
        wanted: AcceptedAnswer,
        attempt: Attempt,
    ) -> Result<Body, Fault> {
        if same.is_some_and(|same| !same.has_identity()) {
            return Err(no_identity());
        }
        let mut body = self.backend.get(&self.key, range.clone(), same, attempt).await?;
        body.object = same_or_replaced(body.object, same)?;
        let size = body.object.size;
        if body.range != (0..size) {
            self.requests.endpoint.facts.answered_range(body.ignored_range);
        }
        if body.ignored_range {
            self.one_stream.store(true, Relaxed);
            if wanted == AcceptedAnswer::Range {
                let message = "the store ignores ranges, and sends the whole object for each";
                return Err(Fault::new(FaultKind::Unsupported, message));
            }
        }
        if let Some(range) = range.as_ref().filter(|range| range.start > size) {
            let message =
                format!("the range begins at byte {}, past the object's end at byte {size}", range.start);
            return Err(Fault::new(FaultKind::Invalid, message));
        }
        let asked = range.map_or(0..size, |range| range.start..range.end.min(size));
        if body.range != asked {
            let (asked, sent) = (told(&asked), told(&body.range));
            let message = format!("the store sent bytes {sent} where {asked} were asked for");
            return Err(Fault::new(FaultKind::Transient, message));
        }
        Ok(body)
    }

    /// An error if the bytes read do not match the store's checksum; the read began at `began`.
    pub(super) fn check(&self, object: &Object, read: &Checksum, began: Instant) -> Result<()> {
        if object.matches(read) != Some(false) {
            return Ok(());
        }
        let message = format!("the bytes read have {read}, which the store's checksum is not");
        let fault = Fault::new(FaultKind::Integrity, message);
        Err(Error::from_fault(fault, Operation::Get, self.url(), 1, began.elapsed()))
    }

    pub(super) fn failed(&self, failure: Failure, at: u64) -> Error {
        let mut error = failure.into_error(Operation::Get, self.url());
        if at > 0 {
            error = error.and(&format!("it was read up to byte {at}"));
        }
        error
    }
}

fn all_came(inflow: &Inflow) -> Result<(), Fault> {
    match inflow.left() {
        0 => Ok(()),
        left => Err(Fault::new(FaultKind::Transient, format!("the body ended {left} bytes early"))),
    }
}

fn told(range: &Range<u64>) -> String {
    format!("{}-{}", range.start, range.end.saturating_sub(1))
}
