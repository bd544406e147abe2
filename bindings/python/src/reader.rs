//! A reader of one object. Reads that follow each other are taken from a stream, which reads ahead; others are requests
//! of their own, for just the bytes that are asked for.

use std::ops::Range;
use std::sync::Arc;
use std::task::Poll;

use bytes::{Buf, Bytes};
use futures::TryStreamExt;
use pyo3::buffer::PyBuffer;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use tidegate::download::ReaderBuilder;
use tokio::io::AsyncSeekExt;
use tokio::sync::Mutex;

use crate::engine::Shared;
use crate::errors;
use crate::objects::{Object, Progress};
use crate::operation::{Operation, poll_once, wait};
use crate::process::OfProcess;

/// After so many reads at other places, the stream is dropped; after so many that follow each other, one is opened.
const STREAK: u32 = 2;

/// Sets up a read.
pub(crate) fn builder(
    store: &tidegate::Store,
    key: String,
    range: Option<(u64, Option<u64>)>,
    if_unchanged: Option<&Object>,
) -> ReaderBuilder {
    let mut builder = store.reader(key);
    builder = match range {
        Some((start, Some(end))) => builder.range(start..end),
        Some((start, None)) => builder.range(start..),
        None => builder,
    };
    match if_unchanged {
        Some(object) => builder.if_unchanged(&object.0),
        None => builder,
    }
}

/// Opens an object; see [`Store::reader`](crate::store::Store).
pub(crate) async fn open(
    store: tidegate::Store,
    key: String,
    range: Option<(u64, Option<u64>)>,
    if_unchanged: Option<Object>,
    random: bool,
) -> tidegate::Result<OpenReader> {
    let builder = builder(&store, key.clone(), range, if_unchanged.as_ref());
    let progress = builder.progress();
    let mut described = if_unchanged.map(|object| object.0).filter(|object| object.known_size().is_some());
    if random && described.is_none() {
        described = Some(store.head(&key).await?);
    }
    let (object, span, stream) = match described {
        Some(object) => {
            let (start, end) = range.unwrap_or((0, None));
            let start = start.min(object.size);
            let span = start..end.unwrap_or(object.size).clamp(start, object.size);
            (object, span, None)
        }
        None => {
            let reader = builder.await?;
            let (object, span) = (reader.object().clone(), reader.range());
            let stream = OpenStream { at: span.start, reader, rest: Bytes::new() };
            (object, span, Some(stream))
        }
    };
    Ok(OpenReader { store, key, object, span, stream, followed: None, streak: 0, away: 0, random, progress })
}

/// An object that is being read. Positions are those of the object.
pub(crate) struct OpenReader {
    store: tidegate::Store,
    key: String,
    object: tidegate::Object,
    span: Range<u64>,
    stream: Option<OpenStream>,
    /// Where the last read ended that was a request of its own.
    followed: Option<u64>,
    /// How many such reads have followed each other.
    streak: u32,
    /// How many reads were at other places than the stream.
    away: u32,
    /// Whether reads are never taken from a stream.
    random: bool,
    progress: tidegate::Progress,
}

struct OpenStream {
    reader: tidegate::Reader,
    /// The position of the next byte: the first of `rest`, if there is one.
    at: u64,
    rest: Bytes,
}

impl OpenStream {
    /// The next bytes, `most` at most; none at the end.
    async fn next(&mut self, most: usize, end: u64) -> tidegate::Result<Bytes> {
        if self.rest.is_empty() {
            self.rest = self.reader.try_next().await?.unwrap_or_default();
            // The last byte is given once the checksum of the whole was compared.
            if self.at + self.rest.len() as u64 == end {
                while self.reader.try_next().await?.is_some() {}
            }
        }
        let taken = self.rest.split_to(self.rest.len().min(most));
        self.at += taken.len() as u64;
        Ok(taken)
    }

    /// Continues at `position`.
    async fn seek(&mut self, position: u64, start: u64) -> std::io::Result<()> {
        match position.checked_sub(self.at) {
            Some(skipped) if skipped <= self.rest.len() as u64 => self.rest.advance(skipped as usize),
            _ => {
                self.rest = Bytes::new();
                self.reader.seek(std::io::SeekFrom::Start(position - start)).await?;
            }
        }
        self.at = position;
        Ok(())
    }
}

impl OpenReader {
    fn part(&self, range: Range<u64>) -> ReaderBuilder {
        self.store.reader(&self.key).range(range).if_unchanged(&self.object)
    }

