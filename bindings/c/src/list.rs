//! Listings, a page at a time.

use std::ffi::c_void;
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::Arc;
use std::thread::panicking;

use futures::stream::Fuse;
use futures::{FutureExt, StreamExt};
use tidegate::Entry;
use tidegate::store::ListStream;
use tokio::sync::{Mutex, OwnedMutexGuard};
use tokio_util::sync::CancellationToken;

use crate::border::{call, free, handle, needed};
use crate::engine::Shared;
use crate::error::{Failure, Outcome, TG_KIND_CLOSED, failure, invalid, tg_error};
use crate::memory::Slot;
use crate::object::tg_object;
use crate::operation::{Done, Operation, tg_done, tg_op};
use crate::options::{given, tg_options};
use crate::process::OfProcess;
use crate::store::tg_store;
use crate::text::tg_str;

/// An object.
pub const TG_ENTRY_OBJECT: i32 = 0;
/// A prefix that ends with `/`, of a listing that is not recursive.
pub const TG_ENTRY_PREFIX: i32 = 1;
/// A name that is no object, such as a socket on a disk.
pub const TG_ENTRY_OTHER: i32 = 2;

/// The most entries of a page: as many as most stores list in one.
const PAGE: usize = 1000;

/// An entry of a listing.
#[repr(C)]
#[derive(Debug)]
pub struct tg_entry {
    /// One of TG_ENTRY_...
    pub kind: i32,
    /// The key, relative to the store.
    pub key: tg_str,
    /// The description of the object; NULL if the entry is no object.
    pub object: *const tg_object,
}

/// A listing. One thread at a time: a second call at the same moment fails.
#[derive(Debug)]
pub struct tg_list {
    shared: Shared,
    url: Arc<str>,
    rest: OfProcess<Arc<Mutex<Rest>>>,
}

#[derive(Debug)]
struct Rest {
    entries: Fuse<ListStream>,
    /// The error that ended the listing, while entries before it were not given yet.
    failed: Option<Failure>,
    /// Whether the error was given, or a call has panicked: a call after it must not go on as if nothing were missing.
    has_failed: bool,
    page: Page,
}

/// The rest of a listing during one call. One that panics may have taken entries; one that is cancelled has taken none.
struct InCall(OwnedMutexGuard<Rest>);

impl Drop for InCall {
    fn drop(&mut self) {
        self.0.has_failed |= panicking();
    }
}

/// The entries that the caller has, with what they point to.
#[derive(Debug, Default)]
struct Page {
    _keys: Vec<String>,
    _objects: Vec<Option<Box<tg_object>>>,
    entries: Vec<tg_entry>,
}

// SAFETY: the pointers in `entries` are to the heap memory of the other two fields, which move with them.
unsafe impl Send for Page {}

impl Page {
    fn of(entries: Vec<Entry>) -> Self {
        let kind = |entry: &Entry| match entry {
            Entry::Object(_) => TG_ENTRY_OBJECT,
            Entry::Prefix(_) => TG_ENTRY_PREFIX,
            _ => TG_ENTRY_OTHER,
        };
        let kinds: Vec<i32> = entries.iter().map(kind).collect();
        let keys: Vec<String> = entries.iter().map(|entry| entry.key().to_owned()).collect();
        let object = |entry| match entry {
            Entry::Object(object) => Some(Box::new(tg_object::from(object))),
            _ => None,
        };
        let objects: Vec<_> = entries.into_iter().map(object).collect();
        // The texts and the objects are on the heap, and stay there until the page is dropped.
        let listed = kinds.iter().zip(&keys).zip(&objects).map(|((kind, key), object)| tg_entry {
            kind: *kind,
            key: tg_str::of(key),
            object: object.as_deref().map_or(ptr::null(), ptr::from_ref),
        });
        Self { entries: listed.collect(), _keys: keys, _objects: objects }
    }
}

