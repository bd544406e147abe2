//! A disk that is slow delays a download; only one that is stuck ends it.

use super::*;
use crate::testkit::small_disk::SmallDisk;

const SIZE: u64 = 64 * MIB;

/// A download of eight chunks at once, whose bytes come over two seconds, onto this disk.
async fn place(disk: &SmallDisk, data: &[u8]) -> Place {
    let trickling = vec![Fate::Trickles(64 << 10, Duration::from_millis(15)); 1000];
    let with = |tide: crate::TidegateBuilder| tide.concurrency(Concurrency::Fixed(8)).hedge(false);
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
    tokio::time::advance(Duration::from_secs(119)).await;
    assert!((&mut run).now_or_never().is_none(), "it is only slow");
    tokio::time::advance(Duration::from_secs(2)).await;
    let began = std::time::Instant::now();
    let error = timeout(Duration::from_secs(600), run).await.expect("it waits for ever").unwrap_err();
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    assert_eq!(error.kind(), ErrorKind::Source);
    assert!(error.to_string().contains("has not ended a write for 120 s: it is stuck"), "{error}");
    drop(frozen);
    tokio::time::resume();
    place.is_let_go().await;
    place.run().await.unwrap();
    place.is_whole(&data);
    assert!(place.odd.sent.load(Relaxed) < 2 * SIZE, "the bytes that were noted are kept");
}
