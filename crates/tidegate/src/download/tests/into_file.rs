//! Downloads into files: a file appears whole or not at all, and a cut download is resumed.

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use futures::FutureExt;

use super::*;

mod planted;
mod resume;
mod slow_disk;
mod small;

struct Place {
    odd: Arc<Scripted<Odd>>,
    store: Store,
    directory: tempfile::TempDir,
}

impl Place {
    async fn new(data: &[u8], fates: impl Fates + 'static) -> Self {
        Self::with(data, fates, |tide| tide).await
    }

    async fn with(
        data: &[u8],
        fates: impl Fates + 'static,
        with: impl FnOnce(crate::TidegateBuilder) -> crate::TidegateBuilder,
    ) -> Self {
        let odd = Odd::with(data, fates).await;
        let store = store(&odd, with);
        Self { odd, store, directory: tempfile::tempdir().unwrap() }
    }

    fn path(&self) -> PathBuf {
        self.directory.path().join("new/out")
    }

    async fn run(&self) -> Result<Object> {
        self.store.download("k", self.path()).run().await
    }

    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(self.directory.path().join("new")).into_iter().flatten();
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }

    fn is_whole(&self, data: &[u8]) {
        assert!(fs::read(self.path()).unwrap() == data);
        assert_eq!(self.names(), ["out"]);
        assert_eq!(self.store.context().engine().budget.usage().held, 0);
    }

    /// Cuts a download after six chunks, of which the first met the fate `first`; all later requests stall.
    async fn cut(&self, first: Fate) {
        let mut fates = vec![first];
        fates.extend(vec![Fate::Well; 5]);
        fates.extend(vec![Fate::Stalls(0, Duration::from_secs(1000)); 100]);
        *self.odd.fates.lock().unwrap() = Box::new(fates.into_iter());
        let there = async {
            while self.noted() < 6 {
                tokio::task::yield_now().await;
            }
        };
        tokio::select! {
            done = self.run() => panic!("it was not cut: {done:?}"),
            () = there => {}
        }
        *self.odd.fates.lock().unwrap() = Box::new(well());
        assert!(!self.path().exists());
        self.is_let_go().await;
    }

    /// Waits until the blocking threads, which may still write, have released the files.
    async fn is_let_go(&self) {
        for left in [self.part(), self.note()] {
            let left = fs::File::open(left).unwrap();
            while left.try_lock().is_err() {
                tokio::task::yield_now().await;
            }
        }
    }

    fn named(&self, is_named: impl Fn(&str) -> bool) -> PathBuf {
        let names = self.names();
        let mut names = names.iter().filter(|name| is_named(name));
        let (Some(name), None) = (names.next(), names.next()) else { panic!("{:?}", self.names()) };
        self.path().with_file_name(name)
    }

    /// The file with the bytes of a cut download.
    fn part(&self) -> PathBuf {
        self.named(|name| name.ends_with("-out.part") && !name.starts_with(".tidegate-note-"))
    }

    fn note(&self) -> PathBuf {
        self.named(|name| name.ends_with("-out.part") && name.starts_with(".tidegate-note-"))
    }

    /// How many bytes of each chunk the note records, by the format in `download/note.rs`.
    fn entries(&self) -> Vec<u64> {
        let note = self.names().into_iter().find(|name| name.starts_with(".tidegate-note-"));
        let note = note.map(|name| fs::read(self.path().with_file_name(name)).unwrap_or_default());
        let note = note.filter(|note| note.starts_with(b"TIDEGET2")).unwrap_or_default();
        if note.is_empty() {
            return Vec::new();
        }
        let entries = 36 + u32::from_le_bytes(note[24..28].try_into().unwrap()) as usize;
        let covers = |entry: &[u8]| u64::from_le_bytes(entry[..8].try_into().unwrap());
        note.get(entries..).unwrap_or_default().chunks_exact(24).map(covers).collect()
    }

    /// How many chunks the note records as whole.
    fn noted(&self) -> usize {
        self.entries().iter().filter(|covers| **covers == 8 * MIB).count()
    }

    /// Bytes that were requested since the list of requests was cleared.
    fn asked(&self) -> u64 {
        let asked = self.odd.asked.lock().unwrap();
        asked.iter().map(|range| range.as_ref().map_or(u64::MAX, |range| range.end - range.start)).sum()
    }
}

