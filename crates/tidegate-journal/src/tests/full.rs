//! Real full disks, if this user may mount them.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::PathBuf;

use super::*;
use tidegate_core::testkit::small_disk::SmallDisk;

/// A small disk that another program fills.
struct Disk {
    filling: Option<File>,
    small: SmallDisk,
}

impl Disk {
    fn path(&self) -> PathBuf {
        self.small.path().to_owned()
    }

    /// Takes all free space, as another program does.
    fn fill(&mut self) {
        let path = self.path().join("filling");
        let open = || OpenOptions::new().create(true).append(true).open(path).unwrap();
        let mut file = self.filling.take().unwrap_or_else(open);
        for size in [1 << 20, 4096, 1] {
            while file.write_all(&vec![1; size]).is_ok() {}
        }
        // Data that is only in the cache has no space on the disk yet.
        let _ = file.sync_all();
        while file.write_all(&[1]).is_ok() {}
        self.filling = Some(file);
    }
}

async fn on(mut disk: Disk, kind: &str) {
    const PART: u64 = 256 << 10;
    let (directories, path) = ([disk.path()], disk.path().join("one.journal"));
    let mut journal =
        Journal::create(&directories, header(Algorithm::Crc64Nvme), Durability::Write).await.unwrap();
    let mut length = 0;
    let full = loop {
        match journal.append(vec![data(PART as usize, 1)]).await {
            Ok(now) => length = now,
            Err(error) => break error,
        }
    };
    assert!(matches!(full, JournalError::Full { .. }) && length > 4 << 20, "{length}: {full}");
    disk.fill();
    journal.session(JournaledSession { kind: SessionKind::Parts, id: "s".into() }).await.unwrap();
    let mut acknowledged = 0;
    for round in 0..12 {
        // The journal may have got some of the freed space.
        let refused = loop {
            match journal.append(vec![data(PART as usize, 1)]).await {
                Ok(now) => length = now,
                Err(error) => break error,
            }
        };
        assert!(matches!(refused, JournalError::Full { .. }), "{kind}, round {round}: {refused}");
        let number = round + 1;
        journal.part(part(number, acknowledged, PART)).await.unwrap();
        acknowledged += PART;
        journal.committed(acknowledged).await.unwrap();
        let given = journal.give_back(1).await.unwrap();
        assert!(given > PART / 2, "{given} bytes");
        // The journal itself can use the freed space too.
        if round % 4 == 3 {
            length = journal.append(vec![data(PART as usize / 2, 1)]).await.unwrap();
        }
        disk.fill();
        if round == 5 {
            drop(journal);
            let (resumed, found) =
                Journal::resume(&path, Durability::Write, &TrustedOwners::default()).await.unwrap();
            assert_eq!((found.checksum.covers(), found.state.committed), (length, acknowledged));
            journal = resumed;
        }
    }
    journal.sync().await.unwrap();
    assert_eq!(verify_open(&journal), length);
    journal.end(End::Completed).await.unwrap();
    assert!(!path.exists());
}

/// Verifies a journal, and returns the bytes of its object.
fn verify_open(journal: &Journal) -> u64 {
    let bytes = fs::read(journal.path()).unwrap();
    scan(bytes, Check::Whole).unwrap().checksum.covers()
}

#[tokio::test]
async fn a_disk_that_is_really_full_gets_room_by_what_the_store_has() {
    for kind in ["tmpfs", "ext4", "xfs", "btrfs"] {
        if let Some(small) = SmallDisk::new(kind, if kind == "tmpfs" { 24 } else { 48 }) {
            let disk = Disk { small, filling: None };
            on(disk, kind).await;
        }
    }
}
