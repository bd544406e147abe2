//! A store that can be down, forget its sessions, or mishandle completions.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};

use async_trait::async_trait;
use tokio::sync::Barrier;

use super::*;
use crate::backend::{Admin, Attempt, Fault, FaultKind, Parts, Session};
use crate::journal::testkit::SimDisk;
use crate::testkit::scripted::{Answer, Below, Call, Script, Scripted};
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
    pub(super) fn store() -> Arc<Scripted<Self>> {
        Self::store_with(Capabilities { min_part: 4 * KIB, ..Capabilities::default() })
    }

    pub(super) fn store_with(capabilities: Capabilities) -> Arc<Scripted<Self>> {
        let memory = Memory::new("test").with_capabilities(capabilities);
        let faulty = Self {
            memory: memory.clone(),
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
        };
        Scripted::new(memory, faulty)
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
    fn publishes(&self, object: Answer) -> Result<Answer, Fault> {
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

impl Faulty {
    /// Completes a session, unless it is destined to end otherwise.
    async fn completes(&self, call: Call<'_>, below: Below<'_>) -> Result<Answer, Fault> {
        let Call::Complete { session, .. } = call else { panic!("no completion") };
        if self.is_hollow(session) {
            return Err(refused(FaultKind::PartMismatch));
        }
        match self.next_fate() {
            None => return self.publishes(below.send(call).await?),
            Some(fate @ (Fate::Hollow | Fate::HollowAndLost)) => {
                self.hollow_out(session);
                return Err(if fate == Fate::Hollow { refused(FaultKind::PartMismatch) } else { lost() });
            }
            Some(Fate::Taken) => {
                below.send(call).await?;
                below.send(Call::Delete { key: &session.key, same: None }).await?;
            }
            Some(Fate::UnderWay) => {
                let object = Object { key: session.key.clone(), ..Object::default() };
                return Ok(Answer::Object(object));
            }
            Some(Fate::Expires) => {
                below.send(Call::Abort { session }).await?;
                return below.send(call).await;
            }
            Some(Fate::Twice) => {
                below.send(call).await?;
                self.hollow_out(session);
                return Err(refused(FaultKind::PartMismatch));
            }
            Some(Fate::Refused) => return Err(refused(FaultKind::PartMismatch)),
            Some(Fate::Silent) => {
                below.send(call).await?;
                std::future::pending::<()>().await;
            }
            Some(Fate::Panics) => panic!("in the middle of a completion"),
        }
        Err(lost())
    }

    /// Stores a part; where parts are to meet, when all have arrived.
    async fn stores(&self, call: Call<'_>, number: u32, below: Below<'_>) -> Result<Answer, Fault> {
        if self.denies.load(SeqCst) {
            return Err(refused(FaultKind::Denied));
        }
        self.parts.fetch_add(1, SeqCst);
        let meeting = self.meeting.lock().unwrap().clone();
        let stored = below.send(call).await;
        if let Some(meeting) = meeting {
            meeting.wait().await;
            *self.meeting.lock().unwrap() = None;
            if number == 1 {
                return Err(refused(FaultKind::NoSession));
            }
        }
        stored
    }
}

#[async_trait]
impl Script for Faulty {
    async fn answer(&self, call: Call<'_>, below: Below<'_>) -> Result<Answer, Fault> {
        match call {
            Call::Put { .. } => {
                self.check()?;
                self.puts.fetch_add(1, SeqCst);
                self.publishes(below.send(call).await?)
            }
            Call::Open { .. } => {
                self.check()?;
                self.opened.fetch_add(1, SeqCst);
                below.send(call).await
            }
            Call::Part { number, .. } => {
                self.check()?;
                self.stores(call, number, below).await
            }
            Call::StoredParts { session } if self.is_hollow(session) => Ok(Answer::StoredParts(Vec::new())),
            Call::Complete { .. } => {
                self.check()?;
                self.completes(call, below).await
            }
            Call::Abort { .. } => {
                self.check()?;
                below.send(call).await
            }
            Call::Head { .. } => {
                self.check()?;
                if self.hides.fetch_update(SeqCst, SeqCst, |left| left.checked_sub(1)).is_ok() {
                    return Err(refused(FaultKind::NotFound));
                }
                below.send(call).await
            }
            call => below.send(call).await,
        }
    }
}
