//! A reader of one object. Reads that follow each other are taken from a stream, which reads ahead; others are requests
//! of their own, for just the bytes that are asked for.

use std::ops::Range;
use std::ptr::NonNull;
use std::sync::Arc;
use std::task::Poll;

use bytes::{Buf, Bytes, BytesMut};
use futures::TryStreamExt;
use pyo3::buffer::PyUntypedBuffer;
use pyo3::exceptions::{PyBufferError, PyTypeError};
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
use crate::target::{NewBytes, Target};

/// The stream is dropped after this many reads elsewhere, and opened after this many consecutive reads.
const STREAK: u32 = 2;
/// So many bytes, or fewer, are gathered before the interpreter gets them: handing them over twice costs more than
/// copying them.
const FEW: usize = 256 << 10;

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

/// Opens an object; see [`Store::reader`](crate::store::Store). With the figures of all that is read.
pub(crate) fn open(
    store: &tidegate::Store,
    key: String,
    range: Option<(u64, Option<u64>)>,
    if_unchanged: Option<Object>,
    random: bool,
) -> (tidegate::Progress, impl Future<Output = tidegate::Result<OpenReader>> + Send + 'static) {
    let builder = builder(store, key.clone(), range, if_unchanged.as_ref());
    let (store, progress) = (store.clone(), builder.progress());
    let figures = progress.clone();
    let open = async move {
        let mut described =
            if_unchanged.map(|object| object.0).filter(|object| object.known_size().is_some());
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
        Ok(OpenReader {
            store,
            key,
            object,
            span,
            stream,
            followed: None,
            streak: 0,
            away: 0,
            random,
            progress,
        })
    };
    (figures, open)
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
            let piece = self.reader.try_next().await?.unwrap_or_default();
            // The last byte is given once the checksum of the whole was compared.
            if self.at + piece.len() as u64 == end {
                while self.reader.try_next().await?.is_some() {}
            }
            self.rest = piece;
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

    /// The stream, if the bytes at `position` are to be taken from it. The caller puts the stream back after a read that
    /// has succeeded: one that has failed, or was cancelled, is not used again.
    async fn take_stream_at(&mut self, position: u64) -> tidegate::Result<Option<OpenStream>> {
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
        // If the stream is lost now, the next read opens another.
        self.followed = None;
        if let Some(mut stream) = self.stream.take() {
            let start = stream.reader.range().start;
            if position >= start && stream.seek(position, start).await.is_ok() {
                return Ok(Some(stream));
            }
        }
        let reader = match self.span.start == 0 && self.span.end == self.object.size && position == 0 {
            // Read as a whole, the object is compared with its checksum.
            true => self.store.reader(&self.key).if_unchanged(&self.object).await?,
            false => self.part(position..self.span.end).await?,
        };
        Ok(Some(OpenStream { at: position, reader, rest: Bytes::new() }))
    }

    /// Some bytes at `position`, `most` at most; none at the end.
    async fn piece(&mut self, position: u64, most: usize) -> tidegate::Result<Bytes> {
        let end = self.span.end;
        if position >= end || most == 0 {
            return Ok(Bytes::new());
        }
        if let Some(mut stream) = self.take_stream_at(position).await? {
            let piece = stream.next(most, end).await?;
            self.stream = Some(stream);
            return Ok(piece);
        }
        let until = end.min(position + most.min(FEW) as u64);
        let bytes = gathered(&mut self.part(position..until).await?).await?;
        self.followed = Some(position + bytes.len() as u64);
        Ok(bytes)
    }

    /// Writes some bytes to `target`, as many as are there without another request; their number is 0 at the end.
    async fn read_some(&mut self, position: u64, target: &mut Target) -> tidegate::Result<usize> {
        let end = self.span.end;
        if position >= end || target.left() == 0 {
            return Ok(0);
        }
        let before = target.left();
        match self.take_stream_at(position).await? {
            Some(mut stream) => {
                target.put(&stream.next(before, end).await?);
                self.stream = Some(stream);
            }
            None => self.fill_alone(position, end.min(position + before as u64), target).await?,
        }
        Ok(before - target.left())
    }

    /// Reads a range by a request of its own.
    async fn fill_alone(&mut self, from: u64, until: u64, target: &mut Target) -> tidegate::Result<()> {
        let mut reader = self.part(from..until).await?;
        // Reads the answer to its end, which leaves its connection to the next request.
        while let Some(piece) = reader.try_next().await? {
            target.put(&piece);
        }
        self.followed = Some(until);
        Ok(())
    }

    /// Fills all of `target`, with bytes that lie within the object.
    async fn fill(&mut self, position: u64, target: &mut Target) -> tidegate::Result<()> {
        if target.left() == 0 {
            return Ok(());
        }
        let end = self.span.end;
        match self.take_stream_at(position).await? {
            Some(mut stream) => {
                while target.left() > 0 {
                    let piece = stream.next(target.left(), end).await?;
                    if piece.is_empty() {
                        break;
                    }
                    target.put(&piece);
                }
                self.stream = Some(stream);
            }
            None => self.fill_alone(position, position + target.left() as u64, target).await?,
        }
        Ok(())
    }

    /// All bytes, if they are few.
    pub(crate) async fn few_bytes(&mut self) -> tidegate::Result<Option<Bytes>> {
        if self.span.end - self.span.start > FEW as u64 {
            return Ok(None);
        }
        if self.span.is_empty() && self.stream.is_none() {
            return Ok(Some(Bytes::new()));
        }
        // A stream, because the bytes of a whole object are compared with its checksum.
        match self.take_stream_at(self.span.start).await? {
            Some(mut stream) => gathered(&mut stream.reader).await.map(Some),
            None => Ok(None),
        }
    }
}

