//! The disk that an upload writes a file to: a slow one delays the upload, and only one that is stuck ends it.

use std::future::IntoFuture;

use futures::FutureExt;
use tokio::time::timeout;

use super::*;
use crate::backend::local::Local;
use crate::engine::retry::RetryPolicy;
use crate::testkit::small_disk::SmallDisk;

const MIB: u64 = 1 << 20;
const SIZES: [u64; 2] = [KIB, 24 * MIB];

/// An engine that gives up a request to a store that is silent for a quarter of a second, and repeats none.
fn impatient() -> Tidegate {
    let patience = Duration::from_millis(250);
    let retry = RetryPolicy {
        attempts: 1,
        patience,
        least_patience: patience,
        slowest: u64::MAX,
        ..RetryPolicy::default()
    };
    Tidegate::builder().part_size(8 * MIB).retry(retry).build().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_disk_that_pauses_delays_an_upload_and_fails_nothing() {
    let Some(disk) = SmallDisk::new("ext4", 96) else { return };
    let store = impatient().store(Arc::new(Local::new(disk.path())));
    for size in SIZES {
        let frozen = disk.freeze();
        let (written, ()) = futures::future::join(store.put("k", data(size)).into_future(), async {
            tokio::time::sleep(Duration::from_secs(2)).await;
            drop(frozen);
        })
        .await;
        assert_eq!(written.unwrap().size, size);
        assert!(std::fs::read(disk.path().join("k")).unwrap() == data(size), "{size}");
    }
}

/// The disk may give the file its name when it goes on.
#[tokio::test]
async fn a_stuck_disk_ends_a_request_with_an_error_that_says_so() {
    a_stuck_disk_ends_an_upload(KIB, 600, ErrorKind::Uncertain).await;
}

#[tokio::test]
async fn a_stuck_disk_ends_a_part_with_an_error_that_says_so() {
    a_stuck_disk_ends_an_upload(24 * MIB, 120, ErrorKind::Source).await;
}

async fn a_stuck_disk_ends_an_upload(size: u64, limit: u64, kind: ErrorKind) {
    let Some(disk) = SmallDisk::new("ext4", 96) else { return };
    let store = impatient().store(Arc::new(Local::new(disk.path())));
    let _frozen = disk.freeze();
    let mut put = std::pin::pin!(store.put("k", data(size)).into_future());
    // Until a thread waits for the disk.
    assert!(timeout(Duration::from_millis(500), &mut put).await.is_err());
    tokio::time::pause();
    // The paused clock stands still while a thread waits for the disk, so the test moves it.
    for seconds in (0..limit).step_by(5) {
        assert!((&mut put).now_or_never().is_none(), "it is only slow after {seconds} s");
        tokio::time::advance(Duration::from_secs(5)).await;
    }
    // The looks are a quarter of the limit apart, and the first one sees bytes that moved.
    let mut ended = None;
    for _ in (0..limit / 2).step_by(5) {
        ended = ended.or_else(|| (&mut put).now_or_never());
        tokio::time::advance(Duration::from_secs(5)).await;
    }
    tokio::time::resume();
    // The disk can still be read, so the store is asked for the object.
    let ended = match ended {
        Some(ended) => ended,
        None => timeout(Duration::from_secs(20), put).await.expect("it waits for ever"),
    };
    let error = ended.unwrap_err();
    assert_eq!(error.kind(), kind, "{error}");
    let said = format!("the disk has not answered in {limit} s: it is stuck");
    assert!(error.to_string().contains(&said), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_drop_of_an_upload_to_a_stuck_disk_does_not_wait_for_it() {
    let Some(disk) = SmallDisk::new("ext4", 96) else { return };
    let tide = impatient();
    let store = tide.store(Arc::new(Local::new(disk.path())));
    let frozen = disk.freeze();
    let mut put = Box::pin(store.put("k", data(KIB)).into_future());
    assert!(timeout(Duration::from_millis(500), &mut put).await.is_err());
    let began = std::time::Instant::now();
    // On a thread of its own: it might wait for ever.
    let dropped = tokio::task::spawn_blocking(move || drop(put));
    let ended = timeout(Duration::from_secs(20), dropped).await;
    let waited = began.elapsed();
    drop(frozen);
    ended.expect("the drop waits for the disk").unwrap();
    assert!(waited < Duration::from_secs(10), "{waited:?}");
    // When the disk is well again, nothing is left on it.
    let names = || std::fs::read_dir(disk.path()).unwrap().map(|entry| entry.unwrap().file_name());
    while names().any(|name| name != "lost+found") {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}
