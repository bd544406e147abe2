//! Sessions of parts, from opening to completion or abort.

use super::*;

/// Checks what a session that has ended answers to each request.
async fn is_gone(store: &TestStore, gone: &PartsOfCase<'_>, receipts: &[Receipt]) {
    let (none, whole) = (FaultKind::NoSession, store.sum(b""));
    if !store.capabilities().aborts {
        // There is nothing that could have ended: the parts are gone.
        let listed = gone.parts.stored_parts(&gone.session, Attempt::FIRST).await.unwrap();
        assert_eq!(listed, []);
        return assert_eq!(kind(store.admin().unwrap().held(&gone.session, Attempt::FIRST)).await.0, none);
    }
    assert_eq!(kind(gone.send(1, 0, b"late")).await.0, none);
    assert_eq!(kind(gone.abort()).await.0, none);
    // A disk compares the parts first, and lists none.
    let (completed, said) = kind(gone.complete(receipts, &whole, &WriteOptions::default())).await;
    assert_eq!(completed, none, "{said}");
    let listed = kind(gone.parts.stored_parts(&gone.session, Attempt::FIRST)).await.0;
    assert!(listed == none || listed == FaultKind::Unsupported, "{listed:?}");
    if let Some(admin) = store.admin() {
        assert_eq!(kind(admin.held(&gone.session, Attempt::FIRST)).await.0, none);
    }
}

pub(super) async fn a_session_becomes_an_object(store: &TestStore) {
    let (key, options, keeps) = ("a b/k", with_token("writer-1"), store.capabilities().tokens);
    let Some(session) = store.session(key, &options).await else { return };
    assert!(store.appending().is_none_or(|append| !append.has(&session.session)), "it takes parts");
    let (len, data) = (store.part, bytes_of(store.part + 1000));
    let file = OnDisk::new(&data).await;
    // The last part first, and the first one three times, with other bytes at first.
    let second = session.send(2, len, &data[len..]).await.unwrap();
    let other = session.send(1, 0, &vec![7; len]).await.unwrap();
    session.part(1, 0, store.payload_of(&file, 0..len).into()).await.unwrap();
    let first = session.part(1, 0, store.payload_of(&file, 0..len).into()).await.unwrap();
    assert_eq!((first.number, first.size, first.checksum), (1, len as u64, Some(store.sum(&data[..len]))));
    match session.parts.stored_parts(&session.session, Attempt::FIRST).await {
        Ok(stored) => {
            // A store without sessions keeps the copy with other bytes too.
            let counts = |part: &&StoredPart| store.capabilities().aborts || part.etag != other.etag;
            let stored = stored.iter().filter(counts);
            let stored: Vec<_> = stored.map(|part| (part.number, part.size, &part.etag)).collect();
            assert_eq!(stored, [(1, len as u64, &first.etag), (2, 1000, &second.etag)]);
        }
        Err(fault) => {
            assert_eq!(fault.kind, FaultKind::Unsupported);
            assert!(!store.capabilities().hedge, "which copy of a part counts must be known");
        }
    }
    if let Some(admin) = store.admin() {
        let held = admin.held(&session.session, Attempt::FIRST).await.unwrap();
        let (bytes, parts) = if store.capabilities().aborts { (0, 0) } else { (len as u64, 1) };
        assert_eq!((held.bytes, held.parts.unwrap_or(2)), (data.len() as u64 + bytes, 2 + parts));
    }
    assert_eq!(kind(store.head(key)).await.0, FaultKind::NotFound);
    assert_eq!(store.keys("", true).await, [""; 0]);

    let whole = store.sum(&data);
    let (refused, said) = kind(session.complete(&[other, second.clone()], &whole, &options)).await;
    let keeps_one = store.capabilities().hedge && store.capabilities().aborts;
    let is_known_to_be_other = refused == FaultKind::Integrity && !keeps_one;
    assert!(refused == FaultKind::PartMismatch || is_known_to_be_other, "{said}");
    let receipts = [first, second];
    let again = receipts.clone();
    let object = session.complete(&receipts, &whole, &options).await.unwrap();
    assert_eq!((object.size, object.token.as_deref()), (data.len() as u64, keeps.then_some("writer-1")));
    let head = store.head(key).await.unwrap();
    assert!(head.is_same(&object) && head.attributes.metadata.is_empty(), "{head:?} {object:?}");
    assert_eq!(head.matches(&whole), keeps.then_some(true));
    match object.matches(&whole) {
        // Azurite compares no bytes, so it confirms no checksum.
        None if !store.capabilities().aborts => {}
        told => assert_eq!(told, keeps.then_some(true)),
    }
    assert_eq!(head.token, object.token);
    assert!(store.read(key).await == data);
    assert_eq!(kind(session.complete(&again, &whole, &options)).await.0, FaultKind::NoSession);
    is_gone(store, &session, &receipts).await;
}

