use std::time::SystemTime;

use tidegate::backend::{Attempt, Backend};

use super::*;

#[tokio::test(start_paused = true)]
async fn only_the_object_that_was_described_is_read() {
    let (scenario, trace) = (Scenario::new(1), Arc::new(RunTrace::new(false)));
    let store = SimStore::new(&scenario, Witness::new(Vec::new(), None), Rng::with_seed(1), trace);
    store.write_foreign("k", "first".into(), false);
    let first = store.state().model.current("k").unwrap().object.clone();
    assert!(store.get("k", None, Some(&first), Attempt::FIRST).await.is_ok());
    store.write_foreign("k", "other".into(), false);
    let read = store.get("k", None, Some(&first), Attempt::FIRST).await;
    assert_eq!(read.err().unwrap().kind, FaultKind::Replaced);
    assert!(store.get("k", None, None, Attempt::FIRST).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn every_answer_dates_an_object_by_the_stores_own_clock() {
    for (ahead, is_old, age) in [(0, false, 0.0), (600_000, false, -600.0), (-600_000, true, 7200.0 + 600.0)]
    {
        let (mut scenario, trace) = (Scenario::new(1), Arc::new(RunTrace::new(false)));
        (scenario.clock_ahead, scenario.profile) = (ahead, Profile::default());
        let store = SimStore::new(&scenario, Witness::new(Vec::new(), None), Rng::with_seed(1), trace);
        store.write_foreign("k", "first".into(), is_old);
        sleep(Duration::from_secs(3600)).await;
        let modified = store.head("k", Attempt::FIRST).await.unwrap().modified.unwrap();
        let apart = match SystemTime::now().duration_since(modified) {
            Ok(before) => before.as_secs_f64(),
            Err(after) => -after.duration().as_secs_f64(),
        };
        assert!((apart - age).abs() < 60.0, "{apart} s, not {age} s");
        let read = store.get("k", None, None, Attempt::FIRST).await.unwrap().object;
        assert_eq!(read.modified, Some(modified));
    }
}
