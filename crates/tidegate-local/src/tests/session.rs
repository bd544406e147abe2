//! Sessions: parts at their offsets, completion, and leftovers.

use std::time::{Duration, SystemTime};

use super::*;

fn whole(bytes: &[u8]) -> Checksum {
    Checksum::of(ALGORITHM, bytes)
}

async fn sessions(store: &Local, prefix: &str) -> Vec<Session> {
    let open: Vec<OpenSession> = store.sessions(prefix).try_collect().await.expect("a listing");
    assert!(open.iter().all(|open| open.started.is_some()));
    open.into_iter().map(|open| open.session).collect()
}

#[tokio::test]
async fn completion_is_refused_unless_the_parts_are_the_file() {
    let disk = disk();
    let session = disk.store.open("k", &options(), PartOrigin::Sent, Attempt::FIRST).await.expect("open");
    let first = disk.store.part(&session, 1, 0, payload(b"AA").into(), Attempt::FIRST).await.expect("part");
    let gap = disk.store.part(&session, 2, 3, payload(b"BB").into(), Attempt::FIRST).await.expect("part");
    let complete = async |parts: &[&Receipt], bytes: &[u8]| {
        let parts: Vec<Receipt> = parts.iter().copied().cloned().collect();
        kind(disk.store.complete(&session, &parts, Some(&whole(bytes)), &options(), Attempt::FIRST).await)
    };
    assert_eq!(complete(&[&first, &gap], b"AABB").await, FaultKind::Invalid);
    assert_eq!(complete(&[&first], b"AA").await, FaultKind::Invalid); // the file has more
    let second = disk.store.part(&session, 2, 2, payload(b"BBB").into(), Attempt::FIRST).await.expect("part");
    let forged = Receipt { size: 3, ..first.clone() };
    assert_eq!(complete(&[&forged, &second], b"AABBB").await, FaultKind::Invalid);
    let other = Receipt { checksum: Some(Checksum::of(Algorithm::Crc32c, b"AA")), ..first.clone() };
    assert_eq!(complete(&[&other, &second], b"AABBB").await, FaultKind::Invalid);
    assert_eq!(kind(disk.store.head("k", Attempt::FIRST).await), FaultKind::NotFound);

    let parts = [first, second];
    disk.store
        .complete(&session, &parts, Some(&whole(b"AABBB")), &options(), Attempt::FIRST)
        .await
        .expect("still there");
    assert_eq!(read(&disk.store, "k", None).await.expect("get"), b"AABBB");
}

#[tokio::test]
async fn ends_of_parts_are_limited() {
    let disk = disk();
    let session = disk.store.open("k", &options(), PartOrigin::Sent, Attempt::FIRST).await.expect("open");
    for offset in [i64::MAX as u64, u64::MAX] {
        assert_eq!(
            kind(disk.store.part(&session, 1, offset, payload(b"A").into(), Attempt::FIRST).await),
            FaultKind::TooLarge
        );
    }
    for id in ["", "../x"] {
        let none = Session { key: "k".into(), id: id.into() };
        assert_eq!(kind(disk.store.abort(&none, Attempt::FIRST).await), FaultKind::NoSession);
    }
}

#[tokio::test]
async fn an_abort_takes_the_directories_made_for_it_and_no_other() {
    let disk = disk();
    fs::create_dir_all(disk.root().join("old")).expect("a directory");
    let one = disk.store.open("old/a/b/k", &options(), PartOrigin::Sent, Attempt::FIRST).await.expect("open");
    let two = disk.store.open("old/a/c/k", &options(), PartOrigin::Sent, Attempt::FIRST).await.expect("open");
    disk.store.abort(&one, Attempt::FIRST).await.expect("abort");
    assert!(disk.root().join("old/a/c").is_dir());
    assert!(!disk.root().join("old/a/b").exists());
    disk.store.abort(&two, Attempt::FIRST).await.expect("abort");
    assert_eq!(disk.everything(), ["old/"]);

    // A directory with an object in it stays, and so does one that had an object.
    let session = disk.store.open("new/k", &options(), PartOrigin::Sent, Attempt::FIRST).await.expect("open");
    disk.store.put("new/x", payload(b""), &options(), Attempt::FIRST).await.expect("put");
    disk.store.delete("new/x", None, Attempt::FIRST).await.expect("delete");
    disk.store.abort(&session, Attempt::FIRST).await.expect("abort");
    assert_eq!(disk.everything(), ["new/", "old/"]);
}

