//! Text and memory that callers pass.

use std::ffi::{CStr, CString, c_char, c_void};
use std::slice;

use crate::error::{Outcome, invalid};

/// A key, or a prefix of keys: UTF-8 with its length in bytes. Nothing ends it. `data` may be NULL if `length` is 0.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct tg_str {
    /// The first byte.
    pub data: *const c_char,
    /// How many bytes.
    pub length: usize,
}

impl tg_str {
    /// Borrowed from `text`, for a caller of this library.
    pub(crate) fn of(text: &str) -> Self {
        Self { data: text.as_ptr().cast(), length: text.len() }
    }

    /// A copy of the text.
    ///
    /// # Safety
    /// The `length` bytes from `data` on are readable during the call.
    pub(crate) unsafe fn read(self) -> Outcome<String> {
        // SAFETY: the caller promises that the bytes are readable.
        let bytes = unsafe { bytes(self.data.cast(), self.length) }?;
        let text = str::from_utf8(bytes).map_err(|_| invalid("a key is not UTF-8"))?;
        Ok(text.to_owned())
    }
}

/// The memory that a caller passes.
///
/// # Safety
/// The `length` bytes from `data` on are readable as long as the slice is used, and nobody changes them meanwhile.
pub(crate) unsafe fn bytes<'a>(data: *const c_void, length: usize) -> Outcome<&'a [u8]> {
    check_memory(data.is_null(), length)?;
    if length == 0 {
        return Ok(&[]);
    }
    // SAFETY: `data` is not null, and there are `length` readable bytes, which the caller promises. No object is larger
    // than `isize::MAX` (`check_memory`).
    Ok(unsafe { slice::from_raw_parts(data.cast(), length) })
}

/// The items of an array that a caller passes.
///
/// # Safety
/// The `count` items from `first` on are initialized and readable as long as the slice is used, and nobody changes them
/// meanwhile.
pub(crate) unsafe fn items<'a, T>(first: *const T, count: usize) -> Outcome<&'a [T]> {
    check_memory(first.is_null(), count.saturating_mul(size_of::<T>()))?;
    if count == 0 {
        return Ok(&[]);
    }
    // SAFETY: `first` is not null, and there are `count` items, which the caller promises. Together they are not larger
    // than `isize::MAX` (`check_memory`).
    Ok(unsafe { slice::from_raw_parts(first, count) })
}

/// Fails where no memory of so many bytes can be at an address.
pub(crate) fn check_memory(is_null: bool, length: usize) -> Outcome {
    match length {
        0 => Ok(()),
        _ if is_null => Err(invalid("the address is NULL, and the length is not 0")),
        _ if isize::try_from(length).is_err() => Err(invalid("the length is more than memory has")),
        _ => Ok(()),
    }
}

/// A copy of a string that a caller passes.
///
/// # Safety
/// `text` is null, or a string that a NUL ends, readable during the call.
pub(crate) unsafe fn string(text: *const c_char, what: &str) -> Outcome<String> {
    if text.is_null() {
        return Err(invalid(&format!("{what} is NULL")));
    }
    // SAFETY: `text` is not null, and a NUL ends it, which the caller promises.
    let text = unsafe { CStr::from_ptr(text) };
    let text = text.to_str().map_err(|_| invalid(&format!("{what} is not UTF-8")))?;
    Ok(text.to_owned())
}

/// The text for C. A NUL inside, which C would take for the end, becomes a replacement character.
pub(crate) fn c_string(text: &str) -> CString {
    CString::new(text).unwrap_or_else(|_| CString::new(text.replace('\0', "\u{fffd}")).unwrap_or_default())
}
