//! Requests that are bound to a condition on the object that a key has.

use futures::future::join_all;

use super::*;
use crate::{ErrorKind, Tidegate};

/// A read of one object never continues with the bytes of another, and a removal of one object removes no other.
pub(super) async fn only_the_same_object_is_read_or_removed(store: &TestStore) {
    let told = async |range, same| kind(store.get("k", range, Some(same))).await.0;
    let written = store.put("k", &bytes_of(300_000)).await;
    let read = store.get("k", None, None).await.unwrap().object;
    for same in [&read, &store.head("k").await.unwrap(), &written] {
        let body = store.get("k", Some(200_000..300_000), Some(same)).await.unwrap();
        assert!(collect(body).await == bytes_of(300_000)[200_000..]);
    }
    store.put("k", &vec![7; 300_000]).await;
    assert_eq!(kind(store.delete("k", Some(&read))).await.0, FaultKind::Replaced);
    for range in [None, Some(5..10), Some(5..5)] {
        assert_eq!(told(range, &read).await, FaultKind::Replaced);
    }
    let now = store.head("k").await.unwrap();
    store.delete("k", Some(&now)).await.unwrap();
    store.delete("k", Some(&now)).await.unwrap();
    assert_eq!(told(Some(5..10), &read).await, FaultKind::NotFound);
}

/// Also on a store that gives the object neither an ETag nor a version.
pub(super) async fn the_engine_removes_an_object_only_if_it_is_unchanged(store: &TestStore) {
    let tide = Tidegate::builder().build().unwrap();
    let (face, key) = (tide.store(store.store.clone()), store.key("k"));
    let remove = async |object: &Object| face.delete_if_unchanged(&key, object).await;
    let first = store.put("k", b"first").await;
    let unknown = Object { etag: None, version: None, ..first.clone() };
    assert_eq!(remove(&unknown).await.unwrap_err().kind(), ErrorKind::Unsupported);
    store.put("k", b"other").await;
    let refused = remove(&first).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Replaced, "{refused}");
    assert_eq!(store.read("k").await, b"other");
    let listed = face.list(store.key("")).try_collect::<Vec<_>>().await.unwrap();
    let [Entry::Object(now)] = &listed[..] else { panic!("{listed:?}") };
    remove(now).await.unwrap();
    assert_eq!(kind(store.head("k")).await.0, FaultKind::NotFound);
    for object in [now, &unknown] {
        remove(object).await.unwrap();
    }
    if !store.capabilities().tokens {
        return; // each write on a disk makes another file
    }
    // The same bytes, whose tag may be the same too.
    store.put_with("k", store.payload(b"bytes"), &with_token("one")).await.unwrap();
    let one = face.head(&key).await.unwrap();
    store.put_with("k", store.payload(b"bytes"), &with_token("two")).await.unwrap();
    let refused = remove(&one).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Replaced, "{refused}");
    remove(&face.head(&key).await.unwrap()).await.unwrap();
}

pub(super) async fn create_only_never_replaces(store: &TestStore) {
    let only = &create_only();
    let racers = (0..8_u8).map(|racer| store.put_with("k", store.payload(&[racer; 100_000]), only));
    let results = join_all(racers).await;
    let refused = results.iter().filter_map(|result| result.as_ref().err());
    assert!(refused.clone().all(|fault| fault.kind == FaultKind::Exists), "{results:?}");
    assert_eq!(refused.count(), 7);
    let first = store.read("k").await;
    // Refused while the body is under way.
    let data = bytes_of(6 * MIB);
    let file = OnDisk::new(&data).await;
    for _ in 0..3 {
        let (refused, said) = kind(store.put_with("k", store.payload_of(&file, 0..data.len()), only)).await;
        assert_eq!(refused, FaultKind::Exists, "{said}");
    }
    assert!(store.read("k").await == first);
    store.delete("k", None).await.unwrap();
    store.put_with("k", store.payload(b"again"), only).await.unwrap();
    assert_eq!(store.keys("", true).await, ["k"]);
}

pub(super) async fn a_write_may_replace_one_object_and_no_other(store: &TestStore) {
    if !store.capabilities().replaces {
        return println!("skipped: no write can be bound to the object that it replaces");
    }
    let put = async |replaced: &Object, bytes: &[u8]| {
        let replaces = Some(Box::new(replaced.clone()));
        let options = WriteOptions { replaces, ..WriteOptions::default() };
        store.put_with("k", store.payload(bytes), &options).await
    };
    store.put("k", b"first").await;
    let first = store.head("k").await.unwrap();
    let second = put(&first, b"second").await.unwrap();
    assert_eq!(kind(put(&first, b"third")).await.0, FaultKind::Exists);
    assert_eq!(store.read("k").await, b"second");
    put(&second, b"third").await.unwrap();
    let third = store.head("k").await.unwrap();
    store.delete("k", None).await.unwrap();
    assert_eq!(kind(put(&third, b"fourth")).await.0, FaultKind::Exists);
    assert_eq!(kind(store.head("k")).await.0, FaultKind::NotFound);
}

pub(super) async fn conditions_of_a_session_are_decided_at_completion(store: &TestStore) {
    let Some(session) = store.session("k", &create_only()).await else { return };
    let whole = store.sum(b"part");
    let part = [session.send(1, 0, b"part").await.unwrap()];
    store.put("k", b"first").await;
    // A store without such a condition must not replace the object.
    let is_kept = store.capabilities().create_only_parts;
    let expected = if is_kept { FaultKind::Exists } else { FaultKind::Unsupported };
    assert_eq!(kind(session.complete(&part, &whole, &create_only())).await.0, expected);
    assert_eq!(store.read("k").await, b"first");
    // The session is still there.
    if is_kept {
        store.delete("k", None).await.unwrap();
    }
    if !store.capabilities().aborts {
        // The other write has discarded the parts.
        session.send(1, 0, b"part").await.unwrap();
    }
    let options = if is_kept { create_only() } else { WriteOptions::default() };
    session.complete(&part, &whole, &options).await.unwrap();
    assert_eq!(store.read("k").await, b"part");
}
