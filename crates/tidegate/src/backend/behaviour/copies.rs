//! Copies and renames that a store makes itself.

use std::collections::BTreeMap;

use super::*;
use crate::types::object::Attributes;
use crate::{ErrorKind, Tidegate};

const FROM: &str = "from/a + ä%2F&?.txt";

/// Copies an object, in as many requests as the store takes for that.
async fn copy(
    store: &TestStore,
    from: &CopySource,
    key: &str,
    options: &WriteOptions,
) -> Result<Object, Fault> {
    let (copies, mut at) = (store.need_server_copy()?, None);
    loop {
        match copies.copy(from, &store.key(key), at.as_deref(), options, Attempt::FIRST).await? {
            Copied::Whole(object) => return Ok(*object),
            Copied::Going { cursor, .. } => at = Some(cursor),
        }
    }
}

pub(super) async fn an_object_is_copied_in_one_request(store: &TestStore) {
    if let Err(fault) = store.need_server_copy() {
        return assert_eq!(fault.kind, FaultKind::Unsupported);
    }
    let mut options = with_token("copier");
    options.attributes.content_type = Some("text/y".into());
    let mut as_written = with_token("writer");
    if !store.capabilities().copy_headers {
        store.put(FROM, b"plain").await;
        let refused = kind(copy(store, &store.source(FROM).await, "to/b c", &options)).await.0;
        assert_eq!(refused, FaultKind::Unsupported);
        as_written.attributes.content_type = options.attributes.content_type.clone();
    }
    for len in [0, 300_000] {
        let data = bytes_of(len);
        store.put_with(FROM, store.payload(&data), &as_written).await.unwrap();
        let from = store.source(FROM).await;
        let object = copy(store, &from, "to/b c", &options).await.unwrap();
        assert_eq!((object.size, &object.key), (len as u64, &store.key("to/b c")));
        let told = store.head("to/b c").await.unwrap();
        assert!(told.is_same(&object) && told.matches(&store.sum(&data)) != Some(false), "{told:?}");
        if store.capabilities().tokens {
            let (kind, token) = (told.attributes.content_type.as_deref(), told.token.as_deref());
            assert_eq!((kind, token), (Some("text/y"), Some("copier")));
        }
        assert!(store.read("to/b c").await == data && store.read(FROM).await == data);
    }
    // The store keeps the condition, or makes no such copy.
    let with_type = WriteOptions { attributes: as_written.attributes, ..create_only() };
    let from = store.source(FROM).await;
    let is_kept = store.capabilities().create_only_copy;
    let expected = if is_kept { FaultKind::Exists } else { FaultKind::Unsupported };
    store.put("to/b c", b"first").await;
    assert_eq!(kind(copy(store, &from, "to/b c", &with_type)).await.0, expected);
    assert_eq!(store.read("to/b c").await, b"first");
    let new = copy(store, &from, "new", &with_type).await;
    assert_eq!(new.is_ok(), is_kept, "{new:?}");
}

pub(super) async fn an_object_is_copied_in_parts(store: &TestStore) {
    let Some(parts) = store.parts().filter(|_| !store.lacks_parts) else {
        return println!("skipped: the store has no parts");
    };
    let (data, options) = (bytes_of(store.part + 1000), WriteOptions::default());
    let (end, size) = (store.part as u64, data.len() as u64);
    store.put(FROM, &data).await;
    let from = store.source(FROM).await;
    let is_made = store.capabilities().copy_parts;
    let origin = if is_made { PartOrigin::Copied } else { PartOrigin::Sent };
    let session = parts.open(&store.key("to"), &options, origin, Attempt::FIRST).await.unwrap();
    let session = PartsOfCase { parts, store, session };
    let copied = async |number, range: Range<u64>| {
        session.part(number, range.start, PartSource::CopyOf(&from, range)).await
    };
    if !is_made {
        assert_eq!(kind(copied(1, 0..end)).await.0, FaultKind::Unsupported);
        return session.abort().await.unwrap();
    }
    for no_part in [10..10, 0..size + 1, size..size + 1] {
        assert_eq!(kind(copied(1, no_part.clone())).await.0, FaultKind::Invalid, "{no_part:?}");
    }
    let (second, first) = (copied(2, end..size).await.unwrap(), copied(1, 0..end).await.unwrap());
    assert_eq!((first.number, first.size, first.checksum, second.size), (1, end, None, 1000));
    let receipts = [first, second];
    let object = parts.complete(&session.session, &receipts, None, &options, Attempt::FIRST).await.unwrap();
    assert_eq!(object.size, size);
    assert!(store.read("to").await == data);
    assert_eq!(kind(copied(1, 0..end)).await.0, FaultKind::NoSession);
}

pub(super) async fn a_copy_is_of_the_object_that_was_described(store: &TestStore) {
    let options = WriteOptions::default();
    store.put("from", &bytes_of(1000)).await;
    let from = store.source("from").await;
    let session = if store.capabilities().copy_parts { store.session("to", &options).await } else { None };
    let is_replaced = async || {
        if store.server_copy().is_some() {
            assert_eq!(kind(copy(store, &from, "to", &options)).await.0, FaultKind::Replaced);
        }
        if let Some(session) = &session {
            let part = session.part(1, 0, PartSource::CopyOf(&from, 0..1000));
            assert_eq!(kind(part).await.0, FaultKind::Replaced);
        }
    };
    // Where objects have versions, one with the same bytes is another object too.
    let others = [bytes_of(1000), vec![7; 1000]];
    for other in &others[usize::from(from.object.version.is_none())..] {
        store.put("from", other).await;
        is_replaced().await;
    }
    store.delete("from", None).await.unwrap();
    is_replaced().await;
    assert_eq!(kind(store.head("to")).await.0, FaultKind::NotFound);
    if let Some(session) = &session {
        session.abort().await.unwrap();
    }
}

