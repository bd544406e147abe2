//! Objects that must not be published, and the outcome of many faults at once.

use super::*;
use std::sync::Mutex;

use crate::backend::{Admin, Attempt, Fault, FaultKind, Session};
use crate::memory::payload::Payload;
use crate::testkit::scripted::{Answer, Below, Call, Script, Scripted};
use crate::types::checksum::{Algorithm, Checksum};

over_both! {
    a_chunk_that_arrived_otherwise_is_found_by_the_checksum_of_the_whole,
    a_file_that_changes_behind_what_was_sent_is_not_published,
    a_slow_chunk_is_not_sent_beside_itself,
}

over_both! {
    on threads: many_faults_at_once_leave_all_or_nothing
}

/// Changes the first byte of the first chunk in transit.
#[derive(Debug)]
struct Bent;

#[async_trait::async_trait]
impl Script for Bent {
    async fn answer(&self, call: Call<'_>, below: Below<'_>) -> std::result::Result<Answer, Fault> {
        let Call::Append { session, offset: 0, payload, whole } = call else { return below.send(call).await };
        let mut bytes = data(payload.len()).to_vec();
        bytes[0] ^= 1;
        let sum = Checksum::of(Algorithm::Crc32c, &bytes);
        let payload = Payload::from_memory(vec![bytes.into()], sum);
        below.send(Call::Append { session, offset: 0, payload, whole }).await
    }
}

async fn a_chunk_that_arrived_otherwise_is_found_by_the_checksum_of_the_whole(over: GcsTransport) {
    let place = place_with(over, |policy| RetryPolicy { attempts: 3, ..policy }).await;
    let bent = Scripted::new(google::bucket(&place.server, over).await, Bent);
    let store = place.tide.store(bent);
    let mut writer = store.writer("k").strategy(Strategy::Chunked).start().await.unwrap();
    writer.write_bytes(data(7 * GRAIN)).await.unwrap();
    let error = writer.finish().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Integrity, "{error}");
    assert!(place.tide.settled().await.is_empty());
    assert_eq!(place.asked().last().map(String::as_str), Some("cancel"));
    assert_eq!(place.store.head("k").await.unwrap_err().kind(), ErrorKind::NotFound);
}

async fn a_file_that_changes_behind_what_was_sent_is_not_published(over: GcsTransport) {
    let place = place(over).await;
    place.goes_wrong(vec![FaultRule::new("storage.resumable.append", FaultAction::HoldAnswer).times(1)]);
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(&data(7 * GRAIN)).unwrap();
    let policy = RetryPolicy { patience: Duration::from_secs(1), slowest: 1 << 30, ..RetryPolicy::default() };
    let tide = Tidegate::builder().retry(policy).part_size(4 * GRAIN).build().unwrap();
    let store = tide.store(Arc::new(google::bucket(&place.server, over).await));
    let sending = store.writer("k").strategy(Strategy::Chunked).upload(file.path());
    let changing = async {
        while place.asked().len() < 2 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        // The size stays the same, so only the modification time shows the change.
        std::fs::write(file.path(), &data(7 * GRAIN + 1)[1..]).unwrap();
    };
    let (sent, ()) = tokio::join!(sending, changing);
    let error = sent.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Source, "{error}");
    assert!(tide.settled().await.is_empty());
    assert_eq!(place.store.head("k").await.unwrap_err().kind(), ErrorKind::NotFound);
}

async fn a_slow_chunk_is_not_sent_beside_itself(over: GcsTransport) {
    let place = place(over).await;
    let stall = FaultAction::Stall { after_bytes: 0, ms: 1500.0 };
    place.goes_wrong(vec![FaultRule::new("storage.resumable.append", stall).skip(24).times(1)]);
    let writer = place.store.writer("k").strategy(Strategy::Chunked).part_size(GRAIN);
    let mut writer = writer.start().await.unwrap();
    let bytes = data(30 * GRAIN);
    writer.write_bytes(bytes.clone()).await.unwrap();
    writer.finish().await.unwrap();
    let asked = place.asked();
    assert_eq!((asked.len(), asked.iter().filter(|asked| *asked == "append").count()), (31, 30), "{asked:?}");
    place.check(&bytes).await;
}

fn pick<T: Copy>(random: &mut fastrand::Rng, of: &[T]) -> T {
    of[random.usize(..of.len())]
}

