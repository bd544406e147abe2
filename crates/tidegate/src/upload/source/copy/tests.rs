use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures::StreamExt;
use proptest::prelude::*;

use super::*;
use crate::backend::memory::Memory;
use crate::backend::{Fault, FaultKind, PartSource, Receipt, WriteOptions};
use crate::settings::RetryPolicy;
use crate::testkit::bytes::bytes_of;
use crate::testkit::scripted::{Answer, Below, Call, Script, Scripted};
use crate::types::checksum::Algorithm;
use crate::upload::plan::Action;
use crate::{ErrorKind, Result, Store, Tidegate};

const KIB: u64 = 1 << 10;

fn small() -> Capabilities {
    Capabilities { min_part: KIB, max_copy: 64 * KIB, copy_parts: true, ..Capabilities::default() }
}

fn data(size: u64) -> Bytes {
    bytes_of(size, 0).into()
}

fn engine() -> Tidegate {
    let first_pause = Duration::from_millis(1);
    let retry = RetryPolicy { first_pause, attempts: 4, ..RetryPolicy::default() };
    Tidegate::builder().memory(256 * KIB).slab(4096).retry(retry).seed(1).build().unwrap()
}

async fn write(store: &Store, key: &str, bytes: &Bytes) {
    let mut writer =
        store.writer(key).metadata("owner", "me").tag("k", "v").content_type("text/x").start().await.unwrap();
    writer.write_bytes(bytes.clone()).await.unwrap();
    writer.finish().await.unwrap();
}

async fn stored(store: &Store, key: &str) -> Vec<u8> {
    let reader = store.reader(key).start().await.unwrap();
    let pieces: Vec<Bytes> = reader.map(|piece| piece.unwrap()).collect().await;
    pieces.concat()
}

async fn assert_no_session(tide: &Tidegate, store: &Store) {
    assert!(tide.settled().await.is_empty());
    assert_eq!(store.sessions("").count().await, 0);
}

proptest! {
    #[test]
    fn every_way_copies_each_byte_once_within_the_limits(
        size in 0..200 * KIB,
        part in proptest::option::of(KIB..40 * KIB),
        create_only: bool,
        create_only_copy: bool,
        equal_parts: bool,
    ) {
        let store = Capabilities { create_only_copy, equal_parts, max_part: 50 * KIB, ..small() };
        match CopyMethod::choose(&store, size, create_only, part).unwrap() {
            CopyMethod::Whole => prop_assert!(size <= store.max_copy && (!create_only || create_only_copy)),
            CopyMethod::Nothing => prop_assert!(size == 0),
            CopyMethod::Parts(schedule) => {
                let (mut end, mut count) = (0, 0);
                let mut plan = plan(&store, &CopyMethod::Parts(schedule), size);
                while plan.size() < size {
                    plan.more().unwrap();
                    plan.push(plan.room().min(size - plan.size()));
                }
                plan.finish();
                prop_assert_eq!(plan.next(), Some(Action::Open));
                while let Some(Action::Part { number, range }) = plan.next() {
                    count += 1;
                    prop_assert_eq!((number, range.start), (count, end));
                    let len = range.end - range.start;
                    prop_assert!(len <= store.max_part && (len >= store.min_part || range.end == size));
                    end = range.end;
                }
                prop_assert!(end == size && count > 0 && count <= store.max_parts);
            }
        }
    }
}

#[test]
fn what_a_store_does_not_do_is_refused() {
    let none = Capabilities::default();
    assert_eq!(CopyMethod::choose(&none, 1, false, None), Err(NoCopyMethod::TooLarge(1)));
    let whole = Capabilities { copy_parts: false, ..small() };
    assert_eq!(CopyMethod::choose(&whole, 1, false, None), Ok(CopyMethod::Whole));
    assert_eq!(CopyMethod::choose(&whole, 65 * KIB, false, None), Err(NoCopyMethod::TooLarge(65 * KIB)));
    assert_eq!(CopyMethod::choose(&whole, 1, true, None), Err(NoCopyMethod::CreateOnly));
    assert!(matches!(CopyMethod::choose(&small(), 1, true, None), Ok(CopyMethod::Parts(_))));
    assert!(matches!(CopyMethod::choose(&small(), 1, true, Some(1)), Err(NoCopyMethod::Schedule(_))));
}

