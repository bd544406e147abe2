//! Listings, a page at a time.

use std::sync::Arc;

use futures::stream::Fuse;
use futures::{FutureExt, StreamExt};
use jni_sys::{JNIEnv, jbyteArray, jclass};
use tidegate::Entry;
use tidegate::store::ListStream;
use tokio::sync::Mutex;
use tokio_util::sync::CancellationToken;

use crate::border;
use crate::call::{Reply, start};
use crate::engine::Shared;
use crate::error::{Failure, Outcome};
use crate::handle::Handle;
use crate::object::encode;
use crate::wire;

/// The most entries of a page: as many as most stores list in one.
const PAGE: usize = 1000;

pub(crate) struct OpenList {
    shared: Shared,
    rest: Arc<Mutex<Rest>>,
}

struct Rest {
    entries: Fuse<ListStream>,
    /// The error that ended the listing, while entries before it were not given yet.
    failed: Option<Failure>,
    /// Whether the listing must not go on, as if nothing were missing: a call failed, was cancelled or panicked.
    has_failed: bool,
}

impl Rest {
    /// The next entries, at least one; none at the end, and only there.
    async fn page(&mut self) -> Outcome<Vec<Entry>> {
        if self.has_failed {
            return Err(Failure::closed("", "an earlier call of this listing failed"));
        }
        // Until this page is whole.
        self.has_failed = true;
        let mut entries = Vec::new();
        if self.failed.is_none() {
            match self.entries.next().await {
                Some(Ok(entry)) => entries.push(entry),
                Some(Err(error)) => self.failed = Some(error.into()),
                None => {}
            }
        }
        while !entries.is_empty() && entries.len() < PAGE {
            match self.entries.next().now_or_never().flatten() {
                Some(Ok(entry)) => entries.push(entry),
                Some(Err(error)) => {
                    self.failed = Some(error.into());
                    break;
                }
                None => break,
            }
        }
        if entries.is_empty()
            && let Some(failed) = self.failed.take()
        {
            return Err(failed);
        }
        self.has_failed = false;
        Ok(entries)
    }
}

/// As `Listing` in Java reads them: what each is (an object, a prefix, something else), its key or the object.
fn encoded(entries: &[Entry]) -> Vec<u8> {
    wire::encoded(|to| {
        for entry in entries {
            match entry {
                Entry::Object(object) => {
                    to.number(0);
                    encode(object, to);
                }
                Entry::Prefix(_) => {
                    to.number(1);
                    to.text(entry.key());
                }
                _ => {
                    to.number(2);
                    to.text(entry.key());
                }
            }
        }
    })
}

/// `Native.openList`: gives a handle, and sends nothing yet.
#[unsafe(no_mangle)]
pub unsafe extern "system" fn Java_io_tidegate_Native_openList(
    env: *mut JNIEnv,
    _: jclass,
    store: i64,
    prefix: jbyteArray,
    options: jbyteArray,
) -> i64 {
    // SAFETY: the JVM calls this, with references to byte arrays, and a handle whose Java object is reachable.
    unsafe {
        border::call(env, |env| {
            let store = Handle::store(store)?;
            let prefix = border::text(env, prefix)?;
            let entries = border::options(env, options)?.list(store.store.list(prefix))?.fuse();
            let rest = Rest { entries, failed: None, has_failed: false };
            let list = OpenList { shared: store.shared.clone(), rest: Arc::new(Mutex::new(rest)) };
            Ok(Handle::List(list).into_java())
        })
    }
}

/// `Native.nextPage`: gives entries; none at the end.
#[unsafe(no_mangle)]
pub unsafe extern "system" fn Java_io_tidegate_Native_nextPage(
    env: *mut JNIEnv,
    _: jclass,
    list: i64,
    token: i64,
) {
    // SAFETY: the JVM calls this, with a handle whose Java object is reachable.
    unsafe {
        border::call(env, |_| {
            let list = Handle::list(list)?;
            let rest = list.rest.clone();
            start(&list.shared, token, &CancellationToken::new(), async move {
                Ok(Reply::bytes(encoded(&rest.lock().await.page().await?)))
            });
            Ok(())
        })
    }
}
