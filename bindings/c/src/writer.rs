//! Writers. One call at a time has a writer; one that fails, is cancelled or panics takes it away, and nothing is published.

use std::ffi::{CString, c_char, c_void};
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::ptr;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, Waker};

use tidegate::upload::{Pending, Resumable};
use tidegate::{ErrorKind, Object, Progress, Strategy, Writer};
use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::sync::{Mutex, OwnedMutexGuard};
use tokio_util::sync::CancellationToken;

use crate::border::{call, free, handle, needed};
use crate::engine::Shared;
use crate::error::{
    Failure, Outcome, TG_KIND_CANCELLED, TG_KIND_CLOSED, TG_KIND_INVALID_INPUT, failure, tg_error,
};
use crate::lent::{self, tg_release};
use crate::memory::{Slot, Source};
use crate::object::tg_object;
use crate::operation::{Done, Operation, check_done, may_block, tg_done, tg_op};
use crate::options::{given, tg_options};
use crate::process::OfProcess;
use crate::store::{give, later, tg_store};
use crate::text::{bytes, c_string, tg_str};

/// Writes one object, which becomes visible by tg_writer_finish and by nothing else.
///
/// One thread at a time: a second call at the same moment fails with TG_KIND_INVALID_INPUT, and changes nothing. After a
/// write that failed or was cancelled the writer has failed: what remains to do is to free it.
#[derive(Debug)]
pub struct tg_writer {
    open: OfProcess<Arc<OpenWriter>>,
}

#[derive(Debug)]
struct OpenWriter {
    shared: Shared,
    url: Arc<str>,
    writer: Arc<Mutex<Option<Writer>>>,
    state: AtomicU8,
    cancel: CancellationToken,
    /// Bytes of all writes that have succeeded.
    written: AtomicU64,
    progress: Progress,
    is_journaled: bool,
    warning: OnceLock<CString>,
}

const OPEN: u8 = 0;
const FAILED: u8 = 1;
const ENDED: u8 = 2;
/// A finish was begun, and nothing says whether it published the object.
const UNKNOWN: u8 = 3;

impl OpenWriter {
    fn operation<T: Send + 'static>(
        &self,
        work: impl Future<Output = Outcome<T>> + Send + 'static,
    ) -> Operation<T> {
        Operation::new(&self.shared, self.cancel.clone(), work).about(self.url.clone())
    }

    /// Why it takes no more calls.
    fn ended(&self) -> Failure {
        let why = match self.state.load(SeqCst) {
            ENDED => "the writer was finished, prepared or aborted before",
            UNKNOWN => "its finish ended without saying whether the object was published: look with tg_head",
            _ => "an earlier call of this writer failed, and nothing was published",
        };
        failure(TG_KIND_CLOSED, &self.url, why)
    }

    /// Drops the writer: the upload is aborted in the background. A call that is under way ends, and drops it.
    fn discard(&self) {
        self.cancel.cancel();
        let Some(running) = self.shared.own() else { return };
        match self.writer.try_lock() {
            Ok(mut writer) => {
                let _entered = running.runtime.enter();
                drop(writer.take());
            }
            Err(_) => {
                let writer = self.writer.clone();
                running.ending.spawn_on(async move { drop(writer.lock().await.take()) }, &running.runtime);
            }
        }
    }
}

/// A writer during one call. Dropped without [`keep`](Self::keep), it takes the library's writer with it: the call has
/// failed, was cancelled or panicked, and bytes may be missing.
struct InCall {
    open: Arc<OpenWriter>,
    writer: OwnedMutexGuard<Option<Writer>>,
    is_whole: bool,
}

impl InCall {
    fn writer(&mut self) -> Outcome<&mut Writer> {
        let open = &self.open;
        self.writer.as_mut().ok_or_else(|| open.ended())
    }

    /// Takes the writer, for a call that ends it.
    fn take(&mut self) -> Outcome<Writer> {
        self.writer.take().ok_or_else(|| self.open.ended())
    }

