//! Uploads that any process publishes, continues or gives up, by what tg_writer_prepare and tg_writer_persist gave.

use std::ffi::{CString, c_char, c_void};
use std::mem::MaybeUninit;
use std::sync::Arc;

use tidegate::Object;
use tidegate::upload::{Pending, Resumable};

use crate::border::{call, free, handle, needed};
use crate::error::{Outcome, tg_error};
use crate::memory::Slot;
use crate::object::tg_object;
use crate::operation::{Done, Operation, tg_done, tg_op};
use crate::store::{give, later, tg_store};
use crate::text::string;
use crate::writer::tg_writer;

/// The URL of the object that an upload is of.
fn url_of(store: &str, key: &str) -> Arc<str> {
    format!("{store}/{key}").into()
}

/// # Safety
/// As the header demands of `tg_commit`.
unsafe fn commit(store: Option<&tg_store>, json: *const c_char) -> Outcome<Operation<Object>> {
    let store = needed(store, "store")?;
    // SAFETY: the header demands a string that a NUL ends.
    let pending = Pending::from_json(&unsafe { string(json, "json") }?)?;
    let of = store.get()?.clone();
    Ok(store.operation(url_of(pending.url(), pending.key()), async move { Ok(of.commit(&pending).await?) }))
}

/// Publishes a prepared upload. Twice, or by two processes, publishes it once, and both get the object; after
/// tg_abandon it fails with TG_KIND_SESSION_LOST. The store must be of the bucket that the upload was prepared in.
/// `object` may be NULL. Blocks.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tg_commit(
    store: Option<&tg_store>,
    json: *const c_char,
    object: Option<&mut MaybeUninit<*mut tg_object>>,
) -> Option<Box<tg_error>> {
    call(|| {
        // SAFETY: as the header demands.
        give(unsafe { commit(store, json) }?.wait()?, object)
    })
}

/// The asynchronous form of tg_commit. `json` is copied; `object` must stay writable until `done` has run.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tg_commit_async(
    store: *const tg_store,
    json: *const c_char,
    object: *mut *mut tg_object,
    done: tg_done,
    user: *mut c_void,
    op: *mut *mut tg_op,
) -> Option<Box<tg_error>> {
    call(|| {
        // SAFETY: as the header demands.
        let (commit, deliver, op) = unsafe { (commit(store.as_ref(), json)?, later(object), Slot::new(op)) };
        commit.start(deliver, Done::new(done, user)?, op)
    })
}

/// Gives up what tg_writer_prepare or tg_writer_persist has described: nothing of it becomes visible. Blocks.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tg_abandon(store: Option<&tg_store>, json: *const c_char) -> Option<Box<tg_error>> {
    call(|| {
        let store = needed(store, "store")?;
        // SAFETY: the header demands a string that a NUL ends.
        let json = unsafe { string(json, "json") }?;
        let of = store.get()?.clone();
        let abandon = match (Pending::from_json(&json), Resumable::from_json(&json)) {
            (Ok(pending), _) => store.operation(url_of(pending.url(), pending.key()), async move {
                Ok(of.abandon(&pending).await?)
            }),
            (_, Ok(point)) => store
                .operation(url_of(point.url(), point.key()), async move { Ok(of.abandon(&point).await?) }),
            (Err(error), Err(_)) => return Err(error.into()),
        };
        abandon.wait()
    })
}

/// Continues an upload from a point of tg_writer_persist: tg_writer_position says from which byte. Blocks.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tg_resume(
    store: Option<&tg_store>,
    json: *const c_char,
    writer: Option<&mut MaybeUninit<*mut tg_writer>>,
) -> Option<Box<tg_error>> {
    call(|| {
        let (store, out) = (needed(store, "store")?, needed(writer, "writer")?);
        // SAFETY: the header demands a string that a NUL ends.
        let point = Resumable::from_json(&unsafe { string(json, "json") }?)?;
        let url = url_of(point.url(), point.key());
        let of = store.get()?.clone();
        let writer = store.operation(url.clone(), async move { Ok(of.resume(&point).await?) }).wait()?;
        out.write(handle(tg_writer::new(&store.shared, writer, url)));
        Ok(())
    })
}

/// Frees a string that a function gave as `json`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tg_string_free(text: *mut c_char) {
    if !text.is_null() {
        // SAFETY: the header demands a string that `CString::into_raw` gave (tg_writer_prepare, tg_writer_persist), and
        // that was not freed before.
        let text = unsafe { CString::from_raw(text) };
        free(|| drop(text));
    }
}
