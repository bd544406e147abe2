//! Sessions that are lost, and processes that died.

use super::*;

over_both! {
    a_later_process_asks_where_the_session_stands,
    what_was_finished_is_published_without_its_producer,
    what_was_finished_is_published_without_leave_to_read,
    a_session_that_is_open_was_not_published_whatever_object_is_there,
    an_answer_that_was_lost_is_settled_by_the_session,
    an_answer_that_was_lost_with_its_process_is_settled_by_the_next,
    a_session_that_is_gone_is_opened_again_while_the_journal_has_all,
    a_session_that_expired_between_two_processes_is_opened_again,
    a_session_that_is_gone_when_bytes_were_given_back_is_an_error,
}

/// Leaves an upload as if its process had died: `bytes` are written, `acknowledged` of them are acknowledged.
async fn leave(place: &Google, bytes: &[u8], acknowledged: u64) -> Result<()> {
    let (tide, store) = place.process().await;
    let mut writer = begin(&store).await;
    write(&mut writer, bytes).await?;
    until_acknowledged(&writer, acknowledged).await;
    drop(writer);
    tide.settled().await;
    Ok(())
}

async fn a_later_process_asks_where_the_session_stands(over: GcsTransport) -> Result<()> {
    let bytes = data(30 * CHUNK + 9);
    for written in [1, CHUNK, 24 * CHUNK, bytes.len() as u64] {
        let place = Google::new(over).await;
        let known = if written > 16 * CHUNK { 16 * CHUNK } else { 0 };
        leave(&place, &bytes[..written as usize], known).await?;
        let (before, sent) = (place.asked().len(), place.server.counts().bytes_in);
        let (tide, store) = place.process().await;
        let left = tide.recover().await?;
        let Resumed::Writer(mut writer) = left[0].resume_on(&store).await? else { panic!("not finished") };
        assert_eq!(writer.position(), written);
        write(&mut writer, &bytes[written as usize..]).await?;
        writer.finish().await?;
        if known > 0 {
            assert_eq!(place.asked()[before], "query");
            assert_eq!(place.count("start"), 1);
            let again = place.server.counts().bytes_in - sent;
            assert!(again < bytes.len() as u64 - known + (9 << 20), "{again} bytes were sent again");
        }
        place.check(&store, &bytes).await;
    }
    Ok(())
}

async fn what_was_finished_is_published_without_its_producer(over: GcsTransport) -> Result<()> {
    let bytes = data(30 * CHUNK + 9);
    let place = Google::new(over).await;
    place.leave_finished(&bytes).await?;
    let (tide, store) = place.process().await;
    let resumed = tide.recover().await?[0].resume_on(&store).await?;
    assert_eq!(resumed.object().unwrap().size, bytes.len() as u64);
    assert_eq!(place.count("start"), 1);
    place.check(&store, &bytes).await;
    Ok(())
}

/// The session itself tells whether the object was published.
async fn what_was_finished_is_published_without_leave_to_read(over: GcsTransport) -> Result<()> {
    let bytes = data(9 * CHUNK + 9);
    let place = Google::new(over).await;
    place.leave_finished(&bytes).await?;
    place.goes_wrong(vec![FaultRule::error("storage.objects.get", 403, "forbidden")]);
    let (tide, store) = place.process().await;
    let resumed = tide.recover().await?[0].resume_on(&store).await?;
    assert_eq!(resumed.object().unwrap().size, bytes.len() as u64);
    place.check(&store, &bytes).await;
    Ok(())
}

async fn a_session_that_is_open_was_not_published_whatever_object_is_there(over: GcsTransport) -> Result<()> {
    let bytes = data(9 * CHUNK + 9);
    let place = Google::new(over).await;
    place.leave_finished(&bytes).await?;
    let (tide, store) = place.process().await;
    let mut another = store.writer("k").strategy(Strategy::Chunked).start().await?;
    another.write_bytes(data(100)).await?;
    another.finish().await?;
    let resumed = tide.recover().await?[0].resume_on(&store).await?;
    assert_eq!(resumed.object().unwrap().size, bytes.len() as u64);
    place.check(&store, &bytes).await;
    Ok(())
}

async fn an_answer_that_was_lost_is_settled_by_the_session(over: GcsTransport) -> Result<()> {
    let bytes = data(9 * CHUNK + 9);
    for times in [1, 2] {
        let place = Google::new(over).await;
        let (_tide, store) = place.process().await;
        let mut writer = begin(&store).await;
        write(&mut writer, &bytes).await?;
        until("the stream is open", || place.count("append") == 1).await;
        place.goes_wrong(vec![
            FaultRule::new(APPEND, FaultAction::LoseAnswer).times(1),
            FaultRule::error(QUERY, 503, "backendError").times(times),
        ]);
        writer.finish().await?;
        place.check(&store, &bytes).await;
    }
    Ok(())
}