#[tokio::test]
async fn a_copy_is_the_same_whichever_way_it_is_made() -> Result<()> {
    let tide = engine();
    for create_only_copy in [true, false] {
        let memory = Memory::new("m").with_capabilities(Capabilities { create_only_copy, ..small() });
        let store = tide.store(Arc::new(memory));
        for size in [0, 1, 4 * KIB, 4 * KIB + 1, 200 * KIB] {
            for create_only in [false, true] {
                let (bytes, key) = (data(size), format!("to-{size}-{create_only}"));
                write(&store, "a/from", &bytes).await;
                let copy = store.within("a").copy("from", &store, &key).part_size(4 * KIB);
                let copy = if create_only { copy.create_only() } else { copy };
                let progress = copy.progress();
                let object = copy.run().await?;
                let told = store.head(&key).await?;
                let from = store.head("a/from").await?;
                assert_eq!((object.size, &object.key), (size, &key));
                assert_eq!(told.attributes, from.attributes);
                assert_eq!(told.crc64nvme, from.crc64nvme);
                assert!(told.token.is_some() && told.token != from.token);
                assert_eq!(stored(&store, &key).await, bytes);
                let figures = progress.snapshot();
                assert_eq!((figures.acknowledged, figures.accepted), (size, 0));
                let is_whole = size <= 4 * KIB && (!create_only || create_only_copy);
                // HEAD returns the tags as well here, so they cost no extra request.
                let whole = is_whole || size == 0;
                let requests = if whole { 2 } else { size.div_ceil(4 * KIB) + 3 };
                assert_eq!(figures.requests, requests, "{size} {create_only} {create_only_copy}");
                if create_only {
                    let again =
                        store.copy("a/from", &store, &key).part_size(4 * KIB).create_only().run().await;
                    assert_eq!(again.unwrap_err().kind(), ErrorKind::AlreadyExists);
                }
                assert_no_session(&tide, &store).await;
            }
        }
    }
    Ok(())
}

#[tokio::test]
async fn what_is_given_replaces_what_is_kept() -> Result<()> {
    let tide = engine();
    let store = tide.open("memory://given").await?;
    write(&store, "from", &data(10)).await;
    let given = crate::Attributes {
        cache_control: Some("no-store".into()),
        tags: [("other".to_owned(), "tag".to_owned())].into(),
        ..crate::Attributes::default()
    };
    store.copy("from", &store, "to").attributes(given).run().await?;
    let told = store.head("to").await?.attributes;
    assert_eq!(told.content_type.as_deref(), Some("text/x"));
    assert_eq!(told.cache_control.as_deref(), Some("no-store"));
    assert_eq!(told.metadata, [("owner".to_owned(), "me".to_owned())].into());
    assert_eq!(told.tags, [("other".to_owned(), "tag".to_owned())].into());
    Ok(())
}

#[tokio::test]
async fn only_one_store_copies() -> Result<()> {
    let tide = engine();
    let (one, other) = (tide.open("memory://one").await?, tide.open("memory://other").await?);
    write(&one, "from", &data(10)).await;
    assert!(!one.is_one_with(&other) && one.is_one_with(&one.within("a")));
    let refused = one.copy("from", &other, "to").run().await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Unsupported);
    let none = one.copy("nothing", &one, "to").run().await.unwrap_err();
    assert_eq!(none.kind(), ErrorKind::NotFound);
    Ok(())
}

/// A store with one kind of trouble for copies.
#[derive(Debug)]
struct Troubled {
    trouble: Trouble,
    met: AtomicU32,
}

#[derive(Debug, PartialEq)]
enum Trouble {
    /// The first response to each kind of request is lost.
    LosesAnswers,
    /// After the first part, the source is replaced by another object.
    Replaces,
    /// The store reports so many times that the copy is not complete yet, each time one byte further.
    Goes(u32),
    /// The store always reports that the copy is not complete yet, and makes no progress.
    Stands,
    /// A request to copy the whole object panics.
    Panics,
    /// A request to copy a part never gets a response.
    Hangs,
    /// The response to each part has a tag that differs from the stored one, as if the part were stored twice.
    Retags,
    /// The response to part 2 reports one byte less than the part should have.
    Resizes,
}

impl Troubled {
    fn store(tide: &Tidegate, trouble: Trouble) -> Store {
        let memory = Memory::new("m").with_capabilities(Capabilities { create_only_copy: true, ..small() });
        tide.store(Scripted::new(memory, Self { trouble, met: AtomicU32::new(0) }))
    }

    fn lost<T>(&self, answer: Result<T, Fault>, bit: u32) -> Result<T, Fault> {
        if self.trouble == Trouble::LosesAnswers && self.met.fetch_or(bit, Ordering::Relaxed) & bit == 0 {
            return Err(Fault::new(FaultKind::Transient, "the connection broke"));
        }
        answer
    }
}