/// The engine copies in one request or in parts, and sends the attributes again.
pub(super) async fn a_copy_by_the_engine_keeps_what_its_source_has(store: &TestStore) {
    let tide = Tidegate::builder().build().unwrap();
    let face = tide.store(store.store.clone());
    let (from, keeps) = (store.key(FROM), store.capabilities().tokens);
    let mut options = with_token("writer");
    let attributes = &mut options.attributes;
    attributes.content_type = Some("text/x".into());
    attributes.content_language = Some("de".into());
    attributes.content_disposition = Some("attachment".into());
    attributes.metadata = [("owner".into(), "a b".into())].into();
    attributes.tags = [("team 1".into(), "a+b=@:/".into())].into();
    if store.check(&from, Some(&options)).is_err() {
        options.attributes.tags.clear();
    }
    // The engine makes no parts that are smaller than the store's.
    let part =
        if store.capabilities().copy_parts { store.capabilities().min_part as usize } else { store.part };
    let part = part.max(store.part);
    for (len, create_only) in [(0, true), (1000, false), (part + 1000, false), (part + 1000, true)] {
        let (to, data) = (store.key(&format!("to/{len} {create_only}")), bytes_of(len));
        store.put_with(FROM, store.payload(&data), &options).await.unwrap();
        let copy = || face.copy(&from, &face, &to).part_size(part as u64);
        let copied = if create_only { copy().create_only() } else { copy() }.run().await.unwrap();
        assert_eq!((copied.size, &copied.key), (len as u64, &to));
        assert_eq!(copy().create_only().run().await.unwrap_err().kind(), ErrorKind::AlreadyExists);
        let (told, source) = (face.head(&to).await.unwrap(), face.head(&from).await.unwrap());
        assert_eq!(told.attributes, source.attributes, "{to}");
        assert_ne!(told.matches(&store.sum(&data)), Some(false));
        assert!(told.token != source.token || !keeps, "a copy has a token of its own");
        if let Some(admin) = store.admin().filter(|_| keeps) {
            assert_eq!(admin.tags(&to, Attempt::FIRST).await.unwrap(), options.attributes.tags, "{to}");
            let bare = copy().metadata(BTreeMap::new()).tags(BTreeMap::new()).run().await.unwrap();
            let told = face.head(&to).await.unwrap();
            assert!(told.is_same(&bare) && told.attributes.metadata.is_empty(), "{told:?}");
            assert_eq!(told.attributes.content_type, source.attributes.content_type);
            assert_eq!(admin.tags(&to, Attempt::FIRST).await.unwrap(), BTreeMap::new(), "{to}");
        }
        assert!(collect(store.store.get(&to, None, None, Attempt::FIRST).await.unwrap()).await == data);
    }
    if keeps {
        let given = Attributes { content_type: Some("text/y".into()), ..Attributes::default() };
        if !store.capabilities().copy_headers {
            let refused = face.copy(&from, &face, &from).attributes(given).run().await.unwrap_err();
            return assert_eq!(refused.kind(), ErrorKind::Unsupported, "{refused}");
        }
        face.copy(&from, &face, &from).attributes(given).run().await.unwrap();
        assert_eq!(face.head(&from).await.unwrap().attributes.content_type.as_deref(), Some("text/y"));
        face.copy(&from, &face, &from).tags(BTreeMap::new()).run().await.unwrap();
        if let Some(admin) = store.admin() {
            assert_eq!(admin.tags(&from, Attempt::FIRST).await.unwrap(), BTreeMap::new());
        }
    }
    tide.settled().await;
}

pub(super) async fn an_object_is_renamed(store: &TestStore) {
    let Some(renames) = store.renames() else { return println!("skipped: the store has no renames") };
    let rename = async |from: &str, to: &str, create_only| {
        renames.rename(&store.key(from), &store.key(to), create_only, Attempt::FIRST).await
    };
    store.put("a/from", b"bytes").await;
    store.put("taken", b"taken").await;
    assert_eq!(kind(rename("none", "to", false)).await.0, FaultKind::NotFound);
    assert_eq!(kind(rename("a/from", "taken", true)).await.0, FaultKind::Exists);
    assert_eq!((store.read("a/from").await, store.read("taken").await), (b"bytes".into(), b"taken".into()));
    for (from, to, create_only) in [("a/from", "b/c/to", true), ("b/c/to", "taken", false)] {
        let object = rename(from, to, create_only).await.unwrap();
        assert_eq!(object, store.head(to).await.unwrap());
        assert_eq!(store.read(to).await, b"bytes");
        assert_eq!(kind(store.head(from)).await.0, FaultKind::NotFound);
    }
    assert_eq!(store.keys("", true).await, ["taken"]);
}
