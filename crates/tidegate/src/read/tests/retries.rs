//! How often a store that breaks what it sends is asked again.

use super::*;

/// No retry comes back by itself.
fn few(tide: crate::Builder) -> crate::Builder {
    tide.retry(RetryPolicy {
        reserve: 5,
        trickle: 0,
        patience: Duration::from_secs(1),
        ..RetryPolicy::default()
    })
}

async fn breaking(data: &[u8], behind: u64) -> (Arc<Odd>, Store) {
    let odd = Odd::with(data, vec![Fate::Breaks(behind); 10_000].into_iter()).await;
    let store = store(&odd, few);
    (odd, store)
}

/// Each answer brings something, and none brings what was asked for.
#[tokio::test(start_paused = true)]
async fn a_store_that_ends_every_answer_early_is_not_asked_for_ever() {
    let directory = tempfile::tempdir().unwrap();
    let (odd, store) = breaking(&bytes_of(3 * MIB, 1), 1000).await;
    let error = store.download("k", directory.path().join("out")).run().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert!(error.to_string().contains("no more retries for now"), "{error}");
    assert!(odd.requests() <= 7, "{}", odd.requests());
}

#[tokio::test(start_paused = true)]
async fn what_an_answer_that_was_opened_again_has_cost_comes_back() {
    let data = bytes_of(3 * MIB, 1);
    let (odd, store) = breaking(&data, 100_000).await;
    assert!(all(store.reader("k").start().await.unwrap()).await.unwrap() == data);
    assert!(odd.requests() > 30, "{}", odd.requests());
}

#[tokio::test(start_paused = true)]
async fn where_no_retry_is_left_it_is_said_what_for() {
    let odd = Odd::with(&bytes_of(3 * MIB, 1), vec![Fate::Refused; 7].into_iter()).await;
    let store = store(&odd, few);
    for refused in [6, 1] {
        let error = store.reader("k").start().await.unwrap_err();
        assert_eq!((error.kind(), error.attempts()), (ErrorKind::Throttled, refused), "{error}");
    }
    *odd.fates.lock().unwrap() = Box::new(vec![Fate::Breaks(1000)].into_iter());
    let error = all(store.reader("k").start().await.unwrap()).await.unwrap_err().to_string();
    assert!(error.contains("reset") && error.contains("no more retries for now"), "{error}");
}
