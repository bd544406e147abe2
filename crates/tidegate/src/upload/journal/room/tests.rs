use std::cell::{Cell, RefCell};
use std::io;
use std::sync::Arc;

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use proptest::prelude::*;
use tokio::sync::watch;

use super::*;
use crate::engine::journaling::Feed;

const PATIENCE: Duration = Duration::from_secs(60);

fn full() -> JournalError {
    JournalError::Full { path: "k".into(), source: io::ErrorKind::StorageFull.into() }
}

/// A full disk, and the waiters for room on it.
#[derive(Default)]
struct Full {
    disk: JournalDisk,
    progress: Progress,
    /// Free bytes.
    free: Cell<u64>,
    /// How many times the waiters tried to write.
    looks: Cell<u64>,
    /// The waiters that found room, in order.
    found: RefCell<Vec<usize>>,
}

impl Full {
    async fn wait(&self, who: usize, bytes: u64) -> Result<(), JournalError> {
        let write = || async {
            self.looks.set(self.looks.get() + 1);
            let Some(free) = self.free.get().checked_sub(bytes) else { return Err(full()) };
            self.free.set(free);
            self.found.borrow_mut().push(who);
            Ok(())
        };
        self.disk.in_line(&self.progress, PATIENCE, write).await
    }

    /// Frees `bytes` at once.
    fn leaves(&self, bytes: u64) {
        self.free.set(self.free.get() + bytes);
        self.disk.moves();
        self.disk.has_room();
    }
}

#[tokio::test(start_paused = true)]
async fn of_ten_thousand_as_many_look_as_there_is_room_for_in_their_order() {
    const WAITERS: usize = 10_000;
    let full = Full::default();
    let feeds: Vec<_> = (0..WAITERS).map(|_| Arc::new(watch::channel(Feed::default()).0)).collect();
    feeds.iter().for_each(|feed| full.disk.join(feed));
    let mut told: Vec<_> = feeds.iter().map(|feed| feed.subscribe()).collect();
    told.iter_mut().for_each(|feed| feed.mark_unchanged());
    let mut waiting: FuturesUnordered<_> = (0..WAITERS).map(|who| full.wait(who, 1)).collect();
    let mut times_told = 0;
    while !waiting.is_empty() {
        let until = sleep(Duration::from_millis(100));
        tokio::pin!(until);
        loop {
            tokio::select! {
                biased;
                Some(found) = waiting.next() => found.unwrap(),
                () = &mut until => break,
            }
        }
        full.leaves(100);
        times_told += told.iter_mut().filter(|feed| feed.has_changed().unwrap()).count();
        told.iter_mut().for_each(|feed| feed.mark_unchanged());
    }
    // More than one look per waiter: a waiter that is not first also looks now and then.
    let looks = full.looks.get();
    assert!(looks < 8 * WAITERS as u64, "{looks} looks");
    assert!(times_told <= 2 * WAITERS, "told {times_told} times");
    let found = full.found.borrow();
    let overtaken = found.iter().enumerate().map(|(at, who)| who.saturating_sub(at)).max();
    assert!(overtaken <= Some(200), "{overtaken:?}");
}

#[tokio::test(start_paused = true)]
async fn who_wants_less_passes_a_first_one_that_finds_no_room() {
    let full = Full::default();
    full.free.set(10);
    let began = Instant::now();
    let (first, _, second) = tokio::join!(
        async {
            let waited = full.wait(0, 100).await;
            (waited, began.elapsed())
        },
        async {
            sleep(PATIENCE / 2).await;
            full.leaves(95);
        },
        async {
            sleep(Duration::from_millis(1)).await;
            let waited = full.wait(1, 5).await;
            (waited, began.elapsed())
        },
    );
    assert!(first.0.is_ok() && first.1 >= PATIENCE / 2, "{first:?}");
    assert!(second.0.is_ok() && second.1 < 2 * LOOK_ALONE, "{second:?}");
}

#[tokio::test(start_paused = true)]
async fn nobody_in_line_waits_much_longer_than_was_said() {
    let full = Full::default();
    let began = Instant::now();
    let waited: Vec<_> =
        (0..100).map(|who| full.wait(who, 1)).collect::<FuturesUnordered<_>>().collect().await;
    assert!(waited.iter().all(|waited| matches!(waited, Err(JournalError::Full { .. }))));
    let took = began.elapsed();
    assert!(PATIENCE <= took && took < PATIENCE + Duration::from_secs(1), "{took:?}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// The remaining waiters find room once there is enough, whatever the others asked for and whichever left.
    #[test]
    fn all_that_wait_find_room_in_the_end(
        waiters in proptest::collection::vec((1..50u64, proptest::option::of(0..5000u64), 0..3000u64), 1..30),
        leaving in proptest::collection::vec(0..40u64, 0..30),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
        runtime.block_on(async {
            let full = Full::default();
            let feed = Arc::new(watch::channel(Feed::default()).0);
            full.disk.join(&feed);
            let one = async |who: usize, (bytes, gone, comes): (u64, Option<u64>, u64)| {
                sleep(Duration::from_millis(comes)).await;
                let gone = gone.map_or(Duration::MAX, Duration::from_millis);
                timeout(gone, full.wait(who, bytes)).await.is_ok_and(|waited| waited.is_ok())
            };
            let all: FuturesUnordered<_> = waiters.iter().enumerate().map(|(who, waiter)| one(who, *waiter)).collect();
            let leave = async {
                for bytes in &leaving {
                    sleep(Duration::from_millis(200)).await;
                    full.leaves(*bytes);
                }
                sleep(Duration::from_secs(4)).await;
                full.leaves(50 * 30);
            };
            let (found, ()) = tokio::join!(all.collect::<Vec<_>>(), leave);
            let stayed = waiters.iter().filter(|(_, gone, _)| gone.is_none()).count();
            assert!(found.iter().filter(|found| **found).count() >= stayed);
            assert!(!feed.borrow().full, "nobody waits any more");
        });
    }
}
