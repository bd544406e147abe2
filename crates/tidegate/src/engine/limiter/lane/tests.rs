use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use proptest::prelude::*;
use tokio::time::sleep;

use super::*;
use crate::backend::{Fault, FaultKind};
use crate::engine::endpoint::Endpoint;
use crate::engine::limiter::Concurrency;
use crate::engine::request::Requests;
use crate::engine::retry::Retry;
use crate::types::error::Operation;
use crate::types::progress::Progress;

const LATENCY: Duration = Duration::from_millis(10);

/// A prefix of a store that allows `per_second` requests a second, and `burst` at once after a pause.
#[derive(Debug)]
struct Prefix {
    per_second: f64,
    burst: f64,
    tokens: Mutex<(f64, Instant)>,
    taken: AtomicU64,
    refused: AtomicU64,
}

impl Prefix {
    fn new(per_second: f64, burst: f64) -> Arc<Self> {
        let (taken, refused) = Default::default();
        Arc::new(Self { per_second, burst, tokens: Mutex::new((burst, Instant::now())), taken, refused })
    }

    async fn request(&self) -> Result<(), Fault> {
        sleep(LATENCY / 2).await;
        let taken = {
            let (now, mut bucket) = (Instant::now(), self.tokens.lock().unwrap());
            let (tokens, at) = *bucket;
            let tokens = (tokens + (now - at).as_secs_f64() * self.per_second).min(self.burst);
            *bucket = (if tokens >= 1.0 { tokens - 1.0 } else { tokens }, now);
            tokens >= 1.0
        };
        sleep(LATENCY / 2).await;
        if taken {
            self.taken.fetch_add(1, Relaxed);
            return Ok(());
        }
        self.refused.fetch_add(1, Relaxed);
        Err(Fault::new(FaultKind::Throttled, "SlowDown").with_answered(true))
    }

    fn taken(&self) -> f64 {
        self.taken.load(Relaxed) as f64
    }

    /// The share of all requests that was refused.
    fn refused(&self) -> f64 {
        let refused = self.refused.load(Relaxed) as f64;
        refused / (refused + self.taken())
    }
}

fn endpoint(policy: &RetryPolicy) -> Arc<Endpoint> {
    Arc::new(Endpoint::new(Concurrency::Auto, policy, 3, Arc::default(), None, false))
}

fn requests(endpoint: &Arc<Endpoint>, prefix: &str, policy: &RetryPolicy) -> Requests {
    Requests {
        object: format!("test://{prefix}/k"),
        flow: endpoint.limiter.flow(),
        lane: Some(endpoint.lanes.lane(prefix)),
        endpoint: endpoint.clone(),
        retry: Arc::new(Retry::new(policy.clone(), Some(3))),
        progress: Progress::default(),
        brings: 0,
        is_once: false,
        span: tracing::Span::none(),
    }
}

/// Runs `callers` callers that each make one request after another for `time`; none may fail.
async fn call(endpoint: &Arc<Endpoint>, name: &str, prefix: &Arc<Prefix>, callers: usize, time: Duration) {
    let until = Instant::now() + time;
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..callers {
        let (requests, prefix) = (requests(endpoint, name, &RetryPolicy::default()), prefix.clone());
        tasks.spawn(async move {
            while Instant::now() < until {
                requests.send(Operation::Head, None, None, |_| prefix.request()).await.unwrap();
            }
        });
    }
    tasks.join_all().await;
}

async fn keeps(per_second: f64, burst: f64) {
    let endpoint = endpoint(&RetryPolicy::default());
    let prefix = Prefix::new(per_second, burst);
    let began = Instant::now();
    call(&endpoint, "p", &prefix, 200, Duration::from_secs(120)).await;
    let kept = prefix.taken() / (per_second * began.elapsed().as_secs_f64() + burst);
    let refused = prefix.refused();
    println!("{per_second} a second, burst of {burst}: {kept:.3} kept, {refused:.4} refused");
    assert!(kept >= 0.85, "{kept:.3} of {per_second} a second with a burst of {burst}");
    assert!(refused <= 0.02, "{refused:.4} refused at {per_second} a second with a burst of {burst}");
}

#[tokio::test(start_paused = true)]
async fn a_lane_keeps_most_of_a_limit_of_20_and_few_are_refused() {
    keeps(20.0, 20.0).await;
    keeps(20.0, 4.0).await;
    keeps(20.0, 1.0).await;
}

#[tokio::test(start_paused = true)]
async fn a_lane_keeps_most_of_a_limit_of_100_and_few_are_refused() {
    keeps(100.0, 100.0).await;
    keeps(100.0, 5.0).await;
}

#[tokio::test(start_paused = true)]
async fn a_lane_keeps_most_of_a_limit_of_1000_and_few_are_refused() {
    keeps(1000.0, 1000.0).await;
    keeps(1000.0, 50.0).await;
}

