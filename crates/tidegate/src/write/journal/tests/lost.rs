//! Sessions that are gone, or have lost parts; commits of which nobody knows what became.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::SeqCst};

use async_trait::async_trait;

use super::*;
use crate::backend::{Backend, Fault, FaultKind, Layer, Receipt, Session, StoredPart, WriteOptions};
use crate::checksum::Checksum;
use crate::object::Object;
use crate::payload::Payload;

/// What happens to the next completions.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Fate {
    /// As MinIO leaves it that is killed while it completes: the session is there, without its parts.
    Hollow,
    /// The same, and the answer is lost.
    HollowAndLost,
    /// It is carried out, its answer is lost, and somebody takes the object away at once.
    Taken,
    /// The session expires.
    Expires,
    /// It is carried out, and something on the way makes it again, to which the store has no parts.
    Twice,
    /// It is refused although the session has just these parts, as S3 does where sizes differ.
    Refused,
    /// The request's own task panics.
    Panics,
}

/// A store in memory with such completions, and which may cut its answers to a write short.
#[derive(Debug)]
struct Odd {
    memory: Memory,
    fate: Mutex<Option<Fate>>,
    /// How many completions meet that fate.
    times: AtomicU32,
    hollow: Mutex<BTreeSet<String>>,
    opened: AtomicU32,
    parts: AtomicU32,
    puts: AtomicU32,
    no_puts: AtomicBool,
    no_bucket: AtomicBool,
}

impl Odd {
    fn new(fate: Option<Fate>, times: u32) -> Arc<Self> {
        let capabilities = Capabilities { min_part: 4 * KIB, ..Capabilities::default() };
        Arc::new(Self {
            memory: Memory::new("test").with_capabilities(capabilities),
            fate: Mutex::new(fate),
            times: times.into(),
            hollow: Mutex::default(),
            opened: AtomicU32::default(),
            parts: AtomicU32::default(),
            puts: AtomicU32::default(),
            no_puts: AtomicBool::default(),
            no_bucket: AtomicBool::default(),
        })
    }

    fn is_hollow(&self, session: &Session) -> bool {
        self.hollow.lock().unwrap().contains(&session.id)
    }

    fn next_fate(&self) -> Option<Fate> {
        let left = self.times.load(SeqCst);
        self.times.store(left.saturating_sub(1), SeqCst);
        if left > 0 { *self.fate.lock().unwrap() } else { None }
    }
}

fn lost() -> Fault {
    Fault::new(FaultKind::Transient, "connection reset")
}

fn mismatch() -> Fault {
    Fault::new(FaultKind::PartMismatch, "InvalidPart").with_answered(true)
}

#[async_trait]
impl Layer for Odd {
    fn below(&self) -> &dyn Backend {
        &self.memory
    }

    async fn open(&self, key: &str, options: &WriteOptions) -> Result<Session, Fault> {
        self.opened.fetch_add(1, SeqCst);
        self.memory.open(key, options).await
    }

    async fn put(&self, key: &str, payload: Payload, options: &WriteOptions) -> Result<Object, Fault> {
        self.puts.fetch_add(1, SeqCst);
        if self.no_puts.load(SeqCst) {
            return Err(Fault::new(FaultKind::Unreachable, "connection refused"));
        }
        self.memory.put(key, payload, options).await
    }

    async fn part(
        &self,
        session: &Session,
        number: u32,
        offset: u64,
        payload: Payload,
    ) -> Result<Receipt, Fault> {
        self.parts.fetch_add(1, SeqCst);
        self.memory.part(session, number, offset, payload).await
    }

    async fn parts(&self, session: &Session) -> Result<Vec<StoredPart>, Fault> {
        if self.is_hollow(session) { Ok(Vec::new()) } else { self.memory.parts(session).await }
    }

