//! Uploads that earlier processes left in journals.

use std::ffi::{CString, c_char};
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::Arc;

use tidegate::Store;
use tidegate::recover::{LeftUpload, Resumed};
use tokio_util::sync::CancellationToken;

use crate::border::{call, free, handle, needed};
use crate::engine::{Shared, tg_engine};
use crate::error::{Outcome, invalid, tg_error};
use crate::object::tg_object;
use crate::operation::Operation;
use crate::process::OfProcess;
use crate::store::tg_store;
use crate::text::c_string;
use crate::writer::tg_writer;

/// The uploads in the journal directories of an engine, in no order. It does not change: an upload that was resumed,
/// aborted or forgotten stays in it.
#[derive(Debug)]
pub struct tg_unfinished_list {
    shared: Shared,
    uploads: OfProcess<Vec<Unfinished>>,
}

#[derive(Debug)]
struct Unfinished {
    upload: Arc<LeftUpload>,
    id: CString,
    url: Option<CString>,
    problem: Option<CString>,
}

impl From<LeftUpload> for Unfinished {
    fn from(upload: LeftUpload) -> Self {
        Self {
            id: c_string(upload.id()),
            url: upload.url().map(|url| c_string(&url)),
            problem: upload.problem().map(|problem| c_string(&problem.to_string())),
            upload: Arc::new(upload),
        }
    }
}

impl tg_unfinished_list {
    fn find(&self, index: usize) -> Option<&Unfinished> {
        self.uploads.own()?.get(index)
    }

    fn upload(&self, index: usize) -> Outcome<Arc<LeftUpload>> {
        let upload =
            self.uploads.get()?.get(index).ok_or_else(|| invalid("the list has no upload of this index"))?;
        Ok(upload.upload.clone())
    }

    fn wait<T: Send + 'static>(
        &self,
        work: impl Future<Output = tidegate::Result<T>> + Send + 'static,
    ) -> Outcome<T> {
        Operation::new(&self.shared, CancellationToken::new(), async move { Ok(work.await?) }).wait()
    }
}

/// Lists the uploads in the journal directories of the engine's option `journal`: those that a process left, and those
/// that one is writing now. Changes none of them. Blocks.
#[unsafe(no_mangle)]
pub extern "C" fn tg_recover(
    engine: Option<&tg_engine>,
    list: Option<&mut MaybeUninit<*mut tg_unfinished_list>>,
) -> Option<Box<tg_error>> {
    call(|| {
        let (shared, out) = (&needed(engine, "engine")?.shared, needed(list, "list")?);
        let tide = shared.get()?.tide.clone();
        let recover = async move { Ok(tide.recover().await?) };
        let left = Operation::new(shared, CancellationToken::new(), recover).wait()?;
        let uploads = OfProcess::new(left.into_iter().map(Unfinished::from).collect());
        out.write(handle(tg_unfinished_list { shared: shared.clone(), uploads }));
        Ok(())
    })
}

/// How many uploads there are; 0 in a forked child.
#[unsafe(no_mangle)]
pub extern "C" fn tg_unfinished_count(list: Option<&tg_unfinished_list>) -> usize {
    list.and_then(|list| list.uploads.own()).map_or(0, Vec::len)
}

/// The id of an upload; NULL past the last. Lives as long as the list.
#[unsafe(no_mangle)]
pub extern "C" fn tg_unfinished_id(list: Option<&tg_unfinished_list>, index: usize) -> *const c_char {
    list.and_then(|list| list.find(index)).map_or(ptr::null(), |upload| upload.id.as_ptr())
}

/// The URL of the object to be; NULL if the journal cannot be read. Lives as long as the list.
#[unsafe(no_mangle)]
pub extern "C" fn tg_unfinished_url(list: Option<&tg_unfinished_list>, index: usize) -> *const c_char {
    let url = list.and_then(|list| list.find(index)?.url.as_ref());
    url.map_or(ptr::null(), |url| url.as_ptr())
}

