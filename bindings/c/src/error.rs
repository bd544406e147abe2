//! Errors: owned values, with the text and the kind of the library's.

use std::any::Any;
use std::ffi::{CStr, CString, c_char};
use std::ptr;
use std::time::Duration;

use tidegate::ErrorKind;

use crate::text::c_string;

/// There is no object of this key.
pub const TG_KIND_NOT_FOUND: i32 = 1;
/// There is no bucket or root directory of this name.
pub const TG_KIND_NO_BUCKET: i32 = 2;
/// An object exists there, and `create_only` was set. Nothing was changed.
pub const TG_KIND_ALREADY_EXISTS: i32 = 3;
/// The bucket that was to be removed has objects.
pub const TG_KIND_NOT_EMPTY: i32 = 4;
/// The key has another object than the one that was being read or copied, or that was to be replaced.
pub const TG_KIND_REPLACED: i32 = 5;
/// The credentials do not allow the operation.
pub const TG_KIND_PERMISSION_DENIED: i32 = 6;
/// There are no usable credentials.
pub const TG_KIND_CREDENTIALS: i32 = 7;
/// The clocks of this machine and the store are too far apart.
pub const TG_KIND_CLOCK_SKEW: i32 = 8;
/// An argument or an option is wrong, or the call is not allowed at this moment or on this thread.
pub const TG_KIND_INVALID_INPUT: i32 = 9;
/// The object is larger than the store or the memory budget allows.
pub const TG_KIND_TOO_LARGE: i32 = 10;
/// The source of the bytes, a spool directory among them, failed.
pub const TG_KIND_SOURCE: i32 = 11;
/// The store asked for fewer requests for longer than the retries last.
pub const TG_KIND_THROTTLED: i32 = 12;
/// There was no answer in time, in any attempt.
pub const TG_KIND_TIMEOUT: i32 = 13;
/// The store or the network failed, in all attempts.
pub const TG_KIND_UNAVAILABLE: i32 = 14;
/// The endpoint is no object store.
pub const TG_KIND_NOT_A_STORE: i32 = 15;
/// The bytes at the store are not those that were sent.
pub const TG_KIND_INTEGRITY: i32 = 16;
/// The store can't say whether the object was published.
pub const TG_KIND_UNCERTAIN: i32 = 17;
/// A disk is full.
pub const TG_KIND_NO_SPACE: i32 = 18;
/// The wait for memory could not end.
pub const TG_KIND_STARVED: i32 = 19;
/// The writer took no byte for longer than its idle limit.
pub const TG_KIND_IDLE: i32 = 20;
/// The upload session is gone, or has lost parts.
pub const TG_KIND_SESSION_LOST: i32 = 21;
/// The writer or reader failed, was aborted or finished before.
pub const TG_KIND_CLOSED: i32 = 22;
/// This store can't do that.
pub const TG_KIND_UNSUPPORTED: i32 = 23;
/// The library has a bug, and panicked. The handle has failed; other handles go on.
pub const TG_KIND_PANIC: i32 = 24;
/// The handle was made by another process, from which this one was forked.
pub const TG_KIND_FORKED: i32 = 25;
/// The call was cancelled.
pub const TG_KIND_CANCELLED: i32 = 26;
/// A kind of a later version of the library.
pub const TG_KIND_OTHER: i32 = 27;

const ADDED: [(i32, &CStr); 4] = [
    (TG_KIND_PANIC, c"panic"),
    (TG_KIND_FORKED, c"forked"),
    (TG_KIND_CANCELLED, c"cancelled"),
    (TG_KIND_OTHER, c"other"),
];

/// Why a call failed. The caller owns it, on any thread, and frees it with tg_error_free.
#[derive(Debug)]
pub struct tg_error {
    kind: i32,
    kind_name: CString,
    message: CString,
    operation: CString,
    url: CString,
    remedy: Option<CString>,
    attempts: u32,
    elapsed: Duration,
    is_unreachable: bool,
}

