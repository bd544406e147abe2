use futures::FutureExt;
use tokio::time::sleep;

use super::*;

#[test]
fn a_fixed_limit_is_held_and_turns_go_round() {
    let limiter = Limiter::new(Concurrency::Fixed(1));
    let (many, one) = (limiter.flow(), limiter.flow());
    let first = many.permit().now_or_never().unwrap();
    let mut queued: Vec<_> = (0..3).map(|_| Box::pin(many.permit())).collect();
    for turn in &mut queued {
        assert!(turn.as_mut().now_or_never().is_none());
    }
    let mut other = Box::pin(one.permit());
    assert!(other.as_mut().now_or_never().is_none());
    drop(first);
    let second = queued[0].as_mut().now_or_never().expect("the oldest of the first flow");
    drop(second);
    assert!(queued[1].as_mut().now_or_never().is_none());
    assert!(other.now_or_never().is_some(), "the other flow comes before the first one's second");
}

#[test]
fn a_turn_that_is_dropped_is_passed_on() {
    let limiter = Limiter::new(Concurrency::Fixed(1));
    let flow = limiter.flow();
    let held = flow.permit().now_or_never().unwrap();
    let mut granted = Box::pin(flow.permit());
    let mut next = Box::pin(flow.permit());
    assert!(granted.as_mut().now_or_never().is_none() && next.as_mut().now_or_never().is_none());
    drop(held);
    drop(granted);
    assert!(next.now_or_never().is_some());
}

/// Sends requests for `time` to a store that serves `streams` of them at full speed, each taking `each`. Returns
/// the final limit.
async fn settle(limiter: &Limiter, streams: f64, each: Duration, time: Duration) -> usize {
    let flow = limiter.flow();
    let until = Instant::now() + time;
    let mut tasks = tokio::task::JoinSet::new();
    let busy = Arc::new(Mutex::new(0.0f64));
    for _ in 0..600 {
        let (flow, busy) = (flow.clone(), busy.clone());
        tasks.spawn(async move {
            while Instant::now() < until {
                let permit = flow.permit().await;
                *busy.lock().unwrap() += 1.0;
                // Above its capacity, the store shares it between all requests.
                let share = (*busy.lock().unwrap() / streams).max(1.0);
                sleep(each.mul_f64(share)).await;
                *busy.lock().unwrap() -= 1.0;
                permit.end(Outcome::Moved(16 << 20));
            }
        });
    }
    while tasks.join_next().await.is_some() {}
    limiter.limit()
}

#[tokio::test(start_paused = true)]
async fn it_grows_while_throughput_grows_and_no_further() {
    let limiter = Limiter::new(Concurrency::Auto);
    let limit = settle(&limiter, 100.0, Duration::from_millis(400), Duration::from_secs(60)).await;
    // A whole wave of requests is in flight before its first response, so the limit may overshoot by 200 streams.
    assert!((80..=300).contains(&limit), "{limit} for 100 streams");

    let limiter = Limiter::new(Concurrency::Auto);
    let limit = settle(&limiter, 4.0, Duration::from_millis(40), Duration::from_secs(60)).await;
    assert!(limit <= Climb::WIDE * 2, "{limit} for 4 streams");
}

#[tokio::test(start_paused = true)]
async fn it_steps_back_once_for_requests_that_flew_together() {
    let limiter = Limiter::new(Concurrency::Auto);
    let flow = limiter.flow();
    let permits = futures::future::join_all((0..Climb::WIDE).map(|_| flow.permit())).await;
    for permit in permits {
        permit.end(Outcome::Overload);
    }
    assert_eq!(limiter.limit(), Climb::WIDE * 2 / 3);
    sleep(Duration::from_secs(2)).await;
    for _ in 0..20 {
        flow.permit().await.end(Outcome::Overload);
        sleep(Duration::from_secs(2)).await;
    }
    assert_eq!(limiter.limit(), 1, "it never reaches zero");
}

/// Makes `count` requests one after another, while others wait.
async fn requests(limiter: &Limiter, count: usize, bytes: u64, took: Duration) {
    ended(limiter, count, Outcome::Moved(bytes), took).await;
}

/// Makes `count` requests with this outcome one after another, while others wait.
async fn ended(limiter: &Limiter, count: usize, outcome: Outcome, took: Duration) {
    let flow = limiter.flow();
    for _ in 0..count {
        let permit = flow.permit().await;
        let mut waiting: Vec<_> = (0..600).map(|_| Box::pin(flow.permit())).collect();
        let mut granted = Vec::new();
        for turn in &mut waiting {
            granted.extend(turn.as_mut().now_or_never());
        }
        sleep(took).await;
        permit.end(outcome);
    }
}

