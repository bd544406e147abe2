//! Memory of Python that a task fills, without the interpreter.

use std::ptr::NonNull;

use pyo3::exceptions::PyRuntimeError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

/// Memory that is written from its beginning on, and never read.
pub(crate) struct Target {
    start: NonNull<u8>,
    length: usize,
    filled: usize,
}

#[expect(unsafe_code, reason = "the memory belongs to Python")]
// SAFETY: a target is the only one that uses its memory, as its constructors demand, so it may be moved to another thread.
unsafe impl Send for Target {}

#[expect(unsafe_code, reason = "the memory belongs to Python")]
impl Target {
    /// # Safety
    /// The `length` bytes from `start` on are valid for writes as long as this lives, and nobody else relies on their
    /// content meanwhile.
    pub(crate) unsafe fn new(start: NonNull<u8>, length: usize) -> Self {
        Self { start, length, filled: 0 }
    }

    /// How many bytes are not written yet.
    pub(crate) fn left(&self) -> usize {
        self.length - self.filled
    }

    /// Writes the next bytes, as far as they fit.
    pub(crate) fn put(&mut self, piece: &[u8]) {
        let length = piece.len().min(self.left());
        // SAFETY: the `left` bytes after the first `filled` are in the target, and writable (`new`). `piece` is memory of
        // the library, so the two do not overlap.
        unsafe { self.start.add(self.filled).copy_from_nonoverlapping(NonNull::from(piece).cast(), length) }
        self.filled += length;
    }
}

/// Gives new memory its pages while its first bytes are still on their way, and in huge pages where `length` bytes from
/// `start` on hold some. Otherwise a large read waits for the kernel at the first write to each page: of 4 KiB pages,
/// that is most of the read's processor time.
#[cfg(target_os = "linux")]
mod pages {
    use std::ptr::NonNull;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::thread::{Builder, JoinHandle};

    use rustix::mm::{Advice, madvise};

    /// The size of a huge page on every 64-bit processor that Linux gives them on by default.
    const HUGE_PAGE: usize = 2 << 20;
    /// Memory that is asked for at once: the most that a read that ends early waits for.
    const STEP: usize = 4 * HUGE_PAGE;
    /// Below this, a thread costs more than it saves.
    const LEAST: usize = 64 << 20;

    /// A thread that gives memory its pages. Dropped, it has ended.
    pub(super) struct Populating {
        is_dropped: Arc<AtomicBool>,
        thread: Option<JoinHandle<()>>,
    }

    impl Populating {
        /// # Safety
        /// The `length` bytes from `start` on are mapped and writable until this is dropped.
        #[expect(unsafe_code, reason = "advice about memory is given by its address")]
        pub(super) unsafe fn new(start: NonNull<u8>, length: usize) -> Option<Self> {
            let skipped = start.align_offset(HUGE_PAGE);
            let whole = length.saturating_sub(skipped) / HUGE_PAGE * HUGE_PAGE;
            if whole == 0 {
                return None;
            }
            // Advice that a kernel does not know is refused, and the memory is used as it is.
            let address = start.addr().get();
            let advise = move |from: usize, bytes: usize, advice| {
                // SAFETY: the bytes lie in the `whole` ones after `skipped`, which are among the caller's `length`, and
                // neither of the two kinds of advice changes a byte.
                unsafe { madvise((address + skipped + from) as *mut _, bytes, advice) }
            };
            let _ = advise(0, whole, Advice::LinuxHugepage);
            if whole < LEAST {
                return None;
            }
            let is_dropped = Arc::new(AtomicBool::new(false));
            let ends = is_dropped.clone();
            let populate = move || {
                for from in (0..whole).step_by(STEP) {
                    let step = STEP.min(whole - from);
                    if ends.load(Ordering::Relaxed) || advise(from, step, Advice::LinuxPopulateWrite).is_err()
                    {
                        break;
                    }
                }
            };
            // Without this thread, the reader's own writes give the memory its pages.
            let thread = Builder::new().name("tidegate-pages".to_owned()).spawn(populate).ok()?;
            Some(Self { is_dropped, thread: Some(thread) })
        }
    }

    impl Drop for Populating {
        fn drop(&mut self) {
            self.is_dropped.store(true, Ordering::Relaxed);
            // A panic of that thread has been printed, and changes nothing for the bytes.
            let _ = self.thread.take().map(JoinHandle::join);
        }
    }
}

/// A new `bytes` that is filled, and that nobody else has until it is full.
pub(crate) struct NewBytes {
    /// Before the `bytes`, because it needs their memory until it is dropped.
    #[cfg(target_os = "linux")]
    _populating: Option<pages::Populating>,
    bytes: Py<PyBytes>,
    pub(crate) target: Target,
}

impl NewBytes {
    /// # Errors
    /// `MemoryError`.
    #[expect(unsafe_code, reason = "a `bytes` without content can be made by Python's C functions only")]
    pub(crate) fn new(py: Python<'_>, length: usize) -> PyResult<Self> {
        let size = length.try_into()?;
        // SAFETY: the interpreter is held. Without content, the function returns a new reference to a `bytes` of this
        // size whose bytes are not initialized, or null with an exception.
        let bytes = unsafe {
            let bytes = ffi::PyBytes_FromStringAndSize(std::ptr::null(), size);
            Bound::from_owned_ptr_or_err(py, bytes)?.cast_into_unchecked::<PyBytes>()
        };
        // SAFETY: the object is a `bytes`.
        let start = unsafe { ffi::PyBytes_AsString(bytes.as_ptr()) }.cast::<u8>();
        let start = NonNull::new(start).ok_or_else(|| PyErr::fetch(py))?;
        Ok(Self {
            // SAFETY: the memory is that of the `bytes`, which is dropped after this.
            #[cfg(target_os = "linux")]
            _populating: unsafe { pages::Populating::new(start, length) },
            bytes: bytes.unbind(),
            // SAFETY: Python allows the memory of a new `bytes` to be filled until anybody else has the object, and the
            // object is alive as long as `self`. (The one `bytes` of length 0 is shared, and nothing is written to it.)
            target: unsafe { Target::new(start, length) },
        })
    }

    /// # Errors
    /// If it is not full.
    pub(crate) fn into_bytes(self) -> PyResult<Py<PyBytes>> {
        match self.target.left() {
            0 => Ok(self.bytes),
            left => Err(PyRuntimeError::new_err(format!("the read has ended {left} bytes early"))),
        }
    }
}