/// A failed call, before it becomes a `tg_error`.
pub(crate) type Failure = Box<tg_error>;

/// What every call of this crate gives, before it crosses the border.
pub(crate) type Outcome<T = ()> = Result<T, Failure>;

/// The library's error, for C.
pub(crate) fn of(error: &tidegate::Error) -> Failure {
    Box::new(tg_error {
        kind: number(error.kind()),
        kind_name: c_string(error.kind().name()),
        message: c_string(&error.to_string()),
        operation: c_string(error.operation().name()),
        url: c_string(error.object()),
        remedy: error.remedy().map(c_string),
        attempts: error.attempts(),
        elapsed: error.elapsed(),
        is_unreachable: error.is_unreachable(),
    })
}

impl tg_error {
    /// Adds to the end of its message.
    pub(crate) fn add(&mut self, more: &str) {
        self.message = c_string(&(self.message.to_string_lossy().into_owned() + more));
    }
}

impl From<tidegate::Error> for Box<tg_error> {
    fn from(error: tidegate::Error) -> Self {
        of(&error)
    }
}

impl From<std::io::Error> for Box<tg_error> {
    /// The library's own error, which its `AsyncRead` and `AsyncWrite` wrap.
    fn from(error: std::io::Error) -> Self {
        match error.downcast::<tidegate::Error>() {
            Ok(error) => error.into(),
            Err(error) => failure(TG_KIND_SOURCE, "", &error.to_string()),
        }
    }
}

fn number(kind: ErrorKind) -> i32 {
    match kind {
        ErrorKind::NotFound => TG_KIND_NOT_FOUND,
        ErrorKind::NoBucket => TG_KIND_NO_BUCKET,
        ErrorKind::AlreadyExists => TG_KIND_ALREADY_EXISTS,
        ErrorKind::NotEmpty => TG_KIND_NOT_EMPTY,
        ErrorKind::Replaced => TG_KIND_REPLACED,
        ErrorKind::PermissionDenied => TG_KIND_PERMISSION_DENIED,
        ErrorKind::Credentials => TG_KIND_CREDENTIALS,
        ErrorKind::ClockSkew => TG_KIND_CLOCK_SKEW,
        ErrorKind::InvalidInput => TG_KIND_INVALID_INPUT,
        ErrorKind::TooLarge => TG_KIND_TOO_LARGE,
        ErrorKind::Source => TG_KIND_SOURCE,
        ErrorKind::Throttled => TG_KIND_THROTTLED,
        ErrorKind::Timeout => TG_KIND_TIMEOUT,
        ErrorKind::Unavailable => TG_KIND_UNAVAILABLE,
        ErrorKind::NotAStore => TG_KIND_NOT_A_STORE,
        ErrorKind::Integrity => TG_KIND_INTEGRITY,
        ErrorKind::Uncertain => TG_KIND_UNCERTAIN,
        ErrorKind::NoSpace => TG_KIND_NO_SPACE,
        ErrorKind::Starved => TG_KIND_STARVED,
        ErrorKind::Idle => TG_KIND_IDLE,
        ErrorKind::SessionLost => TG_KIND_SESSION_LOST,
        ErrorKind::Closed => TG_KIND_CLOSED,
        ErrorKind::Unsupported => TG_KIND_UNSUPPORTED,
        _ => TG_KIND_OTHER,
    }
}