#[tokio::test(start_paused = true)]
async fn a_few_fly_until_they_take_long() {
    let limiter = Limiter::new(Concurrency::Auto);
    let flow = limiter.flow();
    let mut requests = tokio::task::JoinSet::new();
    for _ in 0..600 {
        let flow = flow.clone();
        requests.spawn(async move {
            let _permit = flow.permit().await;
            std::future::pending::<()>().await;
        });
    }
    sleep(Climb::WIDENS_AFTER - Duration::from_millis(1)).await;
    assert_eq!(limiter.lock().in_flight, Climb::AT_FIRST);
    sleep(Duration::from_millis(2)).await;
    assert_eq!(limiter.lock().in_flight, Climb::WIDE);
}

#[tokio::test(start_paused = true)]
async fn a_store_that_moves_as_much_as_a_machine_is_met_with_few() {
    let limiter = Limiter::new(Concurrency::Auto);
    let limit = settle(&limiter, 2.0, Duration::from_millis(5), Duration::from_secs(60)).await;
    // Windows differ by chance, so a step up may have seemed to help.
    assert!(limit <= Climb::AT_FIRST + 2, "{limit}");
}

#[tokio::test(start_paused = true)]
async fn a_store_of_which_connections_move_less_is_met_with_more_at_once() {
    let limiter = Limiter::new(Concurrency::Auto);
    // 200 MiB/s per connection, while the limiter still allows only few requests.
    let each = Duration::from_millis(80);
    requests(&limiter, 1 + Climb::AT_FIRST, 8 << 20, each / 2).await;
    assert!(limiter.limit() > Climb::AT_FIRST, "{}", limiter.limit());
    let limit = settle(&limiter, 32.0, each, Duration::from_millis(500)).await;
    assert!(limit >= Climb::WIDE, "{limit}");
}

/// The rate of the first response says nothing if all later responses have another size.
#[tokio::test(start_paused = true)]
async fn one_fast_answer_does_not_end_the_search() {
    for took in [30, 200] {
        let limiter = Limiter::new(Concurrency::Auto);
        requests(&limiter, 1, 16 << 20, Duration::from_millis(took)).await;
        let until = Instant::now() + Duration::from_secs(20);
        let mut tasks = tokio::task::JoinSet::new();
        for number in 0..600 {
            let flow = limiter.flow();
            let mut random = fastrand::Rng::with_seed(number);
            tasks.spawn(async move {
                while Instant::now() < until {
                    let permit = flow.permit().await;
                    sleep(Duration::from_millis(random.u64(20..60))).await;
                    permit.end(Outcome::Moved(1 << 20));
                }
            });
        }
        while tasks.join_next().await.is_some() {}
        assert!(limiter.limit() > 2 * Climb::WIDE, "{}", limiter.limit());
    }
}

