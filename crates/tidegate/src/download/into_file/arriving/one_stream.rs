//! Splits one stream of an object into chunks on its way into the file.

use std::sync::Arc;

use bytes::Bytes;

use super::Arriving;
use super::in_file::InFile;
use crate::backend::Fault;
use crate::download::source::Sink;
use crate::engine::request::Inflow;
use crate::memory::budget::Lease;

/// Takes the bytes of an object in order, and gives each chunk its missing bytes.
#[derive(Debug)]
pub(super) struct OneStream {
    arriving: Arc<Arriving>,
    /// The first byte of the stream, within the object.
    start: u64,
    inflow: Inflow,
    memory: Arc<Lease>,
    /// The chunk that is receiving bytes.
    into: tokio::sync::Mutex<Option<(usize, Arc<InFile>)>>,
}

impl OneStream {
    pub(super) fn new(arriving: Arc<Arriving>, start: u64, memory: Arc<Lease>) -> Self {
        let inflow = Inflow::new(arriving.object.size - start);
        Self { arriving, start, inflow, memory, into: tokio::sync::Mutex::default() }
    }

    pub(super) fn got(&self) -> u64 {
        self.inflow.got()
    }
}

impl Sink for OneStream {
    fn inflow(&self) -> &Inflow {
        &self.inflow
    }

    async fn take(&self, at: u64, mut piece: Bytes) -> Result<(), Fault> {
        let mut current = self.into.lock().await;
        let mut at = self.start + at;
        while !piece.is_empty() {
            let number = self.arriving.chunks.at(at);
            let end = self.arriving.chunks.range(number).end;
            let mut part = piece.split_to(piece.len().min(usize::try_from(end - at).unwrap_or(usize::MAX)));
            let part_end = at + part.len() as u64;
            let into = match &*current {
                Some((begun, into)) if *begun == number => into.clone(),
                _ => {
                    let into = self.arriving.begin(number, self.memory.clone());
                    *current = Some((number, into.clone()));
                    into
                }
            };
            // Skip bytes that an earlier download or another request has left.
            let missing = into.at + into.inflow.got();
            if part_end > missing {
                let skipped = missing.saturating_sub(at);
                let part = part.split_off(skipped as usize);
                into.take(at + skipped - into.at, part).await?;
            }
            if part_end == end {
                self.arriving.end(number, &into).await?;
                *current = None;
            }
            at = part_end;
            // The chunk has counted its bytes.
            self.inflow.passes(at - self.start);
        }
        Ok(())
    }
}
