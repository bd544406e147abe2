use std::sync::atomic::AtomicBool;
use std::sync::mpsc;

use futures::FutureExt;
use futures::future::{join_all, select_all};
use tokio::runtime::{Builder, Runtime};

use super::*;

fn runtime() -> Runtime {
    Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
}

/// Waits until `is_so` is true; fails instead of hanging.
fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < Duration::from_secs(20), "{what}");
        thread::yield_now();
    }
}

fn batch(batches: &Batches, runtime: &Runtime) -> Arc<Batch> {
    let _entered = runtime.enter();
    batches.here()
}

#[test]
fn each_is_done_and_told_of_what_it_came_to() {
    let batches = Arc::new(Batches::default());
    let works = (0..5000_u64).map(|n| {
        let batches = batches.clone();
        async move {
            let coming = batches.here().coming();
            // Some works arrive long before the others, some after them.
            tokio::time::sleep(Duration::from_micros(n % 700)).await;
            let made = move || if n % 3 == 0 { Err(shut_down()) } else { Ok(n) };
            (n, tokio::spawn(coming.done(made)).await.unwrap().ok())
        }
    });
    let ended = runtime().block_on(join_all(works));
    assert!(ended.iter().all(|(n, result)| *result == (n % 3 != 0).then_some(*n)));
    assert_eq!(ended.len(), 5000);
    assert!(lock(&batches.0).iter().all(|(_, batch)| batch.strong_count() == 0));
}

#[test]
fn a_panic_is_of_whoever_asked() {
    let runtime = runtime();
    let batch = batch(&Batches::default(), &runtime);
    runtime.block_on(async {
        let panics = tokio::spawn(batch.coming().done(|| -> Result<(), Fault> { panic!("on purpose") }));
        let behind = tokio::spawn(batch.coming().done(|| Ok(1)));
        assert!(panics.await.unwrap_err().is_panic());
        assert_eq!(behind.await.unwrap().unwrap(), 1);
    });
}

#[test]
fn slow_ones_are_done_many_at_once() {
    let (runtime, begun) = (runtime(), Arc::new(AtomicUsize::new(0)));
    let batch = batch(&Batches::default(), &runtime);
    let works = (0..20).map(|_| {
        let begun = begun.clone();
        batch.coming().done(move || {
            begun.fetch_add(1, Relaxed);
            until("all of them have begun", || begun.load(Relaxed) == 20);
            Ok(())
        })
    });
    assert!(runtime.block_on(join_all(works)).iter().all(Result::is_ok));
}

#[test]
fn what_is_done_is_told_though_the_next_takes_long() {
    let (runtime, (ends, waits)) = (runtime(), mpsc::channel::<()>());
    let batch = batch(&Batches::default(), &runtime);
    let _coming: Vec<_> = (0..1000).map(|_| batch.coming()).collect();
    runtime.block_on(async {
        let quick = batch.coming().done(|| Ok("quick")).boxed();
        let slow = batch.coming().done(move || Ok(waits.recv().map_or("slow", |()| "never"))).boxed();
        let (first, _, others) = timeout(Duration::from_secs(20), select_all([quick, slow])).await.unwrap();
        assert_eq!(first.unwrap(), "quick");
        drop(ends);
        assert_eq!(others.into_iter().next().unwrap().await.unwrap(), "slow");
    });
}

#[test]
fn what_is_given_up_is_done_though_more_would_be_gathered() {
    let (runtime, done) = (runtime(), Arc::new(AtomicBool::new(false)));
    let batch = batch(&Batches::default(), &runtime);
    let _coming: Vec<_> = (0..1000).map(|_| batch.coming()).collect();
    let does = done.clone();
    let mut given_up = batch
        .coming()
        .done(move || {
            does.store(true, Relaxed);
            Ok(())
        })
        .boxed();
    let _entered = runtime.enter();
    assert!((&mut given_up).now_or_never().is_none());
    thread::sleep(Duration::from_millis(50));
    assert!(!done.load(Relaxed), "it is gathered, and nobody polls");
    drop(given_up);
    until("it is done", || done.load(Relaxed));
}

/// Whether the runtime drops its tasks before or after its threads, and whichever of them takes the remaining works.
#[test]
fn a_runtime_may_end_with_works_that_wait() {
    let batches = Arc::new(Batches::default());
    for round in 0..200 {
        let runtime = runtime();
        let batch = batch(&batches, &runtime);
        let coming: Vec<_> = (0..round % 3 * 100).map(|_| batch.coming()).collect();
        for _ in 0..50 {
            runtime.spawn(batch.coming().done(|| Ok(())));
        }
        thread::sleep(Duration::from_micros(round * 10));
        drop(runtime);
        drop(coming);
        let (_, told) = batch.hand_off(|| ());
        assert!(told.blocking_recv().is_err(), "nothing of it is done any more");
        assert_eq!(lock(&batch.queue).waiting.len(), 0);
    }
}

#[test]
fn a_runtime_that_is_busy_holds_up_no_other() {
    let busy = Builder::new_multi_thread().max_blocking_threads(1).enable_all().build().unwrap();
    let (other, batches, (ends, waits)) = (runtime(), Batches::default(), mpsc::channel::<()>());
    busy.spawn_blocking(move || waits.recv());
    let held = busy.spawn(batch(&batches, &busy).coming().done(|| Ok(1)));
    let done = other.block_on(batch(&batches, &other).coming().done(|| Ok(2)));
    assert_eq!(done.unwrap(), 2);
    drop(ends);
    assert_eq!(busy.block_on(held).unwrap().unwrap(), 1);
}
