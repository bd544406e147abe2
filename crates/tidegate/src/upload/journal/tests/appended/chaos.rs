//! Seeded faults on sessions that are appended to: all kinds of faults at once, writers that are dropped halfway,
//! disks that lose power, or fail a sync before they do.

use fastrand::Rng;

use super::super::trial::{ENOUGH, Trial, each_seed};
use super::*;

over_both! {
    on threads: whatever_happens_the_object_is_there_in_the_end
}

/// More seeds: `TIDEGATE_JOURNAL_SEEDS=0..1000 cargo test -p tidegate --lib journal::tests::appended::chaos`.
async fn whatever_happens_the_object_is_there_in_the_end(over: GcsTransport) -> Result<()> {
    each_seed(15, async |seed| one(seed, over).await).await
}

/// A random fault that passes. A fault that loses the session occurs only if the journal `keeps_all`.
fn fault(random: &mut Rng, keeps_all: bool) -> FaultRule {
    let rest = [QUERY, "storage.resumable.start", "storage.objects.get", "storage.objects.insert"];
    let operation = if random.bool() { APPEND } else { rest[random.usize(..rest.len())] };
    let after_bytes = random.u64(..6 * GRAIN);
    let refusals =
        [(503, "backendError"), (500, "backendError"), (429, "rateLimitExceeded"), (503, ""), (408, "")];
    let (status, code) = refusals[random.usize(..refusals.len())];
    let code = code.to_owned();
    let action = match random.u32(..if keeps_all { 11 } else { 9 }) {
        0 | 1 => FaultAction::ResetRequest { after_bytes },
        2 => FaultAction::ResetResponse { after_bytes: after_bytes % 200 },
        3 => FaultAction::CutHead,
        4 => FaultAction::LoseAnswer,
        5 | 6 => FaultAction::ErrorAfter { after_bytes, status, code },
        7 => FaultAction::Stall { after_bytes, ms: 600.0 },
        8 => FaultAction::Error { status, code, retry_after: None },
        _ => return FaultRule::new(operation, FaultAction::AbortSessions).skip(random.u64(..4)).times(1),
    };
    FaultRule::new(operation, action).skip(random.u64(..3)).times(random.u64(1..8))
}

async fn one(seed: u64, over: GcsTransport) -> Result<()> {
    let place = Google::new(over).await;
    let mut trial = Trial::new(seed, place.folder.path(), 40 * CHUNK, 4 * CHUNK);
    let retry = RetryPolicy {
        attempts: 4,
        first_pause: Duration::from_millis(1),
        longest_pause: Duration::from_millis(20),
        patience: Duration::from_millis(400),
        least_patience: Duration::from_millis(100),
        slowest: 1 << 30,
        ..RetryPolicy::default()
    };
    for step in 0.. {
        let faults = if step > ENOUGH { 0 } else { trial.random.usize(..3) };
        if trial.random.u32(..3) == 0 || step > ENOUGH {
            let keeps_all = trial.keeps_all();
            place.goes_wrong((0..faults).map(|_| fault(&mut trial.random, keeps_all)).collect());
        }
        if trial.writer.is_none() {
            trial.end().await;
            let process = place.process_of(trial.builder(place.builder()).retry(retry.clone())).await;
            if trial.go_on(step, process, || place.goes_wrong(Vec::new())).await? {
                break;
            }
            continue;
        }
        match trial.random.u32(..12) {
            0 => trial.writer = None,
            1 => trial.sync().await,
            2 | 3 => tokio::time::sleep(Duration::from_millis(trial.random.u64(..60))).await,
            4 if step <= ENOUGH => trial.lose_power(),
            5 if step <= ENOUGH => trial.fail_sync(),
            _ => {
                if trial.go_further(5 * CHUNK, Duration::from_secs(2)).await {
                    break;
                }
            }
        }
    }
    let (tide, store) = trial.end().await.expect("a process");
    place.check(&store, &trial.bytes).await;
    until("the memory is free", || tide.usage().held == 0).await;
    Ok(())
}
