//! Writes that replace one file and no other.

use futures::future::join_all;

use super::*;
use crate::facts::FileFacts;

fn replacing(object: &Object) -> WriteOptions {
    WriteOptions { replaces: Some(Box::new(object.clone())), ..WriteOptions::default() }
}

async fn there(disk: &Disk) -> Object {
    disk.store.head("k", Attempt::FIRST).await.expect("a file")
}

async fn put(disk: &Disk, bytes: &[u8], options: &WriteOptions) -> Result<Object, Fault> {
    disk.store.put("k", payload(bytes), options, Attempt::FIRST).await
}

fn content(disk: &Disk) -> Vec<u8> {
    fs::read(disk.root().join("k")).expect("a file")
}

/// Of those that do not find the file locked.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_many_writers_one_replaces_it() {
    let disk = disk();
    for round in 0..50_u8 {
        disk.file("k", &[round]);
        let options = replacing(&there(&disk).await);
        let (disk, options) = (&disk, &options);
        let racers = (0..8_u8).map(|racer| async move { put(disk, &[round, racer], options).await });
        let results = join_all(racers).await;
        let winners: Vec<_> = (0..8).filter(|racer| results[*racer].is_ok()).collect();
        let [winner] = winners[..] else { panic!("{results:?}") };
        assert_eq!(content(disk), [round, winner as u8]);
        for fault in results.iter().filter_map(|result| result.as_ref().err()) {
            assert!(matches!(fault.kind, FaultKind::Exists | FaultKind::Undone), "{fault:?}");
        }
        assert_eq!(disk.everything(), ["k"], "no unfinished file is left");
    }
}

#[tokio::test]
async fn a_file_that_has_changed_or_gone_stays_as_it_is() {
    let disk = disk();
    type Change = fn(&Path);
    let changes: [(&str, Change); 4] = [
        ("bytes were added in place", |path| {
            fs::OpenOptions::new()
                .append(true)
                .open(path)
                .and_then(|file| file.write_all_at(b"!", 3))
                .unwrap();
        }),
        ("its time was set", |path| {
            let file = fs::File::options().write(true).open(path).unwrap();
            file.set_modified(std::time::SystemTime::UNIX_EPOCH).unwrap();
        }),
        ("another file of its content and time has its place", |path| {
            let (other, time) =
                (path.with_file_name("other"), fs::metadata(path).unwrap().modified().unwrap());
            fs::write(&other, fs::read(path).unwrap()).unwrap();
            fs::File::options().write(true).open(&other).unwrap().set_modified(time).unwrap();
            fs::rename(other, path).unwrap();
        }),
        ("it was removed", |path| fs::remove_file(path).unwrap()),
    ];
    for (what, change) in changes {
        disk.file("k", b"old");
        let options = replacing(&there(&disk).await);
        let session =
            disk.store.open("k", &options, PartOrigin::Sent, Attempt::FIRST).await.expect("a session");
        let part = disk.store.part(&session, 1, 0, payload(b"new").into(), Attempt::FIRST).await.expect(what);
        change(&disk.root().join("k"));
        let now = fs::read(disk.root().join("k")).ok();
        let whole = Checksum::of(ALGORITHM, b"new");
        let completed = disk.store.complete(&session, &[part], Some(&whole), &options, Attempt::FIRST).await;
        assert_eq!(kind(completed), FaultKind::Exists, "{what}");
        assert_eq!(kind(put(&disk, b"new", &options).await), FaultKind::Exists, "{what}");
        disk.store.abort(&session, Attempt::FIRST).await.expect("aborted");
        assert_eq!(fs::read(disk.root().join("k")).ok(), now, "{what}");
    }
}

#[tokio::test]
async fn a_file_behind_a_link_is_replaced_where_it_is() {
    let disk = disk();
    disk.file("real", b"old");
    symlink("real", disk.root().join("k")).expect("a link");
    let options = replacing(&there(&disk).await);
    put(&disk, b"new", &options).await.expect("replaced");
    assert!(disk.root().join("k").is_symlink());
    assert_eq!(fs::read(disk.root().join("real")).expect("a file"), b"new");
    assert_eq!(kind(put(&disk, b"again", &options).await), FaultKind::Exists);
}

#[tokio::test]
async fn a_file_that_another_program_has_locked_is_not_replaced_on_a_condition() {
    let disk = disk();
    disk.file("k", b"old");
    let options = replacing(&there(&disk).await);
    let locked = fs::File::open(disk.root().join("k")).expect("a file");
    locked.lock().expect("a lock");
    assert_eq!(kind(put(&disk, b"new", &options).await), FaultKind::Undone);
    assert_eq!(content(&disk), b"old");
    locked.unlock().expect("unlocked");
    put(&disk, b"new", &options).await.expect("replaced");
    // The new file is locked by nobody.
    fs::File::open(disk.root().join("k")).expect("a file").try_lock().expect("a lock");
}

#[tokio::test]
async fn an_object_of_another_store_is_no_file() {
    let disk = disk();
    disk.file("k", b"old");
    let etags =
        ["\"9e107d9d372bb6826bd81d3542a419d6\"", "W/\"1-1-1\"", "\"1-1\"", "\"01-1-1\"", "\"\"", "1-1-1"];
    for etag in etags {
        let other = Object { etag: Some(etag.to_owned()), ..Object::default() };
        assert_eq!(kind(put(&disk, b"new", &replacing(&other)).await), FaultKind::Exists, "{etag}");
    }
    let contradiction = WriteOptions { create_only: true, ..replacing(&there(&disk).await) };
    assert_eq!(kind(put(&disk, b"new", &contradiction).await), FaultKind::Exists);
    assert_eq!(content(&disk), b"old");
}

proptest! {
    #[test]
    fn an_etag_tells_the_facts(seconds in any::<i64>(), rest in 0..1_000_000_000_u32, inode: u64, size: u64) {
        let facts = FileFacts::new(inode, size, (seconds, rest));
        let etag = target::describe("k", facts).etag.expect("an ETag");
        prop_assert_eq!(FileFacts::of_etag(&etag), Some(facts));
    }
}