#[tokio::test]
async fn neighbours_that_come_and_go_do_not_disturb() {
    let disk = disk();
    let comers = (0..64).map(|comer| {
        let store = disk.store.clone();
        tokio::spawn(async move {
            let session =
                store.open(&format!("a/b/c/{comer}"), &options(), PartOrigin::Sent, Attempt::FIRST).await?;
            store.abort(&session, Attempt::FIRST).await
        })
    });
    for comer in futures::future::join_all(comers).await {
        comer.expect("no panic").expect("opened and aborted");
    }
    assert_eq!(disk.everything(), [""; 0]);
}

#[tokio::test]
async fn sessions_outlive_the_store_that_opened_them() {
    let disk = disk();
    for key in ["a/1", "a/b/2", "c"] {
        disk.store.open(key, &options(), PartOrigin::Sent, Attempt::FIRST).await.expect("open");
    }
    let long = format!("a/{}", "n".repeat(255));
    disk.store.open(&long, &options(), PartOrigin::Sent, Attempt::FIRST).await.expect("open");
    disk.file("a/object", b"");

    let later = Local::new(disk.root());
    let below: Vec<String> = sessions(&later, "a/b").await.into_iter().map(|session| session.key).collect();
    assert_eq!(below, ["a/b/2"]);
    let found = sessions(&later, "").await;
    assert_eq!(found.len(), 4);
    assert!(found.iter().any(|session| session.key == "a/1"));

    let resumed = found.iter().find(|session| session.key == "c").expect("c");
    let part = later.part(resumed, 1, 0, payload(b"later").into(), Attempt::FIRST).await.expect("part");
    later
        .complete(resumed, &[part], Some(&whole(b"later")), &options(), Attempt::FIRST)
        .await
        .expect("complete");
    assert_eq!(read(&later, "c", None).await.expect("get"), b"later");
    for session in sessions(&later, "").await {
        later.abort(&session, Attempt::FIRST).await.expect("abort");
    }
    // The later store created no directory, so it removes no directory.
    assert_eq!(disk.everything(), ["a/", "a/b/", "a/object", "c"]);
}

async fn kept_until(store: &Local) -> Vec<Option<SystemTime>> {
    let open: Vec<OpenSession> = store.sessions("").try_collect().await.expect("a listing");
    open.into_iter().map(|open| open.kept_until).collect()
}

fn in_an_hour() -> SystemTime {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("a time after 1970");
    SystemTime::UNIX_EPOCH + Duration::from_secs(since.as_secs() + 3600)
}

#[tokio::test]
async fn a_commit_that_is_refused_leaves_the_session_kept() {
    let disk = disk();
    let only = WriteOptions { create_only: true, ..options() };
    let session = disk.store.open("k", &only, PartOrigin::Sent, Attempt::FIRST).await.expect("open");
    let part = disk.store.part(&session, 1, 0, payload(b"AA").into(), Attempt::FIRST).await.expect("part");
    let until = in_an_hour();
    disk.store.keep(&session, until, Attempt::FIRST).await.expect("kept");
    disk.file("k", b"another");
    for _ in 0..2 {
        let parts = [part.clone()];
        let refused = disk.store.complete(&session, &parts, Some(&whole(b"AA")), &only, Attempt::FIRST).await;
        assert_eq!(kind(refused), FaultKind::Exists);
        assert_eq!(kept_until(&disk.store).await, [Some(until)]);
    }
    fs::remove_file(disk.root().join("k")).expect("removed");
    let object = disk.store.complete(&session, &[part], Some(&whole(b"AA")), &only, Attempt::FIRST).await;
    assert!(object.expect("published").modified.expect("a time") <= SystemTime::now());
    assert_eq!(read(&disk.store, "k", None).await.expect("get"), b"AA");
}

#[tokio::test]
async fn a_session_stays_kept_when_it_is_read_and_written() {
    let disk = disk();
    let session = disk.store.open("k", &options(), PartOrigin::Sent, Attempt::FIRST).await.expect("open");
    let until = in_an_hour();
    disk.store.keep(&session, until, Attempt::FIRST).await.expect("kept");
    let file = disk.root().join(format!(".tidegate-{}.part", session.id));
    for (number, offset) in [(1, 0), (2, 2)] {
        fs::read(&file).expect("read, as by a backup");
        assert_eq!(kept_until(&disk.store).await, [Some(until)]);
        let bytes = payload(b"AA").into();
        disk.store.part(&session, number, offset, bytes, Attempt::FIRST).await.expect("part");
        assert_eq!(kept_until(&disk.store).await, [Some(until)]);
    }
}