#[tokio::test(start_paused = true)]
async fn time_counts_only_while_requests_are_in_flight() {
    let limiter = Limiter::new(Concurrency::Auto);
    let flow = limiter.flow();
    flow.permit().await.end(Outcome::Moved(0));
    sleep(Duration::from_secs(10)).await;
    let _held = futures::future::join_all((0..Climb::AT_FIRST).map(|_| flow.permit())).await;
    let mut next = Box::pin(flow.permit());
    assert!(next.as_mut().now_or_never().is_none());
    let began = Instant::now();
    let _next = next.await;
    assert!(began.elapsed() >= Climb::WIDENS_AFTER, "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn an_overload_of_the_first_few_is_recovered_from() {
    let limiter = Limiter::new(Concurrency::Auto);
    let flow = limiter.flow();
    let permits = futures::future::join_all((0..Climb::AT_FIRST).map(|_| flow.permit())).await;
    for permit in permits {
        permit.end(Outcome::Overload);
    }
    assert_eq!(limiter.limit(), Climb::AT_FIRST * 2 / 3);
    let limit = settle(&limiter, 100.0, Duration::from_millis(200), Duration::from_secs(8)).await;
    assert!(limit > Climb::WIDE, "{limit}");
}

#[tokio::test(start_paused = true)]
async fn a_far_store_is_met_with_many() {
    let near = Limiter::new(Concurrency::Auto);
    requests(&near, 1, 0, Duration::from_millis(2)).await;
    assert!(near.limit() <= Climb::AT_FIRST + 2, "{}", near.limit());
    let far = Limiter::new(Concurrency::Auto);
    requests(&far, 1, 0, Duration::from_millis(40)).await;
    assert_eq!(far.limit(), 64);
    // Many small requests raise the limit, but not if they only precede large ones.
    let large = Limiter::new(Concurrency::Auto);
    requests(&large, 40, 0, Duration::from_millis(40)).await;
    requests(&large, 4, 16 << 20, Duration::from_millis(400)).await;
    assert_eq!(large.limit(), 64);
    requests(&far, 32, 4 << 10, Duration::from_millis(40)).await;
    assert_eq!(far.limit(), 128);
    // A large request may take this long at any distance: it widens the limit, and no more.
    let near = Limiter::new(Concurrency::Auto);
    requests(&near, 1, 16 << 20, Duration::from_millis(400)).await;
    assert!(near.limit() <= Climb::WIDE + 2, "{}", near.limit());
}

/// S3 allows 3,500 writes and 5,500 reads per second and prefix.
#[tokio::test(start_paused = true)]
async fn small_requests_to_a_far_store_fly_as_many_as_it_takes_of_a_prefix() {
    let (write, read) = (Operation::Put, Operation::Get);
    for (operation, took, limit) in
        [(write, 20, 128), (write, 40, 140), (read, 20, 128), (read, 40, 220), (read, 100, 256)]
    {
        let limiter = Limiter::new(Concurrency::Auto);
        let page = Outcome::Moved(0);
        ended(&limiter, 1, page, Duration::from_millis(took)).await;
        // The next page of a listing, which comes before all other requests, does not settle the limit.
        ended(&limiter, 1, page, Duration::from_millis(took)).await;
        // These requests open their connections first, so they take twice as long.
        ended(&limiter, 33, Outcome::of(operation, 4 << 10), Duration::from_millis(2 * took)).await;
        assert_eq!(limiter.limit(), 128);
        // Each request that ends raises the limit by two, whatever its size, even if some are slower; later the
        // limit climbs.
        for number in 0..(limit - 128) / 2 + 10 {
            let took = Duration::from_millis(took + number as u64 % 3 * took / 2);
            let outcome = Outcome::of(operation, [4 << 10, 60 << 10][number % 2]);
            ended(&limiter, 1, outcome, took).await;
        }
        assert_eq!(limiter.limit(), limit, "{operation:?} in {took} ms");
    }
}

#[tokio::test(start_paused = true)]
async fn requests_that_move_nothing_end_the_quick_start_of_small_ones_in_a_while() {
    let limiter = Limiter::new(Concurrency::Auto);
    requests(&limiter, 20, 0, Duration::from_millis(40)).await;
    requests(&limiter, 20, 4 << 10, Duration::from_millis(40)).await;
    assert_eq!(limiter.limit(), 64);
}

#[tokio::test(start_paused = true)]
async fn a_store_that_only_seemed_far_is_met_with_few_again() {
    let limiter = Limiter::new(Concurrency::Auto);
    requests(&limiter, 1, 0, Duration::from_secs(1)).await;
    assert_eq!(limiter.limit(), 64);
    let limit = settle(&limiter, 4.0, Duration::from_millis(40), Duration::from_secs(60)).await;
    assert!(limit <= Climb::WIDE * 2, "{limit} for 4 streams");
}

#[tokio::test(start_paused = true)]
async fn small_requests_do_not_end_the_quick_start_of_large_ones() {
    let limiter = Limiter::new(Concurrency::Auto);
    requests(&limiter, 1, 0, Duration::from_millis(2)).await;
    requests(&limiter, 4, 16 << 20, Duration::from_millis(400)).await;
    let before = limiter.limit();
    // Requests as slow as they can be without making the store look far.
    requests(&limiter, 40, 0, Duration::from_millis(9)).await;
    requests(&limiter, before, 16 << 20, Duration::from_millis(400)).await;
    assert_eq!(limiter.limit(), 3 * before);
}

#[test]
fn one_that_may_go_first_does_and_no_more_fly_for_it() {
    let limiter = Limiter::new(Concurrency::Fixed(1));
    let flow = limiter.flow();
    let held = flow.permit().now_or_never().unwrap();
    let mut queued = Box::pin(flow.permit());
    assert!(queued.as_mut().now_or_never().is_none());
    let mut given_up = Box::pin(flow.next_permit());
    let mut first = Box::pin(flow.next_permit());
    assert!(given_up.as_mut().now_or_never().is_none() && first.as_mut().now_or_never().is_none());
    drop(given_up);
    drop(held);
    assert!(queued.as_mut().now_or_never().is_none());
    drop(first.now_or_never().expect("it goes first"));
    assert!(queued.now_or_never().is_some());
}

#[tokio::test(start_paused = true)]
async fn it_remembers_an_overload_for_a_while() {
    for concurrency in [Concurrency::Auto, Concurrency::Fixed(4)] {
        let limiter = Limiter::new(concurrency);
        let flow = limiter.flow();
        flow.permit().await.end(Outcome::Moved(1));
        assert!(!limiter.was_overloaded(Duration::from_secs(30)));
        flow.permit().await.end(Outcome::Overload);
        assert!(limiter.was_overloaded(Duration::from_secs(30)));
        sleep(Duration::from_secs(30)).await;
        assert!(!limiter.was_overloaded(Duration::from_secs(30)));
    }
}
