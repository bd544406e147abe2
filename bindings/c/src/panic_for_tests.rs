//! Panics where a test wants one.

use std::sync::atomic::{AtomicI32, Ordering::SeqCst};

/// Where it panics.
#[derive(Clone, Copy)]
pub(crate) enum Place {
    /// On the caller's thread, at the beginning of the next call.
    Call = 1,
    /// In the task of the next call.
    Task = 2,
}

static NEXT: AtomicI32 = AtomicI32::new(0);

pub(crate) fn at(place: Place) {
    if NEXT.compare_exchange(place as i32, 0, SeqCst, SeqCst).is_ok() {
        panic!("a test wants this panic");
    }
}

/// Makes the next call panic: 1 at its beginning, 2 in its task.
#[unsafe(no_mangle)]
pub extern "C" fn tg_test_panic(place: i32) {
    NEXT.store(place, SeqCst);
}
