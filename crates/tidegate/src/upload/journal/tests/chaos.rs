//! Seeded faults: a store that goes down and returns, forgets its sessions, loses answers; writers that are
//! dropped halfway; disks that lose power. In the end the store has exactly the bytes that were written, once.

use super::trial::{ENOUGH, Trial, each_seed};
use super::*;

/// More seeds: `TIDEGATE_JOURNAL_SEEDS=0..1000 cargo test -p tidegate --lib journal::tests::chaos`.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_happens_the_object_is_there_in_the_end() -> Result<()> {
    each_seed(30, one).await
}

async fn one(seed: u64) -> Result<()> {
    let place = Place::new();
    let mut trial = Trial::new(seed, place.folder.path(), 40 * PART, 256 * KIB);
    place.backend.end_with(trial.disk.clone());
    for step in 0.. {
        if step > ENOUGH {
            place.backend.go_down(false);
        }
        if trial.writer.is_none() {
            trial.end().await;
            let process = place.process_of(trial.builder(place.builder()));
            if trial.go_on(step, process, || place.backend.go_down(false)).await? {
                break;
            }
            continue;
        }
        match trial.random.u32(..20) {
            0 => place.backend.go_down(true),
            1 | 2 => place.backend.go_down(false),
            3 => trial.writer = None,
            4 if trial.keeps_all() => place.backend.forget_sessions().await,
            5 => trial.sync().await,
            6 => tokio::time::sleep(Duration::from_millis(trial.random.u64(..20))).await,
            7 => place.backend.lose_answers(trial.random.bool()),
            8 if step <= ENOUGH => trial.lose_power(),
            _ => {
                if trial.go_further(3 * PART, Duration::from_millis(3)).await {
                    break;
                }
            }
        }
    }
    place.backend.go_down(false);
    let (tide, store) = trial.end().await.expect("a process");
    assert_eq!(stored(&store, "k").await, trial.bytes, "seed {seed}");
    assert_eq!((place.files(), place.sessions_with_parts(&store).await), (0, 0), "seed {seed}");
    assert_eq!(tide.usage().held, 0, "seed {seed}");
    Ok(())
}
