//! The future that waits for memory.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::runtime::Handle;
use tokio::time::Instant;

use super::{Budget, Lease, MemoryWaiter, Starved, UNTAKEN};

/// A wait for memory. Dropping it gives up the place in the queue.
#[derive(Debug)]
pub struct Acquire {
    pub(super) budget: Budget,
    pub(super) account: Option<u64>,
    pub(super) bytes: u64,
    pub(super) id: Option<u64>,
}

impl Future for Acquire {
    type Output = Result<Lease, Starved>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let budget = self.budget.clone();
        let mut state = budget.shared.lock();
        let id = match self.id {
            Some(id) => {
                if state.take(id).is_some() {
                    self.id = None;
                    drop(state);
                    return Poll::Ready(Ok(Lease { budget, bytes: self.bytes }));
                }
                match state.refused.remove(&id) {
                    Some((starved, at)) if at.elapsed() < UNTAKEN => {
                        self.id = None;
                        return Poll::Ready(Err(starved));
                    }
                    // An error for a write that was cancelled long ago: this write waits for itself.
                    Some(_) | None => {}
                }
                if let Some(waiter) = state.waiters.get_mut(&id) {
                    waiter.waker.clone_from(cx.waker());
                    state.moved(id, Handle::try_current().ok());
                    budget.shared.settle(state);
                    return Poll::Pending;
                }
                id // its grant was not taken for so long that it was reclaimed: it keeps its old place
            }
            None => state.place(self.account),
        };
        let waiter = MemoryWaiter {
            account: self.account,
            bytes: self.bytes,
            since: Instant::now(),
            waker: cx.waker().clone(),
            runtime: state.runtimes.enter(Handle::try_current().ok()),
        };
        state.enqueue(id, waiter);
        state.serve(&budget.shared);
        let taken = state.take(id);
        self.id = if taken.is_some() { None } else { Some(id) };
        // Also after a grant: it may leave too little for another waiter.
        budget.shared.settle(state);
        match taken {
            Some(_) => Poll::Ready(Ok(Lease { budget, bytes: self.bytes })),
            // If enough came back meanwhile, the waker was called already.
            None => Poll::Pending,
        }
    }
}

impl Drop for Acquire {
    fn drop(&mut self) {
        let Some(id) = self.id else { return };
        let mut state = self.budget.shared.lock();
        state.dequeue(id);
        state.refused.remove(&id);
        state.return_grant(id);
        self.budget.shared.settle(state);
    }
}
