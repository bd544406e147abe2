//! Request bodies that are read from a file or a journal as they are sent.

use std::sync::Arc;

use super::file::unreadable;
use crate::memory::budget::Budget;
use crate::memory::payload::{Payload, RING, ReadAt, Ring};
use crate::types::error::{ErrorKind, Operation, Result};
use crate::types::progress::Waiting;
use crate::upload::session::Upload;

/// A range of `file` that is to be sent.
pub(in crate::upload) struct Streamed {
    pub(in crate::upload) file: Arc<dyn ReadAt>,
    pub(in crate::upload) offset: u64,
    pub(in crate::upload) len: u64,
}

impl Streamed {
    /// How many slabs of `slab` bytes the range is sent through.
    pub(in crate::upload) fn slabs(&self, slab: u64) -> u32 {
        if self.len <= slab { 1 } else { RING as u32 }
    }

    /// The range as the body of a request of `upload`; waits for memory of `budget`. A range that fits in one
    /// slab is read now: its checksum can be sent ahead of it, and a retry need not read it again.
    pub(in crate::upload) async fn payload(self, upload: &Upload, budget: &Budget) -> Result<Payload> {
        let Self { file, offset, len } = self;
        let slab = budget.slab_size() as u64;
        let waiting = upload.requests.progress.waiting(Waiting::Memory);
        let lease = budget.lease(if len <= slab { len.max(1) } else { RING * slab }).await;
        drop(waiting);
        let lease = lease
            .map_err(|starved| upload.error(ErrorKind::Starved, Operation::Write, starved.to_string()))?;
        let algorithm = upload.backend.capabilities().checksum;
        let streamed = Payload::from_file(file, offset, len, Ring::of(lease), algorithm);
        if len > slab {
            return Ok(streamed);
        }
        streamed.gather().await.map_err(|error| unreadable(&upload.requests.object, error))
    }
}
