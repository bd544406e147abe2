//! Journaled uploads to a store that is down, or that forgets its sessions.

use super::*;

#[tokio::test]
async fn a_store_that_is_down_is_no_error_while_the_producer_goes_on() -> Result<()> {
    let place = Place::new();
    let (tide, store) = place.process();
    place.backend.go_down(true);
    let mut writer = place.writer(&store).await?;
    let bytes = data(200 * PART); // far more than the memory budget
    for piece in bytes.chunks(50_000) {
        writer.write_bytes(Bytes::copy_from_slice(piece)).await?;
    }
    tokio::time::sleep(Duration::from_millis(100)).await;
    let figures = writer.progress().snapshot();
    assert_eq!((figures.journaled, figures.acknowledged), (200 * PART, 0), "what waits is told");
    assert!(figures.retries > 3, "it is tried again beyond the attempts of one request: {figures:?}");
    place.backend.go_down(false);
    writer.write_bytes(Bytes::from_static(b"more")).await?;
    writer.finish().await?;
    assert_eq!(stored(&store, "k").await, [&bytes[..], b"more"].concat());
    assert_eq!(place.files(), 0);
    assert!(tide.usage().peak <= 256 * KIB, "{:?}", tide.usage());
    Ok(())
}

/// A sweep in another process relies on the records to know which sessions are in use.
#[tokio::test]
async fn each_session_that_is_opened_is_in_the_records() -> Result<()> {
    let place = Place::new();
    let (tide, store) = place.process();
    let live = async || {
        let roll = tide.engine().records.roll().await.unwrap();
        let sessions: Vec<_> = store.sessions("").collect().await;
        let ids: Vec<_> = sessions.into_iter().map(|session| session.unwrap().session.id).collect();
        (ids.len(), ids.iter().filter(|id| roll.live("", id).is_some()).count())
    };
    place.backend.go_down(true);
    let mut writer = place.writer(&store).await?;
    writer.write_bytes(data(2 * PART)).await?;
    // Wait until one attempt to open a session has failed and another has begun.
    while writer.progress().snapshot().requests < 3 {
        tokio::task::yield_now().await;
    }
    place.backend.go_down(false);
    while writer.progress().snapshot().acknowledged < PART {
        tokio::task::yield_now().await;
    }
    assert_eq!(live().await, (1, 1));
    place.backend.forget_sessions().await;
    while place.backend.opened() < 2 || writer.progress().snapshot().acknowledged < 2 * PART {
        writer.write_bytes(data(100)).await?;
        tokio::task::yield_now().await;
    }
    assert_eq!(live().await, (1, 1));
    writer.abort().await?;
    let roll = tide.engine().records.roll().await.unwrap();
    assert!(roll.live("memory://test/k", "").is_none() && roll.gone_below("", "").is_empty());
    Ok(())
}

#[tokio::test]
async fn requests_that_wait_for_the_store_leave_memory_to_the_producer() -> Result<()> {
    let place = Place::new();
    // Each retry pauses for longer than the test, and the request keeps its buffers meanwhile.
    let retry = RetryPolicy { first_pause: Duration::from_secs(20), ..RetryPolicy::default() };
    let (_tide, store) = place.process_of(place.builder().retry(retry));
    place.backend.go_down(false);
    let mut writer = place.writer(&store).await?;
    writer.write_bytes(data(2 * PART)).await?;
    while writer.progress().snapshot().acknowledged < PART {
        tokio::task::yield_now().await;
    }
    place.backend.go_down(true);
    let writes = async {
        for _ in 0..200 {
            writer.write_bytes(data(PART)).await?;
        }
        Ok::<_, crate::Error>(())
    };
    tokio::time::timeout(Duration::from_secs(10), writes).await.expect("the producer is held up")?;
    place.backend.go_down(false);
    writer.abort().await
}

#[tokio::test]
async fn a_finish_in_an_outage_ends_with_an_error_and_the_journal_has_all() -> Result<()> {
    for size in [100, 10 * PART] {
        let place = Place::new();
        let (tide, store) = place.process();
        place.backend.go_down(true);
        let mut writer = place.writer(&store).await?;
        writer.write_bytes(data(size)).await?;
        let error = writer.finish().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
        assert!(error.to_string().contains(".journal"), "{error}");
        tide.settled().await;
        place.backend.go_down(false);
        let (tide, store) = place.process();
        let left = tide.recover().await?;
        assert!(left.len() == 1 && left[0].is_finished() && left[0].length() == size, "{left:?}");
        assert_eq!(left[0].url().unwrap(), "memory://test/k");
        let Resumed::Object(object) = left[0].resume_on(&store).await? else { panic!("no object") };
        assert_eq!(object.size, size);
        assert_eq!(stored(&store, "k").await, data(size));
        assert_eq!((place.files(), place.sessions(&store).await), (0, 0));
    }
    Ok(())
}

