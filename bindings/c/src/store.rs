//! Stores, and what is done with whole objects.

use std::collections::HashMap;
use std::ffi::{c_char, c_void};
use std::mem::MaybeUninit;
use std::ptr::NonNull;
use std::sync::Arc;

use bytes::Bytes;
use tidegate::Object;
use tidegate::Store;
use tokio_util::sync::CancellationToken;

use crate::border::{call, free, handle, needed};
use crate::engine::{Shared, tg_engine};
use crate::error::{Outcome, of, tg_error};
use crate::memory::Slot;
use crate::object::tg_object;
use crate::operation::{Done, Operation, tg_done, tg_op};
use crate::options::{given, tg_options};
use crate::process::OfProcess;
use crate::text::{bytes, items, string, tg_str};

/// A store: a bucket or a directory, or what is below a prefix of it. Any thread may use it.
#[derive(Debug)]
pub struct tg_store {
    pub(crate) shared: Shared,
    store: OfProcess<Store>,
}

impl tg_store {
    /// # Errors
    /// `TG_KIND_FORKED` in a forked child.
    pub(crate) fn get(&self) -> Outcome<&Store> {
        self.store.get()
    }

    /// The URL of an object, or of the store where `key` is empty.
    ///
    /// # Errors
    /// `TG_KIND_FORKED` in a forked child.
    pub(crate) fn url(&self, key: &str) -> Outcome<Arc<str>> {
        let location = self.get()?.location();
        Ok(if key.is_empty() { location.into() } else { format!("{location}/{key}").into() })
    }

    /// A call about the object or the store of this URL. Only a `tg_op` cancels it.
    pub(crate) fn operation<T: Send + 'static>(
        &self,
        url: Arc<str>,
        work: impl Future<Output = Outcome<T>> + Send + 'static,
    ) -> Operation<T> {
        Operation::new(&self.shared, CancellationToken::new(), work).about(url)
    }
}

/// Opens a store: `s3://bucket/prefix`, `gs://bucket/prefix`, `az://container/prefix`, a directory as a path or
/// `file:///path`, or `memory://name`. Sends nothing to the store. The options are those of the scheme, such as
/// `endpoint_url` and `region`. Blocks, but not for long: a thread of an engine may not call it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tg_store_open(
    engine: Option<&tg_engine>,
    url: *const c_char,
    options: Option<&tg_options>,
    store: Option<&mut MaybeUninit<*mut tg_store>>,
) -> Option<Box<tg_error>> {
    call(|| {
        let (shared, out) = (&needed(engine, "engine")?.shared, needed(store, "store")?);
        // SAFETY: the header demands a string that a NUL ends.
        let url = unsafe { string(url, "url") }?;
        let open = given(options).open(&shared.get()?.tide, &url)?;
        let store =
            Operation::new(shared, CancellationToken::new(), async move { Ok(open.await?) }).wait()?;
        out.write(handle(tg_store { shared: shared.clone(), store: OfProcess::new(store) }));
        Ok(())
    })
}

/// Frees a store. Its readers and writers go on.
#[unsafe(no_mangle)]
pub extern "C" fn tg_store_free(store: Option<Box<tg_store>>) {
    free(|| drop(store));
}

/// # Safety
/// As the header demands of `tg_put`.
unsafe fn put(
    store: Option<&tg_store>,
    key: tg_str,
    data: *const c_void,
    length: usize,
    options: Option<&tg_options>,
) -> Outcome<Operation<Object>> {
    let store = needed(store, "store")?;
    // SAFETY: the header demands that the memory of the key and of the bytes is readable during the call.
    let (key, bytes) = unsafe { (key.read()?, Bytes::copy_from_slice(bytes(data, length)?)) };
    let put = given(options).write(store.get()?.put(&*key, bytes))?;
    Ok(store.operation(store.url(&key)?, async move { Ok(put.await?) }))
}

/// Writes a whole object in one call. The bytes are copied, and the copy lies beside the memory budget until the call has
/// ended: a writer takes large objects. When this returns NULL, the object is visible; otherwise it is not, unless the kind
/// is TG_KIND_UNCERTAIN, or is TG_KIND_CANCELLED or TG_KIND_PANIC and the store was publishing it at that moment: look with
/// tg_head. `object` may be NULL. Blocks.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tg_put(
    store: Option<&tg_store>,
    key: tg_str,
    data: *const c_void,
    length: usize,
    options: Option<&tg_options>,
    object: Option<&mut MaybeUninit<*mut tg_object>>,
) -> Option<Box<tg_error>> {
    call(|| {
        // SAFETY: as the header demands.
        give(unsafe { put(store, key, data, length, options) }?.wait()?, object)
    })
}

/// The asynchronous form of tg_put. The key and the bytes are copied before it returns; `object` must stay writable until
/// `done` has run. Where any asynchronous form returns an error, nothing was begun and `done` does not run.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tg_put_async(
    store: *const tg_store,
    key: tg_str,
    data: *const c_void,
    length: usize,
    options: Option<&tg_options>,
    object: *mut *mut tg_object,
    done: tg_done,
    user: *mut c_void,
    op: *mut *mut tg_op,
) -> Option<Box<tg_error>> {
    call(|| {
        // SAFETY: as the header demands.
        let (put, deliver, op) =
            unsafe { (put(store.as_ref(), key, data, length, options)?, later(object), Slot::new(op)) };
        put.start(deliver, Done::new(done, user)?, op)
    })
}