    /// The call has left the writer whole.
    fn keep(mut self) {
        self.is_whole = true;
    }

    /// The call has ended the writer as it should.
    fn end(self) {
        self.open.state.store(ENDED, SeqCst);
    }
}

impl Drop for InCall {
    fn drop(&mut self) {
        if !self.is_whole {
            // Unless it has ended before.
            let _ = self.open.state.compare_exchange(OPEN, FAILED, SeqCst, SeqCst);
            drop(self.writer.take());
        }
    }
}

impl tg_writer {
    pub(crate) fn new(shared: &Shared, writer: Writer, url: Arc<str>) -> Self {
        let open = OpenWriter {
            shared: shared.clone(),
            url,
            state: AtomicU8::new(OPEN),
            cancel: CancellationToken::new(),
            written: writer.position().into(),
            progress: writer.progress(),
            is_journaled: writer.strategy() == Strategy::Journal,
            writer: Arc::new(Mutex::new(Some(writer))),
            warning: OnceLock::new(),
        };
        Self { open: OfProcess::new(Arc::new(open)) }
    }

    pub(crate) fn progress(&self) -> Outcome<&Progress> {
        Ok(&self.open.get()?.progress)
    }
}

impl Drop for tg_writer {
    fn drop(&mut self) {
        if let Some(open) = self.open.own() {
            open.discard();
        }
    }
}

/// Begins a call, which has the writer to itself. All else that may be wrong with the call is checked before.
fn begin(writer: Option<&tg_writer>) -> Outcome<InCall> {
    let open = needed(writer, "writer")?.open.get()?;
    open.shared.get()?;
    let guard = open.writer.clone().try_lock_owned();
    // After the attempt: the cancel, and the task that drops a cancelled writer, may have the lock.
    if open.cancel.is_cancelled() {
        return Err(failure(TG_KIND_CANCELLED, &open.url, "the writer was cancelled before"));
    }
    let Ok(guard) = guard else {
        return Err(failure(
            TG_KIND_INVALID_INPUT,
            &open.url,
            "another call uses this writer at this moment",
        ));
    };
    let mut in_call = InCall { open: open.clone(), writer: guard, is_whole: true };
    in_call.writer()?;
    in_call.is_whole = false;
    Ok(in_call)
}

/// Opens a writer. `key` need not exist; an object that exists stays until tg_writer_finish. Blocks.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tg_writer_open(
    store: Option<&tg_store>,
    key: tg_str,
    options: Option<&tg_options>,
    writer: Option<&mut MaybeUninit<*mut tg_writer>>,
) -> Option<Box<tg_error>> {
    call(|| {
        let (store, out) = (needed(store, "store")?, needed(writer, "writer")?);
        // SAFETY: the header demands that the memory of the key is readable during the call.
        let key = unsafe { key.read() }?;
        let open = given(options).write(store.get()?.writer(&*key))?;
        let url = store.url(&key)?;
        let writer = store.operation(url.clone(), async move { Ok(open.await?) }).wait()?;
        out.write(handle(tg_writer::new(&store.shared, writer, url)));
        Ok(())
    })
}

/// # Safety
/// The memory is readable and unchanged until the operation is dropped.
unsafe fn write(writer: Option<&tg_writer>, data: *const c_void, length: usize) -> Outcome<Operation<()>> {
    // SAFETY: the caller promises it.
    let source = unsafe { Source::new(data, length) }?;
    let mut in_call = begin(writer)?;
    let open = in_call.open.clone();
    Ok(open.operation(async move {
        let bytes = source.bytes();
        let taken_by = in_call.writer()?;
        taken_by.write_all(bytes).await?;
        // With a journal, the bytes are durable when a write returns.
        taken_by.flush().await?;
        in_call.open.written.fetch_add(bytes.len() as u64, SeqCst);
        in_call.keep();
        Ok(())
    }))
}

