//! Sessions that are gone or have lost parts, and commits with an unknown outcome.

use super::*;
use crate::Object;
use crate::backend::{Fault, WriteOptions};
use crate::memory::payload::Payload;
use crate::testkit::scripted::{Answer, Below, Call, Script};
use crate::types::checksum::Checksum;

/// A place where the next `completions` completions meet `fate`.
fn destined(fate: Fate, completions: u32) -> Place {
    let place = Place::new();
    place.backend.destine(fate, completions);
    place
}

async fn written(place: &Place, store: &Store, size: u64) -> Result<Writer> {
    let mut writer = place.writer(store).await?;
    writer.write_bytes(data(size)).await?;
    Ok(writer)
}

async fn assert_whole(place: &Place, store: &Store, size: u64) {
    assert_eq!(stored(store, "k").await, data(size));
    assert_eq!((place.files(), place.sessions(store).await), (0, 0));
}

#[tokio::test]
async fn a_session_that_has_lost_its_parts_is_replaced() -> Result<()> {
    for fate in [Fate::Hollow, Fate::HollowAndLost] {
        let place = destined(fate, 1);
        let (_tide, store) = place.process();
        let object = written(&place, &store, 5 * PART).await?.finish().await?;
        assert_eq!(object.size, 5 * PART);
        assert_eq!((place.backend.opened(), place.backend.parts()), (2, 10), "{fate:?}");
        assert_whole(&place, &store, 5 * PART).await;
    }
    Ok(())
}

/// versitygw 1.8.0 answers a completion with success while it still carries out the one of a killed process.
#[tokio::test]
async fn an_object_that_is_said_to_be_there_is_waited_for() -> Result<()> {
    let place = Place::new();
    let (tide, store) = place.process();
    let writer = written(&place, &store, 5 * PART).await?;
    tide.settled().await;
    place.backend.lose_answers(true);
    assert_eq!(writer.finish().await.unwrap_err().kind(), ErrorKind::Uncertain);
    tide.settled().await;
    place.backend.lose_answers(false);
    place.backend.go_down(false);
    place.backend.destine(Fate::UnderWay, 1);
    // Four HEADs miss the object: one before the completion, three after it.
    place.backend.hide(4);
    let retry = RetryPolicy { first_pause: Duration::from_millis(1), attempts: 4, ..RetryPolicy::default() };
    let (tide, store) = place.process_of(place.builder().retry(retry));
    let resumed = tide.recover().await?[0].resume_on(&store).await?;
    assert_eq!(resumed.object().unwrap().size, 5 * PART);
    assert_whole(&place, &store, 5 * PART).await;
    Ok(())
}

#[tokio::test]
async fn without_a_journal_it_is_a_lost_session() -> Result<()> {
    let place = destined(Fate::Hollow, 1);
    let (tide, store) = place.process();
    let mut writer = store.writer("k").start().await?;
    writer.write_bytes(data(5 * PART)).await?;
    let error = writer.finish().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::SessionLost, "{error}");
    assert!(error.to_string().contains("has lost part 1"), "{error}");
    tide.settled().await;
    assert_eq!(place.sessions(&store).await, 0);
    Ok(())
}

#[tokio::test]
async fn a_completion_that_ran_into_itself_is_one() -> Result<()> {
    for strategy in [Strategy::Parallel, Strategy::Journal] {
        let place = destined(Fate::Twice, 1);
        let (_tide, store) = place.process();
        let mut writer = store.writer("k").strategy(strategy).start().await?;
        writer.write_bytes(data(5 * PART)).await?;
        assert_eq!(writer.finish().await?.size, 5 * PART, "{strategy:?}");
        assert_eq!(place.backend.opened(), 1, "{strategy:?}");
        assert_whole(&place, &store, 5 * PART).await;
    }
    Ok(())
}

