use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use tokio::time::sleep;

use super::*;
use crate::memory::spool::{Spool, SpoolError};

mod lent;

/// Asserts that `untaken` is the sum of the grants to requests that were not taken yet. If it were higher, every
/// wait would look stopped; if it were lower, no stopped wait would be noticed.
fn assert_untaken(budget: &Budget, untaken: u64) {
    let state = budget.shared.lock();
    let granted = state.granted.values().filter(|granted| granted.account.is_none());
    assert_eq!(granted.map(|granted| granted.bytes).sum::<u64>(), untaken);
    assert_eq!(state.untaken, untaken);
}

fn now(future: impl Future<Output = Result<Lease, Starved>>) -> Option<Lease> {
    future.now_or_never().map(Result::unwrap)
}

/// A writer that no longer exists.
#[derive(Debug)]
enum Gone {}

impl Holder for Gone {
    fn object(&self) -> String {
        match *self {}
    }

    fn last_write(&self) -> Instant {
        match *self {}
    }

    fn idle_limit(&self) -> Option<Duration> {
        match *self {}
    }

    fn spill(self: Arc<Self>, _: Spool) -> BoxFuture<'static, Result<u64, SpoolError>> {
        match *self {}
    }

    fn trim(&self) -> u64 {
        match *self {}
    }

    fn end_idle(&self, _: Duration) -> bool {
        match *self {}
    }
}

fn nobody() -> Weak<dyn Holder> {
    Weak::<Gone>::new()
}

#[test]
fn memory_that_is_given_back_serves_the_next_in_line() {
    let budget = Budget::new(100, 10);
    let first = now(budget.lease(60)).unwrap();
    let mut large = Box::pin(budget.lease(50));
    assert!(now(large.as_mut()).is_none());
    let mut small = Box::pin(budget.lease(10));
    assert!(now(small.as_mut()).is_none(), "first come, first served: the small one does not pass");
    drop(first);
    assert!(now(large.as_mut()).is_some());
    assert!(now(small).is_some());
}

#[test]
fn a_part_that_was_begun_is_filled_before_those_that_came_later() {
    let budget = Budget::new(100, 10);
    let [a, b] = [20, 20].map(|part| budget.account(part, nobody()));
    let _begun = now(a.grow(10)).unwrap();
    let all = now(budget.lease(90)).unwrap();
    let (mut later, mut rest) = (Box::pin(b.grow(10)), Box::pin(a.grow(10)));
    assert!(now(later.as_mut()).is_none() && now(rest.as_mut()).is_none());
    let mut all = all;
    drop(all.split(10));
    assert!(now(later.as_mut()).is_none());
    let _rest = now(rest).expect("its part came first");
    // The next part of the same writer came later than the part of the other writer.
    a.dispatched();
    let mut next = Box::pin(a.grow(10));
    assert!(now(next.as_mut()).is_none());
    drop(all.split(10));
    assert!(now(next).is_none());
    assert!(now(later).is_some());
}

#[test]
fn a_wait_that_is_dropped_leaves_the_line() {
    let budget = Budget::new(100, 10);
    let all = now(budget.lease(100)).unwrap();
    let mut first = Box::pin(budget.lease(80));
    let mut second = Box::pin(budget.lease(30));
    assert!(now(first.as_mut()).is_none() && now(second.as_mut()).is_none());
    drop(all);
    assert_untaken(&budget, 80);
    drop(first); // granted, never taken
    assert_untaken(&budget, 30);
    assert!(now(second).is_some());
    assert_untaken(&budget, 0);
    assert_eq!(budget.usage().held, 0);
    assert_eq!(budget.usage().peak, 100);
}

#[test]
fn half_filled_parts_leave_room_for_the_largest_to_fill() {
    let budget = Budget::new(100, 10);
    let [a, b, c] = [40, 40, 40].map(|part| budget.account(part, nobody()));
    let _a = now(a.grow(30)).unwrap();
    let _b = now(b.grow(30)).unwrap();
    let _c = now(c.grow(30)).unwrap();
    assert_eq!(budget.usage().half_filled, 90);
    // 90 bytes are held, and the largest holds 30: 60 + 40 <= 100. One more byte for any account but the largest
    // breaks this rule, and the account that grows first is the largest.
    let _first = now(a.grow(10)).expect("one of the largest can always fill its part");
    let mut stuck = Box::pin(b.grow(10));
    assert!(now(stuck.as_mut()).is_none());
    a.dispatched();
    drop((_a, _first)); // the request has ended
    assert!(now(stuck).is_some());
}

#[test]
fn a_request_passes_a_writer_that_must_wait_for_another_writer() {
    let budget = Budget::new(100, 10);
    let [a, b] = [80, 80].map(|part| budget.account(part, nobody()));
    let _a = now(a.grow(20)).unwrap();
    let _b = now(b.grow(20)).unwrap();
    let mut stuck = Box::pin(b.grow(5));
    let _more = now(a.grow(20)).unwrap();
    assert!(now(stuck.as_mut()).is_none());
    assert!(now(budget.lease(40)).is_some(), "a file's request needs no other writer");
    drop(stuck);
}

#[test]
fn many_idle_writers_cost_what_they_hold() {
    let budget = Budget::new(64 << 20, 256 << 10);
    let accounts: Vec<_> = (0..1000).map(|_| budget.account(16 << 20, nobody())).collect();
    let held: Vec<_> = accounts.iter().map(|account| now(account.grow(4 << 10)).unwrap()).collect();
    assert_eq!(budget.usage().held, 1000 * (4 << 10));
    drop(held);
}