/// Lists the objects whose keys begin with `prefix`, in key order: all of them, or with the option `recursive` set to
/// `false` those before the next `/`, and prefixes. Sends nothing yet.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tg_list_open(
    store: Option<&tg_store>,
    prefix: tg_str,
    options: Option<&tg_options>,
    list: Option<&mut MaybeUninit<*mut tg_list>>,
) -> Option<Box<tg_error>> {
    call(|| {
        let (store, out) = (needed(store, "store")?, needed(list, "list")?);
        // SAFETY: the header demands that the memory of the prefix is readable during the call.
        let prefix = unsafe { prefix.read() }?;
        let url = store.url(&prefix)?;
        let entries = given(options).list(store.get()?.list(prefix))?.fuse();
        let rest = Rest { entries, failed: None, has_failed: false, page: Page::default() };
        out.write(handle(tg_list {
            shared: store.shared.clone(),
            url,
            rest: OfProcess::new(Arc::new(Mutex::new(rest))),
        }));
        Ok(())
    })
}

/// A page: where its first entry is, and how many there are.
struct Listed(*const tg_entry, usize);

// SAFETY: the pointer is only handed out.
unsafe impl Send for Listed {}

fn next(list: Option<&tg_list>) -> Outcome<Operation<Listed>> {
    let list = needed(list, "list")?;
    let kept = list.rest.get()?.clone();
    let rest = kept.clone().try_lock_owned();
    let mut in_call = InCall(rest.map_err(|_| invalid("another call uses this listing at this moment"))?);
    let url = list.url.clone();
    let next = Operation::new(&list.shared, CancellationToken::new(), async move {
        let rest = &mut *in_call.0;
        if rest.has_failed {
            return Err(failure(TG_KIND_CLOSED, &url, "an earlier call of this listing failed"));
        }
        let mut entries = Vec::new();
        if rest.failed.is_none() {
            match rest.entries.next().await {
                Some(Ok(entry)) => entries.push(entry),
                Some(Err(error)) => rest.failed = Some(error.into()),
                None => {}
            }
        }
        while !entries.is_empty() && entries.len() < PAGE {
            match rest.entries.next().now_or_never().flatten() {
                Some(Ok(entry)) => entries.push(entry),
                Some(Err(error)) => {
                    rest.failed = Some(error.into());
                    break;
                }
                None => break,
            }
        }
        if entries.is_empty()
            && let Some(failed) = rest.failed.take()
        {
            rest.has_failed = true;
            return Err(failed);
        }
        rest.page = Page::of(entries);
        Ok(Listed(rest.page.entries.as_ptr(), rest.page.entries.len()))
    });
    Ok(next.about(list.url.clone()).keeping(kept))
}

/// The next entries, at least one; `count` is 0 at the end, and only there. They live until the next call or the free of
/// the listing. After an error the listing has failed. Blocks.
#[unsafe(no_mangle)]
pub extern "C" fn tg_list_next(
    list: Option<&tg_list>,
    entries: Option<&mut MaybeUninit<*const tg_entry>>,
    count: Option<&mut MaybeUninit<usize>>,
) -> Option<Box<tg_error>> {
    call(|| {
        let (entries, count) = (needed(entries, "entries")?, needed(count, "count")?);
        let page = next(list)?.wait()?;
        entries.write(page.0);
        count.write(page.1);
        Ok(())
    })
}

/// The asynchronous form of tg_list_next. `entries` and `count` must stay writable until `done` has run. If it is
/// cancelled, the next call goes on where this one began.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tg_list_next_async(
    list: *const tg_list,
    entries: *mut *const tg_entry,
    count: *mut usize,
    done: tg_done,
    user: *mut c_void,
    op: *mut *mut tg_op,
) -> Option<Box<tg_error>> {
    call(|| {
        // SAFETY: as the header demands.
        let (list, entries, count, op) =
            unsafe { (list.as_ref(), Slot::new(entries), Slot::new(count), Slot::new(op)) };
        let (entries, count) = (needed(entries, "entries")?, needed(count, "count")?);
        let deliver = move |page: Listed| {
            let Listed(first, length) = page;
            entries.write(first);
            count.write(length);
        };
        next(list)?.start(deliver, Done::new(done, user)?, op)
    })
}

/// Frees a listing and its entries. An asynchronous call that is under way keeps what it needs until its `done` has run.
#[unsafe(no_mangle)]
pub extern "C" fn tg_list_free(list: Option<Box<tg_list>>) {
    free(|| drop(list));
}