/// Why it cannot be resumed, such as that a process is writing it; NULL if it can. Lives as long as the list.
#[unsafe(no_mangle)]
pub extern "C" fn tg_unfinished_problem(list: Option<&tg_unfinished_list>, index: usize) -> *const c_char {
    let problem = list.and_then(|list| list.find(index)?.problem.as_ref());
    problem.map_or(ptr::null(), |problem| problem.as_ptr())
}

/// How many bytes of the object are in the journal or at the store.
#[unsafe(no_mangle)]
pub extern "C" fn tg_unfinished_length(list: Option<&tg_unfinished_list>, index: usize) -> u64 {
    list.and_then(|list| list.find(index)).map_or(0, |upload| upload.upload.length())
}

/// Whether its producer had finished: resuming it then publishes the object.
#[unsafe(no_mangle)]
pub extern "C" fn tg_unfinished_is_finished(list: Option<&tg_unfinished_list>, index: usize) -> bool {
    list.and_then(|list| list.find(index)).is_some_and(|upload| upload.upload.is_finished())
}

/// The store that a caller gives for an upload, if it gives one.
fn store_of(store: Option<&tg_store>) -> Outcome<Option<Store>> {
    store.map(|store| store.get().cloned()).transpose()
}

/// Resumes an upload, on `store` if it is not NULL: a journal does not keep how its store is reached. Of the two results
/// one is set, and the other becomes NULL: the object, if its producer had finished, else a writer, whose position says
/// from which byte to go on. Blocks.
#[unsafe(no_mangle)]
pub extern "C" fn tg_unfinished_resume(
    list: Option<&tg_unfinished_list>,
    index: usize,
    store: Option<&tg_store>,
    object: Option<&mut MaybeUninit<*mut tg_object>>,
    writer: Option<&mut MaybeUninit<*mut tg_writer>>,
) -> Option<Box<tg_error>> {
    call(|| {
        let (list, store) = (needed(list, "list")?, store_of(store)?);
        let (object, writer) = (needed(object, "object")?, needed(writer, "writer")?);
        let upload = list.upload(index)?;
        let url = upload.url().unwrap_or_default();
        let resumed = list.wait(async move {
            match store {
                Some(store) => upload.resume_on(&store).await,
                None => upload.resume().await,
            }
        })?;
        let (published, goes_on) = match resumed {
            Resumed::Object(published) => (handle(published.into()), ptr::null_mut()),
            Resumed::Writer(goes_on) => {
                (ptr::null_mut(), handle(tg_writer::new(&list.shared, goes_on, url.into())))
            }
        };
        object.write(published);
        writer.write(goes_on);
        Ok(())
    })
}

/// Ends an upload without an object, and removes its journal. If its object turns out to have been published, the object
/// stays and `published` gets it; otherwise `published`, which may be NULL, gets NULL. Blocks.
#[unsafe(no_mangle)]
pub extern "C" fn tg_unfinished_abort(
    list: Option<&tg_unfinished_list>,
    index: usize,
    store: Option<&tg_store>,
    published: Option<&mut MaybeUninit<*mut tg_object>>,
) -> Option<Box<tg_error>> {
    call(|| {
        let (list, store) = (needed(list, "list")?, store_of(store)?);
        let upload = list.upload(index)?;
        let object = list.wait(async move {
            match store {
                Some(store) => upload.abort_on(&store).await,
                None => upload.abort().await,
            }
        })?;
        if let Some(published) = published {
            published.write(object.map_or(ptr::null_mut(), |object| handle(object.into())));
        }
        Ok(())
    })
}

/// Removes a journal with all its bytes, and sends nothing to the store. Blocks.
#[unsafe(no_mangle)]
pub extern "C" fn tg_unfinished_forget(
    list: Option<&tg_unfinished_list>,
    index: usize,
) -> Option<Box<tg_error>> {
    call(|| {
        let list = needed(list, "list")?;
        let upload = list.upload(index)?;
        list.wait(async move { upload.forget().await })
    })
}

/// Frees a list. The uploads stay as they are.
#[unsafe(no_mangle)]
pub extern "C" fn tg_unfinished_list_free(list: Option<Box<tg_unfinished_list>>) {
    free(|| drop(list));
}
