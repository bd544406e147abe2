//! Journaled uploads to sessions that are appended to, against the embedded server as Google Cloud Storage.

use tidegate_dev::{Bandwidth, FaultAction, FaultRule, Knobs, Server};

use super::*;
use crate::backend::gcs::{Gcs, GcsTransport};
use crate::settings::Concurrency;
use crate::testkit::figures::Figures;
use tidegate_gcs::testkit::{self as google, over_both};

mod chaos;
mod full;
mod said;
mod trouble;
mod unexpected;
mod unsynced;
mod wrong;

over_both! {
    every_size_and_durability_gives_the_object_and_leaves_nothing,
    one_stream_is_held_open_while_the_producer_goes_on,
    a_stream_that_has_nothing_to_send_for_long_is_let_go,
    a_stream_that_breaks_when_all_is_sent_is_opened_again_for_more_than_a_chunk,
    ten_streams_that_break_in_a_row_cost_what_each_rewind_repeats,
    a_store_that_takes_nothing_is_no_error_while_the_producer_goes_on,
    what_is_acknowledged_is_given_back,
    streams_that_are_open_hold_neither_turns_nor_memory,
    a_drop_leaves_the_journal_and_the_session_and_an_abort_nothing,
    create_only_is_the_stores_own_condition,
    who_asks_for_several_at_once_gets_parts,
}

const GRAIN: u64 = 256 * KIB;
/// Bytes between two status queries.
const CHUNK: u64 = 2 * GRAIN;

const APPEND: &str = "storage.resumable.append";
const QUERY: &str = "storage.resumable.query";
const CANCEL: &str = "storage.resumable.cancel";

struct Google {
    over: GcsTransport,
    folder: tempfile::TempDir,
    server: Server,
}

impl Google {
    async fn new(over: GcsTransport) -> Self {
        let server = Server::builder().journal(true).start().await.unwrap();
        server.create_bucket("bucket").unwrap();
        Self { over, folder: tempfile::tempdir().unwrap(), server }
    }

    fn builder(&self) -> TidegateBuilder {
        let retry = RetryPolicy {
            attempts: 4,
            first_pause: Duration::from_millis(1),
            longest_pause: Duration::from_millis(20),
            ..RetryPolicy::default()
        };
        Tidegate::builder()
            .memory(4 << 20)
            .slab(16 << 10)
            .part_size(CHUNK)
            .retry(retry)
            .journal([self.folder.path()])
    }

    async fn connect(&self) -> Gcs {
        google::bucket(&self.server, self.over).await
    }

    async fn process_of(&self, builder: TidegateBuilder) -> (Tidegate, Store) {
        let tide = builder.build().unwrap();
        let store = tide.store(Arc::new(self.connect().await));
        (tide, store)
    }

    async fn process(&self) -> (Tidegate, Store) {
        self.process_of(self.builder()).await
    }

    /// Leaves an upload of `bytes`, as if its process had died: it was finished, but an outage prevented the commit.
    async fn leave_finished(&self, bytes: &[u8]) -> Result<()> {
        let (tide, store) = self.process().await;
        self.goes_wrong(vec![FaultRule::error(APPEND, 503, "backendError")]);
        let mut writer = begin(&store).await;
        write(&mut writer, bytes).await?;
        let error = writer.finish().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Throttled, "{error}");
        tide.settled().await;
        self.goes_wrong(Vec::new());
        Ok(())
    }

    /// Leaves an upload whose journal has `bytes`, and whose session has more bytes, and different ones.
    async fn leave_behind_its_session(&self, bytes: &[u8]) -> Result<()> {
        let (tide, store) = self.process().await;
        let mut writer = begin(&store).await;
        write(&mut writer, bytes).await?;
        until("the stream is open", || self.count("append") == 1).await;
        let file = journal_file(self.folder.path());
        let before = std::fs::read(&file).unwrap();
        write(&mut writer, &data(36 * CHUNK)).await?;
        until_acknowledged(&writer, 16 * CHUNK).await;
        drop(writer);
        tide.settled().await;
        // As a disk does that loses data after it confirmed a sync.
        std::fs::write(&file, before).unwrap();
        Ok(())
    }

    fn goes_wrong(&self, faults: Vec<FaultRule>) {
        let faults = google::rules(faults, self.over);
        self.server.set_knobs(Knobs { faults, ..Knobs::default() });
    }

    /// The names of all requests but reads, in order.
    fn asked(&self) -> Vec<String> {
        google::asked(&self.server).into_iter().filter(|name| name != "get" && name != "download").collect()
    }

    fn count(&self, what: &str) -> usize {
        self.asked().iter().filter(|asked| *asked == what).count()
    }

    fn files(&self) -> usize {
        std::fs::read_dir(self.folder.path()).unwrap().count()
    }

    /// Asserts that the object has these bytes, and that no journal is left.
    async fn check(&self, store: &Store, bytes: &[u8]) {
        self.goes_wrong(Vec::new());
        assert!(stored(store, "k").await == bytes, "the object is another");
        assert_eq!(self.files(), 0, "a journal was left");
    }
}

