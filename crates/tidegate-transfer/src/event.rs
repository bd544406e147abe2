//! What an operation on trees tells while it runs, and its report at the end.

use std::collections::{BTreeMap, VecDeque};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;

use tidegate::backend::OtherKind;
use tidegate::text::printable;
use tidegate::{Progress, Tidegate};
use tokio::sync::{Notify, watch};

use crate::error::Error;

mod in_progress;

pub(crate) use in_progress::{StartedTransfer, TransferInProgress};

/// What an operation tells while it runs, in the order in which it happens.
#[derive(Debug)]
#[non_exhaustive]
pub enum Event {
    /// What the operation is about: its source and its target, in the words of the caller, or as URLs.
    Trees {
        /// The source, or how many there are.
        source: String,
        /// The URL or path that everything goes below.
        target: String,
    },
    /// A dry run: the object would be copied.
    WouldCopy {
        /// The URL or path of the source.
        source: String,
        /// The URL or path of the target.
        target: String,
        /// The size, if the source's listing has it.
        bytes: Option<u64>,
    },
    /// A dry run: the object would be removed.
    WouldRemove {
        /// The URL or path.
        url: String,
    },
    /// A transfer begins. Its figures are those of [`Transfer::progress`] until [`Event::Ended`] has the same id.
    Started(Transfer),
    /// The transfer of this id is over, well or not.
    Ended(u64),
    /// How far the operation is. Comes at the interval that [`Run::progress_every`](crate::Run::progress_every) sets.
    Progress(RunProgress),
    /// An object is at its target, whole, and its store has confirmed it.
    Copied(Box<CopiedObject>),
    /// An object was removed.
    Removed {
        /// The URL or path.
        url: String,
    },
    /// An object was not copied, and need not be.
    Skipped {
        /// The URL or path of the source.
        source: String,
        /// The URL or path of the target.
        target: String,
        /// Why.
        reason: SkipReason,
        /// Whether this is a dry run.
        dry_run: bool,
    },
    /// Two objects of one key differ, or only one side has it: what a check finds.
    Differs {
        /// The key below both trees.
        key: String,
        /// How they differ.
        difference: Finding,
        /// The URL or path of the source's object, if there is one.
        source: Option<String>,
        /// The URL or path of the target's object, if there is one.
        target: Option<String>,
    },
    /// Something was not done for a reason that is no failure, or could not be done as asked.
    Warning(String),
    /// Something that a person may want to know.
    Notice(String),
    /// All copies are done. From here on, what only the target has is removed.
    Removing,
    /// An object could not be copied or removed, or a name could not be listed. The operation continues with other
    /// objects.
    Failed(Failure),
}

/// A transfer that has begun.
#[derive(Clone, Debug)]
pub struct Transfer {
    /// A number of its own among the transfers of the operation.
    pub id: u64,
    /// The key.
    pub key: String,
    /// The figures so far.
    pub progress: Progress,
    /// Whether it sends bytes to a store. If it is cut, an upload has to be aborted, or stays in a journal.
    pub sends: bool,
    /// Whether it stays in a journal if it is cut.
    pub journaled: bool,
    /// How many bytes it has, if that is known.
    pub bytes: Option<u64>,
}

/// An object that was copied.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct CopiedObject {
    /// The URL or path of the source.
    pub source: String,
    /// The URL or path of the target.
    pub target: String,
    /// Its size.
    pub bytes: u64,
    /// How long the transfer took.
    pub seconds: f64,
    /// How the object was sent; `copy` if the store made the copy itself, `None` for a download.
    pub strategy: Option<&'static str>,
    /// The parts that it was sent in; 0 if it was sent in one request.
    pub parts: u64,
    /// The requests that it took.
    pub requests: u64,
    /// How many of them were retries.
    pub retries: u64,
    /// How many of them were hedges.
    pub hedges: u64,
    /// The checksum of the object, as its store reports it: the algorithm, a colon, and the value in Base64.
    pub checksum: Option<String>,
    /// The most bytes that the engine has held in buffers so far.
    pub peak_buffered_bytes: u64,
    /// Whether the object was read back and compared.
    pub verified: bool,
}

/// Why an object was not copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SkipReason {
    /// The target has an object of this name.
    Exists,
}

/// How the two sides of a key differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Finding {
    /// Only the source has it.
    Missing,
    /// Only the target has it.
    Extra,
    /// The sizes differ.
    Size,
    /// The source is newer.
    Newer,
    /// The contents differ.
    Checksum,
    /// Nothing that both have can be compared.
    Unproven,
}

impl Finding {
    /// The word for it: `missing`, `extra`, `size`, `newer`, `checksum` or `unproven`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Missing => "missing",
            Self::Extra => "extra",
            Self::Size => "size",
            Self::Newer => "newer",
            Self::Checksum => "checksum",
            Self::Unproven => "unproven",
        }
    }
}

/// A failure of a part of an operation.
#[derive(Debug)]
#[non_exhaustive]
pub struct Failure {
    /// What failed.
    pub step: Step,
    /// The side that could not be listed; `None` if another step failed, or a step that needs both.
    pub side: Option<Side>,
    /// Why.
    pub error: Error,
    /// Whether the operation had ended for the same cause before. Such failures may be many alike.
    pub ends: Ends,
}