#[tokio::test(start_paused = true)]
async fn a_throttled_prefix_leaves_another_its_pace() {
    let time = Duration::from_secs(30);
    let alone = Prefix::new(1e6, 1e6);
    call(&endpoint(&RetryPolicy::default()), "cold", &alone, 10, time).await;
    let endpoint = endpoint(&RetryPolicy::default());
    let (hot, cold) = (Prefix::new(20.0, 20.0), Prefix::new(1e6, 1e6));
    tokio::join!(call(&endpoint, "hot", &hot, 200, time), call(&endpoint, "cold", &cold, 10, time));
    let pace = cold.taken() / alone.taken();
    println!("beside a hot one: {pace:.3}");
    assert!(pace > 0.95, "{pace:.3} of its pace alone");
    assert_eq!(cold.refused.load(Relaxed), 0);
    assert!(!endpoint.limiter.was_overloaded(time), "the endpoint is not blamed");
}

#[tokio::test(start_paused = true)]
async fn a_prefix_that_is_refused_uses_up_its_own_retries() {
    let policy = RetryPolicy { reserve: 2, trickle: 0, ..RetryPolicy::default() };
    let endpoint = endpoint(&policy);
    let (hot, cold) = (requests(&endpoint, "hot", &policy), requests(&endpoint, "cold", &policy));
    let refused =
        |_| async { Err::<(), _>(Fault::new(FaultKind::Throttled, "SlowDown").with_answered(true)) };
    let failure = hot.send(Operation::Head, None, None, refused).await.unwrap_err();
    assert_eq!(failure.attempts, 3, "the reserve is used up");
    let failed = AtomicU64::new(0);
    let fails_twice = |_| {
        let fails = failed.fetch_add(1, Relaxed) < 2;
        async move { if fails { Err(Fault::new(FaultKind::Transient, "reset")) } else { Ok(()) } }
    };
    cold.send(Operation::Head, None, None, fails_twice).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_fails_is_no_refusal() {
    let lane = Arc::new(Lane::new(&RetryPolicy::default()));
    for outcome in [Outcome::Other, Outcome::Overload] {
        for _ in 0..100 {
            lane.admit().await.outcome = outcome;
        }
    }
    assert!(lane.lock().rate.is_none() && !lane.was_refused(Duration::MAX));
    lane.admit().await.outcome = Outcome::Throttled;
    assert!(lane.lock().rate.is_some() && lane.was_refused(Duration::from_secs(1)));
}

#[tokio::test(start_paused = true)]
async fn a_limit_that_rises_is_found() {
    let endpoint = endpoint(&RetryPolicy::default());
    let (slow, fast) = (Prefix::new(20.0, 20.0), Prefix::new(1000.0, 1000.0));
    call(&endpoint, "p", &slow, 200, Duration::from_secs(60)).await;
    call(&endpoint, "p", &fast, 200, Duration::from_secs(120)).await;
    let before = fast.taken();
    call(&endpoint, "p", &fast, 200, Duration::from_secs(20)).await;
    let pace = (fast.taken() - before) / 20.0;
    assert!(pace > 800.0, "{pace} a second after two minutes");
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Pass(u64),
    Take,
    End(u8),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        (0u64..3000).prop_map(Step::Pass),
        Just(Step::Take),
        Just(Step::Take),
        Just(Step::Take),
        (0u8..5).prop_map(Step::End),
        (0u8..5).prop_map(Step::End),
    ]
}

proptest! {
    /// Whatever happened before, a request is admitted within the time that the state names, again and again.
    #[test]
    fn nobody_waits_for_ever(steps in prop::collection::vec(step(), 0..300)) {
        let mut now = Instant::now();
        let (mut state, mut flying) = (LaneState::new(now), 0);
        for step in steps {
            match step {
                Step::Pass(ms) => now += Duration::from_millis(ms),
                Step::Take => match state.take(now) {
                    Ok(()) => flying += 1,
                    Err(wait) => prop_assert!(wait <= LaneState::LONG && !wait.is_zero()),
                },
                Step::End(how) if flying > 0 => {
                    flying -= 1;
                    let outcomes = [
                        Outcome::Moved(1),
                        Outcome::Answered,
                        Outcome::Throttled,
                        Outcome::Overload,
                        Outcome::Other,
                    ];
                    state.ended(outcomes[usize::from(how)], now);
                }
                Step::End(_) => {}
            }
            prop_assert_eq!(state.in_flight, flying);
            if let Some(rate) = state.rate {
                prop_assert!(rate.per_second >= LaneState::LEAST && rate.per_second.is_finite());
                prop_assert!(rate.tokens <= (rate.per_second * Rate::BURST).max(1.0) + 1e-9);
            }
        }
        for _ in 0..flying {
            state.ended(Outcome::Answered, now);
        }
        let mut waits = 0;
        while let Err(wait) = state.take(now) {
            now += wait;
            waits += 1;
            prop_assert!(waits < 10, "at {:?}", state.rate);
        }
    }
}
