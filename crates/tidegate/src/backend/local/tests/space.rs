//! A full disk.

use std::process::Command;

use super::*;

/// A file system of 1 MiB, where this process may mount one.
struct Small(TempDir);

impl Small {
    fn new() -> Option<Self> {
        let directory = tempfile::tempdir().expect("a directory");
        let mount = Command::new("mount")
            .args(["-t", "tmpfs", "-o", "size=1m", "tmpfs"])
            .arg(directory.path())
            .output();
        match mount {
            Ok(output) if output.status.success() => Some(Self(directory)),
            _ => {
                eprintln!("skipped: no file system may be mounted here");
                None
            }
        }
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.0.path()).output();
    }
}

#[tokio::test]
async fn a_full_disk_is_said_with_its_directory_and_leaves_nothing() {
    let Some(small) = Small::new() else { return };
    let root = small.0.path().join("root");
    let store = Local::new(&root);
    let fault = store.put("a/k", payload(&vec![1; 3 << 20]), &options()).await.expect_err("a fault");
    assert_eq!(fault.kind, FaultKind::NoSpace);
    let directory = root.join("a");
    let expected = format!("the disk of {} is full: 0 bytes of 1.0 MiB are free", directory.display());
    assert_eq!(fault.message, expected);
    assert!(!root.exists());

    let session = store.open("k", &options()).await.expect("open");
    let part = store.part(&session, 1, 0, payload(&vec![1; 3 << 20])).await;
    assert_eq!(kind(part), FaultKind::NoSpace);
    store.abort(&session).await.expect("abort");
    assert!(!root.exists());
    store.put("k", payload(&vec![1; 512 << 10]), &options()).await.expect("there is room again");
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