async fn begin(store: &Store) -> Writer {
    store.writer("k").strategy(Strategy::Journal).start().await.unwrap()
}

async fn write(writer: &mut Writer, bytes: &[u8]) -> Result<()> {
    for piece in bytes.chunks(50_000) {
        writer.write_bytes(Bytes::copy_from_slice(piece)).await?;
    }
    Ok(())
}

async fn until(what: &str, is_so: impl Fn() -> bool) {
    let wait = async {
        while !is_so() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), wait).await.unwrap_or_else(|_| panic!("not so: {what}"));
}

async fn until_acknowledged(writer: &Writer, bytes: u64) {
    until("it is acknowledged", || writer.progress().snapshot().acknowledged >= bytes).await;
}

async fn every_size_and_durability_gives_the_object_and_leaves_nothing(over: GcsTransport) -> Result<()> {
    let group = Durability::Group { bytes: 64 * KIB, delay: Duration::from_millis(5) };
    for durability in [Durability::Write, group, Durability::Sync] {
        for size in [0, 1, CHUNK - 1, CHUNK, CHUNK + 1, 4 * CHUNK, 9 * CHUNK + 17] {
            let place = Google::new(over).await;
            let (tide, store) = place.process_of(place.builder().durability(durability)).await;
            let bytes = data(size);
            let mut writer = begin(&store).await;
            write(&mut writer, &bytes).await?;
            assert_eq!(writer.strategy(), Strategy::Journal);
            let progress = writer.progress();
            let object = writer.finish().await?;
            assert_eq!(object.size, size);
            let asked = place.asked();
            if size <= CHUNK {
                assert_eq!(asked, ["insert"], "{size}");
            } else {
                assert_eq!(asked[0], "start", "{size}");
            }
            let figures = progress.snapshot();
            assert_eq!((figures.accepted, figures.journaled, figures.acknowledged), (size, size, size));
            assert_eq!((figures.in_flight, figures.waiting), (0, None));
            place.check(&store, &bytes).await;
            tide.settled().await;
            assert_eq!(tide.usage().held, 0);
        }
    }
    Ok(())
}

async fn one_stream_is_held_open_while_the_producer_goes_on(over: GcsTransport) -> Result<()> {
    let figures = Figures::default();
    let _recorder = metrics::set_default_local_recorder(&figures);
    let place = Google::new(over).await;
    let (_tide, store) = place.process().await;
    let bytes = data(40 * CHUNK + 5);
    let mut writer = begin(&store).await;
    for (at, piece) in bytes.chunks(2 * CHUNK as usize).enumerate() {
        writer.write_bytes(Bytes::copy_from_slice(piece)).await?;
        if at % 5 == 0 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
    until_acknowledged(&writer, 16 * CHUNK).await;
    assert_eq!(place.count("append"), 1, "{:?}", place.asked());
    assert!(figures.of("requests_in_flight{operation=part}") >= 1.0, "{figures:?}");
    assert!(figures.of("bytes_written_total{}") >= (16 * CHUNK) as f64, "{figures:?}");
    writer.finish().await?;
    assert_eq!((place.count("start"), place.count("append")), (1, 2), "{:?}", place.asked());
    assert_eq!(figures.of("requests_in_flight{operation=part}"), 0.0, "{figures:?}");
    assert!(figures.of("request_seconds{operation=part}") >= 2.0, "{figures:?}");
    assert_eq!(figures.of("bytes_written_total{}"), bytes.len() as f64, "{figures:?}");
    place.check(&store, &bytes).await;
    Ok(())
}

async fn a_stream_that_has_nothing_to_send_for_long_is_let_go(over: GcsTransport) -> Result<()> {
    let place = Google::new(over).await;
    let (_tide, store) = place.process().await;
    let bytes = data(4 * CHUNK + 9);
    let mut writer = begin(&store).await;
    write(&mut writer, &bytes[..2 * CHUNK as usize]).await?;
    until("all is sent", || {
        let figures = writer.progress().snapshot();
        place.count("append") == 1 && figures.in_flight == 0 && figures.waiting.is_none()
    })
    .await;
    tokio::time::sleep(Duration::from_millis(50)).await;
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(31)).await;
    tokio::time::resume();
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert_eq!(place.count("append"), 1, "it is not opened again before there is something for it");
    assert_eq!(writer.progress().snapshot().retries, 0);
    write(&mut writer, &bytes[2 * CHUNK as usize..]).await?;
    until("another stream is open", || place.count("append") == 2).await;
    writer.finish().await?;
    assert_eq!((place.count("start"), place.count("append")), (1, 3), "{:?}", place.asked());
    place.check(&store, &bytes).await;
    Ok(())
}

