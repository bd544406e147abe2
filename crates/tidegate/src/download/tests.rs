//! Reads from test stores with faults that a real store can't be made to show.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use futures::stream::{self, BoxStream};
use futures::{StreamExt, TryStreamExt};
use tokio::io::AsyncReadExt;
use tokio::time::{sleep, timeout};

use super::*;
use crate::Store;
use crate::Tidegate;
use crate::backend::memory::Memory;
use crate::backend::{Attempt, Backend, Body, Capabilities, Fault, FaultKind, WriteOptions};
use crate::memory::payload::Payload;
use crate::settings::{Concurrency, RetryPolicy};
pub(super) use crate::testkit::bytes::bytes_of;
use crate::testkit::scripted::{Answer, Below, Call, Script, Scripted};
use crate::types::checksum::{Algorithm, Checksum};

mod any;
mod blocks;
mod figures;
mod into_file;
mod memory;
mod retries;
mod seeks;

const MIB: u64 = 1 << 20;

/// The fate of one response.
#[derive(Clone, Debug, Default)]
pub(super) enum Fate {
    #[default]
    Well,
    /// The body breaks after so many bytes.
    Breaks(u64),
    /// The body ends after so many bytes as if it were complete.
    EndsEarly(u64),
    /// The body stalls after so many bytes, for so long.
    Stalls(u64, Duration),
    /// The body arrives in pieces of so many bytes, each after so long.
    Trickles(usize, Duration),
    /// The store throttles the request.
    Refused,
    /// The store finds that the range lies past the object's end, before it looks whether the object is still the same.
    PastTheEnd,
    /// One byte of the body is wrong.
    Corrupt(u64),
    /// The range of the response is off by so many bytes, and the response says so.
    Shifted(u64),
}

/// A store with one object, `k`, whose responses may be faulty.
#[derive(Debug)]
pub(super) struct Odd {
    memory: Memory,
    pub(super) fates: Mutex<Box<dyn Fates>>,
    pub(super) asked: Mutex<Vec<Option<Range<u64>>>>,
    pub(super) bodies: Arc<AtomicU64>,
    pub(super) most_bodies: AtomicU64,
    /// Bytes sent in all responses.
    pub(super) sent: Arc<AtomicU64>,
}

pub(super) trait Fates: std::fmt::Debug + Send {
    fn next(&mut self, range: &Option<Range<u64>>) -> Fate;
}

/// The first requests meet these fates; later requests succeed.
impl Fates for std::vec::IntoIter<Fate> {
    fn next(&mut self, _: &Option<Range<u64>>) -> Fate {
        Iterator::next(self).unwrap_or_default()
    }
}

