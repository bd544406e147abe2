use futures::FutureExt;
use tokio::time::sleep;

use super::*;
use crate::engine::limiter::{Concurrency, Limiter, Permit, Turn};
use crate::types::transfer_rate::SliceTurn;

const MIB: u64 = 1 << 20;

fn granted(turn: Turn) -> Option<Permit> {
    turn.now_or_never()
}

/// Uses the rate up, for as long as the task runs.
async fn use_up(rate: &Arc<TransferRate>) -> tokio::task::JoinHandle<()> {
    let mut slices = SliceTurn::new(rate.clone(), Arc::default());
    let task = tokio::spawn(async move {
        loop {
            slices.take(u64::MAX).await;
        }
    });
    sleep(Duration::from_millis(1)).await;
    task
}

#[tokio::test(start_paused = true)]
async fn at_a_low_rate_few_large_requests_are_in_flight_and_requests_without_bytes_pass() {
    let rate = TransferRate::new(100_000);
    let limiter = Limiter::new(Concurrency::Fixed(64)).keeping_to(Some(rate.clone()));
    let user = use_up(&rate).await;
    let (many, one) = (limiter.flow(), limiter.flow());
    let mut held: Vec<_> = (0..3).map(|_| granted(many.permit().carrying(16 * MIB)).unwrap()).collect();
    let mut waits = Box::pin(many.permit().carrying(16 * MIB));
    let mut other = Box::pin(one.permit().carrying(16 * MIB));
    assert!((&mut waits).now_or_never().is_none() && (&mut other).now_or_never().is_none());
    granted(limiter.flow().permit()).expect("a description of an object needs no bytes");
    granted(one.next_permit().carrying(MIB)).expect("an open answer goes on");
    sleep(Duration::from_secs(60)).await;
    assert!((&mut waits).now_or_never().is_none() && (&mut other).now_or_never().is_none());
    held.pop();
    let _third = waits.now_or_never().expect("the oldest");
    assert!(other.as_mut().now_or_never().is_none());
    held.pop();
    assert!(other.now_or_never().is_some());
    user.abort();
}

#[tokio::test(start_paused = true)]
async fn as_many_small_requests_are_in_flight_as_have_a_seconds_worth_of_bytes() {
    let rate = TransferRate::new(MIB);
    let limiter = Limiter::new(Concurrency::Fixed(512)).keeping_to(Some(rate.clone()));
    let user = use_up(&rate).await;
    let flow = limiter.flow();
    let held: Vec<_> = (0..400).map_while(|_| granted(flow.permit().carrying(4096))).collect();
    assert_eq!(held.len(), 256);
    user.abort();
}

#[tokio::test(start_paused = true)]
async fn while_the_rate_is_not_reached_more_requests_begin_one_by_one() {
    let rate = TransferRate::new(MIB);
    let limiter = Limiter::new(Concurrency::Fixed(64)).keeping_to(Some(rate.clone()));
    let began = Instant::now();
    let flow = limiter.flow();
    let mut held = Vec::new();
    for _ in 0..12 {
        held.push(flow.permit().carrying(16 * MIB).await);
    }
    let took = began.elapsed();
    assert!((Duration::from_secs(2)..Duration::from_secs(5)).contains(&took), "{took:?} for nine more");
    let user = use_up(&rate).await;
    let more = tokio::time::timeout(Duration::from_secs(60), flow.permit().carrying(16 * MIB)).await;
    assert!(more.is_err(), "the rate is reached");
    user.abort();
}

#[tokio::test(start_paused = true)]
async fn requests_that_are_gone_do_not_count() {
    let rate = TransferRate::new(100_000);
    let limiter = Limiter::new(Concurrency::Fixed(64)).keeping_to(Some(rate.clone()));
    let user = use_up(&rate).await;
    let flow = limiter.flow();
    for _ in 0..10 {
        let held: Vec<_> = (0..3).map(|_| granted(flow.permit().carrying(MIB)).unwrap()).collect();
        let mut dropped = Box::pin(flow.permit().carrying(MIB));
        assert!((&mut dropped).now_or_never().is_none());
        drop(held);
        // Its permit is granted and was not taken.
        drop(dropped);
    }
    let load = limiter.lock();
    let load = load.load.as_ref().unwrap();
    assert_eq!((load.requests, load.bytes), (0, 0));
    user.abort();
}
