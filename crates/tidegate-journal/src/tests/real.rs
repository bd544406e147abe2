//! Journals in real files: names, locks and directories, and a journal as a strategy uses it.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use futures::StreamExt;

use super::*;
use tidegate_core::memory::budget::{Budget, Slab};
use tidegate_core::memory::payload::{Payload, Ring};
use tidegate_core::types::locked_file::LockedFile;
use tidegate_core::types::owner_process::OwnerProcess;

const GROUP: Durability = Durability::Group { bytes: 1 << 20, delay: Duration::from_secs(3600) };

fn folder() -> (tempfile::TempDir, Vec<PathBuf>) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_owned();
    (folder, vec![path])
}

fn named(upload: &str) -> Header {
    Header { upload: upload.into(), ..header(Algorithm::Crc64Nvme) }
}

async fn begin(directories: &[PathBuf], durability: Durability) -> Journal {
    Journal::create(directories, named("one"), durability).await.unwrap()
}

/// Waits until `holds` returns true, which happens soon.
async fn until(mut holds: impl FnMut() -> bool) {
    let wait = async {
        while !holds() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), wait).await.unwrap();
}

#[tokio::test]
async fn whoever_only_looks_at_it_is_waited_for() {
    let folder = tempfile::tempdir().unwrap();
    let directories = [folder.path().to_owned()];
    let journal =
        Journal::create(&directories, header(Algorithm::Crc64Nvme), Durability::Sync).await.unwrap();
    let path = journal.path().to_owned();
    let second = Journal::resume(&path, Durability::Sync, &TrustedOwners::default()).await.unwrap_err();
    assert!(matches!(second, JournalError::InUse { .. }), "{second}");
    journal.closed().await;
    let looking = fs::File::open(&path).unwrap();
    looking.lock_shared().unwrap();
    let looked = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(200));
        drop(looking);
    });
    Journal::resume(&path, Durability::Sync, &TrustedOwners::default()).await.unwrap();
    looked.join().unwrap();
}

#[tokio::test]
async fn a_forked_child_that_drops_a_journal_writes_nothing() {
    let (folder, directories) = folder();
    let mut journal = begin(&directories, GROUP).await;
    Arc::get_mut(&mut journal.shared).expect("nobody else has it yet").owner = OwnerProcess::another();
    journal.append(vec![data(1000, 1)]).await.unwrap();
    let bytes = || fs::read(folder.path().join("one.journal")).unwrap();
    let before = bytes();
    journal.closed().await;
    assert!(bytes() == before, "its place in the file is not the parent's");
}

