//! Readers.

use std::ffi::c_void;
use std::mem::MaybeUninit;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use futures::TryStreamExt;
use tidegate::download::ReaderBuilder;
use tidegate::{Object, Reader, Store};
use tokio::sync::Mutex;
use tokio_util::sync::CancellationToken;

use crate::border::{call, free, handle, needed};
use crate::engine::Shared;
use crate::error::{Outcome, TG_KIND_CLOSED, TG_KIND_REPLACED, failure, invalid, tg_error};
use crate::memory::{Slot, Target};
use crate::object::tg_object;
use crate::operation::{Done, Operation, tg_done, tg_op};
use crate::options::{given, tg_options};
use crate::process::OfProcess;
use crate::ranges::{Pieces, tg_range};
use crate::store::tg_store;
use crate::text::{items, tg_str};

/// Reads one object, as it was when the reader was opened: if it is replaced, reads fail with TG_KIND_REPLACED. Any
/// thread may use it, with any number of tg_reader_read_at and tg_reader_read_ranges at once; of tg_reader_read, a second
/// call at the same moment fails.
#[derive(Debug)]
pub struct tg_reader {
    open: OfProcess<OpenReader>,
    object: tg_object,
}

#[derive(Debug)]
struct OpenReader {
    shared: Shared,
    store: Store,
    key: String,
    url: Arc<str>,
    stream: Arc<Mutex<Stream>>,
    identity: Arc<Identity>,
    cancel: CancellationToken,
}

/// The object that all bytes are of.
#[derive(Debug)]
struct Identity {
    /// As it was when the reader was opened; `None` if the caller gave the size instead.
    opened: Option<Object>,
    /// Otherwise, the object of the first response.
    found: OnceLock<Object>,
    size: u64,
    url: Arc<str>,
}

impl Identity {
    fn object(&self) -> Option<&Object> {
        self.opened.as_ref().or_else(|| self.found.get())
    }

    /// A read of the same object, as far as it is known.
    fn of(&self, builder: ReaderBuilder) -> ReaderBuilder {
        match self.object() {
            Some(object) => builder.if_unchanged(object),
            None => builder,
        }
    }

    /// Fails if a response is about another object, where the request could not say which one it is to be: the first
    /// response says that, and requests may race for it.
    fn check(&self, response: &Object) -> Outcome<()> {
        if self.opened.is_some() {
            return Ok(());
        }
        if response.size != self.size {
            let message = format!("the object has {} bytes, and not {}", response.size, self.size);
            return Err(failure(TG_KIND_REPLACED, &self.url, &message));
        }
        let object = self.found.get_or_init(|| response.clone());
        if object.has_identity() && response.has_identity() && !object.is_same(response) {
            return Err(failure(TG_KIND_REPLACED, &self.url, "the object was replaced during the read"));
        }
        Ok(())
    }
}

impl OpenReader {
    fn operation<T: Send + 'static>(
        &self,
        work: impl Future<Output = Outcome<T>> + Send + 'static,
    ) -> Operation<T> {
        Operation::new(&self.shared, self.cancel.clone(), work).about(self.url.clone())
    }
}

/// The bytes of the object in order.
#[derive(Debug)]
struct Stream {
    /// `None` until the first read, and once a read has failed.
    reader: Option<Reader>,
    has_failed: bool,
    /// Bytes that have arrived and were not given.
    rest: Bytes,
    /// Bytes that have arrived.
    at: u64,
}

impl Stream {
    /// Fills some of `target`; nothing at the end.
    async fn read(&mut self, reader: &mut Reader, target: &mut Target) -> tidegate::Result<()> {
        if self.rest.is_empty() {
            self.rest = reader.try_next().await?.unwrap_or_default();
            self.at += self.rest.len() as u64;
            // The last bytes are given once the checksum of the whole was compared.
            if self.at == reader.object().size {
                while reader.try_next().await?.is_some() {}
            }
        }
        let piece = self.rest.split_to(self.rest.len().min(target.left()));
        target.put(&piece);
        Ok(())
    }
}

