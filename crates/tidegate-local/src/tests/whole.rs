//! Objects that are written in one request, and reads.

use super::*;
use tidegate_core::memory::budget::{Budget, Slab};
use tidegate_core::memory::payload::{Ring, SourceFile};

#[tokio::test]
async fn a_file_is_in_the_directories_of_its_key() {
    let disk = disk();
    assert_eq!(disk.store.location(), disk.root().to_str().expect("UTF-8"));
    assert_eq!(disk.store.endpoint(), "file://");
    disk.store.put("a/b/k", payload(b"some bytes"), &options(), Attempt::FIRST).await.expect("put");
    assert_eq!(disk.everything(), ["a/", "a/b/", "a/b/k"]);
    disk.store.delete("a/b/k/under", None, Attempt::FIRST).await.expect("delete what can't be");
    disk.store.delete("a/b/k", None, Attempt::FIRST).await.expect("delete");
    assert_eq!(disk.everything(), ["a/", "a/b/"]);
}

#[test]
fn a_root_is_named_as_it_was_given() {
    assert_eq!(Local::new("out/").location(), "out");
    assert_eq!(Local::new("/").location(), ""); // a slash and a key follow
    assert_eq!(Local::new("").location(), ".");
    assert!(Local::new("out").root.is_absolute());
}

#[tokio::test]
async fn large_objects_go_in_groups_and_come_back_in_pieces() {
    let disk = disk();
    let bytes: Vec<u8> = (0..5_000_000_u32).map(|i| (i ^ (i >> 8)) as u8).collect();
    let checksum = Checksum::of(ALGORITHM, &bytes);
    let one = Payload::from_memory(vec![Bytes::from(bytes.clone())], checksum);
    disk.store.put("one", one, &options(), Attempt::FIRST).await.expect("put");
    let tiny = Payload::from_memory(bytes.chunks(100).map(Bytes::copy_from_slice).collect(), checksum);
    disk.store.put("tiny", tiny, &options(), Attempt::FIRST).await.expect("put");
    for key in ["one", "tiny"] {
        let body = disk.store.get(key, Some(1..4_999_999), None, Attempt::FIRST).await.expect("get");
        assert_eq!((body.object.size, body.range.clone()), (5_000_000, 1..4_999_999));
        let pieces: Vec<Bytes> = body.stream.try_collect().await.expect("bytes");
        assert!(pieces.iter().all(|piece| piece.len() <= 256 << 10));
        assert!(pieces.concat() == bytes[1..4_999_999]);
    }
}

#[tokio::test]
async fn a_file_goes_through_fewer_buffers_than_a_group() {
    let disk = disk();
    let bytes: Vec<u8> = (0..3_000_000_u32).map(|i| (i >> 3) as u8).collect();
    let source = disk.directory.path().join("source");
    fs::write(&source, &bytes).expect("a file");
    let budget = Budget::new(1 << 20, 64 << 10);
    let mut slabs = Vec::new();
    for _ in 0..2 {
        slabs.push(Slab::new(budget.lease(64 << 10).await.unwrap()));
    }
    let file = Arc::new(SourceFile::open(&source).expect("a file"));
    let sent = Payload::from_file(file, 0, 3_000_000, Ring::new(slabs), ALGORITHM);
    let object = disk.store.put("k", sent.clone(), &options(), Attempt::FIRST).await.expect("put");
    assert_eq!(object.size, 3_000_000);
    assert_eq!(sent.checksum(), Some(Checksum::of(ALGORITHM, &bytes)));
    assert!(read(&disk.store, "k", None).await.expect("get") == bytes);

    // A failure of the source is reported as such, and leaves nothing.
    fs::OpenOptions::new().write(true).open(&source).expect("a file").set_len(2_500_000).expect("cut");
    let cut = disk.store.put("cut", sent, &options(), Attempt::FIRST).await.expect_err("a fault");
    assert_eq!(cut.kind, FaultKind::Source);
    assert!(cut.message.contains("truncated"), "{cut}");
    assert_eq!(disk.everything(), ["k"]);
}

#[tokio::test]
async fn bytes_that_are_fewer_than_the_checksum_covers_are_refused() {
    let disk = disk();
    let short = Payload::from_memory(vec![Bytes::from_static(b"ab")], Checksum::of(ALGORITHM, b"abc"));
    assert_eq!(kind(disk.store.put("a/k", short, &options(), Attempt::FIRST).await), FaultKind::Source);
    assert_eq!(disk.everything(), [""; 0]);
    assert!(!disk.root().exists(), "the root was made for an object that never came");
}

#[test]
fn a_link_stands_in_for_a_rename_that_does_not_replace() {
    let disk = disk();
    disk.file("from", b"new");
    disk.file("taken", b"old");
    let (from, to) = (disk.root().join("from"), disk.root().join("to"));
    let taken = temp::link_new(&from, &disk.root().join("taken")).expect_err("an error");
    assert_eq!(taken.kind(), io::ErrorKind::AlreadyExists);
    temp::link_new(&from, &to).expect("a link");
    assert_eq!(disk.everything(), ["taken", "to"]);
}