/// Where no session is aborted, an abort says so, and harms nobody's session.
async fn an_abort_is_refused(store: &TestStore) {
    let options = WriteOptions::default();
    let session = store.session("a/k", &options).await.unwrap();
    let part = session.send(1, 0, b"bytes").await.unwrap();
    assert_eq!(kind(store.store.abort(&session.session, Attempt::FIRST)).await.0, FaultKind::Unsupported);
    let other = store.session("a/k", &options).await.unwrap();
    assert_ne!(other.session.id, session.session.id);
    other.send(1, 0, b"other").await.unwrap();
    session.complete(&[part], &store.sum(b"bytes"), &options).await.unwrap();
    assert_eq!(store.read("a/k").await, b"bytes");
    // The commit has discarded the blocks of the other session.
    let none =
        PartsOfCase { session: Session { id: "none".to_owned(), ..session.session.clone() }, ..session };
    assert_eq!(kind(none.send(1, 0, b"late")).await.0, FaultKind::NoSession);
    is_gone(store, &other, &[]).await;
}

pub(super) async fn an_aborted_session_is_gone(store: &TestStore) {
    if store.parts().is_some() && !store.capabilities().aborts {
        return an_abort_is_refused(store).await;
    }
    let options = WriteOptions::default();
    let Some(mut session) = store.session("a/k", &options).await else { return };
    let receipts = [session.send(1, 0, b"").await.unwrap()];
    let other = store.session("a/k", &options).await.unwrap();
    session.abort().await.unwrap();
    is_gone(store, &session, &receipts).await;
    session.session.id = "none".to_owned();
    is_gone(store, &session, &receipts).await;
    assert_eq!(kind(store.head("a/k")).await.0, FaultKind::NotFound);
    // The other session of the key goes on.
    let part = other.send(1, 0, b"bytes").await.unwrap();
    other.complete(&[part], &store.sum(b"bytes"), &options).await.unwrap();
    assert_eq!(store.read("a/k").await, b"bytes");
}

pub(super) async fn parts_that_are_no_whole_are_not_published(store: &TestStore) {
    let options = WriteOptions::default();
    let Some(session) = store.session("k", &options).await else { return };
    let (len, most, data) = (store.part, store.capabilities().max_parts, bytes_of(store.part + 1));
    let whole = store.sum(&data);
    for number in [0, most + 1] {
        assert_eq!(kind(session.send(number, 0, b"A")).await.0, FaultKind::Invalid, "{number}");
    }
    let small = session.send(1, 0, b"A").await.unwrap();
    let second = session.send(2, len, &data[len..]).await.unwrap();
    let complete = async |parts: &[Receipt]| session.complete(parts, &whole, &options).await;
    let (refused, said) = kind(complete(&[small, second.clone()])).await;
    // Too small for a part, or a gap in the file.
    let is_named = said.contains("EntityTooSmall") || store.capabilities().min_part == 1;
    assert!(refused == FaultKind::Invalid && is_named, "{said}");
    let first = session.send(1, 0, &data[..len]).await.unwrap();
    for parts in [vec![], vec![second.clone(), first.clone()]] {
        let (refused, said) = kind(complete(&parts)).await;
        assert_eq!(refused, FaultKind::Invalid, "{said}");
    }
    assert_eq!(kind(store.head("k")).await.0, FaultKind::NotFound);
    complete(&[first, second]).await.unwrap();
    assert!(store.read("k").await == data);
}

/// A store that does not compare the checksum itself must tell it, so that the caller can.
pub(super) async fn a_whole_that_is_not_that_of_its_checksum_is_found_out(store: &TestStore) {
    let options = WriteOptions::default();
    let Some(session) = store.session("k", &options).await else { return };
    let part = session.send(1, 0, b"bytes").await.unwrap();
    let wrong = store.sum(b"other");
    match session.complete(&[part], &wrong, &options).await {
        Ok(object) => assert_eq!(object.matches(&wrong), Some(false)),
        Err(fault) => {
            assert_eq!(fault.kind, FaultKind::Integrity, "{fault}");
            assert_eq!(kind(store.head("k")).await.0, FaultKind::NotFound);
            session.abort().await.unwrap();
        }
    }
}
