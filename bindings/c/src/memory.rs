//! Memory of callers that a task uses while they wait, or until their `done` has run.

use std::ffi::c_void;
use std::ptr::NonNull;

use crate::error::Outcome;
use crate::text::check_memory;

/// Bytes to be written.
pub(crate) struct Source {
    start: *const u8,
    length: usize,
}

// SAFETY: the memory is only read, and the caller leaves it alone meanwhile (`new`), so any thread may read it.
unsafe impl Send for Source {}
// SAFETY: as for `Send`; there is no interior mutability.
unsafe impl Sync for Source {}

impl Source {
    /// # Safety
    /// The `length` bytes from `data` on are readable as long as this lives, and nobody changes them meanwhile.
    pub(crate) unsafe fn new(data: *const c_void, length: usize) -> Outcome<Self> {
        check_memory(data.is_null(), length)?;
        Ok(Self { start: data.cast(), length })
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        if self.length == 0 {
            return &[];
        }
        // SAFETY: `start` is not null, and `length` bytes are no more than `isize::MAX` (`new`). They are readable and
        // unchanged as long as `self` lives, which the maker of `self` has promised.
        unsafe { std::slice::from_raw_parts(self.start, self.length) }
    }
}

/// Memory that is filled from its beginning on, and never read.
pub(crate) struct Target {
    start: *mut u8,
    length: usize,
    filled: usize,
}

// SAFETY: only this uses its memory (`new`), so it may do so on another thread.
unsafe impl Send for Target {}

impl Target {
    /// # Safety
    /// The `length` bytes from `to` on are writable as long as this lives, and nobody else uses them meanwhile.
    pub(crate) unsafe fn new(to: *mut c_void, length: usize) -> Outcome<Self> {
        check_memory(to.is_null(), length)?;
        Ok(Self { start: to.cast(), length, filled: 0 })
    }

    /// How many bytes are not filled yet.
    pub(crate) fn left(&self) -> usize {
        self.length - self.filled
    }

    pub(crate) fn filled(&self) -> usize {
        self.filled
    }

    /// Fills the next bytes, as far as they fit.
    pub(crate) fn put(&mut self, piece: &[u8]) {
        let length = piece.len().min(self.left());
        self.put_at(self.filled, &piece[..length]);
        self.filled += length;
    }

    /// Fills the bytes from `at` on, as far as they fit.
    pub(crate) fn put_at(&mut self, at: usize, piece: &[u8]) {
        let length = piece.len().min(self.length.saturating_sub(at));
        if length == 0 {
            return;
        }
        // SAFETY: `length` is more than 0, so `at + length` is at most `self.length`, and `start` is not null: these bytes
        // are in the target and writable (`new`). `piece` is memory of the library, and nobody else uses the target, so the
        // two do not overlap.
        unsafe { self.start.add(at).copy_from_nonoverlapping(piece.as_ptr(), length) }
    }
}

/// Where a result of an asynchronous call goes. Not a reference, which the function would have to itself until it returns:
/// `done` may run before.
pub(crate) struct Slot<T>(NonNull<T>);

// SAFETY: only this uses its memory (`new`), so it may do so on another thread.
unsafe impl<T> Send for Slot<T> {}

impl<T> Slot<T> {
    /// `None` if `out` is null.
    ///
    /// # Safety
    /// `out` is null, or it is aligned and writable until `done` has run, and nobody else uses it meanwhile.
    pub(crate) unsafe fn new(out: *mut T) -> Option<Self> {
        NonNull::new(out).map(Self)
    }

    pub(crate) fn write(self, value: T) {
        // SAFETY: the pointer is aligned and still writable (`new`): `done` has not run.
        unsafe { self.0.write(value) }
    }
}