/// # Safety
/// As the header demands of `tg_head`.
unsafe fn head(store: Option<&tg_store>, key: tg_str) -> Outcome<Operation<Object>> {
    let store = needed(store, "store")?;
    // SAFETY: the header demands that the memory of the key is readable during the call.
    let (key, opened) = (unsafe { key.read() }?, store.get()?.clone());
    Ok(store.operation(store.url(&key)?, async move { Ok(opened.head(&key).await?) }))
}

/// Describes an object. Blocks.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tg_head(
    store: Option<&tg_store>,
    key: tg_str,
    object: Option<&mut MaybeUninit<*mut tg_object>>,
) -> Option<Box<tg_error>> {
    call(|| {
        let object = needed(object, "object")?;
        // SAFETY: as the header demands.
        give(unsafe { head(store, key) }?.wait()?, Some(object))
    })
}

/// The asynchronous form of tg_head. `object` must stay writable until `done` has run.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tg_head_async(
    store: *const tg_store,
    key: tg_str,
    object: *mut *mut tg_object,
    done: tg_done,
    user: *mut c_void,
    op: *mut *mut tg_op,
) -> Option<Box<tg_error>> {
    call(|| {
        needed(NonNull::new(object), "object")?;
        // SAFETY: as the header demands.
        let (head, deliver, op) = unsafe { (head(store.as_ref(), key)?, later(object), Slot::new(op)) };
        head.start(deliver, Done::new(done, user)?, op)
    })
}

/// Removes an object. Succeeds if there is no object of this key. Blocks.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tg_delete(store: Option<&tg_store>, key: tg_str) -> Option<Box<tg_error>> {
    call(|| {
        let store = needed(store, "store")?;
        // SAFETY: the header demands that the memory of the key is readable during the call.
        let (key, opened) = (unsafe { key.read() }?, store.get()?.clone());
        store.operation(store.url(&key)?, async move { Ok(opened.delete(&key).await?) }).wait()
    })
}

/// Removes many objects, in as few requests as the store has. Returns an error if a key was not removed. `each` may be
/// NULL, or has `count` places, which the caller sets to NULL before: the place of each key that was not removed gets an
/// error, which the caller owns. Blocks.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tg_delete_many(
    store: Option<&tg_store>,
    keys: *const tg_str,
    count: usize,
    each: *mut *mut tg_error,
) -> Option<Box<tg_error>> {
    call(|| {
        let store = needed(store, "store")?;
        // SAFETY: the header demands `count` keys, whose memory is readable during the call.
        let keys: Vec<String> =
            unsafe { items(keys, count)?.iter().map(|key| key.read()).collect::<Outcome<_>>()? };
        let removals = store.get()?.delete_many(keys.clone());
        let report = store.operation(store.url("")?, async move { Ok(removals.await) }).wait()?;
        if !each.is_null() {
            let failed = report.failed.iter().filter_map(|(key, error)| Some((key.as_deref()?, error)));
            let failed: HashMap<&str, &tidegate::Error> = failed.collect();
            let errors = keys.iter().map(|key| failed.get(key.as_str()));
            for (index, error) in errors.enumerate().filter_map(|(index, error)| Some((index, error?))) {
                // SAFETY: `each` is not null, and has `count` writable places, which the header demands.
                unsafe { each.add(index).write(Box::into_raw(of(error))) };
            }
        }
        report.into_result()?;
        Ok(())
    })
}

/// Has the store copy an object; both stores must be reached by the same endpoint and account. `object` may be NULL.
/// Blocks.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tg_copy(
    from: Option<&tg_store>,
    key: tg_str,
    to: Option<&tg_store>,
    to_key: tg_str,
    options: Option<&tg_options>,
    object: Option<&mut MaybeUninit<*mut tg_object>>,
) -> Option<Box<tg_error>> {
    call(|| {
        let (from, to) = (needed(from, "from")?, needed(to, "to")?);
        // SAFETY: the header demands that the memory of the keys is readable during the call.
        let (key, to_key) = unsafe { (key.read()?, to_key.read()?) };
        let copy = given(options).copy(from.get()?.copy(&*key, to.get()?, to_key))?;
        give(from.operation(from.url(&key)?, async move { Ok(copy.await?) }).wait()?, object)
    })
}

/// Gives an object another key. Of the options it has `create_only`. Blocks.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tg_rename(
    store: Option<&tg_store>,
    from: tg_str,
    to: tg_str,
    options: Option<&tg_options>,
) -> Option<Box<tg_error>> {
    call(|| {
        let store = needed(store, "store")?;
        // SAFETY: the header demands that the memory of the keys is readable during the call.
        let (from, to) = unsafe { (from.read()?, to.read()?) };
        let rename = given(options).rename(store.get()?.rename(&*from, to))?;
        store.operation(store.url(&from)?, async move { Ok(rename.await.map(drop)?) }).wait()
    })
}

/// Hands out an object, where the caller wants it.
pub(crate) fn give(object: Object, out: Option<&mut MaybeUninit<*mut tg_object>>) -> Outcome {
    if let Some(out) = out {
        out.write(handle(object.into()));
    }
    Ok(())
}

/// The same for an asynchronous call.
///
/// # Safety
/// As for [`Slot::new`].
pub(crate) unsafe fn later(out: *mut *mut tg_object) -> impl FnOnce(Object) + Send + 'static {
    // SAFETY: the caller promises it.
    let slot = unsafe { Slot::new(out) };
    move |object: Object| {
        if let Some(slot) = slot {
            slot.write(handle(object.into()));
        }
    }
}
