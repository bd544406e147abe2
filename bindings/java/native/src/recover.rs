//! Uploads that earlier processes left in journals.

use std::sync::Arc;

use jni_sys::{JNIEnv, jclass};
use tidegate::Store;
use tidegate::recover::{LeftUpload, Resumed};
use tokio_util::sync::CancellationToken;

use crate::border;
use crate::call::{Reply, start};
use crate::engine::Shared;
use crate::error::Outcome;
use crate::handle::Handle;
use crate::object::encoded;
use crate::store::{described, ended};
use crate::wire::{self, Encoder};
use crate::writer::OpenWriter;

pub(crate) struct Unfinished {
    shared: Shared,
    upload: Arc<LeftUpload>,
}

impl Unfinished {
    /// A call of this upload, which only an interrupt cancels.
    fn start<F>(&self, token: i64, work: impl FnOnce(Arc<LeftUpload>) -> F)
    where
        F: Future<Output = Outcome<Reply>> + Send + 'static,
    {
        start(&self.shared, token, &CancellationToken::new(), work(self.upload.clone()));
    }

    /// As `UnfinishedUpload` in Java reads it.
    fn encode(self, to: &mut Encoder) {
        let upload = &self.upload;
        to.text(upload.id());
        to.optional(upload.url().as_deref());
        to.optional(upload.problem().map(ToString::to_string).as_deref());
        to.count(upload.length());
        to.number(upload.is_finished().into());
        to.number(Handle::Unfinished(self).into_java());
    }
}

/// The store that a caller gives; 0 stands for none.
///
/// # Safety
/// As for [`Handle::store`].
unsafe fn given(store: i64) -> Outcome<Option<Store>> {
    // SAFETY: the caller promises it.
    (store != 0).then(|| Ok(unsafe { Handle::store(store) }?.store.clone())).transpose()
}

/// `Native.recover`: gives the uploads in the journal directories, each with a handle.
#[unsafe(no_mangle)]
pub unsafe extern "system" fn Java_io_tidegate_Native_recover(
    env: *mut JNIEnv,
    _: jclass,
    engine: i64,
    token: i64,
) {
    // SAFETY: the JVM calls this, with handles whose Java objects are reachable. So it is with all functions below.
    unsafe {
        border::call(env, |_| {
            let shared = Handle::engine(engine)?.clone();
            let tide = shared.tide.clone();
            start(&shared.clone(), token, &CancellationToken::new(), async move {
                let uploads = tide.recover().await?;
                Ok(Reply::bytes(wire::encoded(|to| {
                    for upload in uploads {
                        Unfinished { shared: shared.clone(), upload: upload.into() }.encode(to);
                    }
                })))
            });
            Ok(())
        })
    }
}

/// `Native.resumeUnfinished`: gives a writer and its position; or no handle and the object, if the producer had finished.
#[unsafe(no_mangle)]
pub unsafe extern "system" fn Java_io_tidegate_Native_resumeUnfinished(
    env: *mut JNIEnv,
    _: jclass,
    upload: i64,
    token: i64,
    store: i64,
) {
    // SAFETY: as above.
    unsafe {
        border::call(env, |_| {
            let (unfinished, store) = (Handle::unfinished(upload)?, given(store)?);
            let shared = unfinished.shared.clone();
            unfinished.start(token, move |upload| async move {
                let resumed = match store {
                    Some(store) => upload.resume_on(&store).await?,
                    None => upload.resume().await?,
                };
                Ok(match resumed {
                    Resumed::Object(object) => described(&object),
                    Resumed::Writer(writer) => {
                        OpenWriter::reply(&shared, writer, upload.url().unwrap_or_default())
                    }
                })
            });
            Ok(())
        })
    }
}

/// `Native.abortUnfinished`: gives the object if it turns out to have been published, else no bytes.
#[unsafe(no_mangle)]
pub unsafe extern "system" fn Java_io_tidegate_Native_abortUnfinished(
    env: *mut JNIEnv,
    _: jclass,
    upload: i64,
    token: i64,
    store: i64,
) {
    // SAFETY: as above.
    unsafe {
        border::call(env, |_| {
            let (unfinished, store) = (Handle::unfinished(upload)?, given(store)?);
            unfinished.start(token, move |upload| async move {
                let published = match store {
                    Some(store) => upload.abort_on(&store).await?,
                    None => upload.abort().await?,
                };
                Ok(published.map(|object| Reply::bytes(encoded(&object))).unwrap_or_default())
            });
            Ok(())
        })
    }
}

/// `Native.forgetUnfinished`: removes a journal, and sends nothing.
#[unsafe(no_mangle)]
pub unsafe extern "system" fn Java_io_tidegate_Native_forgetUnfinished(
    env: *mut JNIEnv,
    _: jclass,
    upload: i64,
    token: i64,
) {
    // SAFETY: as above.
    unsafe {
        border::call(env, |_| {
            Handle::unfinished(upload)?.start(token, |upload| async move { ended(upload.forget().await) });
            Ok(())
        })
    }
}
