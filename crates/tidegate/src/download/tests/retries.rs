//! How often reads are retried if the store breaks its responses.

use super::*;

/// A policy in which retries are not refilled over time.
fn few(tide: crate::TidegateBuilder) -> crate::TidegateBuilder {
    tide.retry(RetryPolicy {
        reserve: 5,
        trickle: 0,
        patience: Duration::from_secs(1),
        ..RetryPolicy::default()
    })
}

async fn breaking(data: &[u8], behind: u64) -> (Arc<Scripted<Odd>>, Store) {
    let odd = Odd::with(data, vec![Fate::Breaks(behind); 10_000].into_iter()).await;
    let store = store(&odd, few);
    (odd, store)
}

fn of_attempts(attempts: u32) -> impl Fn(crate::TidegateBuilder) -> crate::TidegateBuilder {
    move |tide| tide.retry(RetryPolicy { attempts, ..RetryPolicy::default() })
}

#[tokio::test(start_paused = true)]
async fn answers_that_bring_little_as_often_as_the_policy_says_are_an_error_that_says_where() {
    let directory = tempfile::tempdir().unwrap();
    for behind in [0, 1, 1000, 15_000] {
        let fates = || vec![Fate::Breaks(behind); 1000].into_iter();
        let odd = Odd::with(&bytes_of(3 * MIB, 1), fates()).await;
        let store = store(&odd, of_attempts(4));
        let mut reader = store.reader("k").start().await.unwrap();
        let mut got = 0;
        let error = loop {
            match reader.try_next().await {
                Ok(piece) => got += piece.unwrap().len() as u64,
                Err(error) => break error,
            }
        };
        assert_eq!((error.kind(), error.attempts()), (ErrorKind::Unavailable, 4), "{error}");
        assert_eq!((got, odd.requests()), (4 * behind, 4), "{error}");
        let says = error.to_string().contains(&format!("up to byte {got}"));
        assert_eq!(says, behind > 0, "{error}");
        assert_eq!(reader.try_next().await.unwrap_err().to_string(), error.to_string(), "it stays as it is");

        *odd.fates.lock().unwrap() = Box::new(fates());
        let error = store.download("k", directory.path().join("out")).run().await.unwrap_err();
        assert_eq!((error.kind(), error.attempts()), (ErrorKind::Unavailable, 4), "{error}");
        assert_eq!(odd.requests(), 8, "{error}");
    }
}

#[tokio::test(start_paused = true)]
async fn answers_that_bring_much_are_gone_on_with_however_often_they_break() {
    let directory = tempfile::tempdir().unwrap();
    let data = bytes_of(3 * MIB, 1);
    for behind in [30_000, 100_000] {
        let fates = || vec![Fate::Breaks(behind); (3 * MIB / behind) as usize].into_iter();
        let odd = Odd::with(&data, fates()).await;
        let store = store(&odd, of_attempts(4));
        assert!(all(store.reader("k").start().await.unwrap()).await.unwrap() == data);
        let read = odd.requests();
        assert!(read > 30, "{read}");
        *odd.fates.lock().unwrap() = Box::new(fates());
        store.download("k", directory.path().join("out")).run().await.unwrap();
        assert!(std::fs::read(directory.path().join("out")).unwrap() == data);
        assert_eq!(odd.requests(), 2 * read);
    }
}

/// Every response brings some bytes, but no response brings all that was requested.
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

#[tokio::test(start_paused = true)]
async fn a_body_that_comes_too_slowly_is_asked_for_again_from_where_it_stands() {
    let directory = tempfile::tempdir().unwrap();
    let data = bytes_of(3 * MIB, 1);
    // 1 and 900 bytes a second: both are below the minimum of 1 KiB a second, and no pause exceeds the patience.
    for (bytes, every) in [(1, 1), (9_000, 10)] {
        let slow = || vec![Fate::Trickles(bytes, Duration::from_secs(every)); 2].into_iter();
        let odd = Odd::with(&data, slow()).await;
        let store = store(&odd, |tide| tide);
        let began = tokio::time::Instant::now();
        assert!(all(store.reader("k").start().await.unwrap()).await.unwrap() == data);
        let took = began.elapsed();
        assert!((60..300).contains(&took.as_secs()), "{took:?}");
        let asked = odd.asked.lock().unwrap().clone();
        let stood = asked[1].clone().map(|range| range.start).unwrap();
        assert!((1..=70_000).contains(&stood), "{asked:?}");

        *odd.fates.lock().unwrap() = Box::new(slow());
        let out = directory.path().join(format!("out-{bytes}"));
        store.download("k", &out).run().await.unwrap();
        assert!(std::fs::read(&out).unwrap() == data);
    }
}

#[tokio::test(start_paused = true)]
async fn a_body_that_is_always_too_slow_ends_as_a_timeout() {
    let odd =
        Odd::with(&bytes_of(MIB, 1), vec![Fate::Trickles(1, Duration::from_secs(1)); 100].into_iter()).await;
    let store = store(&odd, of_attempts(3));
    let error = all(store.reader("k").start().await.unwrap()).await.unwrap_err();
    assert_eq!((error.kind(), error.attempts()), (ErrorKind::Timeout, 3), "{error}");
    assert!(error.to_string().contains("1024 a second are the least"), "{error}");
    assert_eq!(odd.requests(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_body_at_the_least_rate_may_take_as_long_as_it_takes() {
    let data = bytes_of(2 * MIB, 1);
    // 2 KiB a second, in pieces that arrive before the patience for the last bytes ends.
    let slow = |tide: crate::TidegateBuilder| tide.hedge(false);
    let odd = Odd::with(&data, vec![Fate::Trickles(16 << 10, Duration::from_secs(8))].into_iter()).await;
    assert!(all(store(&odd, slow).reader("k").start().await.unwrap()).await.unwrap() == data);
    assert_eq!(odd.requests(), 1);
    // Without a minimum rate, any rate is accepted.
    let none =
        |tide: crate::TidegateBuilder| tide.retry(RetryPolicy { min_rate: 0, ..RetryPolicy::default() });
    let odd = Odd::with(&data[..2_000], vec![Fate::Trickles(1, Duration::from_secs(1))].into_iter()).await;
    assert!(all(store(&odd, none).reader("k").start().await.unwrap()).await.unwrap() == data[..2_000]);
    assert_eq!(odd.requests(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_consumer_that_takes_its_time_is_no_slow_store() {
    let data = bytes_of(MIB, 1);
    let odd = Odd::with(&data, well()).await;
    let mut reader = store(&odd, |tide| tide).reader("k").start().await.unwrap();
    let mut got = Vec::new();
    while let Some(piece) = reader.try_next().await.unwrap() {
        got.extend_from_slice(&piece);
        tokio::time::sleep(Duration::from_secs(600)).await;
    }
    assert!(got == data);
    assert_eq!(odd.requests(), 1);
}
