//! The Java virtual machine: the few of its functions that this library calls.

use std::ffi::{CStr, c_void};
use std::io;
use std::ptr;
use std::sync::OnceLock;

use jni_sys::{
    JNI_ERR, JNI_OK, JNI_VERSION_1_8, JNIEnv, JNINativeInterface__1_1, JNINativeInterface__1_2,
    JNINativeInterface__1_4, JavaVM, JavaVMAttachArgs, jbyteArray, jclass, jint, jmethodID, jobject, jvalue,
};
use rustix::process::{Pid, getpid};

use crate::error::Failure;

/// The JVM that loaded this library, with what is called of the class `Native`.
struct Jvm {
    vm: *mut JavaVM,
    native: jclass,
    complete: jmethodID,
    raise: jmethodID,
    process: Pid,
}

// SAFETY: the JVM lets every thread use its own address, global references and identifiers of methods.
unsafe impl Send for Jvm {}
// SAFETY: as for `Send`; nothing changes them.
unsafe impl Sync for Jvm {}

static JVM: OnceLock<Jvm> = OnceLock::new();

/// Remembers the JVM, the class and its methods. Threads of an engine could not find the class: it may belong to a class
/// loader that they do not ask.
///
/// # Safety
/// Only the JVM calls this, with its own address, on an attached thread.
#[unsafe(no_mangle)]
pub unsafe extern "system" fn JNI_OnLoad(vm: *mut JavaVM, _reserved: *mut c_void) -> jint {
    // SAFETY: `vm` is the JVM's, which the JVM promises.
    let Some(env) = (unsafe { attached(vm) }) else { return JNI_ERR };
    let Some(jvm) = env.find(vm) else {
        // The exception that a failed search leaves is thrown by the load.
        return JNI_ERR;
    };
    // The JVM loads a library once.
    let _ = JVM.set(jvm);
    JNI_VERSION_1_8
}

/// The environment of this thread, if the JVM knows the thread.
///
/// # Safety
/// `vm` is the address of a JVM.
unsafe fn attached(vm: *mut JavaVM) -> Option<Env> {
    let mut env = ptr::null_mut();
    // SAFETY: `vm` is a JVM's address, of a version that has this function; `env` is room for an address.
    let found = unsafe { ((**vm).v1_2.GetEnv)(vm, &raw mut env, JNI_VERSION_1_8) };
    (found == JNI_OK).then_some(Env(env.cast()))
}

/// Whether this process is the one that loaded the library.
pub(crate) fn is_of_process() -> bool {
    JVM.get().is_some_and(|jvm| jvm.process == getpid())
}

/// The process that loaded the library.
pub(crate) fn process() -> i32 {
    JVM.get().map_or(0, |jvm| jvm.process.as_raw_pid())
}

/// Makes this thread known to the JVM. As a daemon: a program ends without waiting for it.
fn attach(jvm: &Jvm) {
    let mut name = *b"tidegate\0";
    let mut arguments =
        JavaVMAttachArgs { version: JNI_VERSION_1_8, name: name.as_mut_ptr().cast(), group: ptr::null_mut() };
    let mut env = ptr::null_mut();
    // SAFETY: the address is the JVM's; the arguments and the name live during the call. A thread that is attached
    // already stays as it is. If the JVM refuses, because it is ending, `on_this_thread` finds no environment.
    unsafe {
        ((**jvm.vm).v1_4.AttachCurrentThreadAsDaemon)(jvm.vm, &raw mut env, (&raw mut arguments).cast());
    }
}

/// Has the JVM forget this thread of an engine, before it ends. Does nothing for one that the JVM never knew.
pub(crate) fn detach() {
    let Some(jvm) = JVM.get() else { return };
    // SAFETY: the address is the JVM's, and no Java code is on this thread's stack: it is one of an engine.
    unsafe { ((**jvm.vm).v1_1.DetachCurrentThread)(jvm.vm) };
}

/// Carries out `work` with the environment of this thread. Does nothing if the JVM does not know the thread, and can't
/// learn of it because the JVM is ending.
pub(crate) fn on_this_thread<T>(work: impl FnOnce(&Env) -> T) -> Option<T> {
    let jvm = JVM.get()?;
    // SAFETY: the address is that of the JVM that loaded this library.
    let env = unsafe { attached(jvm.vm) };
    let env = env.or_else(|| {
        attach(jvm);
        // SAFETY: as before.
        unsafe { attached(jvm.vm) }
    });
    Some(work(&env?))
}

/// The JVM's environment of one thread, which stays on that thread.
pub(crate) struct Env(*mut JNIEnv);

impl Env {
    /// # Safety
    /// `env` is what the JVM passed to the native method that is running on this thread.
    pub(crate) unsafe fn of_call(env: *mut JNIEnv) -> Self {
        Self(env)
    }

    fn v1_1(&self) -> &JNINativeInterface__1_1 {
        // SAFETY: the environment is the JVM's (`of_call`, `attached`), and its table of functions is never changed.
        unsafe { &(**self.0).v1_1 }
    }

