//! Stores, and what is done with whole objects.

use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use jni_sys::{JNIEnv, jbyteArray, jclass, jint, jobject};
use tidegate::{Object, Store};
use tokio_util::sync::CancellationToken;

use crate::border;
use crate::buffer::Buffer;
use crate::call::{Reply, start};
use crate::engine::Shared;
use crate::error::{Failure, Outcome};
use crate::handle::Handle;
use crate::object::{encode, encoded};
use crate::wire;

pub(crate) struct OpenStore {
    pub(crate) shared: Shared,
    pub(crate) store: Store,
}

impl OpenStore {
    /// A call of this store, which only an interrupt cancels.
    pub(crate) fn start(&self, token: i64, work: impl Future<Output = Outcome<Reply>> + Send + 'static) {
        start(&self.shared, token, &CancellationToken::new(), work);
    }
}

/// Has a store carry out `work`, which is given a text of the caller's.
///
/// # Safety
/// `env` is what the JVM passed to this native method, `store` is a handle whose Java object is reachable, and `text` is
/// null or a live reference to a byte array.
pub(crate) unsafe fn about<F>(
    env: *mut JNIEnv,
    store: i64,
    token: i64,
    text: jbyteArray,
    work: impl FnOnce(Store, String) -> F,
) where
    F: Future<Output = Outcome<Reply>> + Send + 'static,
{
    // SAFETY: the caller promises it.
    unsafe {
        border::call(env, |env| {
            let store = Handle::store(store)?;
            store.start(token, work(store.store.clone(), border::text(env, text)?));
            Ok(())
        })
    }
}

/// The end of a call that gives nothing.
pub(crate) fn ended(result: tidegate::Result<()>) -> Outcome<Reply> {
    Ok(result.map(|()| Reply::default())?)
}

pub(crate) fn described(object: &Object) -> Reply {
    Reply::bytes(encoded(object))
}

/// `Native.openStore`: gives a handle.
#[unsafe(no_mangle)]
pub unsafe extern "system" fn Java_io_tidegate_Native_openStore(
    env: *mut JNIEnv,
    _: jclass,
    engine: i64,
    token: i64,
    url: jbyteArray,
    options: jbyteArray,
) {
    // SAFETY: the JVM calls this, with references to byte arrays, and a handle whose Java object is reachable. So it is
    // with all functions below.
    unsafe {
        border::call(env, |env| {
            let shared = Handle::engine(engine)?;
            let (url, options) = (border::text(env, url)?, border::options(env, options)?);
            let (open, of) = (options.open(&shared.tide, &url)?, shared.clone());
            start(shared, token, &CancellationToken::new(), async move {
                let store = open.await?;
                Ok(Reply::number(Handle::Store(OpenStore { shared: of, store }).into_java()))
            });
            Ok(())
        })
    }
}

/// `Native.within`: gives a handle of the part of the store below a prefix.
#[unsafe(no_mangle)]
pub unsafe extern "system" fn Java_io_tidegate_Native_within(
    env: *mut JNIEnv,
    _: jclass,
    store: i64,
    prefix: jbyteArray,
) -> i64 {
    // SAFETY: as above.
    unsafe {
        border::call(env, |env| {
            let of = Handle::store(store)?;
            let store = of.store.within(&border::text(env, prefix)?);
            Ok(Handle::Store(OpenStore { shared: of.shared.clone(), store }).into_java())
        })
    }
}

/// `Native.location`: the URL of the store.
#[unsafe(no_mangle)]
pub unsafe extern "system" fn Java_io_tidegate_Native_location(
    env: *mut JNIEnv,
    _: jclass,
    store: i64,
    token: i64,
) {
    // SAFETY: as above.
    unsafe {
        border::call(env, |_| {
            let store = Handle::store(store)?;
            let location = store.store.location();
            store.start(token, async move { Ok(Reply::bytes(location)) });
            Ok(())
        })
    }
}

/// `Native.put`: gives the object.
#[unsafe(no_mangle)]
pub unsafe extern "system" fn Java_io_tidegate_Native_put(
    env: *mut JNIEnv,
    _: jclass,
    store: i64,
    token: i64,
    key: jbyteArray,
    array: jbyteArray,
    direct: jobject,
    from: jint,
    length: jint,
    options: jbyteArray,
) {
    // SAFETY: as above; `array` or `direct` is null.
    unsafe {
        border::call(env, |env| {
            let store = Handle::store(store)?;
            let (key, options) = (border::text(env, key)?, border::options(env, options)?);
            let bytes = Bytes::from(Buffer::new(env, array, direct, from, length)?.copied(env));
            let put = options.write(store.store.put(key, bytes))?;
            store.start(token, async move { Ok(described(&put.await?)) });
            Ok(())
        })
    }
}

/// `Native.get`: gives the bytes.
#[unsafe(no_mangle)]
pub unsafe extern "system" fn Java_io_tidegate_Native_get(
    env: *mut JNIEnv,
    _: jclass,
    store: i64,
    token: i64,
    key: jbyteArray,
) {
    // SAFETY: as above.
    unsafe {
        about(env, store, token, key, |store, key| async move { Ok(Reply::bytes(store.get(key).await?)) })
    }
}

/// `Native.stat`: gives the object.
#[unsafe(no_mangle)]
pub unsafe extern "system" fn Java_io_tidegate_Native_stat(
    env: *mut JNIEnv,
    _: jclass,
    store: i64,
    token: i64,
    key: jbyteArray,
) {
    // SAFETY: as above.
    unsafe {
        about(env, store, token, key, |store, key| async move { Ok(described(&store.head(&key).await?)) })
    }
}

