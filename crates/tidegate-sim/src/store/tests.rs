use tidegate::backend::{Attempt, Backend};

use super::*;

#[tokio::test(start_paused = true)]
async fn only_the_object_that_was_described_is_read() {
    let (scenario, trace) = (Scenario::new(1), Arc::new(RunTrace::new(false)));
    let store = SimStore::new(&scenario, Witness::new(Vec::new(), None), Rng::with_seed(1), trace);
    store.write_foreign("k", "first".into());
    let first = store.state().model.current("k").unwrap().object.clone();
    assert!(store.get("k", None, Some(&first), Attempt::FIRST).await.is_ok());
    store.write_foreign("k", "other".into());
    let read = store.get("k", None, Some(&first), Attempt::FIRST).await;
    assert_eq!(read.err().unwrap().kind, FaultKind::Replaced);
    assert!(store.get("k", None, None, Attempt::FIRST).await.is_ok());
}
