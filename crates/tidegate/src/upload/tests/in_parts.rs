//! Uploads in parts: any order, several processes, receipts that are not those of the parts that are there, and ends.

use super::two_writers::{google, s3, server};
use super::*;
use crate::backend::local::Local;
use crate::types::checksum::Checksum;
use crate::types::object::Attributes;
use crate::upload::{PartReceipt, PartsUpload};

const LARGE: usize = 5 << 20;

/// The upload as another process finds it.
async fn elsewhere(store: &Store, upload: &PartsUpload) -> PartsUpload {
    let tide = Tidegate::builder().memory(64 << 20).build().unwrap();
    tide.store(store.context().backend().clone()).parts_upload(&upload.id()).await.unwrap()
}

/// A receipt as another process reads it.
fn read(receipt: PartReceipt) -> PartReceipt {
    let read = PartReceipt::from_json(&receipt.to_json()).unwrap();
    assert_eq!(read, receipt);
    read
}

fn part(number: u8, size: usize) -> Bytes {
    vec![number; size].into()
}

/// A store that aborts no session, as Azure.
fn without_aborts(tide: &Tidegate) -> Store {
    let capabilities = Capabilities { min_part: 4 * KIB, aborts: false, ..Capabilities::default() };
    tide.store(Arc::new(Memory::new("test").with_capabilities(capabilities)))
}

/// The kind of the error.
async fn kind<T>(result: impl Future<Output = Result<T>>) -> ErrorKind {
    match result.await {
        Ok(_) => panic!("it succeeded"),
        Err(error) => error.kind(),
    }
}

async fn parts_are_put_in_any_order_by_any_process(store: &Store, size: usize) -> Result<()> {
    assert!(store.takes_parts_in_any_order());
    let mut attributes = Attributes::default();
    attributes.metadata.insert("a".to_owned(), "b".to_owned());
    let upload = store.upload_in_parts("d/k").attributes(attributes).await?;
    assert_eq!(upload.key(), "d/k");
    let mut receipts = Vec::new();
    // These stores take gaps in the numbers, and a small last part.
    for (number, bytes) in [(9, part(9, 17)), (4, part(4, size)), (2, part(2, size))] {
        receipts.push(read(elsewhere(store, &upload).await.put_part(number, bytes).await?));
    }
    assert_eq!((receipts[0].number(), receipts[0].size()), (9, 17));
    assert!(!store.exists("d/k").await?);
    let all = [part(2, size), part(4, size), part(9, 17)].concat();
    for _ in 0..2 {
        let object = elsewhere(store, &upload).await.complete(&receipts).await?;
        assert_eq!((object.size, object.token.as_deref()), (all.len() as u64, Some(upload.token())));
        assert_eq!(object.matches(&Checksum::of(store.context().capabilities().checksum, &all)), Some(true));
    }
    assert_eq!(store.get("d/k").await?, all);
    assert_eq!(store.head("d/k").await?.attributes.metadata["a"], "b");
    // It is over: nothing is left, and nothing can be added or given up.
    assert_eq!(store.list(".tidegate/").count().await, 0);
    assert_eq!(kind(upload.put_part(1, part(1, 9))).await, ErrorKind::SessionLost);
    assert_eq!(kind(upload.abandon()).await, ErrorKind::Closed);
    assert!(store.exists("d/k").await?);
    store.delete("d/k").await?;
    assert_eq!(kind(upload.complete(&receipts)).await, ErrorKind::SessionLost);
    Ok(())
}

#[tokio::test]
async fn parts_are_put_in_any_order_in_memory() -> Result<()> {
    let tide = engine();
    let store = store(&tide);
    parts_are_put_in_any_order_by_any_process(&store, 5000).await?;
    assert_nothing(&tide, &store).await;
    parts_are_put_in_any_order_by_any_process(&without_aborts(&tide), 5000).await
}

#[tokio::test]
async fn parts_are_put_in_any_order_on_s3_and_google() -> Result<()> {
    let server = server().await;
    for store in [s3(&server).await, google(&server).await] {
        parts_are_put_in_any_order_by_any_process(&store, LARGE).await?;
        parts_are_put_in_any_order_by_any_process(&store.within("below"), LARGE).await?;
        assert_eq!(store.sessions("").count().await, 0);
    }
    Ok(())
}