    /// The stream, if the bytes at `position` are to be taken from it.
    async fn stream_at(&mut self, position: u64) -> tidegate::Result<Option<&mut OpenStream>> {
        if self.random {
            return Ok(None);
        }
        let follows = self.followed == Some(position);
        self.streak = if follows { self.streak + 1 } else { 0 };
        let is_there = self
            .stream
            .as_ref()
            .is_some_and(|stream| (stream.at..=stream.at + stream.rest.len() as u64).contains(&position));
        // The first read, and reads that follow each other.
        let begins = self.stream.is_none() && self.followed.is_none();
        if !is_there && !begins && self.streak < STREAK {
            self.away += 1;
            if self.away >= STREAK {
                self.stream = None;
            }
            return Ok(None);
        }
        (self.away, self.streak) = (0, 0);
        if self.stream.is_none() {
            let span = self.span.clone();
            let reader = match span.start == 0 && span.end == self.object.size && position == 0 {
                // Read as a whole, the object is compared with its checksum.
                true => self.store.reader(&self.key).if_unchanged(&self.object).await?,
                false => self.part(position..span.end).await?,
            };
            self.stream = Some(OpenStream { at: position, reader, rest: Bytes::new() });
            self.followed = Some(position);
        } else if let Some(stream) = &mut self.stream {
            let start = stream.reader.range().start;
            if position < start || stream.seek(position, start).await.is_err() {
                let reader = self.part(position..self.span.end).await?;
                self.stream = Some(OpenStream { at: position, reader, rest: Bytes::new() });
            }
        }
        Ok(self.stream.as_mut())
    }

    /// Some bytes at `position`, `most` at most; none at the end.
    async fn piece(&mut self, position: u64, most: usize) -> tidegate::Result<Bytes> {
        let end = self.span.end;
        if position >= end || most == 0 {
            return Ok(Bytes::new());
        }
        if let Some(stream) = self.stream_at(position).await? {
            return stream.next(most, end).await;
        }
        let until = end.min(position + most as u64);
        let mut reader = self.part(position..until).await?;
        let first = reader.try_next().await?.unwrap_or_default();
        let mut bytes = first;
        if (bytes.len() as u64) < until - position {
            let mut whole = bytes::BytesMut::with_capacity((until - position) as usize);
            whole.extend_from_slice(&bytes);
            while let Some(piece) = reader.try_next().await? {
                whole.extend_from_slice(&piece);
            }
            bytes = whole.freeze();
        } else {
            // An answer that is read to its end leaves its connection to the next request.
            while reader.try_next().await?.is_some() {}
        }
        self.followed = Some(position + bytes.len() as u64);
        Ok(bytes)
    }

    /// Fills all of `buffer`, which lies within the object.
    async fn fill(&mut self, position: u64, buffer: &mut [u8]) -> tidegate::Result<()> {
        let end = self.span.end;
        let mut filled = 0;
        if !buffer.is_empty() && self.stream_at(position).await?.is_none() {
            let until = position + buffer.len() as u64;
            let mut reader = self.part(position..until).await?;
            while let Some(piece) = reader.try_next().await? {
                filled = copied(buffer, filled, &piece);
            }
            self.followed = Some(until);
            return Ok(());
        }
        while filled < buffer.len() {
            let Some(stream) = &mut self.stream else { break };
            let piece = stream.next(buffer.len() - filled, end).await?;
            filled = copied(buffer, filled, &piece);
        }
        Ok(())
    }
}

/// Copies `piece` to the place after the bytes that are filled; the number of bytes that are filled now.
fn copied(buffer: &mut [u8], filled: usize, piece: &[u8]) -> usize {
    let until = (filled + piece.len()).min(buffer.len());
    buffer[filled..until].copy_from_slice(&piece[..until - filled]);
    until
}

/// Copies `piece` to the front of a writable buffer whose bytes are together, as far as they fit.
#[expect(unsafe_code, reason = "Python's buffers are memory that is shared with other code")]
fn copy_to_front(_py: Python<'_>, buffer: &PyBuffer<u8>, piece: &[u8]) {
    let length = piece.len().min(buffer.len_bytes());
    // SAFETY: `buf_ptr` points to `len_bytes` writable bytes, which the exporter neither moves nor frees while the
    // buffer is held, and `length` is no more. `piece` is memory of the library, so the two do not overlap. The
    // interpreter is held (`_py`), so no Python code runs meanwhile; other native code that writes to the same buffer
    // without the interpreter, or reads it, does so at its own risk, as with every `readinto`.
    unsafe { std::ptr::copy_nonoverlapping(piece.as_ptr(), buffer.buf_ptr().cast::<u8>(), length) }
}