async fn an_answer_that_was_lost_with_its_process_is_settled_by_the_next(over: GcsTransport) -> Result<()> {
    let bytes = data(9 * CHUNK + 9);
    let place = Google::new(over).await;
    let (tide, store) = place.process().await;
    let mut writer = begin(&store).await;
    write(&mut writer, &bytes).await?;
    until("the stream is open", || place.count("append") == 1).await;
    // After the lost answer, every query fails.
    place.goes_wrong(vec![
        FaultRule::new(APPEND, FaultAction::LoseAnswer),
        FaultRule::error(QUERY, 503, "backendError").skip(1),
        FaultRule::error("storage.objects.get", 503, "backendError"),
    ]);
    let error = writer.finish().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Uncertain, "{error}");
    tide.settled().await;
    place.goes_wrong(Vec::new());
    let (sent, opened) = (place.count("append"), place.count("start"));
    let (tide, store) = place.process().await;
    let resumed = tide.recover().await?[0].resume_on(&store).await?;
    assert_eq!(resumed.object().unwrap().size, bytes.len() as u64);
    assert_eq!((place.count("append"), place.count("start")), (sent, opened), "nothing is sent again");
    place.check(&store, &bytes).await;
    Ok(())
}

async fn a_session_that_is_gone_is_opened_again_while_the_journal_has_all(over: GcsTransport) -> Result<()> {
    let bytes = data(40 * CHUNK + 9);
    // The session is lost during the stream, at a status query and, below, at the request that commits.
    let when = match over {
        GcsTransport::Http => vec![(APPEND, 0), (QUERY, 2)],
        // Over gRPC the offset is asked for in the stream itself.
        _ => vec![("storage.v2.BidiWriteObject", 0)],
    };
    for (operation, skip) in when {
        let place = Google::new(over).await;
        let (_tide, store) = place.process().await;
        let mut writer = begin(&store).await;
        place.goes_wrong(vec![FaultRule::new(operation, FaultAction::AbortSessions).skip(skip).times(1)]);
        write(&mut writer, &bytes[..34 * CHUNK as usize]).await?;
        until_acknowledged(&writer, 16 * CHUNK).await;
        until("another is opened", || place.count("start") == 2).await;
        write(&mut writer, &bytes[34 * CHUNK as usize..]).await?;
        let progress = writer.progress();
        writer.finish().await?;
        assert_eq!(place.count("start"), 2, "{:?}", place.asked());
        assert_eq!(progress.snapshot().acknowledged, bytes.len() as u64);
        place.check(&store, &bytes).await;
    }
    let place = Google::new(over).await;
    let (_tide, store) = place.process().await;
    let mut writer = begin(&store).await;
    write(&mut writer, &bytes).await?;
    until("the stream is open", || place.count("append") == 1).await;
    place.goes_wrong(vec![FaultRule::new(APPEND, FaultAction::AbortSessions).times(1)]);
    writer.finish().await?;
    place.check(&store, &bytes).await;
    Ok(())
}

async fn a_session_that_expired_between_two_processes_is_opened_again(over: GcsTransport) -> Result<()> {
    let bytes = data(40 * CHUNK);
    let place = Google::new(over).await;
    leave(&place, &bytes, 16 * CHUNK).await?;
    place.goes_wrong(vec![FaultRule::error(QUERY, 404, "notFound").times(1)]);
    let (tide, store) = place.process().await;
    let Resumed::Writer(writer) = tide.recover().await?[0].resume_on(&store).await? else {
        panic!("not finished")
    };
    writer.finish().await?;
    assert_eq!((place.count("start"), place.count("cancel")), (2, 1), "{:?}", place.asked());
    place.check(&store, &bytes).await;
    Ok(())
}

async fn a_session_that_is_gone_when_bytes_were_given_back_is_an_error(over: GcsTransport) -> Result<()> {
    let bytes = data(40 * CHUNK);
    let place = Google::new(over).await;
    let (tide, store) = place.process_of(place.builder().journal_keep(GRAIN)).await;
    let mut writer = begin(&store).await;
    write(&mut writer, &bytes).await?;
    until_acknowledged(&writer, 32 * CHUNK).await;
    // Wait until the journal has freed the acknowledged bytes.
    tokio::time::sleep(Duration::from_millis(300)).await;
    place.goes_wrong(vec![FaultRule::new("*", FaultAction::AbortSessions)]);
    let error = writer.finish().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::SessionLost, "{error}");
    assert!(error.to_string().contains("has not all bytes any more"), "{error}");
    tide.settled().await;
    place.goes_wrong(Vec::new());
    assert!(store.head("k").await.is_err());
    let (tide, store) = place.process().await;
    let error = tide.recover().await?[0].resume_on(&store).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::SessionLost, "{error}");
    tide.settled().await;
    tide.recover().await?[0].abort_on(&store).await?;
    assert_eq!(place.files(), 0);
    Ok(())
}