    fn v1_2(&self) -> &JNINativeInterface__1_2 {
        // SAFETY: as in `v1_1`; every JVM that runs class files of Java 17 has these functions.
        unsafe { &(**self.0).v1_2 }
    }

    fn v1_4(&self) -> &JNINativeInterface__1_4 {
        // SAFETY: as in `v1_2`.
        unsafe { &(**self.0).v1_4 }
    }

    fn find(&self, vm: *mut JavaVM) -> Option<Jvm> {
        let table = self.v1_1();
        let method = |class: jclass, name: &CStr, signature: &CStr| {
            // SAFETY: `class` is a live reference, and NULs end both texts.
            let method =
                unsafe { (table.GetStaticMethodID)(self.0, class, name.as_ptr(), signature.as_ptr()) };
            (!method.is_null()).then_some(method)
        };
        // SAFETY: a NUL ends the name. The JVM looks for the class as the class that loads this library would.
        let found = unsafe { (table.FindClass)(self.0, c"io/tidegate/Native".as_ptr()) };
        if found.is_null() {
            return None;
        }
        // SAFETY: `found` is a live reference. The new one is kept for good.
        let native = unsafe { (table.NewGlobalRef)(self.0, found) };
        if native.is_null() {
            return None;
        }
        let complete = method(native, c"complete", c"(JZJ[B)V")?;
        let raise = method(native, c"raise", c"([B)V")?;
        Some(Jvm { vm, native, complete, raise, process: getpid() })
    }

    /// Throws the exception that `failure` becomes. The native method must return at once.
    pub(crate) fn raise(&self, failure: &Failure) {
        let Some(jvm) = JVM.get() else { return };
        let payload = self.new_bytes(&failure.encoded());
        if payload.is_null() {
            // The JVM has thrown an OutOfMemoryError, which is the exception then.
            return;
        }
        // SAFETY: the method is one of the class, and takes a byte array. It throws, and the exception stays pending.
        unsafe {
            (self.v1_1().CallStaticVoidMethodA)(
                self.0,
                jvm.native,
                jvm.raise,
                [jvalue { l: payload }].as_ptr(),
            )
        }
    }

    /// Tells Java how the call of this token has ended. With a full heap it tells that, so that nobody waits for ever.
    pub(crate) fn complete(&self, token: i64, is_success: bool, value: i64, payload: Option<&[u8]>) {
        let array = payload.map_or(ptr::null_mut(), |payload| self.new_bytes(payload));
        let has_room = payload.is_none() || !array.is_null();
        let is_told = has_room && self.try_complete(token, is_success, value, array);
        self.clear();
        if !is_told {
            // A failure without a description, which needs the least memory.
            self.try_complete(token, false, 0, ptr::null_mut());
            self.clear();
        }
        if !array.is_null() {
            // SAFETY: a local reference of this thread, used for the last time. Threads of an engine return to no Java
            // code that would free it.
            unsafe { (self.v1_1().DeleteLocalRef)(self.0, array) }
        }
    }

    /// Calls `Native.complete`; false, with a pending exception, if that has thrown.
    fn try_complete(&self, token: i64, is_success: bool, value: i64, payload: jbyteArray) -> bool {
        let Some(jvm) = JVM.get() else { return true };
        let arguments =
            [jvalue { j: token }, jvalue { z: is_success }, jvalue { j: value }, jvalue { l: payload }];
        // SAFETY: the method is one of the class, and takes these four; no exception is pending.
        unsafe {
            (self.v1_1().CallStaticVoidMethodA)(self.0, jvm.native, jvm.complete, arguments.as_ptr());
            !(self.v1_2().ExceptionCheck)(self.0)
        }
    }

    /// Prints an exception that is pending, and ends it: nobody on this thread could catch it.
    fn clear(&self) {
        // SAFETY: both may be called with and without a pending exception.
        unsafe {
            if !(self.v1_2().ExceptionCheck)(self.0) {
                return;
            }
            (self.v1_1().ExceptionDescribe)(self.0);
            (self.v1_1().ExceptionClear)(self.0);
        }
    }

    /// A new array with these bytes; null, with a pending exception, if the heap is full.
    pub(crate) fn new_bytes(&self, bytes: &[u8]) -> jbyteArray {
        let Ok(length) = jint::try_from(bytes.len()) else { return ptr::null_mut() };
        // SAFETY: the length is not negative; the region is all of the new array.
        unsafe {
            let array = (self.v1_1().NewByteArray)(self.0, length);
            if !array.is_null() {
                (self.v1_1().SetByteArrayRegion)(self.0, array, 0, length, bytes.as_ptr().cast());
            }
            array
        }
    }

