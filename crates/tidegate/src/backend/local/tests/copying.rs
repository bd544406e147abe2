//! Copies of files by the local backend.

use super::*;
use crate::{ErrorKind, Tidegate};

#[tokio::test]
async fn a_copy_has_the_same_bytes_whichever_way_it_is_made() {
    let disk = disk();
    let tide = Tidegate::builder().build().unwrap();
    let store = tide.store(Arc::new(disk.store.clone()));
    let other = tide.store(Arc::new(Local::new(disk.directory.path().join("other"))));
    for size in [0, 1, 300_000, 3_000_001] {
        let bytes: Vec<u8> = (0..size).map(|at| (at * 31 + at / 251) as u8).collect();
        disk.file("a/from", &bytes);
        for (to, name) in [(&store, "root"), (&other, "other")] {
            for create_only in [false, true] {
                let key = format!("b/{size}-{create_only}");
                let copy = store.copy("a/from", to, &key).part_size(1_000_000);
                let copy = if create_only { copy.create_only() } else { copy };
                assert_eq!(copy.run().await.unwrap().size, size);
                assert!(fs::read(disk.directory.path().join(name).join(&key)).unwrap() == bytes);
                let again = store.copy("a/from", to, &key).part_size(1_000_000).create_only().run().await;
                assert_eq!(again.unwrap_err().kind(), ErrorKind::AlreadyExists);
            }
        }
    }
    // A file copied onto itself.
    store.copy("a/from", &store, "a/from").run().await.unwrap();
    tide.settled().await;
    assert!(disk.everything().iter().all(|name| !name.contains(".tidegate")), "{:?}", disk.everything());
}

#[tokio::test]
async fn a_file_that_is_another_by_now_is_not_copied() {
    let disk = disk();
    disk.file("from", b"first");
    let object = disk.store.head("from", Attempt::FIRST).await.unwrap();
    let from = CopySource { location: disk.store.location().to_owned(), key: "from".into(), object };
    let options = WriteOptions::default();
    let session = disk.store.open("to", &options, PartOrigin::Sent, Attempt::FIRST).await.unwrap();
    disk.file("from", b"second");
    for _ in 0..2 {
        let copied = disk.store.copy(&from, "to", None, &options, Attempt::FIRST).await;
        assert_eq!(copied.unwrap_err().kind, FaultKind::Replaced);
        let copied = disk.store.part(&session, 1, 0, PartSource::CopyOf(&from, 0..5), Attempt::FIRST).await;
        assert_eq!(copied.unwrap_err().kind, FaultKind::Replaced);
        disk.store.delete("from", None, Attempt::FIRST).await.unwrap();
    }
    disk.store.abort(&session, Attempt::FIRST).await.unwrap();
    assert!(disk.everything().is_empty(), "{:?}", disk.everything());
}

#[tokio::test]
async fn parts_that_leave_a_gap_are_not_published() {
    let disk = disk();
    disk.file("from", &[7; 100]);
    let object = disk.store.head("from", Attempt::FIRST).await.unwrap();
    let from = CopySource { location: disk.store.location().to_owned(), key: "from".into(), object };
    let options = WriteOptions::default();
    let session = disk.store.open("to", &options, PartOrigin::Sent, Attempt::FIRST).await.unwrap();
    let first =
        disk.store.part(&session, 1, 0, PartSource::CopyOf(&from, 0..40), Attempt::FIRST).await.unwrap();
    let second =
        disk.store.part(&session, 2, 40, PartSource::CopyOf(&from, 40..100), Attempt::FIRST).await.unwrap();
    for parts in [vec![second.clone()], vec![second.clone(), first.clone()], vec![first.clone()]] {
        let published = disk.store.complete(&session, &parts, None, &options, Attempt::FIRST).await;
        assert_eq!(published.unwrap_err().kind, FaultKind::Invalid, "{parts:?}");
    }
    let published =
        disk.store.complete(&session, &[first, second], None, &options, Attempt::FIRST).await.unwrap();
    assert_eq!((published.size, disk.everything().len()), (100, 2));
}