#[async_trait]
impl Script for Troubled {
    async fn answer(&self, call: Call<'_>, below: Below<'_>) -> Result<Answer, Fault> {
        match call {
            Call::Copy { from, key, cursor, options } => match self.trouble {
                Trouble::Panics => panic!("the backend panics"),
                Trouble::Stands => Ok(Answer::Copied(Copied::Going { cursor: "here".into(), bytes: 0 })),
                Trouble::Goes(times) => {
                    let met = self.met.fetch_add(1, Ordering::Relaxed);
                    assert_eq!(cursor.map(str::to_owned), (met > 0).then(|| met.to_string()));
                    if met < times {
                        let (cursor, bytes) = ((met + 1).to_string(), u64::from(met) + 1);
                        return Ok(Answer::Copied(Copied::Going { cursor, bytes }));
                    }
                    below.send(Call::Copy { from, key, cursor: None, options }).await
                }
                _ => self.lost(below.send(call).await, 1),
            },
            Call::Part { number, source: PartSource::CopyOf(from, _), .. } => {
                match self.trouble {
                    Trouble::Hangs => std::future::pending().await,
                    Trouble::Replaces if number > 1 => {
                        let payload = Payload::from_memory(Vec::new(), Algorithm::default().empty());
                        let options = &WriteOptions::default();
                        below.send(Call::Put { key: &from.key, payload, options }).await?;
                    }
                    _ => {}
                }
                match (below.send(call).await, &self.trouble) {
                    (Ok(Answer::Receipt(part)), Trouble::Retags) => {
                        Ok(Answer::Receipt(Receipt { etag: format!("other-{}", part.etag), ..part }))
                    }
                    (Ok(Answer::Receipt(part)), Trouble::Resizes) if number == 2 => {
                        Ok(Answer::Receipt(Receipt { size: part.size - 1, ..part }))
                    }
                    (copied, _) => self.lost(copied, 2),
                }
            }
            Call::Complete { parts, .. } if parts.iter().any(|part| part.checksum.is_none()) => {
                self.lost(below.send(call).await, 4)
            }
            call => below.send(call).await,
        }
    }
}

#[tokio::test(start_paused = true)]
async fn lost_answers_are_settled() -> Result<()> {
    for (size, create_only) in [(10, false), (10, true), (100 * KIB, false), (100 * KIB, true)] {
        let tide = engine();
        let store = Troubled::store(&tide, Trouble::LosesAnswers);
        let bytes = data(size);
        write(&store, "from", &bytes).await;
        let copy = store.copy("from", &store, "to").part_size(8 * KIB);
        let object = if create_only { copy.create_only() } else { copy }.run().await?;
        assert_eq!(object.size, size);
        assert_eq!(stored(&store, "to").await, bytes);
        assert_no_session(&tide, &store).await;
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_copy_is_of_one_object() {
    let tide = engine();
    let store = Troubled::store(&tide, Trouble::Replaces);
    write(&store, "from", &data(100 * KIB)).await;
    let copied = store.copy("from", &store, "to").part_size(8 * KIB).run().await;
    assert_eq!(copied.unwrap_err().kind(), ErrorKind::Replaced);
    assert_eq!(store.head("to").await.unwrap_err().kind(), ErrorKind::NotFound);
    assert_no_session(&tide, &store).await;
}

#[tokio::test(start_paused = true)]
async fn a_store_is_asked_again_from_where_it_stands() -> Result<()> {
    let tide = engine();
    let store = Troubled::store(&tide, Trouble::Goes(20));
    write(&store, "from", &data(100)).await;
    let copy = store.copy("from", &store, "to");
    let progress = copy.progress();
    copy.run().await?;
    assert_eq!((progress.snapshot().acknowledged, progress.snapshot().requests), (100, 22));

    let store = Troubled::store(&tide, Trouble::Stands);
    write(&store, "from", &data(100)).await;
    let stands = store.copy("from", &store, "to").run().await.unwrap_err();
    assert_eq!(stands.kind(), ErrorKind::Unavailable, "{stands}");
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_copy_that_is_dropped_leaves_nothing() {
    let tide = engine();
    let store = Troubled::store(&tide, Trouble::Hangs);
    write(&store, "from", &data(100 * KIB)).await;
    let copy = store.copy("from", &store, "to").part_size(8 * KIB).run();
    assert!(tokio::time::timeout(Duration::from_secs(1), copy).await.is_err());
    assert_no_session(&tide, &store).await;
    assert_eq!(store.head("to").await.unwrap_err().kind(), ErrorKind::NotFound);
}

#[tokio::test(start_paused = true)]
async fn a_part_that_is_not_what_was_asked_for_ends_the_copy() {
    let tide = engine();
    let store = Troubled::store(&tide, Trouble::Resizes);
    write(&store, "from", &data(100 * KIB)).await;
    let error = store.copy("from", &store, "to").part_size(8 * KIB).run().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Integrity, "{error}");
    assert!(error.to_string().contains("part 2"), "{error}");
    assert_eq!(store.head("to").await.unwrap_err().kind(), ErrorKind::NotFound);
    assert_no_session(&tide, &store).await;
}

#[tokio::test(start_paused = true)]
async fn it_completes_with_the_copies_that_the_store_has() -> Result<()> {
    let tide = engine();
    let store = Troubled::store(&tide, Trouble::Retags);
    let bytes = data(100 * KIB);
    write(&store, "from", &bytes).await;
    store.copy("from", &store, "to").part_size(8 * KIB).run().await?;
    assert_eq!(stored(&store, "to").await, bytes);
    assert_no_session(&tide, &store).await;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_copy_whose_task_ends_early_is_called_a_copy() {
    let tide = engine();
    let store = Troubled::store(&tide, Trouble::Panics);
    write(&store, "from", &data(10)).await;
    let error = store.copy("from", &store, "to").run().await.unwrap_err();
    assert_eq!((error.kind(), error.operation()), (ErrorKind::Uncertain, crate::Operation::Copy), "{error}");
}
