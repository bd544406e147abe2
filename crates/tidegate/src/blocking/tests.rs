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
    store.delete("c").unwrap();
    let mut bytes = Vec::new();
    store.reader("a", |reader| reader.range(99_999..100_001)).unwrap().read_to_end(&mut bytes).unwrap();
    assert_eq!(bytes, [7, 8]);
    let keys: Vec<_> = store.list("", true).map(|entry| entry.unwrap()).collect();
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