    /// A copy of an array's bytes; `None` for null.
    ///
    /// # Safety
    /// `array` is null, or a live reference to a byte array.
    pub(crate) unsafe fn bytes(&self, array: jbyteArray) -> Option<Vec<u8>> {
        if array.is_null() {
            return None;
        }
        // SAFETY: the caller promises a byte array; the region is all of it, and `bytes` has room for it.
        unsafe {
            let length = (self.v1_1().GetArrayLength)(self.0, array);
            let mut bytes = vec![0; usize::try_from(length).unwrap_or(0)];
            (self.v1_1().GetByteArrayRegion)(self.0, array, 0, length, bytes.as_mut_ptr().cast());
            Some(bytes)
        }
    }

    /// # Safety
    /// `array` is a live reference to an array.
    pub(crate) unsafe fn length(&self, array: jobject) -> usize {
        // SAFETY: the caller promises an array.
        usize::try_from(unsafe { (self.v1_1().GetArrayLength)(self.0, array) }).unwrap_or(0)
    }

    /// Copies bytes out of an array.
    ///
    /// # Safety
    /// `array` is a live reference to a byte array, which has so many bytes from `start` on.
    pub(crate) unsafe fn copy_out(&self, array: jbyteArray, start: usize, to: &mut [u8]) {
        // SAFETY: the caller promises that the region lies in the array, whose length is a `jint`.
        unsafe {
            (self.v1_1().GetByteArrayRegion)(
                self.0,
                array,
                start as jint,
                to.len() as jint,
                to.as_mut_ptr().cast(),
            )
        }
    }

    /// Copies bytes into an array.
    ///
    /// # Safety
    /// As for [`copy_out`](Self::copy_out).
    pub(crate) unsafe fn copy_in(&self, array: jbyteArray, start: usize, from: &[u8]) {
        // SAFETY: as in `copy_out`.
        unsafe {
            (self.v1_1().SetByteArrayRegion)(
                self.0,
                array,
                start as jint,
                from.len() as jint,
                from.as_ptr().cast(),
            )
        }
    }

    /// Where the memory of a direct buffer begins, and how many bytes it has.
    ///
    /// # Safety
    /// `buffer` is a live reference to a `ByteBuffer`.
    pub(crate) unsafe fn memory(&self, buffer: jobject) -> Option<(*mut u8, usize)> {
        // SAFETY: the caller promises a buffer. The JVM answers null and -1 for one that is not direct.
        let (start, length) = unsafe {
            (
                (self.v1_4().GetDirectBufferAddress)(self.0, buffer),
                (self.v1_4().GetDirectBufferCapacity)(self.0, buffer),
            )
        };
        let length = usize::try_from(length).ok()?;
        (!start.is_null()).then_some((start.cast(), length))
    }

    /// Calls `each` with every item of an array of objects, until one fails.
    ///
    /// # Safety
    /// `array` is a live reference to an array of objects.
    pub(crate) unsafe fn each<E>(
        &self,
        array: jobject,
        mut each: impl FnMut(usize, jobject) -> Result<(), E>,
    ) -> Result<(), E> {
        // SAFETY: the caller promises an array of objects.
        for index in 0..unsafe { self.length(array) } {
            // SAFETY: the index lies in the array. The local reference is used for the last time where it is deleted.
            unsafe {
                let item = (self.v1_1().GetObjectArrayElement)(self.0, array, index as jint);
                let result = each(index, item);
                (self.v1_1().DeleteLocalRef)(self.0, item);
                result?;
            }
        }
        Ok(())
    }

    /// A copy of an array of numbers.
    ///
    /// # Safety
    /// `array` is a live reference to an array of `long`.
    pub(crate) unsafe fn numbers(&self, array: jobject) -> Vec<i64> {
        // SAFETY: the caller promises such an array; the region is all of it, and `numbers` has room for it.
        unsafe {
            let mut numbers = vec![0; self.length(array)];
            let length = numbers.len() as jint;
            (self.v1_1().GetLongArrayRegion)(self.0, array, 0, length, numbers.as_mut_ptr());
            numbers
        }
    }

    /// A reference that lasts until it is dropped.
    ///
    /// # Safety
    /// `object` is a live reference.
    pub(crate) unsafe fn keep(&self, object: jobject) -> io::Result<Kept> {
        // SAFETY: the caller promises a live reference.
        let kept = unsafe { (self.v1_1().NewGlobalRef)(self.0, object) };
        if kept.is_null() {
            // An exception may be pending, and must not meet the one that this becomes.
            self.clear();
            return Err(io::ErrorKind::OutOfMemory.into());
        }
        Ok(Kept(kept))
    }
}

/// A reference to a Java object, which keeps the object alive. Any thread may use it.
pub(crate) struct Kept(jobject);

// SAFETY: the JVM lets every thread use and delete a global reference.
unsafe impl Send for Kept {}
// SAFETY: as for `Send`.
unsafe impl Sync for Kept {}

impl Kept {
    pub(crate) fn object(&self) -> jobject {
        self.0
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        // SAFETY: the reference is this one's own, and is used for the last time.
        on_this_thread(|env| unsafe { (env.v1_1().DeleteGlobalRef)(env.0, self.0) });
    }
}
