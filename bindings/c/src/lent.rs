//! Memory that a caller lends for a write, and gets back when the store has its bytes.

use std::ffi::c_void;

use bytes::Bytes;

use crate::border::needed;
use crate::error::Outcome;
use crate::memory::Source;
use crate::text::check_memory;

/// Gives memory back to its owner. Runs once, on any thread, and must not block or call a function that does.
pub type tg_release = Option<unsafe extern "C" fn(data: *mut c_void, length: usize, user: *mut c_void)>;

/// Memory that the caller has lent until it is released.
struct Lent {
    source: Source,
    data: *mut c_void,
    length: usize,
    release: tg_release,
    user: *mut c_void,
}

// SAFETY: the memory is only read (`Source`), and the two pointers are only handed back. The header says that `release`
// runs on any thread.
unsafe impl Send for Lent {}

impl AsRef<[u8]> for Lent {
    fn as_ref(&self) -> &[u8] {
        self.source.bytes()
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        if let Some(release) = self.release {
            // SAFETY: the header demands a function of this type, which takes these three on any thread and does not
            // unwind. No slice of the memory is left: `Bytes` drops its owner last.
            unsafe { release(self.data, self.length, self.user) }
        }
    }
}

/// The bytes, which are given back when the last of them is dropped, or before this returns an error; unless `release` is
/// null.
///
/// # Safety
/// The `length` bytes from `data` on are readable and unchanged until `release` runs.
pub(crate) unsafe fn bytes(
    data: *mut c_void,
    length: usize,
    release: tg_release,
    user: *mut c_void,
) -> Outcome<Bytes> {
    needed(release, "release")?;
    let is_memory = check_memory(data.is_null(), length);
    let readable = if is_memory.is_ok() { length } else { 0 };
    // SAFETY: the caller promises it until `release` runs, which is when this is dropped.
    let source = unsafe { Source::new(data, readable) }?;
    let lent = Bytes::from_owner(Lent { source, data, length, release, user });
    is_memory?;
    Ok(lent)
}
