//! Sessions that are appended to: in chunks, in a stream, and over a different transport than they began on.

use super::*;
use tidegate_core::backend::Session;

over_both! {
    what_a_stream_brought_is_asked_beside_it,
}

const GRAIN: u64 = append::GRAIN;

fn appended(stands: Appended) -> u64 {
    match stands {
        Appended::Open(at) => at,
        Appended::Published(object) => panic!("published: {object:?}"),
    }
}

async fn until(is_so: impl AsyncFn() -> bool) {
    let wait = async {
        while !is_so().await {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), wait).await.expect("it does not come to that");
}

async fn what_a_stream_brought_is_asked_beside_it(over: GcsTransport) {
    let place = place(over).await;
    let data = bytes_of(40 * GRAIN as usize + 77);
    let session = Append::open(&place.store, "k", &WriteOptions::default(), Attempt::FIRST).await.unwrap();
    let (giver, bytes) = Unending::new();
    let (store, at) = (place.store.clone(), session.clone());
    let streaming = tokio::spawn(async move { store.stream(&at, 0, bytes, Attempt::FIRST).await });
    let stands = async || appended(place.store.position(&session, Attempt::FIRST).await.unwrap());
    let (first, rest) = data.split_at(33 * GRAIN as usize + 5);
    for piece in first.chunks(70_000) {
        giver.give(Bytes::copy_from_slice(piece)).await.unwrap();
    }
    // Over HTTP the server persists bytes whenever 32 grains have arrived, over gRPC when it is asked.
    until(async || stands().await >= 32 * GRAIN).await;
    for piece in rest.chunks(3 * MIB) {
        giver.give(Bytes::copy_from_slice(piece)).await.unwrap();
    }
    if over == GcsTransport::Grpc {
        until(async || stands().await >= 33 * GRAIN).await;
        let counts = place.server.counts();
        assert_eq!(
            (counts.get("storage.v2.BidiWriteObject"), counts.get("storage.v2.QueryWriteStatus")),
            (1, 0)
        );
    }
    streaming.abort();
    assert!(streaming.await.unwrap_err().is_cancelled());
    // The stream is gone, so the query is a request of its own.
    let at = stands().await;
    assert!(at >= 32 * GRAIN && at.is_multiple_of(GRAIN), "{at}");
    let rest = in_memory(&data[at as usize..]);
    let done = place.store.append(&session, at, rest, Some(&crc32c(&data)), Attempt::FIRST).await.unwrap();
    assert!(matches!(done, Appended::Published(_)), "{done:?}");
    assert!(read_back(&place.store, "k", None).await == data);
}

#[tokio::test]
async fn a_session_goes_on_over_what_it_was_begun_over() {
    let place = place(GcsTransport::Http).await;
    let grpc = testkit::bucket(&place.server, GcsTransport::Grpc).await;
    let options = WriteOptions::default();
    let data = bytes_of(2 * GRAIN as usize);
    let (first, rest) = data.split_at(GRAIN as usize);

    let session = Append::open(&place.store, "http", &options, Attempt::FIRST).await.unwrap();
    place.store.append(&session, 0, in_memory(first), None, Attempt::FIRST).await.unwrap();
    assert_eq!(appended(grpc.position(&session, Attempt::FIRST).await.unwrap()), GRAIN);
    grpc.append(&session, GRAIN, in_memory(rest), Some(&crc32c(&data)), Attempt::FIRST).await.unwrap();
    assert!(read_back(&grpc, "http", None).await == data);

    let session = Append::open(&grpc, "grpc", &options, Attempt::FIRST).await.unwrap();
    grpc.append(&session, 0, in_memory(first), None, Attempt::FIRST).await.unwrap();
    let asked = place.server.requests().len();
    let refused = |(kind, said): (FaultKind, String)| {
        assert!(kind == FaultKind::Unsupported && said.contains("begun over gRPC"), "{kind:?} {said}");
    };
    let http: &Gcs = &place.store;
    refused(kind(http.position(&session, Attempt::FIRST)).await);
    refused(kind(http.append(&session, GRAIN, in_memory(rest), Some(&crc32c(&data)), Attempt::FIRST)).await);
    refused(kind(http.stream(&session, GRAIN, Unending::new().1, Attempt::FIRST)).await);
    refused(kind(any(http).abort(&session, Attempt::FIRST)).await);
    refused(kind(http.held(&session, Attempt::FIRST)).await);
    assert_eq!(place.server.requests().len(), asked, "nothing is sent");
    grpc.append(&session, GRAIN, in_memory(rest), Some(&crc32c(&data)), Attempt::FIRST).await.unwrap();
    assert!(read_back(http, "grpc", None).await == data);
}

#[test]
fn a_session_of_parts_may_have_any_id() {
    assert!(!append::is_grpc(&Session { key: "k".into(), id: "grpc-like".into() }));
}