/// Counts a body while it exists.
struct Counted(Arc<AtomicU64>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

impl Odd {
    pub(super) async fn with(data: &[u8], fates: impl Fates + 'static) -> Arc<Scripted<Self>> {
        let memory = Memory::new("odd").with_capabilities(Capabilities::default());
        let odd = Self {
            memory: memory.clone(),
            fates: Mutex::new(Box::new(fates)),
            asked: Mutex::default(),
            bodies: Arc::default(),
            most_bodies: AtomicU64::new(0),
            sent: Arc::default(),
        };
        odd.replace(data).await;
        Scripted::new(memory, odd)
    }

    /// Replaces the object by one with these bytes.
    pub(super) async fn replace(&self, data: &[u8]) {
        let pieces = data.chunks(50_000).map(Bytes::copy_from_slice).collect();
        let payload = Payload::from_memory(pieces, Checksum::of(Algorithm::Crc64Nvme, data));
        self.memory.put("k", payload, &WriteOptions::default(), Attempt::FIRST).await.unwrap();
    }

    pub(super) fn requests(&self) -> usize {
        self.asked.lock().unwrap().len()
    }
}

impl Odd {
    async fn gives(
        &self,
        key: &str,
        range: Option<Range<u64>>,
        same: Option<&Object>,
        below: Below<'_>,
    ) -> Result<Answer, Fault> {
        self.asked.lock().unwrap().push(range.clone());
        let fate = self.fates.lock().unwrap().next(&range);
        if matches!(fate, Fate::Refused) {
            return Err(Fault::new(FaultKind::Throttled, "SlowDown").with_answered(true));
        }
        if matches!(fate, Fate::PastTheEnd) {
            return Err(Fault::new(FaultKind::Invalid, "InvalidRange").with_answered(true));
        }
        let range = match fate {
            Fate::Shifted(by) => {
                range.map(|range| range.start.saturating_sub(by)..range.end - by.min(range.start))
            }
            _ => range,
        };
        let is_part = range.is_some();
        let Answer::Body(mut body) = below.send(Call::Get { key, range, same }).await? else {
            panic!("no body")
        };
        if is_part {
            // As in real stores, the checksum of the whole object does not apply to a range.
            (body.object.crc64nvme, body.object.crc32c) = (None, None);
        }
        self.most_bodies.fetch_max(self.bodies.fetch_add(1, Relaxed) + 1, Relaxed);
        let (counted, sent) = (Counted(self.bodies.clone()), self.sent.clone());
        body.stream = meet(body.stream, fate)
            .map(move |piece| {
                let _counted = &counted;
                sent.fetch_add(piece.as_ref().map_or(0, Bytes::len) as u64, Relaxed);
                piece
            })
            .boxed();
        Ok(Answer::Body(body))
    }
}

#[async_trait::async_trait]
impl Script for Odd {
    async fn answer(&self, call: Call<'_>, below: Below<'_>) -> Result<Answer, Fault> {
        match call {
            Call::Get { key, range, same } => self.gives(key, range, same, below).await,
            call => below.send(call).await,
        }
    }
}

/// Applies `fate` to a body.
fn meet(
    body: BoxStream<'static, Result<Bytes, Fault>>,
    fate: Fate,
) -> BoxStream<'static, Result<Bytes, Fault>> {
    let first = |most: u64, body: BoxStream<'static, Result<Bytes, Fault>>| {
        body.scan(most, |left, piece| {
            let piece = piece.map(|mut piece: Bytes| {
                piece.truncate((*left).min(piece.len() as u64) as usize);
                *left -= piece.len() as u64;
                piece
            });
            futures::future::ready(
                Some(piece).filter(|piece| piece.as_ref().is_ok_and(|piece| !piece.is_empty())),
            )
        })
    };
    let reset = || Err(Fault::new(FaultKind::Transient, "connection reset"));
    match fate {
        Fate::Breaks(at) => first(at, body).chain(stream::iter([reset()])).boxed(),
        Fate::EndsEarly(at) => first(at, body).boxed(),
        Fate::Stalls(at, long) => {
            let late = stream::once(async move {
                sleep(long).await;
                Err(Fault::new(FaultKind::Transient, "connection reset"))
            });
            first(at, body).chain(late).boxed()
        }
        Fate::Corrupt(at) => body
            .scan(0, move |from, piece| {
                let piece = piece.map(|piece: Bytes| {
                    let mut bytes = Vec::from(piece);
                    let here = at.checked_sub(*from).and_then(|at| bytes.get_mut(at as usize));
                    here.into_iter().for_each(|byte| *byte ^= 1);
                    *from += bytes.len() as u64;
                    bytes.into()
                });
                futures::future::ready(Some(piece))
            })
            .boxed(),
        Fate::Trickles(bytes, pause) => body
            .flat_map(move |piece| {
                let piece = piece.unwrap();
                let pieces: Vec<_> = piece.chunks(bytes).map(|drop| piece.slice_ref(drop)).collect();
                stream::iter(pieces)
            })
            .then(move |drop| async move {
                sleep(pause).await;
                Ok(drop)
            })
            .boxed(),
        Fate::Well | Fate::Refused | Fate::PastTheEnd | Fate::Shifted(_) => body,
    }
}

pub(super) fn store(
    odd: &Arc<Scripted<Odd>>,
    with: impl FnOnce(crate::TidegateBuilder) -> crate::TidegateBuilder,
) -> Store {
    let builder = Tidegate::builder().memory(64 * MIB);
    with(builder).build().unwrap().store(odd.clone())
}

pub(super) async fn all(reader: Reader) -> Result<Vec<u8>> {
    let pieces: Vec<Bytes> = reader.try_collect().await?;
    Ok(pieces.concat())
}

fn well() -> std::vec::IntoIter<Fate> {
    Vec::new().into_iter()
}

