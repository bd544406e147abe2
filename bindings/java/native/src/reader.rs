//! Readers.

use std::ops::Range;
use std::ptr;
use std::sync::Arc;

use bytes::{Buf, Bytes};
use futures::TryStreamExt;
use jni_sys::{JNIEnv, jbyteArray, jclass, jint, jobject};
use tidegate::download::ReaderBuilder;
use tidegate::{ErrorKind, Object, Reader, Store};
use tokio::sync::Mutex;
use tokio_util::sync::CancellationToken;

use crate::border;
use crate::buffer::{Buffer, Target};
use crate::call::{Reply, start};
use crate::engine::Shared;
use crate::error::{Failure, Outcome};
use crate::handle::Handle;
use crate::jvm::on_this_thread;
use crate::object::encoded;

/// The most bytes of a block of ranges, which is held in memory until it is whole.
const BLOCK: u64 = 1 << 20;

pub(crate) struct OpenReader {
    shared: Shared,
    store: Store,
    key: String,
    /// The object that all bytes are of.
    object: Object,
    stream: Arc<Mutex<Stream>>,
    cancel: CancellationToken,
}

impl OpenReader {
    fn builder(&self) -> ReaderBuilder {
        self.store.reader(&self.key).if_unchanged(&self.object)
    }

    /// Ends all calls that are under way, and the request behind the stream.
    pub(crate) fn close(&self) {
        self.cancel.cancel();
        let (stream, kept) = (self.stream.clone(), self.shared.clone());
        self.shared.runtime.spawn(async move {
            stream.lock().await.end();
            drop(kept);
        });
    }
}

/// The bytes of the object in order.
struct Stream {
    /// `None` until the first read after the opening or a seek.
    reader: Option<Reader>,
    /// Bytes that have arrived and were not taken.
    rest: Bytes,
    /// Where the first byte of `rest` is in the object.
    at: u64,
    /// For good: after a failure, a later read must not go on as if all bytes so far had been right.
    has_failed: bool,
}

impl Stream {
    fn end(&mut self) {
        (self.reader, self.rest, self.has_failed) = (None, Bytes::new(), true);
    }

    /// Has bytes at `position`, unless that is the end of the object.
    async fn fill(&mut self, position: u64, builder: ReaderBuilder, size: u64) -> Outcome {
        if self.has_failed {
            return Err(Failure::closed("", "an earlier read of this reader failed"));
        }
        // Until this read has succeeded: one that is cancelled leaves it so.
        self.has_failed = true;
        let skipped = position.checked_sub(self.at).filter(|skipped| *skipped <= self.rest.len() as u64);
        match skipped {
            // No more than the length of `rest`.
            Some(skipped) => self.rest.advance(skipped as usize),
            None => (self.reader, self.rest) = (None, Bytes::new()),
        }
        self.at = position;
        if self.rest.is_empty() && position < size {
            let mut reader = match self.reader.take() {
                Some(reader) => reader,
                None => builder.range(position..).await?,
            };
            while self.rest.is_empty() {
                let torn = || Failure::of(ErrorKind::Integrity, "", "the object ends before its size");
                self.rest = reader.try_next().await?.ok_or_else(torn)?;
            }
            // The last bytes are given once the checksum of the whole was compared.
            if position + self.rest.len() as u64 == size {
                while reader.try_next().await?.is_some() {}
            }
            self.reader = Some(reader);
        }
        self.has_failed = false;
        Ok(())
    }
}

