//! Stores that answer wrongly about a session, or with an outdated state.

use std::sync::atomic::{AtomicU32, Ordering::SeqCst};

use super::*;
use crate::backend::{Appended, Fault, FaultKind};
use crate::testkit::scripted::{Answer, Below, Call, Script, Scripted};

over_both! {
    what_the_last_request_of_an_earlier_process_has_published_is_no_rival,
    a_session_that_is_lost_before_an_outage_is_no_error_for_the_producer,
    a_published_object_that_is_said_to_be_another_is_told_or_looked_at,
    smaller_answers_end_no_session,
}

/// The wrong answer.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Lie {
    /// The commit fails because an object exists already: the one that it has just published.
    Exists,
    /// The published object is one byte shorter.
    Shorter,
    /// A stream ends with an offset lower than one that it acknowledged before.
    LessOfStream,
    /// A status query returns such a lower offset.
    Less,
}

/// A store that gives the wrong answer `times` times.
#[derive(Debug)]
struct Lying {
    lie: Lie,
    times: Arc<AtomicU32>,
}

impl Lying {
    fn lies(&self, lie: Lie) -> bool {
        let less = |times: u32| times.checked_sub(1);
        self.lie == lie && self.times.fetch_update(SeqCst, SeqCst, less).is_ok()
    }
}

#[async_trait::async_trait]
impl Script for Lying {
    async fn answer(&self, call: Call<'_>, below: Below<'_>) -> std::result::Result<Answer, Fault> {
        let (is_stream, is_question) =
            (matches!(call, Call::Stream { .. }), matches!(call, Call::Position { .. }));
        let lied = async {
            while !is_stream || !self.lies(Lie::LessOfStream) {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        let answer = tokio::select! {
            answer = below.send(call) => answer?,
            () = lied => return Ok(Answer::Appended(Appended::Open(GRAIN))),
        };
        match answer {
            Answer::Appended(Appended::Open(_)) if is_question && self.lies(Lie::Less) => {
                Ok(Answer::Appended(Appended::Open(GRAIN)))
            }
            Answer::Appended(Appended::Published(mut object)) if !is_stream && !is_question => {
                if self.lies(Lie::Exists) {
                    return Err(Fault::new(FaultKind::Exists, "it exists").with_answered(true));
                }
                if self.lies(Lie::Shorter) {
                    object.size -= 1;
                }
                Ok(Answer::Appended(Appended::Published(object)))
            }
            answer => Ok(answer),
        }
    }
}

impl Google {
    async fn lying(&self, tide: &Tidegate, lie: Lie, times: &Arc<AtomicU32>) -> Store {
        let (below, times) = (self.connect().await, times.clone());
        tide.store(Scripted::new(below, Lying { lie, times }))
    }
}

fn once() -> Arc<AtomicU32> {
    Arc::new(AtomicU32::new(1))
}

async fn what_the_last_request_of_an_earlier_process_has_published_is_no_rival(
    over: GcsTransport,
) -> Result<()> {
    let bytes = data(9 * CHUNK + 9);
    let place = Google::new(over).await;
    place.leave_finished(&bytes).await?;
    let (tide, _store) = place.process().await;
    let store = place.lying(&tide, Lie::Exists, &once()).await;
    let resumed = tide.recover().await?[0].resume_on(&store).await?;
    assert_eq!(resumed.object().unwrap().size, bytes.len() as u64);
    place.check(&store, &bytes).await;
    Ok(())
}

async fn a_session_that_is_lost_before_an_outage_is_no_error_for_the_producer(
    over: GcsTransport,
) -> Result<()> {
    let bytes = data(40 * CHUNK + 9);
    let outage = FaultRule::error(CANCEL, 503, "backendError").times(12);
    for refused in [outage, FaultRule::error(CANCEL, 403, "forbidden")] {
        let place = Google::new(over).await;
        let (_tide, store) = place.process().await;
        let mut writer = begin(&store).await;
        place.goes_wrong(vec![FaultRule::new(APPEND, FaultAction::AbortSessions).times(1), refused]);
        let (some, rest) = bytes.split_at(34 * CHUNK as usize);
        write(&mut writer, some).await?;
        until("another is opened", || place.count("start") == 2).await;
        write(&mut writer, rest).await?;
        writer.finish().await?;
        place.check(&store, &bytes).await;
    }
    Ok(())
}

async fn a_published_object_that_is_said_to_be_another_is_told_or_looked_at(
    over: GcsTransport,
) -> Result<()> {
    let bytes = data(9 * CHUNK + 9);
    for create_only in [true, false] {
        let place = Google::new(over).await;
        let (tide, _store) = place.process().await;
        let store = place.lying(&tide, Lie::Shorter, &once()).await;
        let mut builder = store.writer("k").strategy(Strategy::Journal);
        if create_only {
            builder = builder.create_only();
        }
        let mut writer = builder.start().await?;
        write(&mut writer, &bytes).await?;
        until("the stream is open", || place.count("append") == 1).await;
        let progress = writer.progress();
        let finished = writer.finish().await;
        if create_only {
            let error = finished.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Integrity, "{error}");
            assert_eq!(place.count("start"), 1, "{:?}", place.asked());
        } else {
            finished?;
            assert_eq!(progress.snapshot().acknowledged, bytes.len() as u64);
            place.check(&store, &bytes).await;
        }
    }
    Ok(())
}

async fn smaller_answers_end_no_session(over: GcsTransport) -> Result<()> {
    let bytes = data(40 * CHUNK + 9);
    for (lie, lies) in [(Lie::LessOfStream, 1), (Lie::Less, 1), (Lie::Less, 3)] {
        let place = Google::new(over).await;
        let (tide, _store) = place.process().await;
        let times = Arc::default();
        let store = place.lying(&tide, lie, &times).await;
        let mut writer = begin(&store).await;
        write(&mut writer, &bytes[..34 * CHUNK as usize]).await?;
        until_acknowledged(&writer, 16 * CHUNK).await;
        times.store(lies, SeqCst);
        write(&mut writer, &bytes[34 * CHUNK as usize..]).await?;
        until("it has lied", || times.load(SeqCst) == 0).await;
        writer.finish().await?;
        assert_eq!(place.count("start"), 1, "{lie:?} {lies} {:?}", place.asked());
        place.check(&store, &bytes).await;
    }
    Ok(())
}
