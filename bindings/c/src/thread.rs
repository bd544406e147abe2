//! The thread of a call. One of an engine must not wait for the engine. One that is ending, such as the main thread in its
//! `atexit` handlers and in destructors of static objects, has lost its thread-local values, and tokio panics without them:
//! its calls are carried out by a thread of their own.

use std::cell::Cell;
use std::io;
use std::panic::resume_unwind;
use std::thread::{Builder, scope};

use tokio::runtime::Handle;

thread_local! {
    /// Without a destructor: it is there until the thread has ended.
    static IS_OF_ENGINE: Cell<bool> = const { Cell::new(false) };
}

/// Marks this thread as one of an engine.
pub(crate) fn belongs_to_engine() {
    IS_OF_ENGINE.set(true);
}

/// Whether this is a thread of an engine, or of another runtime, whose tasks must not wait for each other.
pub(crate) fn is_of_engine() -> bool {
    IS_OF_ENGINE.get() || Handle::try_current().is_ok()
}

/// Carries out a call on this thread or, if it has lost its values, on another one, whose panic goes on here.
///
/// # Errors
/// If the system gives no thread. Then nothing was carried out.
pub(crate) fn carry_out<T: Send>(work: impl FnOnce() -> T) -> io::Result<T> {
    let has_ended = Handle::try_current().is_err_and(|error| error.is_thread_local_destroyed());
    if !has_ended {
        return Ok(work());
    }
    let (work, is_of_engine) = (Moved(work), IS_OF_ENGINE.get());
    scope(|scope| {
        let other = Builder::new().name("tidegate-exit".to_owned()).spawn_scoped(scope, move || {
            // What this thread must not wait for, the other must not either.
            IS_OF_ENGINE.set(is_of_engine);
            work.carry_out()
        })?;
        Ok(other.join().unwrap_or_else(|panic| resume_unwind(panic)))
    })
}

/// A call on its way to another thread.
struct Moved<W>(W);

// SAFETY: a call has handles, which the header lets any thread use, and memory of its caller, who is in the call meanwhile
// (`carry_out` joins the thread): one thread at a time uses them, as if the caller had made the call there.
unsafe impl<W> Send for Moved<W> {}

impl<W> Moved<W> {
    fn carry_out<T>(self) -> T
    where
        W: FnOnce() -> T,
    {
        (self.0)()
    }
}