/// Opens an object. Without options, one request does that, and asks for all bytes, which tg_reader_read takes as they
/// come. With the option `random` set to `true` it asks only for the description, and with `random` and either
/// `if_unchanged` or `size` for nothing: after `size`, the first read finds out which object it is, and reads fail with
/// TG_KIND_REPLACED if it has another size. Blocks.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tg_reader_open(
    store: Option<&tg_store>,
    key: tg_str,
    options: Option<&tg_options>,
    reader: Option<&mut MaybeUninit<*mut tg_reader>>,
) -> Option<Box<tg_error>> {
    call(|| {
        let (store, out) = (needed(store, "store")?, needed(reader, "reader")?);
        // SAFETY: the header demands that the memory of the key is readable during the call.
        let key = unsafe { key.read() }?;
        let (of, options) = (store.get()?.clone(), given(options));
        let (builder, described) = (options.read(of.reader(key.clone()))?, options.described()?);
        let (is_random, to_open) = (options.is_random()?, (of.clone(), key.clone()));
        let size = options.known_size()?;
        if size.is_some() && !is_random {
            return Err(invalid("the option `size` of a read needs `random`"));
        }
        if size.is_some() && described.is_some() {
            return Err(invalid(
                "a read has one of the options `size` and `if_unchanged`: the object of `if_unchanged` has a size",
            ));
        }
        let is_identified = described.is_some() || size.is_none();
        let open = async move {
            Ok(match (is_random, described, size) {
                (false, ..) => by_reading(builder).await?,
                (true, None, Some(size)) => {
                    let mut object = Object::default();
                    (object.key, object.size) = (to_open.1, size);
                    (object, None)
                }
                (true, described, _) => at_random(&to_open.0, &to_open.1, builder, described).await?,
            })
        };
        let url = store.url(&key)?;
        let (object, stream) = store.operation(url.clone(), open).wait()?;
        let identity = Identity {
            opened: is_identified.then(|| object.clone()),
            found: OnceLock::new(),
            size: object.size,
            url: url.clone(),
        };
        let stream = Stream { reader: stream, has_failed: false, rest: Bytes::new(), at: 0 };
        let open = OpenReader {
            shared: store.shared.clone(),
            store: of,
            key,
            url,
            stream: Arc::new(Mutex::new(stream)),
            identity: Arc::new(identity),
            cancel: CancellationToken::new(),
        };
        out.write(handle(tg_reader { open: OfProcess::new(open), object: object.into() }));
        Ok(())
    })
}

/// The object of a first request for its bytes, and that request.
async fn by_reading(builder: ReaderBuilder) -> tidegate::Result<(Object, Option<Reader>)> {
    let reader = builder.await?;
    Ok((reader.object().clone(), Some(reader)))
}

/// The object for reads at any place, by a description of it, if that has the size: only a read tells where another ends.
async fn at_random(
    store: &Store,
    key: &str,
    builder: ReaderBuilder,
    described: Option<Object>,
) -> tidegate::Result<(Object, Option<Reader>)> {
    let object = match described {
        Some(object) => object,
        None => store.head(key).await?,
    };
    match object.known_size() {
        Some(_) => Ok((object, None)),
        None => by_reading(builder).await,
    }
}

/// The size of the object, in bytes.
#[unsafe(no_mangle)]
pub extern "C" fn tg_reader_size(reader: Option<&tg_reader>) -> u64 {
    reader.map_or(0, |reader| reader.object.object.size)
}

/// The object, which lives as long as the reader.
#[unsafe(no_mangle)]
pub extern "C" fn tg_reader_object(reader: Option<&tg_reader>) -> *const tg_object {
    reader.map_or(std::ptr::null(), |reader| &raw const reader.object)
}