#[tokio::test]
async fn an_upload_is_left_found_gone_on_with_and_ended() {
    let (folder, directories) = folder();
    let journal = begin(&directories, Durability::Sync).await;
    let path = folder.path().join("one.journal");
    assert_eq!(journal.path(), path);
    let object = data(300_000, 1);
    journal.session(JournaledSession { kind: SessionKind::Parts, id: "s".into() }).await.unwrap();
    assert_eq!(journal.append(vec![object.slice(..200_000)]).await.unwrap(), 200_000);
    assert_eq!((journal.len(), journal.durable()), (200_000, 0));
    assert_eq!(journal.sync().await.unwrap(), 200_000);
    assert_eq!((journal.len(), journal.durable()), (200_000, 200_000));
    let receipt = part(1, 0, 100_000).receipt();
    journal.part(Part::new(0, &receipt).unwrap()).await.unwrap();
    journal.committed(100_000).await.unwrap();
    let state = journal.state().await.unwrap();
    drop(journal);

    let listed = list(folder.path(), &TrustedOwners::default()).unwrap();
    assert_eq!(listed.len(), 1);
    let found = listed[0].found.as_ref().unwrap();
    assert_eq!((&found.state, found.checksum.covers()), (&state, 200_000));
    assert_eq!(verify(&path, &TrustedOwners::default()).unwrap(), *found);

    let (journal, recovered) =
        Journal::resume(&path, Durability::Sync, &TrustedOwners::default()).await.unwrap();
    assert_eq!(recovered, *found);
    assert_eq!(recovered.state.parts[&1].receipt(), receipt);
    journal.append(vec![object.slice(200_000..)]).await.unwrap();
    let checksum = journal.finish().await.unwrap();
    assert_eq!(checksum, Checksum::of(Algorithm::Crc64Nvme, &object));
    assert_eq!(journal.checksum().await.unwrap(), checksum);
    // If the process dies here, the journal is found, and its file is removed.
    journal.record(Record::End(End::Completed), true).await.unwrap();
    drop(journal);
    let copy = folder.path().join("copy.journal");
    fs::copy(&path, &copy).unwrap();
    assert_eq!(verify(&path, &TrustedOwners::default()).unwrap().state.end, Some(End::Completed));
    let (journal, _) = Journal::resume(&path, Durability::Sync, &TrustedOwners::default()).await.unwrap();
    journal.end(End::Completed).await.unwrap();
    assert!(!path.exists());
    // The ended copy needs no resume: listing removes it.
    assert_eq!(list(folder.path(), &TrustedOwners::default()).unwrap().len(), 0);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[tokio::test]
async fn requests_are_fed_from_it_and_read_it_again() {
    let (_folder, directories) = folder();
    let journal = begin(&directories, GROUP).await;
    let object = data(3_000_000, 2);
    for piece in 0..30 {
        journal.append(vec![object.slice(piece * 100_000..(piece + 1) * 100_000)]).await.unwrap();
    }
    let budget = Budget::new(8 << 20, 256 << 10);
    let mut lease = budget.try_lease(3 * (256 << 10)).unwrap();
    let ring = Ring::new((0..3).map(|_| Slab::new(lease.split(256 << 10))).collect());
    let range = 50_000..2_500_000;
    let length = range.end - range.start;
    let reader = Arc::new(journal.reader());
    let payload = Payload::from_file(reader, range.start as u64, length as u64, ring, Algorithm::Crc64Nvme);
    for _ in 0..2 {
        let mut stream = payload.stream();
        let mut bytes = Vec::new();
        while let Some(piece) = stream.next().await {
            bytes.extend_from_slice(&piece.unwrap());
        }
        assert!(bytes == object[range.clone()]);
    }
    assert_eq!(payload.checksum(), Some(Checksum::of(Algorithm::Crc64Nvme, &object[range])));
}

#[tokio::test]
async fn its_disk_use_follows_what_is_not_acknowledged() {
    let (_folder, directories) = folder();
    let journal = begin(&directories, GROUP).await;
    let used = || fs::metadata(journal.path()).unwrap().blocks() * 512;
    let mut most = 0;
    for piece in 0..64 {
        let length = journal.append(vec![data(1 << 20, piece)]).await.unwrap();
        journal.committed(length.saturating_sub(2 << 20)).await.unwrap();
        journal.give_back(4 << 20).await.unwrap();
        most = most.max(used());
    }
    // Bytes that are not acknowledged, bytes that are not worth freeing yet, and the last append.
    assert!(most < 12 << 20, "{most} bytes");
    assert_eq!(journal.len(), 64 << 20);
    let path = journal.path().to_owned();
    drop(journal);
    // A sync that no caller waits for may still be under way.
    until(|| verify(&path, &TrustedOwners::default()).is_ok()).await;
    let found = verify(&path, &TrustedOwners::default()).unwrap();
    assert!(found.checksum.covers() == 64 << 20 && found.first > 50 << 20);
}

#[tokio::test]
async fn one_process_at_a_time_has_it() {
    let (folder, directories) = folder();
    let journal = begin(&directories, Durability::Sync).await;
    let path = journal.path().to_owned();
    let refused = Journal::resume(&path, Durability::Sync, &TrustedOwners::default()).await.unwrap_err();
    let host = rustix::system::uname();
    let us = format!("{} on {}", std::process::id(), host.nodename().to_string_lossy());
    let JournalError::InUse { holder: Some(holder), .. } = &refused else { panic!("{refused}") };
    assert_eq!(*holder, us);
    let (path_text, in_use) = (path.display(), |holder: Option<&str>| {
        JournalError::InUse { path: path.clone(), holder: holder.map(str::to_owned) }.to_string()
    });
    assert_eq!(
        [refused.to_string(), in_use(Some("1 on another")), in_use(None)],
        [
            format!(
                "journal {path_text} is in use: a writer of this process has it (finish, abort or drop that one)"
            ),
            format!(
                "journal {path_text} is in use: process 1 on another opened it last (wait for that to end, or end it)"
            ),
            format!("journal {path_text} is in use (wait for that to end, or end it)"),
        ]
    );
    let listed = list(folder.path(), &TrustedOwners::default()).unwrap();
    assert!(matches!(listed[0].found, Err(JournalError::InUse { .. })), "{listed:?}");
    // The reader of a dropped request still reads from the journal.
    let reader = journal.reader();
    drop(journal);
    assert!(Journal::resume(&path, Durability::Sync, &TrustedOwners::default()).await.is_err());
    drop(reader);
    Journal::resume(&path, Durability::Sync, &TrustedOwners::default()).await.unwrap();
}

#[tokio::test]
async fn groups_are_synced_when_they_are_full_or_old() {
    let (folder, directories) = folder();
    let full = Journal::create(&directories, named("full"), GROUP).await.unwrap();
    full.append(vec![data(1000, 1)]).await.unwrap();
    assert_eq!(full.durable(), 0);
    full.append(vec![data(1 << 20, 1)]).await.unwrap();
    until(|| full.durable() == full.len()).await;
    // An append waits for the sync of a group that is twice as full.
    full.append(vec![data(2 << 20, 1)]).await.unwrap();
    assert_eq!(full.durable(), full.len());

    let group = Durability::Group { bytes: 1 << 30, delay: Duration::from_millis(5) };
    let old = Journal::create(&directories, named("old"), group).await.unwrap();
    for _ in 0..3 {
        old.append(vec![data(1000, 1)]).await.unwrap();
        until(|| old.durable() == old.len()).await;
    }

    let write = Journal::create(&directories, named("write"), Durability::Write).await.unwrap();
    write.append(vec![data(1000, 1)]).await.unwrap();
    assert_eq!(write.durable(), 1000);
    drop((full, old, write));
    until(|| {
        list(folder.path(), &TrustedOwners::default()).unwrap().iter().all(|listed| listed.found.is_ok())
    })
    .await;
    assert_eq!(list(folder.path(), &TrustedOwners::default()).unwrap().len(), 3);
}

/// Bytes of the object that a loss of power would leave now.
fn would_survive(file: &SimFile) -> u64 {
    let copy = file.copy();
    copy.lose_power_at(0);
    resume(&copy).unwrap().1.checksum.covers()
}

#[tokio::test]
async fn the_last_group_is_synced_when_its_writer_is_gone() {
    for left_by in ["drop", "closed", "reader"] {
        let file = SimFile::new(Rng::with_seed(30));
        let journal = Journal::new(create(&file, Algorithm::Crc64Nvme), GROUP);
        journal.append(vec![data(1000, 1)]).await.unwrap();
        assert_eq!(would_survive(&file), 0);
        match left_by {
            "drop" => drop(journal),
            "closed" => {
                journal.closed().await;
                assert_eq!(would_survive(&file), 1000, "when it is closed it is done");
            }
            _ => {
                let reader = journal.reader();
                drop(journal);
                drop(reader);
            }
        }
        until(|| would_survive(&file) == 1000).await;
    }
}

#[test]
fn the_last_group_is_synced_when_its_runtime_is_gone() {
    let file = SimFile::new(Rng::with_seed(31));
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let journal = Journal::new(create(&file, Algorithm::Crc64Nvme), GROUP);
    runtime.block_on(journal.append(vec![data(1000, 1)])).unwrap();
    drop(runtime);
    drop(journal);
    assert_eq!(would_survive(&file), 1000);
}

#[tokio::test]
async fn an_end_needs_no_space() {
    let file = SimFile::new(Rng::with_seed(32));
    let (folder, directories) = folder();
    let journal = begin(&directories, Durability::Sync).await;
    drop(journal);
    let path = folder.path().join("one.journal");
    file.faults(|faults| faults.no_reserve = true);
    let log = Log::create(&path, file.clone(), header(Algorithm::Crc64Nvme), *b"salt salt salt s").unwrap();
    file.fill();
    Journal::new(log, Durability::Sync).end(End::Aborted).await.unwrap();
    assert!(!path.exists());
}

#[tokio::test]
async fn a_journal_that_nobody_takes_is_not_left() {
    let (folder, directories) = folder();
    let path = folder.path().join("one.journal");
    let mut create = Box::pin(Journal::create(&directories, named("one"), Durability::Sync));
    assert!(futures::poll!(&mut create).is_pending());
    until(|| path.exists()).await;
    drop(create);
    until(|| fs::read_dir(folder.path()).unwrap().count() == 0).await;
}

#[tokio::test]
async fn whoever_waits_for_a_lock_holds_no_thread() {
    let (folder, directories) = folder();
    drop(begin(&directories, Durability::Sync).await);
    let path = folder.path().join("one.journal");
    let looking = fs::File::open(&path).unwrap();
    looking.lock_shared().unwrap();
    assert!(directory::open(&path, true, &TrustedOwners::default()).unwrap().is_none(), "it says so at once");
    assert!(matches!(
        directory::open(&path, false, &TrustedOwners::default()),
        Err(JournalError::InUse { .. })
    ));
    drop(looking);
    assert!(directory::open(&path, true, &TrustedOwners::default()).unwrap().is_some());
}

#[tokio::test]
async fn what_is_begun_is_done_although_nobody_waits() {
    let (_folder, directories) = folder();
    let journal = begin(&directories, Durability::Sync).await;
    let append = journal.append(vec![data(1000, 1)]);
    let _ = futures::poll!(Box::pin(append));
    until(|| journal.len() == 1000).await;

    let group = Durability::Group { bytes: 1 << 30, delay: Duration::from_millis(5) };
    let journal = Journal::create(&directories, named("group"), group).await.unwrap();
    let append = journal.append(vec![data(1000, 1)]);
    let _ = futures::poll!(Box::pin(append));
    until(|| journal.durable() == 1000).await;
}

#[tokio::test]
async fn directories_that_cannot_be_used_are_named() {
    let (folder, directories) = folder();
    let missing = folder.path().join("missing");
    let file = folder.path().join("file");
    fs::write(&file, "").unwrap();
    let create = |directory: &Path| {
        let directories = [directory.to_owned()];
        async move { Journal::create(&directories, named("one"), Durability::Sync).await.map(|_| ()) }
    };
    let error = create(&missing).await.unwrap_err().to_string();
    assert_eq!(
        error,
        format!(
            "journal {}/one.journal: creating failed: No such file or directory (os error 2) (create the \
             directory, or mount its disk again)",
            missing.display()
        )
    );
    let error = create(&file).await.unwrap_err().to_string();
    assert!(
        error.contains("file/one.journal: creating failed") && error.contains("(name a directory)"),
        "{error}"
    );
    let error = Journal::create(&[], named("one"), Durability::Sync).await.unwrap_err().to_string();
    assert!(error.contains("no journal directory"), "{error}");
    let error = Journal::create(&directories, named("../one"), Durability::Sync).await.unwrap_err();
    assert!(matches!(error, JournalError::Refused { .. }), "{error}");
    let error = list(&missing, &TrustedOwners::default()).unwrap_err().to_string();
    assert!(error.contains("missing: reading the directory failed"), "{error}");
    // A usable directory is found among unusable ones.
    let journal = begin(&[missing, directories[0].clone(), file], Durability::Sync).await;
    let twice = Journal::create(&directories, named("one"), Durability::Sync).await.unwrap_err();
    assert!(twice.to_string().contains("an upload's id is used once"), "{twice}");
    assert!(
        list(folder.path(), &TrustedOwners::default()).unwrap()[0].found.is_err(),
        "the first one is still there, and locked"
    );
    drop(journal);
}

#[tokio::test]
async fn nothing_is_called_durable_in_a_directory_that_is_gone() {
    let (folder, directories) = folder();
    let journal = begin(&directories, Durability::Sync).await;
    journal.append(vec![data(1000, 1)]).await.unwrap();
    drop(folder);
    let error = journal.sync().await.unwrap_err();
    assert!(matches!(error, JournalError::Lost { durable: 0, .. }), "{error}");
    assert!(error.to_string().contains("the file was removed"), "{error}");
}

/// A sync of a file, and of a directory, that can't be synced returns the disk's error.
#[test]
fn a_sync_asks_the_disk() {
    let null = || LockedFile::try_shared(fs::File::open("/dev/null").unwrap()).unwrap();
    assert!(super::super::disk::RealFile::new(null()).sync().is_err(), "it was not asked");
    let error = directory::resume(Path::new("/proc/self/one.journal"), null()).unwrap_err();
    assert!(error.to_string().contains("syncing its directory"), "{error}");
}

#[tokio::test]
async fn records_that_matter_are_durable_when_they_are_written() {
    let file = SimFile::new(Rng::with_seed(33));
    let left = || {
        let copy = file.copy();
        copy.lose_power_at(0);
        resume(&copy).unwrap().1.state
    };
    let journal = Journal::new(create(&file, Algorithm::Crc64Nvme), Durability::Sync);
    journal.append(vec![data(1000, 1)]).await.unwrap();
    assert_eq!(left().session, None);
    let session = JournaledSession { kind: SessionKind::Parts, id: "s".into() };
    journal.session(session.clone()).await.unwrap();
    assert_eq!(left().session, Some(session));
    let checksum = journal.finish().await.unwrap();
    assert_eq!(left().finish, Some(checksum));
    // There is no file with its name that could be removed.
    journal.end(End::Completed).await.unwrap_err();
    assert_eq!(left().end, Some(End::Completed));
}

#[tokio::test]
async fn what_was_never_whole_is_no_journal_and_goes() {
    let (folder, directories) = folder();
    let (young, old) = (folder.path().join("young.unborn"), folder.path().join("old.unborn"));
    fs::write(&young, "some").unwrap();
    fs::write(&old, "some").unwrap();
    let day_before = std::time::SystemTime::now() - Duration::from_secs(90_000);
    fs::File::options().write(true).open(&old).unwrap().set_modified(day_before).unwrap();
    assert_eq!(list(&directories[0], &TrustedOwners::default()).unwrap().len(), 0);
    assert!(young.exists() && !old.exists());
}