/// `Native.find`: describes the object of a key. The reply has no bytes if the key has no object.
#[unsafe(no_mangle)]
pub unsafe extern "system" fn Java_io_tidegate_Native_find(
    env: *mut JNIEnv,
    _: jclass,
    store: i64,
    token: i64,
    key: jbyteArray,
) {
    // SAFETY: as above.
    unsafe {
        about(env, store, token, key, |store, key| async move {
            Ok(store.find(&key).await?.as_ref().map(described).unwrap_or_default())
        })
    }
}

/// `Native.exists`: gives 1 or 0.
#[unsafe(no_mangle)]
pub unsafe extern "system" fn Java_io_tidegate_Native_exists(
    env: *mut JNIEnv,
    _: jclass,
    store: i64,
    token: i64,
    key: jbyteArray,
) {
    // SAFETY: as above.
    unsafe {
        about(env, store, token, key, |store, key| async move {
            Ok(Reply::number(store.exists(&key).await?.into()))
        })
    }
}

/// `Native.delete`.
#[unsafe(no_mangle)]
pub unsafe extern "system" fn Java_io_tidegate_Native_delete(
    env: *mut JNIEnv,
    _: jclass,
    store: i64,
    token: i64,
    key: jbyteArray,
) {
    // SAFETY: as above.
    unsafe { about(env, store, token, key, |store, key| async move { ended(store.delete(&key).await) }) }
}

/// `Native.deleteAll`: gives how many keys have no object any more, and each other key with its failure.
#[unsafe(no_mangle)]
pub unsafe extern "system" fn Java_io_tidegate_Native_deleteAll(
    env: *mut JNIEnv,
    _: jclass,
    store: i64,
    token: i64,
    keys: jbyteArray,
) {
    // SAFETY: as above.
    unsafe {
        border::call(env, |env| {
            let store = Handle::store(store)?;
            let removals = store.store.delete_many(border::texts(env, keys)?);
            store.start(token, async move {
                let report = removals.await;
                let failed = wire::encoded(|to| {
                    for (key, error) in report.failed {
                        to.optional(key.as_deref());
                        Failure::from(error).encode(to);
                    }
                });
                Ok(Reply { value: report.deleted as i64, ..Reply::bytes(failed) })
            });
            Ok(())
        })
    }
}

/// `Native.rename`: gives the object with its new key.
#[unsafe(no_mangle)]
pub unsafe extern "system" fn Java_io_tidegate_Native_rename(
    env: *mut JNIEnv,
    _: jclass,
    store: i64,
    token: i64,
    key: jbyteArray,
    to_key: jbyteArray,
    options: jbyteArray,
) {
    // SAFETY: as above.
    unsafe {
        border::call(env, |env| {
            let store = Handle::store(store)?;
            let (key, to_key) = (border::text(env, key)?, border::text(env, to_key)?);
            let rename = border::options(env, options)?.rename(store.store.rename(key, to_key))?;
            store.start(token, async move { Ok(described(&rename.await?)) });
            Ok(())
        })
    }
}

/// `Native.upload`: gives the object.
#[unsafe(no_mangle)]
pub unsafe extern "system" fn Java_io_tidegate_Native_upload(
    env: *mut JNIEnv,
    _: jclass,
    store: i64,
    token: i64,
    path: jbyteArray,
    key: jbyteArray,
    options: jbyteArray,
) {
    // SAFETY: as above.
    unsafe {
        border::call(env, |env| {
            let store = Handle::store(store)?;
            let (path, key) = (border::text(env, path)?, border::text(env, key)?);
            let upload = border::options(env, options)?.upload(store.store.upload(path, key))?;
            store.start(token, async move { Ok(described(&upload.await?)) });
            Ok(())
        })
    }
}

/// `Native.download`: gives the object, and after it the warnings of the download.
#[unsafe(no_mangle)]
pub unsafe extern "system" fn Java_io_tidegate_Native_download(
    env: *mut JNIEnv,
    _: jclass,
    store: i64,
    token: i64,
    key: jbyteArray,
    path: jbyteArray,
    options: jbyteArray,
) {
    // SAFETY: as above.
    unsafe {
        border::call(env, |env| {
            let store = Handle::store(store)?;
            let (key, path) = (border::text(env, key)?, border::text(env, path)?);
            let warnings = Arc::new(Mutex::new(Vec::new()));
            let warned = warnings.clone();
            let warn = move |warning: &str| {
                warned.lock().unwrap_or_else(PoisonError::into_inner).push(warning.to_owned());
            };
            let download =
                border::options(env, options)?.download(store.store.download(key, path))?.on_warning(warn);
            store.start(token, async move {
                let object = download.await?;
                Ok(Reply::bytes(wire::encoded(|to| {
                    encode(&object, to);
                    for warning in &*warnings.lock().unwrap_or_else(PoisonError::into_inner) {
                        to.text(warning);
                    }
                })))
            });
            Ok(())
        })
    }
}

/// `Native.copy`: gives the new object.
#[unsafe(no_mangle)]
pub unsafe extern "system" fn Java_io_tidegate_Native_copy(
    env: *mut JNIEnv,
    _: jclass,
    store: i64,
    token: i64,
    key: jbyteArray,
    to: i64,
    to_key: jbyteArray,
    options: jbyteArray,
) {
    // SAFETY: as above; `to` too is a handle whose Java object is reachable.
    unsafe {
        border::call(env, |env| {
            let (store, to) = (Handle::store(store)?, Handle::store(to)?);
            let (key, to_key) = (border::text(env, key)?, border::text(env, to_key)?);
            let copy = border::options(env, options)?.copy(store.store.copy(key, &to.store, to_key))?;
            store.start(token, async move { Ok(described(&copy.await?)) });
            Ok(())
        })
    }
}
