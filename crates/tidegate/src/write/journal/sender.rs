//! From the journal to the store: parts are cut from what the journal has, sent as they come, and sent
//! again for as long as it takes.
//!
//! A store that is down is no error here: the bytes are safe. What does not pass with time (no such
//! bucket, no permission) ends it, as does an outage that outlasts the retries of a request that was
//! begun after the producer had finished. The journal is there in any case. What becomes of a session that is gone is in
//! `lost.rs`.

use std::collections::BTreeMap;
use std::io;
use std::ops::Range;
use std::sync::Arc;

use tokio::sync::watch;
use tokio::task::{JoinError, JoinSet};
use tokio_util::task::TaskTracker;
use tracing::{debug, warn};

use super::append::Feed;
use super::source::Source;
use crate::error::{ErrorKind, Operation, Result};
use crate::journal::{End, Journal, JournalError, Part, Session, SessionKind};
use crate::object::Object;
use crate::write::plan::{Action, Cut, Plan, Schedule};
use crate::write::upload::Upload;

mod lost;

/// The store's side of one journaled upload.
pub(super) struct Sender {
    source: Arc<Source>,
    schedule: Schedule,
    plan: Plan,
    in_flight: usize,
    feed: watch::Receiver<Feed>,
    tasks: JoinSet<Result<Part>>,
    /// Knows of requests that were told to end, until they have.
    tracker: TaskTracker,
    /// Whether the plan was told that no byte follows.
    finished: bool,
    /// What the session has, as far as this process was told or the journal says.
    stored: BTreeMap<u32, Part>,
    /// What of that is not in the journal yet: its disk was full.
    unwritten: Vec<Part>,
    /// All bytes below are acknowledged, up to this part.
    committed: u64,
    last: u32,
    /// How many bytes that are acknowledged are kept.
    keep: u64,
    /// Whether the journal's disk takes records, and gives space back.
    disk: Disk,
    /// The session that an earlier process has opened.
    session: Option<String>,
    sessions: lost::Sessions,
    /// Whether an earlier process may have published the object: its producer had finished.
    resumed: bool,
    /// An object that is not ours came after the upload was begun.
    rival: bool,
}

/// What an earlier process left.
#[derive(Default)]
pub(super) struct Before {
    pub(super) stored: BTreeMap<u32, Part>,
    pub(super) session: Option<String>,
    /// When it began.
    pub(super) created: u64,
    pub(super) resumed: bool,
}

/// What the disk under the journal turned out not to do.
#[derive(Default)]
struct Disk {
    /// A sync has failed: nothing is written down any more.
    failed: bool,
    /// It punches no holes.
    keeps_all: bool,
}

impl Sender {
    pub(super) fn new(
        source: Arc<Source>,
        schedule: Schedule,
        in_flight: usize,
        keep: u64,
        tracker: TaskTracker,
        before: Before,
    ) -> Self {
        let plan = Plan::new(source.upload.backend.capabilities(), Cut::Parts(schedule));
        let feed = source.feed.clone();
        Self {
            source,
            schedule,
            plan,
            in_flight,
            feed,
            tasks: JoinSet::new(),
            tracker,
            finished: false,
            stored: before.stored,
            unwritten: Vec::new(),
            committed: 0,
            last: 0,
            keep,
            disk: Disk::default(),
            session: before.session,
            sessions: lost::Sessions::default(),
            resumed: before.resumed,
            rival: false,
        }
    }

    /// Sends until the object is published.
    pub(super) async fn run(mut self) -> Result<Object> {
        let object = self.publish().await?;
        // The object is there. A journal that can't be removed is looked at again by whoever recovers.
        if let Err(error) = self.journal().clone().end(End::Completed).await {
            warn!(%error, "a journal of an object that is published can't be removed");
        }
        Ok(object)
    }

    async fn publish(&mut self) -> Result<Object> {
        loop {
            while let Some(action) = self.plan.next() {
                match self.act(action).await {
                    Ok(Some(object)) => return Ok(object),
                    Ok(None) => {}
                    Err(error) => {
                        if let Some(object) = self.reopen(error).await? {
                            return Ok(object);
                        }
                    }
                }
            }
            let Feed { length, finish, full } = *self.feed.borrow_and_update();
            if let Some(checksum) = finish.filter(|_| self.resumed) {
                self.resumed = false;
                if let Some(object) = self.published_before(checksum).await? {
                    return Ok(object);
                }
            }
            if self.plan.size() < length && self.plan.outstanding() < self.in_flight {
                self.plan.more().map_err(|error| {
                    self.upload().error(ErrorKind::TooLarge, Operation::Write, error.to_string())
                })?;
                self.plan.push(self.plan.room().min(length - self.plan.size()));
                continue;
            }
            if self.plan.size() == length && finish.is_some() && !self.finished {
                self.finished = true;
                self.plan.finish();
                continue;
            }
            if full {
                self.write_down(1).await?;
            }
            tokio::select! {
                Some(joined) = self.tasks.join_next() => {
                    let mut taken = self.stored(joined);
                    while taken.is_ok() && let Some(joined) = self.tasks.try_join_next() {
                        taken = self.stored(joined);
                    }
                    match taken {
                        Ok(()) => self.write_down(self.keep).await?,
                        Err(error) => {
                            if let Some(object) = self.reopen(error).await? {
                                return Ok(object);
                            }
                        }
                    }
                },
                changed = self.feed.changed() => if changed.is_err() {
                    let message = "its writer is gone";
                    return Err(self.upload().error(ErrorKind::Closed, Operation::Write, message));
                },
            }
        }
    }

