//! A full journal disk under uploads to sessions that are appended to.

use super::*;
use crate::testkit::small_disk::SmallDisk;

over_both! {
    what_a_quiet_upload_holds_makes_room_for_another,
    one_stream_goes_on_where_the_disk_stays_full,
    a_store_that_has_nothing_of_a_stream_before_its_end_is_sent_chunks,
    uploads_of_less_than_a_chunk_make_room_for_each_other,
    uploads_that_the_store_takes_nothing_of_end_with_a_clear_error,
}

async fn what_a_quiet_upload_holds_makes_room_for_another(over: GcsTransport) -> Result<()> {
    // A rest of less than a grain can't be sent before the upload ends.
    for rest in [0, 100 * KIB] {
        let place = Google::new(over).await;
        let Some(_small) = SmallDisk::over(place.folder.path(), 24) else { return Ok(()) };
        let (_tide, store) = place.process_of(place.builder().memory_wait(Duration::from_secs(4))).await;
        let bytes = data((16 << 20) + rest);
        let mut quiet = begin(&store).await;
        write(&mut quiet, &bytes).await?;
        until_acknowledged(&quiet, 16 << 20).await;
        // With such large parts the other upload opens no session and sends nothing.
        let mut other = store.writer("other").strategy(Strategy::Journal).part_size(64 << 20).start().await?;
        write(&mut other, &data(14 << 20)).await?;
        other.abort().await?;
        quiet.finish().await?;
        place.check(&store, &bytes).await;
    }
    Ok(())
}

/// The producer is faster than the store, which acknowledges the bytes of the open stream.
async fn one_stream_goes_on_where_the_disk_stays_full(over: GcsTransport) -> Result<()> {
    let place = Google::new(over).await;
    let Some(_small) = SmallDisk::over(place.folder.path(), 24) else { return Ok(()) };
    let bandwidth = Bandwidth { stream_in: Some(24 << 20), ..Bandwidth::default() };
    place.server.set_knobs(Knobs { bandwidth, ..Knobs::default() });
    let (_tide, store) = place.process_of(place.builder().part_size(4 << 20)).await;
    let bytes = data(72 << 20);
    let mut writer = begin(&store).await;
    write(&mut writer, &bytes).await?;
    writer.finish().await?;
    // At most two appends: the stream, and the request that commits.
    assert!(place.count("start") == 1 && place.count("append") <= 2, "{:?}", place.asked());
    place.check(&store, &bytes).await;
    Ok(())
}

/// Over HTTP the server persists a stream in steps of 8 MiB, more than the disk has room for.
async fn a_store_that_has_nothing_of_a_stream_before_its_end_is_sent_chunks(
    over: GcsTransport,
) -> Result<()> {
    let place = Google::new(over).await;
    let Some(_small) = SmallDisk::over(place.folder.path(), 6) else { return Ok(()) };
    let (_tide, store) = place.process_of(place.builder().memory_wait(Duration::from_secs(10))).await;
    let bytes = data(12 << 20);
    let mut writer = begin(&store).await;
    write(&mut writer, &bytes).await?;
    writer.finish().await?;
    place.check(&store, &bytes).await;
    Ok(())
}

async fn uploads_of_less_than_a_chunk_make_room_for_each_other(over: GcsTransport) -> Result<()> {
    const UPLOADS: usize = 5;
    let place = Google::new(over).await;
    let Some(_small) = SmallDisk::over(place.folder.path(), 8) else { return Ok(()) };
    let builder = place.builder().part_size(16 << 20).memory_wait(Duration::from_secs(5));
    let (_tide, store) = place.process_of(builder).await;
    let bytes = data((4 << 20) + 77);
    let upload = async |at: usize| {
        let mut writer = store.writer(format!("k{at}")).strategy(Strategy::Journal).start().await?;
        write(&mut writer, &bytes).await?;
        Ok::<_, crate::Error>(writer)
    };
    let writers = futures::future::try_join_all((0..UPLOADS).map(upload)).await?;
    for (at, writer) in writers.into_iter().enumerate() {
        writer.finish().await?;
        assert!(stored(&store, &format!("k{at}")).await == bytes, "{at}");
    }
    assert_eq!(place.files(), 0);
    Ok(())
}

/// Before an upload ends, the store keeps only whole grains of it.
async fn uploads_that_the_store_takes_nothing_of_end_with_a_clear_error(over: GcsTransport) -> Result<()> {
    const UPLOADS: usize = 40;
    let place = Google::new(over).await;
    let Some(_small) = SmallDisk::over(place.folder.path(), 4) else { return Ok(()) };
    let wait = Duration::from_secs(1);
    let (tide, store) = place.process_of(place.builder().memory_wait(wait)).await;
    let bytes = data(200 * KIB);
    let began = std::time::Instant::now();
    let upload = async |at: usize| {
        let mut writer = store.writer(format!("k{at}")).strategy(Strategy::Journal).start().await?;
        write(&mut writer, &bytes).await?;
        Ok::<_, crate::Error>(writer)
    };
    let ended = futures::future::join_all((0..UPLOADS).map(upload)).await;
    assert!(began.elapsed() < 10 * wait, "{:?}", began.elapsed());
    let (kept, failed): (Vec<_>, Vec<_>) = ended.into_iter().partition(Result::is_ok);
    assert!(!failed.is_empty());
    for error in failed.iter().filter_map(|ended| ended.as_ref().err()) {
        assert_eq!(error.kind(), ErrorKind::NoSpace, "{error}");
        let said = error.to_string();
        // One that the disk had no room to begin has written nothing.
        let has_begun = said.contains("keeps the bytes written so far");
        assert!(
            said.contains("free some") && said.contains("no less than 262144 bytes") == has_begun,
            "{said}"
        );
    }
    // Uploads whose bytes are all in the journal need no room to finish.
    for writer in kept {
        writer?.finish().await?;
    }
    tide.settled().await;
    Ok(())
}
