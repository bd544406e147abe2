use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use async_trait::async_trait;
use bytes::Bytes;
use futures::TryStreamExt;

use super::*;
use crate::backend::memory::Memory;
use crate::backend::{
    Attempt, Backend, Capabilities, Connection, PartSource, Parts, Receipt, Session, StoredPart,
};
use crate::memory::payload::Payload;
use crate::settings::{Concurrency, RetryPolicy};
use crate::testkit::bytes::bytes_of;
use crate::testkit::scripted::{Answer, Below, Call, Script, Scripted};
use crate::types::checksum::Checksum;
use crate::{Object, Store, Tidegate};

const KIB: u64 = 1 << 10;
const PART: u64 = 4 * KIB;
const QUICK: Duration = Duration::from_millis(400);

/// What the store does with one copy of a part: how long it takes, and the fault that it answers with, if any.
type Fate = (Duration, Option<FaultKind>);

/// A store that tags each copy of a part differently, and that keeps a copy even if its sender has given it up:
/// the worst case for hedging.
#[derive(Debug)]
struct Copies {
    memory: Memory,
    state: Arc<Mutex<Kept>>,
    /// The fate of copy `.1` (from 1) of part `.0`; all other copies are quick.
    fates: BTreeMap<(u32, u32), Fate>,
    completion: Duration,
    connections: AtomicU64,
}

#[derive(Debug, Default)]
struct Kept {
    sent: BTreeMap<u32, u32>,
    /// For each part, the receipt of the memory store, and the tag of the copy that arrived last.
    parts: BTreeMap<u32, (Receipt, String)>,
    completions: u64,
    listings: u64,
}

impl Copies {
    fn new(fates: impl IntoIterator<Item = ((u32, u32), Fate)>) -> Self {
        let capabilities = Capabilities { min_part: KIB, hedge: true, ..Capabilities::default() };
        Self {
            memory: Memory::new("copies").with_capabilities(capabilities),
            state: Arc::default(),
            fates: fates.into_iter().collect(),
            completion: Duration::from_millis(50),
            connections: AtomicU64::new(0),
        }
    }

    /// The store that answers so.
    fn store(self) -> Arc<Scripted<Self>> {
        Scripted::new(self.memory.clone(), self)
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.state.lock().unwrap()
    }
}

impl Copies {
    /// Stores a copy of a part in its own task: the store takes all bytes at once, and from then on the sender can no
    /// longer stop the copy.
    async fn stores(
        &self,
        session: &Session,
        number: u32,
        offset: u64,
        payload: Payload,
        attempt: Attempt,
    ) -> Result<Receipt, Fault> {
        self.connections.fetch_add(u64::from(attempt.connection == Connection::New), Relaxed);
        let copy = {
            let mut kept = self.kept();
            let sent = kept.sent.entry(number).or_default();
            *sent += 1;
            *sent
        };
        let (time, fault) = self.fates.get(&(number, copy)).copied().unwrap_or((QUICK, None));
        let mut bytes = Vec::new();
        let mut stream = payload.stream();
        while let Some(piece) = stream.try_next().await.unwrap() {
            bytes.extend_from_slice(&piece);
        }
        let checksum = Checksum::of(payload.algorithm(), &bytes);
        let payload = Payload::from_memory(vec![bytes.into()], checksum);
        let (memory, state, session) = (self.memory.clone(), self.state.clone(), session.clone());
        let arrives = tokio::spawn(async move {
            sleep(time).await;
            if let Some(kind) = fault {
                return Err(Fault::new(kind, "as it was told").with_answered(true));
            }
            let receipt = memory.part(&session, number, offset, payload.into(), attempt).await?;
            let etag = format!("\"{number}-{copy}\"");
            state.lock().unwrap().parts.insert(number, (receipt.clone(), etag.clone()));
            Ok(Receipt { etag, ..receipt })
        });
        arrives.await.unwrap()
    }

    /// The parts, with the tags of the copies that arrived last.
    fn stored(&self) -> Vec<StoredPart> {
        let mut kept = self.kept();
        kept.listings += 1;
        let parts = kept.parts.iter().map(|(number, (receipt, etag))| {
            let checksum = receipt.checksum.map(|sum| sum.base64());
            StoredPart { checksum, ..StoredPart::new(*number, receipt.size, etag.as_str()) }
        });
        parts.collect()
    }

