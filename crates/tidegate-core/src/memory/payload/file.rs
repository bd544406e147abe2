//! Streams a range of a file in slabs, and reads inline if the bytes are in the page cache.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker, ready};

use super::disk_read::DiskRead;
use super::{Moved, ReadAt, Slice, SourceChanged};
use crate::memory::budget::{Budget, Lease, Slab};
use crate::types::checksum::Hasher;
use bytes::Bytes;

/// A few slabs in rotation: read into, sent, and free again when the socket has taken them.
#[derive(Clone, Debug)]
pub struct Ring {
    shared: Arc<Mutex<Free>>,
    /// How many slabs there are, free and lent, and how many bytes of the budget they take.
    count: usize,
    bytes: u64,
    /// The budget that the slabs belong to.
    budget: Option<Budget>,
    /// Whether a hedge may take memory for another ring.
    hedges: bool,
}

#[derive(Debug, Default)]
struct Free {
    slabs: Vec<Slab>,
    wakers: Vec<Waker>,
}

impl Ring {
    /// A ring of these slabs; they return to the budget when the ring and all slabs that it lent are dropped.
    pub fn new(slabs: Vec<Slab>) -> Self {
        let (count, budget) = (slabs.len(), slabs.first().map(Slab::budget));
        let bytes = slabs.iter().map(Slab::leased).sum();
        let shared = Arc::new(Mutex::new(Free { slabs, wakers: Vec::new() }));
        Self { shared, count, bytes, budget, hedges: true }
    }

    /// A ring of slabs that take all of `lease`.
    pub fn of(lease: Lease) -> Self {
        Self::new(Slab::all_of(lease))
    }

    /// The same ring, but a second request takes no memory for another one: the free memory is for retries.
    pub fn without_hedges(self) -> Self {
        Self { hedges: false, ..self }
    }

    /// Another ring of the same size, if there is memory for it now.
    fn fresh(&self) -> Option<Self> {
        let budget = self.budget.as_ref()?;
        let lease = budget.try_lease(self.bytes)?;
        Some(Self { hedges: self.hedges, ..Self::of(lease) })
    }

    /// Another ring of the same size for a second request, if nobody waits for the memory that it takes.
    pub(super) fn another(&self) -> Option<Self> {
        self.budget.as_ref().filter(|budget| self.hedges && budget.usage().waiting == 0)?;
        self.fresh()
    }

    /// The ring for another pass. The connection of an earlier request may hold slabs for as long as its peer does
    /// not read; then a new ring replaces this one, if there is memory for it now.
    pub(super) fn renew(&mut self) -> Self {
        let home = self.lock().slabs.len();
        if home < self.count
            && let Some(fresh) = self.fresh()
        {
            *self = fresh;
        }
        self.clone()
    }

    fn lock(&self) -> MutexGuard<'_, Free> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn poll_take(&self, cx: &mut Context<'_>) -> Poll<LentSlab> {
        let mut free = self.lock();
        match free.slabs.pop() {
            Some(mut slab) => {
                slab.clear();
                Poll::Ready(LentSlab { slab: Some(slab), ring: self.clone() })
            }
            None => {
                // A task that is polled again and again is woken once.
                if !free.wakers.iter().any(|waker| waker.will_wake(cx.waker())) {
                    free.wakers.push(cx.waker().clone());
                }
                Poll::Pending
            }
        }
    }

    fn give_back(&self, slab: Slab) {
        let wakers = {
            let mut free = self.lock();
            free.slabs.push(slab);
            std::mem::take(&mut free.wakers)
        };
        wakers.into_iter().for_each(Waker::wake);
    }
}

/// A slab on its way from the file to the socket; it returns to the ring however the way ends.
#[derive(Debug)]
struct LentSlab {
    slab: Option<Slab>,
    ring: Ring,
}

impl LentSlab {
    fn room(&self) -> usize {
        self.slab.as_ref().map_or(0, Slab::room)
    }

    fn spare(&mut self) -> &mut [u8] {
        self.slab.as_mut().map_or(&mut [], Slab::spare)
    }