    async fn complete(
        &self,
        session: &Session,
        parts: &[Receipt],
        checksum: &Checksum,
        options: &WriteOptions,
    ) -> Result<Object, Fault> {
        if self.is_hollow(session) {
            return Err(mismatch());
        }
        match self.next_fate() {
            None => return self.memory.complete(session, parts, checksum, options).await,
            Some(fate @ (Fate::Hollow | Fate::HollowAndLost)) => {
                self.hollow.lock().unwrap().insert(session.id.clone());
                return Err(if fate == Fate::Hollow { mismatch() } else { lost() });
            }
            Some(Fate::Taken) => {
                self.memory.complete(session, parts, checksum, options).await?;
                self.memory.delete(&session.key).await?;
            }
            Some(Fate::Expires) => {
                self.memory.abort(session).await?;
                return self.memory.complete(session, parts, checksum, options).await;
            }
            Some(Fate::Twice) => {
                self.memory.complete(session, parts, checksum, options).await?;
                self.hollow.lock().unwrap().insert(session.id.clone());
                return Err(mismatch());
            }
            Some(Fate::Refused) => return Err(mismatch()),
            Some(Fate::Panics) => panic!("in the middle of a completion"),
        }
        Err(lost())
    }

    async fn abort(&self, session: &Session) -> Result<(), Fault> {
        if self.no_bucket.load(SeqCst) {
            return Err(Fault::new(FaultKind::NoBucket, "NoSuchBucket").with_answered(true));
        }
        self.memory.abort(session).await
    }
}

/// A process with this store.
fn process(place: &Place, odd: &Arc<Odd>) -> (Tidegate, Store) {
    let tide = place.builder().build().unwrap();
    let store = tide.store(odd.clone());
    (tide, store)
}

async fn written(place: &Place, store: &Store, size: u64) -> Result<Writer> {
    let mut writer = place.writer(store).await?;
    writer.write(data(size)).await?;
    Ok(writer)
}

async fn assert_whole(place: &Place, store: &Store, size: u64) {
    assert_eq!(stored(store, "k").await, data(size));
    assert_eq!((place.files(), place.sessions(store).await), (0, 0));
}

#[tokio::test]
async fn a_session_that_has_lost_its_parts_is_replaced() -> Result<()> {
    for fate in [Fate::Hollow, Fate::HollowAndLost] {
        let (place, odd) = (Place::new(), Odd::new(Some(fate), 1));
        let (_tide, store) = process(&place, &odd);
        let object = written(&place, &store, 5 * PART).await?.finish().await?;
        assert_eq!(object.size, 5 * PART);
        assert_eq!((odd.opened.load(SeqCst), odd.parts.load(SeqCst)), (2, 10), "{fate:?}");
        assert_whole(&place, &store, 5 * PART).await;
    }
    Ok(())
}

#[tokio::test]
async fn without_a_journal_it_is_a_lost_session() -> Result<()> {
    let (place, odd) = (Place::new(), Odd::new(Some(Fate::Hollow), 1));
    let (tide, store) = process(&place, &odd);
    let mut writer = store.writer("k").start().await?;
    writer.write(data(5 * PART)).await?;
    let error = writer.finish().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::SessionLost, "{error}");
    assert!(error.to_string().contains("has lost part 1"), "{error}");
    tide.settled().await;
    assert_eq!(place.sessions(&store).await, 0);
    Ok(())
}

#[tokio::test]
async fn a_completion_that_ran_into_itself_is_one() -> Result<()> {
    for strategy in [Strategy::Parallel, Strategy::Journal] {
        let (place, odd) = (Place::new(), Odd::new(Some(Fate::Twice), 1));
        let (_tide, store) = process(&place, &odd);
        let mut writer = store.writer("k").strategy(strategy).start().await?;
        writer.write(data(5 * PART)).await?;
        assert_eq!(writer.finish().await?.size, 5 * PART, "{strategy:?}");
        assert_eq!(odd.opened.load(SeqCst), 1, "{strategy:?}");
        assert_whole(&place, &store, 5 * PART).await;
    }
    Ok(())
}

#[tokio::test]
async fn parts_that_are_there_and_refused_are_not_sent_again() -> Result<()> {
    for strategy in [Strategy::Parallel, Strategy::Journal] {
        let (place, odd) = (Place::new(), Odd::new(Some(Fate::Refused), u32::MAX));
        let (tide, store) = process(&place, &odd);
        let mut writer = store.writer("k").strategy(strategy).start().await?;
        writer.write(data(5 * PART)).await?;
        let error = writer.finish().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
        assert!(error.to_string().contains("InvalidPart") && error.remedy().is_none(), "{error}");
        assert_eq!((odd.opened.load(SeqCst), odd.parts.load(SeqCst)), (1, 5), "{strategy:?}");
        tide.settled().await;
        let (files, sessions) = if strategy == Strategy::Journal { (1, 1) } else { (0, 0) };
        assert_eq!((place.files(), place.sessions(&store).await), (files, sessions));
    }
    Ok(())
}