async fn a_stream_that_breaks_when_all_is_sent_is_opened_again_for_more_than_a_chunk(
    over: GcsTransport,
) -> Result<()> {
    for (kept, streams) in [(CHUNK, 2), (5 * CHUNK, 1)] {
        let figures = Figures::default();
        let _recorder = metrics::set_default_local_recorder(&figures);
        let place = Google::new(over).await;
        let (_tide, store) = place.process().await;
        place.goes_wrong(vec![
            FaultRule::new(APPEND, FaultAction::ResetRequest { after_bytes: kept + 4321 }).times(1),
        ]);
        let bytes = data(6 * CHUNK);
        let mut writer = begin(&store).await;
        writer.write_bytes(bytes.clone()).await?;
        until_acknowledged(&writer, kept).await;
        until("it is opened again", || place.count("append") >= streams).await;
        tokio::time::sleep(Duration::from_millis(100)).await;
        // The server may have cut the stream before all bytes were handed to the connection.
        assert!(place.count("append") <= 2, "{:?}", place.asked());
        assert_eq!(figures.of("failures_total{operation=part,kind=unavailable}"), 1.0, "{figures:?}");
        writer.finish().await?;
        place.check(&store, &bytes).await;
    }
    Ok(())
}

async fn ten_streams_that_break_in_a_row_cost_what_each_rewind_repeats(over: GcsTransport) -> Result<()> {
    let place = Google::new(over).await;
    let (_tide, store) = place.process_of(place.builder().part_size(4 * GRAIN)).await;
    let cut = FaultAction::ResetRequest { after_bytes: 3 * GRAIN + 4321 };
    place.goes_wrong(vec![FaultRule::new(APPEND, cut).times(10)]);
    let bytes = data(64 * GRAIN + 77);
    let mut writer = begin(&store).await;
    let progress = writer.progress();
    write(&mut writer, &bytes).await?;
    writer.finish().await?;
    assert!(place.count("append") >= 12, "{:?}", place.asked());
    // The commit may follow the last break directly, without a retry.
    assert!((9..=10).contains(&progress.snapshot().retries), "{:?}", progress.snapshot());
    place.check(&store, &bytes).await;
    // The server keeps three grains of a broken stream; the bytes after them are sent again. The last rewind, before
    // the commit, repeats the bytes that did not fill a piece on the server.
    let (sent, repeated) = (place.server.counts().bytes_in, 10 * GRAIN + (8 << 20));
    assert!(sent < bytes.len() as u64 + repeated + (64 << 10), "{sent} bytes were sent");
    Ok(())
}

async fn a_store_that_takes_nothing_is_no_error_while_the_producer_goes_on(over: GcsTransport) -> Result<()> {
    for code in ["backendError", ""] {
        let place = Google::new(over).await;
        let (_tide, store) = place.process().await;
        place.goes_wrong(vec![FaultRule::error(APPEND, 503, code)]);
        let bytes = data(20 * CHUNK);
        let mut writer = begin(&store).await;
        write(&mut writer, &bytes).await?;
        // More attempts than one request has.
        until("it is tried again", || place.count("append") > 12).await;
        place.goes_wrong(Vec::new());
        writer.write_bytes(Bytes::from_static(b"more")).await?;
        writer.finish().await?;
        place.check(&store, &[&bytes[..], b"more"].concat()).await;
    }
    Ok(())
}

