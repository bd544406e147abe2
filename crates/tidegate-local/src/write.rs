//! Writes a payload into a file: gathers its pieces, and writes them on the blocking pool.

use std::borrow::Borrow;
use std::fs::File;
use std::io::{self, IoSlice};
use std::path::PathBuf;
use std::task::Poll;

use bytes::Bytes;
use futures::StreamExt;
use futures::future::poll_fn;

use super::fault::{blocking, fault};
use tidegate_core::backend::{Fault, FaultKind};
use tidegate_core::memory::payload::{Payload, PayloadStream};
use tidegate_core::types::checksum::{Checksum, Hasher};

/// The most bytes of one hand-off.
const GROUP: usize = 1 << 20;
/// The most pieces of one system call (`IOV_MAX`).
const PIECES: usize = 1024;

/// Writes `payload` at `offset` of the file that `begin` gives, and ends with `finish`. Both run on the blocking
/// pool; a small payload needs only one hand-off. `directory` is the file's directory.
pub(super) async fn write_out<F, R>(
    payload: Payload,
    offset: u64,
    directory: PathBuf,
    begin: impl FnOnce() -> Result<F, Fault> + Send + 'static,
    finish: impl FnOnce(F, Checksum) -> Result<R, Fault> + Send + 'static,
) -> Result<R, Fault>
where
    F: Borrow<File> + Send + 'static,
    R: Send + 'static,
{
    let mut groups = Groups { stream: payload.stream(), rest: Bytes::new() };
    // Bytes from a file are hashed as they are read. Bytes from memory are hashed again here, to be sure of them.
    let hashed = payload.checksum().is_some() || payload.is_empty();
    let hasher = hashed.then(|| Hasher::new(payload.algorithm()));
    let output = Output::Begin(begin);
    let mut pass = Pass { output, position: offset, hasher, payload, directory, finish };
    loop {
        let group = groups.next().await?;
        let last = groups.is_done();
        match blocking(move || pass.step(group, last)).await? {
            WriteStep::Done(result) => return Ok(result),
            WriteStep::More(next) => pass = next,
        }
    }
}

/// The state passed from one hand-off to the next.
struct Pass<F, B, E> {
    output: Output<F, B>,
    position: u64,
    hasher: Option<Hasher>,
    payload: Payload,
    directory: PathBuf,
    finish: E,
}

enum Output<F, B> {
    Begin(B),
    Open(F),
}

enum WriteStep<P, R> {
    More(P),
    Done(R),
}

impl<F, B, E> Pass<F, B, E>
where
    F: Borrow<File>,
    B: FnOnce() -> Result<F, Fault>,
{
    fn step<R>(mut self, group: Vec<Bytes>, last: bool) -> Result<WriteStep<Self, R>, Fault>
    where
        E: FnOnce(F, Checksum) -> Result<R, Fault>,
    {
        let output = match self.output {
            Output::Begin(begin) => begin()?,
            Output::Open(output) => output,
        };
        if let Some(hasher) = &mut self.hasher {
            group.iter().for_each(|piece| hasher.update(piece));
        }
        let written = write_all_at(output.borrow(), &group, self.position);
        self.position = written.map_err(|error| fault(error, &self.directory))?;
        drop(group); // the buffers are free before a disk is waited for
        if !last {
            self.output = Output::Open(output);
            return Ok(WriteStep::More(self));
        }
        let checksum = match (self.hasher.map(|hasher| hasher.finish()), self.payload.checksum()) {
            (Some(written), Some(claimed)) if written != claimed => {
                let message = "the bytes are not those that the checksum is of";
                return Err(Fault::new(FaultKind::Integrity, message));
            }
            (Some(checksum), _) | (None, Some(checksum)) => checksum,
            (None, None) => return Err(ended_early()),
        };
        (self.finish)(output, checksum).map(WriteStep::Done)
    }
}

/// A payload's pieces in groups, one for each hand-off.
struct Groups {
    stream: PayloadStream,
    /// The bytes that did not fit into the last group.
    rest: Bytes,
}

impl Groups {
    /// Gathers pieces until there are enough, or until the next is not ready: a payload may have few buffers, which
    /// are free only once they are written. Empty only for an empty payload.
    async fn next(&mut self) -> Result<Vec<Bytes>, Fault> {
        let mut group = Vec::new();
        let mut size = 0;
        poll_fn(|cx| {
            while size < GROUP {
                if self.rest.is_empty() {
                    if self.stream.remaining() == 0 {
                        break;
                    }
                    match self.stream.poll_next_unpin(cx) {
                        Poll::Ready(Some(Ok(piece))) => self.rest = piece,
                        Poll::Ready(Some(Err(error))) => return Poll::Ready(Err(unreadable(error))),
                        Poll::Ready(None) => return Poll::Ready(Err(ended_early())),
                        Poll::Pending if group.is_empty() => return Poll::Pending,
                        Poll::Pending => break,
                    }
                }
                let piece = self.rest.split_to(self.rest.len().min(GROUP - size));
                size += piece.len();
                group.push(piece);
            }
            Poll::Ready(Ok(std::mem::take(&mut group)))
        })
        .await
    }

    fn is_done(&self) -> bool {
        self.rest.is_empty() && self.stream.remaining() == 0
    }
}

fn unreadable(error: io::Error) -> Fault {
    Fault::new(FaultKind::Source, error.to_string()).with_source(error)
}

fn ended_early() -> Fault {
    Fault::new(FaultKind::Source, "the source ended before all its bytes were read")
}

/// Writes all pieces from `position` on; returns the position after them.
pub(super) fn write_all_at(file: &File, pieces: &[Bytes], mut position: u64) -> io::Result<u64> {
    for some in pieces.chunks(PIECES) {
        let mut slices: Vec<IoSlice<'_>> = some.iter().map(|piece| IoSlice::new(piece)).collect();
        let mut left = slices.as_mut_slice();
        IoSlice::advance_slices(&mut left, 0); // past empty pieces
        while !left.is_empty() {
            match rustix::io::pwritev(file, left, position) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(written) => {
                    position += written as u64;
                    IoSlice::advance_slices(&mut left, written);
                }
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
    Ok(position)
}
