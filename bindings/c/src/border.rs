//! The border to C: results go out through parameters, failures as owned errors, and neither a panic nor SIGPIPE crosses.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::error::{Failure, Outcome, TG_KIND_CLOSED, failure, invalid, panicked, tg_error};
use crate::sigpipe::Blocked;
use crate::thread::carry_out;

/// Carries out a call. A panic becomes an error.
///
/// Values that a panic leaves half-changed are not used again: a writer and a reader fail for good, and the other
/// handles are not changed by calls.
pub(crate) fn call(work: impl FnOnce() -> Outcome) -> Option<Box<tg_error>> {
    let _blocked = Blocked::begin();
    let carried_out = catch_unwind(AssertUnwindSafe(|| {
        carry_out(|| {
            #[cfg(feature = "panic_for_tests")]
            crate::panic_for_tests::at(crate::panic_for_tests::Place::Call);
            work()
        })
    }));
    let outcome = match carried_out {
        Ok(Ok(outcome)) => outcome,
        Ok(Err(error)) => Err(no_thread(&error)),
        Err(panic) => Err(panicked("", &*panic)),
    };
    outcome.err()
}

fn no_thread(error: &io::Error) -> Failure {
    let message = format!("this thread is ending, and the system gives no other one for the call: {error}");
    failure(TG_KIND_CLOSED, "", &message)
}

/// Carries out a call that frees. A panic there has printed its message, and there is nobody to tell.
pub(crate) fn free(work: impl FnOnce()) {
    let _blocked = Blocked::begin();
    let _ = catch_unwind(AssertUnwindSafe(|| carry_out(work)));
}

/// What a call needs and was not given.
pub(crate) fn needed<T>(given: Option<T>, what: &str) -> Outcome<T> {
    given.ok_or_else(|| invalid(&format!("{what} is NULL")))
}

/// A new handle, for its owner in C.
pub(crate) fn handle<T>(value: T) -> *mut T {
    Box::into_raw(Box::new(value))
}
