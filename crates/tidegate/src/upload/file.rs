//! Uploads a file: its parts are streamed from disk, never gathered in memory (only what fits in one slab
//! is).

use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use tokio::sync::Mutex;
use tokio::task::JoinError;

use super::plan::{Action, Plan};
use super::state::{Done, Tasks, Upload};
use super::strategy::Policy;
use super::streamed::Streamed;
use crate::backend::Receipt;
use crate::memory::budget::Budget;
use crate::memory::payload::{Payload, SourceChanged, SourceFile};
use crate::types::error::{Error, ErrorKind, Operation, Result};
use crate::types::object::Object;

/// Opens the file at `path`, to be uploaded as `object`.
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

/// The error of a source of `object` that could not be read.
pub(super) fn unreadable(object: &str, error: io::Error) -> Error {
    Error::new(ErrorKind::Source, Operation::Write, object, error.to_string()).with_source(error)
}

/// Fails where a file that was empty when it was opened now has another size than the bytes that were `read`.
/// A file whose content the kernel generates on read (/proc) still reports no size, and passes.
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
    let source = Arc::new(Source { file, upload, budget, first: Mutex::default() });
    let mut transfer = Transfer { source, plan, tasks: Tasks::new(), commit: None, ended: false };
    let result = transfer.run(policy.in_flight).await;
    transfer.ended = true;
    if result.is_err() {
        let tasks = std::mem::take(&mut transfer.tasks);
        // The first error is reported; an error of the abort is logged where it happens.
        let _ = transfer.source.upload.abort(tasks).await;
    }
    result
}

/// The source of the bytes of each request.
struct Source {
    file: Arc<SourceFile>,
    upload: Arc<Upload>,
    budget: Budget,
    /// Held by the part that waits for memory and a limiter permit: one part at a time, in order.
    first: Mutex<()>,
}

struct Transfer {
    source: Arc<Source>,
    plan: Plan,
    /// Every wait for memory or a limiter permit is in a task: a future that is no longer polled must hold
    /// neither.
    tasks: Tasks,
    /// The operation that publishes the object, once it is in flight.
    commit: Option<Operation>,
    ended: bool,
}

impl Transfer {
    async fn run(&mut self, in_flight: usize) -> Result<Object> {
        let size = self.source.file.size();
        let mut finished = false;
        loop {
            while let Some(action) = self.plan.next() {
                match action {
                    Action::Open => self.source.upload.open(),
                    Action::Part { number, range } => {
                        let source = self.source.clone();
                        self.spawn(async move { source.part(number, range).await.map(Done::Stored) });
                    }
                    Action::Last { number, range } => {
                        let source = self.source.clone();
                        source.file.check_unchanged().map_err(|error| source.failed(error))?;
                        self.commit = Some(Operation::Complete);
                        self.spawn(async move { source.last(number, range).await.map(Done::published) });
                    }
                    Action::Put { size } => {
                        self.commit = Some(Operation::Put);
                        let source = self.source.clone();
                        self.spawn(async move {
                            let payload = source.payload(0, size).await?;
                            source.upload.put(payload).await.map(Done::published)
                        });
                    }
                    Action::Complete { .. } => {
                        let source = &self.source;
                        source.file.check_unchanged().map_err(|error| source.failed(error))?;
                        self.commit = Some(Operation::Complete);
                        let (upload, (parts, checksum)) = (source.upload.clone(), self.plan.parts());
                        self.spawn(
                            async move { upload.complete(parts, checksum).await.map(Done::published) },
                        );
                    }
                }
            }
            while let Some(joined) = self.tasks.try_join_next() {
                if let Some(object) = self.done(joined)? {
                    return Ok(object);
                }
            }
            let sent = self.plan.size();
            if sent < size && self.plan.outstanding() < in_flight {
                let refused = self.plan.more();
                refused.map_err(|error| {
                    self.source.upload.error(ErrorKind::TooLarge, Operation::Write, error.to_string())
                })?;
                // `more` may have cut a part, which is then in flight.
                if self.plan.outstanding() < in_flight {
                    let piece = self.plan.room().min(size - sent);
                    self.plan.push(piece);
                    self.source.upload.requests.progress.accepted(piece);
                }
            } else if sent == size && !finished {
                finished = true;
                self.plan.finish();
            } else if let Some(joined) = self.tasks.join_next().await
                && let Some(object) = self.done(joined)?
            {
                return Ok(object);
            }
        }
    }

    fn spawn(&mut self, task: impl Future<Output = Result<Done>> + Send + 'static) {
        self.tasks.spawn_on(task, &self.source.upload.runtime);
    }

    /// Takes in the result of a task; returns the object where it is published.
    fn done(&mut self, joined: Result<Result<Done>, JoinError>) -> Result<Option<Object>> {
        match joined.unwrap_or_else(|ended| Err(self.source.upload.ended_early(self.commit, ended)))? {
            Done::Stored(receipt) => self.plan.stored(receipt),
            Done::Published(object) => return Ok(Some(*object)),
        }
        Ok(None)
    }
}

impl Source {
    async fn part(&self, number: u32, range: Range<u64>) -> Result<Receipt> {
        self.upload.in_turn(number).await?;
        // This part gets its permit before the next part takes memory.
        let first = self.first.lock().await;
        let payload = self.payload(range.start, range.end - range.start).await?;
        // First the session, then the permit: the request that opens the session needs a permit too.
        self.upload.session().await?;
        let permit = self.upload.requests.turn().await;
        drop(first);
        self.upload.part(number, range, payload, Some(permit)).await
    }

    /// Sends the part that publishes the object.
    async fn last(&self, number: u32, range: Range<u64>) -> Result<Object> {
        self.upload.in_turn(number).await?;
        let payload = self.payload(range.start, range.end - range.start).await?;
        self.upload.append_last(number, range, payload, None).await
    }

    async fn payload(&self, offset: u64, len: u64) -> Result<Payload> {
        let streamed = Streamed { file: self.file.clone(), offset, len };
        streamed.payload(&self.upload, &self.budget).await
    }

    fn failed(&self, error: io::Error) -> Error {
        unreadable(&self.upload.requests.object, error)
    }
}

impl Drop for Transfer {
    fn drop(&mut self) {
        if !self.ended {
            drop(self.source.upload.abort(std::mem::take(&mut self.tasks)));
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
