//! What the class `io.tidegate.Native` calls. Its Java code has the contracts; docs/JAVA.md is the guide.
//!
//! Every call is one of two kinds. Most give a future to the engine and return at once: when the future ends, a thread of
//! the engine tells the JVM (`call`), and the Java thread, which may be a virtual one, has waited in Java meanwhile. The
//! others never wait: they copy bytes, or free. Texts and results are bytes in one encoding (`wire`), so that engine
//! threads need no Java class but `Native`. Panics and failures end at the `border`; a forked child is turned away there.
#![expect(unsafe_code, reason = "the JVM passes addresses, and finds functions by global names")]
#![allow(unreachable_pub, reason = "the JVM reaches what has a global name")]
#![allow(clippy::missing_safety_doc, reason = "Native.java says what each function demands")]
#![allow(clippy::too_many_arguments, reason = "a call of Java is flat")]

mod border;
mod buffer;
mod call;
mod engine;
mod error;
mod handle;
mod job;
mod jvm;
mod list;
mod object;
mod parts;
mod pending;
mod reader;
mod recover;
mod sets;
mod store;
#[cfg(feature = "for_tests")]
mod tests_only;
mod wire;
mod writer;

/// The version of what `Native` and this library agree on: a class of another version refuses this library.
const ABI: i32 = 5;

/// `Native.abi`.
#[unsafe(no_mangle)]
pub extern "system" fn Java_io_tidegate_Native_abi() -> i32 {
    ABI
}