    fn advance(&mut self, bytes: usize) {
        if let Some(slab) = &mut self.slab {
            slab.advance(bytes);
        }
    }
}

impl AsRef<[u8]> for LentSlab {
    fn as_ref(&self) -> &[u8] {
        self.slab.as_ref().map_or(&[], Slab::filled)
    }
}

impl Drop for LentSlab {
    fn drop(&mut self) {
        if let Some(slab) = self.slab.take() {
            self.ring.give_back(slab);
        }
    }
}

/// One pass over a file's range.
#[derive(Debug)]
pub(super) struct FileStream {
    slice: Arc<Slice>,
    ring: Ring,
    position: u64,
    remaining: u64,
    hasher: Option<Hasher>,
    read: Option<DiskRead<LentSlab>>,
    /// Counts the time in which the stream waits for its disk.
    moved: Arc<Moved>,
}

impl FileStream {
    pub(super) fn new(slice: Arc<Slice>, len: u64, moved: Arc<Moved>) -> Self {
        let hasher = Some(Hasher::new(slice.algorithm));
        let ring = slice.ring.lock().unwrap_or_else(PoisonError::into_inner).renew();
        Self { position: slice.offset, remaining: len, slice, ring, hasher, read: None, moved }
    }

    pub(super) fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<io::Result<Bytes>>> {
        if self.remaining == 0 {
            return Poll::Ready(None);
        }
        let result = ready!(self.poll_read(cx));
        if result.is_err() {
            self.remaining = 0; // the stream has ended
        }
        Poll::Ready(Some(result))
    }

    fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Bytes>> {
        let slab = match &mut self.read {
            Some(read) => {
                let slab = ready!(read.poll(cx, || self.slice.file.disk()));
                self.read = None;
                slab?
            }
            None => {
                let mut slab = ready!(self.ring.poll_take(cx));
                let (want, mut done) = (self.want(&slab), 0);
                // A piece is short only if the file is: a ring into which a whole range is gathered has slabs for
                // full pieces.
                while done < want {
                    let position = self.position + done as u64;
                    match self.slice.file.read_cached(&mut slab.spare()[..want - done], position)? {
                        Some(0) => return Poll::Ready(Err(truncated(position))),
                        Some(read) => {
                            slab.advance(read);
                            done += read;
                        }
                        None => {
                            // Not in the page cache: wait for the disk on a thread that may block.
                            let slice = self.slice.clone();
                            self.read = Some(DiskRead::begin(self.moved.clone(), move || {
                                read_full(&*slice.file, &mut slab, want - done, position)?;
                                Ok(slab)
                            }));
                            return self.poll_read(cx);
                        }
                    }
                }
                slab
            }
        };
        Poll::Ready(self.take_in(slab))
    }

    fn want(&self, slab: &LentSlab) -> usize {
        usize::try_from(self.remaining).map_or(slab.room(), |remaining| remaining.min(slab.room()))
    }

    fn take_in(&mut self, slab: LentSlab) -> io::Result<Bytes> {
        let read = slab.as_ref().len() as u64;
        if let Some(hasher) = &mut self.hasher {
            hasher.update(slab.as_ref());
        }
        self.position += read;
        self.remaining -= read;
        if self.remaining == 0
            && let Some(hasher) = self.hasher.take()
        {
            // Before the last bytes go out: without them the store publishes nothing.
            self.slice.file.check_unchanged()?;
            let checksum = hasher.finish();
            if *self.slice.checksum.get_or_init(|| checksum) != checksum {
                return Err(self.slice.file.differs(self.slice.offset));
            }
        }
        Ok(Bytes::from_owner(slab))
    }
}

fn truncated(offset: u64) -> io::Error {
    io::Error::new(io::ErrorKind::UnexpectedEof, SourceChanged::Truncated { offset })
}

fn read_full(file: &dyn ReadAt, slab: &mut LentSlab, want: usize, offset: u64) -> io::Result<()> {
    let mut done = 0;
    while done < want {
        match file.read(&mut slab.spare()[..want - done], offset + done as u64) {
            Ok(0) => return Err(truncated(offset + done as u64)),
            Ok(read) => {
                slab.advance(read);
                done += read;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