#[tokio::test]
async fn of_a_part_that_was_put_again_the_last_bytes_count() -> Result<()> {
    let (tide, server) = (engine(), server().await);
    for (store, size) in [(store(&tide), 5000), (s3(&server).await, LARGE), (google(&server).await, LARGE)] {
        let upload = store.upload_in_parts("k").await?;
        let first = upload.put_part(1, part(1, size)).await?;
        let same = upload.put_part(1, part(1, size)).await?;
        let two = upload.put_part(2, part(2, 9)).await?;
        // Other bytes: the receipts of the first ones are of nothing any more, and the upload stays.
        let other = upload.put_part(1, part(3, size)).await?;
        let refused = upload.complete(&[first.clone(), two.clone()]).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::InvalidInput, "{refused}");
        assert!(refused.to_string().contains("does not have part 1"), "{refused}");
        assert!(!store.exists("k").await?);
        upload.complete(&[other, two.clone()]).await?;
        assert_eq!(store.get("k").await?, [part(3, size), part(2, 9)].concat());

        // The same bytes again: each receipt is good.
        let upload = store.upload_in_parts("same").await?;
        let receipts = [upload.put_part(1, part(1, size)).await?, upload.put_part(1, part(1, size)).await?];
        assert_eq!(receipts[0].checksum(), same.checksum());
        upload.complete(&receipts[..1]).await?;
        assert_eq!(store.get("same").await?, part(1, size));
        // The next store may have the same bucket.
        store.delete("k").await?;
    }
    Ok(())
}

#[tokio::test]
async fn what_no_object_can_be_made_of_is_refused_before_anything_is_sent() -> Result<()> {
    let tide = engine();
    let store = store(&tide);
    let (upload, other) = (store.upload_in_parts("k").await?, store.upload_in_parts("k").await?);
    let [one, small, end] = [
        upload.put_part(1, part(1, 5000)).await?,
        upload.put_part(2, part(2, 9)).await?,
        upload.put_part(3, part(3, 9)).await?,
    ];
    let foreign = other.put_part(4, part(4, 9)).await?;
    let sent = tide.progress().snapshot().requests;
    for (receipts, why) in [
        (vec![], "at least one part"),
        (vec![one.clone(), one.clone()], "two receipts of part 1"),
        (vec![one.clone(), small.clone(), end.clone()], "part 2 has 9 bytes"),
        (vec![one.clone(), foreign], "the receipt of part 4 is of another upload"),
    ] {
        let refused = upload.complete(&receipts).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::InvalidInput);
        assert!(refused.to_string().contains(why), "{refused}");
    }
    assert_eq!(kind(upload.put_part(0, part(1, 9))).await, ErrorKind::InvalidInput);
    assert_eq!(kind(upload.put_part(10_001, part(1, 9))).await, ErrorKind::InvalidInput);
    assert_eq!(kind(upload.put_part(1, part(1, 129 << 10))).await, ErrorKind::TooLarge);
    assert_eq!(tide.progress().snapshot().requests, sent);
    // A part that nobody has put.
    let json = small.to_json().replace("\"number\":2", "\"number\":7");
    let missing = upload.complete(&[one.clone(), PartReceipt::from_json(&json)?]).await.unwrap_err();
    assert_eq!(missing.kind(), ErrorKind::InvalidInput, "{missing}");
    upload.complete(&[one, small]).await?;
    other.abandon().await?;
    assert_eq!(store.sessions("").count().await, 0);
    Ok(())
}

#[tokio::test]
async fn an_upload_that_was_given_up_is_lost() -> Result<()> {
    let (tide, server) = (engine(), server().await);
    for store in [store(&tide), without_aborts(&tide), s3(&server).await, google(&server).await] {
        let upload = store.upload_in_parts("k").await?;
        let receipt = upload.put_part(1, part(1, 9)).await?;
        elsewhere(&store, &upload).await.abandon().await?;
        upload.abandon().await?;
        assert_eq!(kind(upload.put_part(1, part(1, 9))).await, ErrorKind::SessionLost);
        assert_eq!(kind(upload.complete(&[receipt])).await, ErrorKind::SessionLost);
        assert!(!store.exists("k").await?);
        assert_eq!(store.list(".tidegate/").count().await, 0);
    }
    Ok(())
}

