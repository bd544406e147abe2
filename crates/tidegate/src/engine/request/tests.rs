use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::task::Poll;

use bytes::Bytes;
use futures::{FutureExt, StreamExt};
use tokio::time::sleep;

use super::*;
use crate::backend::Connection;
use crate::engine::limiter::Concurrency;
use crate::engine::retry::RetryPolicy;
use crate::testkit::paused_disk::PausedDisk;
use crate::types::checksum::{Algorithm, Checksum};
use crate::types::transfer_rate::{SliceTurn, TransferRate};

const PATIENCE: Duration = Duration::from_secs(60);

fn payload() -> Payload {
    let pieces = vec![Bytes::from_static(b"x"); 100];
    Payload::from_memory(pieces, Checksum::of(Algorithm::Crc64Nvme, &[b'x'; 100]))
}

fn payload_of(len: usize) -> Payload {
    let bytes = Bytes::from(vec![b'x'; len]);
    let checksum = Checksum::of(Algorithm::Crc64Nvme, &bytes);
    Payload::from_memory(vec![bytes], checksum)
}

/// A request that takes one piece per `pause`.
async fn slow(payload: Payload, pause: Duration) -> Result<u64, Fault> {
    let mut stream = payload.stream();
    while stream.next().await.is_some() {
        sleep(pause).await;
    }
    Ok(payload.len())
}

#[tokio::test(start_paused = true)]
async fn a_request_whose_bytes_move_may_take_long() {
    let payload = payload();
    let began = Instant::now();
    let moved = answer(PATIENCE, Some(&payload), slow(payload.clone(), Duration::from_secs(50))).await;
    assert_eq!(moved.unwrap(), 100);
    assert!(began.elapsed() > Duration::from_secs(4900));
}

#[tokio::test(start_paused = true)]
async fn a_request_that_stands_still_is_given_up() {
    let payload = payload();
    let began = Instant::now();
    let stuck = answer(PATIENCE, Some(&payload), slow(payload.clone(), Duration::from_secs(86_400))).await;
    assert_eq!(stuck.unwrap_err().kind, FaultKind::Timeout);
    assert!(began.elapsed() <= 2 * PATIENCE);
    let silent = std::future::poll_fn(|_| Poll::<Result<(), Fault>>::Pending);
    let began = Instant::now();
    assert_eq!(answer(PATIENCE, None, silent).await.unwrap_err().kind, FaultKind::Timeout);
    assert_eq!(began.elapsed(), PATIENCE);
}

/// As after SIGSTOP and SIGCONT: the request has not been polled meanwhile, and its answer is there.
#[tokio::test(start_paused = true)]
async fn the_time_in_which_the_process_is_stopped_is_not_the_stores() {
    let (answers, answered) = tokio::sync::oneshot::channel();
    let request = async { answered.await.map_err(|_| Fault::new(FaultKind::Transient, "no answer")) };
    let mut sent = pin!(answer(PATIENCE, None, request));
    assert!((&mut sent).now_or_never().is_none());
    tokio::time::advance(10 * PATIENCE).await;
    assert!((&mut sent).now_or_never().is_none(), "it is given up at the first look after the stop");
    answers.send(7).unwrap();
    assert_eq!(sent.await.unwrap(), 7);
}

/// A disk that takes an hour for some bytes is not the store's silence, nor its rate.
#[tokio::test(start_paused = true)]
async fn time_in_which_received_bytes_wait_for_their_destination_does_not_count() {
    let inflow = Inflow::new(3);
    let rate = MinRate::of(&RetryPolicy::default());
    let slow_disk = async {
        for at in 1..4 {
            inflow.exclude_time_of(sleep(Duration::from_secs(3600))).await;
            inflow.reaches(at);
        }
        sleep(PATIENCE * 2).await;
        Ok(())
    };
    let began = Instant::now();
    let silent = answer(PATIENCE, Transfer::Answer(&inflow, rate), slow_disk).await.unwrap_err();
    assert_eq!(silent.kind, FaultKind::Timeout, "{silent}");
    let since = began.elapsed() - Duration::from_secs(3 * 3600);
    assert!(since >= PATIENCE && since < PATIENCE * 2, "{since:?}");
}