/// `Native.openReader`: gives a handle and the object. With the option `random` it asks for no bytes, and with
/// `if_unchanged` beside for nothing.
#[unsafe(no_mangle)]
pub unsafe extern "system" fn Java_io_tidegate_Native_openReader(
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
            let open = Handle::store(store)?;
            let (key, options) = (border::text(env, key)?, border::options(env, options)?);
            if options.known_size()?.is_some() {
                let message =
                    "a reader in Java has no option `size`: open it by its ObjectInfo, which has the size";
                return Err(Failure::invalid(message));
            }
            let (store, shared) = (open.store.clone(), open.shared.clone());
            let builder = options.read(store.reader(key.clone()))?;
            let (is_random, described) = (options.is_random()?, options.described()?);
            open.start(token, async move {
                let (object, reader) = match (is_random, described) {
                    (false, _) => {
                        let reader = builder.await?;
                        (reader.object().clone(), Some(reader))
                    }
                    (true, Some(object)) if object.known_size().is_some() => (object, None),
                    (true, described) => {
                        let found = store.head(&key).await?;
                        // Some listings leave out the size, which tells where the object ends.
                        if described.is_some_and(|described| !described.is_same(&found)) {
                            let url = format!("{}/{key}", store.location());
                            return Err(Failure::of(
                                ErrorKind::Replaced,
                                &url,
                                "the key has another object now",
                            ));
                        }
                        (found, None)
                    }
                };
                let payload = encoded(&object);
                let stream = Stream { reader, rest: Bytes::new(), at: 0, has_failed: false };
                let reader = OpenReader {
                    shared,
                    store,
                    key,
                    object,
                    stream: Arc::new(Mutex::new(stream)),
                    cancel: CancellationToken::new(),
                };
                Ok(Reply {
                    value: Handle::Reader(Box::new(reader)).into_java(),
                    payload: Some(payload.into()),
                })
            });
            Ok(())
        })
    }
}

/// `Native.fill`: waits until there are bytes at `position`, for `take`.
#[unsafe(no_mangle)]
pub unsafe extern "system" fn Java_io_tidegate_Native_fill(
    env: *mut JNIEnv,
    _: jclass,
    reader: i64,
    token: i64,
    position: i64,
) {
    // SAFETY: as above.
    unsafe {
        border::call(env, |_| {
            let open = Handle::reader(reader)?;
            let position = u64::try_from(position).map_err(|_| Failure::invalid("a position is negative"))?;
            let (stream, builder, size) = (open.stream.clone(), open.builder(), open.object.size);
            start(&open.shared, token, &open.cancel, async move {
                stream.lock().await.fill(position, builder, size).await?;
                Ok(Reply::default())
            });
            Ok(())
        })
    }
}

/// `Native.take`: copies bytes at `position` that have arrived, and never waits; 0 says that `fill` is needed.
#[unsafe(no_mangle)]
pub unsafe extern "system" fn Java_io_tidegate_Native_take(
    env: *mut JNIEnv,
    _: jclass,
    reader: i64,
    position: i64,
    array: jbyteArray,
    direct: jobject,
    from: jint,
    length: jint,
) -> jint {
    // SAFETY: as above; `array` or `direct` is null.
    unsafe {
        border::call(env, |env| {
            let buffer = Buffer::new(env, array, direct, from, length)?;
            let Ok(mut stream) = Handle::reader(reader)?.stream.try_lock() else { return Ok(0) };
            if stream.has_failed || u64::try_from(position) != Ok(stream.at) {
                return Ok(0);
            }
            let taken = buffer.put_at(env, 0, &stream.rest);
            stream.rest.advance(taken);
            stream.at += taken as u64;
            // No more than `length`, which is a `jint`.
            Ok(taken as jint)
        })
    }
}

