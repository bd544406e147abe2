//! A store that can be down, forget its sessions, or mishandle completions.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};

use async_trait::async_trait;
use tokio::sync::Barrier;

use super::*;
use crate::backend::{
    Admin, Attempt, Backend, Fault, FaultKind, PartOrigin, PartSource, Parts, Receipt, Session, StoredPart,
    WriteOptions,
};
use crate::journal::SimDisk;
use crate::memory::payload::Payload;
use crate::types::checksum::Checksum;
use crate::types::object::Object;

/// The outcome of a completion.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Fate {
    /// The completion fails, and the session has lost its parts, as when MinIO is killed while it completes.
    Hollow,
    /// The same, but the answer is lost.
    HollowAndLost,
    /// The completion succeeds, the object is deleted at once, and the answer is lost.
    Taken,
    /// An earlier completion of the session is still under way, and this one gets a success.
    UnderWay,
    /// The session expires before the completion.
    Expires,
    /// The completion succeeds, a proxy repeats it, and the repetition fails because the parts are gone.
    Twice,
    /// The completion is rejected although the session has exactly these parts, as S3 does when sizes differ.
    Refused,
    /// The task of the request panics.
    Panics,
    /// The completion succeeds, and the answer never arrives.
    Silent,
}

/// A memory store that can be made unreachable, or made to answer wrongly.
#[derive(Debug)]
pub(super) struct Faulty {
    memory: Memory,
    is_down: AtomicBool,
    /// Once this disk has lost its power, the store is unreachable: the whole process is dead.
    ends_with: Mutex<Option<Arc<SimDisk>>>,
    /// Parts are rejected with a permanent error.
    denies: AtomicBool,
    /// Completions and PUTs succeed, but their answers are lost, and the store is down from then on.
    loses_completion: AtomicBool,
    /// So many HEADs are answered as if the object did not exist yet.
    hides: AtomicU64,
    /// The outcome of the next completions, and how many of them.
    fates: Mutex<Option<(Fate, u32)>>,
    hollow: Mutex<BTreeSet<String>>,
    /// No part is answered before so many have arrived; then part 1 fails because the session is gone.
    meeting: Mutex<Option<Arc<Barrier>>>,
    parts: AtomicU64,
    opened: AtomicU64,
    puts: AtomicU64,
}

impl Faulty {
    pub(super) fn new() -> Self {
        let capabilities = Capabilities { min_part: 4 * KIB, ..Capabilities::default() };
        Self {
            memory: Memory::new("test").with_capabilities(capabilities),
            is_down: AtomicBool::default(),
            ends_with: Mutex::default(),
            denies: AtomicBool::default(),
            loses_completion: AtomicBool::default(),
            hides: AtomicU64::default(),
            fates: Mutex::default(),
            hollow: Mutex::default(),
            meeting: Mutex::default(),
            parts: AtomicU64::default(),
            opened: AtomicU64::default(),
            puts: AtomicU64::default(),
        }
    }

    pub(super) fn go_down(&self, down: bool) {
        self.is_down.store(down, SeqCst);
    }

    pub(super) fn end_with(&self, disk: Option<Arc<SimDisk>>) {
        *self.ends_with.lock().unwrap() = disk;
    }

    pub(super) fn deny(&self, denies: bool) {
        self.denies.store(denies, SeqCst);
    }

    pub(super) fn lose_answers(&self, lose: bool) {
        self.loses_completion.store(lose, SeqCst);
    }

    /// Answers the next `questions` HEADs as if the object did not exist yet.
    pub(super) fn hide(&self, questions: u64) {
        self.hides.store(questions, SeqCst);
    }

    pub(super) fn destine(&self, fate: Fate, completions: u32) {
        *self.fates.lock().unwrap() = Some((fate, completions));
    }

    pub(super) fn hollow_out(&self, session: &Session) {
        self.hollow.lock().unwrap().insert(session.id.clone());
    }

    /// When `parts` parts have arrived, part 1 fails because the session is gone; the others succeed.
    pub(super) fn meet(&self, parts: usize) {
        *self.meeting.lock().unwrap() = Some(Arc::new(Barrier::new(parts)));
    }

    pub(super) async fn forget_sessions(&self) {
        let open: Vec<_> = self.memory.sessions("").collect().await;
        for open in open {
            // The session may have been completed meanwhile.
            let _ = self.memory.abort(&open.unwrap().session, Attempt::FIRST).await;
        }
    }

    pub(super) fn parts(&self) -> u64 {
        self.parts.load(SeqCst)
    }

    pub(super) fn opened(&self) -> u64 {
        self.opened.load(SeqCst)
    }

    pub(super) fn puts(&self) -> u64 {
        self.puts.load(SeqCst)
    }

