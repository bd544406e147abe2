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
