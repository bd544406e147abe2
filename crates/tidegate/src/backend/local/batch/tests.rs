use std::sync::Barrier;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex};

use futures::FutureExt;
use futures::future::join_all;
use tokio::runtime::{Builder, Runtime};

use super::*;

fn runtime() -> Runtime {
    Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
}

#[test]
fn each_is_done_and_told_of_what_it_came_to() {
    let works = (0..5000_u64).map(|n| async move {
        // Some of them long before the others, some behind them.
        tokio::time::sleep(Duration::from_micros(n % 700)).await;
        let made = move || if n % 3 == 0 { Err(shut_down()) } else { Ok(n) };
        (n, tokio::spawn(batched(Coming::soon(), made)).await.unwrap().ok())
    });
    let ended = runtime().block_on(join_all(works));
    assert!(ended.iter().all(|(n, result)| *result == (n % 3 != 0).then_some(*n)));
    assert_eq!(ended.len(), 5000);
}

#[test]
fn a_panic_is_of_whoever_asked() {
    runtime().block_on(async {
        let panics = tokio::spawn(batched(Coming::soon(), || -> Result<(), Fault> { panic!("on purpose") }));
        let behind = tokio::spawn(batched(Coming::soon(), || Ok(1)));
        assert!(panics.await.unwrap_err().is_panic());
        assert_eq!(behind.await.unwrap().unwrap(), 1);
    });
}

#[test]
fn a_slow_one_holds_up_no_other() {
    let at_once = Arc::new(Barrier::new(20));
    let works = (0..20).map(|_| {
        let at_once = at_once.clone();
        batched(Coming::soon(), move || {
            at_once.wait();
            Ok(())
        })
    });
    let ended = runtime().block_on(async { timeout(Duration::from_secs(20), join_all(works)).await });
    assert!(ended.unwrap().iter().all(Result::is_ok));
}

#[test]
fn what_nobody_waits_for_is_done() {
    let (runtime, done) = (runtime(), Arc::new(AtomicBool::new(false)));
    let does = done.clone();
    drop(hand_off(move || does.store(true, Relaxed), runtime.handle().clone()));
    while !done.load(Relaxed) {
        thread::yield_now();
    }
}

#[test]
fn what_is_given_up_is_done_though_more_would_be_gathered() {
    let (runtime, done) = (runtime(), Arc::new(AtomicBool::new(false)));
    let _coming: Vec<_> = (0..1000).map(|_| Coming::soon()).collect();
    let does = done.clone();
    let mut given_up = Box::pin(batched(Coming::soon(), move || Ok(does.store(true, Relaxed))));
    let _entered = runtime.enter();
    assert!((&mut given_up).now_or_never().is_none());
    thread::sleep(Duration::from_millis(50));
    assert!(!done.load(Relaxed), "it is gathered, and nobody polls");
    drop(given_up);
    while !done.load(Relaxed) {
        thread::yield_now();
    }
}

#[test]
fn a_runtime_that_is_gone_holds_up_no_other() {
    let gone = runtime();
    let handle = gone.handle().clone();
    drop(gone);
    let (runs, waits) = std::sync::mpsc::channel::<()>();
    let other = runtime();
    // No thread is to be at it by chance.
    let held = hand_off(move || waits.recv(), other.handle().clone());
    let lost = hand_off(|| (), handle.clone());
    let kept = hand_off(|| (), other.handle().clone());
    drop(runs);
    assert!(held.blocking_recv().unwrap().unwrap().is_err());
    kept.blocking_recv().unwrap().unwrap();
    // They are done by a thread of the other runtime, or given up.
    for lost in [lost, hand_off(|| (), handle)] {
        let _ = lost.blocking_recv();
    }
    assert!(other.block_on(batched(Coming::soon(), || Ok(()))).is_ok());
}

#[test]
fn a_runtime_ends_while_others_go_on() {
    let (ends, goes_on) = (runtime(), runtime());
    let over = Arc::new(AtomicBool::new(false));
    let order = Arc::new(Mutex::new(Vec::new()));
    let others: Vec<_> = (0..8)
        .map(|_| {
            let (over, order) = (over.clone(), order.clone());
            goes_on.spawn(async move {
                while !over.load(Relaxed) {
                    let order = order.clone();
                    batched(Coming::soon(), move || Ok(order.lock().unwrap().push(()))).await.unwrap();
                }
            })
        })
        .collect();
    ends.block_on(async { join_all((0..100).map(|_| batched(Coming::soon(), || Ok(())))).await });
    drop(ends); // waits for its threads
    let before = order.lock().unwrap().len();
    while order.lock().unwrap().len() < before + 100 {
        thread::yield_now();
    }
    over.store(true, Relaxed);
    goes_on.block_on(join_all(others)).into_iter().for_each(|ended| ended.unwrap());
}
