//! Attributes, metadata and tags of objects.

use std::collections::BTreeMap;

use super::*;
use crate::types::object::Attributes;

/// Writes an object in every way that the store has; returns the key of each, and the store's answer.
async fn written(store: &TestStore, data: &[u8], options: &WriteOptions) -> Vec<(&'static str, Object)> {
    let file = OnDisk::new(data).await;
    let mut all = vec![
        ("memory", store.put_with("memory", store.payload(data), options).await.unwrap()),
        ("file", store.put_with("file", store.payload_of(&file, 0..data.len()), options).await.unwrap()),
    ];
    let whole = store.sum(data);
    if let Some(session) = store.session("parts", options).await {
        let part = session.send(1, 0, data).await.unwrap();
        all.push(("parts", session.complete(&[part], &whole, options).await.unwrap()));
    }
    if let Some(append) = store.appending() {
        let session = append.open(&store.key("appended"), options, Attempt::FIRST).await.unwrap();
        let done =
            append.append(&session, 0, store.payload(data), Some(&whole), Attempt::FIRST).await.unwrap();
        let Appended::Published(object) = done else { panic!("{done:?}") };
        all.push(("appended", *object));
    }
    all
}

pub(super) async fn attributes_come_back_however_an_object_is_sent(store: &TestStore) {
    let mut options = with_token("t");
    let attributes = &mut options.attributes;
    attributes.content_type = Some("application/x-thing; v=1".into());
    attributes.cache_control = Some("max-age=60".into());
    attributes.content_encoding = Some("gzip".into());
    attributes.content_disposition = Some("attachment; filename=\"a b.txt\"".into());
    attributes.content_language = Some("de, en".into());
    attributes.metadata = [("owner".into(), "me and  you".into()), ("n2".into(), "1".into())].into();
    let not_everywhere: [fn(&mut Attributes); 3] = [
        |attributes| drop(attributes.metadata.insert("n-2".into(), "2".into())),
        |attributes| attributes.expires = Some("Sun, 06 Nov 1994 08:49:37 GMT".into()),
        |attributes| attributes.tags = [("team 1".into(), "a+b=@:/".into())].into(),
    ];
    for add in not_everywhere {
        let mut more = options.clone();
        add(&mut more.attributes);
        match store.check("k", Some(&more)) {
            Ok(()) => options = more,
            Err(fault) => assert_eq!(fault.kind, FaultKind::Unsupported, "{fault}"),
        }
    }
    // Descriptions need not have the tags, which are a request of their own.
    let tags = std::mem::take(&mut options.attributes.tags);
    let tagged = Attributes { tags: tags.clone(), ..options.attributes.clone() };
    for (key, object) in
        written(store, &bytes_of(100_000), &WriteOptions { attributes: tagged, ..options.clone() }).await
    {
        let head = store.head(key).await.unwrap();
        let told = Attributes { tags: BTreeMap::new(), storage_class: None, ..head.attributes };
        if !store.capabilities().tokens {
            assert_eq!((told, head.token), (Attributes::default(), None), "{key}");
            continue;
        }
        assert_eq!(told, options.attributes, "{key}");
        assert_eq!((head.token.as_deref(), object.token.as_deref()), (Some("t"), Some("t")), "{key}");
        let read = store.get(key, None, None).await.unwrap().object;
        assert_eq!((read.size, &read.attributes.content_type), (100_000, &options.attributes.content_type));
        // Google's JSON API tells no metadata with an object's bytes.
        let metadata = read.attributes.metadata;
        assert!(metadata.is_empty() || metadata == options.attributes.metadata, "{key}: {metadata:?}");
        if let Some(admin) = store.admin() {
            assert_eq!(admin.tags(&store.key(key), Attempt::FIRST).await.unwrap(), tags, "{key}");
        }
    }
    let mut without = Vec::new();
    for (key, object) in written(store, b"", &WriteOptions::default()).await {
        let head = store.head(key).await.unwrap();
        assert_eq!((head.size, object.size, &head.token), (0, 0, &None), "{key}");
        without.push(head.attributes);
    }
    assert!(without.iter().all(|attributes| *attributes == without[0]), "{without:?}");
}
