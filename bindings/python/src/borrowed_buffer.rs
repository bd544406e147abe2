//! The memory of another object of Python, such as an array, which is read while a write waits.

use std::sync::Arc;

use bytes::Bytes;
use pyo3::buffer::PyUntypedBuffer;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

/// Fewer bytes are copied as a whole.
const LEAST: usize = 256 << 10;
/// How many bytes are given to the library at once. It copies them into memory of the budget; more it would keep.
const SLICE: usize = 256 << 10;

/// A large buffer whose bytes are together.
pub(crate) struct BorrowedBuffer(Arc<PyUntypedBuffer>);

struct Slice {
    buffer: Arc<PyUntypedBuffer>,
    start: usize,
    end: usize,
}

impl AsRef<[u8]> for Slice {
    #[expect(unsafe_code, reason = "Python's buffers are memory that is shared with other code")]
    fn as_ref(&self) -> &[u8] {
        let start = self.buffer.buf_ptr().cast::<u8>().wrapping_add(self.start);
        // SAFETY: the range lies within the `len_bytes` bytes of the buffer (`slices`), which are together, and which the
        // exporter neither moves nor frees while `buffer` is held. The memory is not null, because there are many bytes
        // (`of`). Code that changes the bytes in the middle of a write does so at its own risk, as with every file.
        unsafe { std::slice::from_raw_parts(start, self.end - self.start) }
    }
}

impl BorrowedBuffer {
    /// `None` if `data` is a `bytes`, whose memory can be kept, or no such buffer.
    pub(crate) fn of(data: &Bound<'_, PyAny>) -> Option<Self> {
        if data.is_instance_of::<PyBytes>() {
            return None;
        }
        // What is no buffer at all is refused where it is read.
        let buffer = PyUntypedBuffer::get(data).ok()?;
        let fits = buffer.len_bytes() >= LEAST && buffer.is_c_contiguous() && !buffer.buf_ptr().is_null();
        fits.then(|| Self(Arc::new(buffer)))
    }

    pub(crate) fn length(&self) -> usize {
        self.0.len_bytes()
    }

    /// All bytes. The buffer is released once all slices are dropped and `self` is, in a thread that has the interpreter
    /// or waits for it.
    pub(crate) fn slices(&self) -> impl Iterator<Item = Bytes> + Send + use<> {
        let (buffer, length) = (self.0.clone(), self.length());
        (0..length).step_by(SLICE).map(move |start| {
            let end = length.min(start + SLICE);
            Bytes::from_owner(Slice { buffer: buffer.clone(), start, end })
        })
    }
}