#[test]
fn thousands_that_hold_the_same_do_not_make_each_change_dear() {
    const EACH: u64 = 4 << 10;
    let total = 20_000 * EACH;
    let budget = Budget::new(total, 256 << 10);
    let accounts: Vec<_> = (0..20_000).map(|_| budget.account(total / 2, nobody())).collect();
    let holding = accounts.iter().map_while(|account| now(account.grow(EACH)));
    let held: Vec<_> = holding.collect();
    assert_eq!(budget.usage().half_filled, total / 2 + EACH);
    let began = std::time::Instant::now();
    for account in &accounts[held.len()..][..2000] {
        assert!(now(account.grow(EACH)).is_none());
    }
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
}

#[test]
fn slabs_are_used_again_and_stay_within_the_budget() {
    let budget = Budget::new(100, 10);
    let mut slab = Slab::new(now(budget.lease(10)).unwrap());
    slab.spare().copy_from_slice(b"0123456789");
    slab.advance(10);
    let bytes = slab.freeze();
    let at = bytes.as_ptr();
    let share = bytes.slice(2..5);
    drop(bytes);
    assert_eq!(budget.usage().held, 10, "a share holds the slab");
    drop(share);
    assert_eq!(budget.usage().held, 0);
    let slab = Slab::new(now(budget.lease(10)).unwrap());
    assert_eq!(slab.filled().as_ptr(), at, "the same buffer again");
}

#[test]
fn what_is_not_filled_of_a_slab_can_be_given_back() {
    const LEAST: u64 = 4 << 10;
    let budget = Budget::new(64 * LEAST, 16 << 10);
    let mut slab = Slab::new(now(budget.lease(4 * LEAST)).unwrap());
    slab.spare()[..3].copy_from_slice(b"abc");
    slab.advance(3);
    let at = slab.filled().as_ptr();
    assert_eq!((slab.trim(), slab.leased(), budget.usage().held), (3 * LEAST, LEAST, LEAST));
    assert_eq!((slab.filled(), slab.filled().as_ptr()), (&b"abc"[..], at), "nothing is copied");
    assert_eq!(slab.room() as u64, LEAST - 3, "less than a block is still to be filled");
    assert_eq!(slab.trim(), 0);
    let other = Slab::new(now(budget.lease(2 * LEAST)).unwrap());
    assert_eq!(other.filled().as_ptr(), at.wrapping_add(2 << 12), "the end serves others");
    drop(slab.freeze());
    drop(other);
    assert_eq!(budget.usage().held, 0);
}

#[tokio::test(start_paused = true)]
async fn what_was_granted_and_not_taken_comes_back_and_the_place_is_kept() {
    let budget = Budget::new(100, 10);
    let all = now(budget.lease(100)).unwrap();
    let mut first = Box::pin(budget.lease(60));
    let mut second = Box::pin(budget.lease(60));
    assert!(now(first.as_mut()).is_none() && now(second.as_mut()).is_none());
    drop(all); // granted to the first lease, which is not polled
    assert_untaken(&budget, 60);
    assert_eq!(budget.reclaim(), 0);
    sleep(Duration::from_secs(1)).await;
    assert_eq!(budget.reclaim(), 60);
    assert!(now(first.as_mut()).is_none(), "it went to the second");
    let mut third = Box::pin(budget.lease(60));
    assert!(now(third.as_mut()).is_none());
    drop(now(second).unwrap());
    drop(now(first).expect("before the third"));
    assert!(now(third).is_some());
    assert_untaken(&budget, 0);
}

#[test]
fn who_is_not_there_is_not_refused() {
    let budget = Budget::new(100, 10);
    budget.refuse_longest(Starved("nobody waits".into()), Duration::ZERO);
    let state = budget.shared.lock();
    assert_eq!((state.refused_at, state.refusals), (None, 0), "the next wait would be ended sooner");
}

/// Writers with different part sizes that pause at random always finish: no writer waits for memory that only
/// another waiting writer could free.
#[tokio::test(start_paused = true)]
async fn writers_that_keep_writing_never_block_each_other() {
    for seed in 0..50 {
        let mut random = fastrand::Rng::with_seed(seed);
        let budget = Budget::new(1000, 10);
        let mut tasks = tokio::task::JoinSet::new();
        for _ in 0..random.u64(2..200) {
            let (budget, mut random) = (budget.clone(), random.fork());
            tasks.spawn(async move {
                let mut part = random.u64(10..=400);
                let account = budget.account(part, nobody());
                for _ in 0..random.u64(1..5) {
                    let mut held = Vec::new();
                    let mut filled = 0;
                    while filled < part {
                        let piece = random.u64(1..=50).min(part - filled);
                        held.push(account.grow(piece).await.unwrap());
                        filled += piece;
                        sleep(Duration::from_millis(random.u64(0..100))).await;
                    }
                    account.dispatched();
                    let time = Duration::from_millis(random.u64(0..500));
                    tokio::spawn(async move {
                        sleep(time).await;
                        drop(held);
                    });
                    part = random.u64(10..=400);
                    account.set_part(part);
                }
            });
        }
        let all = async { while tasks.join_next().await.is_some() {} };
        let ended = tokio::time::timeout(Duration::from_secs(24 * 3600), all).await;
        assert!(ended.is_ok(), "seed {seed}: {:?}", budget.usage());
        sleep(Duration::from_secs(1)).await;
        let usage = budget.usage();
        assert_eq!((usage.held, usage.half_filled, usage.waiting), (0, 0, 0), "seed {seed}");
        assert!(usage.peak <= 1000);
    }
}
