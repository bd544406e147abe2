//! Writers. One call at a time has a writer; one that fails, is cancelled or panics takes it away, and nothing is published.

use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex as StdMutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use jni_sys::{JNIEnv, jboolean, jbyteArray, jclass, jint, jobject};
use tidegate::{ErrorKind, Strategy, Writer};
use tidegate_transfer::job::{FileDiscard, TaskWriter};
use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::sync::{Mutex, OwnedMutexGuard};
use tokio_util::sync::CancellationToken;

use crate::border;
use crate::buffer::Buffer;
use crate::call::{Reply, start};
use crate::engine::Shared;
use crate::error::{Failure, Outcome};
use crate::handle::{Handle, wrong};
use crate::store::described;
use crate::wire;

/// What writes. Both take bytes, are aborted and discarded alike; each ends in its own way.
pub(crate) enum AnyWriter {
    Object(Writer),
    TaskFile(TaskWriter),
}

impl From<Writer> for AnyWriter {
    fn from(writer: Writer) -> Self {
        Self::Object(writer)
    }
}

impl From<TaskWriter> for AnyWriter {
    fn from(writer: TaskWriter) -> Self {
        Self::TaskFile(writer)
    }
}

impl AnyWriter {
    fn position(&self) -> u64 {
        match self {
            Self::Object(writer) => writer.position(),
            Self::TaskFile(writer) => writer.position(),
        }
    }

    /// No file of a task has a journal: `TaskAttempt::writer` refuses that.
    fn is_journaled(&self) -> bool {
        matches!(self, Self::Object(writer) if writer.strategy() == Strategy::Journal)
    }

    fn bytes(&mut self) -> &mut (dyn AsyncWrite + Send + Unpin) {
        match self {
            Self::Object(writer) => writer,
            Self::TaskFile(writer) => writer,
        }
    }

    /// Takes as many bytes as there is room for, and says how many.
    fn take_some(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let mut taken = 0;
        while taken < bytes.len() {
            let mut context = Context::from_waker(Waker::noop());
            match Pin::new(self.bytes()).poll_write(&mut context, &bytes[taken..]) {
                Poll::Ready(more) => taken += more?,
                Poll::Pending => break,
            }
        }
        Ok(taken)
    }

    /// Takes all of `bytes`; with a journal, they are durable then.
    async fn take_all(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        let to = self.bytes();
        to.write_all(bytes).await?;
        to.flush().await
    }

    fn discarder(&self) -> Option<FileDiscard> {
        match self {
            Self::Object(_) => None,
            Self::TaskFile(writer) => Some(writer.discarder()),
        }
    }

    async fn abort(self) -> Outcome {
        match self {
            Self::Object(writer) => writer.abort().await?,
            Self::TaskFile(writer) => writer.abort().await?,
        }
        Ok(())
    }
}

pub(crate) struct OpenWriter {
    pub(crate) shared: Shared,
    url: String,
    /// `None` once it has ended or failed.
    writer: Arc<Mutex<Option<AnyWriter>>>,
    state: StdMutex<State>,
    /// Of a task's file.
    discarder: Option<FileDiscard>,
    /// Whether it was discarded without the caller's wish: bytes may be missing.
    is_lost: AtomicBool,
    pub(crate) cancel: CancellationToken,
    is_journaled: bool,
}

/// What calls have made of a writer.
#[derive(Clone, Copy, PartialEq)]
enum State {
    /// It goes on, or has ended as the caller wanted.
    Whole,
    Failed,
    /// A finish has begun, and nothing says whether it published the object.
    Unknown,
}