/// All bytes of a reader, which are few.
async fn gathered(reader: &mut tidegate::Reader) -> tidegate::Result<Bytes> {
    let Range { start, end } = reader.range();
    let mut bytes = reader.try_next().await?.unwrap_or_default();
    if (bytes.len() as u64) < end - start {
        let mut whole = BytesMut::with_capacity((end - start) as usize);
        whole.extend_from_slice(&bytes);
        while let Some(piece) = reader.try_next().await? {
            whole.extend_from_slice(&piece);
        }
        bytes = whole.freeze();
    } else {
        // The checksum is compared at the end, and the connection is left to the next request.
        while reader.try_next().await?.is_some() {}
    }
    Ok(bytes)
}

/// The memory of a buffer, which is used while `buffer` is held.
#[expect(unsafe_code, reason = "Python's buffers are memory that is shared with other code")]
fn target_of(buffer: &PyUntypedBuffer) -> PyResult<Target> {
    if buffer.readonly() {
        return Err(PyTypeError::new_err("bytes are read into a writable buffer, and this one is read-only"));
    }
    if !buffer.is_c_contiguous() {
        return Err(PyBufferError::new_err("bytes are read into a buffer whose bytes are together"));
    }
    let Some(start) = NonNull::new(buffer.buf_ptr().cast::<u8>()) else {
        // SAFETY: nothing is written to a target of no bytes.
        return Ok(unsafe { Target::new(NonNull::dangling(), 0) });
    };
    // SAFETY: `buf_ptr` points to `len_bytes` writable bytes, which the exporter neither moves nor frees while `buffer` is
    // held: the only caller holds it until the read has ended or is dropped. Other code that uses the same memory
    // meanwhile does so at its own risk, as with every `readinto`.
    Ok(unsafe { Target::new(start, buffer.len_bytes()) })
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

    /// Reads `most` bytes, or all that are left, into a new `bytes`.
    fn filled(
        &self,
        py: Python<'_>,
        position: u64,
        most: Option<u64>,
    ) -> PyResult<impl Future<Output = tidegate::Result<NewBytes>> + Send + 'static> {
        let (open, at) = (self.open.get(py)?.clone(), self.place(position));
        let mut new = NewBytes::new(py, self.length(position, most))?;
        Ok(async move {
            open.lock().await.fill(at, &mut new.target).await?;
            Ok(new)
        })
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
        let buffer = PyUntypedBuffer::get(buffer)?;
        let (running, open, at) = (self.shared.get(py)?, self.open.get(py)?.clone(), self.place(position));
        let mut target = target_of(&buffer)?;
        let mut work = Box::pin(async move { open.lock().await.read_some(at, &mut target).await });
        let read = match poll_once(running, &mut work) {
            Poll::Ready(read) => read,
            Poll::Pending => wait(py, running, work)?,
        };
        read.map_err(|error| errors::raised(py, &error))
    }

    /// Reads `most` bytes, or all that are left, and waits for them.
    fn read(&self, py: Python<'_>, position: u64, most: Option<u64>) -> PyResult<Py<PyBytes>> {
        let (running, work) = (self.shared.get(py)?, self.filled(py, position, most)?);
        wait(py, running, work)?.map_err(|error| errors::raised(py, &error))?.into_bytes()
    }

    /// An operation that reads `most` bytes, or all that are left.
    fn read_later(&self, py: Python<'_>, position: u64, most: Option<u64>) -> PyResult<Operation> {
        let (progress, work) = (self.progress.get(py)?.clone(), self.filled(py, position, most)?);
        Ok(Operation::new(&self.shared, Some(progress), work, |_, new| Ok(new.into_bytes()?.into_any())))
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
