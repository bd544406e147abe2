//! Chunked uploads against the embedded server: which bytes are sent, and which are sent again.

use crate::backend::Attempt;
use std::io::Write as _;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tidegate_dev::{FaultAction, FaultRule, Knobs, Server};

use crate::backend::gcs::GcsTransport;
use crate::settings::RetryPolicy;
use crate::testkit::bytes::bytes_of;
use crate::{ErrorKind, Object, Result, Store, Strategy, Tidegate};
use tidegate_gcs::testkit::{self as google, over_both};

mod trouble;

over_both! {
    the_last_chunk_publishes_whatever_the_length,
    after_a_cut_only_what_is_missing_is_sent_again,
    a_lost_answer_is_settled_by_the_session,
    refusals_of_a_chunk_are_outlasted,
    a_session_that_is_gone_is_an_error_and_nothing_is_published,
    an_abort_cancels_the_session,
    create_only_is_appended_by_every_strategy,
    what_was_spooled_is_appended_in_order,
    a_part_size_is_rounded_up_to_what_the_store_takes,
    bytes_that_arrive_otherwise_are_not_published,
    the_last_chunk_waits_for_the_one_before_it,
}

over_both! {
    on threads: the_error_of_a_chunk_is_told_and_not_that_of_the_one_behind_it
}

const GRAIN: u64 = 256 << 10;

struct Place {
    over: GcsTransport,
    server: Server,
    tide: Tidegate,
    store: Store,
}

async fn place(over: GcsTransport) -> Place {
    place_with(over, |policy| policy).await
}

async fn place_with(over: GcsTransport, change: impl FnOnce(RetryPolicy) -> RetryPolicy) -> Place {
    let server = Server::builder().journal(true).start().await.unwrap();
    server.create_bucket("bucket").unwrap();
    let policy = change(RetryPolicy { first_pause: Duration::from_millis(1), ..RetryPolicy::default() });
    let tide = Tidegate::builder().retry(policy).part_size(4 * GRAIN).build().unwrap();
    let store = tide.store(Arc::new(google::bucket(&server, over).await));
    Place { over, server, tide, store }
}

fn data(len: u64) -> Bytes {
    bytes_of(len, 0).into()
}

impl Place {
    fn goes_wrong(&self, faults: Vec<FaultRule>) {
        let faults = google::rules(faults, self.over);
        self.server.set_knobs(Knobs { faults, ..Knobs::default() });
    }

    /// The names of all requests but reads, in order.
    fn asked(&self) -> Vec<String> {
        google::asked(&self.server).into_iter().filter(|name| name != "get" && name != "download").collect()
    }

    async fn write(&self, bytes: &Bytes) -> Result<Object> {
        let mut writer = self.store.writer("k").strategy(Strategy::Chunked).start().await?;
        for piece in bytes.chunks(100_000) {
            writer.write_bytes(Bytes::copy_from_slice(piece)).await?;
        }
        writer.finish().await
    }

    async fn send_file(&self, bytes: &Bytes) -> Result<Object> {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(bytes).unwrap();
        self.store.writer("k").strategy(Strategy::Chunked).upload(file.path()).await
    }

    async fn check(&self, bytes: &Bytes) {
        self.server.set_knobs(Knobs::default());
        let mut reader = self.store.reader("k").start().await.unwrap();
        let mut read = Vec::new();
        tokio::io::AsyncReadExt::read_to_end(&mut reader, &mut read).await.unwrap();
        assert!(read == *bytes);
    }
}

async fn the_last_chunk_publishes_whatever_the_length(over: GcsTransport) {
    for (len, requests) in [
        (0, vec!["insert"]),
        (4 * GRAIN, vec!["insert"]),
        (4 * GRAIN + 1, vec!["start", "append", "append"]),
        (8 * GRAIN, vec!["start", "append", "append"]),
        (10 * GRAIN + 7, vec!["start", "append", "append", "append"]),
    ] {
        let bytes = data(len);
        for from_file in [false, true] {
            let place = place(over).await;
            let object =
                if from_file { place.send_file(&bytes).await } else { place.write(&bytes).await }.unwrap();
            assert_eq!(object.size, len);
            assert_eq!(place.asked(), requests, "{len} {from_file}");
            place.check(&bytes).await;
        }
    }
}