/// A failure on this side of the library; `url` is empty where no object is known.
pub(crate) fn failure(kind: i32, url: &str, message: &str) -> Failure {
    let names = ADDED.iter().find(|(added, _)| *added == kind);
    let kind_name = match (names, kind) {
        (Some((_, name)), _) => (*name).to_owned(),
        (None, TG_KIND_CLOSED) => c_string(ErrorKind::Closed.name()),
        (None, TG_KIND_REPLACED) => c_string(ErrorKind::Replaced.name()),
        (None, TG_KIND_SOURCE) => c_string(ErrorKind::Source.name()),
        (None, TG_KIND_TIMEOUT) => c_string(ErrorKind::Timeout.name()),
        (None, TG_KIND_UNAVAILABLE) => c_string(ErrorKind::Unavailable.name()),
        (None, _) => c_string(ErrorKind::InvalidInput.name()),
    };
    let message = match url {
        "" => message.to_owned(),
        url => format!("{url}: {message}"),
    };
    Box::new(tg_error {
        kind,
        kind_name,
        message: c_string(&message),
        operation: CString::default(),
        url: c_string(url),
        remedy: None,
        attempts: 0,
        elapsed: Duration::ZERO,
        is_unreachable: false,
    })
}

pub(crate) fn invalid(message: &str) -> Failure {
    failure(TG_KIND_INVALID_INPUT, "", message)
}

/// The failure that a panic becomes; `url` is empty where no object is known.
pub(crate) fn panicked(url: &str, panic: &(dyn Any + Send)) -> Failure {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no message");
    failure(TG_KIND_PANIC, url, &format!("the library panicked: {text}"))
}

/// Which kind of failure it is: one of TG_KIND_...; 0 for NULL, which is success.
#[unsafe(no_mangle)]
pub extern "C" fn tg_error_kind(error: Option<&tg_error>) -> i32 {
    error.map_or(0, |error| error.kind)
}

/// The kind as a word, such as `not_found`; NULL for NULL. Like every string of an error, it lives as long as the error.
#[unsafe(no_mangle)]
pub extern "C" fn tg_error_kind_name(error: Option<&tg_error>) -> *const c_char {
    error.map_or(ptr::null(), |error| error.kind_name.as_ptr())
}

/// One sentence for people: the object, what failed, why, and what to do.
#[unsafe(no_mangle)]
pub extern "C" fn tg_error_message(error: Option<&tg_error>) -> *const c_char {
    error.map_or(ptr::null(), |error| error.message.as_ptr())
}

/// The operation that failed, such as `put`; empty where no operation of a store had begun.
#[unsafe(no_mangle)]
pub extern "C" fn tg_error_operation(error: Option<&tg_error>) -> *const c_char {
    error.map_or(ptr::null(), |error| error.operation.as_ptr())
}

/// The URL of the object or bucket that the error is about; empty if no object or bucket is known.
#[unsafe(no_mangle)]
pub extern "C" fn tg_error_url(error: Option<&tg_error>) -> *const c_char {
    error.map_or(ptr::null(), |error| error.url.as_ptr())
}

/// What to do; NULL if there is no advice.
#[unsafe(no_mangle)]
pub extern "C" fn tg_error_remedy(error: Option<&tg_error>) -> *const c_char {
    error.and_then(|error| error.remedy.as_ref()).map_or(ptr::null(), |remedy| remedy.as_ptr())
}

/// How many requests were made; 0 if there was none.
#[unsafe(no_mangle)]
pub extern "C" fn tg_error_attempts(error: Option<&tg_error>) -> u32 {
    error.map_or(0, |error| error.attempts)
}

/// Milliseconds from the first attempt to giving up.
#[unsafe(no_mangle)]
pub extern "C" fn tg_error_elapsed_ms(error: Option<&tg_error>) -> u64 {
    error.map_or(0, |error| u64::try_from(error.elapsed.as_millis()).unwrap_or(u64::MAX))
}

/// Whether the store could not be reached at all.
#[unsafe(no_mangle)]
pub extern "C" fn tg_error_is_unreachable(error: Option<&tg_error>) -> bool {
    error.is_some_and(|error| error.is_unreachable)
}

/// Frees an error.
#[unsafe(no_mangle)]
pub extern "C" fn tg_error_free(error: Option<Box<tg_error>>) {
    drop(error);
}
