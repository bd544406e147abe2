//! Keeps SIGPIPE from programs. A write to a socket that its peer has closed sends it to the writing thread: Rust's
//! programs ignore it, those in C end by default. So the threads of an engine block it, and so does a caller's thread during
//! each call, also for threads that a call starts. The write then fails with EPIPE, which is an error like others.

use std::io::{Error, ErrorKind};
use std::mem::MaybeUninit;
use std::ptr;

/// The set of signals that holds SIGPIPE alone.
fn only_sigpipe() -> libc::sigset_t {
    let mut set = MaybeUninit::uninit();
    // SAFETY: the first call initializes the set, and both get its address. They fail for unknown signals only.
    unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        libc::sigaddset(set.as_mut_ptr(), libc::SIGPIPE);
        set.assume_init()
    }
}

fn has_sigpipe(set: &libc::sigset_t) -> bool {
    // SAFETY: the address is of an initialized set.
    unsafe { libc::sigismember(set, libc::SIGPIPE) == 1 }
}

/// Takes a pending SIGPIPE, and does not wait: one that was sent to the whole process may have gone to another thread.
fn take_sigpipe() {
    let at_once = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    loop {
        // SAFETY: the addresses are of an initialized set and of a time; nobody asks for more about the signal.
        let taken = unsafe { libc::sigtimedwait(&only_sigpipe(), ptr::null_mut(), &at_once) };
        if taken != -1 || Error::last_os_error().kind() != ErrorKind::Interrupted {
            return;
        }
    }
}

/// Blocks SIGPIPE on this thread for good: on a thread of an engine.
pub(crate) fn block() {
    std::mem::forget(Blocked::begin());
}

/// SIGPIPE is blocked on this thread until this is dropped, as it was before afterwards.
pub(crate) struct Blocked {
    /// What was blocked before; `None` if that included SIGPIPE, or if nothing could be changed.
    before: Option<libc::sigset_t>,
}

impl Blocked {
    pub(crate) fn begin() -> Self {
        let mut before = MaybeUninit::uninit();
        // SAFETY: the addresses are of an initialized set, and of room for one.
        let failed = unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &only_sigpipe(), before.as_mut_ptr()) };
        if failed != 0 {
            return Self { before: None };
        }
        // SAFETY: the call has succeeded, and so has initialized the set.
        let before = unsafe { before.assume_init() };
        Self { before: Some(before).filter(|before| !has_sigpipe(before)) }
    }
}

impl Drop for Blocked {
    fn drop(&mut self) {
        let Some(before) = &self.before else { return };
        let mut pending = MaybeUninit::uninit();
        // SAFETY: the address is of room for a set, which a call that succeeds initializes. SIGPIPE was not blocked
        // before, so one that is pending came since.
        let is_pending =
            unsafe { libc::sigpending(pending.as_mut_ptr()) == 0 && has_sigpipe(&*pending.as_ptr()) };
        if is_pending {
            take_sigpipe();
        }
        // SAFETY: the address is of a set that the system initialized.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, before, ptr::null_mut()) };
    }
}
