//! Listings: order, prefixes, links.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use super::*;

#[tokio::test]
async fn key_order_is_not_directory_order() {
    let disk = disk();
    for key in ["a/b", "a-b", "a.b", "a0", "a/c/d", "b", "a/c-"] {
        disk.file(key, b"x");
    }
    disk.file(".tidegate-0123456789abcdef-k.part", b"");
    disk.file("a/.tidegate-0123456789abcdef.part", b"");
    assert_eq!(keys(&disk.store, "", true).await, ["a-b", "a.b", "a/b", "a/c-", "a/c/d", "a0", "b"]);
    assert_eq!(keys(&disk.store, "", false).await, ["a-b", "a.b", "a/…", "a0", "b"]);
    assert_eq!(keys(&disk.store, "a/", false).await, ["a/b", "a/c-", "a/c/…"]);
    assert_eq!(keys(&disk.store, "a/c", true).await, ["a/c-", "a/c/d"]);
    assert_eq!(keys(&disk.store, "a", false).await, ["a-b", "a.b", "a/…", "a0"]);
    for nothing in ["c", "c/d/", "b/", "/", "../", "a//", "a/../", "a\0/"] {
        assert_eq!(keys(&disk.store, nothing, true).await, [""; 0], "{nothing}");
    }
    let entries: Vec<Entry> = disk.store.list("a/b", true).try_collect().await.expect("a listing");
    assert_eq!(entries, [Entry::Object(disk.store.head("a/b").await.expect("head"))]);
}

#[tokio::test]
async fn many_files_come_in_batches() {
    let disk = disk();
    let mut expected: Vec<String> = (0..1000).map(|i| format!("d{}/f{i}", i % 7)).collect();
    expected.iter().for_each(|key| disk.file(key, b""));
    expected.sort();
    assert_eq!(keys(&disk.store, "", true).await, expected);
}

#[tokio::test]
async fn links_are_followed_but_not_in_circles() {
    let disk = disk();
    disk.file("d/f", b"bytes");
    let root = disk.root();
    symlink("d/f", root.join("link")).expect("a link");
    symlink("d", root.join("to-d")).expect("a link");
    symlink("..", root.join("d/up")).expect("a link");
    symlink(".", root.join("d/self")).expect("a link");
    symlink("nowhere", root.join("dangling")).expect("a link");
    symlink("circle", root.join("circle")).expect("a link");
    let fault = disk.store.head("circle").await.expect_err("a fault");
    assert_eq!(
        (fault.kind, fault.message.as_str()),
        (FaultKind::Invalid, "symbolic links go round in a circle")
    );
    fs::remove_file(root.join("circle")).expect("removed");

    assert_eq!(keys(&disk.store, "", true).await, ["d/f", "link", "to-d/f"]);
    assert_eq!(keys(&disk.store, "d/", true).await, ["d/f"]);
    assert_eq!(read(&disk.store, "link", None).await.expect("get"), b"bytes");
    assert_eq!(disk.store.head("link").await.expect("head").size, 5);

    // Written to, a link is replaced; what it led to stays.
    disk.store.put("link", payload(b"new"), &options()).await.expect("put");
    assert_eq!(read(&disk.store, "d/f", None).await.expect("get"), b"bytes");
    assert_eq!(kind(disk.store.put("dangling", payload(b""), &create_only()).await), FaultKind::Exists);
}

#[tokio::test]
async fn a_name_that_is_no_key_is_told_and_the_rest_listed() {
    let disk = disk();
    disk.file("a", b"");
    disk.file("z", b"");
    fs::write(disk.root().join(OsStr::from_bytes(b"m\xff")), b"").expect("a file");
    let found: Vec<Result<Entry, Fault>> = disk.store.list("", true).collect().await;
    let (listed, faults): (Vec<_>, Vec<_>) = found.into_iter().partition(Result::is_ok);
    assert_eq!((listed.len(), faults.len()), (2, 1));
    let fault = faults.into_iter().find_map(Result::err).expect("a fault");
    assert_eq!(fault.kind, FaultKind::Invalid);
    assert!(fault.message.ends_with("its name is not UTF-8"), "{fault}");
    assert_eq!(keys(&disk.store, "z", true).await, ["z"]);
}

#[tokio::test]
async fn a_root_that_is_a_file_is_said_so() {
    let directory = tempfile::tempdir().expect("a directory");
    fs::write(directory.path().join("f"), b"").expect("a file");
    let store = Local::new(directory.path().join("f"));
    let listed: Result<Vec<Entry>, Fault> = store.list("", true).try_collect().await;
    let fault = listed.expect_err("a fault");
    assert_eq!(fault.kind, FaultKind::Invalid);
    assert!(fault.message.ends_with("f is not a directory"), "{fault}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    /// The listing is that of a store that sorts keys as bytes.
    #[test]
    fn listings_are_those_of_a_sorted_map(
        names in prop::collection::vec("([ab.!0é-]{1,2}/){0,3}[ab.!0é-]{1,2}", 0..24),
        prefix in "([ab.!0-]{1,2}/){0,2}[ab.!0-]{0,2}",
    ) {
        let disk = disk();
        fs::create_dir_all(disk.root()).expect("a directory");
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        runtime.block_on(async {
            let model = Memory::new("model");
            for key in names {
                // Some can't be: `.`, `..`, a directory where a file is and the other way round.
                let Ok(target) = Target::of(&disk.root(), &key) else { continue };
                let made = fs::create_dir_all(target.directory()).and_then(|()| fs::write(target.path(), b""));
                if made.is_ok() {
                    model.put(&key, payload(b""), &options()).await.expect("put");
                }
            }
            for recursive in [true, false] {
                let (listed, expected) = (keys(&disk.store, &prefix, recursive), keys(&model, &prefix, recursive));
                assert_eq!(listed.await, expected.await, "{prefix:?} {recursive}");
            }
            assert!(keys(&disk.store, "", true).await.is_sorted());
        });
    }
}