#[tokio::test]
async fn parts_that_are_there_and_refused_are_not_sent_again() -> Result<()> {
    for strategy in [Strategy::Parallel, Strategy::Journal] {
        let place = destined(Fate::Refused, u32::MAX);
        let (tide, store) = place.process();
        let mut writer = store.writer("k").strategy(strategy).start().await?;
        writer.write_bytes(data(5 * PART)).await?;
        let error = writer.finish().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
        assert!(error.to_string().contains("PartMismatch") && error.remedy().is_none(), "{error}");
        assert_eq!((place.backend.opened(), place.backend.parts()), (1, 5), "{strategy:?}");
        tide.settled().await;
        let (files, sessions) = if strategy == Strategy::Journal { (1, 1) } else { (0, 0) };
        assert_eq!((place.files(), place.sessions(&store).await), (files, sessions));
    }
    Ok(())
}

#[tokio::test]
async fn the_next_process_replaces_a_session_that_has_lost_its_parts() -> Result<()> {
    let place = destined(Fate::Panics, 1);
    let (tide, store) = place.process();
    let error = written(&place, &store, 5 * PART).await?.finish().await.unwrap_err();
    assert_eq!(
        (error.kind(), error.operation()),
        (ErrorKind::Uncertain, crate::Operation::Complete),
        "{error}"
    );
    tide.settled().await;
    let sessions: Vec<_> = store.sessions("").collect().await;
    place.backend.hollow_out(&sessions[0].as_ref().unwrap().session);
    let (tide, store) = place.process();
    let resumed = tide.recover().await?[0].resume_on(&store).await?;
    assert_eq!(resumed.object().unwrap().size, 5 * PART);
    assert_whole(&place, &store, 5 * PART).await;
    Ok(())
}

#[tokio::test]
async fn what_may_have_been_published_and_taken_away_is_uncertain() -> Result<()> {
    let place = destined(Fate::Taken, u32::MAX);
    let (tide, store) = place.process();
    let finish = written(&place, &store, 5 * PART).await?.finish();
    let error = tokio::time::timeout(Duration::from_secs(20), finish).await.expect("no end").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Uncertain, "{error}");
    assert_eq!(place.backend.opened(), 1, "it was sent again");
    tide.settled().await;
    assert_eq!(place.files(), 1);
    // Resuming the upload states that the object should exist.
    place.backend.destine(Fate::Taken, 0);
    let (tide, store) = place.process();
    tide.recover().await?[0].resume_on(&store).await?;
    assert_whole(&place, &store, 5 * PART).await;
    Ok(())
}

#[tokio::test]
async fn sessions_that_are_lost_one_after_the_other_come_to_an_end() -> Result<()> {
    let place = destined(Fate::Expires, u32::MAX);
    let (_tide, store) = place.process();
    let finish = written(&place, &store, 5 * PART).await?.finish();
    let error = tokio::time::timeout(Duration::from_secs(20), finish).await.expect("no end").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::SessionLost, "{error}");
    assert_eq!(place.backend.opened(), 4, "the first one, and three in its stead");
    assert_eq!(place.files(), 1);
    Ok(())
}

#[tokio::test]
async fn what_had_no_session_does_not_replace_an_object_that_came_since() -> Result<()> {
    for (create_only, size) in [(false, 100), (true, 100), (false, 5 * PART), (true, 5 * PART)] {
        let place = Place::new();
        let (tide, store) = place.process();
        place.backend.go_down(true);
        let builder = store.writer("k").strategy(Strategy::Journal);
        let mut writer = if create_only { builder.create_only() } else { builder }.start().await?;
        writer.write_bytes(data(size)).await?;
        writer.finish().await.unwrap_err();
        tide.settled().await;
        place.backend.go_down(false);
        store.writer("k").start().await?.finish().await?; // another writer's object, published later
        let puts = (place.backend.puts(), place.backend.opened());
        let (tide, store) = place.process();
        let error = tide.recover().await?[0].resume_on(&store).await.unwrap_err();
        let expected = if create_only { ErrorKind::AlreadyExists } else { ErrorKind::Uncertain };
        assert_eq!(error.kind(), expected, "{error}");
        assert!(create_only || (place.backend.puts(), place.backend.opened()) == puts, "it was sent");
        assert_eq!(store.head("k").await?.size, 0);
        assert_eq!(place.files(), 1);
        // The remedy that the error names.
        store.delete("k").await?;
        tide.settled().await;
        tide.recover().await?[0].resume_on(&store).await?;
        assert_whole(&place, &store, size).await;
    }
    Ok(())
}

