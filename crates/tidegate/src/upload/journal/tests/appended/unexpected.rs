//! Sessions with unexpected content: bytes that arrive late, different bytes, fewer bytes than before.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::SeqCst};

use super::*;
use crate::backend::{Appended, Fault, FaultKind, Session};
use crate::memory::payload::Payload;
use crate::testkit::scripted::{Answer, Below, Call, Script, Scripted};
use crate::types::checksum::{Algorithm, Checksum};

over_both! {
    late_bytes_of_a_broken_stream_are_gone_on_from,
    a_session_with_other_bytes_is_known_by_what_was_found_and_not_by_what_came_since,
    a_session_that_went_back_is_lost_and_not_uncertain,
}

/// The request that the late bytes of a broken stream collide with at the store.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Met {
    /// A stream from the session's old offset; the store has its bytes already.
    Stream,
    /// Such a stream, which the store rejects because it does not begin at the session's offset.
    Refused,
    /// The request that commits, which the store rejects.
    Last,
}

/// A store that the bytes of the first stream reach late.
#[derive(Debug)]
struct Late {
    met: Met,
    /// The journal directory.
    folder: PathBuf,
    /// Number of bytes after which the first stream breaks; all of them arrive late.
    most: usize,
    late: Mutex<Vec<u8>>,
    streams: AtomicU32,
    has_refused: AtomicBool,
}

impl Late {
    /// Lets the late bytes reach the store.
    async fn arrive(&self, below: Below<'_>, session: &Session) {
        let mut bytes = std::mem::take(&mut *self.late.lock().unwrap());
        bytes.truncate(bytes.len() / GRAIN as usize * GRAIN as usize);
        assert!(!bytes.is_empty(), "there are some");
        let (end, sum) = (bytes.len() as u64, Checksum::of(Algorithm::Crc32c, &bytes));
        let payload = Payload::from_memory(vec![bytes.into()], sum);
        let append = Call::Append { session, offset: 0, payload, whole: None };
        let Answer::Appended(appended) = below.send(append).await.unwrap() else { panic!("no append") };
        assert_eq!(appended, Appended::Open(end));
    }

    /// Counts a stream; whether the store does not carry it out as it should.
    fn takes_stream(&self) -> bool {
        let before = self.streams.fetch_add(1, SeqCst);
        before == 0 || (before == 1 && self.met != Met::Last)
    }

    fn refuses(&self) -> bool {
        !self.has_refused.swap(true, SeqCst)
    }
}

fn refused() -> Fault {
    Fault::new(FaultKind::Invalid, "that is not where the upload stands").with_answered(true)
}

/// Waits until the journal takes less than `bytes` of disk.
async fn until_smaller(folder: &Path, bytes: u64) {
    let path = journal_file(folder);
    until("its space was given back", || path.metadata().unwrap().blocks() * 512 < bytes).await;
}

#[async_trait::async_trait]
impl Script for Late {
    async fn answer(&self, call: Call<'_>, below: Below<'_>) -> std::result::Result<Answer, Fault> {
        let (session, mut bytes) = match call {
            Call::Append { session, whole: Some(_), .. } if self.met == Met::Last && self.refuses() => {
                self.arrive(below, session).await;
                return Err(refused());
            }
            Call::Stream { session, bytes, .. } if self.takes_stream() => (session, bytes),
            call => return below.send(call).await,
        };
        match (self.streams.load(SeqCst), self.met) {
            (1, _) => {
                // With `Met::Last` the sender ends the stream itself, before the last request.
                while self.met == Met::Last || self.late.lock().unwrap().len() < self.most {
                    let Some(Ok(piece)) = bytes.next().await else { break };
                    self.late.lock().unwrap().extend_from_slice(&piece);
                }
                Err(Fault::new(FaultKind::Transient, "connection reset"))
            }
            (_, Met::Refused) => {
                self.arrive(below, session).await;
                Err(refused())
            }
            _ => {
                self.arrive(below, session).await;
                let mut taken = 0;
                while taken < CHUNK {
                    taken += bytes.next().await.unwrap().unwrap().len() as u64;
                }
                // The status query acknowledges the late bytes, so the journal frees bytes that this stream sends.
                until_smaller(&self.folder, 24 * CHUNK).await;
                while bytes.next().await.is_some() {}
                std::future::pending().await
            }
        }
    }
}