impl OpenWriter {
    /// A writer for Java: gives the handle, and where the writer begins.
    pub(crate) fn reply(shared: &Shared, writer: impl Into<AnyWriter>, url: String) -> Reply {
        let writer = writer.into();
        let position = wire::encoded(|to| to.count(writer.position()));
        let open = Self {
            shared: shared.clone(),
            url,
            state: StdMutex::new(State::Whole),
            cancel: CancellationToken::new(),
            is_journaled: writer.is_journaled(),
            discarder: writer.discarder(),
            is_lost: AtomicBool::new(false),
            writer: Arc::new(Mutex::new(Some(writer))),
        };
        Reply { value: Handle::Writer(Arc::new(open)).into_java(), ..Reply::bytes(position) }
    }

    /// Tells the task attempt that the caller does not want this file. After a failure only an abort says so, because a
    /// `try (…)` closes the writer then, too.
    fn discard_file(&self, also_failed: bool) {
        let is_whole = *self.state() == State::Whole && !self.is_lost.load(Ordering::Acquire);
        if let Some(file) = self.discarder.as_ref().filter(|_| also_failed || is_whole) {
            file.discard();
        }
    }

    /// Drops the writer: the upload is aborted in the background. A call that is under way ends, and drops it. A task attempt
    /// is not committed without the file, unless the caller has discarded it.
    pub(crate) fn discard(&self) {
        self.cancel.cancel();
        match self.writer.try_lock() {
            Ok(mut writer) => {
                let _entered = self.shared.runtime.enter();
                drop(writer.take());
            }
            Err(_) => {
                let writer = self.writer.clone();
                let drop = async move { drop(writer.lock().await.take()) };
                self.shared.ending.spawn_on(drop, &self.shared.runtime);
            }
        }
    }