async fn after_a_cut_only_what_is_missing_is_sent_again(over: GcsTransport) {
    let bytes = data(8 * GRAIN + 5);
    for from_file in [false, true] {
        let place = place(over).await;
        let cut = FaultAction::ResetRequest { after_bytes: 2 * GRAIN + 9 };
        place.goes_wrong(vec![FaultRule::new("storage.resumable.append", cut).times(1)]);
        let sent = if from_file { place.send_file(&bytes).await } else { place.write(&bytes).await };
        assert_eq!(sent.unwrap().size, bytes.len() as u64);
        let mut expected = vec!["start", "append", "query", "append", "append", "append"];
        if over == GcsTransport::Grpc {
            // The server cuts between messages, and one message carries the whole chunk.
            expected.pop();
        }
        assert_eq!(place.asked(), expected);
        let counted = place.server.counts().bytes_in;
        // All bytes, the lost rest of a grain, and headers, but not the two whole grains again.
        assert!(counted < bytes.len() as u64 + 64 * 1024, "{counted}");
        place.check(&bytes).await;
    }
}

async fn a_lost_answer_is_settled_by_the_session(over: GcsTransport) {
    let bytes = data(8 * GRAIN + 5);
    for skip in 0..3 {
        let place = place(over).await;
        let lost = FaultRule::new("storage.resumable.append", FaultAction::LoseAnswer).skip(skip).times(1);
        place.goes_wrong(vec![lost]);
        assert_eq!(place.write(&bytes).await.unwrap().size, bytes.len() as u64);
        let mut expected = vec!["start", "append", "append", "append"];
        expected.insert(2 + skip as usize, "query");
        assert_eq!(place.asked(), expected, "nothing is sent twice");
        place.check(&bytes).await;
    }
}

async fn refusals_of_a_chunk_are_outlasted(over: GcsTransport) {
    let bytes = data(8 * GRAIN + 5);
    for (status, code) in [(503, "backendError"), (500, "backendError"), (429, "rateLimitExceeded")] {
        let place = place(over).await;
        let fault = FaultRule::error("storage.resumable.append", status, code).skip(1).times(2);
        place.goes_wrong(vec![fault]);
        assert_eq!(place.write(&bytes).await.unwrap().size, bytes.len() as u64);
        place.check(&bytes).await;
    }
}

async fn a_session_that_is_gone_is_an_error_and_nothing_is_published(over: GcsTransport) {
    let place = place(over).await;
    place.goes_wrong(vec![FaultRule::error("storage.resumable.append", 410, "gone").skip(1)]);
    let error = place.write(&data(12 * GRAIN)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::SessionLost, "{error}");
    place.tide.settled().await;
    assert_eq!(place.store.head("k").await.unwrap_err().kind(), ErrorKind::NotFound);
}

async fn an_abort_cancels_the_session(over: GcsTransport) {
    let place = place(over).await;
    let mut writer = place.store.writer("k").strategy(Strategy::Chunked).start().await.unwrap();
    writer.write_bytes(data(5 * GRAIN)).await.unwrap();
    writer.abort().await.unwrap();
    assert_eq!(place.asked(), ["start", "append", "cancel"]);
    let mut writer = place.store.writer("k").strategy(Strategy::Chunked).start().await.unwrap();
    writer.write_bytes(data(5 * GRAIN)).await.unwrap();
    drop(writer);
    assert!(place.tide.settled().await.is_empty());
    assert_eq!(place.asked().last().map(String::as_str), Some("cancel"));
    assert_eq!(place.store.head("k").await.unwrap_err().kind(), ErrorKind::NotFound);
}

async fn create_only_is_appended_by_every_strategy(over: GcsTransport) {
    for strategy in [Strategy::Auto, Strategy::Parallel, Strategy::Chunked] {
        let place = place(over).await;
        let bytes = data(9 * GRAIN);
        let write = async |first: u8| {
            let writer = place.store.writer("k").strategy(strategy).create_only();
            let mut writer = writer.start().await?;
            assert_eq!(writer.strategy(), Strategy::Chunked);
            writer.write_bytes(Bytes::copy_from_slice(&[first])).await?;
            writer.write_bytes(bytes.clone()).await?;
            writer.finish().await
        };
        write(1).await.unwrap();
        let error = write(2).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::AlreadyExists, "{error}");
        assert!(place.tide.settled().await.is_empty());
        place.check(&[&[1][..], &bytes].concat().into()).await;
    }
}

