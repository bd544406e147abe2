//! Small objects, whose files are created, written and named in one step.

use super::*;

const MOST: u64 = 256 << 10;

impl Place {
    async fn run_hinted(&self, size: u64) -> Result<Object> {
        self.store.download("k", self.path()).size_hint(size).run().await
    }
}

#[tokio::test]
async fn whatever_the_hint_says_the_file_is_whole() {
    for size in [0, 1, 4 << 10, MOST, MOST + 1, 20 * MIB] {
        let data = bytes_of(size, 3);
        for hint in [0, size, size + 1, u64::MAX] {
            let place = Place::new(&data, well()).await;
            for _new_or_replaced in 0..2 {
                place.odd.asked.lock().unwrap().clear();
                assert_eq!(place.run_hinted(hint).await.unwrap().size, size);
                place.is_whole(&data);
                assert_eq!(place.odd.requests() as u64, size.div_ceil(8 * MIB).max(1), "{size} as {hint}");
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn answers_that_break_are_gone_on_with() {
    let data = bytes_of(MOST, 3);
    let fates = [Fate::Refused, Fate::Breaks(100_000), Fate::EndsEarly(7), Fate::Breaks(1)];
    let place = Place::new(&data, Vec::from(fates).into_iter()).await;
    place.run_hinted(MOST).await.unwrap();
    place.is_whole(&data);
    let asked = place.odd.asked.lock().unwrap().clone();
    assert_eq!(asked[..3], [None, None, Some(100_000..MOST)], "{asked:?}");
}

#[tokio::test]
async fn what_can_not_be_leaves_nothing() {
    let data = bytes_of(10_000, 3);
    let place = Place::new(&data, Vec::from([Fate::Corrupt(9)]).into_iter()).await;
    let corrupt = place.run_hinted(10_000).await.unwrap_err();
    assert_eq!(corrupt.kind(), ErrorKind::Integrity, "{corrupt}");
    assert!(!place.directory.path().join("new").exists());

    let missing = place.store.download("missing", place.path()).size_hint(1).run().await.unwrap_err();
    assert_eq!(missing.kind(), ErrorKind::NotFound, "{missing}");
    let over_directory =
        place.store.download("k", place.directory.path()).size_hint(1).run().await.unwrap_err();
    assert_eq!(over_directory.kind(), ErrorKind::InvalidInput, "{over_directory}");
    assert!(!place.directory.path().join("new").exists());

    place.run_hinted(10_000).await.unwrap();
    place.odd.asked.lock().unwrap().clear();
    let again = place.store.download("k", place.path()).size_hint(10_000).create_only();
    let exists = again.run().await.unwrap_err();
    assert_eq!((exists.kind(), place.odd.requests()), (ErrorKind::AlreadyExists, 0), "{exists}");
    place.is_whole(&data);
}

#[tokio::test]
async fn what_was_left_of_a_larger_one_is_removed() {
    let place =
        Place::with(&bytes_of(100 * MIB, 3), well(), |tide| tide.concurrency(Concurrency::Fixed(2))).await;
    place.cut(Fate::Well).await;
    let data = bytes_of(10, 3);
    place.odd.replace(&data).await;
    place.run_hinted(10).await.unwrap();
    place.is_whole(&data);
}

#[tokio::test]
async fn a_full_disk_is_told() {
    let Some(disk) = crate::testkit::small_disk::SmallDisk::new("tmpfs", 1) else { return };
    let filler = fs::File::create(disk.path().join("filler")).unwrap();
    let _full = std::io::copy(&mut std::io::repeat(1), &mut &filler).unwrap_err();
    let place = Place::new(&bytes_of(10_000, 3), well()).await;
    let out = disk.path().join("out");
    let error = place.store.download("k", &out).size_hint(10_000).run().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NoSpace, "{error}");
    assert!(error.to_string().contains("disk"), "{error}");
    assert_eq!(fs::read_dir(disk.path()).unwrap().count(), 1, "the filler");
}

#[tokio::test]
async fn one_that_nobody_polls_any_more_holds_up_no_other() {
    let data = bytes_of(MOST, 3);
    let place = Place::with(&data, well(), |tide| tide.memory(MIB)).await;
    let mut first = Box::pin(place.run_hinted(MOST));
    assert!((&mut first).now_or_never().is_none());
    let other = place.directory.path().join("other");
    for _ in 0..3 {
        let others = (0..4)
            .map(|n| place.store.download("k", other.with_extension(n.to_string())).size_hint(MOST).run());
        timeout(Duration::from_secs(10), futures::future::try_join_all(others))
            .await
            .expect("they wait")
            .unwrap();
    }
    timeout(Duration::from_secs(10), async {
        while !place.path().exists() {
            tokio::task::yield_now().await;
        }
    })
    .await
    .expect("it needs nobody to go on");
    first.await.unwrap();
    place.is_whole(&data);
}

#[tokio::test]
async fn a_wrong_hint_does_not_keep_from_going_on() {
    let data = bytes_of(100 * MIB, 3);
    let place = Place::with(&data, well(), |tide| tide.concurrency(Concurrency::Fixed(2))).await;
    place.cut(Fate::Well).await;
    place.odd.asked.lock().unwrap().clear();
    place.run_hinted(1).await.unwrap();
    place.is_whole(&data);
    let asked =
        place.odd.asked.lock().unwrap().iter().flatten().map(|range| range.end - range.start).sum::<u64>();
    assert!(asked < 60 * MIB + 2 * 8 * MIB, "{asked} were asked for");
}

/// The drop of the download counts, not the later drop of its task.
#[tokio::test]
async fn no_file_comes_once_it_is_dropped() {
    let place = Place::new(&bytes_of(MOST, 3), well()).await;
    for polls in 0..40 {
        let path = place.directory.path().join(polls.to_string());
        let mut download = Box::pin(place.store.download("k", &path).size_hint(MOST).run());
        for _ in 0..polls {
            if (&mut download).now_or_never().is_some() {
                break;
            }
            tokio::task::yield_now().await;
        }
        drop(download);
        let was_there = path.exists();
        std::thread::sleep(Duration::from_millis(5)); // no task is dropped meanwhile
        assert_eq!(path.exists(), was_there, "after {polls} polls");
    }
}

#[tokio::test]
async fn figures_and_sync_are_as_for_others() {
    let data = bytes_of(10_000, 3);
    let place = Place::new(&data, well()).await;
    let download = place.store.download("k", place.path()).size_hint(10_000).sync(true);
    let progress = download.progress();
    download.run().await.unwrap();
    place.is_whole(&data);
    let figures = progress.snapshot();
    assert_eq!((figures.acknowledged, figures.in_flight), (10_000, 0));
}

/// A blocking thread finishes its work after the download was dropped, and leaves the whole file or nothing.
#[test]
fn one_that_is_dropped_leaves_a_whole_file_or_none() {
    let (mut whole, mut dropped) = (0, 0);
    for round in 0..=60 {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let place = runtime.block_on(Place::new(&bytes_of(MOST, 3), well()));
        let patience = if round < 60 { Duration::from_micros(200 * round) } else { Duration::from_secs(60) };
        let ended = runtime.block_on(async { timeout(patience, place.run_hinted(MOST)).await });
        dropped += u32::from(ended.is_err());
        drop(runtime); // waits for the blocking threads
        match &place.names()[..] {
            [] => assert!(!place.directory.path().join("new").exists()),
            _ => {
                place.is_whole(&bytes_of(MOST, 3));
                whole += 1;
            }
        }
    }
    assert!(dropped > 0 && whole > 0, "{dropped} were dropped, {whole} are whole");
}
