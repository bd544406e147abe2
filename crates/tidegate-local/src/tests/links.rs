//! The policies for symbolic links.

use super::*;

fn following(disk: &Disk) -> Local {
    disk.store.clone().links(LinkPolicy::Follow)
}

const BACK: &str = "a way back to a directory above it";

#[tokio::test]
async fn all_links_are_skipped() {
    let disk = disk();
    disk.file("d/f", b"1");
    for (to, link) in [("d/f", "file"), ("d", "dir"), ("nowhere", "broken")] {
        symlink(to, disk.root().join(link)).expect("a link");
    }
    let store = disk.store.clone().links(LinkPolicy::Skip);
    let link = "a symbolic link";
    let expected =
        [format!("broken: {link}"), "d/f".to_owned(), format!("dir: {link}"), format!("file: {link}")];
    let mut listed = keys(&store, "", true).await;
    listed.sort();
    assert_eq!(listed, expected);
}

#[tokio::test]
async fn links_to_directories_are_entered_in_the_order_of_keys() {
    let disk = disk();
    let out = disk.directory.path().join("out");
    fs::create_dir_all(out.join("deep")).expect("directories");
    for name in ["f", "deep/f"] {
        fs::write(out.join(name), b"1").expect("a file");
    }
    for key in ["a-b", "a.b", "a0", "d/f"] {
        disk.file(key, b"1");
    }
    symlink("../out", disk.root().join("a")).expect("a link");
    symlink("d/f", disk.root().join("link")).expect("a link");
    symlink("nowhere", disk.root().join("x")).expect("a link");
    let listed = keys(&following(&disk), "", true).await;
    let broken = "x: a symbolic link that leads nowhere";
    assert_eq!(listed, ["a-b", "a.b", "a/deep/f", "a/f", "a0", "d/f", "link", broken]);
    assert_eq!(keys(&following(&disk), "a/", true).await, ["a/deep/f", "a/f"]);
    assert_eq!(keys(&following(&disk), "a/deep/", true).await, ["a/deep/f"]);
    assert_eq!(keys(&following(&disk), "a", false).await, ["a-b", "a.b", "a/…", "a0"]);
    assert!(
        disk.store.list("a/", true).try_collect::<Vec<_>>().await.is_err(),
        "by default it is not entered"
    );
}

#[tokio::test]
async fn a_walk_in_a_circle_ends() {
    let disk = disk();
    let out = disk.directory.path().join("out");
    fs::create_dir_all(out.join("deep")).expect("directories");
    fs::write(out.join("deep/f"), b"1").expect("a file");
    disk.file("d/e/f", b"1");
    for (to, link) in [
        ("..", "d/up"),
        (".", "d/e/self"),
        ("../../..", "d/e/above-the-root"),
        ("/", "everything"),
        ("../out/deep", "out"),
    ] {
        symlink(to, disk.root().join(link)).expect("a link");
    }
    // Out of the link's own directory, to one above it, which contains it.
    symlink("..", out.join("deep/up")).expect("a link");
    let mut listed = keys(&following(&disk), "", true).await;
    listed.sort();
    let back = |key: &str| format!("{key}: {BACK}");
    let expected = [
        back("d/e/above-the-root"),
        "d/e/f".to_owned(),
        back("d/e/self"),
        back("d/up"),
        back("everything"),
        "out/f".to_owned(),
        // Not above the link, but it is entered once only.
        back("out/up/deep"),
    ];
    assert_eq!(listed, expected);
    let mut listed = keys(&following(&disk), "d/e/", true).await;
    listed.sort();
    assert_eq!(listed, [back("d/e/above-the-root"), "d/e/f".to_owned(), back("d/e/self")]);
}

