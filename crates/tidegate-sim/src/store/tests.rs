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
async fn an_object_is_dated_by_the_stores_own_clock() {
    let hours = Duration::from_secs(3600);
    for (ahead, is_old) in [(0, false), (600_000, false), (-600_000, true)] {
        let (mut scenario, trace) = (Scenario::new(1), Arc::new(RunTrace::new(false)));
        (scenario.clock_ahead, scenario.profile) = (ahead, Profile::default());
        let store = SimStore::new(&scenario, Witness::new(Vec::new(), None), Rng::with_seed(1), trace);
        store.write_foreign("k", "first".into(), is_old);
        sleep(hours).await;
        let modified = store.head("k", Attempt::FIRST).await.unwrap().modified.unwrap();
        let age = SystemTime::now().duration_since(modified).unwrap().as_secs_f64();
        let expected = if is_old { 3.0 } else { 1.0 } * 3600.0 - ahead as f64 / 1000.0;
        assert!((age - expected).abs() < 60.0, "{age} s, not {expected} s");
    }
}
