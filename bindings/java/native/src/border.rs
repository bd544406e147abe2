//! The border to Java: failures become exceptions, and panics too.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;

use jni_sys::{JNIEnv, jbyteArray};
use tidegate::options::Options;

use crate::error::{Failure, Outcome};
use crate::jvm::{self, Env};
use crate::object;
use crate::wire::Decoder;

/// Carries out a native method. On a failure an exception is pending, and the result is one that Java never sees.
///
/// # Safety
/// `env` is what the JVM passed to this native method.
pub(crate) unsafe fn call<T: Default>(env: *mut JNIEnv, work: impl FnOnce(&Env) -> Outcome<T>) -> T {
    // SAFETY: the caller promises it.
    let env = unsafe { Env::of_call(env) };
    outcome(&env, work).unwrap_or_else(|failure| {
        env.raise(&failure);
        T::default()
    })
}

/// An array that a native method gives to Java; null where an exception is pending.
#[repr(transparent)]
pub(crate) struct Array(jbyteArray);

impl Array {
    pub(crate) fn new(env: &Env, bytes: &[u8]) -> Self {
        Self(env.new_bytes(bytes))
    }
}

impl Default for Array {
    fn default() -> Self {
        Self(ptr::null_mut())
    }
}

/// What a native method comes to, if this is the process of its JVM. A panic is a failure: values that it leaves
/// half-changed are not used again, because a writer and a reader fail for good, and calls do not change the others.
pub(crate) fn outcome<T>(env: &Env, work: impl FnOnce(&Env) -> Outcome<T>) -> Outcome<T> {
    let carried_out = catch_unwind(AssertUnwindSafe(|| {
        if !jvm::is_of_process() {
            return Err(Failure::forked());
        }
        #[cfg(feature = "for_tests")]
        crate::tests_only::panic_at(crate::tests_only::Place::Call);
        work(env)
    }));
    carried_out.unwrap_or_else(|panic| Err(Failure::panicked(&*panic)))
}

/// The text that a caller passes, in UTF-8.
///
/// # Safety
/// `array` is null, or a live reference to a byte array.
pub(crate) unsafe fn text(env: &Env, array: jbyteArray) -> Outcome<String> {
    // SAFETY: the caller promises it.
    let bytes = unsafe { env.bytes(array) }.ok_or_else(|| Failure::invalid("a text is null"))?;
    String::from_utf8(bytes).map_err(|_| Failure::invalid("a text is not UTF-8"))
}

/// The texts that a caller passes.
///
/// # Safety
/// As for [`text`].
pub(crate) unsafe fn texts(env: &Env, array: jbyteArray) -> Outcome<Vec<String>> {
    // SAFETY: the caller promises it.
    let bytes = unsafe { env.bytes(array) }.unwrap_or_default();
    let (mut texts, mut from) = (Vec::new(), Decoder(&bytes));
    while from.has_more() {
        texts.push(from.text()?);
    }
    Ok(texts)
}

/// The options that a caller passes: names, each with a text or an object.
///
/// # Safety
/// As for [`text`].
pub(crate) unsafe fn options(env: &Env, array: jbyteArray) -> Outcome<Options> {
    // SAFETY: the caller promises it.
    let bytes = unsafe { env.bytes(array) }.unwrap_or_default();
    let (mut options, mut from) = (Options::default(), Decoder(&bytes));
    while from.has_more() {
        let name = from.text()?;
        match from.optional()? {
            Some(value) => options.set(&name, value)?,
            None => options.set_object(&name, object::decoded(&mut from)?)?,
        }
    }
    Ok(options)
}