/// Writes bytes. They are copied: when this returns, the memory is the caller's again. Waits while the memory budget is
/// used up, or as many parts are in flight as the strategy allows. Blocks.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tg_writer_write(
    writer: Option<&tg_writer>,
    data: *const c_void,
    length: usize,
) -> Option<Box<tg_error>> {
    call(|| {
        may_block()?;
        // SAFETY: the header demands that the memory is readable and unchanged during the call, which drops the operation.
        unsafe { write(writer, data, length) }?.wait_briefly()
    })
}

/// The asynchronous form of tg_writer_write. The memory must stay readable and unchanged until `done` has run.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tg_writer_write_async(
    writer: *const tg_writer,
    data: *const c_void,
    length: usize,
    done: tg_done,
    user: *mut c_void,
    op: *mut *mut tg_op,
) -> Option<Box<tg_error>> {
    call(|| {
        check_done(done)?;
        // SAFETY: the header demands it until `done` has run, and the operation is dropped before.
        let (write, op) = unsafe { (write(writer.as_ref(), data, length)?, Slot::new(op)) };
        write.start(drop, Done::new(done, user)?, op)
    })
}

/// Writes as many bytes as there is room for, and never waits; `taken` says how many. After 0, use another form of write
/// before long: the writer may hold its place in the line for memory until then. With the strategy `journal` that is
/// always so, because a write there waits for the disk.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tg_writer_try_write(
    writer: Option<&tg_writer>,
    data: *const c_void,
    length: usize,
    taken: Option<&mut MaybeUninit<usize>>,
) -> Option<Box<tg_error>> {
    call(|| {
        let out = needed(taken, "taken")?;
        // SAFETY: the header demands that the memory is readable and unchanged during the call.
        let bytes = unsafe { bytes(data, length) }?;
        let mut in_call = begin(writer)?;
        let open = in_call.open.clone();
        let mut taken = 0;
        if !open.is_journaled {
            let _entered = open.shared.get()?.runtime.enter();
            let taken_by = in_call.writer()?;
            while taken < length {
                let mut context = Context::from_waker(Waker::noop());
                match Pin::new(&mut *taken_by).poll_write(&mut context, &bytes[taken..]) {
                    Poll::Ready(more) => taken += more?,
                    Poll::Pending => break,
                }
            }
            // The caller learns how many bytes were taken: the library need not ask for that before it publishes.
            let _ = taken_by.position();
        }
        open.written.fetch_add(taken as u64, SeqCst);
        in_call.keep();
        out.write(taken);
        Ok(())
    })
}

/// Writes bytes without a copy, where they are 64 KiB or more: the library reads them until `release` gives the memory
/// back, which is when the store has them, or after the write has failed. `release` runs exactly once whatever this
/// returns, perhaps before it returns; unless `release` itself is NULL, which is refused. Blocks as tg_writer_write does.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tg_writer_write_owned(
    writer: Option<&tg_writer>,
    data: *mut c_void,
    length: usize,
    release: tg_release,
    user: *mut c_void,
) -> Option<Box<tg_error>> {
    // Before the call, which may not be carried out at all: then it drops the memory, and so gives it back.
    // SAFETY: the header demands that the memory is readable and unchanged until `release` runs.
    let lent = unsafe { lent::bytes(data, length, release, user) };
    call(|| {
        let lent = lent?;
        may_block()?;
        let mut in_call = begin(writer)?;
        let open = in_call.open.clone();
        let write = async move {
            let length = lent.len() as u64;
            in_call.writer()?.write_shared(lent).await?;
            in_call.open.written.fetch_add(length, SeqCst);
            in_call.keep();
            Ok(())
        };
        open.operation(write).wait_briefly()
    })
}

