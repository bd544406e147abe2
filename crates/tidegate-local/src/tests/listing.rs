//! Listings of directories: order, prefixes, links.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use super::*;

#[tokio::test]
async fn neither_unfinished_files_nor_what_no_key_begins_with_are_listed() {
    let disk = disk();
    for key in ["a/b", ".tidegate-0123456789abcdef-k.part", "a/.tidegate-0123456789abcdef.part"] {
        disk.file(key, b"x");
    }
    assert_eq!(keys(&disk.store, "", true).await, ["a/b"]);
    NOT_UNFINISHED.iter().for_each(|key| disk.file(key, b"x"));
    let mut files = [NOT_UNFINISHED.as_slice(), &["a/b"]].concat();
    files.sort_unstable();
    assert_eq!(keys(&disk.store, "", true).await, files);
    for nothing in ["/", "../", "a//", "a/../", "a\0/"] {
        assert_eq!(keys(&disk.store, nothing, true).await, [""; 0], "{nothing}");
    }
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
async fn links_are_listed_and_never_entered() {
    let disk = disk();
    disk.file("d/f", b"bytes");
    let (root, out) = (disk.root(), disk.directory.path().join("out"));
    fs::create_dir(&out).expect("a directory");
    fs::write(out.join("precious"), b"keep").expect("a file");
    for (to, link) in [("d/f", "link"), ("d", "to-d"), ("../out", "out"), ("nowhere", "dangling")] {
        symlink(to, root.join(link)).expect("a link");
    }
    symlink("..", root.join("d/up")).expect("a link");
    symlink("circle", root.join("circle")).expect("a link");
    let fault = disk.store.head("circle", Attempt::FIRST).await.expect_err("a fault");
    assert_eq!(
        (fault.kind, fault.message.as_str()),
        (FaultKind::Invalid, "symbolic links go round in a circle")
    );

    let (directory, nowhere) = ("a symbolic link to a directory", "a symbolic link that leads nowhere");
    let listed = keys(&disk.store, "", true).await;
    let expected = [
        format!("circle: {nowhere}"),
        "d/f".to_owned(),
        format!("d/up: {directory}"),
        format!("dangling: {nowhere}"),
        "link".to_owned(),
        format!("out: {directory}"),
        format!("to-d: {directory}"),
    ];
    assert_eq!(listed, expected);
    assert_eq!(read(&disk.store, "link", None).await.expect("get"), b"bytes");
    assert_eq!(disk.store.head("link", Attempt::FIRST).await.expect("head").size, 5);
    // The user named a link: an empty listing would claim that the directory is empty.
    let through: Result<Vec<Entry>, Fault> = disk.store.list("out/", true).try_collect().await;
    assert!(through.expect_err("a fault").message.contains("root/out is a symbolic link"));

    // Everything that is listed can be removed, and nothing else.
    let fault = disk.store.delete("out/precious", None, Attempt::FIRST).await.expect_err("a fault");
    assert!(fault.message.contains("is a symbolic link"), "{fault}");
    let entries: Vec<Entry> = disk.store.list("", true).try_collect().await.expect("a listing");
    for entry in entries {
        disk.store.delete(entry.key(), None, Attempt::FIRST).await.expect("removed");
    }
    assert_eq!(disk.everything(), ["d/"]);
    assert_eq!(fs::read(out.join("precious")).expect("a file"), b"keep");
}

#[tokio::test]
async fn a_directory_that_is_swapped_for_a_link_is_not_entered() {
    let disk = disk();
    (0..300).for_each(|i| disk.file(&format!("a/{i:03}"), b""));
    disk.file("z/f", b"");
    let out = disk.directory.path().join("out");
    fs::create_dir(&out).expect("a directory");
    fs::write(out.join("precious"), b"keep").expect("a file");
    let mut listing = disk.store.list("", true);
    // By now the names at the root are read, and one batch of the names in `a`.
    listing.next().await.expect("an entry").expect("a name");
    fs::remove_dir_all(disk.root().join("z")).expect("removed");
    symlink(&out, disk.root().join("z")).expect("a link");
    let rest: Vec<Entry> = listing.try_collect().await.expect("a listing");
    let last = rest.last().expect("an entry");
    assert_eq!(*last, Entry::Other { key: "z".to_owned(), kind: OtherKind::LinkToDirectory });
    assert_eq!(rest.len(), 300);
}

#[tokio::test]
async fn sessions_behind_links_are_neither_listed_nor_ended() {
    let disk = disk();
    disk.file("k", b"");
    let out = disk.directory.path().join("out");
    fs::create_dir(&out).expect("a directory");
    let unfinished = ".tidegate-0123456789abcdef-y.part";
    fs::write(out.join(unfinished), b"bytes").expect("a file");
    symlink(&out, disk.root().join("link")).expect("a link");
    symlink(out.join(unfinished), disk.root().join(unfinished)).expect("a link");
    let listed: Vec<OpenSession> = disk.store.sessions("").try_collect().await.expect("a listing");
    assert!(listed.is_empty(), "{listed:?}");
    let session = Session { key: "link/y".to_owned(), id: "0123456789abcdef-y".to_owned() };
    disk.store.abort(&session, Attempt::FIRST).await.expect_err("a fault");
    assert_eq!(fs::read(out.join(unfinished)).expect("a file"), b"bytes");
}

#[tokio::test]
async fn a_deep_tree_is_listed_with_few_descriptors() {
    let disk = disk();
    let mut expected = Vec::new();
    for depth in 0..60 {
        let below = "d/".repeat(depth);
        for name in ["a", "e"] {
            disk.file(&format!("{below}{name}"), b"");
            expected.push(format!("{below}{name}"));
        }
    }
    expected.sort();
    assert_eq!(keys(&disk.store, "", true).await, expected);
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
async fn a_directory_that_may_not_be_read_is_told_and_the_rest_listed() {
    let disk = disk();
    for key in ["a", "closed/b", "z"] {
        disk.file(key, b"");
    }
    let closed = disk.root().join("closed");
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o000)).expect("permissions");
    if fs::read_dir(&closed).is_ok() {
        println!("skipped: this user may read everywhere");
        return;
    }
    let found: Vec<Result<Entry, Fault>> = disk.store.list("", true).collect().await;
    let (listed, faults): (Vec<_>, Vec<_>) = found.into_iter().partition(Result::is_ok);
    assert_eq!((listed.len(), faults.len()), (2, 1));
    assert_eq!(kind(faults.into_iter().next().expect("a fault")), FaultKind::Denied);
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o700)).expect("permissions");
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

    /// A listing is the same as that of a store that sorts keys as bytes.
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
                // Some keys are impossible: `.`, `..`, a directory in the place of a file, or the reverse.
                let Ok(target) = Target::of(&disk.root(), &key) else { continue };
                let made = fs::create_dir_all(target.directory()).and_then(|()| fs::write(target.path(), b""));
                if made.is_ok() {
                    model.put(&key, payload(b""), &options(), Attempt::FIRST).await.expect("put");
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