#[tokio::test]
async fn the_condition_holds_at_the_completion() -> Result<()> {
    let (tide, server) = (engine(), server().await);
    for store in [store(&tide), s3(&server).await] {
        let upload = store.upload_in_parts("k").create_only().await?;
        let receipts = [upload.put_part(1, part(1, 9)).await?];
        store.put("k", "another").await?;
        let upload = elsewhere(&store, &upload).await;
        assert_eq!(kind(upload.complete(&receipts)).await, ErrorKind::AlreadyExists);
        store.delete("k").await?;
        assert_eq!(upload.complete(&receipts).await?.size, 9);
    }
    let google = google(&server).await;
    let unsupported = google.upload_in_parts("k").create_only().into_future();
    assert_eq!(kind(unsupported).await, ErrorKind::Unsupported);
    Ok(())
}

#[tokio::test]
async fn a_store_that_needs_the_offset_is_refused_and_other_texts_are_no_upload() -> Result<()> {
    let (tide, directory) = (engine(), tempfile::tempdir().unwrap());
    let local = tide.store(Arc::new(Local::new(directory.path())));
    assert!(!local.takes_parts_in_any_order());
    assert_eq!(kind(local.upload_in_parts("k").into_future()).await, ErrorKind::Unsupported);
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);

    let store = store(&tide);
    let upload = store.upload_in_parts("k").await?;
    let id = upload.id();
    let other = tide.store(Arc::new(Memory::new("other")));
    let later = id.replace("\"version\":1", "\"version\":2");
    let unnamed = id.replace("\"session\":\"", "\"session\":\"\",\"was\":\"");
    for text in ["", "lol", "{}", &id[..id.len() / 2], &later, &unnamed] {
        let refused = store.parts_upload(text).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::InvalidInput, "{text}");
        assert!(!refused.to_string().contains(upload.token()), "{refused}");
        assert!(PartReceipt::from_json(text).is_err());
    }
    let refused = other.parts_upload(&id).await.unwrap_err();
    assert!(refused.to_string().contains("was begun in memory://test"), "{refused}");
    // A session that the store never had.
    let unknown = store.parts_upload(&id.replace("\"session\":\"0", "\"session\":\"9")).await?;
    assert_eq!(kind(unknown.put_part(1, part(1, 9))).await, ErrorKind::SessionLost);
    Ok(())
}

/// A sweep finds it like the session of any writer that is gone, by its age.
#[tokio::test]
async fn a_sweep_ends_an_upload_that_is_never_completed() -> Result<()> {
    let (tide, server) = (engine(), server().await);
    for store in [store(&tide), s3(&server).await, google(&server).await] {
        let upload = store.upload_in_parts("k").await?;
        upload.put_part(1, part(1, 5000)).await?;
        let report = store.sweep("").run().await?;
        assert_eq!((report.ended, report.young, report.live), (0, 1, 0));
        let report = store.sweep("").older_than(Duration::ZERO).run().await?;
        assert_eq!((report.ended, report.bytes), (1, 5000));
        assert_eq!(kind(upload.put_part(2, part(2, 9))).await, ErrorKind::SessionLost);
        upload.abandon().await?;
    }
    Ok(())
}

#[tokio::test]
async fn a_part_counts_in_the_budget_and_an_opening_that_is_cancelled_leaves_nothing() -> Result<()> {
    let tide = engine();
    let store = store(&tide);
    let upload = store.upload_in_parts("k").await?;
    let puts = (1..=20).map(|number| upload.put_part(number, part(1, 20 << 10)));
    let receipts: Vec<PartReceipt> = futures::future::try_join_all(puts).await?;
    assert!(tide.usage().peak <= 128 * KIB, "{:?}", tide.usage());
    assert_eq!(tide.usage().held, 0);
    upload.complete(&receipts).await?;
    let mut opening = store.upload_in_parts("cancelled").into_future();
    assert!(futures::poll!(&mut opening).is_pending());
    drop(opening);
    tide.settled().await;
    assert_eq!(store.sessions("").count().await, 0);
    Ok(())
}