/// With the strategy `journal`: makes all bytes survive a loss of power, and says how many that are. With other
/// strategies it fails with TG_KIND_UNSUPPORTED, and the writer goes on. Blocks.
#[unsafe(no_mangle)]
pub extern "C" fn tg_writer_sync(
    writer: Option<&tg_writer>,
    durable: Option<&mut MaybeUninit<u64>>,
) -> Option<Box<tg_error>> {
    call(|| {
        let durable = needed(durable, "durable")?;
        may_block()?;
        let mut in_call = begin(writer)?;
        let open = in_call.open.clone();
        let sync = async move {
            let synced = in_call.writer()?.sync().await;
            in_call.keep();
            Ok(synced?)
        };
        durable.write(open.operation(sync).wait()?);
        Ok(())
    })
}

/// How many bytes were written, by all calls that have succeeded. A resumed writer begins where its upload stopped. 0 in a
/// forked child.
#[unsafe(no_mangle)]
pub extern "C" fn tg_writer_position(writer: Option<&tg_writer>) -> u64 {
    writer.and_then(|writer| writer.open.own()).map_or(0, |open| open.written.load(SeqCst))
}

fn finish(writer: Option<&tg_writer>) -> Outcome<Operation<Object>> {
    let mut in_call = begin(writer)?;
    let open = in_call.open.clone();
    Ok(open.operation(async move {
        let writer = in_call.take()?;
        // So it stays if this call is cancelled or panics.
        in_call.open.state.store(UNKNOWN, SeqCst);
        let finished = writer.finish().await;
        match &finished {
            Ok(_) => in_call.end(),
            Err(error) if error.kind() == ErrorKind::Uncertain => {}
            Err(_) => in_call.open.state.store(FAILED, SeqCst),
        }
        Ok(finished?)
    }))
}

/// Publishes the object: when this returns NULL, the whole object is visible. After an error it is not, and the writer has
/// failed; only TG_KIND_UNCERTAIN, and TG_KIND_CANCELLED or TG_KIND_PANIC where the store was publishing it at that moment,
/// leave that open: look with tg_head. The writer is still to be freed. `object` may be NULL. Blocks.
#[unsafe(no_mangle)]
pub extern "C" fn tg_writer_finish(
    writer: Option<&tg_writer>,
    object: Option<&mut MaybeUninit<*mut tg_object>>,
) -> Option<Box<tg_error>> {
    call(|| {
        may_block()?;
        give(finish(writer)?.wait()?, object)
    })
}

/// The asynchronous form of tg_writer_finish. `object` must stay writable until `done` has run.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tg_writer_finish_async(
    writer: *const tg_writer,
    object: *mut *mut tg_object,
    done: tg_done,
    user: *mut c_void,
    op: *mut *mut tg_op,
) -> Option<Box<tg_error>> {
    call(|| {
        check_done(done)?;
        // SAFETY: as the header demands.
        let (writer, deliver, op) = unsafe { (writer.as_ref(), later(object), Slot::new(op)) };
        finish(writer)?.start(deliver, Done::new(done, user)?, op)
    })
}

fn prepare(writer: Option<&tg_writer>) -> Outcome<Operation<CString>> {
    let mut in_call = begin(writer)?;
    let open = in_call.open.clone();
    Ok(open.operation(async move {
        let pending: Pending = in_call.take()?.prepare().await?;
        in_call.open.warn(pending.warning());
        in_call.end();
        Ok(c_string(&pending.to_json()))
    }))
}

/// Ends the write with all bytes at the store and nothing visible. `json` gets a description by which any process
/// publishes the object (tg_commit) or gives it up (tg_abandon) within six days; the caller frees it with tg_string_free.
/// It may name a Google session, whose holder can write the object: keep it as secret as a password. Blocks.
#[unsafe(no_mangle)]
pub extern "C" fn tg_writer_prepare(
    writer: Option<&tg_writer>,
    json: Option<&mut MaybeUninit<*mut c_char>>,
) -> Option<Box<tg_error>> {
    call(|| {
        let json = needed(json, "json")?;
        may_block()?;
        json.write(prepare(writer)?.wait()?.into_raw());
        Ok(())
    })
}