/// Reads one object, or a range of it; positions count from the range's first byte.
#[pyclass(frozen, module = "tidegate._native")]
pub(crate) struct Reader {
    shared: Shared,
    open: OfProcess<Arc<Mutex<OpenReader>>>,
    object: tidegate::Object,
    span: Range<u64>,
    progress: OfProcess<tidegate::Progress>,
}

impl Reader {
    pub(crate) fn new(shared: &Shared, open: OpenReader) -> Self {
        Self {
            shared: shared.clone(),
            object: open.object.clone(),
            span: open.span.clone(),
            progress: OfProcess::new(open.progress.clone()),
            open: OfProcess::new(Arc::new(Mutex::new(open))),
        }
    }

    fn place(&self, position: u64) -> u64 {
        self.span.start.saturating_add(position)
    }

    /// How many bytes a read of `most` brings; of all, if `most` is `None`.
    fn length(&self, position: u64, most: Option<u64>) -> usize {
        let left = self.span.end.saturating_sub(self.place(position));
        usize::try_from(most.unwrap_or(left).min(left)).unwrap_or(usize::MAX)
    }
}

#[pymethods]
impl Reader {
    /// Reads some bytes into a writable buffer, and waits for them; 0 at the end.
    fn read_into(&self, py: Python<'_>, position: u64, buffer: &Bound<'_, PyAny>) -> PyResult<usize> {
        let buffer = PyBuffer::<u8>::get(buffer)?;
        let (running, open) = (self.shared.get(py)?, self.open.get(py)?.clone());
        let (at, most) = (self.place(position), buffer.len_bytes());
        if buffer.readonly() || !buffer.is_c_contiguous() {
            return Err(PyValueError::new_err("the buffer is read-only, or its bytes are not together"));
        }
        let mut work = Box::pin(async move { open.lock().await.piece(at, most).await });
        let piece = match poll_once(running, &mut work) {
            Poll::Ready(piece) => piece,
            Poll::Pending => wait(py, running, &mut work)?,
        };
        let piece = piece.map_err(|error| errors::raised(py, &error))?;
        copy_to_front(py, &buffer, &piece);
        Ok(piece.len())
    }

    /// Reads `most` bytes, or all that are left, and waits for them.
    fn read(&self, py: Python<'_>, position: u64, most: Option<u64>) -> PyResult<Py<PyBytes>> {
        let (running, open) = (self.shared.get(py)?, self.open.get(py)?.clone());
        let at = self.place(position);
        // The bytes arrive in the object that is returned, which nobody else has yet.
        let bytes = PyBytes::new_with(py, self.length(position, most), |buffer| {
            let mut work = Box::pin(async { open.lock().await.fill(at, buffer).await });
            wait(py, running, &mut work)?.map_err(|error| errors::raised(py, &error))
        });
        Ok(bytes?.unbind())
    }

    /// An operation that reads `most` bytes, or all that are left.
    fn read_later(&self, py: Python<'_>, position: u64, most: Option<u64>) -> PyResult<Operation> {
        let open = self.open.get(py)?.clone();
        let (at, length) = (self.place(position), self.length(position, most));
        let read = async move {
            let mut open = open.lock().await;
            let first = open.piece(at, length).await?;
            if first.len() == length {
                return Ok(first);
            }
            let mut bytes = vec![0; length];
            bytes[..first.len()].copy_from_slice(&first);
            open.fill(at + first.len() as u64, &mut bytes[first.len()..]).await?;
            Ok(bytes.into())
        };
        Ok(Operation::new(&self.shared, None, read, |py, bytes| {
            Ok(PyBytes::new(py, &bytes).into_any().unbind())
        }))
    }

    /// An operation that reads some bytes, as they arrive; none at the end.
    fn piece_later(&self, py: Python<'_>, position: u64, most: usize) -> PyResult<Operation> {
        let (open, at) = (self.open.get(py)?.clone(), self.place(position));
        let piece = async move { open.lock().await.piece(at, most).await };
        Ok(Operation::new(&self.shared, None, piece, |py, bytes| {
            Ok(PyBytes::new(py, &bytes).into_any().unbind())
        }))
    }

    /// How many bytes there are to read.
    #[getter]
    fn size(&self) -> u64 {
        self.span.end - self.span.start
    }

    #[getter]
    fn object(&self) -> Object {
        Object(self.object.clone())
    }

    fn progress(&self, py: Python<'_>) -> PyResult<Progress> {
        Ok(self.progress.get(py)?.snapshot().into())
    }

    /// Whether this process has opened it.
    fn is_own(&self) -> bool {
        self.open.is_own()
    }
}