/// A comparison of trees learns of the name before it comes to another tree's object of that name.
#[tokio::test]
async fn a_way_back_comes_in_the_order_of_its_name() {
    let disk = disk();
    disk.file("x-", b"1");
    disk.file("x.a", b"1");
    symlink(".", disk.root().join("x")).expect("a link");
    let listed = keys(&following(&disk), "", true).await;
    assert_eq!(listed, [format!("x: {BACK}"), "x-".to_owned(), "x.a".to_owned()]);
    assert_eq!(keys(&following(&disk), "", false).await, ["x-", "x.a", "x/…"]);
}

/// Deeper than the walk keeps directories open.
#[tokio::test]
async fn a_deep_tree_is_followed() {
    let disk = disk();
    let mut expected = Vec::new();
    let out = disk.directory.path().join("out");
    for depth in 0..40 {
        let below = "d/".repeat(depth);
        fs::create_dir_all(out.join(&below)).expect("directories");
        for name in ["a", "e"] {
            fs::write(out.join(&below).join(name), b"").expect("a file");
            expected.push(format!("link/{below}{name}"));
        }
    }
    fs::create_dir(disk.root()).expect("a directory");
    symlink(&out, disk.root().join("link")).expect("a link");
    expected.sort();
    assert_eq!(keys(&following(&disk), "", true).await, expected);
}

#[tokio::test]
async fn nothing_is_removed_through_a_followed_link() {
    let disk = disk();
    let out = disk.directory.path().join("out");
    fs::create_dir(&out).expect("a directory");
    fs::write(out.join("f"), b"keep").expect("a file");
    disk.file("x", b"1");
    symlink(&out, disk.root().join("link")).expect("a link");
    let store = following(&disk);
    let fault = store.delete("link/f", None, Attempt::FIRST).await.expect_err("a fault");
    assert!(fault.message.contains("is a symbolic link"), "{fault}");
    assert_eq!(fs::read(out.join("f")).expect("a file"), b"keep");
}

fn objects(disk: &Disk) -> Local {
    disk.store.clone().links(LinkPolicy::Objects)
}

async fn put(store: &Local, key: &str, text: &[u8], options: &WriteOptions) -> Result<Object, Fault> {
    store.put(key, payload(text), options, Attempt::FIRST).await
}

#[tokio::test]
async fn a_link_is_an_object() {
    let disk = disk();
    let store = objects(&disk);
    disk.file("d/f", b"1");
    symlink("..", disk.root().join("d/up")).expect("a link");
    symlink("no/where", disk.root().join("d-e")).expect("a link");
    assert_eq!(keys(&store, "", true).await, ["d-e.rclonelink", "d/f", "d/up.rclonelink"]);
    assert_eq!(keys(&store, "d/up.", true).await, ["d/up.rclonelink"]);
    assert_eq!(read(&store, "d-e.rclonelink", None).await.expect("get"), b"no/where");
    assert_eq!(read(&store, "d-e.rclonelink", Some(3..99)).await.expect("get"), b"where");
    let before = store.head("d-e.rclonelink", Attempt::FIRST).await.expect("head");
    assert_eq!(before.size, 8);

    let made = put(&store, "d-e.rclonelink", b"d/f", &options()).await.expect("put");
    assert_eq!(fs::read_link(disk.root().join("d-e")).expect("a link"), Path::new("d/f"));
    assert!(made.is_same(&store.head("d-e.rclonelink", Attempt::FIRST).await.expect("head")));
    assert_eq!(kind(put(&store, "d-e.rclonelink", b"x", &create_only()).await), FaultKind::Exists);
    assert_eq!(
        kind(store.delete("d-e.rclonelink", Some(&before), Attempt::FIRST).await),
        FaultKind::Replaced
    );
    store.delete("d-e.rclonelink", Some(&made), Attempt::FIRST).await.expect("removed");
    put(&store, "new/er/link.rclonelink", b"/", &create_only()).await.expect("put");
    assert_eq!(disk.everything(), ["d/", "d/f", "d/up", "new/", "new/er/", "new/er/link"]);
    // Of a file that only has such a name.
    disk.file("file.rclonelink", b"bytes");
    assert_eq!(read(&store, "file.rclonelink", None).await.expect("get"), b"bytes");
}