    /// The receipts of the memory store for these parts, if they name the copies that arrived last.
    fn named(&self, parts: &[Receipt]) -> Result<Vec<Receipt>, Fault> {
        let mut kept = self.kept();
        kept.completions += 1;
        let of = |part: &Receipt| kept.parts.get(&part.number).filter(|(_, etag)| *etag == part.etag);
        let named: Option<Vec<Receipt>> = parts.iter().map(|part| Some(of(part)?.0.clone())).collect();
        named.ok_or_else(|| Fault::new(FaultKind::PartMismatch, "InvalidPart").with_answered(true))
    }
}

#[async_trait]
impl Script for Copies {
    async fn answer(&self, call: Call<'_>, below: Below<'_>) -> Result<Answer, Fault> {
        match call {
            Call::Part { session, number, offset, source: PartSource::Bytes(payload) } => {
                self.stores(session, number, offset, payload, below.attempt).await.map(Answer::Receipt)
            }
            Call::StoredParts { .. } => Ok(Answer::StoredParts(self.stored())),
            Call::Complete { session, parts, checksum, options } => {
                sleep(self.completion).await;
                let named = self.named(parts)?;
                below.send(Call::Complete { session, parts: &named, checksum, options }).await
            }
            call => below.send(call).await,
        }
    }
}

fn engine() -> crate::TidegateBuilder {
    Tidegate::builder()
        .memory(256 * KIB)
        .slab(1024)
        .part_size(PART)
        .seed(1)
        .concurrency(Concurrency::Fixed(8))
}

fn data(parts: u64) -> Bytes {
    bytes_of(parts * PART, 0).into()
}

async fn upload(store: &Store, parts: u64) -> (crate::Result<Object>, crate::progress::Snapshot, Duration) {
    let (began, builder) = (Instant::now(), store.writer("k"));
    let progress = builder.progress();
    let mut writer = builder.start().await.unwrap();
    let written = match writer.write_bytes(data(parts)).await {
        Ok(()) => writer.finish().await,
        Err(error) => Err(error),
    };
    (written, progress.snapshot(), began.elapsed())
}

async fn is_whole(store: &Store, parts: u64) -> bool {
    let pieces: Vec<Bytes> = store.reader("k").start().await.unwrap().try_collect().await.unwrap();
    pieces.concat() == data(parts)
}

const SLOW: Fate = (Duration::from_secs(8), None);