/// The same for a disk that has yet to give the bytes: it slows an upload and never fails it. What comes after the bytes
/// is the store's silence.
#[tokio::test(start_paused = true)]
async fn time_in_which_sent_bytes_wait_for_their_disk_does_not_count() {
    let (disk, _resumes) = PausedDisk::new(Bytes::from_static(&[b'x'; 3 * 4096]));
    let payload = disk.payload().await;
    let mut sending = pin!(answer(PATIENCE, Some(&payload), async {
        slow(payload.clone(), Duration::ZERO).await?;
        std::future::pending::<Result<(), Fault>>().await
    }));
    for read in 1..=3 {
        assert!((&mut sending).now_or_never().is_none());
        disk.has_begun(read).await;
        // The paused clock stands still while a thread waits for the disk, so the test moves it.
        for _ in 0..11 {
            tokio::time::advance(Duration::from_secs(10)).await;
            let given_up = (&mut sending).now_or_never();
            assert!(given_up.is_none(), "{given_up:?} during read {read}");
        }
        disk.allow(read);
        while payload.moved() < u64::from(read) * 4096 {
            assert!((&mut sending).now_or_never().is_none());
            tokio::task::yield_now().await;
        }
    }
    let began = Instant::now();
    assert_eq!(sending.await.unwrap_err().kind, FaultKind::Timeout);
    assert!(began.elapsed() <= PATIENCE * 5 / 4, "{:?}", began.elapsed());
}

/// The requests of one object, with an endpoint of their own.
fn requests(policy: RetryPolicy) -> Requests {
    let endpoint = Arc::new(Endpoint::new(Concurrency::Auto, &policy, 3, Arc::default(), None, false));
    Requests {
        object: "test://k".to_owned(),
        flow: endpoint.limiter.flow(),
        lane: None,
        endpoint,
        retry: Arc::new(Retry::new(policy, Some(3))),
        progress: Progress::default(),
        brings: 0,
        is_once: false,
        span: tracing::Span::none(),
    }
}

fn refused() -> Fault {
    Fault::new(FaultKind::Unreachable, "connection refused")
}

/// Otherwise there could be as many open responses, and connections, as objects.
#[tokio::test]
async fn an_answer_that_is_open_goes_before_requests_that_wait() {
    let requests = requests(RetryPolicy::default());
    let mut held = Vec::new();
    let mut waits = loop {
        let mut turn = Box::pin(requests.turn());
        match (&mut turn).now_or_never() {
            Some(permit) => held.push(permit),
            None => break turn,
        }
    };
    let inflow = Inflow::new(0);
    inflow.is_opened(AttemptFigures::begin(&requests.span, "get", "k", 1));
    let again = |_| None::<std::future::Ready<_>>;
    let mut receives = Box::pin(requests.receive(&inflow, false, |_| async { Ok(()) }, again));
    assert!((&mut receives).now_or_never().is_none());
    held.pop();
    assert!((&mut waits).now_or_never().is_none(), "it stands behind");
    assert!(receives.now_or_never().expect("its turn").is_ok());
    assert!(waits.now_or_never().is_some());
}

#[tokio::test(start_paused = true)]
async fn sixty_four_parts_outlive_ten_seconds_without_a_store() {
    let requests = Arc::new(requests(RetryPolicy::default()));
    let began = Instant::now();
    let asked = Arc::new(AtomicU32::new(0));
    let mut parts = tokio::task::JoinSet::new();
    for _ in 0..64 {
        let (requests, asked) = (requests.clone(), asked.clone());
        parts.spawn(async move {
            let once = |_| {
                let asked = asked.clone();
                async move {
                    asked.fetch_add(1, Relaxed);
                    sleep(Duration::from_millis(5)).await;
                    if began.elapsed() < Duration::from_secs(10) { Err(refused()) } else { Ok(()) }
                }
            };
            requests.send(Operation::Part, None, None, once).await
        });
    }
    while let Some(part) = parts.join_next().await {
        part.unwrap().unwrap();
    }
    assert!(began.elapsed() < Duration::from_secs(30), "{:?}", began.elapsed());
    // 64 first attempts, the reserve of 100 retries, 10 retries a second for less than 20 s, and 64 successes.
    let asked = asked.load(Relaxed);
    assert!(asked < 64 + 100 + 200 + 64, "{asked} requests");
}

#[tokio::test(start_paused = true)]
async fn where_retries_are_used_up_the_error_says_so() {
    let policy = RetryPolicy { reserve: 2, trickle: 0, ..RetryPolicy::default() };
    let requests = requests(policy);
    let sent = requests.send(Operation::Head, None, None, |_| async { Err::<(), _>(refused()) }).await;
    let failure = sent.unwrap_err();
    assert_eq!(failure.attempts, 3);
    let said = failure.into_error(Operation::Head, "test://k").to_string();
    assert!(said.contains("connection refused; so many requests to this store have failed"), "{said}");
}

