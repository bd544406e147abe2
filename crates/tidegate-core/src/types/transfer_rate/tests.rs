use futures::FutureExt;
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::*;

const RATE: u64 = 1_000_000;

fn turn(rate: &Arc<TransferRate>) -> SliceTurn {
    SliceTurn::new(rate.clone(), Arc::default())
}

/// Takes slices until `bytes` are there; returns when each came and how large it was.
async fn take_all(mut turn: SliceTurn, mut bytes: u64) -> Vec<(Instant, u64)> {
    let mut slices = Vec::new();
    while bytes > 0 {
        let slice = turn.take(bytes).await;
        bytes -= slice;
        slices.push((Instant::now(), slice));
    }
    slices
}

#[tokio::test(start_paused = true)]
async fn many_streams_together_move_at_the_rate_and_each_moves_all_the_time() {
    for streams in [1, 3, 64] {
        let (rate, began) = (TransferRate::new(RATE), Instant::now());
        let mut tasks = JoinSet::new();
        for _ in 0..streams {
            tasks.spawn(take_all(turn(&rate), 10 * RATE / streams));
        }
        let each = tasks.join_all().await;
        let took = began.elapsed().as_secs_f64();
        assert!((9.8..=10.2).contains(&took), "{took} s with {streams}");
        for slices in &each {
            assert!(slices.iter().all(|(_, slice)| *slice <= RATE / 20), "a slice is 50 ms worth at most");
            let pauses = slices.windows(2).map(|pair| pair[1].0 - pair[0].0);
            let longest = pauses.max().unwrap_or_default();
            assert!(longest <= Duration::from_millis(1200), "{longest:?} with {streams}");
        }
        // Over any half second of all slices together.
        let mut all: Vec<_> = each.concat();
        all.sort_unstable();
        for (at, _) in &all {
            let span =
                all.iter().filter(|(other, _)| other >= at && *other < *at + Duration::from_millis(500));
            let bytes: u64 = span.map(|(_, slice)| slice).sum();
            assert!(bytes <= RATE * 13 / 20, "{bytes} bytes in half a second");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn streams_take_turns_in_the_order_in_which_they_asked() {
    let rate = TransferRate::new(RATE);
    turn(&rate).take(RATE).now_or_never().expect("the first slice");
    let mut greedy = tokio::spawn(take_all(turn(&rate), RATE));
    sleep(Duration::from_millis(1)).await;
    let began = Instant::now();
    let small = take_all(turn(&rate), 10_000).await;
    assert_eq!(small.len(), 1);
    assert!(began.elapsed() <= Duration::from_millis(101), "it waited for one slice of the other");
    assert!((&mut greedy).now_or_never().is_none());
    assert_eq!(greedy.await.unwrap().iter().map(|(_, slice)| slice).sum::<u64>(), RATE);
}

#[tokio::test(start_paused = true)]
async fn after_a_pause_a_tenth_of_a_second_is_saved_and_no_more() {
    let rate = TransferRate::new(RATE);
    for pause in [1, 100] {
        sleep(Duration::from_secs(pause)).await;
        assert!(rate.has_room());
        let slices = take_all(turn(&rate), RATE).await;
        assert!(!rate.has_room());
        let began = slices[0].0;
        let at_once: u64 = slices.iter().filter(|(at, _)| *at == began).map(|(_, slice)| slice).sum();
        assert!((RATE / 10..=RATE * 3 / 20).contains(&at_once), "{at_once} bytes at once");
    }
}

#[tokio::test(start_paused = true)]
async fn a_wait_that_is_dropped_gives_its_place_back() {
    let rate = TransferRate::new(RATE);
    turn(&rate).take(RATE).now_or_never().expect("the first slice");
    let (mut dropped, mut next) = (turn(&rate), turn(&rate));
    assert!(dropped.take(RATE).now_or_never().is_none());
    assert!(next.take(RATE).now_or_never().is_none());
    let began = Instant::now();
    drop(dropped);
    assert_eq!(next.take(RATE).await, RATE / 20);
    assert!(began.elapsed() <= Duration::from_millis(52), "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_slice_that_was_granted_and_not_taken_comes_back() {
    let rate = TransferRate::new(RATE);
    turn(&rate).take(RATE).now_or_never().expect("the first slice");
    let (mut dropped, mut next) = (turn(&rate), turn(&rate));
    assert!(dropped.take(RATE).now_or_never().is_none());
    sleep(Duration::from_millis(50)).await;
    assert!(next.take(RATE).now_or_never().is_none(), "it serves the queue, in which the other stands first");
    let began = Instant::now();
    drop(dropped);
    assert_eq!(next.take(RATE).await, RATE / 20);
    assert!(began.elapsed() <= Duration::from_millis(1), "{:?}", began.elapsed());
    // No bytes were made: the next slice waits.
    assert!(next.take(RATE).now_or_never().is_none());
}

#[tokio::test(start_paused = true)]
async fn streams_that_nobody_polls_hold_up_the_others_for_one_slice_each() {
    let rate = TransferRate::new(RATE);
    let mut unpolled: Vec<_> = (0..4).map(|_| turn(&rate)).collect();
    for turn in &mut unpolled {
        let _ = turn.take(RATE).now_or_never();
    }
    let began = Instant::now();
    take_all(turn(&rate), RATE).await;
    assert!(began.elapsed() < Duration::from_millis(2500), "{:?}", began.elapsed());
    drop(unpolled);
    assert!(rate.lock().granted.is_empty() && rate.lock().waiting.is_empty());
}

#[tokio::test(start_paused = true)]
async fn the_time_in_which_a_stream_is_held_back_is_counted_once() {
    let (rate, held) = (TransferRate::new(RATE), Arc::<HeldTime>::default());
    let streams = (0..2).map(|_| take_all(SliceTurn::new(rate.clone(), held.clone()), RATE));
    let began = Instant::now();
    futures::future::join_all(streams).await;
    let (total, took) = (held.total(), began.elapsed());
    assert!(total <= took && total > took * 9 / 10, "{total:?} of {took:?}");
    sleep(Duration::from_secs(5)).await;
    assert_eq!(held.total(), total, "no stream waits any more");
}

#[tokio::test(start_paused = true)]
async fn a_very_low_rate_and_a_very_high_one_are_kept() {
    let began = Instant::now();
    take_all(turn(&TransferRate::new(10)), 3000).await;
    assert!(began.elapsed() > Duration::from_secs(190), "{:?}", began.elapsed());
    let began = Instant::now();
    assert_eq!(turn(&TransferRate::new(u64::MAX)).take(u64::MAX).await.min(1 << 40), 1 << 40);
    assert!(began.elapsed() < Duration::from_secs(1));
}
