//! Cuts parts from the bytes in the journal, and sends them as the bytes come, several at once.

use std::collections::BTreeMap;
use std::mem;
use std::ops::Range;
use std::time::Duration;

use tokio::task::{JoinError, JoinSet};
use tokio::time::{Instant, sleep_until};
use tokio_util::task::TaskTracker;
use tracing::Instrument;

use super::appending::AppendSender;
use super::link::Link;
use super::pacing::Pacing;
use crate::backend::StoredPart;
use crate::engine::journaling::Feed;
use crate::journal::{JournalError, Part};
use crate::types::error::{Error, ErrorKind, Operation, Result};
use crate::types::object::Object;
use crate::types::telemetry;
use crate::upload::plan::{Action, Cut, Plan};

/// Sends to a session of parts.
pub(in crate::upload::journal) struct PartsSender {
    link: Link,
    cut: Cut,
    plan: Plan,
    in_flight: usize,
    pacing: Pacing,
    tasks: JoinSet<Result<(Part, Option<Duration>)>>,
    /// Tracks part requests until they have ended, cancelled ones too.
    tracker: TaskTracker,
    /// Whether the plan knows that no byte follows.
    finished: bool,
    /// The parts that the session has, as the store has told this process or the journal says.
    stored: BTreeMap<u32, Part>,
    /// The parts that the store listed when the session was resumed, until each is compared.
    listed: BTreeMap<u32, StoredPart>,
    /// The stored parts that are not recorded in the journal yet; they stay here while its disk is full.
    unwritten: Vec<Part>,
    /// All bytes below `committed` are acknowledged, up to part `last`.
    committed: u64,
    last: u32,
}

impl PartsSender {
    pub(super) fn new(
        link: Link,
        cut: Cut,
        in_flight: usize,
        tracker: TaskTracker,
        stored: BTreeMap<u32, Part>,
    ) -> Self {
        let plan = Plan::new(link.upload().backend.capabilities(), cut);
        let pacing = Pacing::new(plan.part());
        Self {
            link,
            cut,
            plan,
            in_flight,
            pacing,
            tasks: JoinSet::new(),
            tracker,
            finished: false,
            stored,
            listed: BTreeMap::new(),
            unwritten: Vec::new(),
            committed: 0,
            last: 0,
        }
    }

    /// Sends until the object is published. `None` if the server turns out to have no sessions of parts, and has
    /// opened one that bytes are appended to.
    pub(super) async fn publish(&mut self) -> Result<Option<Object>> {
        // Less than a full part is sent again rather than asked for.
        let known: u64 = self.stored.values().map(|part| part.size).sum();
        if self.link.session.is_some() && known + self.plan.part() <= self.link.feed.borrow().length {
            self.listed = self.link.source.listed().await;
        }
        // True when all space that can be given back was, as far as is known.
        let mut is_given_back = false;
        loop {
            // Nothing is begun for a writer that is gone, least of all the completion.
            while !self.is_left()
                && let Some(action) = self.plan.next()
            {
                match self.act(action).await {
                    Ok(Some(object)) => return Ok(Some(object)),
                    Ok(None) if self.link.session.is_some() && self.link.upload().appends() => {
                        return Ok(None);
                    }
                    Ok(None) => {}
                    Err(error) => {
                        if let Some(object) = self.reopen(error).await? {
                            return Ok(Some(object));
                        }
                    }
                }
            }
            if self.is_left() {
                self.drain().await?;
                return Err(self.link.source.left_alone());
            }
            let Feed { length, finish, full } = *self.link.feed.borrow_and_update();
            if let Some(object) = self.link.was_published().await? {
                return Ok(Some(object));
            }
            if self.plan.size() < length
                && self.plan.outstanding() < self.in_flight
                && (self.has_next() || self.pacing.lets(self.tasks.len(), Instant::now()))
            {
                self.plan.more().map_err(|error| {
                    self.link.upload().error(ErrorKind::TooLarge, Operation::Write, error.to_string())
                })?;
                self.plan.push(self.plan.room().min(length - self.plan.size()));
                continue;
            }
            if self.plan.size() == length && finish.is_some() && !self.finished {
                self.finished = true;
                self.plan.finish();
                continue;
            }
            if full && !mem::take(&mut is_given_back) {
                self.write_down(1).await?;
            }
            tokio::select! {
                Some(joined) = self.tasks.join_next() => {
                    let mut taken = self.stored(joined);
                    while taken.is_ok() && let Some(joined) = self.tasks.try_join_next() {
                        taken = self.stored(joined);
                    }
                    match taken {
                        Ok(()) => {
                            is_given_back = self.link.feed.borrow().full;
                            self.write_down(if is_given_back { 1 } else { self.link.keep }).await?;
                        }
                        Err(error) => {
                            if let Some(object) = self.reopen(error).await? {
                                return Ok(Some(object));
                            }
                        }
                    }
                },
                // An error means that the writer is gone, which the loop checks first.
                _ = self.link.feed.changed() => {}
                () = until(self.pacing.asks_at()) => self.pacing.is_stuck(),
            }
        }
    }

    /// The writer is gone: lets the parts in flight end and notes them, so that the next process need not send them
    /// again. The writer's drop sets the time limit.
    async fn drain(&mut self) -> Result<()> {
        while let Some(joined) = self.tasks.join_next().await {
            // A part that failed is sent again by the process that resumes.
            if self.stored(joined).is_ok() {
                self.write_down(u64::MAX).await?;
            }
        }
        Ok(())
    }