/// Reads the next bytes, `length` at most, as many as are there; `read` is 0 at the end of the object, and only there,
/// or if `length` is 0. Bytes are read ahead. The last bytes are given only after the checksum of the whole object has
/// matched. After an error every later tg_reader_read fails with TG_KIND_CLOSED. Blocks.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tg_reader_read(
    reader: Option<&tg_reader>,
    to: *mut c_void,
    length: usize,
    read: Option<&mut MaybeUninit<usize>>,
) -> Option<Box<tg_error>> {
    call(|| {
        let (reader, read) = (needed(reader, "reader")?, needed(read, "read")?);
        // SAFETY: the header demands that the memory is writable and used by nobody else during the call, which drops the
        // operation.
        let mut target = unsafe { Target::new(to, length) }?;
        let open = reader.open.get()?;
        let stream = open.stream.clone().try_lock_owned();
        let mut stream =
            stream.map_err(|_| invalid("another call reads this reader's next bytes at this moment"))?;
        let (builder, identity) = (open.store.reader(&open.key), open.identity.clone());
        let url = open.url.clone();
        let work = async move {
            if stream.has_failed {
                return Err(failure(TG_KIND_CLOSED, &url, "an earlier read of this reader failed"));
            }
            if target.left() == 0 {
                return Ok(0);
            }
            // Until this read has succeeded: one that is cancelled leaves it so.
            stream.has_failed = true;
            let mut reader = match stream.reader.take() {
                Some(reader) => reader,
                None => {
                    let opened = identity.of(builder).await?;
                    identity.check(opened.object())?;
                    opened
                }
            };
            stream.read(&mut reader, &mut target).await?;
            (stream.reader, stream.has_failed) = (Some(reader), false);
            Ok(target.filled())
        };
        read.write(open.operation(work).wait_briefly()?);
        Ok(())
    })
}

/// # Safety
/// The memory is writable and used by nobody else until the operation is dropped.
unsafe fn read_at(
    reader: Option<&tg_reader>,
    offset: u64,
    to: *mut c_void,
    length: usize,
) -> Outcome<Operation<usize>> {
    let reader = needed(reader, "reader")?;
    // SAFETY: the caller promises it.
    let mut target = unsafe { Target::new(to, length) }?;
    let (open, object) = (reader.open.get()?, &reader.object.object);
    let end = offset.saturating_add(length as u64).min(object.size);
    let identity = open.identity.clone();
    let range = (offset < end).then(|| identity.of(open.store.reader(&open.key).range(offset..end)));
    Ok(open.operation(async move {
        if let Some(range) = range {
            let mut pieces = range.await?;
            identity.check(pieces.object())?;
            while let Some(piece) = pieces.try_next().await? {
                target.put(&piece);
            }
        }
        Ok(target.filled())
    }))
}

/// Reads the bytes from `offset` on: `length` bytes, or fewer at the object's end; `read` says how many. One request, and
/// none past the end. Blocks.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tg_reader_read_at(
    reader: Option<&tg_reader>,
    offset: u64,
    to: *mut c_void,
    length: usize,
    read: Option<&mut MaybeUninit<usize>>,
) -> Option<Box<tg_error>> {
    call(|| {
        let read = needed(read, "read")?;
        // SAFETY: the header demands it during the call, which drops the operation.
        read.write(unsafe { read_at(reader, offset, to, length) }?.wait()?);
        Ok(())
    })
}

/// The asynchronous form of tg_reader_read_at. `to` and `read` must stay writable, and be used by nobody else, until
/// `done` has run.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tg_reader_read_at_async(
    reader: *const tg_reader,
    offset: u64,
    to: *mut c_void,
    length: usize,
    read: *mut usize,
    done: tg_done,
    user: *mut c_void,
    op: *mut *mut tg_op,
) -> Option<Box<tg_error>> {
    call(|| {
        // SAFETY: as the header demands; the operation is dropped before `done` runs.
        let (work, slot, op) =
            unsafe { (read_at(reader.as_ref(), offset, to, length)?, Slot::new(read), Slot::new(op)) };
        let slot = needed(slot, "read")?;
        work.start(move |length| slot.write(length), Done::new(done, user)?, op)
    })
}