impl Failure {
    /// A failure that ends nothing.
    pub(crate) fn new(step: Step, side: Option<Side>, error: Error) -> Self {
        Self { step, side, error, ends: Ends::Nothing }
    }
}

/// A side of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// What is read.
    Source,
    /// What is written, or removed from.
    Target,
}

/// The step of an operation that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Step {
    /// To list or compare.
    List,
    /// To copy or move an object.
    Copy,
    /// To remove an object.
    Remove,
}

/// Whether a failure ends an operation early.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ends {
    /// Other objects go on.
    Nothing,
    /// The operation has ended for the same cause before this object failed.
    SameCause,
}

/// What an operation has done.
#[derive(Debug, Default)]
#[non_exhaustive]
#[must_use = "a report may have failures"]
pub struct Report {
    /// Objects that were copied, or in a dry run would be.
    pub copied: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Objects of both sides that needed no copy.
    pub unchanged: u64,
    /// Objects that were removed, or in a dry run would be.
    pub removed: u64,
    /// Objects that were skipped because their targets exist.
    pub skipped: u64,
    /// What was left out and is no object, such as pipes and links, and what was not done for a reason that is no
    /// failure.
    pub left_out: u64,
    /// Keys that a check has compared.
    pub compared: u64,
    /// Keys whose sides differ: what a check finds.
    pub different: u64,
    /// How many failures there were.
    pub failed: u64,
    /// The first failures, up to [`Report::KEPT`].
    pub failures: Vec<Failure>,
    /// The warnings, up to [`Report::KEPT`].
    pub warnings: Vec<String>,
}

impl Report {
    /// How many failures and warnings a report keeps; events have all.
    pub const KEPT: usize = 1000;

    /// Keeps a failure or a warning that no caller takes as an event.
    fn keep(&mut self, event: Event) {
        match event {
            Event::Failed(failure) if self.failures.len() < Self::KEPT => self.failures.push(failure),
            Event::Warning(text) if self.warnings.len() < Self::KEPT => self.warnings.push(text),
            _ => {}
        }
    }

    /// How many objects were copied and removed.
    pub fn done(&self) -> u64 {
        self.copied + self.removed
    }
}

/// How many events wait at most, beside those of the objects in flight.
const MANY: usize = 1024;

/// Takes the events of one operation, until the caller asks for them.
#[derive(Clone, Debug)]
pub(crate) struct Events {
    shared: Arc<Mutex<Waiting>>,
    /// How many objects were found to look at.
    found: Arc<AtomicU64>,
    /// Tells the operation that events were taken.
    room: Arc<Notify>,
    stop: Arc<watch::Sender<bool>>,
    tide: Tidegate,
}

/// How far an operation is.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct RunProgress {
    /// The key of an object in flight.
    pub key: Option<String>,
    /// Bytes written to sockets, or received from them, of objects that are done and in flight.
    pub moved: u64,
    /// Bytes that stores have acknowledged, or that were received.
    pub stored: u64,
    /// How many bytes all transfers so far have; `None` if that is not known of one of them.
    pub expected: Option<u64>,
    /// Whether a transfer has sent bytes to a store.
    pub sends: bool,
    /// Objects that were copied, or failed.
    pub done: u64,
    /// Objects in flight.
    pub in_flight: u64,
    /// Objects that were found so far, in trees and lists. They may turn out to need nothing.
    pub found: u64,
}

impl RunProgress {
    /// How far a single read is, of `bytes` if that is known.
    pub fn of_one(key: &str, progress: &Progress, bytes: Option<u64>) -> Self {
        let read = progress.snapshot();
        let (moved, stored) = (read.sent.max(read.acknowledged), read.acknowledged);
        Self { key: Some(key.to_owned()), moved, stored, expected: bytes, in_flight: 1, ..Self::default() }
    }
}

#[derive(Debug, Default)]
struct Waiting {
    queue: VecDeque<Event>,
    report: Report,
    transfers: u64,
    /// The transfers in flight, by their ids.
    live: BTreeMap<u64, (String, Progress)>,
    sends: bool,
    /// The bytes of all transfers whose size is known.
    expected: u64,
    /// How many transfers have no known size.
    without_size: u64,
    /// Whether the caller asks for events; otherwise there is only the report.
    streams: bool,
    /// Wakes the caller for an event.
    waker: Option<Waker>,
}