    async fn act(&mut self, action: Action) -> Result<Option<Object>> {
        match action {
            Action::Open => self.link.open().await?,
            Action::Part { number, range } => self.part(number, range),
            Action::Put { size } => return self.link.put(size).await.map(Some),
            // A journaled upload publishes itself.
            Action::Prepared => {}
            Action::Last { .. } => {
                let message = "parts are not appended to each other";
                return Err(self.link.upload().error(ErrorKind::Unsupported, Operation::Part, message));
            }
            Action::Complete { .. } => {
                let (parts, checksum) = (self.plan.parts(), self.plan.checksum());
                if self.link.feed.borrow().finish != Some(checksum) {
                    let message = "the journal gave other bytes than were written to it";
                    let upload = self.link.upload();
                    return Err(upload.error(ErrorKind::Integrity, Operation::Complete, message));
                }
                return self.link.upload().complete(parts, Some(checksum)).await.map(Some);
            }
        }
        Ok(None)
    }

    /// Whether the writer was dropped.
    fn is_left(&self) -> bool {
        self.link.feed.has_changed().is_err()
    }

    /// Whether the session has the next part already.
    fn has_next(&self) -> bool {
        self.stored.contains_key(&self.plan.next_part())
    }

    fn part(&mut self, number: u32, range: Range<u64>) {
        let known = self.stored.get(&number);
        if let Some(part) =
            known.filter(|part| part.offset == range.start && part.offset + part.size == range.end)
        {
            self.plan.stored(part.receipt());
            return;
        }
        let listed = self.listed.remove(&number);
        let span = telemetry::part(&self.link.upload().requests.span, number, range.end - range.start);
        let part = self.link.source.clone().part(number, range, listed);
        let part = self.tracker.track_future(part.instrument(span));
        self.tasks.spawn_on(part, &self.link.source.upload.runtime);
    }

    /// Takes in the result of a part.
    fn stored(&mut self, joined: Result<Result<(Part, Option<Duration>)>, JoinError>) -> Result<()> {
        let (part, took) = joined.unwrap_or_else(|ended| Err(self.link.upload().ended_early(None, ended)))?;
        if let Some(took) = took {
            self.pacing.stored(part.size, took, Instant::now());
        }
        self.plan.stored(part.receipt());
        self.link.sessions.stored(part.size);
        self.stored.insert(part.number, part.clone());
        self.unwritten.push(part);
        Ok(())
    }

    /// Starts again with a new session where the error says that the old one is gone. Returns the object
    /// where it turns out to be published.
    async fn reopen(&mut self, error: Error) -> Result<Option<Object>> {
        let mut stored: Vec<_> = self.stored.values().map(|part| part.size).collect();
        if error.kind() == ErrorKind::SessionLost {
            self.tasks.abort_all();
            while let Some(joined) = self.tasks.join_next().await {
                // Counted as acknowledged, but not joined before.
                stored.extend(joined.ok().and_then(Result::ok).map(|(part, _)| part.size));
            }
        }
        if let Some(object) = self.link.lose(error).await? {
            return Ok(Some(object));
        }
        let progress = &self.link.upload().requests.progress;
        progress.unacknowledged(stored.iter().sum(), stored.len() as u64);
        self.plan = Plan::new(self.link.upload().backend.capabilities(), self.cut);
        self.stored.clear();
        self.listed.clear();
        self.unwritten.clear();
        self.finished = false;
        (self.last, self.committed) = (0, 0);
        Ok(None)
    }

    /// Records in the journal which parts are acknowledged, and gives back the space of all their bytes where
    /// that is at least `keep` bytes.
    async fn write_down(&mut self, keep: u64) -> Result<()> {
        if !self.link.takes_records() {
            return Ok(());
        }
        let written = self.try_to_write_down(keep).await;
        self.link.written_down(written)
    }

    async fn try_to_write_down(&mut self, keep: u64) -> Result<(), JournalError> {
        while let Some(part) = self.unwritten.last() {
            // As long as there is no room for the record, no space is given back for the part.
            self.link.journal().part(part.clone()).await?;
            self.unwritten.pop();
        }
        let (mut last, mut committed) = (self.last, self.committed);
        while let Some(next) = self.stored.get(&(last + 1)).filter(|part| part.offset == committed) {
            (last, committed) = (next.number, next.offset + next.size);
        }
        if committed > self.committed {
            self.link.journal().committed(committed).await?;
            (self.last, self.committed) = (last, committed);
        }
        if self.committed == 0 {
            return Ok(());
        }
        self.link.give_back(keep).await
    }

    /// Goes on with the session that was opened, and that bytes are appended to.
    pub(super) fn into_appending(self) -> AppendSender {
        let chunk = self.cut.schedule().map_or(self.plan.part(), |schedule| schedule.part_at(0));
        AppendSender::of_new_session(self.link, chunk)
    }

    pub(super) fn into_link(self) -> Link {
        self.link
    }
}

/// Waits until `time`; for ever where there is none.
async fn until(time: Option<Instant>) {
    match time {
        Some(time) => sleep_until(time).await,
        None => std::future::pending().await,
    }
}
