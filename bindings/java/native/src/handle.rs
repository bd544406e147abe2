//! Handles: what a Java object holds of this side. A handle is freed by the cleaner of its Java object and by nothing
//! else, so that no call can meet one that is gone: `close` only ends what the handle does.

use std::sync::Arc;

use jni_sys::{JNIEnv, jclass};
use tidegate_transfer::job::TaskAttempt;

use crate::border;
use crate::engine::Shared;
use crate::error::{Failure, Outcome};
use crate::list::OpenList;
use crate::reader::OpenReader;
use crate::recover::Unfinished;
use crate::store::OpenStore;
use crate::writer::OpenWriter;

pub(crate) enum Handle {
    Engine(Shared),
    Store(OpenStore),
    Writer(Arc<OpenWriter>),
    Reader(Box<OpenReader>),
    List(OpenList),
    Unfinished(Unfinished),
    Attempt(Arc<TaskAttempt>),
}

impl Handle {
    /// What Java keeps of it.
    pub(crate) fn into_java(self) -> i64 {
        Box::into_raw(Box::new(self)) as i64
    }

    /// # Safety
    /// `handle` is from [`into_java`](Self::into_java), and its Java object is reachable until the native method returns.
    unsafe fn of<'a>(handle: i64) -> &'a Self {
        // SAFETY: the box is freed by `free` alone, which the cleaner calls once the Java object is unreachable.
        unsafe { &*(handle as *const Self) }
    }

    /// # Safety
    /// As for [`of`](Self::of), as for all below.
    pub(crate) unsafe fn engine<'a>(handle: i64) -> Outcome<&'a Shared> {
        // SAFETY: the caller promises it.
        match unsafe { Self::of(handle) } {
            Self::Engine(shared) => Ok(shared),
            _ => Err(wrong()),
        }
    }

    pub(crate) unsafe fn store<'a>(handle: i64) -> Outcome<&'a OpenStore> {
        // SAFETY: the caller promises it.
        match unsafe { Self::of(handle) } {
            Self::Store(store) => Ok(store),
            _ => Err(wrong()),
        }
    }

    pub(crate) unsafe fn writer<'a>(handle: i64) -> Outcome<&'a Arc<OpenWriter>> {
        // SAFETY: the caller promises it.
        match unsafe { Self::of(handle) } {
            Self::Writer(writer) => Ok(writer),
            _ => Err(wrong()),
        }
    }

    pub(crate) unsafe fn reader<'a>(handle: i64) -> Outcome<&'a OpenReader> {
        // SAFETY: the caller promises it.
        match unsafe { Self::of(handle) } {
            Self::Reader(reader) => Ok(reader),
            _ => Err(wrong()),
        }
    }

    pub(crate) unsafe fn list<'a>(handle: i64) -> Outcome<&'a OpenList> {
        // SAFETY: the caller promises it.
        match unsafe { Self::of(handle) } {
            Self::List(list) => Ok(list),
            _ => Err(wrong()),
        }
    }

    pub(crate) unsafe fn unfinished<'a>(handle: i64) -> Outcome<&'a Unfinished> {
        // SAFETY: the caller promises it.
        match unsafe { Self::of(handle) } {
            Self::Unfinished(upload) => Ok(upload),
            _ => Err(wrong()),
        }
    }

    pub(crate) unsafe fn attempt<'a>(handle: i64) -> Outcome<&'a Arc<TaskAttempt>> {
        // SAFETY: the caller promises it.
        match unsafe { Self::of(handle) } {
            Self::Attempt(attempt) => Ok(attempt),
            _ => Err(wrong()),
        }
    }
}

pub(crate) fn wrong() -> Failure {
    Failure::invalid("a native method got a handle of another kind than its own")
}

/// `Native.free`: frees what a Java object held, when the object is unreachable. A writer is discarded.
#[unsafe(no_mangle)]
pub unsafe extern "system" fn Java_io_tidegate_Native_free(env: *mut JNIEnv, _: jclass, handle: i64) {
    // SAFETY: the JVM calls this, once for each handle, whose Java object is unreachable. In a forked child `call` fails
    // before, and the handle is leaked, as it must be.
    unsafe {
        border::call(env, |_| {
            match *Box::from_raw(handle as *mut Handle) {
                Handle::Writer(writer) => writer.discard(),
                Handle::Reader(reader) => reader.close(),
                // They end when the last call of them does.
                Handle::Engine(_)
                | Handle::Store(_)
                | Handle::List(_)
                | Handle::Unfinished(_)
                | Handle::Attempt(_) => {}
            }
            Ok(())
        })
    }
}
