//! The C interface: `include/tidegate.h` is its contract, and docs/C.md its guide.
//!
//! Each handle is a box with the library's value, inert in a forked child (`process`). Each call is one future
//! (`operation`), which a thread waits for or a task carries out; a panic ends at the `border`. Nothing else is
//! decided here.
#![expect(unsafe_code, reason = "C passes addresses, and the names of its functions are global")]
#![expect(non_camel_case_types, reason = "the names are those of the header")]
#![allow(unreachable_pub, reason = "C reaches what has a global name")]
#![allow(clippy::missing_safety_doc, reason = "the header says what each function demands")]
#![allow(clippy::too_many_arguments, reason = "asynchronous forms have those of the call, and three more")]

use std::ffi::c_char;

mod border;
mod engine;
mod error;
mod lent;
mod list;
mod memory;
mod object;
mod operation;
mod options;
#[cfg(feature = "panic_for_tests")]
mod panic_for_tests;
mod pending;
mod process;
mod progress;
mod ranges;
mod reader;
mod recover;
mod sigpipe;
mod store;
mod text;
mod thread;
mod writer;

/// The version of this interface. It changes only if a program must be compiled again.
pub const TG_ABI_VERSION: u32 = 1;

/// The TG_ABI_VERSION of the library that the program runs with.
#[unsafe(no_mangle)]
pub extern "C" fn tg_abi_version() -> u32 {
    TG_ABI_VERSION
}

/// The version of the library, such as `0.1.0`.
#[unsafe(no_mangle)]
pub extern "C" fn tg_version() -> *const c_char {
    const VERSION: &std::ffi::CStr =
        match std::ffi::CStr::from_bytes_with_nul(concat!(env!("CARGO_PKG_VERSION"), "\0").as_bytes()) {
            Ok(version) => version,
            Err(_) => c"unknown",
        };
    VERSION.as_ptr()
}