#[tokio::test]
async fn a_dropped_put_leaves_nothing() {
    let disk = disk();
    let bytes = vec![7_u8; 64 << 20];
    let large = Payload::from_memory(vec![Bytes::from(bytes.clone())], Checksum::of(ALGORITHM, &bytes));
    let options = create_only();
    for polls in 1..20 {
        let mut put = disk.store.put("a/b/k", large.clone(), &options, Attempt::FIRST);
        for _ in 0..polls {
            if futures::poll!(&mut put).is_ready() {
                panic!("too fast to be dropped");
            }
            tokio::time::sleep(std::time::Duration::from_millis(1)).await;
        }
        drop(put);
    }
    // Work on a blocking thread ends by itself after the future was dropped, and publishes nothing.
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(20);
    while disk.root().exists() && std::time::Instant::now() < deadline {
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    assert_eq!(disk.everything(), [""; 0]);
    assert!(!disk.root().exists());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dropped_put_leaves_no_name_behind_even_for_a_moment() {
    let disk = disk();
    let bytes = vec![7_u8; 16 << 20];
    let large = Payload::from_memory(vec![Bytes::from(bytes.clone())], Checksum::of(ALGORITHM, &bytes));
    let options = options();
    for wait in [0, 50, 100, 200, 500, 1000, 2000, 3000, 5000] {
        let mut put = disk.store.put("a/b/k", large.clone(), &options, Attempt::FIRST);
        let until = std::time::Instant::now() + std::time::Duration::from_micros(wait);
        while std::time::Instant::now() < until {
            assert!(futures::poll!(&mut put).is_pending(), "too fast to be dropped");
        }
        drop(put);
        // The process may end here, while a blocking thread is still at work.
        assert_eq!(disk.everything(), [""; 0], "after {wait} us");
        assert!(!disk.root().exists(), "after {wait} us");
    }
}

#[test]
fn nothing_gets_its_name_once_nobody_waits() {
    let disk = disk();
    let target = Target::to_write(&disk.root(), "k").expect("a key");
    let temp = Temp::create(&Arc::default(), target, Condition::None).expect("a file");
    assert_eq!(disk.everything().len(), 1);
    let waiter = waiting::Waiter::default();
    let waiting = waiter.waiting();
    drop(waiter);
    let given_up = temp.publish(Publish::of_write(&options()).expect("no condition"), &waiting);
    assert_eq!(kind(given_up), FaultKind::Transient);
    assert_eq!(disk.everything(), [""; 0]);
}

#[tokio::test]
async fn a_file_that_shrinks_while_it_is_read_is_an_error() {
    let disk = disk();
    disk.file("k", &vec![1; 600 << 10]);
    let mut body = disk.store.get("k", None, None, Attempt::FIRST).await.expect("get");
    assert_eq!(body.stream.next().await.expect("a piece").expect("bytes").len(), 256 << 10);
    let file = fs::OpenOptions::new().write(true).open(disk.root().join("k")).expect("the file");
    file.set_len(300 << 10).expect("cut");
    let fault = body.stream.next().await.expect("an end that is none").expect_err("a fault");
    assert_eq!(fault.kind, FaultKind::Source);
    let source = fault.source.as_ref().and_then(|source| source.downcast_ref::<io::Error>());
    let changed = source.and_then(io::Error::get_ref).and_then(|inner| inner.downcast_ref());
    assert!(matches!(changed, Some(SourceChanged::Truncated { offset }) if *offset == 300 << 10));
    assert!(body.stream.next().await.is_none());
}

/// Files below /proc have bytes, and a size of 0.
#[tokio::test]
async fn a_file_whose_size_the_system_does_not_tell_is_refused() {
    let store = Local::new("/proc/self");
    let refused = store.get("status", None, None, Attempt::FIRST).await.err().expect("it has bytes");
    assert_eq!(refused.kind, FaultKind::Unsupported);
    assert!(refused.message.contains("a size of 0, but it has bytes"), "{refused}");
}

#[tokio::test]
async fn a_file_replaced_while_it_is_read_is_read_to_its_end() {
    let disk = disk();
    disk.store.put("k", payload(&[1; 600 << 10]), &options(), Attempt::FIRST).await.expect("put");
    let mut body = disk.store.get("k", None, None, Attempt::FIRST).await.expect("get");
    body.stream.next().await.expect("a piece").expect("bytes");
    disk.store.put("k", payload(b"short"), &options(), Attempt::FIRST).await.expect("put");
    let rest: Vec<Bytes> = body.stream.try_collect().await.expect("bytes");
    assert!(rest.concat() == vec![1; 344 << 10]);
}

#[tokio::test]
async fn a_file_that_is_written_to_while_it_is_read_is_no_object() {
    let disk = disk();
    disk.file("k", &[1; 600_000]);
    let mut body = disk.store.get("k", None, None, Attempt::FIRST).await.expect("get").stream;
    assert_eq!(body.try_next().await.expect("a piece").expect("bytes")[0], 1);
    let file = fs::OpenOptions::new().write(true).open(disk.root().join("k")).expect("the file");
    file.write_all_at(&[2; 600_000], 0).expect("bytes");
    assert_eq!(kind(body.try_next().await), FaultKind::Replaced);
}

#[test]
fn a_removal_that_was_dropped_before_it_began_does_not_begin() {
    let runtime = tokio::runtime::Builder::new_current_thread().max_blocking_threads(1).build().unwrap();
    runtime.block_on(async {
        let disk = disk();
        disk.file("k", b"1");
        let (release, released) = std::sync::mpsc::channel();
        let busy = tokio::task::spawn_blocking(move || released.recv());
        let mut removal = Box::pin(disk.store.delete("k", None, Attempt::FIRST));
        assert!(futures::poll!(&mut removal).is_pending());
        drop(removal);
        release.send(()).unwrap();
        busy.await.unwrap().unwrap();
        // The pool has one thread, and carries out the removal before this.
        tokio::task::spawn_blocking(|| ()).await.unwrap();
        assert_eq!(disk.everything(), ["k"]);
    });
}
