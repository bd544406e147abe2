//! Starts of journaled writers that are cancelled.

use super::*;

/// Cancels a start after each number of polls; the number of polls differs between runs, so it runs 20 times.
#[test]
fn a_start_that_is_cancelled_leaves_no_journal() {
    for _ in 0..20 {
        let place = Place::new();
        let started = (0..100).find(|steps| is_started_after(&place, *steps));
        assert!(started.is_some(), "it does not end");
    }
}

fn is_started_after(place: &Place, steps: u32) -> bool {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let is_started = runtime.block_on(async {
        let (tide, store) = place.process();
        let mut start = Box::pin(place.writer(&store));
        let mut left = steps;
        let started = std::future::poll_fn(|cx| {
            if left == 0 {
                return std::task::Poll::Ready(None);
            }
            left -= 1;
            start.as_mut().poll(cx).map(Some)
        })
        .await;
        drop(start);
        let Some(writer) = started else { return false };
        drop(writer.unwrap());
        tide.settled().await;
        true
    });
    // Waits until the blocking threads have ended.
    drop(runtime);
    assert_eq!(place.files(), 0, "after {steps} steps");
    is_started
}
