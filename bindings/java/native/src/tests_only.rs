//! Panics and forks, where a test wants one.

use std::sync::atomic::{AtomicI32, Ordering::SeqCst};

use jni_sys::{JNIEnv, jclass, jint};

use crate::border;
use crate::jvm::Env;

/// Where it panics.
#[derive(Clone, Copy)]
pub(crate) enum Place {
    /// On the caller's thread, at the beginning of the next call.
    Call = 1,
    /// In the task of the next call.
    Task = 2,
}

static NEXT: AtomicI32 = AtomicI32::new(0);

pub(crate) fn panic_at(place: Place) {
    if NEXT.compare_exchange(place as i32, 0, SeqCst, SeqCst).is_ok() {
        panic!("a test wants this panic");
    }
}

/// Makes the next call panic: 1 at its beginning, 2 in its task.
#[unsafe(no_mangle)]
pub extern "system" fn Java_io_tidegate_TestLibrary_panicNext(_: *mut JNIEnv, _: jclass, place: jint) {
    NEXT.store(place, SeqCst);
}

/// Forks, has the child discard and free a writer, and says how the child ended: 0 if it did neither.
#[unsafe(no_mangle)]
pub unsafe extern "system" fn Java_io_tidegate_TestLibrary_forkAndFree(
    env: *mut JNIEnv,
    _: jclass,
    writer: i64,
) -> jint {
    // SAFETY: the child makes two calls that touch nothing of the parent's, which is what the test is about, and ends.
    unsafe {
        match libc::fork() {
            0 => {
                let ended = border::outcome(&Env::of_call(env), |_| {
                    crate::handle::Handle::writer(writer)?.discard();
                    Ok(())
                });
                libc::_exit(if ended.is_err() { 0 } else { 1 })
            }
            child => {
                let mut status = 0;
                libc::waitpid(child, &raw mut status, 0);
                status
            }
        }
    }
}
