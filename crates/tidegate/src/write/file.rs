//! A file as the source: its parts are streamed from it, never gathered in memory.

use std::io;
use std::path::Path;
use std::sync::Arc;

use tokio::task::JoinSet;

use super::plan::{Action, Plan};
use super::strategy::Policy;
use super::upload::Upload;
use crate::backend::Receipt;
use crate::budget::Budget;
use crate::error::{Error, ErrorKind, Operation, Result};
use crate::object::Object;
use crate::payload::{Payload, Ring, SourceChanged, SourceFile};
use crate::progress::Waiting;

/// Slabs that one request is streamed through: the connection holds up to two that it has not sent yet
/// while the third is read.
pub(crate) const RING: u64 = 3;

/// Opens the file at `path`, to be sent as `object`.
pub(super) async fn open(path: &Path, object: &str) -> Result<SourceFile> {
    let opened = tokio::task::spawn_blocking({
        let path = path.to_owned();
        move || SourceFile::open(&path)
    });
    let opened = opened.await.unwrap_or_else(|ended| Err(io::Error::other(ended)));
    opened.map_err(|error| {
        let message = format!("can't read {}: {error}", path.display());
        Error::new(ErrorKind::Source, Operation::Write, object, message).with_source(error)
    })
}

/// Fails where a file that was empty when it was opened has more by now than the bytes that were `read`.
/// One that the system makes up as it is read (/proc) goes on saying that it has none.
pub(super) async fn check_all_read(file: &tokio::fs::File, read: u64) -> io::Result<()> {
    let now = file.metadata().await?.len();
    if now == 0 || now == read {
        return Ok(());
    }
    Err(io::Error::new(io::ErrorKind::InvalidData, SourceChanged::Modified { before: read, now }))
}

/// Sends a file. Dropping the future aborts the upload.
pub(super) async fn send(
    file: Arc<SourceFile>,
    upload: Arc<Upload>,
    policy: Policy,
    budget: Budget,
) -> Result<Object> {
    let plan = Plan::new(upload.backend.capabilities(), policy.cut);
    let mut transfer = Transfer { file, upload, budget, plan, parts: JoinSet::new(), ended: false };
    let result = transfer.run(policy.in_flight).await;
    transfer.ended = true;
    if result.is_err() {
        let parts = std::mem::take(&mut transfer.parts);
        // The first error is the one to tell; one of the abort is logged where it happens.
        let _ = transfer.upload.abort(parts).await;
    }
    result
}

struct Transfer {
    file: Arc<SourceFile>,
    upload: Arc<Upload>,
    budget: Budget,
    plan: Plan,
    parts: JoinSet<Result<Receipt>>,
    ended: bool,
}

impl Transfer {
    async fn run(&mut self, in_flight: usize) -> Result<Object> {
        let size = self.file.size();
        let mut finished = false;
        loop {
            while let Some(action) = self.plan.next() {
                match action {
                    Action::Open => self.upload.open(),
                    Action::Part { number, range } => {
                        let payload = self.payload(range.start, range.end - range.start).await?;
                        // A turn that waits for the session would be in the way of the session's own.
                        self.upload.session().await?;
                        // This part's turn comes before the next part takes memory.
                        let permit = self.upload.requests.turn().await;
                        let upload = self.upload.clone();
                        self.parts.spawn_on(
                            async move { upload.part(number, range, payload, Some(permit)).await },
                            &self.upload.runtime,
                        );
                    }
                    Action::Put { size } => {
                        let payload = self.payload(0, size).await?;
                        return self.upload.put(payload).await;
                    }
                    Action::Complete { .. } => {
                        self.file.check_unchanged().map_err(|error| self.source_failed(error))?;
                        let (parts, checksum) = self.plan.parts();
                        return self.upload.complete(parts, checksum).await;
                    }
                }
            }
            while let Some(joined) = self.parts.try_join_next() {
                self.stored(joined)?;
            }
            let sent = self.plan.size();
            if sent < size && self.plan.outstanding() < in_flight {
                let refused = self.plan.more();
                refused.map_err(|error| {
                    self.upload.error(ErrorKind::TooLarge, Operation::Write, error.to_string())
                })?;
                // `more` may have cut a part, which is then in flight.
                if self.plan.outstanding() < in_flight {
                    let piece = self.plan.room().min(size - sent);
                    self.plan.push(piece);
                    self.upload.requests.progress.accepted(piece);
                }
            } else if sent == size && !finished {
                finished = true;
                self.plan.finish();
            } else if let Some(joined) = self.parts.join_next().await {
                self.stored(joined)?;
            }
        }
    }

    fn stored(&mut self, joined: Result<Result<Receipt>, tokio::task::JoinError>) -> Result<()> {
        let receipt = joined.unwrap_or_else(|ended| {
            let message = "the task of a part ended early";
            Err(self.upload.error(ErrorKind::Closed, Operation::Part, message).with_source(ended))
        })?;
        self.plan.stored(receipt);
        Ok(())
    }

    /// A range of the file as the body of a request. What fits in one slab is read now: its checksum
    /// goes ahead of it, and a retry need not read it again.
    async fn payload(&self, offset: u64, len: u64) -> Result<Payload> {
        let slab = self.budget.slab_size() as u64;
        let algorithm = self.upload.backend.capabilities().checksum;
        let lease = if len <= slab { len.max(1) } else { RING * slab };
        let waiting = self.upload.requests.progress.waiting(Waiting::Memory);
        let lease = self.budget.lease(lease).await;
        drop(waiting);
        let lease = lease.map_err(|starved| {
            self.upload.error(ErrorKind::Starved, Operation::Write, starved.to_string())
        })?;
        let streamed = Payload::from_file(self.file.clone(), offset, len, Ring::of(lease), algorithm);
        if len > slab {
            return Ok(streamed);
        }
        streamed.gather().await.map_err(|error| self.source_failed(error))
    }

    fn source_failed(&self, error: io::Error) -> Error {
        self.upload.error(ErrorKind::Source, Operation::Write, error.to_string()).with_source(error)
    }
}

impl Drop for Transfer {
    fn drop(&mut self) {
        if !self.ended {
            drop(self.upload.abort(std::mem::take(&mut self.parts)));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use tokio::io::AsyncReadExt;

    use super::*;

    #[tokio::test]
    async fn a_file_that_was_empty_is_to_be_read_whole() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        let mut source = tokio::fs::File::from_std(file.reopen().unwrap());
        let mut bytes = Vec::new();
        file.write_all(b"grown").unwrap();
        source.read_to_end(&mut bytes).await.unwrap();
        check_all_read(&source, 5).await.unwrap();
        file.write_all(b" and grown").unwrap();
        let changed = check_all_read(&source, 5).await.unwrap_err().to_string();
        assert!(changed.contains("had 5 bytes and has 15"), "{changed}");
        check_all_read(&tokio::fs::File::open("/proc/self/limits").await.unwrap(), 1000).await.unwrap();
    }
}
