//! Copies that the store itself makes.

use std::time::Duration;

use super::*;
use crate::settings::RetryPolicy;
use crate::{ErrorKind, Tidegate};

over_both! {
    what_is_copied_is_kept_whole,
    a_copy_is_gone_on_with_from_where_it_stands,
    what_is_copied_is_the_object_that_was_described,
}

async fn what_is_copied_is_kept_whole(over: GcsTransport) {
    let place = place(over).await;
    let tide = Tidegate::builder().build().unwrap();
    let store = tide.store(Arc::new(place.store.clone()));
    let mut options = WriteOptions { token: Some("t".into()), ..WriteOptions::default() };
    let attributes = &mut options.attributes;
    attributes.content_type = Some("text/x".into());
    attributes.content_language = Some("de".into());
    attributes.content_disposition = Some("attachment".into());
    attributes.metadata = [("owner".into(), "me".into())].into();
    attributes.storage_class = Some("NEARLINE".into());
    for (size, create_only) in [(0, false), (0, true), (3 * MIB, false), (3 * MIB, true)] {
        let (from, to) = ("from/a + ä%2F&?.txt", format!("to/{size} {create_only}"));
        let bytes = bytes_of(size);
        place.store.put(from, in_memory(&bytes), &options, Attempt::FIRST).await.unwrap();
        let copy = store.copy(from, &store, &to).part_size(MIB as u64);
        let object = if create_only { copy.create_only() } else { copy }.run().await.unwrap();
        assert_eq!((object.size, &object.key), (size as u64, &to));
        let told = store.head(&to).await.unwrap();
        assert_eq!(told.attributes, options.attributes, "{to}");
        assert_eq!(told.matches(&Checksum::of(Algorithm::Crc32c, &bytes)), Some(true));
        assert!(told.token.is_some() && told.token.as_deref() != Some("t"));
        assert!(read_back(&place.store, &to, None).await == bytes);
        if create_only {
            let again = store.copy(from, &store, &to).create_only().run().await;
            assert_eq!(again.unwrap_err().kind(), ErrorKind::AlreadyExists);
        }
    }
}

async fn a_copy_is_gone_on_with_from_where_it_stands(over: GcsTransport) {
    let place = place(over).await;
    let retry = RetryPolicy { first_pause: Duration::from_millis(1), ..RetryPolicy::default() };
    let tide = Tidegate::builder().retry(retry).build().unwrap();
    let store = tide.store(Arc::new(place.store.clone()));
    let bytes = bytes_of(5 * MIB + 1);
    place.store.put("from", in_memory(&bytes), &WriteOptions::default(), Attempt::FIRST).await.unwrap();
    let operation = "storage.objects.rewrite";
    let rules = vec![
        FaultRule::lose_answer(operation).times(1),
        FaultRule::error(operation, 503, "backendError").skip(2).times(1),
        // The last request: it is carried out, and its answer is lost.
        FaultRule::lose_answer(operation).skip(7).times(1),
    ];
    for create_only in [false, true] {
        let faults = both::rules(rules.clone(), over);
        let knobs = Knobs { faults, rewrite_step: Some(MIB as u64), ..Knobs::default() };
        place.server.set_knobs(knobs);
        let to = format!("to-{create_only}");
        let copy = store.copy("from", &store, &to);
        let progress = copy.progress();
        if create_only { copy.create_only() } else { copy }.run().await.unwrap();
        assert!(read_back(&place.store, &to, None).await == bytes);
        let figures = progress.snapshot();
        assert_eq!(figures.acknowledged, bytes.len() as u64);
        assert_eq!(figures.retries, 3, "{figures:?}");
    }
}

async fn what_is_copied_is_the_object_that_was_described(over: GcsTransport) {
    let place = place(over).await;
    let (store, options) = (&place.store, WriteOptions::default());
    store.put("from", in_memory(&bytes_of(1000)), &options, Attempt::FIRST).await.unwrap();
    let object = store.head("from", Attempt::FIRST).await.unwrap();
    let from = CopySource { location: store.location().to_owned(), key: "from".into(), object };
    store.put("from", in_memory(&bytes_of(1000)), &options, Attempt::FIRST).await.unwrap();
    assert_eq!(kind(store.copy(&from, "to", None, &options, Attempt::FIRST)).await.0, FaultKind::Replaced);
    store.delete("from", None, Attempt::FIRST).await.unwrap();
    assert_eq!(kind(store.copy(&from, "to", None, &options, Attempt::FIRST)).await.0, FaultKind::Replaced);
    assert_eq!(kind(store.head("to", Attempt::FIRST)).await.0, FaultKind::NotFound);
}