    /// The answer to a request that has published `object`.
    fn answer(&self, object: Object) -> Result<Object, Fault> {
        if self.loses_completion.load(SeqCst) {
            self.go_down(true);
            return Err(lost());
        }
        Ok(object)
    }

    fn check(&self) -> Result<(), Fault> {
        let has_power = self.ends_with.lock().unwrap().as_ref().is_none_or(|disk| !disk.is_off());
        if self.is_down.load(SeqCst) || !has_power {
            return Err(Fault::new(FaultKind::Unreachable, "connection refused"));
        }
        Ok(())
    }

    fn is_hollow(&self, session: &Session) -> bool {
        self.hollow.lock().unwrap().contains(&session.id)
    }

    fn next_fate(&self) -> Option<Fate> {
        let mut fates = self.fates.lock().unwrap();
        let (fate, left) = fates.as_mut().filter(|(_, left)| *left > 0)?;
        *left -= 1;
        Some(*fate)
    }
}

fn lost() -> Fault {
    Fault::new(FaultKind::Transient, "connection reset")
}

fn refused(kind: FaultKind) -> Fault {
    Fault::new(kind, format!("{kind:?}")).with_answered(true)
}

#[async_trait]
impl Layer for Faulty {
    fn below(&self) -> &dyn Backend {
        &self.memory
    }

    async fn put(
        &self,
        key: &str,
        payload: Payload,
        options: &WriteOptions,
        attempt: Attempt,
    ) -> Result<Object, Fault> {
        self.check()?;
        self.puts.fetch_add(1, SeqCst);
        let object = self.memory.put(key, payload, options, attempt).await?;
        self.answer(object)
    }

    async fn open(
        &self,
        key: &str,
        options: &WriteOptions,
        origin: PartOrigin,
        attempt: Attempt,
    ) -> Result<Session, Fault> {
        self.check()?;
        self.opened.fetch_add(1, SeqCst);
        self.memory.open(key, options, origin, attempt).await
    }

    async fn part(
        &self,
        session: &Session,
        number: u32,
        offset: u64,
        source: PartSource<'_>,
        attempt: Attempt,
    ) -> Result<Receipt, Fault> {
        self.check()?;
        if self.denies.load(SeqCst) {
            return Err(refused(FaultKind::Denied));
        }
        self.parts.fetch_add(1, SeqCst);
        let meeting = self.meeting.lock().unwrap().clone();
        let stored = self.memory.part(session, number, offset, source, attempt).await;
        if let Some(meeting) = meeting {
            meeting.wait().await;
            *self.meeting.lock().unwrap() = None;
            if number == 1 {
                return Err(refused(FaultKind::NoSession));
            }
        }
        stored
    }

    async fn stored_parts(&self, session: &Session, attempt: Attempt) -> Result<Vec<StoredPart>, Fault> {
        if self.is_hollow(session) {
            Ok(Vec::new())
        } else {
            self.memory.stored_parts(session, attempt).await
        }
    }

    async fn complete(
        &self,
        session: &Session,
        parts: &[Receipt],
        checksum: Option<&Checksum>,
        options: &WriteOptions,
        attempt: Attempt,
    ) -> Result<Object, Fault> {
        self.check()?;
        if self.is_hollow(session) {
            return Err(refused(FaultKind::PartMismatch));
        }
        let complete = || self.memory.complete(session, parts, checksum, options, attempt);
        match self.next_fate() {
            None => return self.answer(complete().await?),
            Some(fate @ (Fate::Hollow | Fate::HollowAndLost)) => {
                self.hollow_out(session);
                return Err(if fate == Fate::Hollow { refused(FaultKind::PartMismatch) } else { lost() });
            }
            Some(Fate::Taken) => {
                complete().await?;
                self.memory.delete(&session.key, attempt).await?;
            }
            Some(Fate::UnderWay) => return Ok(Object { key: session.key.clone(), ..Object::default() }),
            Some(Fate::Expires) => {
                self.memory.abort(session, attempt).await?;
                return complete().await;
            }
            Some(Fate::Twice) => {
                complete().await?;
                self.hollow_out(session);
                return Err(refused(FaultKind::PartMismatch));
            }
            Some(Fate::Refused) => return Err(refused(FaultKind::PartMismatch)),
            Some(Fate::Silent) => {
                complete().await?;
                std::future::pending::<()>().await;
            }
            Some(Fate::Panics) => panic!("in the middle of a completion"),
        }
        Err(lost())
    }

    async fn abort(&self, session: &Session, attempt: Attempt) -> Result<(), Fault> {
        self.check()?;
        self.memory.abort(session, attempt).await
    }

    async fn head(&self, key: &str, attempt: Attempt) -> Result<Object, Fault> {
        self.check()?;
        if self.hides.fetch_update(SeqCst, SeqCst, |left| left.checked_sub(1)).is_ok() {
            return Err(refused(FaultKind::NotFound));
        }
        self.memory.head(key, attempt).await
    }
}
