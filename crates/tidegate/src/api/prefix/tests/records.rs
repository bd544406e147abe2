//! The records of layouts, and which versions can read them.

use super::*;
use crate::api::prefix::record;

async fn put(root: &Store, number: u64, text: &str) {
    let mut writer =
        root.writer(format!("{}{}", record::DIRECTORY, record::name(number))).start().await.unwrap();
    writer.write_bytes(text.to_owned().into()).await.unwrap();
    writer.finish().await.unwrap();
}

#[tokio::test]
async fn a_record_is_as_the_document_has_it() {
    let (tide, memory) = (engine(), memory());
    let root = root(&tide, &memory);
    let store = PrefixedStore::init(&root, base2(16)).await.unwrap();
    store.change(Layout::new(Naming::DecimalId, 100).unwrap()).await.unwrap();
    let mut text = String::new();
    let key = format!("{}00000002.json", record::DIRECTORY);
    root.reader(key).start().await.unwrap().read_to_string(&mut text).await.unwrap();
    assert_eq!(
        text,
        r#"{"format":1,"current":{"naming":"decimal-id","count":100},"older":{"naming":"base2","count":16}}"#
    );
}

#[tokio::test]
async fn what_is_no_record_is_told_of() {
    let tide = engine();
    for (text, expected, said) in [
        (r#"{"format":2,"shards":7}"#, ErrorKind::Unsupported, "format 2"),
        (r#"{"format":1,"current":{"naming":"base2","count":3}}"#, ErrorKind::InvalidInput, "power of two"),
        (r#"{"format":1,"current":{"naming":"other","count":4}}"#, ErrorKind::InvalidInput, "other"),
        (r#"{"format":1}"#, ErrorKind::InvalidInput, "current"),
        ("", ErrorKind::InvalidInput, "damaged"),
    ] {
        let root = root(&tide, &memory());
        PrefixedStore::init(&root, base2(4)).await.unwrap();
        put(&root, 2, text).await;
        let error = PrefixedStore::open(&root).await.unwrap_err();
        assert_eq!(error.kind(), expected, "{text}: {error}");
        assert!(error.to_string().contains(said), "{error}");
    }
}

#[tokio::test]
async fn other_files_beside_records_are_none() {
    let (tide, memory) = (engine(), memory());
    let root = root(&tide, &memory);
    PrefixedStore::init(&root, base2(4)).await.unwrap();
    for name in ["9.json", "00000009.json.bak", "notes", "00000009"] {
        let mut writer = root.writer(format!("{}{name}", record::DIRECTORY)).start().await.unwrap();
        writer.write_bytes("{}".into()).await.unwrap();
        writer.finish().await.unwrap();
    }
    assert_eq!(PrefixedStore::open(&root).await.unwrap().layout(), base2(4));
}

#[tokio::test]
async fn two_who_begin_at_once_agree() {
    let (tide, memory) = (engine(), memory());
    let root = root(&tide, &memory);
    let (one, other) =
        tokio::join!(PrefixedStore::init(&root, base2(16)), PrefixedStore::init(&root, base2(64)));
    let layout = PrefixedStore::open(&root).await.unwrap().layout();
    for (asked, outcome) in [(base2(16), one), (base2(64), other)] {
        match outcome {
            Ok(store) => assert!(store.layout() == layout && asked == layout),
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::InvalidInput);
                assert_ne!(asked, layout);
            }
        }
    }
    PrefixedStore::init(&root, layout).await.expect("the same once more");
}

#[tokio::test]
async fn a_root_without_a_record_is_not_opened() {
    let (tide, memory) = (engine(), memory());
    let error = PrefixedStore::open(&root(&tide, &memory)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    assert!(error.to_string().contains("prefix init"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_change_is_seen_when_what_is_known_is_too_old() {
    let (tide, memory) = (engine(), memory());
    let root = root(&tide, &memory);
    let other = PrefixedStore::init(&root, base2(4)).await.unwrap();
    let store = PrefixedStore::open(&root).await.unwrap();
    write(&store, "a", b"1").await.unwrap();
    other.change(base2(64)).await.unwrap();
    assert_eq!(read(&store, "a").await.unwrap(), b"1");
    assert_eq!(store.layout(), base2(4), "it is not asked for each time");
    tokio::time::sleep(PrefixedStore::REFRESH).await;
    write(&store, "a", b"2").await.unwrap();
    assert_eq!(store.layout(), base2(64));
    assert!(places(&memory).await.contains(&"root/110010/a".to_owned()));
    assert_eq!(read(&other, "a").await.unwrap(), b"2");
}

#[tokio::test]
async fn a_record_that_is_gone_stops_everything() {
    let (tide, memory) = (engine(), memory());
    let root = root(&tide, &memory);
    PrefixedStore::init(&root, base2(4)).await.unwrap();
    let store = attentive(&root).await;
    write(&store, "a", b"1").await.unwrap();
    root.delete(&format!("{}{}", record::DIRECTORY, record::name(1))).await.unwrap();
    assert_eq!(kind(write(&store, "a", b"2").await), ErrorKind::InvalidInput);
    assert_eq!(kind(store.head("a").await), ErrorKind::InvalidInput);
}
