//! Uploads that any process publishes, continues or gives up. They travel as JSON; Java has beside it what the JSON says.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use jni_sys::{JNIEnv, jboolean, jbyteArray, jclass};
use tidegate::checksum::Checksum;
use tidegate::upload::{Pending, Resumable};

use crate::border::{self, Array};
use crate::call::Reply;
use crate::handle::Handle;
use crate::store::{about, described, ended};
use crate::wire::{self, Encoder};
use crate::writer::{OpenWriter, during};

/// As `Unpublished` in Java reads them.
fn encode(
    json: &str,
    url: &str,
    key: &str,
    checksum: Checksum,
    until: SystemTime,
    warning: Option<&str>,
    to: &mut Encoder,
) {
    to.text(json);
    to.text(url);
    to.text(key);
    to.count(checksum.covers());
    to.text(checksum.algorithm().name());
    to.text(&checksum.base64());
    to.count(until.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs());
    to.optional(warning);
}

pub(crate) fn encode_pending(of: &Pending, to: &mut Encoder) {
    encode(&of.to_json(), of.url(), of.key(), of.checksum(), of.until(), of.warning(), to);
}

fn pending(of: &Pending) -> Vec<u8> {
    wire::encoded(|to| encode_pending(of, to))
}

fn point(of: &Resumable) -> Vec<u8> {
    wire::encoded(|to| {
        encode(&of.to_json(), of.url(), of.key(), of.checksum(), of.until(), of.warning(), to);
    })
}

/// The lifetime that a caller asks for; a negative number stands for none.
pub(crate) fn lifetime(millis: i64) -> Option<Duration> {
    u64::try_from(millis).ok().map(Duration::from_millis)
}

/// `Native.prepare`: gives a pending upload.
#[unsafe(no_mangle)]
pub unsafe extern "system" fn Java_io_tidegate_Native_prepare(
    env: *mut JNIEnv,
    _: jclass,
    writer: i64,
    token: i64,
    millis: i64,
) {
    // SAFETY: the JVM calls this, with a handle whose Java object is reachable. So it is with all functions below, and
    // their references are those of byte arrays.
    unsafe {
        during(env, writer, token, |mut in_call| async move {
            let prepared = in_call.take()?.prepare().lifetime(lifetime(millis)).await?;
            in_call.keep();
            Ok(Reply::bytes(pending(&prepared)))
        })
    }
}

/// `Native.persist`: gives a point of the upload.
#[unsafe(no_mangle)]
pub unsafe extern "system" fn Java_io_tidegate_Native_persist(
    env: *mut JNIEnv,
    _: jclass,
    writer: i64,
    token: i64,
    millis: i64,
) {
    // SAFETY: as above.
    unsafe {
        during(env, writer, token, |mut in_call| async move {
            let persisted = in_call.writer()?.persist().lifetime(lifetime(millis)).await;
            // After an error the library's writer knows whether it goes on.
            in_call.keep();
            Ok(Reply::bytes(point(&persisted?)))
        })
    }
}

/// `Native.readPending`: the pending upload that a JSON describes.
#[unsafe(no_mangle)]
pub unsafe extern "system" fn Java_io_tidegate_Native_readPending(
    env: *mut JNIEnv,
    _: jclass,
    json: jbyteArray,
) -> Array {
    // SAFETY: as above.
    unsafe {
        border::call(env, |env| {
            Ok(Array::new(env, &pending(&Pending::from_json(&border::text(env, json)?)?)))
        })
    }
}

/// `Native.readPoint`: the point that a JSON describes.
#[unsafe(no_mangle)]
pub unsafe extern "system" fn Java_io_tidegate_Native_readPoint(
    env: *mut JNIEnv,
    _: jclass,
    json: jbyteArray,
) -> Array {
    // SAFETY: as above.
    unsafe {
        border::call(env, |env| {
            Ok(Array::new(env, &point(&Resumable::from_json(&border::text(env, json)?)?)))
        })
    }
}

/// `Native.commit`: gives the object.
#[unsafe(no_mangle)]
pub unsafe extern "system" fn Java_io_tidegate_Native_commit(
    env: *mut JNIEnv,
    _: jclass,
    store: i64,
    token: i64,
    json: jbyteArray,
) {
    // SAFETY: as above.
    unsafe {
        about(env, store, token, json, |store, json| async move {
            Ok(described(&store.commit(&Pending::from_json(&json)?).await?))
        })
    }
}

/// `Native.abandon`: gives up a pending upload, or one with a point.
#[unsafe(no_mangle)]
pub unsafe extern "system" fn Java_io_tidegate_Native_abandon(
    env: *mut JNIEnv,
    _: jclass,
    store: i64,
    token: i64,
    json: jbyteArray,
    is_point: jboolean,
) {
    // SAFETY: as above.
    unsafe {
        about(env, store, token, json, |store, json| async move {
            ended(if is_point {
                store.abandon(&Resumable::from_json(&json)?).await
            } else {
                store.abandon(&Pending::from_json(&json)?).await
            })
        })
    }
}

/// `Native.resume`: gives a writer, and its position.
#[unsafe(no_mangle)]
pub unsafe extern "system" fn Java_io_tidegate_Native_resume(
    env: *mut JNIEnv,
    _: jclass,
    store: i64,
    token: i64,
    json: jbyteArray,
) {
    // SAFETY: as above.
    unsafe {
        border::call(env, |env| {
            let store = Handle::store(store)?;
            let point = Resumable::from_json(&border::text(env, json)?)?;
            let url = format!("{}/{}", point.url(), point.key());
            let (of, shared) = (store.store.clone(), store.shared.clone());
            store.start(token, async move { Ok(OpenWriter::reply(&shared, of.resume(&point).await?, url)) });
            Ok(())
        })
    }
}

/// `Native.forget`: removes what is kept for a point alone.
#[unsafe(no_mangle)]
pub unsafe extern "system" fn Java_io_tidegate_Native_forget(
    env: *mut JNIEnv,
    _: jclass,
    store: i64,
    token: i64,
    json: jbyteArray,
) {
    // SAFETY: as above.
    unsafe {
        about(env, store, token, json, |store, json| async move {
            ended(store.forget(&Resumable::from_json(&json)?).await)
        })
    }
}
