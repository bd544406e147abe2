//! One engine on several runtimes, one of which ends or stalls.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Mutex, mpsc};

use async_trait::async_trait;
use tokio::runtime::{Builder, Runtime};
use tokio::time::timeout;

use super::*;
use crate::backend::Fault;
use crate::memory::spool::sick::{Sick, Write};
use crate::testkit::scripted::{Answer, Below, Call, Script, Scripted};

const MEMORY: u64 = 128 * KIB;
const LONG: Duration = Duration::from_secs(5);

fn tide() -> Tidegate {
    let wait = Duration::from_millis(200);
    Tidegate::builder().memory(MEMORY).slab(4096).part_size(PART).memory_wait(wait).seed(1).build().unwrap()
}

fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

/// A writer whose part may take all of the memory, and another writer.
async fn two(store: &Store) -> (crate::Writer, crate::Writer) {
    let mut first = store.writer("first").part_size(MEMORY).start().await.unwrap();
    first.write_bytes(data(1)).await.unwrap();
    (first, store.writer("second").start().await.unwrap())
}

async fn starves(mut writer: crate::Writer) {
    let wrote = timeout(LONG, writer.write_bytes(data(PART))).await.expect("it waits for ever");
    assert_eq!(wrote.unwrap_err().kind(), ErrorKind::Starved);
}

#[test]
fn a_wait_becomes_an_error_where_another_runtime_has_ended() {
    let (tide, here, there) = (tide(), runtime(), runtime());
    let store = store(&tide);
    let (_first, second) = here.block_on(two(&store));
    drop(there.block_on(store.writer("third").start()).unwrap());
    drop(there);
    here.block_on(starves(second));
}

#[test]
fn a_wait_becomes_an_error_where_another_runtime_stands_still() {
    let (tide, here, there) = (tide(), runtime(), runtime());
    let store = store(&tide);
    let (_first, second) = here.block_on(two(&store));
    drop(there.block_on(store.writer("third").start()).unwrap());
    here.block_on(starves(second));
    drop(there);
}

#[test]
fn a_wait_becomes_an_error_where_another_runtime_ends_meanwhile() {
    let (tide, here) = (tide(), runtime());
    let there = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let store = store(&tide);
    let (_first, second) = here.block_on(two(&store));
    drop(there.block_on(store.writer("third").start()).unwrap());
    here.block_on(async {
        let waiting = tokio::spawn(starves(second));
        tokio::time::sleep(Duration::from_millis(50)).await;
        there.shutdown_background();
        waiting.await.unwrap();
    });
}

#[test]
fn a_spill_goes_on_where_the_runtime_that_began_it_stands_still() {
    let disk = Sick::new(Write::Hangs);
    let builder = Tidegate::builder().memory(MEMORY).slab(4096).part_size(PART).seed(1);
    let tide = builder.spool_disk(disk.clone()).memory_wait(Duration::from_millis(200)).build().unwrap();
    let (here, there) = (runtime(), runtime());
    let store = store(&tide);
    let mut first = here.block_on(store.writer("first").part_size(MEMORY).start()).unwrap();
    here.block_on(first.write_bytes(data(MEMORY - 24 * KIB))).unwrap();
    let mut second = there.block_on(store.writer("second").start()).unwrap();
    there.block_on(async {
        let write = second.write_bytes(data(PART));
        tokio::pin!(write);
        while disk.writes() == 0 {
            assert!(timeout(Duration::from_millis(10), &mut write).await.is_err(), "there was memory");
        }
    });
    disk.becomes(Write::Forgets);
    here.block_on(async {
        let mut third = store.writer("third").start().await.unwrap();
        timeout(LONG, third.write_bytes(data(PART))).await.expect("it waits for ever").unwrap();
    });
    drop(there);
}

#[test]
fn a_session_whose_abort_no_runtime_carries_out_is_told_of() {
    let (tide, here, there) = (tide(), runtime(), runtime());
    let store = store(&tide);
    let writer = there.block_on(async {
        let mut writer = store.writer("k").start().await.unwrap();
        writer.write_bytes(data(3 * PART)).await.unwrap();
        while store.sessions("").count().await == 0 {
            tokio::task::yield_now().await;
        }
        writer
    });
    drop(there);
    drop(writer);
    let failed = here.block_on(tide.settled());
    assert_eq!(here.block_on(store.sessions("").count()), 1);
    assert_eq!(failed.iter().map(crate::Error::kind).collect::<Vec<_>>(), [ErrorKind::Closed]);
}