#[tokio::test]
async fn every_byte_is_in_its_place() {
    for size in [0, 1, 8 * MIB, 8 * MIB + 1, 50 * MIB + 7] {
        let data = bytes_of(size, 3);
        let place = Place::new(&data, well()).await;
        assert_eq!(place.run().await.unwrap().size, size);
        place.is_whole(&data);
        assert_eq!(place.odd.requests() as u64, size.div_ceil(8 * MIB).max(1), "the fewest");
        // Once more, over the existing file.
        place.run().await.unwrap();
        place.is_whole(&data);
    }
}

#[tokio::test]
async fn it_goes_on_where_it_was_cut() {
    let size = 100 * MIB + 5;
    let data = bytes_of(size, 3);
    for concurrency in [Concurrency::Fixed(1), Concurrency::Fixed(4)] {
        let place = Place::with(&data, well(), |tide| tide.concurrency(concurrency)).await;
        place.cut(Fate::Well).await;
        place.odd.asked.lock().unwrap().clear();
        timeout(Duration::from_secs(60), place.run()).await.expect("it waits for ever").unwrap();
        place.is_whole(&data);
        assert!(place.asked() < 60 * MIB + 4 * 8 * MIB, "{} were asked for", place.asked());
    }
}

#[tokio::test]
async fn what_is_not_as_it_was_is_asked_for_again() {
    let data = bytes_of(100 * MIB, 3);
    let place = Place::with(&data, well(), |tide| tide.concurrency(Concurrency::Fixed(2))).await;
    place.cut(Fate::Well).await;
    let file = fs::OpenOptions::new().read(true).write(true).open(place.part()).unwrap();
    file.write_all_at(&[!data[9]], 9).unwrap();
    drop(file);
    place.odd.asked.lock().unwrap().clear();
    place.run().await.unwrap();
    place.is_whole(&data);
    assert!(place.odd.asked.lock().unwrap().contains(&Some(0..8 * MIB)), "{:?}", place.odd.asked);
}

#[tokio::test]
async fn corrupt_bytes_are_found_out_after_a_cut_as_well() {
    let data = bytes_of(100 * MIB, 3);
    let place = Place::with(&data, well(), |tide| tide.concurrency(Concurrency::Fixed(2))).await;
    place.cut(Fate::Corrupt(9)).await;
    let error = place.run().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Integrity, "{error}");
    assert!(!place.path().exists() && place.names().is_empty(), "{:?}", place.names());
    place.run().await.unwrap();
    place.is_whole(&data);
}

#[tokio::test]
async fn what_is_left_of_another_object_is_not_used() {
    let place =
        Place::with(&bytes_of(100 * MIB, 3), well(), |tide| tide.concurrency(Concurrency::Fixed(2))).await;
    for size in [100 * MIB, 10, 90 * MIB] {
        let data = bytes_of(size, size);
        place.cut(Fate::Well).await;
        place.odd.replace(&data).await;
        place.run().await.unwrap();
        place.is_whole(&data);
        fs::remove_file(place.path()).unwrap();
        place.odd.replace(&bytes_of(100 * MIB, 3)).await;
    }
}

#[tokio::test]
async fn what_can_not_be_is_refused_and_leaves_nothing() {
    let data = bytes_of(20 * MIB, 3);
    let place = Place::new(&data, well()).await;
    let missing = place.store.download("missing", place.path()).run().await.unwrap_err();
    assert_eq!(missing.kind(), ErrorKind::NotFound, "{missing}");
    assert!(!place.directory.path().join("new").exists(), "nor the directory that was made for it");

    place.run().await.unwrap();
    let exists = place.store.download("k", place.path()).create_only().run().await.unwrap_err();
    assert_eq!(exists.kind(), ErrorKind::AlreadyExists, "{exists}");
    assert!(exists.to_string().contains("new/out"), "{exists}");
    let over_directory = place.store.download("k", place.directory.path()).run().await.unwrap_err();
    assert_eq!(over_directory.kind(), ErrorKind::InvalidInput, "{over_directory}");
    place.is_whole(&data);
    let synced = place.store.download("k", place.path()).sync(true).run().await.unwrap();
    assert_eq!(synced.size, 20 * MIB);
}

