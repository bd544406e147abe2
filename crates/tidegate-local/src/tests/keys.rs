//! Which keys are rejected, the errors for keys that collide with the directory tree, and which directory a
//! location names.

use super::*;
use tidegate_core::backend::CopySource;

#[tokio::test]
async fn keys_that_are_no_paths_below_are_refused() {
    let disk = disk();
    let cases = [
        ("", "it is empty"),
        ("/etc/x", "it is absolute"),
        ("../x", "it holds `.` or `..`"),
        ("a/../x", "it holds `.` or `..`"),
        ("a/./x", "it holds `.` or `..`"),
        ("a//x", "it holds two slashes in a row"),
        ("a/", "it ends with a slash, and so names a directory"),
        ("a\0x", "it holds a NUL"),
    ];
    for (key, reason) in cases {
        let fault = disk.store.put(key, payload(b""), &options(), Attempt::FIRST).await.expect_err("a fault");
        assert_eq!(fault.kind, FaultKind::Invalid);
        assert_eq!(fault.message, format!("no file below a directory has such a key: {reason}"));
        assert_eq!(kind(disk.store.head(key, Attempt::FIRST).await), FaultKind::Invalid);
        assert_eq!(kind(disk.store.delete(key, None, Attempt::FIRST).await), FaultKind::Invalid);
        assert_eq!(
            kind(disk.store.open(key, &options(), PartOrigin::Sent, Attempt::FIRST).await),
            FaultKind::Invalid
        );
    }
    for key in [
        ".tidegate-0123456789abcdef.part",
        "a/.tidegate-0123456789abcdef-k.part",
        ".tidegate-note-0123456789abcdef-k.part",
        ".tidegate-note-0123456789abcdef.part",
    ] {
        assert_eq!(
            kind(disk.store.put(key, payload(b""), &options(), Attempt::FIRST).await),
            FaultKind::Invalid
        );
    }
    for key in NOT_UNFINISHED {
        disk.store.put(key, payload(b"x"), &options(), Attempt::FIRST).await.expect(key);
        assert_eq!(disk.store.head(key, Attempt::FIRST).await.expect(key).size, 1);
    }
    disk.store.put("..a/b..", payload(b""), &options(), Attempt::FIRST).await.expect("dots within a name");
    let long = "n".repeat(256);
    let fault = disk.store.put(&long, payload(b""), &options(), Attempt::FIRST).await.expect_err("a fault");
    assert_eq!(
        (fault.kind, fault.message.as_str()),
        (FaultKind::Invalid, "the name is too long, or not one that files have")
    );
    disk.store
        .put(&long[1..], payload(b"x"), &create_only(), Attempt::FIRST)
        .await
        .expect("the longest name");
    assert_eq!(disk.everything().len(), 3 + NOT_UNFINISHED.len());
}

#[tokio::test]
async fn a_directory_is_no_object() {
    let disk = disk();
    disk.file("a/b/k", b"");
    for options in [options(), create_only()] {
        let fault = disk.store.put("a/b", payload(b""), &options, Attempt::FIRST).await.expect_err("a fault");
        assert_eq!((fault.kind, fault.message.as_str()), (FaultKind::Invalid, "it is a directory"));
        assert_eq!(
            kind(disk.store.open("a/b", &options, PartOrigin::Sent, Attempt::FIRST).await),
            FaultKind::Invalid
        );
    }
    assert_eq!(kind(disk.store.head("a/b", Attempt::FIRST).await), FaultKind::NotFound);
    assert_eq!(
        kind(disk.store.get("a/b", None, None, Attempt::FIRST).await.map(|_| ())),
        FaultKind::NotFound
    );
    assert_eq!(kind(disk.store.delete("a/b", None, Attempt::FIRST).await), FaultKind::Invalid);
    assert_eq!(disk.everything(), ["a/", "a/b/", "a/b/k"]);
}

#[tokio::test]
async fn a_file_is_no_directory() {
    let disk = disk();
    disk.file("f", b"");
    for key in ["f/k", "f/a/k"] {
        let fault = disk.store.put(key, payload(b""), &options(), Attempt::FIRST).await.expect_err("a fault");
        let way = disk.root().join("f");
        assert_eq!(fault.kind, FaultKind::Invalid);
        assert_eq!(fault.message, format!("a file is in the way of a directory: {}", way.display()));
        assert_eq!(kind(disk.store.head(key, Attempt::FIRST).await), FaultKind::Invalid);
    }
    assert_eq!(disk.everything(), ["f"]);
}

