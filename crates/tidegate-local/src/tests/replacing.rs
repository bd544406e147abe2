//! Writes to a path that already has a file or a link.

use std::os::unix::fs::MetadataExt;

use super::*;
use tidegate_core::backend::{Copied, CopySource};

fn mode(path: &Path) -> u32 {
    fs::metadata(path).expect("a file").mode() & 0o7777
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("permissions");
}

async fn in_parts(store: &Local, key: &str, bytes: &[u8]) {
    let session = store.open(key, &options(), PartOrigin::Sent, Attempt::FIRST).await.expect("a session");
    let part = store.part(&session, 1, 0, payload(bytes).into(), Attempt::FIRST).await.expect("a part");
    assert_eq!(store.held(&session, Attempt::FIRST).await.expect("held").bytes, bytes.len() as u64);
    let checksum = Checksum::of(ALGORITHM, bytes);
    store.complete(&session, &[part], Some(&checksum), &options(), Attempt::FIRST).await.expect("completed");
}

async fn copied(store: &Local, from: &str, to: &str) -> Result<Object, Fault> {
    let object = store.head(from, Attempt::FIRST).await?;
    let from = CopySource::new(store.location(), from.to_owned(), object);
    match store.copy(&from, to, None, &options(), Attempt::FIRST).await? {
        Copied::Whole(object) => Ok(*object),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn each_way_to_write_keeps_the_mode_of_the_file() {
    let disk = disk();
    disk.file("source", b"new");
    disk.file("k", b"old");
    let path = disk.root().join("k");
    for had in [0o600, 0o640, 0o755, 0o4711] {
        for way in ["put", "parts", "copy"] {
            fs::write(&path, "old").expect("a file");
            set_mode(&path, had);
            match way {
                "put" => {
                    drop(disk.store.put("k", payload(b"new"), &options(), Attempt::FIRST).await.expect("put"))
                }
                "parts" => in_parts(&disk.store, "k", b"new").await,
                _ => drop(copied(&disk.store, "source", "k").await.expect("copied")),
            }
            assert_eq!(
                (mode(&path), fs::read(&path).expect("a file")),
                (had & 0o777, b"new".to_vec()),
                "{way}"
            );
        }
    }
    // A new file gets the mode that the umask gives.
    disk.file("other", b"");
    disk.store.put("fresh", payload(b""), &options(), Attempt::FIRST).await.expect("put");
    assert_eq!(mode(&disk.root().join("fresh")), mode(&disk.root().join("other")));
}

#[tokio::test]
async fn an_unfinished_file_is_private() {
    let disk = disk();
    let session =
        disk.store.open("k", &options(), PartOrigin::Sent, Attempt::FIRST).await.expect("a session");
    let name = disk.everything().remove(0);
    assert_eq!(mode(&disk.root().join(name)), 0o600);
    disk.store.abort(&session, Attempt::FIRST).await.expect("aborted");
}

#[tokio::test]
async fn each_way_to_write_follows_a_link_and_leaves_it() {
    let disk = disk();
    disk.file("source", b"new");
    disk.file("real/file", b"old");
    let root = disk.root();
    symlink("real/file", root.join("link")).expect("a link");
    symlink("real/made", root.join("dangling")).expect("a link");
    for way in ["put", "parts", "copy"] {
        for (link, file) in [("link", "real/file"), ("dangling", "real/made")] {
            match way {
                "put" => drop(
                    disk.store.put(link, payload(b"new"), &options(), Attempt::FIRST).await.expect("put"),
                ),
                "parts" => in_parts(&disk.store, link, b"new").await,
                _ => drop(copied(&disk.store, "source", link).await.expect("copied")),
            }
            assert!(root.join(link).is_symlink(), "{way}");
            assert_eq!(fs::read(root.join(file)).expect("a file"), b"new", "{way}");
        }
        fs::write(root.join("real/file"), "old").expect("a file");
        fs::remove_file(root.join("real/made")).expect("removed");
    }
    // A dangling link counts as existing.
    assert_eq!(
        kind(disk.store.put("dangling", payload(b""), &create_only(), Attempt::FIRST).await),
        FaultKind::Exists
    );
    assert_eq!(
        kind(disk.store.open("dangling", &create_only(), PartOrigin::Sent, Attempt::FIRST).await),
        FaultKind::Exists
    );
    // An aborted session leaves nothing, not even behind a link.
    let session =
        disk.store.open("link", &options(), PartOrigin::Sent, Attempt::FIRST).await.expect("a session");
    assert!(disk.everything().iter().any(|name| name.starts_with("real/.tidegate-")));
    disk.store.abort(&session, Attempt::FIRST).await.expect("aborted");
    assert_eq!(disk.everything(), ["dangling", "link", "real/", "real/file", "source"]);
}

#[tokio::test]
async fn a_copy_onto_itself_changes_nothing() {
    let disk = disk();
    disk.file("a", b"bytes");
    let root = disk.root();
    symlink("a", root.join("link")).expect("a link");
    fs::hard_link(root.join("a"), root.join("hard")).expect("a link");
    for to in ["a", "link", "hard"] {
        assert_eq!(copied(&disk.store, "a", to).await.expect("copied").key, to);
        assert_eq!(read(&disk.store, "a", None).await.expect("get"), b"bytes");
    }
    assert_eq!(copied(&disk.store, "link", "a").await.expect("copied").size, 5);
    assert_eq!(disk.everything(), ["a", "hard", "link"]);
    assert_eq!(fs::metadata(root.join("a")).expect("a file").nlink(), 2);
}

#[tokio::test]
async fn no_directory_is_made_directly_below_the_root_directory() {
    let store = Local::new("/no-such-root-of-tidegate/a");
    let fault = store.put("b/k", payload(b""), &options(), Attempt::FIRST).await.expect_err("a fault");
    assert_eq!(fault.kind, FaultKind::Invalid);
    assert!(fault.message.contains("there is no directory /no-such-root-of-tidegate,"), "{fault}");
    assert_eq!(kind(store.open("k", &options(), PartOrigin::Sent, Attempt::FIRST).await), FaultKind::Invalid);
    let arrival = Arrival::begin(Path::new("/no-such-root-of-tidegate/f"), &"0".repeat(16));
    assert_eq!(kind(arrival.map(|_| ())), FaultKind::Invalid);
    let disk = disk();
    disk.store.put("new/dir/k", payload(b""), &options(), Attempt::FIRST).await.expect("put");
}

#[tokio::test]
async fn nothing_is_written_or_removed_through_a_planted_link_to_a_directory() {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: only root can give a link to another user");
        return;
    }
    let disk = disk();
    disk.file("home/key", b"old");
    disk.file("home/source", b"new");
    disk.file("sticky/file", b"");
    let sticky = disk.root().join("sticky");
    set_mode(&sticky, 0o1777);
    let link = sticky.join("out");
    symlink("../home", &link).expect("a link");
    std::os::unix::fs::lchown(&link, Some(4711), None).expect("an owner");
    // The link as the store's root, and below the root.
    for (store, below) in [(Local::new(&link), ""), (Local::new(&sticky), "out/")] {
        let (key, new) = (format!("{below}key"), format!("{below}new/k"));
        for key in [&key, &new] {
            assert_eq!(
                kind(store.put(key, payload(b"planted"), &options(), Attempt::FIRST).await),
                FaultKind::Denied
            );
            assert_eq!(
                kind(store.put(key, payload(b"planted"), &create_only(), Attempt::FIRST).await),
                FaultKind::Denied
            );
            assert_eq!(
                kind(store.open(key, &options(), PartOrigin::Sent, Attempt::FIRST).await),
                FaultKind::Denied
            );
        }
        assert_eq!(kind(copied(&store, &format!("{below}source"), &key).await), FaultKind::Denied);
        let arrival = Arrival::begin(&store.root.join(&new), &"0".repeat(16));
        assert_eq!(kind(arrival.map(|_| ())), FaultKind::Denied);
        store.delete(&key, None, Attempt::FIRST).await.expect_err("a fault");
        assert_eq!(read(&store, &key, None).await.expect("reading goes through links"), b"old");
    }
    assert_eq!(kind(Local::new(&link).delete("key", None, Attempt::FIRST).await), FaultKind::Denied);
    assert_eq!(
        disk.everything(),
        ["home/", "home/key", "home/source", "sticky/", "sticky/file", "sticky/out"]
    );
    // The link itself can be removed, and a link that the caller owns is followed.
    Local::new(&sticky).delete("out", None, Attempt::FIRST).await.expect("removed");
    symlink("../home", &link).expect("a link");
    let store = Local::new(&link);
    store.put("key", payload(b"new"), &options(), Attempt::FIRST).await.expect("put");
    assert_eq!(disk.everything().len(), 6);
    store.delete("key", None, Attempt::FIRST).await.expect("removed");
    assert!(!disk.root().join("home/key").exists());
}
