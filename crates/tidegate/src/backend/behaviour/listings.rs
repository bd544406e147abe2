//! Listings of objects and of sessions, and the keys in them.

use std::time::UNIX_EPOCH;

use super::*;

pub(super) async fn a_listing_is_in_key_order_and_stops_at_a_slash(store: &TestStore) {
    for key in ["a/b", "a-b", "b", "a.b", "a0", "a/c/d", "a/c-"] {
        store.put(key, key.as_bytes()).await;
    }
    assert_eq!(store.keys("", true).await, ["a-b", "a.b", "a/b", "a/c-", "a/c/d", "a0", "b"]);
    assert_eq!(store.keys("", false).await, ["a-b", "a.b", "a/…", "a0", "b"]);
    assert_eq!(store.keys("a/", false).await, ["a/b", "a/c-", "a/c/…"]);
    assert_eq!(store.keys("a/", true).await, ["a/b", "a/c-", "a/c/d"]);
    // A prefix need not be a folder.
    assert_eq!(store.keys("a/c", true).await, ["a/c-", "a/c/d"]);
    assert_eq!(store.keys("a/c", false).await, ["a/c-", "a/c/…"]);
    assert_eq!(store.keys("a", false).await, ["a-b", "a.b", "a/…", "a0"]);
    for nothing in ["c", "c/d/", "b/", "a/b/"] {
        assert_eq!(store.keys(nothing, true).await, [""; 0], "{nothing}");
    }
    let listed: Vec<Entry> = store.list(&store.key("a/c/"), true).try_collect().await.unwrap();
    let [Entry::Object(object)] = &listed[..] else { panic!("{listed:?}") };
    let head = store.head("a/c/d").await.unwrap();
    assert!(object.known_size() == Some(5) && object.is_same(&head), "{object:?} {head:?}");
    let seconds = |object: &Object| object.modified.unwrap().duration_since(UNIX_EPOCH).unwrap().as_secs();
    assert_eq!((&object.key, seconds(object)), (&head.key, seconds(&head)));
    store.delete("a/c/d", None).await.unwrap();
    // An object may be a prefix too, unless prefixes are directories.
    match store.put_with("a", store.payload(b""), &WriteOptions::default()).await {
        Ok(_) => assert_eq!(store.keys("a", false).await, ["a", "a-b", "a.b", "a/…", "a0"]),
        Err(fault) => assert_eq!(fault.kind, FaultKind::Invalid, "{fault}"),
    }
}

pub(super) async fn a_listing_may_begin_behind_a_key(store: &TestStore) {
    for key in ["a/b", "a/c/d", "a/c/e", "a/f", "a0", "b ü+%25?#&=", "c"] {
        store.put(key, key.as_bytes()).await;
    }
    let behind = |entry: &Entry, after: &str| entry.key() > after;
    for (prefix, recursive) in [("", true), ("", false), ("a/", true), ("a/", false), ("a/c", false)] {
        let below = store.key(prefix);
        let all: Vec<Entry> = store.list(&below, recursive).try_collect().await.unwrap();
        for after in
            ["a", "a/", "a/b", "a/c", "a/c/", "a/c/d", "a/c/d ", "a/d", "a0", "b ü+%25?#&=", "c", "d"]
        {
            let after = store.key(after);
            let mut listed: Vec<Entry> =
                store.list_after(&below, recursive, &after).try_collect().await.unwrap();
            listed.retain(|entry| behind(entry, &after));
            let expected = all.iter().filter(|entry| behind(entry, &after));
            assert_eq!(
                listed.iter().map(Entry::key).collect::<Vec<_>>(),
                expected.map(Entry::key).collect::<Vec<_>>(),
                "below {below:?} behind {after:?}, recursive: {recursive}"
            );
        }
    }
}

/// Odd keys that every store takes.
const ORDINARY: [&str; 6] = [
    "sp ace/a+b",
    "100%/%2F/%20",
    "a b/ü+%25?#&=",
    "naïve/日本/😀.txt",
    "q?x=1&y=2#frag",
    "-._~!$'()*,:;@=[]{}<>|^`\"",
];

