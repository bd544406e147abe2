//! Uploads in parts. Java has the id of one, and this side looks it up for each call.

use bytes::Bytes;
use jni_sys::{JNIEnv, jboolean, jbyteArray, jclass, jint, jobject};
use tidegate::upload::PartReceipt;

use crate::border::{self, Array};
use crate::buffer::Buffer;
use crate::call::Reply;
use crate::handle::Handle;
use crate::store::{about, described, ended};
use crate::wire;

/// As `PartReceipt` in Java reads it.
fn receipt(of: &PartReceipt) -> Vec<u8> {
    wire::encoded(|to| {
        to.text(&of.to_json());
        to.count(of.number());
        to.count(of.size());
    })
}

/// As `PartsUpload` in Java reads it.
fn upload(of: &tidegate::upload::PartsUpload) -> Reply {
    Reply::bytes(wire::encoded(|to| {
        to.text(&of.id());
        to.text(&of.key());
    }))
}

/// `Native.takesPartsInAnyOrder`.
#[unsafe(no_mangle)]
pub unsafe extern "system" fn Java_io_tidegate_Native_takesPartsInAnyOrder(
    env: *mut JNIEnv,
    _: jclass,
    store: i64,
) -> jboolean {
    // SAFETY: the JVM calls this, with a handle whose Java object is reachable. So it is with all functions below, and
    // their references are those of byte arrays.
    unsafe { border::call(env, |_| Ok(Handle::store(store)?.store.takes_parts_in_any_order())) }
}

/// `Native.openPartsUpload`: gives the id, and the key.
#[unsafe(no_mangle)]
pub unsafe extern "system" fn Java_io_tidegate_Native_openPartsUpload(
    env: *mut JNIEnv,
    _: jclass,
    store: i64,
    token: i64,
    key: jbyteArray,
    options: jbyteArray,
) {
    // SAFETY: as above.
    unsafe {
        border::call(env, |env| {
            let store = Handle::store(store)?;
            let (key, options) = (border::text(env, key)?, border::options(env, options)?);
            let opening = options.upload_in_parts(store.store.upload_in_parts(key))?;
            store.start(token, async move { Ok(upload(&opening.await?)) });
            Ok(())
        })
    }
}

/// `Native.readPartsUpload`: gives the same of an id.
#[unsafe(no_mangle)]
pub unsafe extern "system" fn Java_io_tidegate_Native_readPartsUpload(
    env: *mut JNIEnv,
    _: jclass,
    store: i64,
    token: i64,
    id: jbyteArray,
) {
    // SAFETY: as above.
    unsafe {
        about(env, store, token, id, |store, id| async move { Ok(upload(&store.parts_upload(&id).await?)) })
    }
}

/// `Native.putPart`: gives the receipt.
#[unsafe(no_mangle)]
pub unsafe extern "system" fn Java_io_tidegate_Native_putPart(
    env: *mut JNIEnv,
    _: jclass,
    store: i64,
    token: i64,
    id: jbyteArray,
    number: jint,
    array: jbyteArray,
    direct: jobject,
    from: jint,
    length: jint,
) {
    // SAFETY: as above; `array` or `direct` is null.
    unsafe {
        border::call(env, |env| {
            let store = Handle::store(store)?;
            let id = border::text(env, id)?;
            // The library refuses part 0.
            let number = u32::try_from(number).unwrap_or(0);
            let bytes = Bytes::from(Buffer::new(env, array, direct, from, length)?.copied(env));
            let of = store.store.clone();
            store.start(token, async move {
                let put = of.parts_upload(&id).await?.put_part(number, bytes).await?;
                Ok(Reply::bytes(receipt(&put)))
            });
            Ok(())
        })
    }
}

/// `Native.readReceipt`: the receipt that a JSON describes.
#[unsafe(no_mangle)]
pub unsafe extern "system" fn Java_io_tidegate_Native_readReceipt(
    env: *mut JNIEnv,
    _: jclass,
    json: jbyteArray,
) -> Array {
    // SAFETY: as above.
    unsafe {
        border::call(env, |env| {
            Ok(Array::new(env, &receipt(&PartReceipt::from_json(&border::text(env, json)?)?)))
        })
    }
}

/// `Native.completeParts`: gives the object.
#[unsafe(no_mangle)]
pub unsafe extern "system" fn Java_io_tidegate_Native_completeParts(
    env: *mut JNIEnv,
    _: jclass,
    store: i64,
    token: i64,
    id: jbyteArray,
    receipts: jbyteArray,
) {
    // SAFETY: as above.
    unsafe {
        border::call(env, |env| {
            let store = Handle::store(store)?;
            let id = border::text(env, id)?;
            let receipts: tidegate::Result<Vec<PartReceipt>> =
                border::texts(env, receipts)?.iter().map(|json| PartReceipt::from_json(json)).collect();
            let (of, receipts) = (store.store.clone(), receipts?);
            store.start(token, async move {
                Ok(described(&of.parts_upload(&id).await?.complete(&receipts).await?))
            });
            Ok(())
        })
    }
}

/// `Native.abandonParts`.
#[unsafe(no_mangle)]
pub unsafe extern "system" fn Java_io_tidegate_Native_abandonParts(
    env: *mut JNIEnv,
    _: jclass,
    store: i64,
    token: i64,
    id: jbyteArray,
) {
    // SAFETY: as above.
    unsafe {
        about(env, store, token, id, |store, id| async move {
            ended(store.parts_upload(&id).await?.abandon().await)
        })
    }
}