impl Events {
    pub(crate) fn new(tide: &Tidegate) -> Self {
        Self {
            shared: Arc::default(),
            found: Arc::default(),
            room: Arc::default(),
            stop: Arc::new(watch::Sender::new(false)),
            tide: tide.clone(),
        }
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// From here on, the caller asks for events (`streams`), and `waker` is woken for the next one. Otherwise failures and
    /// warnings go into the report, also those that wait already.
    pub(crate) fn stream(&self, streams: bool, waker: Option<&Waker>) {
        let mut waiting = self.waiting();
        waiting.streams = streams;
        waiting.waker = waker.cloned();
        if !streams && !waiting.queue.is_empty() {
            let queue = std::mem::take(&mut waiting.queue);
            queue.into_iter().for_each(|event| waiting.report.keep(event));
            self.room.notify_one();
        }
    }

    /// Counts the objects of a tree as they are found, before they are looked at.
    pub(crate) fn found(&self) -> Arc<AtomicU64> {
        self.found.clone()
    }

    pub(crate) fn next(&self) -> Option<Event> {
        let mut waiting = self.waiting();
        let event = waiting.queue.pop_front()?;
        if waiting.queue.len() + 1 == MANY {
            self.room.notify_one();
        }
        Some(event)
    }

    #[cfg(test)]
    pub(crate) fn waiting_events(&self) -> usize {
        self.waiting().queue.len()
    }

    /// Stops the operation.
    pub(crate) fn stop(&self) {
        self.stop.send_replace(true);
    }

    /// Waits until the operation is to stop.
    pub(crate) async fn stopped(&self) {
        let mut stop = self.stop.subscribe();
        // The sender lives as long as this, so waiting does not fail.
        let _ = stop.wait_for(|stop| *stop).await;
    }

    /// How far the operation is.
    pub(crate) fn progress(&self) -> RunProgress {
        let waiting = self.waiting();
        let mut progress = RunProgress {
            key: waiting.live.values().next().map(|(key, _)| key.clone()),
            moved: waiting.report.bytes,
            stored: waiting.report.bytes,
            expected: (waiting.without_size == 0).then_some(waiting.expected),
            sends: waiting.sends,
            done: waiting.report.copied + waiting.report.failed,
            in_flight: waiting.live.len() as u64,
            found: self.found.load(Relaxed),
        };
        for (_, live) in waiting.live.values() {
            let live = live.snapshot();
            progress.moved += live.sent.max(live.acknowledged);
            progress.stored += live.acknowledged;
        }
        progress
    }

    /// How many objects needed no copy, and how many were removed.
    pub(crate) fn counts(&self) -> (u64, u64) {
        let report = &self.waiting().report;
        (report.unchanged, report.removed)
    }

    /// The report so far.
    pub(crate) fn report(&self) -> Report {
        std::mem::take(&mut self.waiting().report)
    }

    /// Waits until the caller has taken events, if many are waiting.
    pub(crate) async fn flow(&self) {
        while self.waiting().queue.len() >= MANY {
            self.room.notified().await;
        }
    }

    /// Adds to the figures of the report.
    pub(crate) fn count(&self, add: impl FnOnce(&mut Report)) {
        add(&mut self.waiting().report);
    }

    pub(crate) fn failures(&self) -> u64 {
        self.waiting().report.failed
    }

    pub(crate) fn push(&self, event: Event) {
        let mut waiting = self.waiting();
        let Waiting { queue, report, streams, live, sends, expected, without_size, .. } = &mut *waiting;
        match &event {
            Event::Started(transfer) => {
                live.insert(transfer.id, (transfer.key.clone(), transfer.progress.clone()));
                *sends |= transfer.sends;
                match transfer.bytes {
                    Some(bytes) => *expected = expected.saturating_add(bytes),
                    None => *without_size += 1,
                }
            }
            Event::Ended(id) => drop(live.remove(id)),
            Event::Copied(copied) => {
                report.copied += 1;
                report.bytes = report.bytes.saturating_add(copied.bytes); // a store may report any size
            }
            Event::WouldCopy { bytes, .. } => {
                report.copied += 1;
                report.bytes = report.bytes.saturating_add(bytes.unwrap_or(0));
            }
            Event::Removed { .. } | Event::WouldRemove { .. } => report.removed += 1,
            Event::Skipped { .. } => report.skipped += 1,
            Event::Differs { .. } => report.different += 1,
            Event::Failed(_) => report.failed += 1,
            _ => {}
        }
        if !*streams {
            report.keep(event);
            return;
        }
        queue.push_back(event);
        let waker = waiting.waker.take();
        drop(waiting);
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    pub(crate) fn warn(&self, text: impl Into<String>) {
        self.push(Event::Warning(text.into()));
    }

    /// Counts a name of the source that is no object, and says so. Links that are to be skipped are counted as `skipped`, for
    /// one line at the end. A followed link to a directory is left out only if that directory is left out.
    pub(crate) fn leave_out(&self, path: &Path, kind: OtherKind, followed: bool, skipped: &AtomicU64) {
        self.count(|report| report.left_out += 1);
        let path = printable(&path.display().to_string()).into_owned();
        match kind {
            OtherKind::Link => _ = skipped.fetch_add(1, Relaxed),
            OtherKind::LinkToDirectory if followed => self.warn(format!(
                "left out: {path} leads into the target, or into another directory that is left out"
            )),
            kind => self.warn(format!("left out: {path} is {kind}")),
        }
    }

    pub(crate) fn say(&self, text: impl Into<String>) {
        self.push(Event::Notice(text.into()));
    }

    pub(crate) fn failed(&self, step: Step, error: Error) {
        self.push(Event::Failed(Failure::new(step, None, error)));
    }
}
