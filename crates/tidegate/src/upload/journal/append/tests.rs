//! How long an append waits for room on a full disk.

use std::io;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

use tempfile::TempDir;
use tokio::time::Instant;

use super::super::room::LOOK_AGAIN;
use super::*;
use crate::engine::journaling::CountedReader;
use crate::journal::{Durability, Header};
use crate::memory::payload::ReadAt;
use crate::types::checksum::Algorithm;

const PATIENCE: Duration = Duration::from_secs(60);

async fn appender(folder: &TempDir, upload: &str, disk: &Arc<JournalDisk>) -> Appender {
    let header = Header {
        upload: upload.to_owned(),
        url: "memory://test".to_owned(),
        key: "k".to_owned(),
        checksum: Algorithm::Crc64Nvme.empty(),
        created: 0,
        options: serde_json::Value::Null,
    };
    let journal = Journal::create(&[folder.path().to_owned()], header, Durability::Sync).await.unwrap();
    let feed = Arc::new(watch::channel(Feed::default()).0);
    disk.join(&feed);
    Appender { journal, feed, progress: Progress::default(), disk: disk.clone(), patience: PATIENCE }
}

/// Waits for a disk that has room after `full` looks; calls `meanwhile` at each look before.
async fn wait(appender: &Appender, full: u32, meanwhile: impl Fn(u32)) -> Result<(), JournalError> {
    let looks = AtomicU32::new(0);
    let write = || async {
        let look = looks.fetch_add(1, Relaxed);
        if look >= full {
            return Ok(());
        }
        meanwhile(look);
        Err(JournalError::Full { path: "k".into(), source: io::ErrorKind::StorageFull.into() })
    };
    appender.disk.in_line(&appender.progress, appender.patience, write).await
}

/// How many looks a wait has in `time`.
fn looks(time: Duration) -> u32 {
    u32::try_from(time.as_millis() / LOOK_AGAIN.as_millis()).unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_disk_that_nothing_leaves_is_waited_for_no_longer_than_was_said() {
    let (folder, disk) = (tempfile::tempdir().unwrap(), Arc::default());
    let appender = appender(&folder, "one", &disk).await;
    wait(&appender, looks(PATIENCE / 2), |_| {}).await.unwrap();
    let began = Instant::now();
    let error = wait(&appender, u32::MAX, |_| {}).await.unwrap_err();
    assert!(matches!(error, JournalError::Full { .. }), "{error}");
    assert!(began.elapsed() < PATIENCE + Duration::from_secs(1), "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_disk_that_other_uploads_leave_has_room_in_the_end() {
    let (folder, disk) = (tempfile::tempdir().unwrap(), Arc::default());
    let small = appender(&folder, "small", &disk).await;
    let large = appender(&folder, "large", &disk).await;
    // A part on a slow link: its bytes are read a little at a time, and the store acknowledges it after ten minutes.
    large.journal.append(vec![vec![7; 4000].into()]).await.unwrap();
    let leaving =
        || CountedReader { reader: large.journal.reader(), disk: disk.clone(), read: Arc::default() };
    let part = leaving();
    wait(&small, looks(10 * PATIENCE), |look| {
        assert!(
            look == 0 || large.feed.borrow().full,
            "it gives nothing back that it has not been asked for"
        );
        part.read(&mut [0], u64::from(look)).unwrap();
    })
    .await
    .unwrap();
    assert!(!large.feed.borrow().full && !small.feed.borrow().full);
    // The same bytes sent again and again, to a store that keeps none, are no progress.
    let read = Arc::new(AtomicU64::new(0));
    let again = |_| {
        let part = CountedReader { read: read.clone(), ..leaving() };
        part.read(&mut [0; 100], 0).unwrap();
    };
    let error = wait(&small, looks(10 * PATIENCE), again).await.unwrap_err();
    assert!(matches!(error, JournalError::Full { .. }), "{error}");
    assert!(!large.feed.borrow().full, "it is asked for room for nobody");
    // A wait that was cancelled asks no upload for room either.
    let gone = tokio::time::timeout(PATIENCE / 2, wait(&small, u32::MAX, |_| {})).await;
    assert!(gone.is_err() && !large.feed.borrow().full);
}
