//! What is said of a write whose answer was lost, where another writer's object is at its key: the store's clock may be
//! slow or fast, and the other object may have replaced ours.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use std::time::SystemTime;

use async_trait::async_trait;

use super::*;
use crate::Object;
use crate::backend::{Backend, Fault, FaultKind, WriteOptions};
use crate::memory::payload::Payload;
use crate::settings::RetryPolicy;
use crate::testkit::scripted::{Answer, Below, Call, Script, Scripted};
use crate::types::checksum::Checksum;

/// What becomes of the requests that publish an object and whose answers are lost.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Fate {
    /// The object is published, and another writer replaces it at once.
    Replaced,
    /// The object is published, and removed at once.
    Removed,
    /// The request is not carried out.
    Lost,
}

/// A store whose clock differs from this machine's by `ahead` seconds, and whose objects of other writers are `age`
/// seconds old.
#[derive(Debug)]
struct Elsewhere {
    fate: Fate,
    /// How many answers are lost.
    lost: AtomicU32,
    ahead: i64,
    age: i64,
    others: Mutex<Option<Object>>,
    /// Whether the store says that it refused a request, where its answer would be lost otherwise.
    refuses: AtomicBool,
    /// Whether the store confirms the abort of a session that it does not have, as MinIO does.
    confirms_aborts: AtomicBool,
}

impl Elsewhere {
    fn store(fate: Fate, ahead: i64, age: i64) -> Arc<Scripted<Self>> {
        let capabilities = Capabilities { min_part: 4 * KIB, ..Capabilities::default() };
        let memory = Memory::new("elsewhere").with_capabilities(capabilities);
        let script = Self {
            fate,
            lost: u32::MAX.into(),
            ahead,
            age,
            others: Mutex::default(),
            refuses: AtomicBool::default(),
            confirms_aborts: AtomicBool::default(),
        };
        Scripted::new(memory, script)
    }
}

async fn put_another(below: &dyn Backend) -> Object {
    put_anothers(below, "another's".into()).await
}

async fn put_anothers(below: &dyn Backend, bytes: Bytes) -> Object {
    let checksum = Checksum::of(below.capabilities().checksum, &bytes);
    let payload = Payload::from_memory(vec![bytes], checksum);
    below.put("k", payload, &WriteOptions::default(), crate::backend::Attempt::FIRST).await.unwrap()
}

fn shifted(time: SystemTime, seconds: i64) -> SystemTime {
    let by = Duration::from_secs(seconds.unsigned_abs());
    if seconds < 0 { time - by } else { time + by }
}

#[async_trait]
impl Script for Elsewhere {
    async fn answer(&self, call: Call<'_>, below: Below<'_>) -> std::result::Result<Answer, Fault> {
        let store = below.store;
        match call {
            Call::Put { .. } | Call::Complete { .. } if self.lost.load(Relaxed) > 0 => {
                self.lost.fetch_sub(1, Relaxed);
                match self.fate {
                    Fate::Lost => {}
                    Fate::Replaced => {
                        below.send(call).await?;
                        *self.others.lock().unwrap() = Some(put_another(store).await);
                    }
                    Fate::Removed => {
                        below.send(call).await?;
                        store.delete("k", None, below.attempt).await?;
                    }
                }
                let (kind, message) = match self.refuses.load(Relaxed) {
                    true => (FaultKind::Throttled, "SlowDown"),
                    false => (FaultKind::Transient, "the answer was lost"),
                };
                Err(Fault::new(kind, message).with_answered(true))
            }
            Call::Head { .. } => {
                let Answer::Object(mut object) = below.send(call).await? else {
                    panic!("a HEAD gives an object")
                };
                let written = object.modified.unwrap();
                let is_others =
                    self.others.lock().unwrap().as_ref().is_none_or(|others| others.is_same(&object));
                let age = if is_others { self.age } else { 0 };
                object.modified = Some(shifted(written, self.ahead - age));
                Ok(Answer::Object(object))
            }
            Call::Abort { .. } if self.confirms_aborts.load(Relaxed) => match below.send(call).await {
                Err(fault) if fault.kind == FaultKind::NoSession => Ok(Answer::Done),
                answer => answer,
            },
            call => below.send(call).await,
        }
    }
}

fn engine_of(attempts: u32, pause: Duration) -> Tidegate {
    let retry = RetryPolicy { attempts, first_pause: pause, longest_pause: pause, ..RetryPolicy::default() };
    Tidegate::builder().memory(256 * KIB).slab(4096).part_size(PART).retry(retry).build().unwrap()
}

/// Writes an object of so many bytes to `k`, and returns the error's kind.
async fn written(elsewhere: &Arc<Scripted<Elsewhere>>, size: u64) -> ErrorKind {
    written_by(engine_of(1, Duration::ZERO), elsewhere, size).await
}

async fn written_by(tide: Tidegate, elsewhere: &Arc<Scripted<Elsewhere>>, size: u64) -> ErrorKind {
    let error = tide.store(elsewhere.clone()).put("k", data(size)).await.unwrap_err();
    tide.settled().await;
    error.kind()
}

const MINUTE: i64 = 60;