async fn what_is_acknowledged_is_given_back(over: GcsTransport) -> Result<()> {
    use std::os::unix::fs::MetadataExt;
    let place = Google::new(over).await;
    let (_tide, store) = place.process_of(place.builder().journal_keep(GRAIN)).await;
    let bytes = data(48 << 20);
    let mut writer = begin(&store).await;
    let mut most = 0;
    for piece in bytes.chunks(1 << 20) {
        writer.write_bytes(Bytes::copy_from_slice(piece)).await?;
        // The server persists pieces of 8 MiB.
        let taken = writer.position();
        until_acknowledged(
            &writer,
            (taken - CHUNK - 1).min(taken / (8 << 20) * (8 << 20)).min(taken - CHUNK),
        )
        .await;
        let file = journal_file(place.folder.path());
        most = most.max(file.metadata().unwrap().blocks() * 512);
    }
    assert!(most < 24 << 20, "{most} bytes of disk for an object that the store has");
    writer.finish().await?;
    place.check(&store, &bytes).await;
    Ok(())
}

async fn streams_that_are_open_hold_neither_turns_nor_memory(over: GcsTransport) -> Result<()> {
    const WRITERS: usize = 12;
    let place = Google::new(over).await;
    let builder = place.builder().memory(1 << 20).concurrency(Concurrency::Fixed(2));
    let (tide, store) = place.process_of(builder).await;
    let mut writers = Vec::new();
    for at in 0..WRITERS {
        writers.push(store.writer(format!("k{at}")).strategy(Strategy::Journal).start().await?);
    }
    let bytes = data(3 * CHUNK + 9);
    for writer in &mut writers {
        write(writer, &bytes).await?;
    }
    until("every stream is open", || place.count("append") >= WRITERS).await;
    // Every stream has sent its bytes before any writer finishes.
    for writer in &writers {
        until("it is sent", || writer.progress().snapshot().in_flight == 0).await;
    }
    let finished = futures::future::join_all(writers.into_iter().map(Writer::finish));
    let finished =
        tokio::time::timeout(Duration::from_secs(30), finished).await.expect("they wait for each other");
    for (at, object) in finished.into_iter().enumerate() {
        assert_eq!(object?.size, bytes.len() as u64);
        assert!(stored(&store, &format!("k{at}")).await == bytes);
    }
    assert_eq!(place.files(), 0);
    tide.settled().await;
    assert!(tide.usage().peak <= 1 << 20, "{:?}", tide.usage());
    Ok(())
}

async fn a_drop_leaves_the_journal_and_the_session_and_an_abort_nothing(over: GcsTransport) -> Result<()> {
    let place = Google::new(over).await;
    let (tide, store) = place.process().await;
    let mut writer = begin(&store).await;
    write(&mut writer, &data(20 * CHUNK)).await?;
    until("a stream is open", || place.count("append") > 0).await;
    drop(writer);
    tide.settled().await;
    assert_eq!(place.files(), 1);
    assert_eq!(place.count("cancel"), 0);
    // Give a stray request time to commit.
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert!(store.head("k").await.is_err(), "nothing is published by a drop");
    let left = tide.recover().await?;
    left[0].abort_on(&store).await?;
    assert_eq!((place.files(), place.count("cancel")), (0, 1));

    let mut writer = begin(&store).await;
    write(&mut writer, &data(20 * CHUNK)).await?;
    until("a stream is open", || place.count("append") > 1).await;
    writer.abort().await?;
    assert_eq!((place.files(), place.count("cancel")), (0, 2));
    assert!(store.head("k").await.is_err());
    Ok(())
}

async fn create_only_is_the_stores_own_condition(over: GcsTransport) -> Result<()> {
    for size in [100, 7 * CHUNK] {
        let place = Google::new(over).await;
        let (tide, store) = place.process().await;
        let write = async |bytes: &[u8]| {
            let mut writer = store.writer("k").strategy(Strategy::Journal).create_only().start().await?;
            write(&mut writer, bytes).await?;
            writer.finish().await
        };
        write(&data(size)).await?;
        let error = write(&data(size + 1)).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::AlreadyExists, "{error}");
        assert!(stored(&store, "k").await == data(size));
        tide.settled().await;
        // A resume gets the same error.
        let (tide, store) = place.process().await;
        let left = tide.recover().await?;
        let error = left[0].resume_on(&store).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::AlreadyExists, "{error}");
    }
    Ok(())
}

async fn who_asks_for_several_at_once_gets_parts(over: GcsTransport) -> Result<()> {
    let place = Google::new(over).await;
    let (_tide, store) = place.process_of(place.builder().part_size(5 << 20)).await;
    let bytes = data(12 << 20);
    let mut writer = store.writer("k").strategy(Strategy::Journal).concurrency(4).start().await?;
    write(&mut writer, &bytes).await?;
    writer.finish().await?;
    assert_eq!(place.count("UploadPart"), 3, "{:?}", place.asked());
    place.check(&store, &bytes).await;
    Ok(())
}