#[tokio::test]
async fn what_is_no_regular_file_is_neither_read_nor_replaced() {
    let disk = disk();
    disk.file("d/k", b"");
    let directory = disk.root().join("d");
    let _socket = std::os::unix::net::UnixListener::bind(directory.join("socket")).expect("a socket");
    let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
    rustix::fs::mknodat(rustix::fs::CWD, directory.join("pipe"), rustix::fs::FileType::Fifo, mode, 0)
        .expect("a pipe");
    for key in ["d/socket", "d/pipe"] {
        let fault = disk.store.put(key, payload(b""), &options(), Attempt::FIRST).await.expect_err("a fault");
        assert_eq!((fault.kind, fault.message.as_str()), (FaultKind::Invalid, "it is not a regular file"));
        assert_eq!(
            kind(disk.store.get(key, None, None, Attempt::FIRST).await.map(|_| ())),
            FaultKind::Invalid
        );
        assert_eq!(kind(disk.store.head(key, Attempt::FIRST).await), FaultKind::Invalid);
    }
    let listed = keys(&disk.store, "", true).await;
    assert_eq!(listed, ["d/k", "d/pipe: no regular file", "d/socket: no regular file"]);
}

#[tokio::test]
async fn a_directory_that_may_not_be_written_is_denied() {
    let disk = disk();
    disk.file("d/k", b"");
    let directory = disk.root().join("d");
    fs::set_permissions(&directory, fs::Permissions::from_mode(0o500)).expect("permissions");
    if fs::write(directory.join("probe"), b"").is_ok() {
        println!("skipped: this user may write everywhere");
        return;
    }
    let fault = disk.store.put("d/x", payload(b""), &options(), Attempt::FIRST).await.expect_err("a fault");
    assert_eq!(fault.kind, FaultKind::Denied);
    assert_eq!(fault.message, format!("permission denied in {}", directory.display()));
    fs::set_permissions(&directory, fs::Permissions::from_mode(0o700)).expect("permissions");
}

#[test]
fn errors_of_the_system_are_told_apart() {
    let directory = Path::new("/tmp");
    let of = |errno: rustix::io::Errno| fault(errno.into(), directory);
    use rustix::io::Errno;
    let kinds = [
        (Errno::NOENT, FaultKind::NotFound),
        (Errno::ACCESS, FaultKind::Denied),
        (Errno::PERM, FaultKind::Denied),
        (Errno::ROFS, FaultKind::Denied),
        (Errno::NOSPC, FaultKind::NoSpace),
        (Errno::DQUOT, FaultKind::NoSpace),
        (Errno::FBIG, FaultKind::NoSpace),
        (Errno::ISDIR, FaultKind::Invalid),
        (Errno::NOTDIR, FaultKind::Invalid),
        (Errno::NAMETOOLONG, FaultKind::Invalid),
        (Errno::LOOP, FaultKind::Invalid),
        (Errno::EXIST, FaultKind::Exists),
        (Errno::IO, FaultKind::Undone),
        (Errno::MFILE, FaultKind::Undone),
    ];
    for (errno, kind) in kinds {
        let fault = of(errno);
        assert_eq!(fault.kind, kind, "{errno:?}");
        assert!(fault.source.is_some());
        assert!(fault.answered && !fault.kind.is_ambiguous(), "the system's word is the store's: {errno:?}");
    }
}

#[test]
fn what_has_its_name_is_not_written_again() {
    let fault = temp::unsynced(Path::new("/tmp"), rustix::io::Errno::IO.into());
    assert!(fault.message.contains("published") && fault.message.contains("/tmp"), "{fault}");
    assert!(fault.answered && !fault.kind.is_retriable() && !fault.kind.is_ambiguous());
}

#[test]
fn the_location_of_a_store_names_its_root() {
    use std::os::unix::ffi::OsStrExt;
    let odd = |name: &'static [u8]| PathBuf::from(std::ffi::OsStr::from_bytes(name));
    let mut roots: Vec<PathBuf> =
        ["/", ".", "a", "a/", "/a/b/", "s3:/b", "./s3:", "host:b/c"].map(PathBuf::from).into();
    roots.extend([odd(b"/a/\xff/b"), odd(b"a\xff")]);
    for root in roots {
        let store = Local::new(&root);
        assert!(!store.location().ends_with('/'), "{root:?}");
        let named = std::path::absolute(local_root(store.location())).expect("a path");
        assert_eq!(named.components().as_path(), store.root.components().as_path(), "{root:?}");
    }
    assert_eq!(local_root(Local::new("").location()), Path::new("."));
}

#[tokio::test]
async fn a_store_of_the_root_directory_copies_what_is_below_it() {
    let disk = disk();
    disk.file("from", b"bytes");
    let store = Local::new("/");
    let key = |name: &str| disk.root().join(name).to_str().expect("a key").trim_start_matches('/').to_owned();
    let object = store.head(&key("from"), Attempt::FIRST).await.expect("there");
    let from = CopySource::new(store.location(), key("from"), object);
    store.copy(&from, &key("to"), None, &options(), Attempt::FIRST).await.expect("copied");
    assert_eq!(read(&disk.store, "to", None).await.expect("get"), b"bytes");
    assert!(disk.store.is_one_place(store.location(), &key("to"), "to").await);
    store.delete(&key("to"), None, Attempt::FIRST).await.expect("removed");
    assert_eq!(disk.everything(), ["from"]);
}