    async fn act(&mut self, action: Action) -> Result<Option<Object>> {
        match action {
            Action::Open => self.open().await?,
            Action::Part { number, range } => self.part(number, range),
            Action::Put { size } => {
                self.check_rival(Operation::Put)?;
                let object = self.source.put(size).await?;
                if self.session.is_some() {
                    // Of an object that was longer before a loss of power.
                    let _ = self.upload().abort_session().await;
                }
                return Ok(Some(object));
            }
            Action::Last { .. } => {
                let message = "a journaled object is sent in parts, and they are not appended to each other";
                return Err(self.upload().error(ErrorKind::Unsupported, Operation::Part, message));
            }
            Action::Complete { .. } => {
                let (parts, checksum) = self.plan.parts();
                if self.feed.borrow().finish != Some(checksum) {
                    let message = "the journal gave other bytes than were written to it";
                    return Err(self.upload().error(ErrorKind::Integrity, Operation::Complete, message));
                }
                return self.upload().complete(parts, checksum).await.map(Some);
            }
        }
        Ok(None)
    }

    /// Opens a session, where there is none of an earlier process.
    async fn open(&mut self) -> Result<()> {
        if self.session.is_some() {
            return Ok(());
        }
        let id = self.source.open().await?;
        let session = Session { kind: SessionKind::Parts, id: id.clone() };
        match self.journal().session(session).await {
            Ok(()) => {}
            Err(JournalError::Lost { .. }) => self.disk.failed = true,
            Err(error) => {
                // Nobody would know of it.
                let _ = self.upload().abort_session().await;
                return Err(self.source.failed(error));
            }
        }
        self.session = Some(id);
        Ok(())
    }

    fn part(&mut self, number: u32, range: Range<u64>) {
        let known = self.stored.get(&number);
        if let Some(part) =
            known.filter(|part| part.offset == range.start && part.offset + part.size == range.end)
        {
            self.plan.stored(part.receipt());
            return;
        }
        let part = self.source.clone().part(number, range);
        let part = self.tracker.track_future(part);
        self.tasks.spawn_on(part, &self.source.upload.runtime);
    }

    /// Takes in what became of a part.
    fn stored(&mut self, joined: Result<Result<Part>, JoinError>) -> Result<()> {
        let part = joined.unwrap_or_else(|ended| Err(self.upload().ended_early(None, ended)))?;
        self.plan.stored(part.receipt());
        self.sessions.stored(part.size);
        self.stored.insert(part.number, part.clone());
        self.unwritten.push(part);
        Ok(())
    }

    /// Writes down what is acknowledged, and gives back the space of all of it where that is at least
    /// `keep` bytes. What can't be written down is sent again by whoever resumes.
    async fn write_down(&mut self, keep: u64) -> Result<()> {
        if self.disk.failed {
            return Ok(());
        }
        match self.try_to_write_down(keep).await {
            Ok(()) | Err(JournalError::Full { .. }) => Ok(()),
            // What can be read can be sent.
            Err(error @ JournalError::Lost { .. }) => {
                warn!(%error, "the upload goes on, and nothing of it is written down any more");
                self.disk.failed = true;
                Ok(())
            }
            Err(error) => Err(self.source.failed(error)),
        }
    }

    async fn try_to_write_down(&mut self, keep: u64) -> Result<(), JournalError> {
        while let Some(part) = self.unwritten.last() {
            // Until there is room nothing is given back for it.
            self.journal().part(part.clone()).await?;
            self.unwritten.pop();
        }
        let (mut last, mut committed) = (self.last, self.committed);
        while let Some(next) = self.stored.get(&(last + 1)).filter(|part| part.offset == committed) {
            (last, committed) = (next.number, next.offset + next.size);
        }
        if committed > self.committed {
            self.journal().committed(committed).await?;
            (self.last, self.committed) = (last, committed);
        }
        if self.committed == 0 || keep == u64::MAX || self.disk.keeps_all {
            return Ok(());
        }
        match self.journal().give_back(keep).await {
            Ok(0) => {}
            Ok(bytes) => {
                debug!(object = self.upload().requests.object, bytes, "gave space of the journal back");
            }
            Err(error @ JournalError::Lost { .. }) => return Err(error),
            Err(error) => {
                let is_unsupported = |source: &io::Error| source.kind() == io::ErrorKind::Unsupported;
                self.disk.keeps_all =
                    matches!(&error, JournalError::Io { source, .. } if is_unsupported(source));
                debug!(%error, "space of the journal is not given back");
            }
        }
        Ok(())
    }

    fn journal(&self) -> &Journal {
        &self.source.journal
    }

    fn upload(&self) -> &Arc<Upload> {
        &self.source.upload
    }
}