#[tokio::test]
async fn what_does_not_pass_is_told_to_the_producer() -> Result<()> {
    let place = Place::new();
    let (tide, store) = place.process();
    place.backend.deny(true);
    let mut writer = place.writer(&store).await?;
    let error = loop {
        if let Err(error) = writer.write_bytes(data(PART)).await {
            break error;
        }
        tokio::task::yield_now().await;
    };
    assert_eq!(error.kind(), ErrorKind::PermissionDenied, "{error}");
    let taken = writer.position();
    assert_eq!(writer.write_bytes(data(1)).await.unwrap_err().kind(), ErrorKind::Closed);
    drop(writer);
    tide.settled().await;
    place.backend.deny(false);
    let left = tide.recover().await?;
    let Resumed::Writer(writer) = left[0].resume_on(&store).await? else { panic!("it was not finished") };
    assert!(writer.position() >= taken - PART, "{} of {taken}", writer.position());
    writer.abort().await
}

#[tokio::test]
async fn a_session_that_is_gone_is_opened_again_while_the_journal_has_all() -> Result<()> {
    let place = Place::new();
    let (_tide, store) = place.process();
    let mut writer = place.writer(&store).await?;
    writer.write_bytes(data(10 * PART)).await?;
    while writer.progress().snapshot().acknowledged < 9 * PART {
        tokio::task::yield_now().await;
    }
    place.backend.forget_sessions().await;
    writer.write_bytes(data(10 * PART)).await?;
    writer.finish().await?;
    assert_eq!(stored(&store, "k").await, [data(10 * PART), data(10 * PART)].concat());
    assert!(place.backend.parts() >= 29, "the first nine went out twice");
    assert_eq!((place.files(), place.sessions(&store).await), (0, 0));
    Ok(())
}

#[tokio::test]
async fn a_session_that_is_gone_when_bytes_were_given_back_is_an_error() -> Result<()> {
    let place = Place::new();
    let (tide, store) = place.process_of(place.builder().journal_keep(64 * KIB));
    let mut writer = place.writer(&store).await?;
    // Only whole frames are freed, so write in small pieces: one large write would make a large first frame.
    for _ in 0..20 {
        writer.write_bytes(data(PART)).await?;
    }
    while writer.progress().snapshot().acknowledged < 19 * PART {
        tokio::task::yield_now().await;
    }
    writer.sync().await?;
    place.backend.forget_sessions().await;
    let error = writer.finish().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::SessionLost, "{error}");
    tide.settled().await;
    let error = tide.recover().await?[0].resume_on(&store).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::SessionLost, "{error}");
    assert!(store.head("k").await.is_err());
    tide.settled().await;
    tide.recover().await?[0].abort_on(&store).await?;
    assert_eq!(place.files(), 0);
    Ok(())
}

#[tokio::test]
async fn a_completion_whose_answer_is_lost_is_settled_by_the_next_process() -> Result<()> {
    let place = Place::new();
    let (tide, store) = place.process();
    place.backend.lose_answers(true);
    let mut writer = place.writer(&store).await?;
    writer.write_bytes(data(5 * PART)).await?;
    let error = writer.finish().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Uncertain, "{error}");
    tide.settled().await;
    place.backend.go_down(false);
    let sent = place.backend.parts();
    let (tide, store) = place.process();
    let resumed = tide.recover().await?[0].resume_on(&store).await?;
    assert_eq!(resumed.object().unwrap().size, 5 * PART);
    assert_eq!(place.backend.parts(), sent, "nothing is sent again");
    assert_eq!((place.files(), place.sessions(&store).await), (0, 0));
    Ok(())
}

#[tokio::test]
async fn an_object_that_came_late_by_an_earlier_process_is_its_own() -> Result<()> {
    for size in [100, 5 * PART] {
        let place = Place::new();
        let (tide, store) = place.process();
        place.backend.lose_answers(true);
        let mut writer = store.writer("k").strategy(Strategy::Journal).create_only().start().await?;
        writer.write_bytes(data(size)).await?;
        assert_eq!(writer.finish().await.unwrap_err().kind(), ErrorKind::Uncertain);
        tide.settled().await;
        place.backend.go_down(false);
        place.backend.hide(1);
        let (tide, store) = place.process();
        let resumed = tide.recover().await?[0].resume_on(&store).await?;
        assert_eq!(resumed.object().unwrap().size, size);
        assert_eq!((place.files(), place.sessions(&store).await), (0, 0));
    }
    Ok(())
}

#[tokio::test]
async fn a_session_that_is_opened_long_after_its_writer_went_is_aborted() -> Result<()> {
    let place = Place::new();
    let retry = RetryPolicy { first_pause: Duration::from_secs(10), ..RetryPolicy::default() };
    let (tide, store) = place.process_of(place.builder().retry(retry));
    place.backend.go_down(true);
    let mut writer = place.writer(&store).await?;
    writer.write_bytes(data(2 * PART)).await?;
    drop(writer);
    tide.settled().await;
    place.backend.go_down(false);
    let left = tide.recover().await?;
    let Resumed::Writer(writer) = left[0].resume_on(&store).await? else { panic!("not finished") };
    writer.finish().await?;
    // The first writer retries its request after five to ten seconds.
    let opened = || place.backend.opened();
    for _ in 0..150 {
        if opened() == 2 && place.sessions(&store).await == 0 {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("{} sessions were opened, and {} are left", opened(), place.sessions(&store).await);
}
