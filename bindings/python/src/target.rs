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

/// The size of a huge page on every 64-bit processor that Linux gives them on by default.
#[cfg(target_os = "linux")]
const HUGE_PAGE: usize = 2 << 20;

/// Asks for huge pages where `length` bytes of new memory from `start` on hold some. With pages of 4 KiB, most of the
/// processor time of a large read goes into the first write to each page.
#[cfg(target_os = "linux")]
#[expect(unsafe_code, reason = "advice about memory is given by its address")]
fn ask_for_huge_pages(start: NonNull<u8>, length: usize) {
    let skipped = start.align_offset(HUGE_PAGE);
    let whole = length.saturating_sub(skipped) / HUGE_PAGE * HUGE_PAGE;
    if whole > 0 {
        // SAFETY: the `whole` bytes after `skipped` are in the `length` bytes of the caller, and this advice changes no byte.
        let advised = unsafe {
            rustix::mm::madvise(start.add(skipped).as_ptr().cast(), whole, rustix::mm::Advice::LinuxHugepage)
        };
        // A kernel without huge pages refuses the advice, and the memory is used as it is.
        let _ = advised;
    }
}

/// A new `bytes` that is filled, and that nobody else has until it is full.
pub(crate) struct NewBytes {
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
        // SAFETY: the object is a `bytes`, whose memory Python allows to be filled until anybody else has the object; it
        // is alive as long as `self`. (The one `bytes` of length 0 is shared, and nothing is written to it.)
        let target = unsafe {
            let start = ffi::PyBytes_AsString(bytes.as_ptr()).cast::<u8>();
            let start = NonNull::new(start).ok_or_else(|| PyErr::fetch(py))?;
            #[cfg(target_os = "linux")]
            ask_for_huge_pages(start, length);
            Target::new(start, length)
        };
        Ok(Self { bytes: bytes.unbind(), target })
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