#[tokio::test]
async fn parts_that_were_stored_when_their_session_was_lost_are_not_counted_twice() -> Result<()> {
    let place = Place::new();
    let (_tide, store) = place.process_of(place.builder().memory(1 << 20));
    place.backend.meet(4);
    let mut writer = store.writer("k").strategy(Strategy::Journal).concurrency(4).start().await?;
    writer.write_bytes(data(5 * PART)).await?;
    let progress = writer.progress().clone();
    writer.finish().await?;
    assert_eq!(
        (place.backend.opened(), place.backend.parts()),
        (2, 9),
        "three of the first four were stored"
    );
    let figures = progress.snapshot();
    assert_eq!((figures.acknowledged, figures.parts), (5 * PART, 5));
    assert_whole(&place, &store, 5 * PART).await;
    Ok(())
}

#[tokio::test]
async fn an_abort_says_that_a_completion_came_before_it() -> Result<()> {
    let place = destined(Fate::Silent, 1);
    let (tide, store) = place.process();
    let mut writer = written(&place, &store, 5 * PART).await?;
    let published = async {
        while store.head("k").await.is_err() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::select! {
        shutdown = AsyncWriteExt::shutdown(&mut writer) => panic!("it was answered: {shutdown:?}"),
        () = published => {}
    }
    let error = writer.abort().await.unwrap_err();
    assert_eq!((error.kind(), error.operation()), (ErrorKind::Closed, crate::Operation::Abort), "{error}");
    tide.settled().await;
    assert_whole(&place, &store, 5 * PART).await;

    // The same abort when no completion came before it.
    let mut writer = written(&place, &store, 4 * PART).await?;
    place.backend.deny(true);
    let _ = writer.write_bytes(data(PART)).await; // may fail already, if the 403 came back by then
    let shutdown = AsyncWriteExt::shutdown(&mut writer);
    shutdown.await.unwrap_err();
    writer.abort().await?;
    assert_whole(&place, &store, 5 * PART).await;
    Ok(())
}

/// The store's HEADs show no checksums.
#[derive(Debug)]
struct WithoutChecksums;

#[async_trait::async_trait]
impl Script for WithoutChecksums {
    async fn answer(&self, call: Call<'_>, below: Below<'_>) -> std::result::Result<Answer, Fault> {
        let is_head = matches!(call, Call::Head { .. });
        Ok(match below.send(call).await? {
            Answer::Object(object) if is_head => {
                Answer::Object(Object { crc64nvme: None, crc32c: None, ..object })
            }
            answer => answer,
        })
    }
}

/// Another program may copy our metadata to an object with other bytes.
#[tokio::test]
async fn an_object_with_our_token_and_other_bytes_is_not_this_upload() -> Result<()> {
    for (size, has_checksums) in [(5 * PART, true), (5 * PART - 1, false)] {
        let place = Place::new();
        let (tide, store) = place.process();
        place.backend.lose_answers(true);
        let error = written(&place, &store, 5 * PART).await?.finish().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Uncertain, "{error}");
        tide.settled().await;
        place.backend.lose_answers(false);
        place.backend.go_down(false);
        let below = place.backend.below();
        let token = below.head("k", Attempt::FIRST).await.unwrap().token;
        assert!(token.is_some());
        let bytes = Bytes::from(vec![7; size as usize]);
        let payload =
            Payload::from_memory(vec![bytes.clone()], Checksum::of(below.capabilities().checksum, &bytes));
        let options = WriteOptions { token, ..WriteOptions::default() };
        below.put("k", payload, &options, Attempt::FIRST).await.unwrap();

        let tide = place.builder().build()?;
        let store = match has_checksums {
            true => tide.store(place.backend.clone()),
            false => tide.store(Scripted::over(place.backend.clone(), WithoutChecksums)),
        };
        let error = tide.recover().await?[0].resume_on(&store).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Uncertain, "{size} bytes: {error}");
        assert_eq!(stored(&store, "k").await, bytes);
    }
    Ok(())
}
