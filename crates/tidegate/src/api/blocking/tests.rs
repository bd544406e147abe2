use std::time::Duration;

use std::io::{Read, Write};

use super::*;

#[test]
fn it_writes_reads_lists_and_aborts() {
    let tide = Tidegate::new(crate::Tidegate::builder()).unwrap();
    let store = tide.open("memory://blocking").unwrap();
    let mut writer = store.writer("a", |writer| writer.metadata("who", "me")).unwrap();
    writer.write_all(&[7; 100_000]).unwrap();
    writer.write_bytes(Bytes::from(vec![8; 100_000])).unwrap();
    writer.flush().unwrap();
    assert_eq!(writer.finish().unwrap().size, 200_000);

    let mut writer = store.writer("b", |writer| writer).unwrap();
    writer.write_all(&vec![1; 40 << 20]).unwrap();
    drop(writer);

    assert_eq!(store.copy("a", &store, "c", |copy| copy.create_only()).unwrap().size, 200_000);
    let another = Object { etag: Some("\"another\"".into()), ..store.head("c").unwrap() };
    let replaced = store.delete_if_unchanged("c", &another).unwrap_err();
    assert_eq!(replaced.kind(), ErrorKind::Replaced, "{replaced}");
    store.delete_if_unchanged("c", &store.head("c").unwrap()).unwrap();
    assert!(!store.exists("c").unwrap());
    store.delete("c").unwrap();
    let mut bytes = Vec::new();
    store.reader("a", |reader| reader.range(99_999..100_001)).unwrap().read_to_end(&mut bytes).unwrap();
    assert_eq!(bytes, [7, 8]);
    let keys: Vec<_> = store.list("", |list| list).map(|entry| entry.unwrap()).collect();
    assert_eq!(keys.len(), 1, "{keys:?}");
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a");
    assert_eq!(store.download("a", &path, |download| download.sync(true)).unwrap().size, 200_000);
    let exists = store.download("a", &path, |download| download.create_only()).unwrap_err();
    assert_eq!(exists.kind(), ErrorKind::AlreadyExists, "{exists}");
    assert_eq!(std::fs::read(path).unwrap(), [[7; 100_000], [8; 100_000]].concat());
    let swept = store.sweep("", |sweep| sweep.older_than(Duration::ZERO)).unwrap();
    assert_eq!(swept.ended, 0, "{swept:?}");
    assert_eq!(store.ensure_lifecycle().unwrap_err().kind(), ErrorKind::Unsupported);
    store.delete("a").unwrap();
    assert_eq!(store.head("a").unwrap_err().kind(), ErrorKind::NotFound);
}

#[test]
fn it_goes_on_with_what_was_left() {
    let folder = tempfile::tempdir().unwrap();
    let [journal, root] = ["journal", "root"].map(|name| folder.path().join(name));
    std::fs::create_dir(&journal).unwrap();
    let tide = || Tidegate::new(crate::Tidegate::builder().journal([&journal])).unwrap();
    let journaled = |writer: WriterBuilder| writer.strategy(crate::Strategy::Journal);
    {
        let tide = tide();
        let store = tide.open(root.to_str().unwrap()).unwrap();
        let mut writer = store.writer("a", journaled).unwrap();
        writer.write_all(&[7; 1000]).unwrap();
        assert_eq!(writer.sync().unwrap(), 1000);
    }
    let tide = tide();
    let left = tide.recover().unwrap();
    let Resumed::Writer(mut writer) = tide.resume(&left[0]).unwrap() else { panic!("not finished") };
    assert_eq!(writer.position(), 1000);
    writer.write_all(&[8; 10]).unwrap();
    assert_eq!(writer.finish().unwrap().size, 1010);
    assert!(tide.recover().unwrap().is_empty());
}

/// An engine and one of its writers, which has a session open in `memory`.
fn with_a_session(memory: &crate::backend::memory::Memory) -> (Tidegate, Writer) {
    let tide = Tidegate::new(crate::Tidegate::builder().memory(64 << 20).aborts_on_own_thread()).unwrap();
    let store = Store { engine: tide.engine.clone(), store: tide.tide().store(Arc::new(memory.clone())) };
    let mut writer = store.writer("k", |writer| writer.part_size(5 << 20)).unwrap();
    writer.write_bytes(vec![7; 20 << 20].into()).unwrap();
    assert_eq!(sessions(memory), 1);
    (tide, writer)
}

fn sessions(memory: &crate::backend::memory::Memory) -> usize {
    use crate::backend::Admin;
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(memory.sessions("").count())
}

/// One way to drop an engine, and a writer that holds it.
type Dropping = fn((Tidegate, Writer));

#[test]
fn an_engine_is_dropped_in_tasks_and_by_panics_and_its_sessions_are_aborted() {
    use tokio::runtime::Builder;
    fn panics(held: (Tidegate, Writer)) {
        let _held = held;
        panic!("the caller's bug");
    }
    let ways: [(&str, Dropping); 8] = [
        ("a thread", |held| drop(held)),
        ("a task of one thread", |held| {
            Builder::new_current_thread().build().unwrap().block_on(async move { drop(held) });
        }),
        ("a task of many threads", |held| {
            let runtime = Builder::new_multi_thread().worker_threads(2).build().unwrap();
            runtime.block_on(async move { tokio::spawn(async move { drop(held) }).await.unwrap() });
        }),
        ("a task that never ran", |held| {
            let runtime = Builder::new_current_thread().build().unwrap();
            runtime.spawn(async move { drop(held) });
            drop(runtime);
        }),
        ("a blocking task", |held| {
            let runtime = Builder::new_multi_thread().worker_threads(1).build().unwrap();
            runtime.block_on(async move { tokio::task::spawn_blocking(|| drop(held)).await.unwrap() });
        }),
        ("a panic", |held| assert!(std::thread::spawn(|| panics(held)).join().is_err())),
        ("a panic in a task of one thread", |held| {
            let runtime = Builder::new_current_thread().build().unwrap();
            let panicked = runtime.block_on(async move { tokio::spawn(async { panics(held) }).await });
            assert!(panicked.is_err());
        }),
        ("a panic in a task of many threads", |held| {
            let runtime = Builder::new_multi_thread().worker_threads(2).build().unwrap();
            let panicked = runtime.block_on(async move { tokio::spawn(async { panics(held) }).await });
            assert!(panicked.is_err());
        }),
    ];
    for (way, drop_it) in ways {
        let memory = crate::backend::memory::Memory::new("dropped");
        drop_it(with_a_session(&memory));
        assert_eq!(sessions(&memory), 0, "dropped in {way}");
    }
}

#[test]
fn a_reader_and_a_listing_that_hold_the_last_of_an_engine_are_dropped_in_a_task() {
    let tide = Tidegate::new(crate::Tidegate::builder()).unwrap();
    let store = tide.open("memory://last").unwrap();
    let mut writer = store.writer("a", |writer| writer).unwrap();
    writer.write_all(&vec![7; 20 << 20]).unwrap();
    writer.finish().unwrap();
    let mut reader = store.reader("a", |reader| reader).unwrap();
    reader.read_exact(&mut [0; 1000]).unwrap();
    let listing = store.list("", |list| list);
    drop((tide, store));
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async move { drop((reader, listing)) });
}
