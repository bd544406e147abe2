//! Writes to a full disk.

use super::*;
use tidegate_core::testkit::small_disk::SmallDisk;

#[tokio::test]
async fn a_full_disk_is_said_with_its_directory_and_leaves_nothing() {
    let Some(small) = SmallDisk::new("tmpfs", 1) else { return };
    let root = small.path().join("root");
    let store = Local::new(&root);
    let fault =
        store.put("a/k", payload(&vec![1; 3 << 20]), &options(), Attempt::FIRST).await.expect_err("a fault");
    assert_eq!(fault.kind, FaultKind::NoSpace);
    let directory = root.join("a");
    let expected = format!("the disk of {} is full: 0 bytes of 1.0 MiB are free", directory.display());
    assert_eq!(fault.message, expected);
    assert!(!root.exists());

    let session = store.open("k", &options(), PartOrigin::Sent, Attempt::FIRST).await.expect("open");
    let part = store.part(&session, 1, 0, payload(&vec![1; 3 << 20]).into(), Attempt::FIRST).await;
    assert_eq!(kind(part), FaultKind::NoSpace);
    store.abort(&session, Attempt::FIRST).await.expect("abort");
    assert!(!root.exists());
    store
        .put("k", payload(&vec![1; 512 << 10]), &options(), Attempt::FIRST)
        .await
        .expect("there is room again");
}

#[test]
fn a_full_device_is_no_space() {
    if !Path::new("/dev/full").exists() {
        println!("skipped: there is no /dev/full");
        return;
    }
    let device = fs::OpenOptions::new().write(true).open("/dev/full").expect("the device");
    let error = device.write_all_at(b"x", 0).expect_err("an error");
    let fault = fault(error, Path::new("/dev"));
    assert_eq!(fault.kind, FaultKind::NoSpace);
    assert!(fault.message.starts_with("the disk of /dev is full: "), "{fault}");
}