#[tokio::test]
async fn what_is_small_is_one_request() {
    for (len, range) in [(0, None), (1, None), (8 * MIB, None), (20 * MIB, Some(5..8 * MIB))] {
        let data = bytes_of(len, 1);
        let odd = Odd::with(&data, well()).await;
        let store = store(&odd, |tide| tide);
        let reader = store.reader("k");
        let reader = match range.clone() {
            Some(range) => reader.range(range),
            None => reader,
        };
        let got = all(reader.start().await.unwrap()).await.unwrap();
        let Range { start, end } = range.clone().unwrap_or(0..len);
        assert!(got == data[start as usize..end as usize]);
        assert_eq!(*odd.asked.lock().unwrap(), [range]);
    }
}

#[tokio::test]
async fn what_is_large_is_read_ahead_in_order() {
    let data = bytes_of(100 * MIB, 3);
    let odd = Odd::with(&data, well()).await;
    let store = store(&odd, |tide| tide);
    assert!(all(store.reader("k").start().await.unwrap()).await.unwrap() == data);
    // A chunk is an eighth of half of the memory: the first request asks for the whole object, the others
    // for the chunks after the first one.
    let asked = odd.asked.lock().unwrap().clone();
    assert_eq!((asked.len(), &asked[0], &asked[1]), (25, &None, &Some(4 * MIB..8 * MIB)));
    assert_eq!(store.context().engine().budget.usage().held, 0);
}

#[tokio::test]
async fn a_range_is_read_as_if_it_were_all() {
    let data = bytes_of(60 * MIB, 3);
    let odd = Odd::with(&data, well()).await;
    let store = store(&odd, |tide| tide);
    let got = all(store.reader("k").range(7..50 * MIB + 1).start().await.unwrap()).await.unwrap();
    assert!(got == data[7..(50 * MIB + 1) as usize]);
    let error = store.reader("k").range(60 * MIB..).start().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_breaks_is_gone_on_with_from_the_exact_byte() {
    use Fate::{Breaks, EndsEarly, Refused, Shifted, Well};
    let data = bytes_of(3 * MIB, 1);
    let fates = vec![Breaks(100_000), Refused, Breaks(0), Shifted(5), EndsEarly(77), Breaks(1), Well];
    let odd = Odd::with(&data, fates.into_iter()).await;
    let store = store(&odd, |tide| tide);
    let reader = store.reader("k");
    let progress = reader.progress();
    assert!(all(reader.start().await.unwrap()).await.unwrap() == data);
    let asked = odd.asked.lock().unwrap().clone();
    let end = 3 * MIB;
    let from = |at: u64| Some(at..end);
    let (one, two, three) = (from(100_000), from(100_077), from(100_078));
    assert_eq!(asked, [None, one.clone(), one.clone(), one.clone(), one, two, three]);
    assert_eq!((progress.snapshot().requests, progress.snapshot().retries), (7, 6));
}

#[tokio::test]
async fn an_object_that_is_replaced_meanwhile_is_told() {
    let data = bytes_of(100 * MIB, 1);
    let odd = Odd::with(&data, well()).await;
    let store = store(&odd, |tide| tide);
    let mut reader = store.reader("k").start().await.unwrap();
    let first = reader.try_next().await.unwrap().unwrap();
    assert!(data.starts_with(&first));
    odd.replace(&bytes_of(100 * MIB, 2)).await;
    let mut got = first.len();
    let error = loop {
        match reader.try_next().await {
            Ok(Some(piece)) => {
                assert!(piece[..] == data[got..got + piece.len()]);
                got += piece.len();
            }
            Ok(None) => panic!("it ended well"),
            Err(error) => break error,
        }
    };
    assert_eq!(error.kind(), ErrorKind::Replaced, "{error}");
    let other = store.head("k").await.unwrap();
    assert!(store.reader("k").if_unchanged(&other).start().await.is_ok());
    odd.replace(b"a third").await;
    assert_eq!(store.reader("k").if_unchanged(&other).start().await.unwrap_err().kind(), ErrorKind::Replaced);
}

/// Of a range, which no checksum of the whole object covers.
#[tokio::test(start_paused = true)]
async fn an_object_that_is_replaced_before_its_broken_answer_is_resumed_is_told() {
    let odd = Odd::with(&bytes_of(3 * MIB, 1), vec![Fate::Breaks(100_000)].into_iter()).await;
    let store = store(&odd, |tide| tide);
    let reader = store.reader("k").range(1..2 * MIB).start().await.unwrap();
    odd.replace(&bytes_of(3 * MIB, 2)).await;
    let error = all(reader).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Replaced, "{error}");
}