    /// Why it takes no more calls.
    fn ended(&self) -> Failure {
        let why = match *self.state() {
            State::Whole => "the writer was finished, prepared, aborted or closed before",
            State::Failed => "an earlier call of this writer failed, and nothing was published",
            State::Unknown => {
                "its finish ended without saying whether the object was published: look with Store.stat"
            }
        };
        Failure::closed(&self.url, why)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A writer during one call. Dropped without [`keep`](Self::keep) or [`end`](Self::end), it takes the library's writer
/// with it: the call has failed, was cancelled or panicked, and bytes may be missing.
pub(crate) struct InCall {
    open: Arc<OpenWriter>,
    writer: OwnedMutexGuard<Option<AnyWriter>>,
    is_whole: bool,
}

impl InCall {
    /// Begins a call, which has the writer to itself.
    pub(crate) fn begin(open: &Arc<OpenWriter>) -> Outcome<Self> {
        // The task that drops a discarded writer may have the lock.
        if open.cancel.is_cancelled() {
            return Err(open.ended());
        }
        let Ok(writer) = open.writer.clone().try_lock_owned() else {
            let message = format!("{}: another call uses this writer at this moment", open.url);
            return Err(Failure::invalid(&message));
        };
        if writer.is_none() {
            return Err(open.ended());
        }
        Ok(Self { open: open.clone(), writer, is_whole: false })
    }

    fn any(&mut self) -> Outcome<&mut AnyWriter> {
        let open = &self.open;
        self.writer.as_mut().ok_or_else(|| open.ended())
    }

    /// The writer of an object.
    pub(crate) fn writer(&mut self) -> Outcome<&mut Writer> {
        match self.any()? {
            AnyWriter::Object(writer) => Ok(writer),
            AnyWriter::TaskFile(_) => Err(wrong()),
        }
    }

    fn take_any(&mut self) -> Outcome<AnyWriter> {
        self.writer.take().ok_or_else(|| self.open.ended())
    }

    /// Takes the writer of an object, for a call that ends it.
    pub(crate) fn take(&mut self) -> Outcome<Writer> {
        match self.take_any()? {
            AnyWriter::Object(writer) => Ok(writer),
            AnyWriter::TaskFile(_) => Err(wrong()),
        }
    }

    /// Takes the writer of a task's file, for a call that ends it.
    pub(crate) fn take_task_file(&mut self) -> Outcome<TaskWriter> {
        match self.take_any()? {
            AnyWriter::TaskFile(writer) => Ok(writer),
            AnyWriter::Object(_) => Err(wrong()),
        }
    }

    /// The call has left the writer whole, or ended it as it should.
    pub(crate) fn keep(mut self) {
        self.is_whole = true;
    }
}

impl Drop for InCall {
    fn drop(&mut self) {
        if !self.is_whole {
            let mut state = self.open.state();
            if *state == State::Whole {
                *state = State::Failed;
            }
            drop(state);
            let _entered = self.open.shared.runtime.enter();
            drop(self.writer.take());
        }
    }
}

/// Has the engine carry out `work`, a call that has a writer to itself.
///
/// # Safety
/// `env` is what the JVM passed to this native method, and `writer` is a handle whose Java object is reachable.
pub(crate) unsafe fn during<F>(env: *mut JNIEnv, writer: i64, token: i64, work: impl FnOnce(InCall) -> F)
where
    F: Future<Output = Outcome<Reply>> + Send + 'static,
{
    // SAFETY: the caller promises it.
    unsafe {
        border::call(env, |_| {
            let open = Handle::writer(writer)?;
            start(&open.shared, token, &open.cancel, work(InCall::begin(open)?));
            Ok(())
        })
    }
}

/// `Native.openWriter`: gives a handle, and the position 0.
#[unsafe(no_mangle)]
pub unsafe extern "system" fn Java_io_tidegate_Native_openWriter(
    env: *mut JNIEnv,
    _: jclass,
    store: i64,
    token: i64,
    key: jbyteArray,
    options: jbyteArray,
) {
    // SAFETY: the JVM calls this, with references to byte arrays, and a handle whose Java object is reachable. So it is
    // with all functions below.
    unsafe {
        border::call(env, |env| {
            let store = Handle::store(store)?;
            let (key, options) = (border::text(env, key)?, border::options(env, options)?);
            let url = format!("{}/{key}", store.store.location());
            let (open, shared) = (options.write(store.store.writer(key))?, store.shared.clone());
            store.start(token, async move { Ok(OpenWriter::reply(&shared, open.await?, url)) });
            Ok(())
        })
    }
}

/// `Native.isJournaled`: whether bytes are durable when a write has returned.
#[unsafe(no_mangle)]
pub unsafe extern "system" fn Java_io_tidegate_Native_isJournaled(
    env: *mut JNIEnv,
    _: jclass,
    writer: i64,
) -> u8 {
    // SAFETY: as above.
    unsafe { border::call(env, |_| Ok(Handle::writer(writer)?.is_journaled.into())) }
}

/// `Native.tryWrite`: writes as many bytes as there is room for, never waits, and says how many. With a journal there is
/// never room: a write there waits for the disk.
#[unsafe(no_mangle)]
pub unsafe extern "system" fn Java_io_tidegate_Native_tryWrite(
    env: *mut JNIEnv,
    _: jclass,
    writer: i64,
    array: jbyteArray,
    direct: jobject,
    from: jint,
    length: jint,
) -> jint {
    // SAFETY: as above; `array` or `direct` is null.
    unsafe {
        border::call(env, |env| {
            let open = Handle::writer(writer)?;
            let buffer = Buffer::new(env, array, direct, from, length)?;
            let mut in_call = InCall::begin(open)?;
            let mut taken = 0;
            if !open.is_journaled {
                let _entered = open.shared.runtime.enter();
                let taken_by = in_call.any()?;
                taken = buffer.give(env, |bytes| taken_by.take_some(bytes))?;
                // The caller learns how many bytes were taken: the library need not ask for that before it publishes.
                let _ = taken_by.position();
            }
            in_call.keep();
            // No more than `length`, which is a `jint`.
            Ok(taken as jint)
        })
    }
}

/// `Native.write`: copies the bytes, and waits until all of them are written.
#[unsafe(no_mangle)]
pub unsafe extern "system" fn Java_io_tidegate_Native_write(
    env: *mut JNIEnv,
    _: jclass,
    writer: i64,
    token: i64,
    array: jbyteArray,
    direct: jobject,
    from: jint,
    length: jint,
) {
    // SAFETY: as above; `array` or `direct` is null.
    unsafe {
        border::call(env, |env| {
            let open = Handle::writer(writer)?;
            let bytes = Buffer::new(env, array, direct, from, length)?.copied(env);
            let mut in_call = InCall::begin(open)?;
            start(&open.shared, token, &open.cancel, async move {
                in_call.any()?.take_all(&bytes).await?;
                in_call.keep();
                Ok(Reply::default())
            });
            Ok(())
        })
    }
}

/// `Native.sync`: makes all bytes durable in the journal, and gives their number.
#[unsafe(no_mangle)]
pub unsafe extern "system" fn Java_io_tidegate_Native_sync(
    env: *mut JNIEnv,
    _: jclass,
    writer: i64,
    token: i64,
) {
    // SAFETY: as above.
    unsafe {
        during(env, writer, token, |mut in_call| async move {
            let synced = in_call.writer()?.sync().await;
            // Without a journal a sync is refused, and the writer goes on.
            in_call.keep();
            Ok(Reply::number(i64::try_from(synced?).unwrap_or(i64::MAX)))
        })
    }
}

/// `Native.finish`: publishes the object, and gives it.
#[unsafe(no_mangle)]
pub unsafe extern "system" fn Java_io_tidegate_Native_finish(
    env: *mut JNIEnv,
    _: jclass,
    writer: i64,
    token: i64,
) {
    // SAFETY: as above.
    unsafe {
        during(env, writer, token, |mut in_call| async move {
            let writer = in_call.take()?;
            // So it stays if this call is cancelled or panics.
            *in_call.open.state() = State::Unknown;
            let finished = writer.finish().await;
            *in_call.open.state() = match &finished {
                Ok(_) => State::Whole,
                Err(error) if error.kind() == ErrorKind::Uncertain => State::Unknown,
                Err(_) => State::Failed,
            };
            in_call.keep();
            Ok(described(&finished?))
        })
    }
}

/// `Native.abort`: waits until the store has released the session.
#[unsafe(no_mangle)]
pub unsafe extern "system" fn Java_io_tidegate_Native_abort(
    env: *mut JNIEnv,
    _: jclass,
    writer: i64,
    token: i64,
) {
    // SAFETY: as above.
    unsafe {
        border::call(env, |_| {
            let open = Handle::writer(writer)?;
            // Also if there is nothing to abort, because a call has failed.
            open.discard_file(true);
            let mut in_call = InCall::begin(open)?;
            start(&open.shared, token, &open.cancel, async move {
                in_call.take_any()?.abort().await?;
                in_call.keep();
                Ok(Reply::default())
            });
            Ok(())
        })
    }
}

/// `Native.close`: ends the call that is under way, and the upload, as the caller wants it.
#[unsafe(no_mangle)]
pub unsafe extern "system" fn Java_io_tidegate_Native_close(
    env: *mut JNIEnv,
    _: jclass,
    writer: i64,
    also_failed: jboolean,
) {
    // SAFETY: as above.
    unsafe {
        border::call(env, |_| {
            let open = Handle::writer(writer)?;
            open.discard_file(also_failed);
            open.discard();
            Ok(())
        })
    }
}

/// `Native.lose`: ends the call that is under way, and the upload. A task attempt is not committed without the file.
#[unsafe(no_mangle)]
pub unsafe extern "system" fn Java_io_tidegate_Native_lose(env: *mut JNIEnv, _: jclass, writer: i64) {
    // SAFETY: as above.
    unsafe {
        border::call(env, |_| {
            let open = Handle::writer(writer)?;
            open.is_lost.store(true, Ordering::Release);
            open.discard();
            Ok(())
        })
    }
}