/// The asynchronous form of tg_writer_prepare. `json` must stay writable until `done` has run.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tg_writer_prepare_async(
    writer: *const tg_writer,
    json: *mut *mut c_char,
    done: tg_done,
    user: *mut c_void,
    op: *mut *mut tg_op,
) -> Option<Box<tg_error>> {
    call(|| {
        check_done(done)?;
        // SAFETY: as the header demands.
        let (writer, slot, op) = unsafe { (writer.as_ref(), Slot::new(json), Slot::new(op)) };
        let slot = needed(slot, "json")?;
        let deliver = move |text: CString| slot.write(text.into_raw());
        prepare(writer)?.start(deliver, Done::new(done, user)?, op)
    })
}

/// Makes all bytes so far outlast this process and this machine, and goes on. `json` gets a point from which any process
/// continues the upload within six days (tg_resume); the caller frees it with tg_string_free. From then on a free of the
/// writer leaves the session to the processes that have the point. Blocks.
#[unsafe(no_mangle)]
pub extern "C" fn tg_writer_persist(
    writer: Option<&tg_writer>,
    json: Option<&mut MaybeUninit<*mut c_char>>,
) -> Option<Box<tg_error>> {
    call(|| {
        let json = needed(json, "json")?;
        may_block()?;
        let mut in_call = begin(writer)?;
        let open = in_call.open.clone();
        let persist = async move {
            let point: Result<Resumable, _> = in_call.writer()?.persist().await;
            if let Ok(point) = &point {
                in_call.open.warn(point.warning());
            }
            in_call.keep();
            Ok(c_string(&point?.to_json()))
        };
        json.write(open.operation(persist).wait()?.into_raw());
        Ok(())
    })
}

impl OpenWriter {
    /// Keeps the first warning, whose text the caller may be reading.
    fn warn(&self, warning: Option<&str>) {
        if let Some(warning) = warning {
            self.warning.get_or_init(|| c_string(warning));
        }
    }
}

/// Why the store may end an upload before its six days, after tg_writer_prepare or tg_writer_persist; NULL if nothing is
/// known. Lives as long as the writer.
#[unsafe(no_mangle)]
pub extern "C" fn tg_writer_warning(writer: Option<&tg_writer>) -> *const c_char {
    let warning = writer.and_then(|writer| writer.open.own()?.warning.get());
    warning.map_or(ptr::null(), |warning| warning.as_ptr())
}

/// Aborts the upload, and waits until the store has released the session; with the strategy `journal` the journal is
/// removed too. Nothing is published. The writer is still to be freed. Blocks.
#[unsafe(no_mangle)]
pub extern "C" fn tg_writer_abort(writer: Option<&tg_writer>) -> Option<Box<tg_error>> {
    call(|| {
        may_block()?;
        let mut in_call = begin(writer)?;
        let open = in_call.open.clone();
        let abort = async move {
            in_call.take()?.abort().await?;
            in_call.end();
            Ok(())
        };
        open.operation(abort).wait()
    })
}

/// Ends the call that is under way, and discards the upload: each call then fails with TG_KIND_CANCELLED. A writer that
/// was finished or prepared stays so. Any thread, but not after tg_writer_free.
#[unsafe(no_mangle)]
pub extern "C" fn tg_writer_cancel(writer: Option<&tg_writer>) {
    free(|| {
        if let Some(open) = writer.and_then(|writer| writer.open.own()) {
            open.discard();
        }
    });
}

/// Frees a writer. One that was not finished is discarded: nothing becomes visible, and its session is aborted in the
/// background (tg_engine_wait_for_aborts); with the strategy `journal`, or after tg_writer_persist, what can be resumed
/// stays. An asynchronous call that is under way is cancelled, and its `done` still runs. No blocking call may be under
/// way.
#[unsafe(no_mangle)]
pub extern "C" fn tg_writer_free(writer: Option<Box<tg_writer>>) {
    free(|| drop(writer));
}