#[tokio::test]
async fn bytes_that_do_not_match_the_stores_checksum_are_an_error_at_the_end() {
    /// Flips one bit.
    #[derive(Debug)]
    struct Flipped;
    #[async_trait::async_trait]
    impl Script for Flipped {
        async fn answer(&self, call: Call<'_>, below: Below<'_>) -> Result<Answer, Fault> {
            let mut answer = below.send(call).await?;
            if let Answer::Body(body) = &mut answer {
                let stream = std::mem::replace(&mut body.stream, futures::stream::empty().boxed());
                body.stream = stream.map_ok(|piece| piece.iter().map(|byte| byte ^ 1).collect()).boxed();
            }
            Ok(answer)
        }
    }
    let odd = Odd::with(&bytes_of(20 * MIB, 1), well()).await;
    let tide = Tidegate::builder().build().unwrap();
    let store = tide.store(Scripted::new(odd.memory.clone(), Flipped));
    assert_eq!(all(store.reader("k").start().await.unwrap()).await.unwrap_err().kind(), ErrorKind::Integrity);
}

#[tokio::test]
async fn a_reader_that_is_dropped_cancels_its_requests() {
    let fates = vec![Fate::Stalls(10, Duration::from_secs(1000)); 50];
    let odd = Odd::with(&bytes_of(100 * MIB, 1), fates.into_iter()).await;
    let store = store(&odd, |tide| tide);
    let mut reader = store.reader("k").start().await.unwrap();
    reader.try_next().await.unwrap();
    assert!(timeout(Duration::from_millis(200), reader.try_next()).await.is_err());
    assert!(odd.bodies.load(Relaxed) > 1, "{odd:?}");
    drop(reader);
    while odd.bodies.load(Relaxed) > 0 {
        tokio::task::yield_now().await;
    }
    assert_eq!(store.context().engine().budget.usage().held, 0);
}

#[tokio::test(start_paused = true)]
async fn a_range_that_is_far_slower_than_its_peers_is_asked_for_twice() {
    /// Only the 30th request stalls.
    #[derive(Debug)]
    struct Thirtieth(u32);
    impl Fates for Thirtieth {
        fn next(&mut self, _: &Option<Range<u64>>) -> Fate {
            self.0 += 1;
            if self.0 == 30 { Fate::Stalls(500_000, Duration::from_secs(1000)) } else { Fate::Well }
        }
    }
    let data = bytes_of(200 * MIB, 9);
    let odd = Odd::with(&data, Thirtieth(0)).await;
    let store = store(&odd, |tide| tide);
    let reader = store.reader("k");
    let progress = reader.progress();
    let began = Instant::now();
    assert!(all(reader.start().await.unwrap()).await.unwrap() == data);
    assert_eq!(progress.snapshot().hedges, 1);
    assert!(began.elapsed() < Duration::from_secs(2), "{:?}", began.elapsed());
}

#[tokio::test]
async fn an_object_has_the_key_that_its_store_has_for_it() {
    let directory = tempfile::tempdir().unwrap();
    let [source, target] = ["source", "target"].map(|name| directory.path().join(name));
    std::fs::write(&source, b"bytes").unwrap();
    let tide = Tidegate::builder().journal([directory.path()]).build().unwrap();
    let store = tide.open("memory://b").await.unwrap().within("warehouse");
    let direct = store.writer("t/k").start().await.unwrap().finish().await.unwrap();
    let journaled = store.writer("t/k").strategy(crate::Strategy::Journal).start().await.unwrap();
    let journaled = journaled.finish().await.unwrap();
    let uploaded = store.upload(&source, "t/k").await.unwrap();
    let read = store.reader("t/k").start().await.unwrap().object().clone();
    let block = store.blocks("t/k", [0..1, 1..2]).start().await.unwrap().object().unwrap().clone();
    let downloaded = store.download("t/k", &target).run().await.unwrap();
    let head = store.head("t/k").await.unwrap();
    let keys = [direct, journaled, uploaded, read, block, downloaded, head].map(|object| object.key);
    assert_eq!(keys, ["t/k"; 7]);
}