/// A store whose answer to the opening of a session occupies the runtime's thread for disks.
#[derive(Debug)]
struct OccupiesTheDiskThread {
    is_opened: AtomicBool,
    until: Mutex<Option<mpsc::Receiver<()>>>,
}

#[async_trait]
impl Script for OccupiesTheDiskThread {
    async fn answer(&self, call: Call<'_>, below: Below<'_>) -> Result<Answer, Fault> {
        let opens = matches!(call, Call::Open { .. });
        let answer = below.send(call).await;
        if opens {
            let until = self.until.lock().unwrap().take();
            tokio::task::spawn_blocking(move || until.map(|until| until.recv()));
            self.is_opened.store(true, Relaxed);
        }
        answer
    }
}

/// The runtime ends between the answer and the record of the session: nobody else knows the session's id.
#[test]
fn a_session_is_aborted_whose_runtime_ended_before_it_was_recorded() {
    let records = tempfile::tempdir().unwrap();
    let builder = Tidegate::builder().memory(MEMORY).slab(4096).part_size(PART).seed(1);
    let tide = builder.records(records.path()).aborts_on_own_thread().build().unwrap();
    let capabilities = Capabilities { min_part: 4 * KIB, ..Capabilities::default() };
    let memory = Memory::new("test").with_capabilities(capabilities);
    let (free, until) = mpsc::channel();
    let script = OccupiesTheDiskThread { is_opened: AtomicBool::new(false), until: Mutex::new(Some(until)) };
    let backend = Scripted::new(memory, script);
    let store = tide.store(backend.clone());
    let there =
        Builder::new_multi_thread().worker_threads(2).max_blocking_threads(1).enable_all().build().unwrap();
    let writer = there.block_on(async {
        let mut writer = store.writer("k").start().await.unwrap();
        writer.write_bytes(data(2 * PART + 1)).await.unwrap();
        while !backend.is_opened.load(Relaxed) {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        writer
    });
    there.shutdown_background();
    drop(writer);
    let here = runtime();
    let failed = here.block_on(tide.settled());
    assert!(failed.is_empty(), "{failed:?}");
    assert_eq!(here.block_on(store.sessions("").count()), 0);
    drop(free);
}

/// A store that opens a session and never answers.
#[derive(Debug, Default)]
struct OpensSilently {
    opened: AtomicBool,
}

#[async_trait]
impl Script for OpensSilently {
    async fn answer(&self, call: Call<'_>, below: Below<'_>) -> Result<Answer, Fault> {
        let opens = matches!(call, Call::Open { .. });
        let answer = below.send(call).await;
        if opens {
            self.opened.store(true, Relaxed);
            std::future::pending::<()>().await;
        }
        answer
    }
}

#[test]
fn a_session_whose_opening_ended_with_its_runtime_is_told_of() {
    let builder = Tidegate::builder().memory(MEMORY).slab(4096).part_size(PART).seed(1);
    let tide = builder.aborts_on_own_thread().build().unwrap();
    let capabilities = Capabilities { min_part: 4 * KIB, ..Capabilities::default() };
    let memory = Memory::new("test").with_capabilities(capabilities);
    let backend = Scripted::new(memory, OpensSilently::default());
    let store = tide.store(backend.clone());
    let there = Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let writer = there.block_on(async {
        let mut writer = store.writer("k").start().await.unwrap();
        writer.write_bytes(data(2 * PART + 1)).await.unwrap();
        while !backend.opened.load(Relaxed) {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        writer
    });
    drop(there);
    drop(writer);
    let failed = runtime().block_on(tide.settled());
    assert_eq!(failed.iter().map(crate::Error::kind).collect::<Vec<_>>(), [ErrorKind::Closed]);
    assert_eq!(tide.unsettled().len(), 1);
}
