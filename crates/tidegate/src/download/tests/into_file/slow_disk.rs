//! A disk that is slow delays a download; only one that is stuck ends it.

use super::*;
use crate::testkit::small_disk::SmallDisk;

const SIZE: u64 = 64 * MIB;

/// A download of eight chunks at once, whose bytes come over two seconds, onto this disk.
async fn place(disk: &SmallDisk, data: &[u8]) -> Place {
    let trickling = vec![Fate::Trickles(64 << 10, Duration::from_millis(15)); 1000];
    // Hedges are on, and a request that moves no byte for a second is repeated: neither may happen.
    let patience = Duration::from_secs(1);
    let retry =
        RetryPolicy { patience, least_patience: patience, slowest: u64::MAX, ..RetryPolicy::default() };
    let with = |tide: crate::TidegateBuilder| tide.concurrency(Concurrency::Fixed(8)).retry(retry);
    let mut place = Place::with(data, trickling.into_iter(), with).await;
    place.directory = tempfile::tempdir_in(disk.path()).unwrap();
    place
}

impl Place {
    /// Waits until the note shows that some bytes are in the file.
    async fn some_bytes_are_noted(&self) {
        while self.entries().iter().sum::<u64>() == 0 {
            sleep(Duration::from_millis(1)).await;
        }
    }
}

/// The pause is longer than the time in which a download that is cut off writes its bytes, and every request has a
/// write that waits.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_disk_that_pauses_delays_a_download_and_fails_nothing() {
    let Some(disk) = SmallDisk::new("ext4", 160) else { return };
    let data = bytes_of(SIZE, 3);
    let place = place(&disk, &data).await;
    let pause = async {
        place.some_bytes_are_noted().await;
        let frozen = disk.freeze();
        sleep(Duration::from_secs(3)).await;
        drop(frozen);
    };
    let (downloaded, ()) =
        timeout(Duration::from_secs(60), futures::future::join(place.run(), pause)).await.unwrap();
    downloaded.unwrap();
    place.is_whole(&data);
    assert_eq!(place.odd.requests() as u64, SIZE / (8 * MIB), "no request is repeated");
}

#[tokio::test]
async fn a_stuck_disk_ends_a_download_which_can_be_resumed() {
    let Some(disk) = SmallDisk::new("ext4", 160) else { return };
    let data = bytes_of(SIZE, 3);
    let place = place(&disk, &data).await;
    let mut run = Box::pin(place.run());
    tokio::select! {
        done = &mut run => panic!("it was not cut: {done:?}"),
        () = place.some_bytes_are_noted() => {}
    }
    let frozen = disk.freeze();
    // Until a write waits for the disk.
    assert!(timeout(Duration::from_millis(500), &mut run).await.is_err());
    tokio::time::pause();
    // The paused clock stands still while a thread waits for the disk, so the test moves it.
    let mut error = None;
    for seconds in 0..200 {
        error = (&mut run).now_or_never();
        if error.is_some() {
            assert!(seconds > 120, "it is only slow after {seconds} s");
            break;
        }
        tokio::time::advance(Duration::from_secs(1)).await;
    }
    let error = error.expect("it waits for ever").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Source);
    assert!(error.to_string().contains("has not completed a write in 120 s: it is stuck"), "{error}");

    drop(frozen);
    tokio::time::resume();
    place.is_let_go().await;
    let noted: u64 = place.entries().iter().sum();
    place.odd.asked.lock().unwrap().clear();
    place.run().await.unwrap();
    place.is_whole(&data);
    assert!(noted > 0 && place.asked() == SIZE - noted, "{} were asked for", place.asked());
}
