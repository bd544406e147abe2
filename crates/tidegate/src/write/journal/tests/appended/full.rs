//! A disk that is full.

use super::*;
use crate::small_disk::SmallDisk;

over_both! {
    what_a_quiet_upload_holds_makes_room_for_another,
    one_stream_goes_on_where_the_disk_stays_full,
    a_store_that_has_nothing_of_a_stream_before_its_end_is_sent_chunks,
}

async fn what_a_quiet_upload_holds_makes_room_for_another(over: GcsTransport) -> Result<()> {
    // What is less than a grain can't be sent before its end.
    for rest in [0, 100 * KIB] {
        let place = Google::new(over).await;
        let Some(_small) = SmallDisk::over(place.folder.path(), 24) else { return Ok(()) };
        let (_tide, store) = place.process_of(place.builder().memory_wait(Duration::from_secs(4))).await;
        let bytes = data((16 << 20) + rest);
        let mut quiet = begin(&store).await;
        write(&mut quiet, &bytes).await?;
        until_acknowledged(&quiet, 16 << 20).await;
        // It has no session, and nothing of it leaves.
        let mut other = store.writer("other").strategy(Strategy::Journal).part_size(64 << 20).start().await?;
        write(&mut other, &data(14 << 20)).await?;
        other.abort().await?;
        quiet.finish().await?;
        place.check(&store, &bytes).await;
    }
    Ok(())
}

/// The producer is faster than the store, which says what it has of the stream.
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
    // What publishes it is a question's twin where nothing is left to send.
    assert!(place.count("start") == 1 && place.count("append") <= 2, "{:?}", place.asked());
    place.check(&store, &bytes).await;
    Ok(())
}

/// Over HTTP the server persists 8 MiB of a stream at once, which the disk has no room for.
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