async fn what_was_spooled_is_appended_in_order(over: GcsTransport) {
    let directory = tempfile::tempdir().unwrap();
    let place = place(over).await;
    let tide =
        Tidegate::builder().memory(16 << 20).part_size(4 * GRAIN).spool([directory.path()]).build().unwrap();
    let store = tide.store(Arc::new(google::bucket(&place.server, over).await));
    let bytes = data(41 * GRAIN + 3);
    let mut writer = store.writer("k").strategy(Strategy::Spool).create_only().start().await.unwrap();
    for piece in bytes.chunks(100_000) {
        writer.write_bytes(Bytes::copy_from_slice(piece)).await.unwrap();
    }
    assert!(place.asked().is_empty(), "nothing is sent before all is there");
    assert_eq!(writer.finish().await.unwrap().size, bytes.len() as u64);
    assert_eq!(place.asked().len(), 12, "{:?}", place.asked());
    place.check(&bytes).await;
}

async fn a_part_size_is_rounded_up_to_what_the_store_takes(over: GcsTransport) {
    let place = place(over).await;
    let bytes = data(3 * GRAIN);
    let writer = place.store.writer("k").strategy(Strategy::Chunked).part_size(GRAIN + 1);
    let mut writer = writer.start().await.unwrap();
    writer.write_bytes(bytes.clone()).await.unwrap();
    writer.finish().await.unwrap();
    assert_eq!(place.asked(), ["start", "append", "append"], "of two grains, and of one");
    place.check(&bytes).await;
}

async fn bytes_that_arrive_otherwise_are_not_published(over: GcsTransport) {
    let place = place_with(over, |policy| RetryPolicy { attempts: 2, ..policy }).await;
    let options = crate::backend::WriteOptions::default();
    let append = place.store.context().backend().need_append().unwrap();
    let session = append.open("k", &options, Attempt::FIRST).await.unwrap();
    let sum =
        |bytes: &[u8]| crate::types::checksum::Checksum::of(crate::types::checksum::Algorithm::Crc32c, bytes);
    let payload = crate::memory::payload::Payload::from_memory(vec![data(10)], sum(&data(10)));
    let fault =
        append.append(&session, 0, payload, Some(&sum(&data(11)[1..])), Attempt::FIRST).await.unwrap_err();
    assert_eq!(fault.kind, crate::backend::FaultKind::Integrity, "{fault}");
    assert_eq!(place.store.head("k").await.unwrap_err().kind(), ErrorKind::NotFound);
}

/// Finishes while the first chunk is in flight and no byte follows it: the last chunk is empty.
async fn finish_beside_a_chunk(place: &Place) -> Result<Object> {
    let mut writer = place.store.writer("k").strategy(Strategy::Chunked).start().await?;
    writer.write_bytes(data(4 * GRAIN)).await?;
    let late =
        tokio::time::timeout(Duration::from_millis(50), writer.write_bytes(Bytes::from_static(b"x"))).await;
    assert!(late.is_err(), "the chunk is not acknowledged yet");
    assert_eq!(writer.position(), 4 * GRAIN);
    writer.finish().await
}

async fn the_last_chunk_waits_for_the_one_before_it(over: GcsTransport) {
    let place = place(over).await;
    place.goes_wrong(vec![FaultRule::new("storage.resumable.append", FaultAction::DelayMs(300.0)).times(1)]);
    assert_eq!(finish_beside_a_chunk(&place).await.unwrap().size, 4 * GRAIN);
    let asked = place.asked();
    assert_eq!((asked.len(), &*asked[0], &*asked[1]), (3, "start", "append"), "{asked:?}");
    place.check(&data(4 * GRAIN)).await;
}

async fn the_error_of_a_chunk_is_told_and_not_that_of_the_one_behind_it(over: GcsTransport) {
    for _ in 0..5 {
        let place = place(over).await;
        place.goes_wrong(vec![
            FaultRule::new("storage.resumable.append", FaultAction::DelayMs(100.0)),
            FaultRule::error("storage.resumable.append", 410, "gone"),
        ]);
        let error = finish_beside_a_chunk(&place).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::SessionLost, "{error}");
    }
}