/// `Native.readAt`: one request for the bytes from `position` on; gives their number, which is less at the object's end.
#[unsafe(no_mangle)]
pub unsafe extern "system" fn Java_io_tidegate_Native_readAt(
    env: *mut JNIEnv,
    _: jclass,
    reader: i64,
    token: i64,
    position: i64,
    array: jbyteArray,
    direct: jobject,
    from: jint,
    length: jint,
) {
    // SAFETY: as above; `array` or `direct` is null.
    unsafe {
        border::call(env, |env| {
            let open = Handle::reader(reader)?;
            let mut target = Target::new(env, array, direct, from, length)?;
            let range = range(position, target.len())?;
            let range = range.start..range.end.min(open.object.size);
            let (builder, cancel) = (open.builder(), open.cancel.clone());
            start(&open.shared, token, &cancel, async move {
                if range.start < range.end {
                    let mut pieces = builder.range(range).await?;
                    while let Some(piece) = pieces.try_next().await? {
                        on_this_thread(|env| target.put(env, &piece));
                    }
                }
                Ok(Reply::number(target.filled() as i64))
            });
            Ok(())
        })
    }
}

fn range(position: i64, length: usize) -> Outcome<Range<u64>> {
    let outside = || Failure::invalid("a range ends past the last byte that there can be");
    let start = u64::try_from(position).map_err(|_| Failure::invalid("a position is negative"))?;
    Ok(start..start.checked_add(length as u64).ok_or_else(outside)?)
}

/// Blocks of the ranges, each with the number of its range.
fn blocks(ranges: &[(Range<u64>, Target)]) -> Vec<(usize, Range<u64>)> {
    let cut = |(number, (range, _)): (usize, &(Range<u64>, Target))| {
        let end = range.end;
        let starts = (range.start..end).step_by(BLOCK as usize);
        starts.map(move |start| (number, start..end.min(start + BLOCK))).collect::<Vec<_>>()
    };
    ranges.iter().enumerate().flat_map(cut).collect()
}

/// `Native.readRanges`: fills each buffer whole. Positions come in ascending order, and no two ranges overlap.
#[unsafe(no_mangle)]
pub unsafe extern "system" fn Java_io_tidegate_Native_readRanges(
    env: *mut JNIEnv,
    _: jclass,
    reader: i64,
    token: i64,
    buffers: jobject,
    bounds: jobject,
) {
    // SAFETY: as above. `bounds` has four numbers for each buffer: 1 for a direct one and 0 for an array, where its bytes
    // begin, how many they are, and their position in the object.
    unsafe {
        border::call(env, |env| {
            let open = Handle::reader(reader)?;
            let bounds = env.numbers(bounds);
            let (bounds, _) = bounds.as_chunks::<4>();
            let mut ranges = Vec::with_capacity(bounds.len());
            env.each(buffers, |number, buffer| {
                let Some(&[is_direct, from, length, position]) = bounds.get(number) else {
                    return Err(Failure::invalid("a buffer has no range"));
                };
                let (array, direct) =
                    if is_direct == 1 { (ptr::null_mut(), buffer) } else { (buffer, ptr::null_mut()) };
                let bound = |bound: i64| jint::try_from(bound).unwrap_or(-1);
                let target = Target::new(env, array, direct, bound(from), bound(length))?;
                ranges.push((range(position, target.len())?, target));
                Ok(())
            })?;
            let of_block = blocks(&ranges);
            let index: Vec<_> = of_block.iter().map(|(_, block)| block.clone()).collect();
            let blocks = open.store.blocks(&open.key, index).if_unchanged(&open.object);
            start(&open.shared, token, &open.cancel, async move {
                let mut blocks = blocks.await?;
                while let Some(block) = blocks.try_next().await? {
                    // Blocks come in order, and a range's follow each other.
                    let target = &mut ranges[of_block[block.number].0].1;
                    on_this_thread(|env| target.put(env, &block.bytes));
                }
                Ok(Reply::default())
            });
            Ok(())
        })
    }
}

/// `Native.closeReader`: ends all calls that are under way, and all later ones.
#[unsafe(no_mangle)]
pub unsafe extern "system" fn Java_io_tidegate_Native_closeReader(env: *mut JNIEnv, _: jclass, reader: i64) {
    // SAFETY: as above.
    unsafe {
        border::call(env, |_| {
            Handle::reader(reader)?.close();
            Ok(())
        })
    }
}
