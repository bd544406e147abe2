//! Memory of Java: an array on its heap, or a direct buffer outside of it.

use jni_sys::{jbyteArray, jint, jobject};

use crate::error::{Failure, Outcome};
use crate::jvm::{Env, Kept};

/// What a native method copies of an array at a time: as much as stays in the fastest cache until it is copied on.
const PIECE: usize = 32 << 10;

/// Bytes of an array or of a direct buffer, as long as the reference to it is live.
#[derive(Clone, Copy)]
pub(crate) struct Buffer {
    object: jobject,
    /// Where the bytes of a direct buffer begin; `None` for an array.
    memory: Option<*mut u8>,
    /// Where the bytes of an array begin.
    start: usize,
    length: usize,
}

impl Buffer {
    /// The `length` bytes from `start` on. Exactly one of `array` and `direct` is not null.
    ///
    /// # Safety
    /// Both are null or live references to what they are named for, which stay so as long as this is used.
    pub(crate) unsafe fn new(
        env: &Env,
        array: jbyteArray,
        direct: jobject,
        start: jint,
        length: jint,
    ) -> Outcome<Self> {
        let outside = || Failure::invalid("a range of bytes lies outside of its buffer");
        let start = usize::try_from(start).map_err(|_| outside())?;
        let length = usize::try_from(length).map_err(|_| outside())?;
        // SAFETY: the caller promises live references; the one that is used is not null.
        let (memory, has) = unsafe {
            match (array.is_null(), direct.is_null()) {
                (false, _) => (None, env.length(array)),
                (true, false) => {
                    let memory = env.memory(direct);
                    let (first, has) = memory.ok_or_else(|| Failure::invalid("a buffer is not direct"))?;
                    (Some(first), has)
                }
                (true, true) => return Err(Failure::invalid("there is no buffer")),
            }
        };
        if start.checked_add(length).is_none_or(|end| end > has) {
            return Err(outside());
        }
        // SAFETY: `start` is at most the length of the memory, which is checked above.
        let memory = memory.map(|first| unsafe { first.add(start) });
        let object = if memory.is_some() { direct } else { array };
        Ok(Self { object, memory, start, length })
    }

    pub(crate) fn len(&self) -> usize {
        self.length
    }

    /// Hands out the bytes in order until `take` takes fewer than it is given; says how many were taken.
    pub(crate) fn give<E>(
        &self,
        env: &Env,
        mut take: impl FnMut(&[u8]) -> Result<usize, E>,
    ) -> Result<usize, E> {
        if let Some(first) = self.memory {
            // SAFETY: all bytes lie in the memory of the buffer (`new`), which lives as long as the reference. A program
            // that changes them at this moment, against the contract of `Writer.write`, changes what is read here and
            // nothing else: the checksum at the store tells.
            return take(unsafe { std::slice::from_raw_parts(first, self.length) });
        }
        let (mut piece, mut taken) = ([0; PIECE], 0);
        while taken < self.length {
            let piece = &mut piece[..PIECE.min(self.length - taken)];
            // SAFETY: the region lies in the array, which is what `new` has checked.
            unsafe { env.copy_out(self.object, self.start + taken, piece) };
            let more = take(piece)?;
            taken += more;
            if more < piece.len() {
                break;
            }
        }
        Ok(taken)
    }

    /// A copy of all bytes.
    pub(crate) fn copied(&self, env: &Env) -> Vec<u8> {
        let mut bytes = vec![0; self.length];
        match self.memory {
            // SAFETY: the bytes lie in the memory of the buffer, and `bytes` has room for them.
            Some(first) => unsafe { bytes.as_mut_ptr().copy_from_nonoverlapping(first, self.length) },
            // SAFETY: the region lies in the array.
            None => unsafe { env.copy_out(self.object, self.start, &mut bytes) },
        }
        bytes
    }

    /// Fills the bytes from `at` on, as far as they fit; says how many.
    pub(crate) fn put_at(&self, env: &Env, at: usize, bytes: &[u8]) -> usize {
        let length = bytes.len().min(self.length.saturating_sub(at));
        if length == 0 {
            return 0;
        }
        match self.memory {
            // SAFETY: `at + length` is at most `self.length`, so these bytes lie in the memory of the buffer. `bytes` is
            // memory of the library, so the two do not overlap.
            Some(first) => unsafe { first.add(at).copy_from_nonoverlapping(bytes.as_ptr(), length) },
            // SAFETY: the region lies in the array.
            None => unsafe { env.copy_in(self.object, self.start + at, &bytes[..length]) },
        }
        length
    }
}

/// Memory that a task of the engine fills, and that lives until the task drops this.
pub(crate) struct Target {
    buffer: Buffer,
    filled: usize,
    _kept: Kept,
}

// SAFETY: the buffer has a global reference (`new`), which every thread may use; its memory lives as long as that, and the
// Java thread that lends it waits until this was dropped.
unsafe impl Send for Target {}

impl Target {
    /// # Safety
    /// As for [`Buffer::new`], until this returns.
    pub(crate) unsafe fn new(
        env: &Env,
        array: jbyteArray,
        direct: jobject,
        start: jint,
        length: jint,
    ) -> Outcome<Self> {
        // SAFETY: the caller promises it.
        let buffer = unsafe { Buffer::new(env, array, direct, start, length) }?;
        // SAFETY: `Buffer::new` has found a live reference.
        let kept = unsafe { env.keep(buffer.object) }?;
        Ok(Self { buffer: Buffer { object: kept.object(), ..buffer }, filled: 0, _kept: kept })
    }

    pub(crate) fn len(&self) -> usize {
        self.buffer.len()
    }

    pub(crate) fn filled(&self) -> usize {
        self.filled
    }

    /// Fills the next bytes, as far as they fit.
    pub(crate) fn put(&mut self, env: &Env, bytes: &[u8]) {
        self.filled += self.buffer.put_at(env, self.filled, bytes);
    }
}
