use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};

use futures::FutureExt as _;

use super::*;
use crate::memory::budget::{Budget, Slab};
use crate::testkit::paused_disk::PausedDisk;

const SLAB: usize = 4096;

fn budget() -> Budget {
    Budget::new(1 << 20, SLAB)
}

async fn payload(budget: &Budget, path: &Path, offset: u64, len: u64) -> Payload {
    let file = Arc::new(SourceFile::open(path).unwrap());
    let mut lease = budget.lease(2 * SLAB as u64).await.unwrap();
    let ring = Ring::new(vec![Slab::new(lease.split(SLAB as u64)), Slab::new(lease)]);
    Payload::from_file(file, offset, len, ring, Algorithm::Crc64Nvme)
}

/// A file on a disk and, if `/dev/shm` exists, a file in memory: they are read in different ways.
fn files(bytes: &[u8]) -> Vec<(tempfile::TempDir, PathBuf)> {
    let folders = [tempfile::tempdir().ok(), tempfile::tempdir_in("/dev/shm").ok()];
    let files = folders.into_iter().flatten().map(|folder| {
        let path = folder.path().join("source");
        fs::write(&path, bytes).unwrap();
        (folder, path)
    });
    files.collect()
}

fn bytes(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at * 7 + at / 256) as u8).collect()
}

#[tokio::test]
async fn a_range_of_a_file_streams_through_its_ring_as_often_as_asked() {
    let whole = bytes(50_000);
    for (_folder, path) in files(&whole) {
        let budget = budget();
        let payload = payload(&budget, &path, 1000, 45_000).await;
        assert_eq!(payload.checksum(), None);
        for _ in 0..3 {
            let mut stream = payload.stream();
            let mut read = Vec::new();
            while let Some(piece) = stream.next().await {
                read.extend_from_slice(&piece.unwrap());
                assert_eq!(stream.remaining(), 45_000 - read.len() as u64);
            }
            assert_eq!(read, whole[1000..46_000]);
            assert_eq!(payload.checksum(), Some(Checksum::of(Algorithm::Crc64Nvme, &read)));
        }
        assert_eq!(budget.usage().peak, 2 * SLAB as u64);
        drop(payload);
        assert_eq!(budget.usage().held, 0);
    }
}

#[tokio::test]
async fn what_is_behind_some_bytes_is_the_end_of_the_same() {
    let whole = bytes(50_000);
    let sum = Checksum::of(Algorithm::Crc64Nvme, &whole);
    let pieces = whole.chunks(7000).map(Bytes::copy_from_slice).collect();
    let mut payloads = vec![Payload::from_memory(pieces, sum)];
    let (budget, files) = (budget(), files(&whole));
    for (_folder, path) in &files {
        payloads.push(payload(&budget, path, 0, 50_000).await);
    }
    for payload in payloads {
        for skip in [0, 1, 4096, 7000, 7001, 49_999, 50_000, 60_000] {
            let rest = payload.behind(skip);
            let expected = &whole[whole.len().min(skip as usize)..];
            assert_eq!((rest.len(), rest.is_empty()), (expected.len() as u64, expected.is_empty()));
            let mut stream = rest.stream();
            let mut read = Vec::new();
            while let Some(piece) = stream.next().await {
                read.extend_from_slice(&piece.unwrap());
                assert_eq!(stream.remaining(), (expected.len() - read.len()) as u64);
            }
            assert!(read == expected, "behind {skip}");
            assert_eq!(rest.checksum(), if skip == 0 { Some(sum) } else { None });
            assert!(rest.behind(1).len() == rest.len().saturating_sub(1));
        }
        assert_eq!(payload.checksum(), Some(sum), "it was read to its end");
        assert_eq!(payload.read_checksum().await.unwrap(), sum);
    }
}

#[tokio::test]
async fn a_checksum_can_be_had_before_anything_is_sent() {
    let whole = bytes(20_000);
    for (_folder, path) in files(&whole) {
        let budget = budget();
        let payload = payload(&budget, &path, 5, 19_000).await;
        let sum = Checksum::of(Algorithm::Crc64Nvme, &whole[5..19_005]);
        assert_eq!(payload.read_checksum().await.unwrap(), sum);
        assert_eq!(payload.checksum(), Some(sum));
    }
}

#[tokio::test]
async fn a_stream_that_is_dropped_in_the_middle_leaves_its_ring_whole() {
    for (_folder, path) in files(&bytes(50_000)) {
        let budget = budget();
        let payload = payload(&budget, &path, 0, 50_000).await;
        for _ in 0..5 {
            let mut stream = payload.stream();
            let _piece = stream.next().await;
            let second = stream.next().await;
            drop((stream, second));
        }
        let mut stream = payload.stream();
        while let Some(piece) = stream.next().await {
            piece.unwrap();
        }
        assert_eq!(stream.remaining(), 0);
    }
}