#[tokio::test]
async fn the_next_process_replaces_a_session_that_has_lost_its_parts() -> Result<()> {
    let (place, odd) = (Place::new(), Odd::new(Some(Fate::Panics), 1));
    let (tide, store) = process(&place, &odd);
    let error = written(&place, &store, 5 * PART).await?.finish().await.unwrap_err();
    assert_eq!(
        (error.kind(), error.operation()),
        (ErrorKind::Uncertain, crate::Operation::Complete),
        "{error}"
    );
    tide.settled().await;
    let sessions: Vec<_> = store.sessions("").collect().await;
    odd.hollow.lock().unwrap().insert(sessions[0].as_ref().unwrap().session.id.clone());
    let (tide, store) = process(&place, &odd);
    let resumed = tide.recover().await?[0].resume_on(&store).await?;
    assert_eq!(resumed.object().unwrap().size, 5 * PART);
    assert_whole(&place, &store, 5 * PART).await;
    Ok(())
}

#[tokio::test]
async fn what_may_have_been_published_and_taken_away_is_uncertain() -> Result<()> {
    let (place, odd) = (Place::new(), Odd::new(Some(Fate::Taken), u32::MAX));
    let (tide, store) = process(&place, &odd);
    let finish = written(&place, &store, 5 * PART).await?.finish();
    let error = tokio::time::timeout(Duration::from_secs(20), finish).await.expect("no end").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Uncertain, "{error}");
    assert_eq!(odd.opened.load(SeqCst), 1, "it was sent again");
    tide.settled().await;
    assert_eq!(place.files(), 1);
    // Whoever resumes it says that it is to be there.
    odd.times.store(0, SeqCst);
    let (tide, store) = process(&place, &odd);
    tide.recover().await?[0].resume_on(&store).await?;
    assert_whole(&place, &store, 5 * PART).await;
    Ok(())
}

#[tokio::test]
async fn sessions_that_are_lost_one_after_the_other_come_to_an_end() -> Result<()> {
    let (place, odd) = (Place::new(), Odd::new(Some(Fate::Expires), u32::MAX));
    let (_tide, store) = process(&place, &odd);
    let finish = written(&place, &store, 5 * PART).await?.finish();
    let error = tokio::time::timeout(Duration::from_secs(20), finish).await.expect("no end").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::SessionLost, "{error}");
    assert!(odd.opened.load(SeqCst) <= 5, "{} sessions", odd.opened.load(SeqCst));
    assert_eq!(place.files(), 1);
    Ok(())
}

#[tokio::test]
async fn a_small_object_does_not_replace_one_that_came_since() -> Result<()> {
    for create_only in [false, true] {
        let (place, odd) = (Place::new(), Odd::new(None, 0));
        let (tide, store) = process(&place, &odd);
        odd.no_puts.store(true, SeqCst);
        let builder = store.writer("k").strategy(Strategy::Journal);
        let mut writer = if create_only { builder.create_only() } else { builder }.start().await?;
        writer.write(data(100)).await?;
        writer.finish().await.unwrap_err();
        tide.settled().await;
        odd.no_puts.store(false, SeqCst);
        store.writer("k").start().await?.finish().await?; // another's, and later
        let puts = odd.puts.load(SeqCst);
        let (tide, store) = process(&place, &odd);
        let error = tide.recover().await?[0].resume_on(&store).await.unwrap_err();
        let expected = if create_only { ErrorKind::AlreadyExists } else { ErrorKind::Uncertain };
        assert_eq!(error.kind(), expected, "{error}");
        assert!(create_only || odd.puts.load(SeqCst) == puts, "it was sent");
        assert_eq!(store.head("k").await?.size, 0);
        assert_eq!(place.files(), 1);
        // The way out that the error names.
        store.delete("k").await?;
        tide.settled().await;
        tide.recover().await?[0].resume_on(&store).await?;
        assert_whole(&place, &store, 100).await;
    }
    Ok(())
}
