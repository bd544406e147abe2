//! Reads a file as a stream of bytes.

use std::fs::{self, File};
use std::io;
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use futures::{StreamExt, stream};
use rustix::buffer::spare_capacity;

use super::fault::{blocking, fault, invalid};
use super::target::{self, Target};
use tidegate_core::backend::{Body, Fault, FaultKind, same_or_replaced};
use tidegate_core::memory::payload::SourceChanged;
use tidegate_core::types::object::Object;

/// The most bytes in one piece.
const PIECE: u64 = 256 << 10;

/// Opens a file, or a range of it; each piece is read when it is needed.
pub(super) fn open(target: &Target, range: Option<Range<u64>>, same: Option<&Object>) -> Result<Body, Fault> {
    let failed = |error| fault(error, target.directory());
    // Check first: opening a pipe would wait for its other end.
    target::check_readable(&fs::metadata(target.path()).map_err(failed)?)?;
    let file = File::open(target.path()).map_err(failed)?;
    let metadata = file.metadata().map_err(failed)?;
    target::check_readable(&metadata)?;
    let object = same_or_replaced(target::describe(target.key(), &metadata), same)?;
    check_size(&file, object.size, target.directory())?;
    let range = clamp(range, object.size)?;

    let file = Arc::new(file);
    let directory: Arc<std::path::Path> = target.directory().into();
    let (end, etag) = (range.end, object.etag.clone());
    let stream = stream::unfold(range.start, move |position| {
        let (file, directory, etag) = (file.clone(), directory.clone(), etag.clone());
        async move {
            let want = end.saturating_sub(position).min(PIECE);
            if want == 0 {
                return None;
            }
            let read = blocking(move || {
                let failed = |error: io::Error| match error.kind() {
                    io::ErrorKind::UnexpectedEof => shrunk(error),
                    _ => fault(error, &directory),
                };
                let piece = read_full(&file, position, want as usize).map_err(failed)?;
                // Check after reading the bytes, so that a write in between is noticed with this piece.
                let now = target::describe("", &file.metadata().map_err(failed)?);
                if now.etag != etag {
                    return Err(Fault::new(FaultKind::Replaced, "the file was written to while it was read"));
                }
                Ok(piece)
            });
            let read = read.await;
            let next = if read.is_ok() { position + want } else { end }; // an error ends the stream
            Some((read, next))
        }
    });
    Ok(Body { object, range, ignored_range: false, stream: stream.boxed() })
}

fn shrunk(error: io::Error) -> Fault {
    Fault::new(FaultKind::Source, "the file became shorter while it was read").with_source(error)
}

/// Fails if a file whose size is said to be 0 has bytes: it would be taken for an empty one.
pub(super) fn check_size(file: &File, size: u64, directory: &std::path::Path) -> Result<(), Fault> {
    let failed = |error: io::Error| fault(error, directory);
    let mut first = Vec::with_capacity(1);
    if size > 0
        || rustix::io::pread(file, spare_capacity(&mut first), 0).map_err(|error| failed(error.into()))? == 0
    {
        return Ok(());
    }
    if file.metadata().map_err(failed)?.len() > 0 {
        return Err(Fault::new(FaultKind::Source, "the file became longer while it was read"));
    }
    let message = "the system gives the file a size of 0, but it has bytes, as files below /proc do: open it as a file and \
                   read it until it ends";
    Err(Fault::new(FaultKind::Unsupported, message))
}

fn read_full(file: &File, from: u64, want: usize) -> io::Result<Bytes> {
    let mut buffer: Vec<u8> = Vec::with_capacity(want);
    while buffer.len() < want {
        let offset = from + buffer.len() as u64;
        match rustix::io::pread(file, spare_capacity(&mut buffer), offset) {
            Ok(0) => {
                let changed = SourceChanged::Truncated { offset };
                return Err(io::Error::new(io::ErrorKind::UnexpectedEof, changed));
            }
            Ok(_) => {} // the buffer has grown by as much
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    buffer.truncate(want); // an allocator may give more room than was asked for
    Ok(buffer.into())
}

/// The range, cut to the file's size. A range that begins past the end is refused, as S3 does.
pub(super) fn clamp(range: Option<Range<u64>>, size: u64) -> Result<Range<u64>, Fault> {
    let Some(range) = range else { return Ok(0..size) };
    if range.start > range.end {
        return Err(invalid(format!("the range {}..{} ends before it begins", range.start, range.end)));
    }
    if range.start > size || (range.start == size && !range.is_empty()) {
        return Err(invalid(format!("the range begins at {}, and the file has {size} bytes", range.start)));
    }
    Ok(range.start..range.end.min(size))
}