#[tokio::test(start_paused = true)]
async fn a_slow_part_is_sent_again_and_the_first_answer_counts() {
    let copies = Copies::new([((50, 1), SLOW)]).store();
    let store = engine().build().unwrap().store(copies.clone());
    let (object, figures, took) = upload(&store, 100).await;
    assert_eq!(object.unwrap().size, 100 * PART);
    assert_eq!((figures.hedges, figures.retries, figures.requests), (1, 0, 103));
    assert_eq!((figures.acknowledged, figures.in_flight, figures.parts), (100 * PART, 0, 100));
    assert_eq!(copies.connections.load(Relaxed), 1, "on another connection");
    assert!(took < Duration::from_secs(6), "{took:?} with a part of 8 s");
    assert!(is_whole(&store, 100).await);

    let store = engine().hedge(false).build().unwrap().store(Copies::new([((50, 1), SLOW)]).store());
    let (object, figures, took) = upload(&store, 100).await;
    assert_eq!((object.unwrap().size, figures.hedges), (100 * PART, 0));
    assert!(took > Duration::from_secs(8), "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn the_completion_names_the_copy_that_the_store_has_kept() {
    // The slow copy arrives after the receipt of the quick copy, and before the completion.
    let late = (Duration::from_secs(3), None);
    let copies = Copies::new([((30, 1), late)]).store();
    let store = engine().build().unwrap().store(copies.clone());
    let (object, figures, _) = upload(&store, 100).await;
    assert_eq!((object.unwrap().size, figures.hedges), (100 * PART, 1));
    let asked = |kept: MutexGuard<'_, Kept>| (kept.completions, kept.listings);
    assert_eq!(asked(copies.kept()), (2, 1));
    assert!(is_whole(&store, 100).await);
}

#[tokio::test(start_paused = true)]
async fn copies_that_come_while_the_object_is_completed_are_met() {
    // Each completion takes 3 s, and another slow copy arrives during each.
    let late = |ms: u64| (Duration::from_millis(ms), None);
    let mut copies = Copies::new([((60, 1), late(3500)), ((70, 1), late(6000)), ((80, 1), late(8500))]);
    copies.completion = Duration::from_secs(3);
    let copies = copies.store();
    let store = engine().build().unwrap().store(copies.clone());
    let (object, figures, _) = upload(&store, 100).await;
    assert_eq!((object.unwrap().size, figures.hedges), (100 * PART, 3));
    assert_eq!(copies.kept().completions, 4);
    assert!(is_whole(&store, 100).await);
}

/// Not only hedges: a part that was given up and sent again may also arrive late.
#[tokio::test(start_paused = true)]
async fn a_copy_that_was_given_up_for_dead_and_comes_late_is_met() {
    let policy = RetryPolicy { patience: Duration::from_secs(2), ..RetryPolicy::default() };
    let copies = Copies::new([((3, 1), (Duration::from_secs(5), None)), ((4, 1), SLOW)]).store();
    let store = engine().hedge(false).retry(policy).build().unwrap().store(copies.clone());
    let mut writer = store.writer("k").start().await.unwrap();
    writer.write_bytes(data(5)).await.unwrap();
    sleep(Duration::from_secs(10)).await;
    writer.finish().await.unwrap();
    assert!(copies.kept().listings > 0);
    assert!(is_whole(&store, 5).await);
}

#[tokio::test(start_paused = true)]
async fn what_is_not_a_copy_of_the_same_bytes_is_not_taken() {
    let copies = Copies::new([]).store();
    let store = engine().build().unwrap().store(copies.clone());
    let mut writer = store.writer("k").start().await.unwrap();
    writer.write_bytes(data(5)).await.unwrap();
    sleep(Duration::from_secs(10)).await;
    // Another process writes into the session.
    if let Some((receipt, etag)) = copies.kept().parts.get_mut(&2) {
        receipt.checksum = receipt.checksum.map(|sum| Checksum::of(sum.algorithm(), b"other"));
        *etag = "\"other\"".to_owned();
    }
    let error = writer.finish().await.unwrap_err();
    assert_eq!(error.kind(), crate::ErrorKind::SessionLost, "{error}");
    assert_eq!(copies.memory.head("k", Attempt::FIRST).await.unwrap_err().kind, FaultKind::NotFound);
}

#[tokio::test(start_paused = true)]
async fn never_more_than_one_in_twenty() {
    // Every fourth part is slow, so the p95 latency of peers does not stay quick, and hedges are limited.
    let slow = (1..=400u32).filter(|number| number.is_multiple_of(4)).map(|number| ((number, 1), SLOW));
    let store = engine().build().unwrap().store(Copies::new(slow).store());
    let (object, figures, _) = upload(&store, 400).await;
    object.unwrap();
    assert!(figures.hedges <= 20, "{}", figures.hedges);
}

#[tokio::test(start_paused = true)]
async fn not_while_the_store_throttles() {
    let throttled = (Duration::from_millis(10), Some(FaultKind::Throttled));
    let copies = Copies::new([((40, 1), throttled), ((50, 1), SLOW), ((60, 1), SLOW)]);
    let store = engine().build().unwrap().store(copies.store());
    let (object, figures, took) = upload(&store, 100).await;
    object.unwrap();
    assert_eq!((figures.hedges, figures.retries), (0, 1));
    assert!(took > Duration::from_secs(8));
}

#[tokio::test(start_paused = true)]
async fn not_where_the_store_can_not_tell_its_copies_apart() {
    let mut copies = Copies::new([((50, 1), SLOW)]);
    let capabilities = Capabilities { hedge: false, ..copies.memory.capabilities().clone() };
    copies.memory = copies.memory.with_capabilities(capabilities);
    let store = engine().build().unwrap().store(copies.store());
    let (object, figures, _) = upload(&store, 100).await;
    assert_eq!((object.unwrap().size, figures.hedges), (100 * PART, 0));
}

#[tokio::test(start_paused = true)]
async fn whichever_of_the_two_succeeds_is_taken() {
    let fails = |ms| (Duration::from_millis(ms), Some(FaultKind::Transient));
    // For part 40 the hedge fails at once; for part 60 the original fails while the hedge is in flight.
    let copies = [((40, 1), (Duration::from_secs(3), None)), ((40, 2), fails(10))];
    let copies = copies.into_iter().chain([((60, 1), fails(1500)), ((60, 2), (QUICK, None))]);
    let copies = Copies::new(copies).store();
    let store = engine().build().unwrap().store(copies.clone());
    let (object, figures, _) = upload(&store, 100).await;
    object.unwrap();
    assert_eq!((figures.hedges, figures.retries), (2, 0), "{figures:?}");
    assert!(is_whole(&store, 100).await);
}

#[tokio::test(start_paused = true)]
async fn a_files_part_is_hedged_only_where_memory_is_to_spare() {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    std::io::Write::write_all(&mut file, &data(100)).unwrap();
    // Each request takes three slabs: eight requests leave room for a hedge with 64 KiB, but not with 24 KiB.
    for (memory, hedges) in [(64 * KIB, 1), (24 * KIB, 0)] {
        let copies = Copies::new([((50, 1), SLOW)]).store();
        let tide = engine().memory(memory).build().unwrap();
        let store = tide.store(copies.clone());
        let builder = store.writer("k");
        let progress = builder.progress();
        builder.upload(file.path()).await.unwrap();
        assert_eq!(progress.snapshot().hedges, hedges, "with {memory} bytes");
        assert!(is_whole(&store, 100).await);
        assert!(tide.usage().peak <= memory);
        assert_eq!(tide.usage().held, 0);
    }
}

#[tokio::test(start_paused = true)]
async fn a_writer_that_is_dropped_takes_its_hedges_with_it() {
    let never = (Duration::from_secs(100_000), None);
    let copies = Copies::new([((50, 1), never), ((50, 2), never)]).store();
    let tide = engine().build().unwrap();
    let store = tide.store(copies);
    let builder = store.writer("k");
    let progress = builder.progress();
    let mut writer = builder.start().await.unwrap();
    writer.write_bytes(data(60)).await.unwrap();
    sleep(Duration::from_secs(10)).await;
    assert_eq!((progress.snapshot().hedges, progress.snapshot().in_flight), (1, PART));
    drop(writer);
    tide.settled().await;
    assert_eq!((progress.snapshot().in_flight, tide.usage().held), (0, 0));
}

#[test]
fn peers_say_what_is_slow() {
    let hedges = Hedges::default();
    let seconds = Duration::from_secs;
    for _ in 0..19 {
        hedges.stored(100, seconds(1));
    }
    assert_eq!(hedges.look(100, seconds(1)), HedgeDecision::Later(seconds(1)));
    assert!(
        matches!(hedges.look(100, seconds(9)), HedgeDecision::Later(_)),
        "nineteen parts have not earned one"
    );
    hedges.stored(100, seconds(1));
    assert!(
        matches!(hedges.look(200, seconds(3)), HedgeDecision::Later(_)),
        "twice the bytes may take twice as long"
    );
    assert_eq!(hedges.look(10, seconds(1)), HedgeDecision::Later(seconds(1)), "few bytes may take as long");
    assert_eq!(hedges.look(100, seconds(2)), HedgeDecision::Now);
    assert!(matches!(hedges.look(100, seconds(2)), HedgeDecision::Later(_)), "one for twenty");
    hedges.lost();
    for _ in 0..20 {
        hedges.stored(100, seconds(1));
    }
    assert!(
        matches!(hedges.look(100, seconds(2)), HedgeDecision::Later(_)),
        "one that was lost counts twice"
    );
}

/// Most objects end with a part that is far smaller than the others.
#[test]
fn the_short_last_parts_of_objects_do_not_hide_what_is_slow() {
    const LARGE: u64 = 16 << 20;
    let hedges = Hedges::default();
    for _ in 0..25 {
        for _ in 0..4 {
            hedges.stored(LARGE, Duration::from_secs(1));
        }
        hedges.stored(1 << 10, Duration::from_millis(50));
    }
    assert_eq!(hedges.look(LARGE, Duration::from_secs(60)), HedgeDecision::Now, "its peers took one second");
}