#[tokio::test(start_paused = true)]
async fn a_stalled_connection_costs_what_the_endpoint_has_shown() {
    let requests = requests(RetryPolicy::default());
    let payload = payload_of(1 << 20);
    let well = |_| sleep(Duration::from_millis(300)).map(Ok);
    for _ in 0..3 {
        requests.send(Operation::Part, Some(&payload), None, well).await.unwrap();
    }
    let (began, calls) = (Instant::now(), AtomicU32::new(0));
    let stalls_once = |attempt: Attempt| {
        let first = calls.fetch_add(1, Relaxed) == 0;
        async move { if first { std::future::pending().await } else { Ok(attempt.connection == Connection::New) } }
    };
    let new = requests.send(Operation::Part, Some(&payload), None, stalls_once).await.unwrap();
    assert!(new, "the retry goes out on a new connection");
    assert!(began.elapsed() < Duration::from_secs(11), "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_store_that_becomes_a_hundred_times_slower_is_not_called_dead() {
    let requests = requests(RetryPolicy::default());
    let payload = payload_of(16 << 20);
    for pause in [400, 40_000, 40_000, 40_000] {
        // The store takes all bytes at once, but answers late.
        let slow = |_| sleep(Duration::from_millis(pause)).map(Ok);
        requests.send(Operation::Part, Some(&payload), None, slow).await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn credentials_that_expired_are_fetched_once() {
    let requests = requests(RetryPolicy { reserve: 1, trickle: 0, ..RetryPolicy::default() });
    for good_from in [2, 3] {
        let (began, calls) = (Instant::now(), AtomicU32::new(0));
        let once = |_| {
            let call = calls.fetch_add(1, Relaxed) + 1;
            async move {
                if call >= good_from {
                    return Ok(());
                }
                Err(Fault::new(FaultKind::Expired, "the credentials have expired").with_answered(true))
            }
        };
        let sent = requests.send(Operation::Part, None, None, once).await;
        assert_eq!(sent.is_ok(), good_from == 2);
        assert_eq!(calls.load(Relaxed), 2, "one refresh, not more");
        assert_eq!(began.elapsed(), Duration::ZERO, "nothing is waited for");
    }
}

#[tokio::test(start_paused = true)]
async fn only_a_broken_connection_asks_for_a_new_one() {
    let requests = requests(RetryPolicy::default());
    let answered = Fault::new(FaultKind::Transient, "InternalError").with_answered(true);
    for (fault, expected) in [(answered, false), (refused(), true)] {
        let fault = std::sync::Mutex::new(Some(fault));
        let once = |attempt: Attempt| {
            let fault = fault.lock().unwrap().take();
            async move { fault.map_or(Ok(attempt.connection == Connection::New), Err) }
        };
        let new = requests.send(Operation::Head, None, None, once).await.unwrap();
        assert_eq!(new, expected);
    }
}

/// Slices of such a rate are further apart than the patience.
#[tokio::test(start_paused = true)]
async fn time_in_which_a_rate_holds_bytes_back_is_no_silence() {
    let rate = TransferRate::new(10);
    let payload = payload_of(5000);
    payload.keeps_to(Some(&rate));
    let began = Instant::now();
    assert_eq!(answer(PATIENCE, Some(&payload), slow(payload.clone(), Duration::ZERO)).await.unwrap(), 5000);
    assert!(began.elapsed() > Duration::from_secs(380), "{:?}", began.elapsed());
    let inflow = Inflow::new(5000);
    let receive = async {
        let mut slices = SliceTurn::new(rate.clone(), inflow.held().clone());
        while inflow.left() > 0 {
            let bytes = slices.take(inflow.left()).await;
            inflow.reaches(inflow.got() + bytes);
        }
        Ok(())
    };
    let least = MinRate::of(&RetryPolicy::default());
    answer(PATIENCE, Transfer::Answer(&inflow, least), receive).await.unwrap();
    // A peer that takes no more bytes is given up all the same.
    let payload = payload_of(5000);
    payload.keeps_to(Some(&TransferRate::new(1_000_000)));
    let stuck = answer(PATIENCE, Some(&payload), slow(payload.clone(), Duration::from_secs(86_400))).await;
    assert_eq!(stuck.unwrap_err().kind, FaultKind::Timeout);
}

#[tokio::test(start_paused = true)]
async fn a_request_that_a_rate_holds_back_does_not_measure_the_store() {
    for (per_second, measures) in [(20_000, false), (20_000_000, true)] {
        let policy = RetryPolicy::default();
        let rate = Some(TransferRate::new(per_second));
        let endpoint = Arc::new(Endpoint::new(Concurrency::Auto, &policy, 3, Arc::default(), rate, false));
        let requests = Requests { flow: endpoint.limiter.flow(), endpoint, ..requests(policy) };
        for _ in 0..4 {
            let payload = payload_of(200_000);
            let send = |_| slow(payload.clone(), Duration::from_millis(10));
            requests.send(Operation::Part, Some(&payload), None, send).await.unwrap();
        }
        assert_eq!(requests.endpoint.latency.expected(200_000).is_some(), measures, "{per_second}");
    }
}
