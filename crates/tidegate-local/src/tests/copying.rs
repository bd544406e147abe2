//! Copies of files by the local backend.

use super::*;
use tidegate::{ErrorKind, Tidegate};
use tidegate_core::testkit::bytes::bytes_of;

#[tokio::test]
async fn a_copy_to_another_root_has_the_same_bytes() {
    let disk = disk();
    let tide = Tidegate::builder().build().unwrap();
    let store = tide.store(Arc::new(disk.store.clone()));
    let other = tide.store(Arc::new(Local::new(disk.directory.path().join("other"))));
    for size in [0, 1, 300_000, 3_000_001] {
        let bytes = bytes_of(size, 0);
        disk.file("a/from", &bytes);
        for create_only in [false, true] {
            let key = format!("b/{size}-{create_only}");
            let copy = || store.copy("a/from", &other, &key).part_size(1_000_000);
            let copied = if create_only { copy().create_only() } else { copy() }.await.unwrap();
            assert_eq!(copied.size, size);
            assert!(fs::read(disk.directory.path().join("other").join(&key)).unwrap() == bytes);
            assert_eq!(copy().create_only().await.unwrap_err().kind(), ErrorKind::AlreadyExists);
        }
    }
    // A file copied onto itself.
    store.copy("a/from", &store, "a/from").await.unwrap();
    tide.settled().await;
    assert!(disk.everything().iter().all(|name| !name.contains(".tidegate")), "{:?}", disk.everything());
}

#[tokio::test]
async fn parts_that_leave_a_gap_are_not_published() {
    let disk = disk();
    disk.file("from", &[7; 100]);
    let object = disk.store.head("from", Attempt::FIRST).await.unwrap();
    let from = CopySource::new(disk.store.location(), "from", object);
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