#[tokio::test]
async fn an_object_that_is_replaced_meanwhile_is_told_and_downloaded_anew_the_next_time() {
    /// Replaces the object when the fifth request arrives.
    #[derive(Debug)]
    struct Replacing(Memory, u32);
    impl Fates for Replacing {
        fn next(&mut self, _: &Option<Range<u64>>) -> Fate {
            self.1 += 1;
            if self.1 == 5 {
                let data = bytes_of(60 * MIB, 8);
                let payload = Payload::from_memory(
                    vec![data.clone().into()],
                    Checksum::of(Algorithm::Crc64Nvme, &data),
                );
                let put = async { self.0.put("k", payload, &WriteOptions::default(), Attempt::FIRST).await };
                put.now_or_never().unwrap().unwrap();
            }
            Fate::Well
        }
    }
    let place =
        Place::with(&bytes_of(60 * MIB, 3), well(), |tide| tide.concurrency(Concurrency::Fixed(1))).await;
    *place.odd.fates.lock().unwrap() = Box::new(Replacing(place.odd.memory.clone(), 0));
    let error = place.run().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Replaced, "{error}");
    assert!(!place.path().exists());
    place.run().await.unwrap();
    place.is_whole(&bytes_of(60 * MIB, 8));
}

#[tokio::test]
async fn a_file_that_is_there_at_the_end_is_left_alone_and_nothing_is_beside_it() {
    /// Creates the file when the last request arrives.
    #[derive(Debug)]
    struct Making(PathBuf);
    impl Fates for Making {
        fn next(&mut self, range: &Option<Range<u64>>) -> Fate {
            if range.as_ref().is_some_and(|range| range.end == 60 * MIB) {
                fs::write(&self.0, "another's").unwrap();
            }
            Fate::Well
        }
    }
    let place =
        Place::with(&bytes_of(60 * MIB, 3), well(), |tide| tide.concurrency(Concurrency::Fixed(1))).await;
    *place.odd.fates.lock().unwrap() = Box::new(Making(place.path()));
    let error = place.store.download("k", place.path()).create_only().run().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::AlreadyExists, "{error}");
    place.is_whole(b"another's");
}

#[tokio::test]
async fn two_at_once_to_one_path_are_both_whole() {
    let data = bytes_of(60 * MIB, 3);
    let place = Place::new(&data, well()).await;
    let (one, two) = tokio::join!(place.run(), place.run());
    assert_eq!((one.unwrap().size, two.unwrap().size), (60 * MIB, 60 * MIB));
    place.is_whole(&data);
}

#[tokio::test]
async fn a_full_disk_is_told_before_a_byte_is_asked_for() {
    let Some(disk) = crate::testkit::small_disk::SmallDisk::new("tmpfs", 20) else { return };
    let place = Place::new(&bytes_of(60 * MIB, 3), well()).await;
    let error = place.store.download("k", disk.path().join("out")).run().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NoSpace, "{error}");
    assert_eq!(place.odd.requests(), 1);
    let left: Vec<_> = fs::read_dir(disk.path()).unwrap().flatten().map(|entry| entry.file_name()).collect();
    assert!(left.iter().all(|name| !name.to_string_lossy().contains("tidegate")), "{left:?}");
}

/// Random faults on every request, and downloads that are cut and started again.
#[test]
fn in_the_end_every_byte_is_right() {
    for seed in 0..16 {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build();
        runtime.unwrap().block_on(async {
            let mut random = fastrand::Rng::with_seed(seed);
            let most = [500_000, 60 * MIB][random.usize(0..2)];
            let data = bytes_of(random.u64(0..most), seed);
            let memory = [MIB, 8 * MIB, 64 * MIB][random.usize(0..3)];
            let fates = super::any::Random::new(random.fork(), 30);
            let place = Place::with(&data, fates, |tide| tide.memory(memory)).await;
            for attempt in 0.. {
                let patience = Duration::from_secs(random.u64(1..100 << attempt));
                // The right size, a wrong one, or one that is as good as none.
                let hint = [data.len() as u64, random.u64(0..600_000), u64::MAX][random.usize(0..3)];
                let download = place.store.download("k", place.path()).size_hint(hint);
                match timeout(patience, download.run()).await {
                    Ok(Ok(_)) => break,
                    Ok(Err(error)) => super::any::clean(&error).unwrap(),
                    Err(_) => {}
                }
                assert!(!place.path().exists());
                assert!(attempt < 20, "seed {seed}");
            }
            place.is_whole(&data);
            assert!(place.store.context().engine().budget.usage().peak <= memory);
        });
    }
}
