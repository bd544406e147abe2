//! A disk whose reads wait until they are allowed.

use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;

use crate::memory::budget::Budget;
use crate::memory::payload::{Payload, ReadAt, Ring};
use crate::types::checksum::Algorithm;

#[derive(Debug)]
pub struct PausedDisk {
    bytes: Bytes,
    state: Mutex<DiskState>,
    changed: Condvar,
}

/// Allows all reads when dropped: the end of a runtime waits for them.
pub struct ResumesAtEnd(Arc<PausedDisk>);

impl Drop for ResumesAtEnd {
    fn drop(&mut self) {
        self.0.allow(u32::MAX);
    }
}

#[derive(Debug)]
struct DiskState {
    /// Reads that have begun, and those that may end.
    begun: u32,
    allowed: u32,
}

impl PausedDisk {
    pub fn new(bytes: Bytes) -> (Arc<Self>, ResumesAtEnd) {
        let state = Mutex::new(DiskState { begun: 0, allowed: 0 });
        let disk = Arc::new(Self { bytes, state, changed: Condvar::new() });
        (disk.clone(), ResumesAtEnd(disk))
    }

    /// All its bytes, as the body of a request.
    pub async fn payload(self: &Arc<Self>) -> Payload {
        let ring = Ring::of(Budget::new(1 << 20, 4096).lease(3 * 4096).await.unwrap());
        Payload::from_file(self.clone(), 0, self.bytes.len() as u64, ring, Algorithm::Crc64Nvme)
    }

    fn lock(&self) -> MutexGuard<'_, DiskState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets the first `reads` reads end.
    pub fn allow(&self, reads: u32) {
        self.lock().allowed = reads;
        self.changed.notify_all();
    }

    /// Waits until this many reads have begun.
    pub async fn has_begun(&self, reads: u32) {
        while self.lock().begun < reads {
            tokio::task::yield_now().await;
        }
    }
}

impl ReadAt for PausedDisk {
    fn read_cached(&self, _: &mut [u8], _: u64) -> io::Result<Option<usize>> {
        Ok(None)
    }

    fn read(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let mut state = self.lock();
        state.begun += 1;
        let read = state.begun;
        while read > state.allowed {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        let rest = self.bytes.slice(usize::try_from(offset).map_err(io::Error::other)?..);
        let read = rest.len().min(buffer.len());
        buffer[..read].copy_from_slice(&rest[..read]);
        Ok(read)
    }

    fn disk(&self) -> String {
        "a paused disk".to_owned()
    }

    fn differs(&self, _: u64) -> io::Error {
        io::ErrorKind::InvalidData.into()
    }
}