#[tokio::test]
async fn a_retry_does_not_wait_for_slabs_that_a_stuck_connection_holds() {
    for (_folder, path) in files(&bytes(50_000)) {
        let budget = budget();
        let payload = payload(&budget, &path, 0, 50_000).await;
        let mut stuck = payload.stream();
        let queued = (stuck.next().await, stuck.next().await);
        let mut sent = 0;
        let mut again = payload.stream();
        while let Some(piece) = again.next().await {
            sent += piece.unwrap().len();
        }
        assert_eq!(sent, 50_000);
        assert_eq!(budget.usage().held, 4 * SLAB as u64, "what the stuck one holds is counted");
        drop((payload, again, stuck, queued));
        assert_eq!(budget.usage().held, 0);
    }
}

#[tokio::test]
async fn a_file_that_changes_is_noticed_before_its_last_bytes_go_out() {
    type Change = fn(&Path);
    let changes: [(Change, &str); 3] = [
        (|path| fs::File::options().write(true).open(path).unwrap().set_len(20_000).unwrap(), "truncated"),
        (|path| fs::File::options().append(true).open(path).unwrap().write_all(b"more").unwrap(), "changed"),
        (|path| fs::write(path, vec![1; 50_000]).unwrap(), "changed"),
    ];
    for (change, said) in changes {
        for (_folder, path) in files(&bytes(50_000)) {
            let payload = payload(&budget(), &path, 0, 50_000).await;
            let mut stream = payload.stream();
            let mut sent = stream.next().await.unwrap().unwrap().len();
            // The clock of file times is coarse: wait until a change shows.
            let before = fs::metadata(&path).unwrap().modified().unwrap();
            while fs::metadata(&path).unwrap().modified().unwrap() == before {
                change(&path);
            }
            let error = loop {
                match stream.next().await {
                    Some(Ok(piece)) => sent += piece.len(),
                    Some(Err(error)) => break error,
                    None => panic!("a stream of a changed file ended cleanly"),
                }
            };
            assert!(sent < 50_000 && error.to_string().contains(said), "{error}");
            assert!(error.get_ref().unwrap().is::<SourceChanged>());
            assert!(stream.next().await.is_none());
        }
    }
}

#[test]
fn only_regular_files_are_opened() {
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("pipe");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status().unwrap();
    assert!(made.success());
    assert!(SourceFile::open(&pipe).unwrap_err().to_string().contains("not a regular file"));
    assert!(SourceFile::open(folder.path()).unwrap_err().to_string().contains("directory"));
    assert!(SourceFile::open(Path::new("/dev/null")).unwrap_err().to_string().contains("not a regular file"));
}

#[test]
fn a_file_is_changed_by_what_changes_its_bytes_and_by_nothing_else() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    fs::write(path("source"), b"0123456789").unwrap();
    let old = std::time::SystemTime::now() - std::time::Duration::from_secs(60);
    File::options().write(true).open(path("source")).unwrap().set_modified(old).unwrap();
    let source = SourceFile::open(&path("source")).unwrap();
    fs::hard_link(path("source"), path("second")).unwrap();
    fs::set_permissions(path("source"), fs::Permissions::from_mode(0o600)).unwrap();
    fs::rename(path("source"), path("moved")).unwrap();
    fs::remove_file(path("second")).unwrap();
    source.check_unchanged().unwrap();
    fs::write(path("moved"), b"9876543210").unwrap();
    assert_eq!(source.check_unchanged().unwrap_err().kind(), std::io::ErrorKind::InvalidData);
}

/// The error comes after two minutes that the disk had for one read, however long the reads before it took.
#[tokio::test(start_paused = true)]
async fn a_stuck_disk_ends_a_stream_with_an_error_that_says_so() {
    let (disk, _resumes) = PausedDisk::new(Bytes::from_static(&[b'x'; 2 * 4096]));
    let payload = disk.payload().await;
    let mut stream = payload.stream();
    let mut stuck_after = Vec::new();
    for read in 1..=2 {
        let mut next = Box::pin(stream.next());
        assert!((&mut next).now_or_never().is_none());
        disk.has_begun(read).await;
        // The paused clock stands still while a thread waits for the disk, so the test moves it.
        for seconds in (0..200).step_by(10) {
            if let Some(ended) = (&mut next).now_or_never() {
                stuck_after.push((seconds, ended));
                break;
            }
            if read == 1 && seconds == 110 {
                disk.allow(1);
                next.as_mut().await.unwrap().unwrap();
                break;
            }
            tokio::time::advance(Duration::from_secs(10)).await;
        }
    }
    let [(seconds, Some(Err(error)))] = &stuck_after[..] else { panic!("{stuck_after:?}") };
    assert!((120..=130).contains(seconds), "{seconds}");
    assert_eq!(error.to_string(), "a paused disk has not completed a read in 120 s: it is stuck");
    assert!(stream.next().await.is_none());
}