#[tokio::test]
async fn another_writers_object_after_a_lost_answer_leaves_the_write_uncertain() {
    for ahead in [0, 14 * MINUTE, -14 * MINUTE] {
        for size in [100, 3 * PART] {
            let elsewhere = Elsewhere::store(Fate::Replaced, ahead, 0);
            let kind = written(&elsewhere, size).await;
            assert_eq!(kind, ErrorKind::Uncertain, "{size} bytes, a clock that is {ahead} s ahead");
            assert_eq!(elsewhere.below().head("k", crate::backend::Attempt::FIRST).await.unwrap().size, 9);
        }
    }
}

#[tokio::test]
async fn an_object_that_is_older_by_any_clock_was_not_replaced() {
    for ahead in [0, 14 * MINUTE, -14 * MINUTE] {
        for size in [100, 3 * PART] {
            let elsewhere = Elsewhere::store(Fate::Lost, ahead, 30 * MINUTE);
            put_another(&**elsewhere.below()).await;
            let kind = written(&elsewhere, size).await;
            assert_eq!(kind, ErrorKind::Unavailable, "{size} bytes, a clock that is {ahead} s ahead");
        }
    }
}

#[tokio::test]
async fn an_equal_object_of_another_writer_is_not_taken_for_ours() {
    for size in [100, 3 * PART] {
        let elsewhere = Elsewhere::store(Fate::Lost, 0, 30 * MINUTE);
        put_anothers(&**elsewhere.below(), data(size)).await;
        assert_eq!(written(&elsewhere, size).await, ErrorKind::Unavailable, "{size} bytes");
    }
}

/// Such a store's answer does not say that the abort came before the completion.
#[tokio::test]
async fn an_abort_that_is_always_confirmed_proves_nothing() {
    let elsewhere = Elsewhere::store(Fate::Replaced, 0, 0);
    elsewhere.confirms_aborts.store(true, Relaxed);
    assert_eq!(written(&elsewhere, 3 * PART).await, ErrorKind::Uncertain);

    // The second attempt finds no session any more, and the first has published the object.
    let tide = engine_of(2, Duration::ZERO);
    let elsewhere = Elsewhere::store(Fate::Removed, 0, 0);
    elsewhere.confirms_aborts.store(true, Relaxed);
    elsewhere.lost.store(1, Relaxed);
    let error = tide.store(elsewhere).put("k", data(3 * PART)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Uncertain, "{error}");
    tide.settled().await;
}

#[tokio::test]
async fn a_condition_that_another_writers_object_fails_is_certain_only_without_a_lost_answer() {
    let tide = engine_of(2, Duration::ZERO);
    for size in [100, 3 * PART] {
        for (lost, kind) in [(0, ErrorKind::AlreadyExists), (1, ErrorKind::Uncertain)] {
            let elsewhere = Elsewhere::store(Fate::Replaced, 0, 0);
            elsewhere.lost.store(lost, Relaxed);
            if lost == 0 {
                put_another(&**elsewhere.below()).await;
            }
            let error = tide.store(elsewhere).put("k", data(size)).create_only().await.unwrap_err();
            assert_eq!(error.kind(), kind, "{size} bytes, {lost} lost answers: {error}");
            tide.settled().await;
        }
    }
}

/// The other object is half an hour old, and the first attempt was sent an hour ago at least.
#[tokio::test(start_paused = true)]
async fn an_object_that_came_between_two_attempts_may_have_replaced_ours() {
    for size in [100, 3 * PART] {
        let elsewhere = Elsewhere::store(Fate::Replaced, 0, 30 * MINUTE);
        let tide = engine_of(2, Duration::from_secs(2 * 3600));
        assert_eq!(written_by(tide, &elsewhere, size).await, ErrorKind::Uncertain, "{size} bytes");
    }
}

/// The first attempt published the object, and the second finds no session any more.
#[tokio::test]
async fn a_session_that_an_attempt_ended_which_the_store_refused_proves_nothing() {
    let elsewhere = Elsewhere::store(Fate::Removed, 0, 0);
    elsewhere.refuses.store(true, Relaxed);
    elsewhere.lost.store(1, Relaxed);
    let kind = written_by(engine_of(2, Duration::ZERO), &elsewhere, 3 * PART).await;
    assert_eq!(kind, ErrorKind::Uncertain);
}

/// The store describes another object than the one that it was sent.
#[derive(Clone, Copy, Debug)]
enum Misdescribed {
    Size,
    Checksum,
}

#[async_trait]
impl Script for Misdescribed {
    async fn answer(&self, call: Call<'_>, below: Below<'_>) -> std::result::Result<Answer, Fault> {
        Ok(match (below.send(call).await?, self) {
            (Answer::Object(object), Self::Size) => {
                Answer::Object(Object { size: object.size + 1, crc64nvme: None, crc32c: None, ..object })
            }
            (Answer::Object(object), Self::Checksum) => {
                Answer::Object(Object { crc64nvme: Some("AAAAAAAAAAA=".into()), crc32c: None, ..object })
            }
            (answer, _) => answer,
        })
    }
}

#[tokio::test]
async fn an_object_that_is_not_what_was_sent_is_an_error_of_integrity() {
    for misdescribed in [Misdescribed::Size, Misdescribed::Checksum] {
        for size in [100, 3 * PART] {
            let capabilities = Capabilities { min_part: 4 * KIB, ..Capabilities::default() };
            let memory = Memory::new("elsewhere").with_capabilities(capabilities);
            let tide = engine_of(1, Duration::ZERO);
            let error =
                tide.store(Scripted::new(memory, misdescribed)).put("k", data(size)).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Integrity, "{misdescribed:?}, {size} bytes: {error}");
            tide.settled().await;
        }
    }
}
