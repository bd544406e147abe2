//! The border to C: results go out through parameters, failures as owned errors, and neither a panic nor SIGPIPE crosses.

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::error::{Outcome, invalid, panicked, tg_error};
use crate::sigpipe::Blocked;

/// Carries out a call. A panic becomes an error.
///
/// Values that a panic leaves half-changed are not used again: a writer and a reader fail for good, and the other
/// handles are not changed by calls.
pub(crate) fn call(work: impl FnOnce() -> Outcome) -> Option<Box<tg_error>> {
    let _blocked = Blocked::begin();
    let carried_out = catch_unwind(AssertUnwindSafe(|| {
        #[cfg(feature = "panic_for_tests")]
        crate::panic_for_tests::at(crate::panic_for_tests::Place::Call);
        work()
    }));
    carried_out.unwrap_or_else(|panic| Err(panicked(&*panic))).err()
}

/// Carries out a call that frees. A panic there has printed its message, and there is nobody to tell.
pub(crate) fn free(work: impl FnOnce()) {
    let _blocked = Blocked::begin();
    let _ = catch_unwind(AssertUnwindSafe(work));
}

/// What a call needs and was not given.
pub(crate) fn needed<T>(given: Option<T>, what: &str) -> Outcome<T> {
    given.ok_or_else(|| invalid(&format!("{what} is NULL")))
}

/// A new handle, for its owner in C.
pub(crate) fn handle<T>(value: T) -> *mut T {
    Box::into_raw(Box::new(value))
}