async fn late_bytes_of_a_broken_stream_are_gone_on_from(over: GcsTransport) -> Result<()> {
    let bytes = data(40 * CHUNK + 9);
    for met in [Met::Stream, Met::Refused, Met::Last] {
        let place = Google::new(over).await;
        let (tide, _store) = place.process_of(place.builder().journal_keep(1)).await;
        let late = Late {
            met,
            folder: place.folder.path().to_owned(),
            most: 24 * CHUNK as usize,
            late: Mutex::default(),
            streams: AtomicU32::default(),
            has_refused: AtomicBool::default(),
        };
        let store = tide.store(Scripted::new(place.connect().await, late));
        let mut writer = begin(&store).await;
        write(&mut writer, &bytes).await?;
        if met != Met::Last {
            until_acknowledged(&writer, 24 * CHUNK).await;
        }
        writer.finish().await.unwrap_or_else(|error| panic!("{met:?}: {error}"));
        assert_eq!(place.count("start"), 1, "{met:?} {:?}", place.asked());
        place.check(&store, &bytes).await;
    }
    Ok(())
}

/// The first status query fails, and the producer overtakes the session meanwhile.
async fn a_session_with_other_bytes_is_known_by_what_was_found_and_not_by_what_came_since(
    over: GcsTransport,
) -> Result<()> {
    let bytes = data(60 * CHUNK);
    let place = Google::new(over).await;
    place.leave_behind_its_session(&bytes[..4 * CHUNK as usize]).await?;

    place.goes_wrong(vec![FaultRule::error(QUERY, 503, "backendError")]);
    let (tide, store) = place.process_of(place.builder().journal_keep(1)).await;
    let Resumed::Writer(mut writer) = tide.recover().await?[0].resume_on(&store).await? else {
        panic!("not finished")
    };
    let position = writer.position() as usize;
    assert!(position < 16 * CHUNK as usize, "{position}");
    write(&mut writer, &bytes[position..50 * CHUNK as usize]).await?;
    place.goes_wrong(Vec::new());
    until_acknowledged(&writer, 32 * CHUNK).await;
    write(&mut writer, &bytes[50 * CHUNK as usize..]).await?;
    writer.finish().await?;
    assert_eq!(place.count("start"), 2, "{:?}", place.asked());
    place.check(&store, &bytes).await;
    Ok(())
}

/// A store that rejects the last bytes; from then on its session has fewer bytes than before.
#[derive(Debug)]
struct Forgetful {
    /// True once the session has lost bytes.
    forgot: AtomicBool,
}

#[async_trait::async_trait]
impl Script for Forgetful {
    async fn answer(&self, call: Call<'_>, below: Below<'_>) -> std::result::Result<Answer, Fault> {
        let is_question = match &call {
            // Only the first session fails; its replacement works.
            Call::Append { whole: Some(_), .. } if !self.forgot.swap(true, SeqCst) => {
                return Err(Fault::new(FaultKind::Transient, "connection reset"));
            }
            call => matches!(call, Call::Position { .. }),
        };
        match below.send(call).await? {
            Answer::Appended(Appended::Open(1..)) if is_question && self.forgot.load(SeqCst) => {
                Ok(Answer::Appended(Appended::Open(GRAIN)))
            }
            answer => Ok(answer),
        }
    }
}

async fn a_session_that_went_back_is_lost_and_not_uncertain(over: GcsTransport) -> Result<()> {
    let bytes = data(40 * CHUNK + 9);
    for keep in [u64::MAX, 1] {
        let place = Google::new(over).await;
        let (tide, _store) = place.process_of(place.builder().journal_keep(keep)).await;
        let forgetful = Forgetful { forgot: AtomicBool::default() };
        let store = tide.store(Scripted::new(place.connect().await, forgetful));
        let mut writer = begin(&store).await;
        write(&mut writer, &bytes).await?;
        until_acknowledged(&writer, 32 * CHUNK).await;
        if keep == 1 {
            until_smaller(place.folder.path(), 30 * CHUNK).await;
            let error = writer.finish().await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::SessionLost, "{error}");
            assert!(error.to_string().contains("has 262144 bytes of the session"), "{error}");
            tide.settled().await;
            assert_eq!(place.files(), 1);
        } else {
            writer.finish().await?;
            assert_eq!(place.count("start"), 2, "{:?}", place.asked());
            place.check(&store, &bytes).await;
        }
    }
    Ok(())
}