/// # Safety
/// The array is readable during the call. The memory of each range is writable and used by nobody else until the
/// operation is dropped.
unsafe fn read_ranges(
    reader: Option<&tg_reader>,
    ranges: *const tg_range,
    count: usize,
) -> Outcome<Operation<()>> {
    let reader = needed(reader, "reader")?;
    // SAFETY: the caller promises both.
    let mut pieces = unsafe { Pieces::new(items(ranges, count)?) }?;
    let open = reader.open.get()?;
    let identity = open.identity.clone();
    let blocks = open.store.blocks(&open.key, pieces.index());
    let blocks = match identity.object() {
        Some(object) => blocks.if_unchanged(object),
        None => blocks,
    };
    Ok(open.operation(async move {
        let mut blocks = blocks.await?;
        blocks.object().map_or(Ok(()), |object| identity.check(object))?;
        while let Some(block) = blocks.try_next().await? {
            pieces.put(block.range.start, &block.bytes);
        }
        Ok(())
    }))
}

/// Reads many ranges, all of them whole: each must lie within the object. They may overlap, and come in any order; those
/// that lie close together share a request. Blocks.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tg_reader_read_ranges(
    reader: Option<&tg_reader>,
    ranges: *const tg_range,
    count: usize,
) -> Option<Box<tg_error>> {
    // SAFETY: the header demands it during the call, which drops the operation.
    call(|| unsafe { read_ranges(reader, ranges, count) }?.wait())
}

/// The asynchronous form of tg_reader_read_ranges. The array is copied; the memory of each range must stay writable, and
/// be used by nobody else, until `done` has run.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tg_reader_read_ranges_async(
    reader: *const tg_reader,
    ranges: *const tg_range,
    count: usize,
    done: tg_done,
    user: *mut c_void,
    op: *mut *mut tg_op,
) -> Option<Box<tg_error>> {
    call(|| {
        // SAFETY: as the header demands; the operation is dropped before `done` runs.
        let (work, op) = unsafe { (read_ranges(reader.as_ref(), ranges, count)?, Slot::new(op)) };
        work.start(drop, Done::new(done, user)?, op)
    })
}

/// Ends all calls that are under way, and all later ones, with TG_KIND_CANCELLED. Any thread, but not after
/// tg_reader_free.
#[unsafe(no_mangle)]
pub extern "C" fn tg_reader_cancel(reader: Option<&tg_reader>) {
    free(|| {
        if let Some(open) = reader.and_then(|reader| reader.open.own()) {
            open.cancel.cancel();
        }
    });
}

/// Frees a reader. Asynchronous calls that are under way are cancelled, and their `done` still runs. No blocking call may
/// be under way.
#[unsafe(no_mangle)]
pub extern "C" fn tg_reader_free(reader: Option<Box<tg_reader>>) {
    free(|| {
        let Some(reader) = reader else { return };
        // In a forked child it is leaked.
        if let Some(open) = reader.open.own() {
            open.cancel.cancel();
            // The stream's drop cancels requests of the runtime.
            let shared = open.shared.clone();
            let _entered = shared.own().map(|running| running.runtime.enter());
            drop(reader);
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn an_object_whose_description_has_no_size_is_not_empty() -> tidegate::Result<()> {
        let store = tidegate::Tidegate::builder().build()?.open("memory://unsized").await?;
        let mut object = store.put("k", "12345").await?;
        (object.size, object.size_is_unknown) = (0, true);
        let (found, reader) = at_random(&store, "k", store.reader("k"), Some(object)).await?;
        assert_eq!((found.known_size(), reader.is_some()), (Some(5), true));
        let (found, reader) = at_random(&store, "k", store.reader("k"), None).await?;
        assert_eq!((found.known_size(), reader.is_none()), (Some(5), true));
        Ok(())
    }
}