pub(super) async fn odd_keys_are_themselves(store: &TestStore) {
    let options = WriteOptions::default();
    let mut taken = Vec::new();
    let rare = [
        "...",
        "dots/.hidden/..b",
        "trailing.",
        "\\back",
        "tab\tnew\nline",
        "/lead",
        "two//slashes",
        "m//ü+%25?#&= /",
        "dir/",
        "end//",
        "",
        "..",
        "./a",
        "a/../b",
    ];
    for key in ORDINARY.into_iter().chain(rare) {
        let full = store.key(key);
        let is_taken = store.check(&full, Some(&options)).map_err(|fault| fault.kind);
        if is_taken.is_ok() {
            store.put(key, key.as_bytes()).await;
            assert_eq!(store.read(key).await, key.as_bytes(), "{key:?}");
            assert_eq!(store.head(key).await.unwrap().key, full);
            taken.push(key);
        } else {
            assert!(!ORDINARY.contains(&key), "{key:?} is refused");
            // Every request refuses the key as the check does.
            let put = store.put_with(key, store.payload(b""), &options);
            let refusals = [
                kind(put).await.0,
                kind(store.head(key)).await.0,
                kind(store.get(key, None, None)).await.0,
                kind(store.delete(key, None)).await.0,
            ];
            assert_eq!((is_taken, refusals), (Err(FaultKind::Invalid), [FaultKind::Invalid; 4]), "{key:?}");
        }
        let in_parts = match store.parts().filter(|_| !store.lacks_parts) {
            Some(parts) => Some(parts.open(&full, &options, PartOrigin::Sent, Attempt::FIRST).await),
            None => None,
        };
        let appended = match store.appending() {
            Some(append) => Some(append.open(&full, &options, Attempt::FIRST).await),
            None => None,
        };
        for opened in [in_parts, appended].into_iter().flatten() {
            assert_eq!(opened.as_ref().map(drop).map_err(|fault| fault.kind), is_taken, "{key:?}");
            let Ok(session) = opened else { continue };
            assert_eq!(session.key, full);
            store.abort(&session).await.unwrap();
        }
    }
    taken.sort_unstable();
    assert_eq!(store.keys("", true).await, taken);
    for key in taken {
        store.delete(key, None).await.unwrap();
    }
    assert_eq!(store.keys("", true).await, [""; 0]);
}

pub(super) async fn sessions_are_listed_below_a_prefix(store: &TestStore) {
    let Some(admin) = store.admin() else { return println!("skipped: the store lists no sessions") };
    let mut open = Vec::new();
    let aborts = store.capabilities().aborts;
    for key in ["b/2", "a + ü%2F&", "b/1", "b/1", "b/3/4"] {
        let Some(session) = store.session(key, &WriteOptions::default()).await else { return };
        // A store without sessions has only parts to list.
        if !aborts {
            session.send(1, 0, b"part").await.unwrap();
        }
        open.push(session.session);
    }
    store.put("b/object", b"").await;
    let below = store.open_sessions("b/").await;
    assert!(below.iter().all(|session| open.contains(session)));
    let mut keys: Vec<&str> = below.iter().map(|session| &session.key[store.below.len()..]).collect();
    keys.sort_unstable();
    assert_eq!(keys, ["b/1", "b/1", "b/2", "b/3/4"]);
    assert_eq!(store.open_sessions("b/2").await, open[..1]);
    assert_eq!(store.open_sessions("a + ü").await, open[1..2]);
    assert_eq!(store.open_sessions("none").await, []);
    let held = admin.held(&open[0], Attempt::FIRST).await.unwrap();
    let expected = if aborts { (0, 0) } else { (4, 1) };
    assert_eq!((held.bytes, held.parts.unwrap_or_default()), expected);
    if !aborts {
        return assert_eq!(store.open_sessions("").await.len(), open.len());
    }
    for (at, session) in open.iter().enumerate() {
        assert_eq!(store.open_sessions("").await.len(), open.len() - at);
        store.abort(session).await.unwrap();
    }
}
