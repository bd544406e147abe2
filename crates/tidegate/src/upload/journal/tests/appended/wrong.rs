//! Bytes that change in transit, a session that is ahead of its journal, a store that stalls.

use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

use futures::TryStreamExt;

use super::*;
use crate::backend::Fault;
use crate::memory::payload::{Payload, Unending};
use crate::testkit::scripted::{Answer, Below, Call, Script, Scripted};
use crate::types::checksum::{Algorithm, Checksum};

over_both! {
    bytes_that_arrive_otherwise_are_not_published_and_sent_again,
    bytes_that_always_arrive_otherwise_are_an_error,
    a_session_that_is_ahead_of_its_journal_is_not_gone_on_with,
    a_stream_that_stands_still_is_rewound,
}

/// Changes the first byte of the first stream in transit; with `always`, instead the last byte of each append that
/// is not a stream.
#[derive(Debug)]
struct Bent {
    has_bent: AtomicBool,
    always: bool,
}

impl Bent {
    /// The same bytes, the last one changed.
    async fn bent(payload: Payload) -> Payload {
        let mut bytes = Vec::new();
        let mut pieces = payload.stream();
        while let Some(piece) = pieces.try_next().await.unwrap() {
            bytes.extend_from_slice(&piece);
        }
        if let Some(last) = bytes.last_mut() {
            *last ^= 1;
        }
        let sum = Checksum::of(Algorithm::Crc32c, &bytes);
        Payload::from_memory(vec![bytes.into()], sum)
    }
}

#[async_trait::async_trait]
impl Script for Bent {
    async fn answer(&self, call: Call<'_>, below: Below<'_>) -> std::result::Result<Answer, Fault> {
        match call {
            Call::Append { session, offset, payload, whole } if self.always => {
                let payload = Self::bent(payload).await;
                below.send(Call::Append { session, offset, payload, whole }).await
            }
            Call::Stream { session, offset, mut bytes }
                if !self.has_bent.swap(true, SeqCst) && !self.always =>
            {
                let (giver, bent) = Unending::new();
                let bend = async {
                    let mut is_first = true;
                    while let Ok(Some(piece)) = bytes.try_next().await {
                        let mut piece = piece.to_vec();
                        piece[0] ^= u8::from(std::mem::take(&mut is_first));
                        if giver.give(piece.into()).await.is_err() {
                            break;
                        }
                    }
                    std::future::pending().await
                };
                tokio::select! {
                    answer = below.send(Call::Stream { session, offset, bytes: bent }) => answer,
                    never = bend => never,
                }
            }
            call => below.send(call).await,
        }
    }
}

impl Google {
    async fn bent(&self, tide: &Tidegate, always: bool) -> Store {
        let below = google::bucket(&self.server, self.over).await;
        tide.store(Scripted::new(below, Bent { has_bent: AtomicBool::default(), always }))
    }
}

async fn bytes_that_arrive_otherwise_are_not_published_and_sent_again(over: GcsTransport) -> Result<()> {
    let bytes = data(9 * CHUNK + 9);
    let place = Google::new(over).await;
    let (tide, store) = place.process().await;
    let bent = place.bent(&tide, false).await;
    let mut writer = begin(&bent).await;
    write(&mut writer, &bytes).await?;
    until("the stream is open", || place.count("append") == 1).await;
    writer.finish().await?;
    assert_eq!((place.count("start"), place.count("cancel")), (2, 1), "{:?}", place.asked());
    place.check(&store, &bytes).await;
    Ok(())
}

async fn bytes_that_always_arrive_otherwise_are_an_error(over: GcsTransport) -> Result<()> {
    let bytes = data(9 * CHUNK + 9);
    let place = Google::new(over).await;
    let (tide, store) = place.process().await;
    let bent = place.bent(&tide, true).await;
    let mut writer = begin(&bent).await;
    write(&mut writer, &bytes).await?;
    until("the stream is open", || place.count("append") == 1).await;
    let error = writer.finish().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Integrity, "{error}");
    assert!(error.to_string().contains("doesn't match"), "{error}");
    assert!(store.head("k").await.is_err());
    assert_eq!(place.files(), 1);
    Ok(())
}

async fn a_session_that_is_ahead_of_its_journal_is_not_gone_on_with(over: GcsTransport) -> Result<()> {
    let bytes = data(40 * CHUNK);
    let place = Google::new(over).await;
    place.leave_behind_its_session(&bytes[..4 * CHUNK as usize]).await?;
    let (tide, store) = place.process().await;
    let Resumed::Writer(mut writer) = tide.recover().await?[0].resume_on(&store).await? else {
        panic!("not finished")
    };
    let position = writer.position() as usize;
    write(&mut writer, &bytes[position..]).await?;
    writer.finish().await?;
    assert_eq!(place.count("start"), 2, "{:?}", place.asked());
    place.check(&store, &bytes).await;
    Ok(())
}

async fn a_stream_that_stands_still_is_rewound(over: GcsTransport) -> Result<()> {
    let place = Google::new(over).await;
    let retry = RetryPolicy {
        first_pause: Duration::from_millis(1),
        patience: Duration::from_millis(300),
        least_patience: Duration::from_millis(100),
        slowest: 1 << 30,
        ..RetryPolicy::default()
    };
    let (_tide, store) = place.process_of(place.builder().retry(retry)).await;
    place.goes_wrong(vec![
        FaultRule::new(APPEND, FaultAction::Stall { after_bytes: GRAIN, ms: 60_000.0 }).times(2),
    ]);
    // More than the socket buffers hold.
    let bytes = data(64 * CHUNK);
    let mut writer = begin(&store).await;
    write(&mut writer, &bytes).await?;
    let progress = writer.progress();
    let finished = tokio::time::timeout(Duration::from_secs(20), writer.finish()).await;
    finished.unwrap_or_else(|_| panic!("{:?} {:?}", place.asked(), progress.snapshot()))?;
    place.check(&store, &bytes).await;
    Ok(())
}
