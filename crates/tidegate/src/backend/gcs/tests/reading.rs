//! Reading, listing and removing objects.

use super::*;

over_both! {
    ranges_are_read,
    only_the_same_object_is_read,
    what_is_not_there_is_told,
    a_listing_goes_through_all_pages_in_order,
}

async fn ranges_are_read(over: GcsTransport) {
    let place = place(over).await;
    let data = bytes_of(300_000);
    place.store.put("k", in_memory(&data), &WriteOptions::default(), Attempt::FIRST).await.unwrap();
    for (asked, got) in [(0..1, 0..1), (7..70_000, 7..70_000), (299_999..u64::MAX, 299_999..300_000)] {
        let body = place.store.get("k", Some(asked.clone()), None, Attempt::FIRST).await.unwrap();
        assert_eq!((body.range.clone(), body.object.size), (got.clone(), 300_000));
        let expected = &data[got.start as usize..got.end as usize];
        assert!(read_back(&place.store, "k", Some(asked)).await == expected);
    }
    assert_eq!(read_back(&place.store, "k", Some(5..5)).await, b"");
    let (refused, said) = kind(place.store.get("k", Some(300_000..300_001), None, Attempt::FIRST)).await;
    assert_eq!(refused, FaultKind::Invalid, "{said}");
}

async fn only_the_same_object_is_read(over: GcsTransport) {
    only_the_same_is_read_or_removed(&place(over).await.store, Algorithm::Crc32c).await;
}

async fn what_is_not_there_is_told(over: GcsTransport) {
    let place = place(over).await;
    let elsewhere = Gcs::connect("nowhere", &settings_for(&place.server, over)).await.unwrap();
    let options = WriteOptions::default();
    assert_eq!(kind(place.store.head("k", Attempt::FIRST)).await.0, FaultKind::NotFound);
    assert_eq!(kind(place.store.get("k", None, None, Attempt::FIRST)).await.0, FaultKind::NotFound);
    place.store.delete("k", None, Attempt::FIRST).await.unwrap();
    assert_eq!(kind(elsewhere.head("k", Attempt::FIRST)).await.0, FaultKind::NoBucket);
    assert_eq!(
        kind(elsewhere.put("k", in_memory(b"1"), &options, Attempt::FIRST)).await.0,
        FaultKind::NoBucket
    );
    assert_eq!(
        kind(Parts::open(&elsewhere, "k", &options, PartOrigin::Sent, Attempt::FIRST)).await.0,
        FaultKind::NoBucket
    );
    assert_eq!(kind(elsewhere.list("", true).try_collect::<Vec<_>>()).await.0, FaultKind::NoBucket);
    assert_eq!(kind(elsewhere.delete("k", None, Attempt::FIRST)).await.0, FaultKind::NoBucket);
}

async fn a_listing_goes_through_all_pages_in_order(over: GcsTransport) {
    let place = place(over).await;
    let keys: Vec<String> = (0..1100).map(|at| format!("d/{at:05}")).collect();
    let puts =
        keys.iter().map(String::as_str).chain(["a", "z b/ü"]).map(|key| {
            let (store, key) = (place.store.clone(), key.to_owned());
            async move {
                store.put(&key, in_memory(b"x"), &WriteOptions::default(), Attempt::FIRST).await.unwrap()
            }
        });
    stream::iter(puts).buffer_unordered(8).collect::<Vec<_>>().await;
    let listed = |prefix: &'static str, recursive| {
        let list = place.store.list(prefix, recursive);
        async move {
            let all: Vec<Entry> = list.try_collect().await.unwrap();
            all.iter().map(|entry| entry.key().to_owned()).collect::<Vec<String>>()
        }
    };
    assert_eq!(listed("", false).await, ["a", "d/", "z b/"]);
    assert_eq!(listed("d/", false).await, keys);
    assert_eq!(listed("", true).await.len(), 1102);
    assert_eq!(listed("z b/", true).await, ["z b/ü"]);
    assert_eq!(listed("none", true).await, [""; 0]);
    let first = place.store.list("", true).try_next().await.unwrap().unwrap();
    let Entry::Object(object) = first else { panic!("no object") };
    let head = place.store.head("a", Attempt::FIRST).await.unwrap();
    assert_eq!((object.size, object.etag, object.modified), (1, head.etag, head.modified));
    place.store.delete("a", None, Attempt::FIRST).await.unwrap();
    assert_eq!(listed("a", true).await, [""; 0]);
}