fn any_fault(random: &mut fastrand::Rng) -> FaultRule {
    let append = "storage.resumable.append";
    let rest = ["query", "start", "cancel"].map(|name| format!("storage.resumable.{name}"));
    let operation = if random.bool() { append } else { &*rest[random.usize(..rest.len())] };
    let after_bytes = random.u64(..4 * GRAIN + 100);
    let refusals = [
        (503, "backendError"),
        (500, "backendError"),
        (429, "rateLimitExceeded"),
        (410, "gone"),
        (404, "notFound"),
        (503, ""),
        (408, ""),
    ];
    let (status, code) = pick(random, &refusals);
    let code = code.to_owned();
    let action = match random.u32(..10) {
        0 => FaultAction::ResetRequest { after_bytes },
        1 => FaultAction::ResetResponse { after_bytes: after_bytes % 200 },
        2 => FaultAction::CutHead,
        3 => FaultAction::LoseAnswer,
        4 => FaultAction::HoldAnswer,
        5 => FaultAction::DenySuccess { status, code },
        6 => FaultAction::ErrorAfter { after_bytes, status, code },
        7 => FaultAction::Stall { after_bytes, ms: 600.0 },
        8 => FaultAction::AbortSessions,
        _ => FaultAction::Error { status, code, retry_after: None },
    };
    FaultRule::new(operation, action).skip(random.u64(..3)).times(random.u64(1..5))
}

/// Records the sessions that were opened.
#[derive(Debug)]
struct Opened {
    sessions: Mutex<Vec<Session>>,
}

#[async_trait::async_trait]
impl Script for Opened {
    async fn answer(&self, call: Call<'_>, below: Below<'_>) -> std::result::Result<Answer, Fault> {
        let answer = below.send(call).await?;
        if let Answer::Session(session) = &answer {
            self.sessions.lock().unwrap().push(session.clone());
        }
        Ok(answer)
    }
}

/// Whatever faults combine: after a success the object is whole; after an error that is not `Uncertain` there is no
/// object; no memory stays held, and no session stays behind unless it is reported. `SEEDS` and `SEED` set how
/// many seeds run, and the first one.
async fn many_faults_at_once_leave_all_or_nothing(over: GcsTransport) {
    let number = |name: &str, or| std::env::var(name).map_or(or, |text| text.parse().unwrap());
    let first: u64 = number("SEED", 0);
    for seed in first..first + number("SEEDS", 25) {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut place = place_with(over, |policy| RetryPolicy {
            longest_pause: Duration::from_millis(20),
            patience: Duration::from_millis(400),
            least_patience: Duration::from_millis(100),
            slowest: 1 << 30,
            attempts: 6,
            ..policy
        })
        .await;
        let below = google::bucket(&place.server, over).await;
        let opened = Scripted::new(below, Opened { sessions: Mutex::default() });
        place.store = place.tide.store(opened.clone());
        let faults: Vec<FaultRule> = (0..random.usize(1..5)).map(|_| any_fault(&mut random)).collect();
        place.goes_wrong(faults.clone());
        let grains = [(4, 1), (8, 0), (12, 0), (9, 77), (16, 1)];
        let (grains, more) = pick(&mut random, &grains);
        let (bytes, from_file) = (data(grains * GRAIN + more), random.bool());
        let case = format!("seed {seed}: {} bytes, from a file: {from_file}, {faults:?}", bytes.len());
        let sent =
            async { if from_file { place.send_file(&bytes).await } else { place.write(&bytes).await } };
        let sent = tokio::time::timeout(Duration::from_secs(60), sent).await.expect(&case);
        let left = place.tide.settled().await;
        place.server.set_knobs(Knobs::default());
        match sent {
            Ok(object) => {
                assert_eq!(object.size, bytes.len() as u64, "{case}");
                place.check(&bytes).await;
            }
            Err(error) if error.kind() == ErrorKind::Uncertain => {
                if place.store.head("k").await.is_ok() {
                    place.check(&bytes).await;
                }
            }
            Err(error) => assert!(place.store.head("k").await.is_err(), "{error}, and it is there: {case}"),
        }
        // If the store says that a session is gone, the engine believes it.
        let says_gone = |rule: &FaultRule| {
            let (FaultAction::Error { status, .. } | FaultAction::ErrorAfter { status, .. }) = rule.action
            else {
                return false;
            };
            rule.operation.ends_with("cancel") && matches!(status, 404 | 410)
        };
        let is_excused = !left.is_empty() || faults.iter().any(says_gone);
        let sessions = opened.sessions.lock().unwrap().clone();
        for session in &sessions {
            let held = opened.held(session, Attempt::FIRST).await;
            let is_gone = held.as_ref().is_err_and(|fault| fault.kind == FaultKind::NoSession);
            assert!(is_gone || is_excused, "{session:?} has {held:?}, and nobody was told: {case}");
        }
        let is_free = async {
            while place.tide.usage().held > 0 {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(10), is_free).await.expect(&case);
    }
}