#[tokio::test]
async fn what_is_no_text_of_a_link_is_refused() {
    let disk = disk();
    let store = objects(&disk);
    for text in [&b""[..], b"a\0b", &[b'x'; 4097]] {
        assert_eq!(kind(put(&store, "k.rclonelink", text, &options()).await), FaultKind::Invalid);
    }
    for key in ["../k.rclonelink", "a//k.rclonelink", "/k.rclonelink"] {
        assert_eq!(kind(put(&store, key, b"x", &options()).await), FaultKind::Invalid, "{key}");
    }
    disk.file("d/f", b"1");
    assert_eq!(kind(put(&store, "d.rclonelink", b"x", &options()).await), FaultKind::Invalid, "a directory");
    assert_eq!(disk.everything(), ["d/", "d/f"]);
}

#[tokio::test]
async fn nothing_is_written_through_a_link() {
    let disk = disk();
    let store = objects(&disk);
    let out = disk.directory.path().join("out");
    fs::create_dir(&out).expect("a directory");
    fs::write(out.join("passwd"), b"keep").expect("a file");
    put(&store, "d.rclonelink", out.to_str().expect("UTF-8").as_bytes(), &options()).await.expect("put");
    put(&store, "passwd.rclonelink", b"../out/passwd", &options()).await.expect("put");
    for key in ["d/passwd", "d/new", "d/new/er", "passwd", "d/link.rclonelink", "d/new/link.rclonelink"] {
        for store in [&store, &Local::new(disk.root()).refuse_links()] {
            let fault = put(store, key, b"hostile", &options()).await.expect_err(key);
            assert!(
                fault.kind == FaultKind::Invalid && fault.message.contains("is a symbolic link"),
                "{key}: {fault}"
            );
            let opened = store.open(key, &options(), PartOrigin::Sent, Attempt::FIRST).await;
            assert_eq!(kind(opened), FaultKind::Invalid, "{key}");
        }
    }
    let download = tidegate::Tidegate::builder().build().expect("an engine");
    let source = download.open("memory://b").await.expect("a store");
    source.put("k", "hostile").await.expect("put");
    for key in ["d/passwd", "d/new/er", "passwd"] {
        let path = disk.root().join(key);
        for hint in [7, 1 << 30] {
            let refused = source.download("k", &path).size_hint(hint).refuse_links_below(disk.root()).await;
            let error = refused.expect_err(key);
            assert_eq!(error.kind(), tidegate::ErrorKind::InvalidInput, "{error}");
        }
    }
    source.download("k", disk.root().join("a/b")).refuse_links_below(disk.root()).await.expect("no link");
    // Without that, a user who made the link means what it leads to.
    source.download("k", disk.root().join("d/other")).await.expect("through a link");
    assert_eq!(fs::read(out.join("passwd")).expect("a file"), b"keep");
    assert_eq!(fs::read_dir(&out).expect("a directory").count(), 2);
}

/// A link that comes to stand where a directory was.
#[tokio::test]
async fn the_way_is_looked_at_again_before_a_session_is_published() {
    let disk = disk();
    let store = objects(&disk);
    let out = disk.directory.path().join("out");
    fs::create_dir(&out).expect("a directory");
    let session = store.open("d/k", &options(), PartOrigin::Sent, Attempt::FIRST).await.expect("open");
    fs::rename(disk.root().join("d"), out.join("d")).expect("renamed");
    symlink(out.join("d"), disk.root().join("d")).expect("a link");
    let bytes = payload(b"hostile");
    let part =
        store.part(&session, 1, 0, PartSource::Bytes(bytes.clone()), Attempt::FIRST).await.expect("a part");
    let checksum = bytes.checksum();
    let ended = store.complete(&session, &[part], checksum.as_ref(), &options(), Attempt::FIRST).await;
    assert_eq!(kind(ended), FaultKind::Invalid);
    assert!(!out.join("d/k").exists());
}
