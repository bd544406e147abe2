//! Sets of pending uploads that are published together.

use futures::FutureExt;
use futures::future::select_all;
use jni_sys::{JNIEnv, jbyteArray, jclass, jobject};
use tidegate::Object;
use tidegate::store::Manifest;
use tidegate::upload::Pending;

use crate::border::{self, Array};
use crate::call::Reply;
use crate::error::Failure;
use crate::handle::Handle;
use crate::object::encode;
use crate::pending::{encode_pending, lifetime};
use crate::store::{about, ended};
use crate::wire;
use crate::writer::InCall;

/// As `Manifest` in Java reads it.
fn encoded(manifest: &Manifest) -> Vec<u8> {
    wire::encoded(|to| {
        to.text(&manifest.to_json());
        to.text(manifest.url());
        to.text(manifest.pointer());
        manifest.pending().iter().for_each(|pending| encode_pending(pending, to));
    })
}

fn objects(objects: &[Object]) -> Reply {
    Reply::bytes(wire::encoded(|to| objects.iter().for_each(|object| encode(object, to))))
}

/// `Native.manifest`: the set of pending uploads, each as JSON.
#[unsafe(no_mangle)]
pub unsafe extern "system" fn Java_io_tidegate_Native_manifest(
    env: *mut JNIEnv,
    _: jclass,
    pointer: jbyteArray,
    jsons: jbyteArray,
) -> Array {
    // SAFETY: the JVM calls this, with references to byte arrays, and handles whose Java objects are reachable. So it is
    // with all functions below.
    unsafe {
        border::call(env, |env| {
            let jsons = border::texts(env, jsons)?;
            let pending: Vec<_> =
                jsons.iter().map(|json| Pending::from_json(json)).collect::<Result<_, _>>()?;
            Ok(Array::new(env, &encoded(&Manifest::new(border::text(env, pointer)?, pending)?)))
        })
    }
}

/// `Native.readManifest`: the set that a JSON describes.
#[unsafe(no_mangle)]
pub unsafe extern "system" fn Java_io_tidegate_Native_readManifest(
    env: *mut JNIEnv,
    _: jclass,
    json: jbyteArray,
) -> Array {
    // SAFETY: as above.
    unsafe {
        border::call(env, |env| {
            Ok(Array::new(env, &encoded(&Manifest::from_json(&border::text(env, json)?)?)))
        })
    }
}

/// `Native.prepareAll`: gives the set. A writer that is discarded meanwhile cancels the call.
#[unsafe(no_mangle)]
pub unsafe extern "system" fn Java_io_tidegate_Native_prepareAll(
    env: *mut JNIEnv,
    _: jclass,
    store: i64,
    token: i64,
    pointer: jbyteArray,
    writers: jobject,
    millis: i64,
) {
    // SAFETY: as above; `writers` is an array of handles.
    unsafe {
        border::call(env, |env| {
            let store = Handle::store(store)?;
            let pointer = border::text(env, pointer)?;
            let (mut calls, mut uploads, mut discards) = (Vec::new(), Vec::new(), Vec::new());
            for writer in env.numbers(writers) {
                let open = Handle::writer(writer)?;
                discards.push(open.cancel.clone().cancelled_owned().boxed());
                calls.push(InCall::begin(open)?);
            }
            for call in &mut calls {
                uploads.push(call.take()?.prepare().lifetime(lifetime(millis)));
            }
            // One that never ends: a set without writers is for the library to refuse.
            discards.push(std::future::pending().boxed());
            let of = store.store.clone();
            store.start(token, async move {
                let manifest = tokio::select! {
                    biased;
                    prepared = of.prepare_all(pointer, uploads) => prepared?,
                    _ = select_all(discards) => return Err(Failure::cancelled()),
                };
                calls.into_iter().for_each(InCall::keep);
                Ok(Reply::bytes(encoded(&manifest)))
            });
            Ok(())
        })
    }
}

/// `Native.commitAll`: gives the objects.
#[unsafe(no_mangle)]
pub unsafe extern "system" fn Java_io_tidegate_Native_commitAll(
    env: *mut JNIEnv,
    _: jclass,
    store: i64,
    token: i64,
    json: jbyteArray,
) {
    // SAFETY: as above.
    unsafe {
        about(env, store, token, json, |store, json| async move {
            Ok(objects(&store.commit_all(&Manifest::from_json(&json)?).await?))
        })
    }
}

/// `Native.rollForward`: gives the objects, or no bytes if the set was complete.
#[unsafe(no_mangle)]
pub unsafe extern "system" fn Java_io_tidegate_Native_rollForward(
    env: *mut JNIEnv,
    _: jclass,
    store: i64,
    token: i64,
    pointer: jbyteArray,
) {
    // SAFETY: as above.
    unsafe {
        about(env, store, token, pointer, |store, pointer| async move {
            Ok(store.roll_forward(&pointer).await?.as_deref().map(objects).unwrap_or_default())
        })
    }
}

/// `Native.abandonAll`: gives up a set that was not begun.
#[unsafe(no_mangle)]
pub unsafe extern "system" fn Java_io_tidegate_Native_abandonAll(
    env: *mut JNIEnv,
    _: jclass,
    store: i64,
    token: i64,
    json: jbyteArray,
) {
    // SAFETY: as above.
    unsafe {
        about(env, store, token, json, |store, json| async move {
            ended(store.abandon_all(&Manifest::from_json(&json)?).await)
        })
    }
}

/// `Native.abandonSet`: ends a set that cannot be completed; gives how many of its uploads are visible, these, and then
/// those that were given up.
#[unsafe(no_mangle)]
pub unsafe extern "system" fn Java_io_tidegate_Native_abandonSet(
    env: *mut JNIEnv,
    _: jclass,
    store: i64,
    token: i64,
    pointer: jbyteArray,
) {
    // SAFETY: as above.
    unsafe {
        about(env, store, token, pointer, |store, pointer| async move {
            Ok(abandoned(&store.abandon_set(&pointer).await?))
        })
    }
}

fn abandoned(set: &tidegate::store::AbandonedSet) -> Reply {
    let all = set.visible.iter().chain(&set.abandoned);
    let all = wire::encoded(|to| all.for_each(|pending| encode_pending(pending, to)));
    Reply { value: set.visible.len() as i64, ..Reply::bytes(all) }
}
